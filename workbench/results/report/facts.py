"""What a report says of a study beside its figures: the summary, and how it was made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from workbench.results.plots.curves import cost
from workbench.results.plots.look import count, duration, number, score
from workbench.results.plots.view import View


def study_facts(view: View) -> dict[str, Any]:
    """The texts of a study's section, for the template; nothing in them is escaped yet.

    Keys: name, path, state, summary, tiles (label, value, detail), best (label, value), best_title, data, made
    (label, value), versions, plugins, definition.
    """
    study, history = view.study, view.study.history
    facts = history.space.get("facts") or {}
    last = history.sessions[-1] if history.sessions else {}
    return {
        "name": study.name,
        "path": str(study.path),
        "state": _state(view),
        "summary": str(study.definition.get("summary") or ""),
        "tiles": _tiles(view),
        "best_title": f"Best trial: {view.ranked.iloc[0]['trial_id']}" if len(view.ranked) else "Best trial",
        "best": _best(view),
        "data": _data(study.definition, facts),
        "made": _made(view, last),
        "versions": [(name, str(version)) for name, version in (last.get("versions") or {}).items()],
        "plugins": [
            {key: str(item.get(key) or "") for key in ("name", "distribution", "file", "sha256")}
            for item in last.get("plugins") or []
        ],
        "definition": json.dumps(study.definition, indent=2, ensure_ascii=False),
    }


def differences(views: Sequence[View]) -> list[str]:
    """Why the scores of these studies cannot be compared, in a sentence each; empty if they can."""
    objectives = {(view.study.metric, view.study.direction) for view in views}
    data = {(view.study.history.space.get("facts") or {}).get("fingerprint") for view in views}
    told = []
    if len(objectives) > 1:
        named = ", ".join(sorted(f"{metric} ({direction})" for metric, direction in objectives))
        told.append(f"These studies have different objectives: {named}.")
    if len(data) > 1:
        told.append("These studies saw different data (their fingerprints differ).")
    return [*told, "Their scores cannot be compared as they stand."] if told else []


def _state(view: View) -> str:
    if view.study.is_running:
        return "running when this was written"
    finished = view.study.history.finished
    return f"finished: {finished.get('reason', '')}" if finished is not None else "interrupted, can be resumed"


def _tiles(view: View) -> list[tuple[str, str, str]]:
    study = view.study
    statuses = Counter(view.board["status"])
    told = ", ".join(f"{amount:,} {status}" for status, amount in statuses.most_common())
    table = view.progress
    goal = "higher" if study.direction == "max" else "lower"
    best = ("none yet", "no trial has completed")
    if len(view.ranked):
        row = view.ranked.iloc[0]
        place = f"trial {row['trial_id']}, epoch {row['best_epoch']} of {row['epochs']}"
        best = score(row["score"]), f"{place}; {goal} is better"
    tiles = [(f"Best {study.metric}", *best)]
    if view.target is not None:
        reached = table[table["best"].map(view.is_reached)]
        verdict, detail = "not reached", "by any completed trial"
        if len(reached):
            first = reached.iloc[0]
            verdict = "reached"
            detail = f"by trial {first['trial_id']}, after {cost(first)}"
        tiles.append((f"Target {view.target:g}", verdict, detail))
    epochs = int(view.board["epochs"].sum())
    rejected = len(study.history.rejections)
    seconds = float(view.board["seconds"].sum())
    return [
        *tiles,
        ("Trials", f"{len(view.board):,}", told),
        ("Epochs trained", f"{epochs:,}", f"{count(rejected, 'proposal')} rejected untrained" if rejected else ""),
        ("Training time", duration(seconds), f"{duration(seconds / epochs)} an epoch" if epochs else ""),
    ]


def _best(view: View) -> list[tuple[str, str]]:
    if not len(view.ranked):
        return []
    row = view.ranked.iloc[0]
    known = [("parameters", "parameters"), ("flops", "FLOPs an image"), ("step_ms", "milliseconds a step")]
    costs = [(label, number(row[name])) for name, label in known if row[name] == row[name] and row[name] is not None]
    values = view.study.history.trials[row["trial_id"]].values
    return [*costs, *((name, number(value)) for name, value in values.items())]


def _data(definition: dict[str, Any], facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("data set", str(facts.get("dataset") or definition["dataset"].get("name") or ""))]
    if facts.get("image_shape"):
        rows.append(("image", " x ".join(map(str, facts["image_shape"])) + " (height, width, channels)"))
    if facts.get("class_names"):
        rows.append(("classes", str(len(facts["class_names"]))))
    rows += [(f"{split} images", f"{amount:,}") for split, amount in (facts.get("counts") or {}).items()]
    if facts.get("fingerprint"):
        rows.append(("fingerprint", str(facts["fingerprint"])))
    return rows


def _made(view: View, last: dict[str, Any]) -> list[tuple[str, str]]:
    definition, history = view.study.definition, view.study.history
    rows = [
        ("objective", f"{view.study.metric}, {view.study.direction}"),
        ("tuner", str(definition["tuner"].get("name", ""))),
        ("begun", str(history.header.get("created_at", ""))),
        ("sessions", f"{len(history.sessions):,}"),
        ("last session", f"{last.get('at', '')} on {last.get('host', '')}" if last else "none"),
        (
            "device",
            f"{last['device']}, {count(int(last.get('replicas') or 1), 'replica')}" if last.get("device") else "",
        ),
        ("precision", str(last.get("precision") or "")),
    ]
    return [(label, value) for label, value in rows if value]
