"""Classes and probabilities of image files, from a model that the workbench wrote."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.data.folders import IMAGE_SUFFIXES
from workbench.data.images import decode_image
from workbench.data.sources import contents, map_in_order
from workbench.errors import DataError
from workbench.exports.predictors import open_predictor

BATCH_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of one image.

    Attributes:
        probabilities: float32 `(classes,)`, in the order of `class_names`.
    """

    image: Path
    class_names: Sequence[str]
    probabilities: np.ndarray

    def best(self, count: int) -> list[tuple[str, float]]:
        """The most probable classes, best first."""
        order = np.argsort(-self.probabilities, kind="stable")[:count]
        return [(self.class_names[index], float(self.probabilities[index])) for index in order]

    def as_dict(self, count: int) -> dict[str, Any]:
        """For JSON."""
        classes = [{"class": name, "probability": probability} for name, probability in self.best(count)]
        return {"image": str(self.image), "classes": classes}


def predict_images(model_path: Path, images: Sequence[Path]) -> list[Prediction]:
    """Predicts image files of any format and size.

    Args:
        model_path: see `stream_predictions`.
        images: likewise.

    Raises:
        DataError: the model or an image cannot be read; names the file.
    """
    return [row for batch in stream_predictions(model_path, images) for row in batch]


def stream_predictions(
    model_path: Path, images: Iterable[Path], on_bad_image: Callable[[DataError], None] | None = None
) -> Iterator[list[Prediction]]:
    """Predicts image files batch by batch; holds two batches in memory, however many images there are.

    Args:
        model_path: a `.keras` file that `workbench train` wrote, or a `.keras`, `.tflite`, `.onnx` or SavedModel of
            `workbench export`.
        images: decoded and resized as the data sets do it, see `workbench.data.images.decode_image`.
        on_bad_image: told of each image that cannot be read, which is then left out; None raises.

    Yields:
        The predictions of `BATCH_SIZE` images, in order; fewer where some were left out.

    Raises:
        DataError: the model or an image cannot be read; names the file.
    """
    predict = open_predictor(model_path)
    size, _, channels = predict.facts["image_shape"]

    def decode(path: Path) -> np.ndarray | DataError:
        try:
            return decode_image(path, size, channels)
        except DataError as error:
            return error

    # Broken images are found before the slow import, as the model is loaded with the first batch.
    for paths, decoded in map_in_order(decode, _batches(images)):
        good = []
        for path, image in zip(paths, decoded, strict=True):
            if not isinstance(image, DataError):
                good.append((path, image))
            elif on_bad_image is None:
                raise image
            else:
                on_bad_image(image)
        if good:
            probabilities = predict(np.stack([image for _, image in good]))
            yield [
                Prediction(image=path, class_names=predict.facts["class_names"], probabilities=row)
                for (path, _), row in zip(good, probabilities, strict=True)
            ]


def find_images(names: Iterable[Path]) -> list[Path]:
    """The image files that are named: a folder gives those in it and below, by path, a pattern those that match.

    Raises:
        DataError: a folder has no images, or a pattern matches nothing.
    """
    found: list[Path] = []
    for name in names:
        if name.is_dir():
            inside = [path for path in sorted(name.rglob("*")) if _is_image(path)]
            if not inside:
                endings = ", ".join(IMAGE_SUFFIXES)
                raise DataError(f"{name}: no images in this folder (looked for {endings}); {contents(name)}")
            found += inside
        elif not name.exists() and glob.has_magic(str(name)):
            matches = [Path(match) for match in sorted(glob.glob(str(name), recursive=True))]  # noqa: PTH207 (absolute patterns)
            if not matches:
                raise DataError(f"{name}: no file matches this pattern")
            found += [path for path in matches if not path.is_dir()]
        else:
            found.append(name)
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".") and not path.is_dir()


def _batches(images: Iterable[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    for path in images:
        batch.append(path)
        if len(batch) == BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch
