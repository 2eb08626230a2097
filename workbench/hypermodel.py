"""Model, augmentation, schedule and optimizer from one set of hyperparameters: a `keras_tuner.HyperModel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import keras_tuner

from workbench.components import Augmentation, Component, ImageShape, Model, Schedule
from workbench.errors import SpaceError
from workbench.space import Overrides

if TYPE_CHECKING:
    from workbench.definition import Definition
    from workbench.registry import Registry

OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "lion")
"""What `training/optimizer` chooses from: Keras's own, SGD with Nesterov momentum 0.9."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """One point, built: ready to be initialised and compiled.

    Attributes:
        model: uncompiled; float32 images `(batch, height, width, channels)` in [0, 1] to `(batch, classes)`.
        component: the model plugin's component.
        augment: `(images, labels, seed) -> (images, labels)`.
        schedule: from step (from 0) to learning rate.
        optimizer: follows the schedule.
        loss: categorical cross-entropy on one-hot labels, with label smoothing if the point has it.
    """

    model: keras.Model
    component: Model
    augment: Callable[..., Any]
    schedule: Any
    optimizer: keras.Optimizer
    loss: keras.losses.Loss


@dataclass(frozen=True, kw_only=True)
class ClassifierHyperModel:
    """Builds the points of a search: components chosen by hyperparameters, each in its own name scope.

    With one component of a kind there is nothing to choose and no hyperparameter; with several, `model`,
    `augmentation` and `schedule` choose, and each one's own hyperparameters are active under that choice.

    Attributes:
        image_shape: of the images that the model gets.
        num_classes: how many classes there are.
        steps_per_epoch, total_epochs: the full budget of an execution, which the schedule spans.
        learning_rate_factor: what the schedule's rates are multiplied by, see `workbench.batches`.
    """

    models: Sequence[Model]
    augmentations: Sequence[Augmentation]
    schedules: Sequence[Schedule]
    image_shape: ImageShape
    num_classes: int
    steps_per_epoch: int
    total_epochs: int
    learning_rate_factor: float = 1.0

    @classmethod
    def of(
        cls,
        definition: Definition,
        registry: Registry,
        *,
        image_shape: ImageShape,
        num_classes: int,
        steps_per_epoch: int,
        learning_rate_factor: float = 1.0,
    ) -> ClassifierHyperModel:
        """The hypermodel of a search definition, for data of this shape."""
        return cls(
            models=[registry.find("model", name) for name in definition.model.names],
            augmentations=[registry.find("augmentation", name) for name in definition.augmentation.names],
            schedules=[registry.find("schedule", name) for name in definition.schedule.names],
            image_shape=image_shape,
            num_classes=num_classes,
            steps_per_epoch=steps_per_epoch,
            total_epochs=definition.training.epochs,
            learning_rate_factor=learning_rate_factor,
        )

    def build(self, hp: keras_tuner.HyperParameters) -> Network:
        """Declares every hyperparameter and builds the point that `hp` holds.

        Raises:
            SpaceError: the point holds a value that its plugin refuses.
        """
        model, component = self._choose(
            hp, "model", self.models, lambda item: item.build(hp, self.image_shape, self.num_classes)
        )
        augment, _ = self._choose(hp, "augmentation", self.augmentations, lambda item: item.build(hp))
        schedule, _ = self._choose(
            hp,
            "schedule",
            self.schedules,
            lambda item: item.build(hp, self.steps_per_epoch, self.total_epochs),
        )
        if self.learning_rate_factor != 1.0:
            schedule = ScaledSchedule(schedule, self.learning_rate_factor)
        with hp.name_scope("training"):
            optimizer = hp.Choice("optimizer", list(OPTIMIZERS), default="adam")
            weight_decay = hp.Choice("weight_decay", [0.0, 1e-5, 1e-4, 5e-4, 1e-3, 1e-2], default=0.0)
            smoothing = hp.Float("label_smoothing", 0.0, 0.2, step=0.05, default=0.0)
        return Network(
            model=model,
            component=component,
            augment=augment,
            schedule=schedule,
            optimizer=_optimizer(optimizer, schedule, weight_decay),
            loss=keras.losses.CategoricalCrossentropy(
                from_logits=component.output == "logits", label_smoothing=smoothing
            ),
        )

    def _choose(
        self,
        hp: keras_tuner.HyperParameters,
        kind: str,
        components: Sequence[Any],
        build: Callable[[Any], Any],
    ) -> tuple[Any, Any]:
        """What the chosen component builds; the others only declare when exploration activates them."""
        if len(components) == 1:
            with hp.name_scope(components[0].name):
                return build(components[0]), components[0]
        chosen = hp.Choice(kind, [item.name for item in components])
        result = None
        for item in components:
            with hp.conditional_scope(kind, [item.name]):
                if item.name == chosen:
                    with hp.name_scope(item.name):
                        result = build(item), item
        if result is None:
            raise SpaceError(f"{kind} must be one of {[item.name for item in components]}; received {chosen!r}")
        return result


@keras.saving.register_keras_serializable(package="workbench")
class ScaledSchedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """Another schedule's learning rates, multiplied: `training.learning_rate_scaling`.

    Args:
        schedule: the other one.
        factor: > 0.
    """

    def __init__(self, schedule: Any, factor: float):
        self.schedule = schedule
        self.factor = factor

    def __call__(self, step: Any) -> Any:
        """The learning rate at a step (from 0), float32."""
        return self.factor * self.schedule(step)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"schedule": keras.saving.serialize_keras_object(self.schedule), "factor": self.factor}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ScaledSchedule:
        """Reads what `get_config` wrote."""
        return cls(keras.saving.deserialize_keras_object(config["schedule"]), config["factor"])


def overrides_of(definition: Definition) -> Overrides:
    """The definition's four `[....space]` tables."""
    return Overrides(
        [
            ("model.space", definition.model.names, definition.model.space),
            ("augmentation.space", definition.augmentation.names, definition.augmentation.space),
            ("schedule.space", definition.schedule.names, definition.schedule.space),
            ("training.space", ("training",), definition.training.space),
        ]
    )


def build_component(component: Component, hp: keras_tuner.HyperParameters, *args: Any) -> Any:
    """Builds one component on its own, in its name scope: `build(hp, *args)`."""
    with hp.name_scope(component.name):
        return component.build(hp, *args)  # type: ignore[attr-defined]


def _optimizer(name: str, schedule: Any, weight_decay: float) -> keras.Optimizer:
    common: dict[str, Any] = {"learning_rate": schedule, "weight_decay": weight_decay or None}
    if name == "sgd":
        return keras.optimizers.SGD(momentum=0.9, nesterov=True, **common)
    if name in ("adamw", "lion") and not weight_decay:
        # These two refuse None: without decay they take zero.
        common["weight_decay"] = 0.0
    classes = {
        "adam": keras.optimizers.Adam,
        "adamw": keras.optimizers.AdamW,
        "rmsprop": keras.optimizers.RMSprop,
        "lion": keras.optimizers.Lion,
    }
    return classes[name](**common)
