"""What is said of a search before it runs."""

from __future__ import annotations

import pytest

from workbench.check.lint import lint
from workbench.check.subjects import subjects_of_search
from workbench.errors import DataError, SpaceError


def linted(tables, registry, **how):
    subjects, _ = subjects_of_search(tables, registry, **how)
    return lint(subjects, registry)


def test_the_default_point_and_the_space_are_counted(tiny_tables, tiny_registry):
    found = linted(tiny_tables(), tiny_registry)
    (row,) = found.rows
    # (pixels + classes + 1) * units + classes
    assert (row["parameters"], row["image_shape"], row["classes"]) == ((64 + 10 + 1) * 8 + 10, "8x8x1", 10)
    assert row["problems"] == ""
    assert found.notes[0] == "space: 2 hyperparameters are searched, 8 points"
    assert found.notes[1].startswith("budget: max_trials 2,")


def test_constraints_that_the_default_point_breaks_are_named(tiny_tables, tiny_registry):
    found = linted(tiny_tables(constraints={"max_parameters": 500}), tiny_registry)
    assert found.rows[0]["problems"] == "parameters 610 is larger than max_parameters 500"
    assert found.notes[-1] == "outside [constraints], never trained: tiny"


def test_overrides_that_match_nothing_are_refused(tiny_tables, tiny_registry):
    with pytest.raises(SpaceError, match="unitz"):
        linted(tiny_tables(model={"space": {"unitz": 4}}), tiny_registry)


def test_a_default_point_that_does_not_build_is_told(tiny_tables, tiny_registry):
    tables = tiny_tables(model={"name": "fragile", "space": {"trouble": "raise"}})
    with pytest.raises(SpaceError, match=r"fragile must build for 8x8x1 images.*this point never builds"):
        linted(tables, tiny_registry)


def test_data_that_is_not_at_hand_is_assumed_or_if_it_was_named_missed(
    tiny_tables, tiny_registry, tmp_path, monkeypatch
):
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    tables = tiny_tables(dataset={"name": "flowers", "limit": None, "image_size": 32})
    del tables["dataset"]["limit"]
    _, (note,) = subjects_of_search(tables, tiny_registry)
    assert note.startswith("data set 'flowers' is not at hand")
    with pytest.raises(DataError, match="flowers"):
        subjects_of_search(tables, tiny_registry, data_dir=tmp_path)
