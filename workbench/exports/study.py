"""A stored trial's model, exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.display import Display, SilentDisplay
from workbench.exports.facts import trial_facts
from workbench.exports.formats import choose_format
from workbench.exports.samples import decoding, draw_sample
from workbench.exports.writing import Exported, check_target, write_export
from workbench.quiet import quiet_stderr
from workbench.registry import Registry

if TYPE_CHECKING:
    from workbench.study import Study
    from workbench.trials import Trial


def export_trial(
    study: Study,
    trial: Trial,
    execution: int,
    path: Path,
    *,
    format_name: str | None,
    data_dir: Path | None,
    overwrite: bool,
    registry: Registry | None,
    display: Display | None,
    confirmed: Mapping[str, Any] | None = None,
) -> Exported:
    """Rebuilds the network of a trial's execution with its best weights and exports it; see `workbench.export`.

    Args:
        confirmed: the trial's scores over new seeds, "validation" and "test", for the card.
    """
    display = display or SilentDisplay()
    chosen = choose_format(format_name, path)
    check_target(chosen, path, overwrite)
    registry = registry or Registry.load()
    facts = trial_facts(study.history, study.definition, study=study.name, trial=trial, execution=execution)
    sample = draw_sample(facts, registry, data_dir=data_dir, progress=decoding(display))
    display.phase("building the model")
    with quiet_stderr():
        from workbench.engine.rebuild import rebuild_network

    weights = study.weights(trial)[execution]
    network = rebuild_network(study.definition, study.history, (trial, weights), registry)
    facts["confirmed"] = confirmed
    facts["output"] = network.component.output
    return write_export(
        network.model, facts, sample, format_name=chosen, path=path, overwrite=overwrite, display=display
    )
