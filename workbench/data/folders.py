"""Reading images from folders of class folders."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np

from workbench.components import DatasetSource, ExampleBatch
from workbench.data.images import decode_image
from workbench.data.sources import CHUNK, contents, map_in_order, signature
from workbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    _File = tuple[str, Path, int]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
"""Files with other endings are no images and are left alone."""


def class_folders(folder: Path) -> list[Path]:
    """The folders in a folder, by name; hidden ones left out."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def folder_source(
    folders: Mapping[str, Path],
    *,
    splits: Mapping[str, Sequence[str]],
    class_names: Sequence[str],
    image_size: int,
    on_bad_image: Literal["error", "skip"] = "error",
) -> DatasetSource:
    """A source that reads `FOLDER/CLASS/**/IMAGE` by class and path, as `(image_size, image_size, 3)`.

    Args:
        folders: by part.
        splits: which parts make up each split.
        class_names: by label index.
        image_size: height and width in pixels.
        on_bad_image: whether an image that cannot be decoded is an error, or is left out with a warning that
            counts such images.

    Raises:
        DataError: no images, a class folder without any, or a folder that is no class.
    """
    class_names = tuple(class_names)
    files = [file for part, folder in folders.items() for file in _find_images(part, folder, class_names)]

    def decode(file: _File) -> npt.NDArray[np.uint8] | DataError:
        try:
            return decode_image(file[1], image_size, 3)
        except DataError as error:
            if on_bad_image == "error":
                raise
            return error

    def read() -> Iterator[ExampleBatch]:
        bad: list[DataError] = []
        for chunk, decoded in map_in_order(decode, _chunks(files)):
            bad += [image for image in decoded if isinstance(image, DataError)]
            good = [
                (image, label)
                for image, (_, _, label) in zip(decoded, chunk, strict=True)
                if not isinstance(image, DataError)
            ]
            if good:
                images, labels = zip(*good, strict=True)
                yield ExampleBatch(part=chunk[0][0], images=np.stack(images), labels=np.array(labels, dtype=np.int32))
        if bad:
            warnings.warn(f"{len(bad)} of {len(files)} images were skipped; the first: {bad[0]}", stacklevel=2)

    return DatasetSource(
        class_names=class_names,
        image_shape=(image_size, image_size, 3),
        parts=splits,
        signature=signature((path for _, path, _ in files), [part for part, _, _ in files], on_bad_image),
        count=len(files),
        read=read,
    )


def _find_images(part: str, folder: Path, class_names: Sequence[str]) -> list[_File]:
    found = [path.name for path in class_folders(folder)]
    unknown = sorted(set(found) - set(class_names))
    if unknown:
        raise DataError(
            f"{folder / unknown[0]}: the folder is none of the classes {', '.join(class_names)}; rename or remove it"
        )
    files = []
    for label, name in enumerate(class_names):
        images = sorted(
            path
            for path in (folder / name).rglob("*")
            if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".") and path.is_file()
        )
        # A held-out split may lack a rare class; a class folder that is there must have images.
        if not images and name in found:
            raise DataError(
                f"{folder / name}: no images in this class folder (looked for {', '.join(IMAGE_SUFFIXES)}); "
                f"{contents(folder / name)}"
            )
        files += [(part, path, label) for path in images]
    if not files:
        raise DataError(f"{folder}: no images; expected a folder for each class with images in it; {contents(folder)}")
    return files


def _chunks(files: Sequence[_File]) -> Iterator[list[_File]]:
    chunk: list[_File] = []
    for file in files:
        # A batch of examples is from one part.
        if chunk and (len(chunk) == CHUNK or chunk[0][0] != file[0]):
            yield chunk
            chunk = []
        chunk.append(file)
    if chunk:
        yield chunk
