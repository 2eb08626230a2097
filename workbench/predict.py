"""Classes and probabilities of image files, from a model that the workbench wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.data.images import decode_image
from workbench.modelfile import load_model, read_facts
from workbench.quiet import quiet_stderr

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
        model_path: a `.keras` file that `workbench train` wrote.
        images: decoded and resized as the data sets do it, see `workbench.data.images.decode_image`.

    Raises:
        DataError: the model or an image cannot be read; names the file.
    """
    height, _, channels = read_facts(model_path)["image_shape"]
    # Broken images are found before the slow import.
    first = decode_image(images[0], height, channels)
    with quiet_stderr():
        import keras

    model, facts = load_model(model_path)
    names = facts["class_names"]
    predictions = []
    for paths, batch in _batches(images, first, height, channels):
        outputs = model.predict_on_batch(batch.astype("float32") / 255.0)
        if facts["output"] == "logits":
            outputs = keras.ops.softmax(outputs)
        probabilities = np.asarray(keras.ops.convert_to_numpy(outputs), dtype="float32")
        predictions += [
            Prediction(image=path, class_names=names, probabilities=row)
            for path, row in zip(paths, probabilities, strict=True)
        ]
    return predictions


def _batches(
    images: Sequence[Path], first: np.ndarray, size: int, channels: int
) -> Iterator[tuple[Sequence[Path], np.ndarray]]:
    for start in range(0, len(images), BATCH_SIZE):
        paths = images[start : start + BATCH_SIZE]
        decoded = [first if path is images[0] else decode_image(path, size, channels) for path in paths]
        yield paths, np.stack(decoded)
