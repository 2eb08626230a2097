"""The figures of a study: exact points, what they say in words, what they leave out."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.errors import UsageError
from workbench.results.plots import PLOTS, View, compare_best_so_far, look
from workbench.results.plots.tradeoffs import front_of
from workbench.testing import synthetic_study

view_module = importlib.import_module("workbench.results.plots.view")
DOCS = Path(__file__).parents[2] / "docs" / "studies.md"


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch):
    monkeypatch.setattr(importlib.import_module("workbench.results.plots.forest"), "TREES", 12)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    return synthetic_study(tmp_path_factory.mktemp("studies") / "synthetic", trials=80, epochs=9, seed=3)


@pytest.fixture(scope="module")
def small(write_study, tmp_path_factory):
    """Four trials of one or two epochs; 2 s an epoch."""
    trials = [
        {"values": {"a": 1, "m/b": "x"}, "scores": [[0.4, 0.5]], "parameters": 300},
        {"values": {"a": 2, "m/b": "y"}, "scores": [[0.9]], "status": "failed", "error": "ValueError: loss 1.5 of 20"},
        {"values": {"a": 3, "m/b": "<x>"}, "scores": [[0.7, 0.6], [0.9, 0.8]], "parameters": 200},
        {"values": {"a": 4, "m/b": "x"}, "scores": [[0.6]], "parameters": 100},
    ]
    path = tmp_path_factory.mktemp("studies") / "small"
    return write_study(path, trials, objective={"target": 0.75})


@pytest.fixture
def planted(write_study, tmp_path):
    """`planted(score, trials=80)`: a study whose scores are `score(rng, values)`, with 5 hyperparameters."""

    def make(score, trials=80, **more):
        rng = np.random.default_rng(7)
        rows = []
        for _ in range(trials):
            values = {"m/kind": str(rng.choice(["one", "two", "three"])), "m/rate": float(10 ** rng.uniform(-4, -1))}
            values |= {"m/size": int(rng.integers(1, 9)), "m/noise": float(rng.uniform())}
            if values["m/kind"] == "two":
                values["m/depth"] = int(rng.integers(1, 5))
            rows.append({"values": values, "scores": [[float(score(rng, values))]]})
        return write_study(tmp_path / "planted", rows, **more)

    return make


def trace(figure, name):
    (found,) = [item for item in figure.data if item.name == name]
    return found


@pytest.mark.parametrize("name", list(PLOTS))
def test_every_plot_is_a_figure_with_a_finding(synthetic, name):
    figure = synthetic.plot(name)
    assert isinstance(figure, go.Figure)
    assert len(figure.data) >= 1
    plot = PLOTS[name](View(synthetic))
    assert (plot.name, plot.is_empty) == (name, False)
    assert len(plot.finding) > 20
    assert plot.figure.to_json() == figure.to_json(), "the same study gives the same figure"


def test_the_guide_names_every_plot():
    text = DOCS.read_text(encoding="utf-8")
    section = text[text.index("\n## Plots\n") : text.index("\n## The report\n")]
    assert re.findall(r"^\| `([^`]+)` +\|", section, re.MULTILINE) == list(PLOTS)


def test_the_docstring_names_every_plot(synthetic):
    assert set(re.findall(r'"(\w+)"', synthetic.plot.__doc__)) == set(PLOTS)


def test_an_unknown_plot_is_one_message(synthetic):
    with pytest.raises(UsageError, match=r"must be one of best_so_far, .*received 'paretto'. Did you mean 'pareto'\?"):
        synthetic.plot("paretto")


@pytest.mark.parametrize("name", list(PLOTS))
def test_a_study_without_trials_says_so(write_study, tmp_path, name):
    plot = PLOTS[name](View(write_study(tmp_path / "s", [])))
    assert plot.is_empty
    assert plot.figure.layout.annotations[0].text == plot.finding


def test_best_so_far_rises_when_a_completed_trial_is_better(small):
    plot = PLOTS["best_so_far"](View(small))
    (line,) = plot.figure.data
    # The third trial is the mean of 0.7 and 0.9; the failed second one cost an epoch. The last point ends the line.
    assert list(line.y) == pytest.approx([0.5, 0.8, 0.8])
    assert list(line.text) == ["0001", "0003", "0003"]
    against = {item.label: list(item.args[0]["x"][0]) for item in plot.figure.layout.updatemenus[0].buttons}
    assert against == {"trials": [1, 3, 4], "epochs": [2, 7, 8], "seconds": [4.0, 14.0, 16.0]}
    assert plot.figure.layout.shapes[0].y0 == 0.75
    assert "best val_accuracy 0.8000 by trial 0003, after 3 of 4 trials, 7 epochs and 14 s" in plot.finding
    assert "The target 0.75 was reached by trial 0003, after 3 trials, 7 epochs and 14 s." in plot.finding


def test_best_so_far_falls_where_smaller_is_better(write_study, tmp_path):
    trials = [{"values": {"a": n}, "scores": [[score]]} for n, score in enumerate([0.5, 0.2, 0.9])]
    objective = {"target": 0.1}
    study = write_study(tmp_path / "s", trials, metric="val_loss", direction="min", objective=objective)
    plot = PLOTS["best_so_far"](View(study))
    assert list(plot.figure.data[0].y) == [0.5, 0.2, 0.2]
    assert "The target 0.1 is not reached." in plot.finding


def test_studies_are_compared_in_colours_of_their_own(small, synthetic):
    plot = compare_best_so_far([View(small, 0), View(synthetic, 1)])
    assert [item.name for item in plot.figure.data] == ["small", "synthetic"]
    assert [item.line.color for item in plot.figure.data] == list(look.COLORS[:2])
    assert [shape.y0 for shape in plot.figure.layout.shapes] == [0.75, 0.8]


def test_learning_curves_are_means_over_executions(small):
    figure = small.plot("learning_curves")
    assert [item.name for item in figure.data] == ["0003", "0004", "0001"]
    best = trace(figure, "0003")
    assert (list(best.x), list(best.y)) == ([1, 2], pytest.approx([0.8, 0.7]))
    assert best.text[0] == "a = 3<br>b = &lt;x&gt;"


def test_a_trial_has_one_colour_in_all_figures(synthetic):
    view = View(synthetic)
    curves = PLOTS["learning_curves"](view).figure
    assert len(view.styles) == 10
    assert len({(style["color"], style["dash"]) for style in view.styles.values()}) == 10
    for trial_id, style in view.styles.items():
        assert trace(curves, trial_id).line.color == style["color"]
    best = PLOTS["hyperparameters"](view).figure.data[1]
    assert list(best.marker.color) == [view.styles[trial_id]["color"] for trial_id in best.text]


def test_parallel_coordinates_show_logarithms_categories_and_inactive_ones(planted):
    study = planted(lambda rng, values: values["m/size"] / 10)
    with_space = {
        "space": [
            {"class_name": "Float", "config": {"name": "m/rate", "sampling": "log", "step": None}},
            {"class_name": "Choice", "config": {"name": "m/kind", "values": ["three", "two", "one"]}},
        ]
    }
    study.history.space["space"] = with_space
    axes = {item.label: item for item in study.plot("parallel_coordinates").data[0].dimensions}
    table = study.trials()
    assert list(axes) == ["rate", "kind", "size", "noise", "depth", "val_accuracy"]
    assert sorted(axes["rate"]["values"]) == pytest.approx(sorted(np.log10(table["hp.m/rate"])))
    assert list(axes["kind"].ticktext) == ["three", "two", "one"]
    assert axes["depth"].ticktext[0] == "none"
    below = axes["depth"].tickvals[0]
    assert (np.array(axes["depth"]["values"]) == below).sum() == table["hp.m/depth"].isna().sum() > 0
    assert below < table["hp.m/depth"].min()
    assert np.all(np.diff(axes["val_accuracy"]["values"]) >= 0), "the best are drawn last, on top"


def test_importance_finds_what_the_score_depends_on(planted):
    study = planted(lambda rng, values: np.log10(values["m/rate"]) + (values["m/kind"] == "two"))
    found = View(study).importances
    assert set(found.table["label"][:2]) == {"rate", "kind"}
    assert found.r2 > 0.8
    by_label = found.table.set_index("label")
    assert by_label.loc["rate", "importance"] > 10 * abs(by_label.loc["noise", "importance"])
    # Whether `depth` is active depends on `kind`, which is what counts.
    assert abs(by_label.loc["depth", "importance"]) < 0.05 < by_label.loc["kind", "importance"]
    plot = PLOTS["importance"](View(study))
    assert plot.finding.startswith("The score depends most on rate")
    assert f"R² {found.r2:.2f} ± {found.r2_std:.2f}" in plot.finding
    assert any("permutation importance" in note.lower() and "80 completed" in note for note in plot.notes)


def test_importance_of_a_conditional_hyperparameter_that_matters(planted):
    study = planted(lambda rng, values: values.get("m/depth", 2.5), trials=100)
    assert View(study).importances.table["label"][0] == "depth"


def test_importance_of_chance_says_that_it_means_nothing(planted):
    plot = PLOTS["importance"](View(planted(lambda rng, values: rng.uniform())))
    assert plot.finding.startswith("Do not rely on this ranking")
    assert plot.figure.data[0].marker.color == look.FAINT


def test_importance_needs_trials_and_differences(planted):
    few = PLOTS["importance"](View(planted(lambda rng, values: rng.uniform(), trials=19)))
    assert few.finding == "Importances need 20 completed trials; there are 19."


def test_importance_of_equal_scores_is_none(planted):
    assert "same score" in PLOTS["importance"](View(planted(lambda rng, values: 0.5))).finding


def test_importance_counts_epochs_where_they_differ(tmp_path):
    study = synthetic_study(tmp_path / "bands", trials=60, epochs=9, seed=1, hyperband=True)
    assert "epochs trained" in set(View(study).importances.table["label"])


def test_the_score_against_each_hyperparameter_shows_active_trials(planted):
    study = planted(lambda rng, values: values["m/size"] / 10, trials=19)
    figure = study.plot("hyperparameters")
    labels = [item.label for item in figure.layout.updatemenus[0].buttons]
    assert set(labels) == {"kind", "rate", "size", "noise", "depth"}
    table = study.trials()
    for place, item in enumerate(figure.layout.updatemenus[0].buttons):
        assert [number for number, shown in enumerate(item.args[0]["visible"]) if shown] == [2 * place, 2 * place + 1]
        points = figure.data[2 * place]
        assert len(points.y) == table[f"hp.m/{labels[place]}"].notna().sum()
    kind = figure.data[2 * labels.index("kind")]
    assert isinstance(kind, go.Box)
    assert dict(zip(kind.text, kind.x, strict=True)) == dict(zip(table["trial_id"], table["hp.m/kind"], strict=True))


@pytest.mark.parametrize("direction", ["max", "min"])
def test_the_front_is_what_no_trial_beats(planted, direction):
    study = planted(lambda rng, values: round(rng.uniform(), 1), trials=25, direction=direction)
    view = View(study)
    view.ranked["parameters"] = np.random.default_rng(1).integers(1, 12, len(view.ranked))
    sign = 1 if direction == "max" else -1
    points = [(cost, sign * score) for cost, score in view.ranked[["parameters", "score"]].to_numpy().tolist()]
    unbeaten = {
        point for point in points if not any(o != point and o[0] <= point[0] and o[1] >= point[1] for o in points)
    }
    front = front_of(view, "parameters")
    assert [(row["parameters"], sign * row["score"]) for _, row in front.iterrows()] == sorted(unbeaten)


def test_the_front_is_drawn_against_every_cost(small):
    figure = small.plot("pareto")
    assert [item.label for item in figure.layout.updatemenus[0].buttons] == ["parameters", "FLOPs", "step time"]
    front = figure.data[1]
    assert list(zip(front.x, front.y, strict=True)) == [(100, 0.6), (200, pytest.approx(0.8))]


def test_failures_are_counted_by_reason_without_their_numbers(write_study, tmp_path):
    errors = [f"ValueError: {n} is too <large>" for n in range(3)] + ["OSError: no room", None]
    trials = [{"values": {"a": 1}, "scores": [], "status": "failed", "error": error} for error in errors]
    trials += [{"values": {"a": 2}, "scores": [[0.5]], "status": "stopped", "error": "median_rule: 0.1"}]
    rejected = ("rejected", {"values": {"a": 3}, "reason": "parameters 5 > 4"})
    plot = PLOTS["failures"](View(write_study(tmp_path / "s", trials, extra=[rejected, rejected])))
    failed, stopped, away = (trace(plot.figure, name) for name in ("failed", "stopped", "rejected"))
    amounts = [max(value or 0 for value in values) for values in (failed.x, stopped.x, away.x)]
    assert amounts == [3, 1, 2]
    assert plot.figure.data[-1].text[0] == "ValueError: 0 is too &lt;large&gt; (failed)"
    assert "Of 6 trials and 2 rejections: 5 failed, 1 stopped, 2 rejected." in plot.finding
    assert "ValueError: 0 is too <large>" in plot.finding, "words are escaped by the page"


def test_many_trials_are_thinned_and_it_says_so(synthetic, monkeypatch):
    monkeypatch.setattr(view_module, "BEST_SHOWN", 10)
    monkeypatch.setattr(view_module, "OTHERS_SHOWN", 5)
    view = View(synthetic)
    completed = len(view.ranked)
    assert list(view.shown["trial_id"][:10]) == list(view.ranked["trial_id"][:10])
    assert len(view.shown) == 15
    pd.testing.assert_frame_equal(view.shown, View(synthetic).shown)
    said = f"Shown: the best 10 completed trials and a seeded sample of 5 of the {completed - 10} others."
    for name in ("parallel_coordinates", "hyperparameters", "pareto"):
        assert said in PLOTS[name](view).notes
    assert len(PLOTS["parallel_coordinates"](view).figure.data[0].dimensions[0]["values"]) == 15


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """As WCAG 2.2 defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_in_both_themes(theme):
    colors = look.THEMES[theme]
    for color in (*look.COLORS, look.FAINT):
        assert contrast(color, colors["panel"]) >= 3, color
    for text in ("ink", "muted", "accent"):
        for ground in ("page", "panel"):
            assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
