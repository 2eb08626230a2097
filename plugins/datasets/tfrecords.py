"""Your own TFRecord files of the published schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

DEFAULT_GLOBS = {"train": ("train*",), "validation": ("validation*", "val*"), "test": ("test*",)}


@workbench.hookimpl
def workbench_datasets() -> list[workbench.Dataset]:
    """Gives `tfrecords`."""
    return [
        workbench.Dataset(
            name="tfrecords",
            summary="TFRecord files with the features image (JPEG or PNG), class (int) and label (name)",
            source="The schema of the Google codelab's flower records. Images must be of one size unless "
            "image_size is given. Splits without files are cut from train, stratified.",
            options={
                "train": "glob of the files to train on, or a list of globs; default train*",
                "validation": "the same for validation; default validation*, or else val*; false: cut from train",
                "test": "the same for the test; default test*; false: cut from train",
                "class_names": "the classes by index; by default the records' labels, "
                "which reads all records at every start",
            },
            open=_open,
        )
    ]


def _open(request: workbench.DatasetRequest) -> workbench.DatasetSource:
    from workbench.data.records import record_source
    from workbench.data.sources import existing, names

    data_dir = existing(request.data_dir, "tfrecords")
    if not data_dir.is_dir():
        raise workbench.DataError(f"data set 'tfrecords' needs a folder of TFRecord files; {data_dir} is a file")
    files: list[Path] = []
    parts: list[str] = []
    for split in DEFAULT_GLOBS:
        found = _find_files(data_dir, split, request.options)
        twice = sorted(set(found) & set(files))
        if twice:
            raise workbench.DataError(
                f"{twice[0]} belongs to {parts[files.index(twice[0])]} and to {split}: set the globs "
                "dataset.train, dataset.validation and dataset.test so that each file is in one split"
            )
        files += found
        parts += [split] * len(found)
    return record_source(
        files,
        parts,
        splits={split: (split,) for split in dict.fromkeys(parts)},
        class_names=names(request.options, "class_names"),
        image_size=request.image_size,
    )


def _find_files(data_dir: Path, split: str, options: Mapping[str, Any]) -> list[Path]:
    from workbench.data.sources import contents, files_matching

    wanted = options.get(split)
    if wanted is False and split != "train":
        return []
    globs = [wanted] if isinstance(wanted, str) else wanted
    if globs is not None and not (isinstance(globs, list | tuple) and all(isinstance(glob, str) for glob in globs)):
        raise workbench.DataError(f"dataset.{split} must be a glob or a list of globs; received {wanted!r}")
    if globs is None:
        found = next((files for glob in DEFAULT_GLOBS[split] if (files := files_matching(data_dir, glob))), [])
        optional = split != "train"
    else:
        found = sorted({path for glob in globs for path in files_matching(data_dir, glob)})
        optional = False
    if not found and not optional:
        raise workbench.DataError(
            f"data set 'tfrecords': no files match dataset.{split} = "
            f"{wanted if wanted is not None else DEFAULT_GLOBS[split][0]!r} in {data_dir}; "
            f"{contents(data_dir)}"
        )
    return found
