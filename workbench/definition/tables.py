"""The tables of a search definition, as frozen structs.

They are made by `load_definition` and `definition_from_dict`, which turn pydantic's errors into ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from workbench.definition.overrides import Space, Table, problem

DEFAULT_BATCH_SIZE = 128
"""Images per step and accelerator core of a definition that says neither how many these are nor how many in all."""

DEFAULT_MAX_TRIALS = 20
"""The budget of a definition that gives neither `max_trials` nor `max_hours`."""

# Keras and scikit-learn take seeds of 32 bits.
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=1)]


def _check_component_name(value: str) -> str:
    if not value.isidentifier():
        raise PydanticCustomError(
            "workbench_type", "must be a name of letters, digits and underscores, not starting with a digit"
        )
    return value


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        problem("must name at least one; received []")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        problem(f"{twice[0]!r} is listed more than once")
    return names


ComponentName = Annotated[str, AfterValidator(_check_component_name)]
# The values arrive as lists (TOML has no tuples), which strict tuples refuse.
Names = Annotated[tuple[ComponentName, ...], Field(strict=False), AfterValidator(_check_names)]


class _NamedTable(Table):
    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, data: Any) -> Any:
        # Both given: `name` stays, and is reported as the key too many.
        if isinstance(data, Mapping) and "name" in data and "names" not in data:
            return {**{key: data[key] for key in data if key != "name"}, "names": [data["name"]]}
        return data


class DatasetTable(Table):
    """The data: a registered data set, and what of it to use.

    Attributes:
        name: the data set.
        image_size: height and width in pixels to resize to; None for the set's own size.
        limit: how many training images to use, a stratified subset; None for all.
        split_seed: seeds the cuts of validation and test, and the subset. Apart from `seed`, so that
            studies with different seeds are compared on the same images.
    """

    model_config = ConfigDict(extra="allow")

    name: ComponentName
    image_size: Count | None = None
    limit: Count | None = None
    split_seed: Seed = 0

    @property
    def options(self) -> dict[str, Any]:
        """The data set's own keys."""
        return dict(self.model_extra or {})


class ModelTable(_NamedTable):
    """The models: their names, overrides of their hyperparameters, and settings that are not searched."""

    names: Names
    space: Space = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)


class ComponentTable(_NamedTable):
    """The augmentations or the schedules: their names and overrides of their hyperparameters."""

    names: Names
    space: Space = Field(default_factory=dict)


class EarlyStoppingTable(Table):
    """When an execution has learnt what it can: it ends early, and its trial counts as completed.

    Attributes:
        patience: epochs without a better objective.
        min_delta: what counts as better.
    """

    patience: Count
    min_delta: Annotated[float, Field(ge=0)] = 0.0


class MedianRuleTable(Table):
    """When a trial is worse than the others were: it is stopped (Vizier, KDD 2017).

    At the end of an epoch, the trial's best objective so far is compared with the median of the running averages
    that other trials had at that epoch.

    Attributes:
        min_epochs: the first epoch at which the rule looks.
        min_trials: how many others must have got there.
    """

    min_epochs: Count = 3
    min_trials: Count = 5


class TrainingTable(Table):
    """How a trial is trained.

    Attributes:
        epochs: of a trial in full.
        batch_size_per_replica: images per step and accelerator core; None where `global_batch_size` is given.
        global_batch_size: images per step over all replicas, which must divide it; None for
            `batch_size_per_replica` times the replicas.
        learning_rate_scaling: what the schedule's learning rates are multiplied by, as the batch grows with the
            replicas: nothing, their number (linear), or its square root.
        precision: what to compute in; "auto" decides by the device.
        executions: trainings of each trial, with different seeds; their scores are averaged.
        keep_checkpoints: how many of the best trials keep their weights.
        early_stopping: ends executions that no longer improve; None for never.
        median_rule: stops trials that are worse than others were; None for never.
        space: overrides of training's own hyperparameters.
    """

    epochs: Count
    batch_size_per_replica: Count | None = None
    global_batch_size: Count | None = None
    learning_rate_scaling: Literal["none", "linear", "sqrt"] = "none"
    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = "auto"
    executions: Count = 1
    keep_checkpoints: Count = 3
    early_stopping: EarlyStoppingTable | None = None
    median_rule: MedianRuleTable | None = None
    space: Space = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _fill_batch_size(cls, data: Any) -> Any:
        sizes = ("batch_size_per_replica", "global_batch_size")
        if isinstance(data, Mapping) and all(data.get(name) is None for name in sizes):
            return {**data, "batch_size_per_replica": DEFAULT_BATCH_SIZE}
        return data

    @model_validator(mode="after")
    def _check(self) -> TrainingTable:
        if self.global_batch_size is None:
            return self
        if self.batch_size_per_replica is not None:
            problem(
                f"excludes batch_size_per_replica; received {self.global_batch_size} and {self.batch_size_per_replica}",
                key="global_batch_size",
            )
        if self.learning_rate_scaling != "none":
            problem(
                "needs batch_size_per_replica: a global batch of one size does not grow with the replicas; "
                f"received {self.learning_rate_scaling!r} and global_batch_size {self.global_batch_size}",
                key="learning_rate_scaling",
            )
        return self


class BudgetTable(Table):
    """What the search may spend.

    Attributes:
        max_trials: distinct points with a result; None for no limit, which takes a `max_hours` or
            `max_epochs`. 20 where none of them is given.
        max_hours: training and validation time, checked before each trial; divided by the workers.
        max_epochs: epochs of training over all trials, checked before each one; None for no limit.
        max_failures: failed trials after which the search gives up.
        max_same_failures: failures of one kind in a row after which it gives up.
        max_trial_seconds: training time of a trial, after which it is stopped; None for no limit.
    """

    max_trials: Count | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None
    max_epochs: Count | None = None
    max_failures: Count = 10
    max_same_failures: Count = 3
    max_trial_seconds: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _limit_trials(cls, data: Any) -> Any:
        limits = ("max_trials", "max_hours", "max_epochs")
        if isinstance(data, Mapping) and all(data.get(name) is None for name in limits):
            return {**data, "max_trials": DEFAULT_MAX_TRIALS}
        return data


class ConstraintsTable(Table):
    """What a model must keep to; a point outside is never trained and costs no trial.

    Attributes:
        min_parameters, max_parameters: of all parameters, both included.
        max_flops: forward pass of one image, a multiply-add is 2.
        max_model_mib: of the weights in memory, in MiB.
        max_seconds_per_epoch: on the device at hand, from some measured steps of each proposed point; a
            point's measurement is noisy, so a search with it is not exactly repeatable.
    """

    max_parameters: Count | None = None
    min_parameters: Count | None = None
    max_flops: Count | None = None
    max_model_mib: Annotated[float, Field(gt=0)] | None = None
    max_seconds_per_epoch: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check(self) -> ConstraintsTable:
        low, high = self.min_parameters, self.max_parameters
        if low is not None and high is not None and low > high:
            problem(f"min_parameters {low} is larger than max_parameters {high}")
        return self


class ObjectiveTable(Table):
    """What the trials are ranked by.

    Attributes:
        metric: a validation metric's name in Keras's logs.
        direction: "max" or "min"; inferred for accuracies and losses.
        target: the metric's value that the search is after.
        stop_at_target: whether to end the search once the target is reached, even within a trial.
    """

    metric: str = "val_accuracy"
    direction: Literal["max", "min"]
    target: float | None = None
    stop_at_target: bool = False

    @model_validator(mode="before")
    @classmethod
    def _infer_direction(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("direction") is not None:
            return data
        metric = data.get("metric", "val_accuracy")
        if isinstance(metric, str) and metric.endswith("accuracy"):
            return {**data, "direction": "max"}
        if isinstance(metric, str) and metric.endswith("loss"):
            return {**data, "direction": "min"}
        return data

    @model_validator(mode="after")
    def _check(self) -> ObjectiveTable:
        if not self.metric.startswith("val_"):
            problem(
                f"must start with 'val_': a search ranks by validation; received {self.metric!r}",
                key="metric",
            )
        if self.stop_at_target and self.target is None:
            problem("needs a target; received none", key="stop_at_target")
        return self


class TunerTable(Table):
    """The search algorithm.

    Attributes:
        name: a registered oracle.
        enqueue_default: whether the default point, the published network, is trial 1.
    """

    model_config = ConfigDict(extra="allow")

    name: ComponentName = "random"
    enqueue_default: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """The oracle's own keys."""
        return dict(self.model_extra or {})


class Definition(Table):
    """A search definition.

    Attributes:
        summary: one line for `workbench searches list`.
        seed: of everything random but the cuts of the data.
    """

    summary: str = ""
    seed: Seed = 0
    dataset: DatasetTable
    model: ModelTable
    augmentation: ComponentTable = ComponentTable(names=("none",))
    schedule: ComponentTable = ComponentTable(names=("constant",))
    training: TrainingTable
    budget: BudgetTable = Field(default_factory=BudgetTable)
    constraints: ConstraintsTable = ConstraintsTable()
    objective: ObjectiveTable = Field(default_factory=lambda: ObjectiveTable.model_validate({}))
    tuner: TunerTable = TunerTable()

    def resolved(self) -> dict[str, Any]:
        """The definition with every default filled in, as JSON values.

        `definition_from_dict` reads it back to an equal definition. Keys without a value are left out.
        """
        return self.model_dump(mode="json", exclude_none=True)
