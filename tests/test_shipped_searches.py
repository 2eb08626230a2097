from __future__ import annotations

from typing import Any

import pytest

from workbench.definition import Definition, Range, check_plugins, load_definition, shipped_searches
from workbench.registry import Registry

NAMES = ["cifar10_convnet", "flowers_squeezenet", "flowers_xception", "quickstart"]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load(environ={})


def test_they_are_listed_with_summaries() -> None:
    shipped = shipped_searches()
    assert list(shipped) == NAMES
    assert all(10 < len(summary) <= 110 for summary in shipped.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_component_and_option_is_registered(name: str, registry: Registry) -> None:
    check_plugins(load_definition(name), registry, name)


@pytest.mark.parametrize("name", NAMES)
def test_the_default_point_is_trial_1_and_a_target_is_set(name: str) -> None:
    definition = load_definition(name)
    assert definition.tuner.enqueue_default
    assert definition.objective.metric == "val_accuracy"
    assert definition.objective.target is not None


@pytest.mark.parametrize(
    ("name", "epochs", "batch_size", "image_size", "target"),
    [
        ("cifar10_convnet", 50, 128, None, 0.8079),
        ("flowers_squeezenet", 35, 128, 192, 0.80),
        ("flowers_xception", 12, 128, 192, 0.95),
    ],
)
def test_the_published_settings(name: str, epochs: int, batch_size: int, image_size: int | None, target: float) -> None:
    definition = load_definition(name)
    assert definition.training.epochs == epochs
    assert definition.training.batch_size_per_replica == batch_size
    assert definition.dataset.image_size == image_size
    assert definition.objective.target == target
    assert definition.training.space == {"*": "default"}
    assert definition.augmentation.names[0] == "none"


def test_digits_are_not_mirrored() -> None:
    assert load_definition("quickstart").augmentation.names == ("none",)


def _allows(override: Any, value: Any) -> bool:
    if override == "default":
        return True
    if isinstance(override, Range):
        steps = (value - override.min) / (override.step or 1)
        on_grid = override.step is None or abs(steps - round(steps)) < 1e-9
        return override.min <= value <= override.max and on_grid
    return value in override if isinstance(override, tuple) else value == override


@pytest.mark.parametrize(
    ("name", "table", "published"),
    [
        (
            "cifar10_convnet",
            "model",
            {"blocks": 2, "filters": 32, "block_*/kernel": 3, "padding": "valid_last"},
        ),
        ("cifar10_convnet", "schedule", {"learning_rate": 1e-3}),
        (
            "flowers_squeezenet",
            "model",
            {
                "pools": 4,
                "stage_*/expand": (48, 96, 128, 96, 48),
                "stage_*/squeeze_ratio": 0.5,
                "batch_norm": True,
                "batch_norm_momentum": 0.9,
            },
        ),
        ("flowers_squeezenet", "schedule", {"learning_rate": 1e-3}),
        (
            "flowers_xception",
            "model",
            {"architecture": "published", "trainable_blocks": 14, "head_units": 0, "head_dropout": 0.0},
        ),
        ("flowers_xception", "schedule", {"learning_rate": 4e-4, "ramp_epochs": 5, "decay": 0.8}),
    ],
)
def test_the_narrowed_ranges_hold_the_published_point(name: str, table: str, published: dict[str, Any]) -> None:
    definition: Definition = load_definition(name)
    space = getattr(definition, table).space
    for key, values in published.items():
        for value in values if isinstance(values, tuple) else (values,):
            assert _allows(space[key], value), f"{key} = {value}"
