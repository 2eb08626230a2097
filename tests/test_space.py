"""Overrides of hyperparameters, and what exploration finds."""

from __future__ import annotations

import keras_tuner
import pytest
from keras_tuner.engine import hyperparameters as kinds

from workbench.definition import Range
from workbench.errors import SpaceError
from workbench.space import Overrides, SearchSpace, describe, explore


def overrides(**table):
    return Overrides([("model.space", ("net",), table)])


def declare(hp):
    with hp.name_scope("net"):
        hp.Int("filters", 8, 64, step=8, default=32)
        hp.Int("depth", 1, 4, default=2)
        hp.Float("drop", 0.0, 0.5, step=0.1, default=0.3)
        hp.Float("rate", 1e-4, 1e-1, sampling="log", default=1e-2)
        hp.Choice("kernel", [3, 5, 7], default=5)
        hp.Choice("kind", ["plain", "fire"])
        hp.Boolean("norm", default=True)
        hp.Fixed("bias", True)


def overridden(name, value):
    """The one declared hyperparameter `net/NAME` under an override of it."""
    space = explore(declare, overrides(**{name: value}))
    (hp,) = [hp for hp in space.space if hp.name == f"net/{name}"]
    assert space.values[hp.name] == hp.default
    return hp


def config(hp):
    return {key: value for key, value in hp.get_config().items() if key not in ("name", "conditions")}


def test_without_overrides_everything_is_as_declared():
    plain = keras_tuner.HyperParameters()
    declare(plain)
    space = explore(declare, Overrides())
    assert space.get_config() == plain.get_config()


@pytest.mark.parametrize("name", ["filters", "drop", "rate", "kernel", "kind", "norm"])
def test_default_fixes_a_hyperparameter_at_its_default(name):
    plain = keras_tuner.HyperParameters()
    declare(plain)
    hp = overridden(name, "default")
    assert isinstance(hp, kinds.Fixed)
    assert hp.value == plain.values[f"net/{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("filters", 24), ("filters", 1000), ("drop", 1), ("kernel", 9), ("kind", "fire"), ("norm", False), ("bias", True)],
)
def test_a_value_fixes_it(name, value):
    hp = overridden(name, value)
    assert isinstance(hp, kinds.Fixed)
    assert hp.value == value
    assert isinstance(hp.value, float) == (name == "drop")


@pytest.mark.parametrize(
    ("name", "values", "default"),
    [
        ("filters", (16, 32), 32),
        ("filters", (16, 24), 16),
        ("drop", (0, 0.25), 0.0),
        ("kernel", (1, 5), 5),
        ("kind", ("fire", "plain"), "plain"),
    ],
)
def test_a_list_is_a_choice_that_keeps_the_default_where_it_can(name, values, default):
    hp = overridden(name, values)
    assert isinstance(hp, kinds.Choice)
    assert tuple(hp.values) == values
    assert hp.default == default


def test_a_list_of_one_fixes_it():
    assert config(overridden("filters", (16,))) == {"value": 16}
    assert config(overridden("norm", (False,))) == {"value": False}
    assert isinstance(overridden("norm", (False, True)), kinds.Boolean)


@pytest.mark.parametrize(
    ("name", "changed", "expected"),
    [
        ("filters", Range(min=16, max=48), {"min_value": 16, "max_value": 48, "step": 8, "default": 32}),
        ("filters", Range(min=16, max=256, step=16), {"min_value": 16, "max_value": 256, "step": 16, "default": 32}),
        ("filters", Range(min=40, max=64), {"min_value": 40, "max_value": 64, "step": 8, "default": 40}),
        ("filters", Range(min=8, max=24), {"min_value": 8, "max_value": 24, "step": 8, "default": 24}),
        ("filters", Range(min=4, max=64, step=12), {"min_value": 4, "max_value": 64, "step": 12, "default": 28}),
        ("filters", Range(min=8, max=64, default=16), {"min_value": 8, "max_value": 64, "step": 8, "default": 16}),
        ("filters", Range(min=8.0, max=64.0), {"min_value": 8, "max_value": 64, "step": 8, "default": 32}),
        ("drop", Range(min=0, max=1), {"min_value": 0.0, "max_value": 1.0, "step": 0.1}),
        ("rate", Range(min=1e-3, max=1), {"min_value": 1e-3, "max_value": 1.0, "step": None, "default": 1e-2}),
        ("kernel", Range(min=1, max=9, step=2), {"min_value": 1, "max_value": 9, "step": 2, "default": 5}),
    ],
)
def test_a_range_keeps_the_kind_step_and_sampling(name, changed, expected):
    hp = overridden(name, changed)
    assert isinstance(hp, kinds.Float if name in ("drop", "rate") else kinds.Int)
    found = config(hp)
    assert {key: found[key] for key in expected} == expected
    assert found["sampling"] == ("log" if name == "rate" else "linear")
    if hp.step is not None:
        assert min(abs(value - hp.default) for value in hp.values) < 1e-9, "the default is on the grid"


@pytest.mark.parametrize("name", ["filters", "drop"])
def test_another_sampling_drops_the_declared_step(name):
    """A linear step is a distance; a logarithmic one would be a ratio."""
    hp = overridden(name, Range(min=2, max=64, sampling="log"))
    assert (hp.sampling, hp.step) == ("log", None)
    stepped = overridden(name, Range(min=2, max=64, sampling="log", step=2))
    assert list(stepped.values) == [2, 4, 8, 16, 32, 64]
    assert stepped.default == (32 if name == "filters" else 2)
    linear = overridden("rate", Range(min=0, max=1, sampling="linear"))
    assert (linear.sampling, linear.step) == ("linear", None)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("filters", "many", r"net/filters must be an integer; received 'many'"),
        ("filters", 2.5, r"net/filters must be an integer; received 2\.5"),
        ("filters", True, r"net/filters must be an integer; received True"),
        ("filters", (8, 2.5), r"net/filters must be an integer; received 2\.5"),
        ("filters", Range(min=1.5, max=4), r"net/filters takes integers; received 1\.5\.\.4"),
        ("drop", "none", r"net/drop must be a number; received 'none'"),
        ("kind", "fier", r"net/kind must be one of 'plain', 'fire'; received 'fier'\. Did you mean 'fire'\?"),
        ("kind", Range(min=1, max=2), r"a range needs a numeric hyperparameter; net/kind is a Choice"),
        ("norm", 1, r"net/norm must be true or false; received 1"),
        ("norm", Range(min=0, max=1), r"a range needs a numeric hyperparameter; net/norm is a Boolean"),
        ("bias", False, r"net/bias is fixed at True by its plugin; received False"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_its_key_path(name, value, message):
    with pytest.raises(SpaceError, match=rf'^model\.space\."{name}": {message}'):
        explore(declare, overrides(**{name: value}))


@pytest.mark.parametrize("pattern", ["filters", "net/filters", "fil*", "net/f*", "*"])
def test_a_pattern_is_compared_with_and_without_the_component(pattern):
    space = explore(declare, overrides(**{pattern: "default"}))
    assert config(next(hp for hp in space.space if hp.name == "net/filters")) == {"value": 32}


def test_an_exact_name_goes_before_a_glob_and_the_last_glob_counts():
    table = {"filters": 8, "*": "default", "d*": "default", "de*": 4}
    values = explore(declare, overrides(**table)).values
    assert values["net/filters"] == 8
    assert values["net/depth"] == 4
    assert values["net/drop"] == 0.3


def test_a_pattern_that_matches_nothing_is_an_error_with_near_names():
    with pytest.raises(SpaceError, match=r'model\.space\."filterz" must match a hyperparameter of net.*\'filters\''):
        explore(declare, overrides(filterz=8))
    with pytest.raises(SpaceError, match=r'(?s)"x\*" must match.*There are: filters, depth.*\n.*"y\*" must match'):
        explore(declare, overrides(**{"x*": 8, "y*": 8}))


def test_an_override_speaks_of_its_own_components_only():
    def build(hp):
        declare(hp)
        with hp.name_scope("training"):
            hp.Choice("kind", ["adam", "sgd"])

    space = explore(build, Overrides([("training.space", ("training",), {"*": "default"})]))
    assert config(next(hp for hp in space.space if hp.name == "training/kind")) == {"value": "adam"}
    assert isinstance(next(hp for hp in space.space if hp.name == "net/kind"), kinds.Choice)


def conditional(hp):
    """Declares what is inactive only where it is reached, as careless plugins do."""
    with hp.name_scope("net"):
        kind = hp.Choice("kind", ["plain", "fire"])
        with hp.conditional_scope("kind", ["fire"]):
            if kind == "fire":
                hp.Int("squeeze", 1, 4)
                with hp.conditional_scope("squeeze", [3, 4]):
                    if hp.get("squeeze") in (3, 4):
                        hp.Boolean("bypass")


def test_conditional_scopes_are_explored_however_deep():
    space = explore(conditional, Overrides())
    assert [hp.name for hp in space.space] == ["net/kind", "net/squeeze", "net/bypass"]
    assert space.values == {"net/kind": "plain"}
    rows = {row["name"]: row for row in describe(space)}
    assert rows["net/bypass"]["when"] == "net/kind = fire and net/squeeze = 3 or 4"


def test_overrides_reach_conditional_hyperparameters():
    space = explore(conditional, overrides(bypass=True, kind="fire", squeeze=3))
    assert space.values == {"net/kind": "fire", "net/squeeze": 3, "net/bypass": True}


def test_a_scope_that_the_ranges_forbid_is_left_out():
    space = explore(conditional, overrides(kind="plain"))
    assert [hp.name for hp in space.space] == ["net/kind"]


@pytest.mark.parametrize("blocks", [None, (1, 3), Range(min=1, max=3)])
def test_hyperparameters_declared_in_a_loop_are_found(blocks):
    def build(hp):
        with hp.name_scope("net"):
            for block in range(hp.Int("blocks", 1, 3)):
                hp.Int(f"block_{block}/filters", 8, 16)

    space = explore(build, overrides(**({"blocks": blocks} if blocks else {})))
    assert [hp.name for hp in space.space][1:] == [f"net/block_{block}/filters" for block in range(3)]
    assert "net/block_1/filters" in {row["name"] for row in describe(space)}


def test_points_that_do_not_build_still_declare():
    def build(hp):
        with hp.name_scope("net"):
            kind = hp.Choice("kind", ["plain", "broken"])
            with hp.conditional_scope("kind", ["broken"]):
                if kind == "broken":
                    hp.Int("size", 1, 3)
                    raise ValueError("never builds")

    assert [hp.name for hp in explore(build, Overrides()).space] == ["net/kind", "net/size"]


def test_a_default_point_that_does_not_build_is_the_callers():
    def build(hp):
        raise ValueError("never builds")

    with pytest.raises(ValueError, match="never builds"):
        explore(build, Overrides())


def test_a_copy_keeps_overrides_and_shares_no_values():
    space = SearchSpace(overrides(filters=8))
    other = space.copy()
    declare(other)
    assert other.values["net/filters"] == 8
    assert space.values == {}


def test_describe_tells_ranges():
    rows = {
        row["name"]: (row["kind"], row["values"], row["default"]) for row in describe(explore(declare, Overrides()))
    }
    assert rows == {
        "net/filters": ("Int", "8 to 64, step 8", 32),
        "net/depth": ("Int", "1 to 4, step 1", 2),
        "net/drop": ("Float", "0 to 0.5, step 0.1", 0.3),
        "net/rate": ("Float", "0.0001 to 0.1, log", 0.01),
        "net/kernel": ("Choice", "3, 5, 7", 5),
        "net/kind": ("Choice", "plain, fire", "plain"),
        "net/norm": ("Boolean", "false, true", True),
        "net/bias": ("Fixed", "True", True),
    }
