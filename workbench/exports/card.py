"""The model card beside an export: where the model comes from, what it takes and gives, how to load it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.exports.formats import FORMATS, architecture_file

if TYPE_CHECKING:
    from workbench.exports.writing import Exported


def model_card(facts: Mapping[str, Any], exported: Exported) -> str:
    """The card, as Markdown.

    Args:
        facts: see `workbench.exports.facts.trial_facts`, with `written_at` and `versions`.
        exported: the export and the figures of its check.
    """
    form = FORMATS[exported.format]
    sections = [
        f"# {exported.path.name}\n\nAn image classifier in the format {form.title}, written by `workbench export`.",
        _section("Where it comes from", _origin(facts)),
        _section("How well it does", _scores(facts)),
        _section("Hyperparameters", [(name, value) for name, value in facts.get("hyperparameters", {}).items()]),
        _section("Input and output", _interface(facts, form.input)),
        "## Classes\n\n" + "\n".join(f"{number}. {name}" for number, name in enumerate(facts["class_names"])),
        _section("Check", _check(exported)),
        f"## Loading it\n\n```python\n{_loading(facts, exported)}```",
        _section("Versions", _versions(facts)),
    ]
    return "\n\n".join(part for part in sections if part) + "\n"


def _section(title: str, rows: list[tuple[str, Any]]) -> str:
    known = [(name, value) for name, value in rows if value is not None and value != ""]
    if not known:
        return ""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in known]
    return "\n".join([f"## {title}", "", "| what | value |", "|---|---|", *lines])


def _cell(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return " ".join(text.split()).replace("|", "\\|")


def _origin(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    counts = facts.get("counts") or {}
    images = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return [
        ("study", facts.get("study")),
        ("trial", facts.get("trial_id")),
        ("execution", facts.get("execution")),
        ("seed", None if facts.get("seed") is None else str(facts["seed"])),
        ("data set", facts.get("dataset")),
        ("images", images),
        ("trained on the split", facts.get("split")),
        ("fingerprint of the data", facts.get("data_fingerprint")),
        ("trained on the device", facts.get("device")),
        ("epochs trained", facts.get("epochs")),
        ("weights of epoch", facts.get("best_epoch")),
    ]


def _scores(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    test = facts.get("test") or {}
    score = facts.get("score")
    return [
        (str(facts.get("metric")), None if score is None else f"{score:.4f}"),
        *_confirmed(facts),
        *((f"test {name}", f"{value:.4f}") for name, value in test.items()),
        ("parameters", facts.get("parameters")),
        ("FLOPs of one image (a multiply-add is 2)", facts.get("flops")),
    ]


def _confirmed(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What retraining the trial with new seeds gave: of other weights than these."""
    rows = []
    for split, scores in (facts.get("confirmed") or {}).items():
        if scores:
            spread = f", standard deviation {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
            text = f"mean {statistics.fmean(scores):.4f}{spread}, n = {len(scores)}"
            rows.append((f"{split} score, retrained with new seeds", text))
    return rows


def _interface(facts: Mapping[str, Any], takes: str) -> list[tuple[str, Any]]:
    height, width, channels = facts["image_shape"]
    shape = f"(batch, {height}, {width}, {channels})"
    if takes == "uint8":
        given, preprocessing = f"`images`, uint8 {shape}, 0 to 255", "in the model: divided by 255 as float32"
    else:
        given, preprocessing = f"float32 {shape}, 0 to 1", "not in the model: divide uint8 by 255 as float32"
    named = "`probabilities`, " if takes == "uint8" else ""
    return [
        ("input", f"{given}; {'RGB' if channels == 3 else 'grey'}; the batch may have any size"),
        (
            "resizing",
            f"EXIF orientation applied, transparency laid on white; shorter side resized to {height} pixels "
            "(bilinear, antialiased), middle square cut out",
        ),
        ("preprocessing", preprocessing),
        ("output", f"{named}float32 (batch, {len(facts['class_names'])}), {facts['output']}"),
    ]


def _check(exported: Exported) -> list[tuple[str, Any]]:
    return [
        ("read back and compared with Keras on", f"{exported.images:,} {exported.origin}"),
        ("why not validation images", exported.reason),
        ("largest difference of a probability", f"{exported.largest_difference:.3g}"),
        ("let pass", f"{exported.tolerance:g}"),
    ]


def _versions(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    def listed(found: Mapping[str, str] | None) -> str:
        return ", ".join(f"{name} {version}" for name, version in (found or {}).items())

    return [
        ("written at", facts["written_at"]),
        ("written with", listed(facts["versions"])),
        ("trained with", listed(facts.get("trained_with"))),
    ]


def _loading(facts: Mapping[str, Any], exported: Exported) -> str:
    name = exported.path.name
    shape = ", ".join(map(str, facts["image_shape"]))
    images = f"images = np.zeros((1, {shape}), np.uint8)  # yours\n"
    if exported.format == "keras":
        return f"import keras\nimport numpy as np\n\n{images}model = keras.models.load_model({name!r})\n" + (
            "probabilities = model.predict(images)\n"
        )
    if exported.format == "weights":
        architecture = architecture_file(exported.path).name
        return (
            f"from pathlib import Path\n\nimport keras\nimport numpy as np\n\n{images}"
            f"network = keras.models.model_from_json(Path({architecture!r}).read_text())\n"
            f"network.load_weights({name!r})\n"
            f"{facts['output']} = network.predict(images.astype('float32') / 255)\n"
        )
    if exported.format == "savedmodel":
        return (
            f"import numpy as np\nimport tensorflow as tf\n\n{images}"
            f"model = tf.saved_model.load({name!r})\n"
            "probabilities = model.serve(images)['probabilities'].numpy()\n"
        )
    if exported.format == "tflite":
        return (
            f"import numpy as np\nimport tensorflow as tf  # or ai_edge_litert.interpreter\n\n{images}"
            f"runner = tf.lite.Interpreter({name!r}).get_signature_runner()\n"
            "probabilities = runner(images=images)['probabilities']\n"
        )
    return (
        f"import numpy as np\nimport onnxruntime\n\n{images}"
        f"session = onnxruntime.InferenceSession({name!r})\n"
        "(probabilities,) = session.run(['probabilities'], {'images': images})\n"
    )
