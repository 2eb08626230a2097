"""Checkpoints: every variable of a model and its optimizer, so that training goes on as if it had not stopped.

`.keras` files lose the states of the seed generators (dropout) and weights files lose the optimizer, so all variables
are written in order, each once, to one `.npz`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import StorageError, StudyError
from workbench.journal import write_atomically

if TYPE_CHECKING:
    import keras


def training_variables(model: keras.Model) -> list[Any]:
    """The variables of a compiled model and its built optimizer, seed states included, each once, in order."""
    seen: set[int] = set()
    found = []
    for variable in [*model.variables, *model.optimizer.variables]:
        if id(variable) not in seen:
            seen.add(id(variable))
            found.append(variable)
    return found


def read_variables(variables: Sequence[Any]) -> list[np.ndarray]:
    """Copies of the variables' values."""
    return [np.array(variable.numpy()) for variable in variables]


def assign_variables(variables: Sequence[Any], values: Sequence[np.ndarray], where: str) -> None:
    """Sets the variables to the values.

    Raises:
        StudyError: count or shapes differ, so the values are from another network.
    """
    if len(variables) != len(values):
        raise StudyError(
            f"{where}: the network has {len(variables)} variables and the checkpoint {len(values)}; "
            "the plugin or a library changed since it was written. Start a new study with --study NAME"
        )
    for variable, value in zip(variables, values, strict=True):
        if tuple(variable.shape) != value.shape:
            raise StudyError(
                f"{where}: variable {variable.path} has shape {tuple(variable.shape)} and the checkpoint "
                f"{value.shape}; the plugin changed since it was written. Start a new study with --study NAME"
            )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def save_arrays(path: Path, arrays: Sequence[np.ndarray]) -> None:
    """Writes arrays to one uncompressed .npz file, atomically.

    Raises:
        StorageError: the disk is full or fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(path.parent, error) from error
    buffer = io.BytesIO()
    np.savez(buffer, *arrays)
    write_atomically(path, buffer.getbuffer())


def load_arrays(path: Path) -> list[np.ndarray]:
    """Reads the arrays of `save_arrays`, in order.

    Raises:
        StudyError: the file is missing or damaged.
    """
    try:
        # Opened here: np.load leaves the file open where it is damaged.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return [file[f"arr_{number}"] for number in range(len(file.files))]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StudyError(
            f"{path}: the checkpoint cannot be read ({error}); restore it from a copy, or train the point again: "
            "`workbench train ... --point STUDY:TRIAL`"
        ) from error
