"""NumPy arrays in an .npz file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

PARTS = ("train", "validation", "test")


@workbench.hookimpl
def workbench_datasets() -> list[workbench.Dataset]:
    """Gives `arrays`."""
    return [
        workbench.Dataset(
            name="arrays",
            summary="an .npz file of arrays x_train, y_train and, optionally, validation and test ones",
            source="The layout of Keras's mnist.npz. Images uint8, or float in [0, 1] (rounded to 256 "
            "levels), (examples, height, width[, channels]) with 1 or 3 channels; labels int, (examples,) or "
            "(examples, 1). Splits without arrays are cut from train, stratified.",
            options={"class_names": "the classes by index; by default the file's array class_names, or else 0, 1, ..."},
            open=_open,
        )
    ]


def _open(request: workbench.DatasetRequest) -> workbench.DatasetSource:
    from workbench.data.sources import existing, names, signature

    path = _find_file(existing(request.data_dir, "arrays"))
    arrays = _Arrays(path)
    parts = [part for part in PARTS if f"x_{part}" in arrays.names or f"y_{part}" in arrays.names]
    if "train" not in parts:
        raise workbench.DataError(
            f"{path}: needs the arrays x_train and y_train; it has {', '.join(arrays.names) or 'none'}"
        )
    labels = {part: arrays.labels(part) for part in parts}
    shapes = {part: arrays.image_shape(part, len(labels[part])) for part in parts}
    for part in parts:
        if shapes[part] != shapes["train"]:
            raise workbench.DataError(
                f"{path}: images of x_{part} are {shapes[part]} where those of x_train are {shapes['train']} "
                "(height, width, channels)"
            )
    class_names = names(request.options, "class_names") or arrays.class_names(labels)
    _check_labels(path, labels, class_names)
    height, width, channels = shapes["train"]
    size = request.image_size

    def read() -> Iterator[workbench.ExampleBatch]:
        for part in parts:
            yield from _batches(part, arrays.images(part), labels[part], size)

    return workbench.DatasetSource(
        class_names=class_names,
        image_shape=(size or height, size or width, channels),
        parts={part: (part,) for part in parts},
        signature=signature([path]),
        count=sum(len(values) for values in labels.values()),
        read=read,
    )


def _find_file(data_dir: Path) -> Path:
    from workbench.data.sources import contents, files_matching

    if data_dir.is_file():
        return data_dir
    files = files_matching(data_dir, "*.npz")
    if len(files) != 1:
        raise workbench.DataError(
            f"data set 'arrays' needs one .npz file: pass it as --data-dir FILE; {contents(data_dir)}"
        )
    return files[0]


def _check_labels(path: Path, labels: dict[str, np.ndarray], class_names: tuple[str, ...]) -> None:
    for part, values in labels.items():
        outside = (values < 0) | (values >= len(class_names))
        if outside.any():
            at = int(outside.argmax())
            raise workbench.DataError(
                f"{path}: labels must be 0 to {len(class_names) - 1}, as there are {len(class_names)} "
                f"classes; received {values[at]} in y_{part}[{at}]"
            )


def _batches(
    part: str, images: np.ndarray, labels: np.ndarray, image_size: int | None
) -> Iterator[workbench.ExampleBatch]:
    import numpy as np

    from workbench.data.images import resize_image
    from workbench.data.sources import CHUNK

    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK]
        if chunk.dtype != np.uint8:
            chunk = np.rint(chunk * 255.0).astype(np.uint8)
        yield workbench.ExampleBatch(
            part=part,
            images=np.stack([resize_image(image, image_size) for image in chunk]),
            labels=labels[start : start + CHUNK].astype(np.int32),
        )


class _Arrays:
    """An .npz file, each message naming the file and the array."""

    def __init__(self, path: Path):
        import zipfile

        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self.names = [name.removesuffix(".npy") for name in archive.namelist()]
        except (OSError, zipfile.BadZipFile) as error:
            raise workbench.DataError(f"{path}: no .npz file, or a broken one ({error})") from error

    def labels(self, part: str) -> np.ndarray:
        import numpy as np

        values = self._load(f"y_{part}")
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise workbench.DataError(
                f"{self.path}: y_{part} must be integers of shape (examples,) or (examples, 1); "
                f"received {values.dtype} of shape {values.shape}"
            )
        return values

    def image_shape(self, part: str, examples: int) -> tuple[int, int, int]:
        """(height, width, channels), from the array's header alone."""
        shape, dtype = self._header(f"x_{part}")
        where = f"{self.path}: x_{part}"
        if dtype != "uint8" and not dtype.startswith("float"):
            raise workbench.DataError(f"{where} must be uint8, or float in [0, 1]; received {dtype}")
        if len(shape) not in (3, 4):
            raise workbench.DataError(
                f"{where} must have the shape (examples, height, width) or (examples, height, width, "
                f"channels); received {shape}"
            )
        channels = shape[3] if len(shape) == 4 else 1
        if channels not in (1, 3):
            raise workbench.DataError(f"{where} must have 1 or 3 channels, the last axis; received {shape}")
        if shape[0] != examples:
            raise workbench.DataError(f"{where} has {shape[0]} images but y_{part} has {examples} labels")
        return shape[1], shape[2], channels

    def images(self, part: str) -> np.ndarray:
        """`(examples, height, width, channels)`, uint8 or float in [0, 1]."""
        import numpy as np

        values = self._load(f"x_{part}")
        if values.dtype != np.uint8 and values.size:
            low, high = float(values.min()), float(values.max())
            # Written so that NaN fails too.
            if not (low >= 0.0 and high <= 1.0):
                raise workbench.DataError(
                    f"{self.path}: x_{part} is {values.dtype} and must be in [0, 1]; it is in [{low:g}, "
                    f"{high:g}]: store it as uint8, 0 to 255, or scale it"
                )
        return values if values.ndim == 4 else values[..., None]

    def class_names(self, labels: dict[str, np.ndarray]) -> tuple[str, ...]:
        if "class_names" in self.names:
            return tuple(str(name) for name in self._load("class_names").ravel())
        return tuple(str(index) for index in range(max(int(values.max(initial=0)) for values in labels.values()) + 1))

    def _load(self, name: str) -> np.ndarray:
        import zipfile
        import zlib

        import numpy as np

        if name not in self.names:
            raise workbench.DataError(f"{self.path}: needs the array {name}; it has {', '.join(self.names)}")
        try:
            with np.load(self.path, allow_pickle=False) as file:
                return file[name]
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise workbench.DataError(f"{self.path}: the array {name} cannot be read ({error})") from error

    def _header(self, name: str) -> tuple[tuple[int, ...], str]:
        import zipfile

        from numpy.lib import format as npy

        if name not in self.names:
            raise workbench.DataError(f"{self.path}: needs the array {name}; it has {', '.join(self.names)}")
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as member:
                version = npy.read_magic(member)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(member)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise workbench.DataError(f"{self.path}: the array {name} cannot be read ({error})") from error
        return shape, str(dtype)
