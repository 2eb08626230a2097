"""A trained model in one file: Keras's `.keras` archive with one more member, for `workbench predict`."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import DataError

if TYPE_CHECKING:
    import keras

MEMBER = "workbench.json"


def save_model(model: keras.Model, path: Path, facts: Mapping[str, Any]) -> None:
    """Writes the model and the facts about it, aside and renamed.

    Args:
        model: takes float32 images `(batch, height, width, channels)` in [0, 1], or uint8 ones.
        path: ends in `.keras`.
        facts: at least `class_names`, `image_shape` and `output` ("probabilities" or "logits"), and `input`
            ("uint8") where that is what the model takes; JSON-able.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.stem}.{os.getpid()}.keras")
    try:
        model.save(aside)
        add_facts(aside, facts)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def add_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Puts the facts into a zip archive, or behind a file whose readers pass over one at its end (.tflite)."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(MEMBER, json.dumps(dict(facts), indent=1))


def read_facts(path: Path) -> dict[str, Any]:
    """The facts that `save_model` wrote; reads no weights and imports no deep-learning library.

    Raises:
        DataError: no such file, not a `.keras` (or `.tflite`) file, or not one that the workbench wrote.
    """
    ending = path.suffix if path.suffix == ".tflite" else ".keras"
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read(MEMBER))
    except FileNotFoundError:
        raise DataError(f"{path}: no such model file; `workbench train ... -o MODEL.keras` writes one") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: must be a {ending} file; it cannot be read as one that the workbench wrote ({error})"
        ) from error
    except KeyError:
        raise DataError(
            f"{path}: has no {MEMBER}, so its class names are not known; use a model that `workbench train` or "
            "`workbench export` wrote"
        ) from None
    except ValueError as error:
        raise DataError(f"{path}: its {MEMBER} cannot be read ({error}); write the model again") from error
    _check_facts(facts, path)
    return dict(facts)


def _check_facts(facts: Any, path: Path) -> None:
    wanted = {"class_names": str, "image_shape": int}
    for name, kind in wanted.items():
        found = facts.get(name) if isinstance(facts, dict) else None
        if not isinstance(found, list) or not found or not all(isinstance(item, kind) for item in found):
            raise DataError(
                f"{path}: its {MEMBER} must have {name}, a list of {kind.__name__}; received {found!r}. Write the "
                "model again"
            )
    if len(facts["image_shape"]) != 3 or facts.get("output") not in ("probabilities", "logits"):
        raise DataError(
            f"{path}: its {MEMBER} must have an image_shape of three numbers and an output of probabilities or logits; "
            f"received {facts['image_shape']!r} and {facts.get('output')!r}. Write the model again"
        )


def load_model(path: Path) -> tuple[keras.Model, dict[str, Any]]:
    """The model and its facts.

    Raises:
        DataError: see `read_facts`; or Keras cannot load the model.
    """
    facts = read_facts(path)
    import keras

    try:
        return keras.models.load_model(path, compile=False), facts
    except (ValueError, OSError, TypeError, KeyError) as error:
        raise DataError(f"{path}: Keras cannot load this model ({' '.join(str(error).split())[:300]})") from error
