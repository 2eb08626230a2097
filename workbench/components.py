"""What plugins return: frozen descriptions of models, augmentations, schedules, data sets and oracles.

A component names itself, says in one line what it is, and carries the function that builds it. Making one
imports no deep-learning library: the functions import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import keras
    import keras_tuner
    import numpy as np
    import tensorflow as tf

    from workbench.oracles.protocol import Proposer

ImageShape = tuple[int, int, int]
"""(height, width, channels), in pixels; channels is 1 or 3."""

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Component:
    """What every kind has.

    Attributes:
        name: how search definitions and commands name it; letters, digits and underscores;
            unique over all kinds.
        summary: one line for `workbench plugins list`.
        source: the paper or recipe it follows, with deviations; may be empty.
        options: the keys that its table in a search definition takes beside the common ones,
            each with a line that explains it. Options are settings, never searched.
    """

    kind: ClassVar[str] = "component"

    name: str
    summary: str
    source: str = ""
    options: Mapping[str, str] = field(default_factory=lambda: _NO_OPTIONS)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(
                f"{type(self).__name__}.name must be letters, digits and underscores, "
                f"not starting with a digit; received {self.name!r}"
            )
        if not isinstance(self.summary, str) or not self.summary.strip():
            raise ValueError(f"{type(self).__name__} {self.name!r}: summary must be a non-empty line")


@dataclass(frozen=True, kw_only=True)
class Model(Component):
    """A search space of architectures; its default point should be a published network.

    Attributes:
        build: `(hp, image_shape, num_classes) -> keras.Model`, uncompiled. The model takes float32
            images `(batch, height, width, channels)` in [0, 1] and returns float32
            `(batch, num_classes)`. Uses `keras` and `keras.ops` only; downloads and loads nothing.
            `hp` is already scoped to the component's name: declare `hp.Int("blocks", ...)`, and it is
            known as `NAME/blocks`. Declare all hyperparameters at every call, conditional ones in
            `hp.conditional_scope`, so that the space can be explored.
        initialize: `(model, options) -> None`, called once an execution after the model is built, to load
            weights; `options` is the `[model.options]` table.
        output: what the model returns: "probabilities" or "logits".
        any_image_size: whether the same weights run at every image size (fully convolutional).
        min_image_size: the smallest height and width in pixels that the default point builds for.
        reference_image_shape, reference_classes: what the published network was trained on;
            `workbench plugins show` builds the default point for them.
    """

    kind: ClassVar[str] = "model"

    build: Callable[[keras_tuner.HyperParameters, ImageShape, int], keras.Model]
    initialize: Callable[[keras.Model, Mapping[str, Any]], None] | None = None
    output: Literal["probabilities", "logits"] = "probabilities"
    any_image_size: bool = False
    min_image_size: int = 8
    reference_image_shape: ImageShape = (32, 32, 3)
    reference_classes: int = 10


@dataclass(frozen=True, kw_only=True)
class Augmentation(Component):
    """A random change of training batches.

    Attributes:
        build: `(hp) -> augment`, with `augment(images, labels, seed) -> (images, labels)`: images float32
            `(batch, height, width, channels)` in [0, 1], labels float32 one-hot `(batch, classes)`, seed
            int32 `(2,)`; a pure function of its arguments, shapes kept. TensorFlow tensors inside
            tf.data, on every Keras backend. Colour operations leave one-channel images as they are.
    """

    kind: ClassVar[str] = "augmentation"

    build: Callable[
        [keras_tuner.HyperParameters],
        Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    ]


@dataclass(frozen=True, kw_only=True)
class Schedule(Component):
    """A learning rate schedule over the whole budget of an execution.

    Attributes:
        build: `(hp, steps_per_epoch, total_epochs) -> keras LearningRateSchedule`, from step (from 0) to
            learning rate. The schedule declares the (peak) learning rate as a hyperparameter.
    """

    kind: ClassVar[str] = "schedule"

    build: Callable[
        [keras_tuner.HyperParameters, int, int],
        keras.optimizers.schedules.LearningRateSchedule,
    ]


@dataclass(frozen=True, kw_only=True)
class DatasetRequest:
    """What a search definition asks of a data set.

    Attributes:
        data_dir: the folder (or file) given with `--data-dir` or `WORKBENCH_DATA`, or None.
        image_size: height and width in pixels to resize to, or None for the set's own size.
        options: the set's own keys of the `[dataset]` table.
    """

    data_dir: Path | None = None
    image_size: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExampleBatch:
    """Some decoded examples, in reading order.

    Attributes:
        part: which part of the source they are from, e.g. "train" or "test".
        images: uint8 `(n, height, width, channels)`.
        labels: int32 `(n,)`, indices into the class names.
    """

    part: str
    images: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, kw_only=True)
class DatasetSource:
    """A data set that was found and looked at, but not yet decoded.

    Attributes:
        class_names: in the order of the label indices.
        image_shape: of every decoded image.
        parts: which parts make up each split, for example
            `{"train": ("train",), "test": ("test",)}`. "train" is required; a missing "validation" or
            "test" is cut from "train" by the documented rule of `workbench.data.splits`.
        cuts: which of "validation" and "test" to cut where `parts` has none.
        signature: changes whenever the files or what is read from them change; cheap (names, sizes,
            modification times); decides whether the decoded cache is still good.
        count: how many examples `read` gives, for progress; None where unknown.
        read: decodes everything once, in a fixed order.
    """

    class_names: tuple[str, ...]
    image_shape: ImageShape
    parts: Mapping[str, Sequence[str]]
    signature: str
    read: Callable[[], Iterator[ExampleBatch]]
    cuts: tuple[str, ...] = ("validation", "test")
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Dataset(Component):
    """A source of labelled images.

    Attributes:
        open: `(request) -> DatasetSource`; finds the files and checks them, decodes nothing. Raises
            `workbench.DataError` with the file or folder named.
        needs_data_dir: whether it reads from `--data-dir`.
    """

    kind: ClassVar[str] = "dataset"

    open: Callable[[DatasetRequest], DatasetSource]
    needs_data_dir: bool = True


@dataclass(frozen=True, kw_only=True)
class Oracle(Component):
    """A search algorithm.

    Attributes:
        create: `(options) -> Proposer`, see `workbench.oracles.protocol`; `options` are the `[tuner]`
            table's keys beside the common ones. Raises `ValueError` for an option out of range.
        multi_fidelity: whether proposals carry budgets of epochs (Hyperband).
    """

    kind: ClassVar[str] = "oracle"

    create: Callable[[Mapping[str, Any]], Proposer]
    multi_fidelity: bool = False
