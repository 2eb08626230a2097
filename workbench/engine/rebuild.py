"""A trained model from a study's journal and checkpoints, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.checkpoint import assign_variables, load_arrays
from workbench.definition import definition_from_dict
from workbench.hypermodel import ClassifierHyperModel, Network, overrides_of
from workbench.registry import Registry
from workbench.space import SearchSpace
from workbench.training import compile_network

if TYPE_CHECKING:
    import keras

    from workbench.trials import History, Trial


def rebuild_model(
    definition: Mapping[str, Any],
    history: History,
    found: tuple[Trial, Path],
    registry: Registry | None = None,
) -> keras.Model:
    """The compiled model of `rebuild_network`."""
    return rebuild_network(definition, history, found, registry).model


def rebuild_network(
    definition: Mapping[str, Any],
    history: History,
    found: tuple[Trial, Path],
    registry: Registry | None = None,
) -> Network:
    """Builds a trial's network again, for the shapes that the study recorded, and loads its weights.

    Args:
        definition: resolved, of the study.
        history: of the study.
        found: the trial and the file with its best epoch's weights.
        registry: with the plugins that the definition names; by default the installed ones.

    Returns:
        With its model compiled: float32 images `(batch, height, width, channels)` in [0, 1] to `(batch, classes)`.
    """
    trial, weights = found
    parsed = definition_from_dict(definition)
    facts = history.space["facts"]
    hypermodel = ClassifierHyperModel.of(
        parsed,
        registry or Registry.load(),
        image_shape=tuple(facts["image_shape"]),
        num_classes=len(facts["class_names"]),
        steps_per_epoch=1,
    )
    network = hypermodel.build(SearchSpace(overrides_of(parsed), trial.values))
    model = compile_network(network, 1)
    assign_variables(model.variables, load_arrays(weights), str(weights))
    return network
