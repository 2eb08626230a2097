"""What goes along with a trained model: where it comes from and how well it did."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.trials import History, Trial

_VERSIONED = ("convnet-search-workbench", "tensorflow", "keras", "numpy", "tf2onnx", "onnx", "onnxruntime")


def trial_facts(
    history: History, definition: Mapping[str, Any], *, study: str, trial: Trial, execution: int
) -> dict[str, Any]:
    """The facts of a stored trial's model, JSON-able.

    Args:
        history: of the study.
        definition: of the study, resolved.
        study: its name.
        trial: the trial.
        execution: whose weights the model has, from 1.
    """
    data = history.space["facts"]
    run = trial.executions[execution]
    scores = run.metric(history.metric)
    pick = max if history.direction == "max" else min
    best = pick(scores, key=lambda pair: pair[1]) if scores else (None, None)
    return {
        "class_names": list(data["class_names"]),
        "image_shape": list(data["image_shape"]),
        "dataset": data["dataset"],
        "data_fingerprint": data["fingerprint"],
        "counts": data["counts"],
        "dataset_table": definition["dataset"],
        "split": history.space["split"],
        "study": study,
        "trial_id": trial.trial_id,
        "execution": execution,
        "seed": run.seed,
        "hyperparameters": trial.values,
        "metric": history.metric,
        "score": best[1],
        "best_epoch": best[0],
        "epochs": max(run.epochs, default=0),
        "parameters": trial.parameters,
        "flops": trial.flops,
        "device": trial.device,
        "trained_with": history.sessions[-1].get("versions") if history.sessions else None,
    }


def versions() -> dict[str, str]:
    """The versions of what writes and checks exports, where installed."""
    found = {}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
