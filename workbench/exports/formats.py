"""The formats: their endings, how each is written, and how far its predictions may be from Keras's."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError, WorkError, near_names
from workbench.modelfile import add_facts, save_model
from workbench.quiet import quiet_stderr

if TYPE_CHECKING:
    import keras

FACTS_FILE = "workbench.json"
"""In a SavedModel's folder; the key of an ONNX model's metadata is its stem."""

FACTS_KEY = "workbench"

ONNX_INSTALL = "pip install 'convnet-search-workbench[export]'"

Facts = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format.

    Attributes:
        title: for people.
        ending: of its files; empty for a folder.
        tolerance: the largest absolute difference of a probability from Keras's own that is let pass.
        write: `(network, classifier, path, facts)`; the network takes pixels in [0, 1], the classifier uint8.
        needs: modules that it cannot be written without.
        input: what the file takes: "uint8", or "pixels" in [0, 1].
    """

    title: str
    ending: str
    tolerance: float
    write: Callable[[keras.Model, keras.Model, Path, Facts], None]
    needs: tuple[str, ...] = ()
    input: str = "uint8"


def _write_keras(network: keras.Model, classifier: keras.Model, path: Path, facts: Facts) -> None:
    save_model(classifier, path, facts)


def _write_weights(network: keras.Model, classifier: keras.Model, path: Path, facts: Facts) -> None:
    network.save_weights(path)
    architecture_file(path).write_text(network.to_json(), encoding="utf-8")


def _write_savedmodel(network: keras.Model, classifier: keras.Model, path: Path, facts: Facts) -> None:
    _named(classifier).export(path, format="tf_saved_model", verbose=False)
    (path / FACTS_FILE).write_text(json.dumps(dict(facts), indent=1), encoding="utf-8")


def _write_tflite(network: keras.Model, classifier: keras.Model, path: Path, facts: Facts) -> None:
    # Without TensorFlow's own operations, which the small runtimes lack.
    _named(classifier).export(
        path, format="litert", verbose=False, target_spec={"supported_ops": _builtin_operations()}
    )
    add_facts(path, facts)


def _builtin_operations() -> list[Any]:
    import tensorflow as tf

    return [tf.lite.OpsSet.TFLITE_BUILTINS]


def _write_onnx(network: keras.Model, classifier: keras.Model, path: Path, facts: Facts) -> None:
    import onnx

    _named(classifier).export(path, format="onnx", verbose=False)
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.helper.set_model_props(model, {FACTS_KEY: json.dumps(dict(facts))})
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def _named(classifier: keras.Model) -> keras.Model:
    """The classifier with its output by name, as signatures then have it."""
    import keras
    import numpy as np

    named = keras.Model(classifier.input, {classifier.output_names[0]: classifier.output}, name=classifier.name)
    # Keras exports only models that were called.
    named(np.zeros((1, *classifier.input_shape[1:]), np.uint8))
    return named


FORMATS: Mapping[str, Format] = {
    "keras": Format(title="Keras", ending=".keras", tolerance=1e-6, write=_write_keras),
    "weights": Format(
        title="Keras weights", ending=".weights.h5", tolerance=1e-6, write=_write_weights, input="pixels"
    ),
    "savedmodel": Format(title="TensorFlow SavedModel", ending="", tolerance=1e-5, write=_write_savedmodel),
    "tflite": Format(title="TensorFlow Lite (LiteRT)", ending=".tflite", tolerance=1e-4, write=_write_tflite),
    "onnx": Format(
        title="ONNX", ending=".onnx", tolerance=1e-4, write=_write_onnx, needs=("tf2onnx", "onnx", "onnxruntime")
    ),
}


def choose_format(name: str | None, path: Path) -> str:
    """The format's name, by default by the path's ending; checks that they fit and that its packages are there.

    Raises:
        UsageError: unknown, not to be told from the path, at odds with it, or its packages are not installed.
    """
    if not path.name or path.name == "..":
        raise UsageError(f"-o PATH must name a file or folder; received {str(path)!r}")
    by_ending = [key for key, item in FORMATS.items() if item.ending and path.name.endswith(item.ending)]
    if name is None:
        if not by_ending:
            endings = ", ".join(item.ending for item in FORMATS.values() if item.ending)
            raise UsageError(
                f"{path}: the ending must be one of {endings}, or name the format with --format "
                f"{'|'.join(FORMATS)}; received {path.name!r}"
            )
        name = by_ending[0]
    if name not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}; received {name!r}.{near_names(name, FORMATS)}")
    ending = FORMATS[name].ending
    if not path.name.endswith(ending) or (not ending and by_ending):
        kind = (
            f"a file that ends in {ending}"
            if ending
            else f"a folder, without the ending {FORMATS[by_ending[0]].ending}"
        )
        raise UsageError(f"{path}: --format {name} writes {kind}; received {path.name!r}")
    missing = [module for module in FORMATS[name].needs if importlib.util.find_spec(module) is None]
    if missing:
        raise UsageError(f"--format {name} needs {', '.join(missing)}, not installed here; get it with: {ONNX_INSTALL}")
    return name


def architecture_file(weights: Path) -> Path:
    """Beside a weights file: the network's layers as JSON."""
    return weights.with_name(f"{weights.name}.json")


def card_file(format_name: str, path: Path) -> Path:
    """Where the model card of an export is."""
    return path.with_name(f"{path.name}.md") if FORMATS[format_name].ending else path / "README.md"


def write_format(name: str, network: keras.Model, classifier: keras.Model, path: Path, facts: Facts) -> None:
    """Writes a model and what is known of it.

    Raises:
        WorkError: Keras or the converter cannot write this model in this format.
    """
    try:
        with _quiet_converters():
            FORMATS[name].write(network, classifier, path, facts)
    except OSError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or "no message"
        others = ", ".join(key for key in FORMATS if key != name)
        raise WorkError(
            f"{path}: this model cannot be written as {FORMATS[name].title}: {type(error).__name__}: {reason}. "
            f"Other formats are {others}; --debug shows the whole error"
        ) from error


@contextlib.contextmanager
def _quiet_converters() -> Iterator[None]:
    """Converters log each step and warn of what only their authors can change."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with warnings.catch_warnings(), quiet_stderr():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
