"""The embedded data set: scikit-learn's handwritten digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench

if TYPE_CHECKING:
    from collections.abc import Iterator


@workbench.hookimpl
def workbench_datasets() -> list[workbench.Dataset]:
    """Gives `digits`."""
    return [
        workbench.Dataset(
            name="digits",
            summary="1,797 handwritten digits, 8x8 grey, shipped with scikit-learn: no files, no network",
            source="UCI 'Optical Recognition of Handwritten Digits', test part, as load_digits gives it; "
            "levels 0 to 16 are scaled to 0 to 255. No splits of its own: 15 % test, 15 % validation.",
            open=_open,
            needs_data_dir=False,
        )
    ]


def _open(request: workbench.DatasetRequest) -> workbench.DatasetSource:
    size = request.image_size or 8

    def read() -> Iterator[workbench.ExampleBatch]:
        import numpy as np
        from sklearn.datasets import load_digits

        from workbench.data.images import resize_image

        digits = load_digits()
        images = np.rint(digits.images[..., None] * (255 / 16)).astype(np.uint8)
        yield workbench.ExampleBatch(
            part="all",
            images=np.stack([resize_image(image, size) for image in images]),
            labels=digits.target.astype(np.int32),
        )

    return workbench.DatasetSource(
        class_names=tuple("0123456789"),
        image_shape=(size, size, 1),
        parts={"train": ("all",)},
        signature="scikit-learn digits",
        count=1797,
        read=read,
    )
