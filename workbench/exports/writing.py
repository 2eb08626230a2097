"""One export: written aside, read back, compared with Keras, described, and only then put in its place."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.directory import now
from workbench.display import Display, SilentDisplay
from workbench.errors import StorageError, UsageError, WorkError
from workbench.exports.card import model_card
from workbench.exports.facts import versions
from workbench.exports.formats import FORMATS, architecture_file, card_file, write_format
from workbench.exports.predictors import open_written

if TYPE_CHECKING:
    import keras

    from workbench.exports.samples import Sample

_FOLDER_MEMBERS = {
    "README.md",
    "assets",
    "assets.extra",
    "fingerprint.pb",
    "saved_model.pb",
    "variables",
    "workbench.json",
}
_BATCHES = (1, 32)
"""Batch sizes of a check: the first image alone, then the others; the last batch is smaller."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What came of an export.

    Attributes:
        path: the file, or the folder of a SavedModel.
        card: the model card, Markdown.
        format: a key of `workbench.exports.formats.FORMATS`.
        images: how many images it was checked with.
        origin: what images these were.
        reason: why they were not the validation images, or empty.
        largest_difference: of a probability from Keras's own, over all images and classes.
        tolerance: what would have been let pass.
    """

    path: Path
    card: Path
    format: str
    images: int
    origin: str
    reason: str
    largest_difference: float
    tolerance: float


def check_target(format_name: str, path: Path, overwrite: bool) -> None:
    """Looks at what is at the path before anything is loaded.

    Raises:
        UsageError: there is something, and it may not be overwritten.
    """
    taken = [item for item in _outputs(format_name, path) if item.is_symlink() or item.exists()]
    if path in taken and format_name == "savedmodel" and path.is_dir() and not any(path.iterdir()):
        taken = []
    if not taken:
        return
    if not overwrite:
        raise UsageError(
            f"{path if path in taken else taken[0]}: is there already; name another -o PATH, or replace it with "
            "--overwrite"
        )
    if format_name == "savedmodel":
        _check_folder(path)
    for item in taken:
        if format_name != "savedmodel" and item.is_dir():
            raise UsageError(f"{item}: is a folder, and --format {format_name} writes a file; name another -o PATH")


def _check_folder(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        raise UsageError(f"{path}: only a SavedModel's folder is replaced by one; this is none. Name another -o PATH")
    strangers = sorted(item.name for item in path.iterdir() if item.name not in _FOLDER_MEMBERS)
    if strangers or not (path / "saved_model.pb").is_file():
        what = f"it has {', '.join(strangers[:3])}" if strangers else "it has no saved_model.pb"
        raise UsageError(f"{path}: only a SavedModel's folder is replaced by one; {what}. Name another -o PATH")


def write_export(
    model: keras.Model,
    facts: Mapping[str, Any],
    sample: Sample,
    *,
    format_name: str,
    path: Path,
    overwrite: bool = False,
    display: Display | None = None,
) -> Exported:
    """Writes a network in a format, checks it and writes its card.

    Args:
        model: float32 images `(batch, height, width, channels)` in [0, 1] to `(batch, classes)`.
        facts: see `workbench.exports.facts.trial_facts`, with `output` ("probabilities" or "logits").
        sample: what to check with.
        format_name: a key of `FORMATS` that fits the path.
        path: where to; its folder is made.
        overwrite: whether a model that is there is replaced.
        display: told of the steps.

    Raises:
        WorkError: the model cannot be written so, or what was written predicts otherwise; nothing is left behind.
        StorageError: the disk is full or fails.
    """
    from workbench.exports.inference import bare_network, inference_model, reference_probabilities

    display = display or SilentDisplay()
    check_target(format_name, path, overwrite)
    display.phase("predicting with Keras")
    network = bare_network(model)
    classifier = inference_model(network, facts["output"])
    expected = reference_probabilities(network, facts["output"], sample.images)
    stored = {**facts, "written_at": now(), "versions": versions()}
    if format_name != "weights":
        stored |= {"output": "probabilities", "input": "uint8"}
    # Beside the target, so that renaming is one step; the whole name is kept, as formats go by their endings.
    aside = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        aside.mkdir(parents=True)
        written = aside / path.name
        display.phase(f"writing {FORMATS[format_name].title}")
        write_format(format_name, network, classifier, written, stored)
        display.phase(f"reading {FORMATS[format_name].title} back and comparing")
        difference = _compare(format_name, path, written, stored, sample, expected)
        exported = Exported(
            path=path,
            card=card_file(format_name, path),
            format=format_name,
            images=len(sample.images),
            origin=sample.origin,
            reason=sample.reason,
            largest_difference=difference,
            tolerance=FORMATS[format_name].tolerance,
        )
        card_file(format_name, written).write_text(model_card(stored, exported), encoding="utf-8")
        _put_in_place(format_name, written, path)
    except OSError as error:
        raise StorageError(path, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return exported


def _compare(
    format_name: str, path: Path, written: Path, facts: Mapping[str, Any], sample: Sample, expected: Any
) -> float:
    """The largest difference from Keras's probabilities."""
    predict = open_written(format_name, written, facts)
    single, batch = _BATCHES
    starts = [0, *range(single, len(sample.images), batch)]
    found = np.concatenate([predict(part) for part in np.split(sample.images, starts[1:])])
    if not np.isfinite(expected).all():
        bad = int(np.flatnonzero(~np.isfinite(expected).all(axis=1))[0])
        raise WorkError(
            f"{path}: the model's own probabilities must be finite; those of image {bad} of {sample.origin} are not. "
            "Nothing was written; train it again"
        )
    differences = np.abs(found - expected)
    differences[~np.isfinite(differences)] = np.inf
    largest = float(differences.max())
    tolerance = FORMATS[format_name].tolerance
    if largest > tolerance:
        image, label = np.unravel_index(int(differences.argmax()), differences.shape)
        raise WorkError(
            f"{path}: the {FORMATS[format_name].title} model must predict what Keras does, to {tolerance:g}; on "
            f"{len(found)} {sample.origin} the largest difference is {largest:.3g} (image {image}, class "
            f"{facts['class_names'][label]!r}: {found[image, label]:.6f}, Keras {expected[image, label]:.6f}). "
            "It was removed; another --format may carry this model over better"
        )
    return largest


def _outputs(format_name: str, path: Path) -> list[Path]:
    """Everything that an export writes, the model last."""
    found = [path]
    if format_name != "savedmodel":
        found.insert(0, card_file(format_name, path))
    if format_name == "weights":
        found.insert(0, architecture_file(path))
    return found


def _put_in_place(format_name: str, written: Path, path: Path) -> None:
    for source, target in zip(_outputs(format_name, written), _outputs(format_name, path), strict=True):
        if target.is_dir() and not target.is_symlink():
            # A folder cannot be replaced in one step; the old one is moved aside and comes back if that fails.
            old = written.parent / "replaced"
            target.rename(old)
            try:
                source.rename(target)
            except BaseException:
                with contextlib.suppress(OSError):
                    old.rename(target)
                raise
        else:
            source.replace(target)
