"""Your own photos: a folder for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_SIZE = 192
SPLIT_FOLDERS = {"train": ("train",), "validation": ("validation", "val", "valid"), "test": ("test",)}


@workbench.hookimpl
def workbench_datasets() -> list[workbench.Dataset]:
    """Gives `image_folder`."""
    return [
        workbench.Dataset(
            name="image_folder",
            summary="photos in a folder for each class, or in train, validation and test folders of such",
            source="Resized so that the shorter side is image_size (192 unless given), then cut to a "
            "square about the centre; grey to RGB; EXIF orientation applied. Splits that have no folder are "
            "cut from train, stratified.",
            options={
                "on_bad_image": '"error" (default): an image that cannot be decoded ends the command; '
                '"skip": it is left out, with a warning that counts such images'
            },
            open=_open,
        )
    ]


def _open(request: workbench.DatasetRequest) -> workbench.DatasetSource:
    from workbench.data.folders import class_folders, folder_source
    from workbench.data.sources import choice, contents, existing

    on_bad_image = choice(request.options, "on_bad_image", ("error", "skip"), "error")
    data_dir = existing(request.data_dir, "image_folder")
    if not data_dir.is_dir():
        raise workbench.DataError(f"data set 'image_folder' needs a folder of class folders; {data_dir} is a file")
    folders = _split_folders(data_dir)
    if not folders:
        folders = {"train": data_dir}
    class_names = [path.name for path in class_folders(folders["train"])]
    if len(class_names) < 2:
        raise workbench.DataError(
            f"data set 'image_folder' needs at least 2 class folders in {folders['train']}, or train, "
            f"validation and test folders of class folders; {contents(data_dir)}"
        )
    return folder_source(
        folders,
        splits={split: (split,) for split in folders},
        class_names=class_names,
        image_size=request.image_size or DEFAULT_SIZE,
        on_bad_image=on_bad_image,
    )


def _split_folders(data_dir: Path) -> dict[str, Path]:
    if not (data_dir / "train").is_dir():
        return {}
    found = {}
    for split, names in SPLIT_FOLDERS.items():
        present = [data_dir / name for name in names if (data_dir / name).is_dir()]
        if len(present) > 1:
            raise workbench.DataError(
                f"{data_dir} has several folders for the {split} split: "
                f"{', '.join(path.name for path in present)}; keep one"
            )
        if present:
            found[split] = present[0]
    return found
