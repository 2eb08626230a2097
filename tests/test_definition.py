from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import errors
from workbench.components import Augmentation, Dataset, Model, Oracle, Schedule
from workbench.definition import (
    Definition,
    Range,
    check_plugins,
    definition_from_dict,
    differences,
    load_definition,
    shipped_searches,
)

MINIMAL: dict[str, Any] = {
    "dataset": {"name": "digits"},
    "model": {"name": "small"},
    "training": {"epochs": 3},
}
MINIMAL_TOML = '[dataset]\nname = "digits"\n[model]\nname = "small"\n[training]\nepochs = 3\n'


def changed(**tables: Any) -> dict[str, Any]:
    """The minimal definition with some tables' keys added, or top-level values set."""
    data: dict[str, Any] = {key: dict(table) for key, table in MINIMAL.items()}
    for key, value in tables.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    return data


def problems_of(data: dict[str, Any]) -> list[str]:
    with pytest.raises(errors.DefinitionError) as caught:
        definition_from_dict(data, "test.toml")
    assert caught.value.where == "test.toml"
    return list(caught.value.problems)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL_TOML)
    return path


class TestDefaults:
    def test_of_a_minimal_definition(self) -> None:
        definition = definition_from_dict(MINIMAL)
        assert definition.resolved() == {
            "summary": "",
            "seed": 0,
            "dataset": {"name": "digits", "split_seed": 0},
            "model": {"names": ["small"], "space": {}, "options": {}},
            "augmentation": {"names": ["none"], "space": {}},
            "schedule": {"names": ["constant"], "space": {}},
            "training": {
                "epochs": 3,
                "batch_size_per_replica": 128,
                "learning_rate_scaling": "none",
                "precision": "auto",
                "executions": 1,
                "keep_checkpoints": 3,
                "space": {},
            },
            "budget": {"max_trials": 20, "max_failures": 10, "max_same_failures": 3},
            "constraints": {},
            "objective": {"metric": "val_accuracy", "direction": "max", "stop_at_target": False},
            "tuner": {"name": "random", "enqueue_default": True},
        }

    def test_hours_alone_leave_the_trials_unlimited(self) -> None:
        assert definition_from_dict(changed(budget={"max_hours": 2})).budget.max_trials is None
        assert definition_from_dict(changed(budget={"max_failures": 2})).budget.max_trials == 20

    @pytest.mark.parametrize(
        ("metric", "direction"),
        [("val_accuracy", "max"), ("val_top_5_accuracy", "max"), ("val_loss", "min")],
    )
    def test_direction_is_inferred(self, metric: str, direction: str) -> None:
        assert definition_from_dict(changed(objective={"metric": metric})).objective.direction == direction

    def test_direction_given_goes_before_inference(self) -> None:
        objective = {"metric": "val_loss", "direction": "max"}
        assert definition_from_dict(changed(objective=objective)).objective.direction == "max"


class TestReading:
    def test_is_frozen(self) -> None:
        definition = definition_from_dict(MINIMAL)
        with pytest.raises(pydantic.ValidationError, match="frozen"):
            definition.seed = 1  # type: ignore[misc]

    def test_own_options_of_plugins(self) -> None:
        definition = definition_from_dict(
            changed(dataset={"split": "published"}, tuner={"factor": 4}, model={"options": {"weights": "x.h5"}})
        )
        assert definition.dataset.options == {"split": "published"}
        assert definition.tuner.options == {"factor": 4}
        assert definition.model.options == {"weights": "x.h5"}

    def test_integers_pass_as_floats(self) -> None:
        hours = definition_from_dict(changed(budget={"max_hours": 2})).budget.max_hours
        assert isinstance(hours, float)
        assert hours == 2.0

    def test_overrides(self) -> None:
        space = {
            "a": {"min": 1, "max": 8, "step": 2, "sampling": "log", "default": 4},
            "b": [1, 2.5],
            "c": True,
            "d": "default",
            "stage_*/e": {"min": 0.0, "max": 0.5},
        }
        assert definition_from_dict(changed(model={"space": space})).model.space == {
            "a": Range(min=1, max=8, step=2, sampling="log", default=4),
            "b": (1, 2.5),
            "c": True,
            "d": "default",
            "stage_*/e": Range(min=0.0, max=0.5),
        }

    def test_python_tuples_paths_and_none(self) -> None:
        data = changed(
            model={"name": None, "names": ("a", "b"), "options": {"weights": Path("w.h5")}},
            dataset={"image_size": None},
        )
        definition = definition_from_dict(data)
        assert definition.model.names == ("a", "b")
        assert definition.model.options == {"weights": "w.h5"}

    @pytest.mark.parametrize("module", ["tensorflow", "keras", "keras_tuner", "numpy"])
    def test_imports_nothing_heavy(self, module: str) -> None:
        code = f"import sys, workbench.definition; sys.exit({module!r} in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestProblems:
    @pytest.mark.parametrize(
        ("data", "line"),
        [
            (changed(training={"epochs": 0}), "training.epochs: must be at least 1; received 0 (integer)"),
            (
                changed(training={"epochs": True}),
                "training.epochs: must be an integer; received true (boolean)",
            ),
            (changed(training={"epochs": "3"}), 'training.epochs: must be an integer; received "3" (string)'),
            (changed(seed=2**32), "seed: must be at most 4294967295; received 4294967296 (integer)"),
            (
                changed(budget={"max_hours": True}),
                "budget.max_hours: must be a number; received true (boolean)",
            ),
            (
                changed(budget={"max_hours": 0}),
                "budget.max_hours: must be larger than 0; received 0 (integer)",
            ),
            (
                changed(objective={"target": float("nan")}),
                "objective.target: must be a finite number; received nan",
            ),
            (
                changed(objective={"metric": "accuracy"}),
                "objective.metric: must start with 'val_': a search ranks by validation; received 'accuracy'",
            ),
            (
                changed(objective={"metric": "val_f1_score"}),
                'objective.direction: is required for the metric "val_f1_score" (string): give "max" or "min"',
            ),
            (
                changed(objective={"stop_at_target": True}),
                "objective.stop_at_target: needs a target; received none",
            ),
            (
                changed(training={"precision": "mixed_float61"}),
                'training.precision: must be "auto", "float32", "mixed_bfloat16" or "mixed_float16"; '
                "received \"mixed_float61\" (string). Did you mean 'mixed_float16' or 'mixed_bfloat16'?",
            ),
            (
                changed(constraints={"min_parameters": 9, "max_parameters": 8}),
                "constraints: min_parameters 9 is larger than max_parameters 8",
            ),
            (changed(model={"names": ["a"]}), "model.name: give either name or names, not both"),
            (changed(schedule={"name": 3}), "schedule.name: must be a string; received 3 (integer)"),
            (changed(schedule={"names": []}), "schedule.names: must name at least one; received []"),
            (changed(schedule={"names": ["a", "a"]}), "schedule.names: 'a' is listed more than once"),
            (changed(schedule={"names": "a"}), 'schedule.names: must be a list; received "a" (string)'),
            (
                changed(schedule={"names": ["a", "b c"]}),
                "schedule.names[1]: must be a name of letters, digits and underscores, not starting with a "
                'digit; received "b c" (string)',
            ),
            (changed(dataset=3), "dataset: must be a table; received 3 (integer)"),
            (
                changed(model={"options": {"a": [None]}}),
                "model.options.a[0]: must be a boolean, number, string, list or table; received null (NoneType)",
            ),
        ],
    )
    def test_one(self, data: dict[str, Any], line: str) -> None:
        assert problems_of(data) == [line]

    @pytest.mark.parametrize(
        ("override", "line"),
        [
            ({"min": 128, "max": 16}, ": min 128 is larger than max 16"),
            ({"min": 16, "max": 16}, ": min and max are both 16; give the value alone to fix it"),
            ({"min": 1, "max": 2, "step": 0}, ".step: must be larger than 0; received 0"),
            (
                {"min": 0, "max": 2, "sampling": "log"},
                '.min: must be larger than 0 for sampling = "log"; received 0',
            ),
            (
                {"min": 1, "max": 2, "step": 1, "sampling": "log"},
                '.step: is a ratio for sampling = "log": larger than 1; received 1',
            ),
            ({"min": 1, "max": 2, "default": 3}, ".default: must be from 1 to 2; received 3"),
            ({"min": False, "max": 2}, ".min: must be a number; received false (boolean)"),
            ({"min": 1}, ".max: is required"),
            (
                {"min": 1, "max": 2, "stpe": 1},
                ".stpe: unknown key 'stpe'. Did you mean 'step'? The keys here are min, max, step, sampling, default",
            ),
            ([], ": must list at least one value; received []"),
            ([1, True], ": values must be of one type; received [1, true]"),
            (["a", "b", "a"], ': "a" is listed more than once'),
            ([[1]], "[0]: must be a boolean, a number or a string; received [1] (list)"),
        ],
    )
    def test_of_an_override(self, override: Any, line: str) -> None:
        assert problems_of(changed(model={"space": {"stage_*/expand": override}})) == [
            f'model.space."stage_*/expand"{line}'
        ]

    def test_unknown_keys_offer_near_names_and_the_keys_that_exist(self) -> None:
        data = changed(training={"epoch": 3}, modle={"name": "x"})
        assert problems_of(data) == [
            "training.epoch: unknown key 'epoch'. Did you mean 'epochs'? The keys here are epochs, "
            "batch_size_per_replica, global_batch_size, learning_rate_scaling, precision, executions, "
            "keep_checkpoints, early_stopping, median_rule, space",
            "modle: unknown key 'modle'. Did you mean 'model'? The keys here are summary, seed, dataset, "
            "model, augmentation, schedule, training, budget, constraints, objective, tuner",
        ]

    def test_missing_tables_name_the_keys_that_they_need(self) -> None:
        assert problems_of({}) == [
            "dataset.name: is required",
            "model.name: is required (or names, a list to choose from)",
            "training.epochs: is required",
        ]

    def test_all_at_once(self) -> None:
        data = changed(training={"epochs": 0}, seed=-1, dataset={"limit": 0})
        assert [line.partition(":")[0] for line in problems_of(data)] == [
            "seed",
            "dataset.limit",
            "training.epochs",
        ]


class TestLoading:
    def test_a_path(self, file: Path) -> None:
        assert load_definition(file) == load_definition(str(file)) == definition_from_dict(MINIMAL)

    def test_a_file_without_a_suffix(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file.rename(file.with_suffix(""))
        monkeypatch.chdir(file.parent)
        assert load_definition("mine") == definition_from_dict(MINIMAL)

    def test_a_shipped_name(self) -> None:
        assert load_definition("quickstart").dataset.name == "digits"

    def test_an_unknown_name_offers_the_shipped_ones(self) -> None:
        shipped = ", ".join(shipped_searches())
        with pytest.raises(
            errors.DefinitionError,
            match=f"^'quikstart': .* Did you mean 'quickstart'. Shipped are {shipped};",
        ):
            load_definition("quikstart")

    def test_a_missing_file(self, file: Path) -> None:
        missing = file.with_name("min.toml")
        with pytest.raises(errors.DefinitionError) as caught:
            load_definition(missing)
        assert str(caught.value) == f"{missing}: no such file. Did you mean 'mine.toml'?"

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(errors.DefinitionError, match="cannot be read: Is a directory"):
            load_definition(str(tmp_path))

    @pytest.mark.parametrize(
        ("text", "position"),
        [("seed = 1\n[dataset]\nname = digits\n", "line 3, column 8"), ("seed =", "line 1, column 7")],
    )
    def test_broken_toml_names_line_and_column(self, file: Path, text: str, position: str) -> None:
        file.write_text(text)
        with pytest.raises(errors.DefinitionError, match=r"is not valid TOML: Invalid value$") as caught:
            load_definition(file)
        assert str(caught.value).startswith(f"{file}, {position}: ")

    def test_text_that_is_not_utf8(self, file: Path) -> None:
        file.write_bytes(b'summary = "\xff"')
        with pytest.raises(errors.DefinitionError, match="must be UTF-8 text; byte 11 is not"):
            load_definition(file)


class TestSet:
    @pytest.mark.parametrize(
        ("setting", "path", "value"),
        [
            ("training.epochs=2", ("training", "epochs"), 2),
            ("seed = 4", ("seed",), 4),
            ("summary=two words", ("summary",), "two words"),
            ("summary=a=b", ("summary",), "a=b"),
            ("summary='3'", ("summary",), "3"),
            ("summary=1\nseed=2", ("summary",), "1\nseed=2"),
            ("dataset.split=published", ("dataset", "options", "split"), "published"),
            ("model.names=['a', 'b']", ("model", "names"), ("a", "b")),
            ("model.name=other", ("model", "names"), ("other",)),
            ("model.space.pools=[2, 3]", ("model", "space", "pools"), (2, 3)),
            ("model.space.stage_*/expand=8", ("model", "space", "stage_*/expand"), 8),
            ("model.space.'stage_*/expand'=8", ("model", "space", "stage_*/expand"), 8),
            ('model.space."a.b/c"=8', ("model", "space", "a.b/c"), 8),
            ("model.space.a={min=1, max=2}", ("model", "space", "a"), Range(min=1, max=2)),
            ("training.space.*=default", ("training", "space", "*"), "default"),
        ],
    )
    def test_sets_a_value(self, file: Path, setting: str, path: tuple[str, ...], value: Any) -> None:
        found: Any = load_definition(file, [setting])
        for key in path:
            found = found[key] if isinstance(found, dict) else getattr(found, key)
        assert found == value
        assert type(found) is type(value)

    def test_of_a_key_of_a_range(self, file: Path) -> None:
        file.write_text(MINIMAL_TOML + '[model.space]\n"stage_*/expand" = { min = 16, max = 128 }\n')
        definition = load_definition(file, ["model.space.stage_*/expand.max=64"])
        assert definition.model.space == {"stage_*/expand": Range(min=16, max=64)}

    def test_the_last_one_counts(self, file: Path) -> None:
        assert load_definition(file, ["seed=1", "seed=2"]).seed == 2

    def test_options_go_after_it_and_none_sets_nothing(self, file: Path) -> None:
        options = {"--epochs": ("training.epochs", 7), "--seed": ("seed", None)}
        definition = load_definition(file, ["training.epochs=2", "seed=5"], options=options)
        assert (definition.training.epochs, definition.seed) == (7, 5)

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("training.epochs=0", "--set training.epochs: must be at least 1; received 0 (integer)"),
            ("model.space.a={min=2, max=1}", "--set model.space.a: min 2 is larger than max 1"),
            (
                "training.epoch=2",
                "--set training.epoch: unknown key 'epoch'. Did you mean 'epochs'? "
                "The keys here are epochs, batch_size_per_replica, global_batch_size, learning_rate_scaling, "
                "precision, executions, keep_checkpoints, early_stopping, median_rule, space",
            ),
            (
                "training.epochs",
                "--set: must be KEY=VALUE, such as training.epochs=2; received 'training.epochs'",
            ),
            (
                "training..a=1",
                "--set: must be KEY=VALUE, such as training.epochs=2; received 'training..a=1'",
            ),
            (
                "training.epochs.a=1",
                "--set training.epochs.a: training.epochs must be a table to hold 'a'; received 3 (integer)",
            ),
        ],
    )
    def test_is_blamed_for_what_it_sets(self, file: Path, setting: str, message: str) -> None:
        with pytest.raises(errors.DefinitionError) as caught:
            load_definition(file, [setting])
        assert str(caught.value) == message

    def test_an_option_is_blamed_for_what_it_sets(self, file: Path) -> None:
        with pytest.raises(errors.DefinitionError) as caught:
            load_definition(file, options={"--epochs": ("training.epochs", 0)})
        assert str(caught.value) == "--epochs: training.epochs: must be at least 1; received 0 (integer)"

    def test_is_not_blamed_for_a_neighbouring_key(self, file: Path) -> None:
        file.write_text(MINIMAL_TOML + "epoch = 3\n")
        with pytest.raises(errors.DefinitionError) as caught:
            load_definition(file, ["training.epochs=2"])
        assert str(caught.value).startswith(f"{file}: training.epoch: unknown key 'epoch'.")

    def test_the_file_is_blamed_for_the_rest(self, file: Path) -> None:
        file.write_text(MINIMAL_TOML.replace("epochs = 3", "epochs = 0"))
        with pytest.raises(errors.DefinitionError) as caught:
            load_definition(file, ["seed=-1"])
        assert str(caught.value) == (
            f"{file}: 2 problems\n"
            "  - seed: must be at least 0; received -1 (integer) (from --set seed)\n"
            "  - training.epochs: must be at least 1; received 0 (integer)"
        )


names = st.text("abcdefgh_", min_size=1, max_size=8)
name_lists = st.lists(names, min_size=1, max_size=3, unique=True)
finite = st.floats(-1e6, 1e6)
scalars = st.one_of(st.booleans(), st.integers(-1000, 1000), finite, st.text(max_size=8))
ranges = st.tuples(st.integers(1, 50), st.integers(51, 99), st.sampled_from(["linear", "log"])).map(
    lambda drawn: {"min": drawn[0], "max": drawn[1], "step": 2, "sampling": drawn[2]}
)
choices = st.one_of(st.lists(st.integers(), min_size=1, unique=True), st.lists(st.text(), min_size=1, unique=True))
spaces = st.dictionaries(st.text(min_size=1, max_size=12), st.one_of(scalars, ranges, choices), max_size=3)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
option_keys = st.text("abc", min_size=1, max_size=3)
definitions = st.fixed_dictionaries(
    {
        "dataset": st.builds(
            dict, st.dictionaries(option_keys, json_values), name=names, image_size=st.integers(1, 999)
        ),
        "model": st.fixed_dictionaries(
            {
                "names": name_lists,
                "space": spaces,
                "options": st.dictionaries(st.text(), json_values, max_size=2),
            }
        ),
        "training": st.fixed_dictionaries({"epochs": st.integers(1, 99), "space": spaces}),
    },
    optional={
        "seed": st.integers(0, 2**32 - 1),
        "summary": st.text(),
        "augmentation": st.fixed_dictionaries({"name": names}),
        "budget": st.fixed_dictionaries({"max_hours": st.floats(0.1, 99)}),
        "objective": st.fixed_dictionaries({"metric": st.sampled_from(["val_loss", "val_accuracy"])}),
        "tuner": st.builds(dict, st.dictionaries(option_keys, json_values), name=names),
    },
)


class TestResolved:
    @given(definitions)
    def test_is_json_that_reads_back_to_an_equal_definition(self, data: dict[str, Any]) -> None:
        definition = definition_from_dict(data)
        resolved = definition.resolved()
        again = definition_from_dict(json.loads(json.dumps(resolved)))
        assert again == definition
        assert again.resolved() == resolved
        assert differences(definition, again) == []


class TestDifferences:
    @pytest.mark.parametrize(
        "change",
        [
            {"summary": "other"},
            {"budget": {"max_trials": 99, "max_hours": 1.5, "max_failures": 1}},
            {"objective": {"target": 0.5, "stop_at_target": True}},
            {"training": {"keep_checkpoints": 1}},
        ],
    )
    def test_of_what_may_change(self, change: dict[str, Any]) -> None:
        assert differences(definition_from_dict(MINIMAL), definition_from_dict(changed(**change))) == []

    def test_names_key_paths_and_values(self) -> None:
        old = changed(model={"space": {"a/b": True, "c": {"min": 1, "max": 2}}}, dataset={"split": "x"})
        new = changed(
            seed=3,
            model={"name": "large", "space": {"a/b": 1, "c": {"min": 1, "max": 4}}},
            objective={"metric": "val_loss"},
        )
        assert differences(definition_from_dict(old), definition_from_dict(new)) == [
            "seed: 0 -> 3",
            'dataset.split: "x" -> (not given)',
            'model.names: ["small"] -> ["large"]',
            'model.space."a/b": true -> 1',
            "model.space.c.max: 2 -> 4",
            'objective.metric: "val_accuracy" -> "val_loss"',
            'objective.direction: "max" -> "min"',
        ]


class Registered:
    """A registry of a few components."""

    def __init__(self, *components: Any):
        self._components = {(item.kind, item.name): item for item in components}

    def find(self, kind: str, name: str) -> Any:
        if (kind, name) not in self._components:
            raise errors.UnknownPluginError(f"no {kind} is named {name!r}.")
        return self._components[kind, name]


def create_oracle(options: Any) -> Any:
    if options.get("factor", 3) < 2:
        raise ValueError(f"factor must be at least 2; received {options['factor']}")
    return SimpleNamespace()


def never(*args: Any) -> Any:
    raise AssertionError("nothing is built or opened to check a definition")


REGISTRY = Registered(
    Model(name="small", summary="s", build=never, options={"weights": "where from"}),
    Model(name="large", summary="s", build=never, min_image_size=71),
    Augmentation(name="none", summary="s", build=never),
    Schedule(name="constant", summary="s", build=never),
    Dataset(name="digits", summary="s", open=never, options={"split": "which"}),
    Oracle(name="random", summary="s", create=create_oracle, options={"factor": "how many"}),
)


class TestCheckPlugins:
    def check(self, **tables: Any) -> list[str]:
        with pytest.raises(errors.DefinitionError) as caught:
            check_plugins(definition_from_dict(changed(**tables)), REGISTRY, "test.toml")
        assert caught.value.where == "test.toml"
        return list(caught.value.problems)

    def test_accepts_what_is_declared(self) -> None:
        data = changed(
            model={"name": None, "names": ["small", "large"], "options": {"weights": "x"}},
            dataset={"split": "published", "image_size": 71},
            tuner={"factor": 2},
        )
        check_plugins(definition_from_dict(data), REGISTRY, "test.toml")

    def test_collects_every_unknown_name(self) -> None:
        assert self.check(
            dataset={"name": "digit"},
            model={"name": None, "names": ["small", "big"]},
            augmentation={"name": "non"},
            schedule={"names": ["constant", "step"]},
            tuner={"name": "randem"},
        ) == [
            "dataset.name: no dataset is named 'digit'.",
            "model.names: no model is named 'big'.",
            "augmentation.name: no augmentation is named 'non'.",
            "schedule.names: no schedule is named 'step'.",
            "tuner.name: no oracle is named 'randem'.",
        ]

    def test_options_that_are_not_declared(self) -> None:
        assert self.check(
            dataset={"image_sise": 8}, model={"options": {"weight": "x"}}, tuner={"factr": 3, "seed": 1}
        ) == [
            "dataset.image_sise: unknown key 'image_sise'. Did you mean 'image_size'? "
            "The data set 'digits' takes split",
            "model.options.weight: unknown key 'weight'. Did you mean 'weights'? The model 'small' takes weights",
            "tuner.factr: unknown key 'factr'. Did you mean 'factor'? The tuner 'random' takes factor",
            "tuner.seed: unknown key 'seed'. The tuner 'random' takes factor",
        ]

    def test_options_of_a_model_that_has_none(self) -> None:
        assert self.check(model={"name": "large", "options": {"weights": "x"}}) == [
            "model.options.weights: unknown key 'weights'. The model 'large' takes none of its own"
        ]

    def test_an_option_that_the_oracle_refuses(self) -> None:
        assert self.check(tuner={"factor": 1}) == ["tuner: factor must be at least 2; received 1"]

    def test_images_too_small_for_a_model(self) -> None:
        assert self.check(model={"name": "large"}, dataset={"image_size": 70}) == [
            "dataset.image_size: must be at least 71 for the model 'large'; received 70"
        ]


def test_a_definition_travels_to_another_process(file: Path) -> None:
    definition = load_definition(file, ["model.space.a={min=1, max=2}"])
    code = (
        "import pickle, sys; definition = pickle.load(sys.stdin.buffer); "
        "sys.stdout.buffer.write(pickle.dumps(definition))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(definition),
        check=True,
        capture_output=True,
        timeout=60,
    )
    again = pickle.loads(run.stdout)
    assert again == definition
    assert isinstance(again, Definition)
