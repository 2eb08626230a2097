"""The search space of synthetic studies, points drawn from it, and what their networks would cost.

A SqueezeNet space (arXiv:1602.07360) with conditional hyperparameters, in the form that journals hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.oracles.protocol import Value

Floats = npt.NDArray[np.float64]

TABLES: dict[str, Any] = {
    "model": {
        "name": "squeezenet",
        "space": {
            "pools": [2, 3, 4],
            "stem_filters": {"min": 16, "max": 64, "step": 8},
            "stem_kernel": 3,
            "batch_norm": True,
            "batch_norm_momentum": [0.9, 0.99],
            "bypass": "none",
            "filters": "per_stage",
            "stage_*/fire_modules": 1,
            "stage_*/expand": {"min": 16, "max": 128, "step": 16},
            "stage_*/squeeze_ratio": [0.25, 0.5, 0.75],
        },
    },
    "augmentation": {"names": ["none", "flip_saturation"], "space": {"flip_saturation/*": "default"}},
    "schedule": {
        "names": ["constant", "ramp_exponential"],
        "space": {
            "learning_rate": {"min": 3e-4, "max": 5e-3, "sampling": "log"},
            "ramp_epochs": [0, 1, 2, 3],
            "start_fraction": 0.025,
            "floor_fraction": 0.025,
            "decay": [0.7, 0.8, 0.9],
        },
    },
}
"""The tables of the definition that declare this space."""

IMAGE_SIZE, CLASSES = 192, 5
_EXPAND = (48, 96, 128, 96, 48)
_LEARNING_RATES = (3e-4, 5e-3)


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter; active where every parent has one of the values named.

    Attributes:
        values: what it may be; the lowest and highest of a float that is sampled by its logarithm.
        kind: Keras Tuner's class.
    """

    name: str
    kind: str
    default: Value
    values: tuple[Value, ...]
    parents: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    def config(self) -> dict[str, Any]:
        """As Keras Tuner's `HyperParameters.get_config` has it."""
        conditions = [
            {"class_name": "Parent", "config": {"name": name, "values": list(values)}} for name, values in self.parents
        ]
        config: dict[str, Any] = {"name": self.name, "default": self.default, "conditions": conditions}
        if self.kind == "Fixed":
            config = {"name": self.name, "conditions": conditions, "value": self.default}
        elif self.kind == "Choice":
            config |= {"values": list(self.values), "ordered": not isinstance(self.default, str)}
        elif self.kind == "Boolean":
            pass
        elif self.kind == "Int":
            low, high = int(self.values[0]), int(self.values[-1])
            step = int(self.values[1]) - low
            config |= {"min_value": low, "max_value": high, "step": step, "sampling": "linear"}
        else:
            config |= {"min_value": self.values[0], "max_value": self.values[-1], "step": None, "sampling": "log"}
        return {"class_name": self.kind, "config": config}


def hyperparameters() -> list[Hyperparameter]:
    """The space, parents before children."""
    model = [
        _choice("squeezenet/pools", 4, (2, 3, 4)),
        _integer("squeezenet/stem_filters", 32, (16, 64, 8)),
        _fixed("squeezenet/stem_kernel", 3),
        _fixed("squeezenet/batch_norm", True),
        _choice("squeezenet/batch_norm_momentum", 0.9, (0.9, 0.99), (("squeezenet/batch_norm", (True,)),)),
        _fixed("squeezenet/bypass", "none"),
        _fixed("squeezenet/filters", "per_stage"),
    ]
    for stage, expand in enumerate(_EXPAND, start=1):
        deep = {4: (("squeezenet/pools", (3, 4)),), 5: (("squeezenet/pools", (4,)),)}.get(stage, ())
        own = (*deep, ("squeezenet/filters", ("per_stage",)))
        prefix = f"squeezenet/stage_{stage}"
        model += [
            _fixed(f"{prefix}/fire_modules", 1, deep),
            _integer(f"{prefix}/expand", expand, (16, 128, 16), own),
            _choice(f"{prefix}/squeeze_ratio", 0.5, (0.25, 0.5, 0.75), own),
        ]
    saturated = (("augmentation", ("flip_saturation",)),)
    ramped = (("schedule", ("ramp_exponential",)),)
    return [
        *model,
        _choice("augmentation", "none", ("none", "flip_saturation")),
        _choice("schedule", "constant", ("constant", "ramp_exponential")),
        _rate("constant/learning_rate", (("schedule", ("constant",)),)),
        _fixed("training/optimizer", "adam"),
        _fixed("training/weight_decay", 0.0),
        _fixed("training/label_smoothing", 0.0),
        Hyperparameter("flip_saturation/flip", "Boolean", True, (False, True), saturated),
        _choice("flip_saturation/max_saturation", 2.0, (0.5, 1.0, 1.5, 2.0), saturated),
        _rate("ramp_exponential/learning_rate", ramped),
        _choice("ramp_exponential/ramp_epochs", 2, (0, 1, 2, 3), ramped),
        _fixed("ramp_exponential/start_fraction", 0.025, ramped),
        _fixed("ramp_exponential/floor_fraction", 0.025, ramped),
        _choice("ramp_exponential/decay", 0.8, (0.7, 0.8, 0.9), ramped),
    ]


_Parents = tuple[tuple[str, tuple[Value, ...]], ...]


def _fixed(name: str, value: Value, parents: _Parents = ()) -> Hyperparameter:
    return Hyperparameter(name, "Fixed", value, (value,), parents)


def _choice(name: str, default: Value, values: tuple[Value, ...], parents: _Parents = ()) -> Hyperparameter:
    return Hyperparameter(name, "Choice", default, values, parents)


def _integer(name: str, default: int, bounds: tuple[int, int, int], parents: _Parents = ()) -> Hyperparameter:
    low, high, step = bounds
    return Hyperparameter(name, "Int", default, tuple(range(low, high + 1, step)), parents)


def _rate(name: str, parents: _Parents) -> Hyperparameter:
    return Hyperparameter(name, "Float", 1e-3, _LEARNING_RATES, parents)


def draw(rng: np.random.Generator, count: int) -> dict[str, list[Value]]:
    """`count` values of every hyperparameter, active or not; the first ones are the default point's."""
    columns: dict[str, list[Value]] = {}
    for item in hyperparameters():
        if item.kind == "Float":
            low, high = np.log([float(value) for value in item.values])
            column: list[Value] = np.exp(rng.uniform(low, high, count)).tolist()
        else:
            column = [item.values[index] for index in rng.integers(len(item.values), size=count).tolist()]
        columns[item.name] = [item.default, *column[1:]]
    return columns


def active_values(columns: dict[str, list[Value]], index: int, space: list[Hyperparameter]) -> dict[str, Value]:
    """The values of one point that its conditions leave active."""
    values: dict[str, Value] = {}
    for item in space:
        if all(name in values and values[name] in allowed for name, allowed in item.parents):
            values[item.name] = columns[item.name][index]
    return values


def costs(
    columns: dict[str, list[Value]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """(parameters, flops, mxu_fill) of every point: of the convolutions, their biases and batch normalisations.

    Args:
        columns: as `draw` gives them.

    Returns:
        Three arrays of shape (points,); flops of one image's forward pass, a multiply-add is 2; mxu_fill as
        `workbench.tpu.fill` has it.
    """
    pools = np.array(columns["squeezenet/pools"])
    channels = np.array(columns["squeezenet/stem_filters"])
    pixels = np.full(len(pools), IMAGE_SIZE**2)
    parameters = 9 * 3 * channels + 5 * channels
    flops = 2 * 9 * 3 * channels * pixels
    carried_out = _squares(9 * 3) * _squares(channels) * pixels
    for stage in range(1, len(_EXPAND) + 1):
        expand = np.array(columns[f"squeezenet/stage_{stage}/expand"])
        ratio = np.array(columns[f"squeezenet/stage_{stage}/squeeze_ratio"])
        squeeze = np.maximum(1, (expand * ratio).astype(np.int64))
        weights = channels * squeeze + 10 * squeeze * (expand // 2)
        is_there = stage <= pools + 1
        parameters += np.where(is_there, weights + 5 * squeeze + 5 * expand, 0)
        flops += np.where(is_there, 2 * weights * pixels, 0)
        fire = _squares(channels) * _squares(squeeze)
        fire += (_squares(squeeze) + _squares(9 * squeeze)) * _squares(expand // 2)
        carried_out += np.where(is_there, fire * pixels, 0)
        channels = np.where(is_there, expand, channels)
        pixels = np.where(stage <= pools, pixels // 4, pixels)
    parameters += CLASSES * (channels + 1)
    flops += 2 * CLASSES * channels
    carried_out += _squares(channels) * _squares(CLASSES)
    return parameters.astype(np.int64), flops.astype(np.int64), flops / 2 / carried_out


def _squares(size: npt.NDArray[np.int64] | int) -> Any:
    """Padded to the matrix unit's 128."""
    return -(-size // 128) * 128
