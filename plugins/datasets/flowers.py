"""The flower photos of the codelab, from its TFRecord files or from the photo archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from pathlib import Path

CLASS_NAMES = ("daisy", "dandelion", "roses", "sunflowers", "tulips")
NATIVE_SIZE = 192
FILES = 16


@workbench.hookimpl
def workbench_datasets() -> list[workbench.Dataset]:
    """Gives `flowers`."""
    return [
        workbench.Dataset(
            name="flowers",
            summary="3,670 photos of 5 kinds of flowers, 192x192: the published split, or one with a test",
            source="Google codelab 'Modern convnets, squeezenet, Xception, with Keras and TPUs': 16 files, "
            "gs://flowers-public/tfrecords-jpeg-192x192-2/*.tfrec, 13 to train and 3 to validate. Also read "
            "from the unpacked archive of the photos, flower_photos.tgz.",
            options={
                "split": '"default" (TFRecords: first 11 files train, next 2 validation, last 3 test; photo '
                'archive: 70 % train, 15 % validation, 15 % test) or "published" (TFRecords only: first 13 '
                "files train, last 3 validation, no test)"
            },
            open=_open,
        )
    ]


def _open(request: workbench.DatasetRequest) -> workbench.DatasetSource:
    from workbench.data.folders import folder_source
    from workbench.data.records import record_source
    from workbench.data.sources import choice, contents, existing, files_matching

    split = choice(request.options, "split", ("default", "published"), "default")
    size = request.image_size or NATIVE_SIZE
    data_dir = existing(request.data_dir, "flowers")
    folders = [data_dir / "flowers", data_dir / "flower_photos", data_dir]
    for folder in folders:
        files = files_matching(folder, "flowers*.tfrec")
        if files:
            return record_source(
                _all_files(files, folder),
                # A part a file: both splits then share one decoded cache.
                [path.stem for path in files],
                splits=_splits([path.stem for path in files], split),
                class_names=CLASS_NAMES,
                image_size=size,
                cuts=(),
                count=3670,
            )
        if all((folder / name).is_dir() for name in CLASS_NAMES):
            if split == "published":
                raise workbench.DataError(
                    f"dataset.split = 'published' is a split by TFRecord files, and {folder} is the photo "
                    "archive: use split = 'default', or the files flowers*.tfrec"
                )
            return folder_source({"all": folder}, splits={"train": ("all",)}, class_names=CLASS_NAMES, image_size=size)
    raise workbench.DataError(
        "data set 'flowers' needs the files flowers*.tfrec or the class folders "
        f"{', '.join(CLASS_NAMES)} in {', '.join(map(str, folders[:-1]))} or {folders[-1]}; "
        f"{contents(data_dir)}"
    )


def _all_files(files: list[Path], folder: Path) -> list[Path]:
    if len(files) != FILES:
        raise workbench.DataError(
            f"data set 'flowers' is split by its {FILES} files flowers*.tfrec; {folder} has "
            f"{len(files)}: fetch the rest"
        )
    return files


def _splits(parts: list[str], split: str) -> dict[str, list[str]]:
    if split == "published":
        return {"train": parts[:13], "validation": parts[13:]}
    return {"train": parts[:11], "validation": parts[11:13], "test": parts[13:]}
