"""CIFAR-10, from TFRecord files or from the download that Keras knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NATIVE_SIZE = 32


@workbench.hookimpl
def workbench_datasets() -> list[workbench.Dataset]:
    """Gives `cifar10`."""
    return [
        workbench.Dataset(
            name="cifar10",
            summary="60,000 photos 32x32 of 10 classes: 45,000 train, 5,000 validation, 10,000 test",
            source="Krizhevsky 2009, 'Learning Multiple Layers of Features from Tiny Images'. Read from "
            "cifar10/train*.tfrec and test*.tfrec under --data-dir (features image, class, label), else "
            "downloaded by keras.datasets.cifar10. The 10 % for validation are cut from its 50,000 to train.",
            open=_open,
            needs_data_dir=False,
        )
    ]


def _open(request: workbench.DatasetRequest) -> workbench.DatasetSource:
    size = request.image_size or NATIVE_SIZE
    if request.data_dir is None:
        return _download(size)
    from workbench.data.records import record_source

    train, test = _find_files(request.data_dir)
    return record_source(
        [*train, *test],
        ["train"] * len(train) + ["test"] * len(test),
        splits={"train": ("train",), "test": ("test",)},
        class_names=CLASS_NAMES,
        image_size=size,
        count=60_000,
    )


def _find_files(data_dir: Path) -> tuple[list[Path], list[Path]]:
    from workbench.data.sources import contents, existing, files_matching

    existing(data_dir, "cifar10")
    folders = [data_dir / "cifar10", data_dir]
    for folder in folders:
        train, test = files_matching(folder, "train*.tfrec"), files_matching(folder, "test*.tfrec")
        if train and test:
            return train, test
        if train or test:
            raise workbench.DataError(
                f"data set 'cifar10' needs train*.tfrec and test*.tfrec; {folder} has only the "
                f"{'former' if train else 'latter'}"
            )
    raise workbench.DataError(
        f"data set 'cifar10' needs train*.tfrec and test*.tfrec in {folders[0]} or {folders[1]}; "
        f"{contents(data_dir)}. Without --data-dir, Keras downloads it"
    )


def _download(size: int) -> workbench.DatasetSource:
    def read() -> Iterator[workbench.ExampleBatch]:
        import numpy as np

        from workbench.data.images import resize_image
        from workbench.data.sources import CHUNK

        for part, (images, labels) in zip(("train", "test"), _load(), strict=True):
            for start in range(0, len(images), CHUNK):
                chunk = slice(start, start + CHUNK)
                yield workbench.ExampleBatch(
                    part=part,
                    images=np.stack([resize_image(image, size) for image in images[chunk]]),
                    labels=labels[chunk].ravel().astype(np.int32),
                )

    return workbench.DatasetSource(
        class_names=CLASS_NAMES,
        image_shape=(size, size, 3),
        parts={"train": ("train",), "test": ("test",)},
        signature="keras.datasets.cifar10",
        count=60_000,
        read=read,
    )


def _load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    import keras

    try:
        return keras.datasets.cifar10.load_data()
    except Exception as error:
        # Keras raises a bare Exception for a failed download, others for a broken file.
        raise workbench.DataError(
            f"CIFAR-10 could not be downloaded by Keras ({str(error).strip() or type(error).__name__}); "
            "pass --data-dir FOLDER, with cifar10/train*.tfrec and cifar10/test*.tfrec in it, or try again"
        ) from error
