"""Trained models, read back: one interface whatever the format."""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import DataError, UsageError
from workbench.exports.formats import FACTS_FILE, FACTS_KEY, ONNX_INSTALL, architecture_file
from workbench.modelfile import load_model, read_facts
from workbench.quiet import quiet_stderr

Images = npt.NDArray[np.uint8]
Probabilities = npt.NDArray[np.float32]


class Predictor(ABC):
    """A model file that predicts; opening it reads what is known of it, the first prediction loads it.

    Attributes:
        path: the file or folder.
        facts: what was stored with it; at least `class_names` and `image_shape`.
    """

    def __init__(self, path: Path):
        self.path = path
        self.facts = self._read_facts()
        self._call: Callable[[Images], Any] | None = None

    def __call__(self, images: Images) -> Probabilities:
        """Probabilities of a batch.

        Args:
            images: uint8 `(batch, height, width, channels)` of the model's image shape.

        Returns:
            float32 `(batch, classes)`.

        Raises:
            DataError: the model cannot be loaded.
        """
        if self._call is None:
            self._call = self._load()
        return np.asarray(self._call(images), dtype=np.float32)

    @abstractmethod
    def _read_facts(self) -> dict[str, Any]: ...

    @abstractmethod
    def _load(self) -> Callable[[Images], Any]: ...

    def _broken(self, error: Exception) -> DataError:
        return DataError(f"{self.path}: this model cannot be loaded ({' '.join(str(error).split())[:300]})")


class _Keras(Predictor):
    def _read_facts(self) -> dict[str, Any]:
        return read_facts(self.path)

    def _load(self) -> Callable[[Images], Any]:
        with quiet_stderr():
            import keras
        model, facts = load_model(self.path)
        takes_bytes, gives_logits = facts.get("input") == "uint8", facts["output"] == "logits"

        def call(images: Images) -> Any:
            found = model.predict_on_batch(images if takes_bytes else images.astype(np.float32) / np.float32(255))
            return keras.ops.convert_to_numpy(keras.ops.softmax(found)) if gives_logits else found

        return call


class _SavedModel(Predictor):
    def _read_facts(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.path / FACTS_FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise _not_ours(self.path, f"the folder has no {FACTS_FILE}") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path / FACTS_FILE}: cannot be read ({error}); export the model again") from error

    def _load(self) -> Callable[[Images], Any]:
        with quiet_stderr():
            import tensorflow as tf
        try:
            loaded = tf.saved_model.load(str(self.path))
            signature = loaded.signatures["serving_default"]
        except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
            raise self._broken(error) from error

        def call(images: Images) -> Any:
            # `loaded` must outlive its signature.
            assert loaded is not None
            return signature(images=tf.constant(images))["probabilities"].numpy()

        return call


class _TFLite(Predictor):
    def _read_facts(self) -> dict[str, Any]:
        return read_facts(self.path)

    def _load(self) -> Callable[[Images], Any]:
        with quiet_stderr():
            import tensorflow as tf
        try:
            with warnings.catch_warnings(), quiet_stderr():
                # TensorFlow 2.21 points to its successor, the package ai-edge-litert.
                warnings.filterwarnings("ignore", message=r"\s*Warning: tf.lite.Interpreter is deprecated")
                interpreter = tf.lite.Interpreter(str(self.path))
                interpreter.allocate_tensors()
            runner = interpreter.get_signature_runner()
        except (OSError, ValueError, RuntimeError) as error:
            raise self._broken(error) from error
        return lambda images: runner(images=images)["probabilities"]


class _ONNX(Predictor):
    def _read_facts(self) -> dict[str, Any]:
        try:
            import onnxruntime
        except ImportError:
            raise UsageError(
                f"{self.path}: an ONNX model needs onnxruntime, not installed here; get it with: {ONNX_INSTALL}"
            ) from None
        if not self.path.is_file():
            raise DataError(f"{self.path}: no such model file")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
            stored = self._session.get_modelmeta().custom_metadata_map.get(FACTS_KEY)
        except Exception as error:
            # The runtime's exceptions have no base class of their own.
            raise self._broken(error) from error
        if stored is None:
            raise _not_ours(self.path, f"its metadata have no {FACTS_KEY!r}")
        return dict(json.loads(stored))

    def _load(self) -> Callable[[Images], Any]:
        return lambda images: self._session.run(["probabilities"], {"images": images})[0]


class _Weights(Predictor):
    """For the check of an export; its facts are the caller's, the file has none."""

    def __init__(self, path: Path, facts: Mapping[str, Any]):
        self._given = dict(facts)
        super().__init__(path)

    def _read_facts(self) -> dict[str, Any]:
        return self._given

    def _load(self) -> Callable[[Images], Any]:
        import keras

        from workbench.exports.inference import reference_probabilities

        network = keras.models.model_from_json(architecture_file(self.path).read_text(encoding="utf-8"))
        network.load_weights(self.path)
        return lambda images: reference_probabilities(network, self.facts["output"], images)


def open_predictor(path: Path) -> Predictor:
    """Opens a model that the workbench wrote: .keras, .tflite, .onnx, or the folder of a SavedModel.

    Reads what is known of the model; imports TensorFlow with the first prediction only, for ONNX never.

    Raises:
        DataError: there is none, or it cannot be read; UsageError: its runtime is not installed.
    """
    if path.name.endswith(".weights.h5"):
        raise DataError(f"{path}: weights alone cannot predict; use a model of another format, such as .keras")
    if path.is_dir():
        return _SavedModel(path)
    return {".tflite": _TFLite, ".onnx": _ONNX}.get(path.suffix, _Keras)(path)


def open_written(format_name: str, path: Path, facts: Mapping[str, Any]) -> Predictor:
    """An export, opened again to be checked."""
    return _Weights(path, facts) if format_name == "weights" else open_predictor(path)


def _not_ours(path: Path, why: str) -> DataError:
    return DataError(
        f"{path}: {why}, so its class names are not known; use a model that "
        "`workbench train` or `workbench export` wrote"
    )
