"""What a component declares: its hyperparameters, and a model's size at the default point."""

from __future__ import annotations

from typing import Any

import keras

from workbench.components import Component, Model
from workbench.costs import count_flops
from workbench.errors import UsageError
from workbench.hypermodel import build_component
from workbench.space import Overrides, describe, explore

# A schedule's hyperparameters do not depend on the budget; any will do.
_STEPS_PER_EPOCH, _EPOCHS = 100, 12


def inspect_component(
    component: Component, *, image_size: int | None = None, classes: int | None = None
) -> dict[str, Any]:
    """A component's hyperparameters and, for a model, the default point's size.

    Args:
        component: a model, an augmentation or a schedule.
        image_size, classes: what to build a model for; by default what the published network was trained on.

    Returns:
        `hyperparameters`, one row each; for a model `image_shape`, `classes`, `parameters` and `flops`.

    Raises:
        UsageError: the default point does not build for this size.
    """
    if not isinstance(component, Model):
        arguments = (_STEPS_PER_EPOCH, _EPOCHS) if component.kind == "schedule" else ()
        space = explore(lambda hp: build_component(component, hp, *arguments), Overrides())
        return {"hyperparameters": describe(space)}
    height, width, channels = component.reference_image_shape
    shape = (image_size or height, image_size or width, channels)
    count = classes or component.reference_classes
    built: list[keras.Model] = []
    try:
        space = explore(lambda hp: built.append(build_component(component, hp, shape, count)), Overrides())
    except ValueError as error:
        raise UsageError(f"the default point must build for {shape[0]}x{shape[1]} images; {error}") from error
    flops, uncounted = count_flops(built[0])
    return {
        "image_shape": list(shape),
        "classes": count,
        "parameters": built[0].count_params(),
        "flops": flops,
        "layers_without_flops": uncounted,
        "hyperparameters": describe(space),
    }
