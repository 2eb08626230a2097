"""The network as others use it: uint8 images in, probabilities out, nothing random left in between."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

INPUT, OUTPUT = "images", "probabilities"
"""The names of input and output in every format that names them."""

BATCH_SIZE = 32
"""Images that a reference prediction takes at once; their count need not be a multiple."""


def bare_network(model: keras.Model) -> keras.Model:
    """The same layers and weights without optimizer, loss and metrics, whose classes a reader may not have."""
    return keras.Model(model.inputs, model.outputs[0], name=model.name)


def inference_model(network: keras.Model, output: str) -> keras.Model:
    """A network with its preprocessing in front and its softmax behind, fixed to inference.

    Args:
        network: float32 images `(batch, height, width, channels)` in [0, 1] to `(batch, classes)`.
        output: what the network returns: "probabilities" or "logits".

    Returns:
        uint8 images `(batch, height, width, channels)` to float32 probabilities `(batch, classes)`.
    """
    images = keras.Input(network.input_shape[1:], dtype="uint8", name=INPUT)
    found = network(_pixels(images), training=False)
    activation = "softmax" if output == "logits" else "linear"
    found = keras.layers.Activation(activation, dtype="float32", name=OUTPUT)(found)
    return keras.Model(images, found, name="classifier")


def _pixels(images: Any) -> Any:
    """uint8 to float32 in [0, 1], for every value the float32 next to value / 255, as the input pipeline has it.

    A plain division by 255 is not kept: graph optimisers and converters turn it into a product with the rounded
    1 / 255, which is off by one unit in the last place for 126 of the 256 values. Here 1 / 255 is the sum of
    257 / 65536, whose product with a byte is exact, and 1 / (255 * 65536). It is written as a difference since
    optimisers would draw the common factor out of a sum and add the constants.
    """
    levels = keras.ops.cast(images, "float32")
    return levels * (257 / 65536) - levels * (-1 / (255 * 65536))


def reference_probabilities(
    network: keras.Model, output: str, images: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    """What the network itself says, with preprocessing and softmax in NumPy.

    Args:
        network: see `inference_model`.
        output: likewise.
        images: uint8 `(images, height, width, channels)`.

    Returns:
        float32 `(images, classes)`.
    """
    batches = [
        np.asarray(network.predict_on_batch(images[start : start + BATCH_SIZE].astype(np.float32) / np.float32(255)))
        for start in range(0, len(images), BATCH_SIZE)
    ]
    found = np.concatenate(batches).astype(np.float64)
    if output == "logits":
        powers = np.exp(found - found.max(axis=1, keepdims=True))
        found = powers / powers.sum(axis=1, keepdims=True)
    return found.astype(np.float32)
