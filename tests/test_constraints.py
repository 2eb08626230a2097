"""Points that are never trained: outside the constraints, or the same network as another."""

from __future__ import annotations

import keras_tuner
import pytest

import workbench
from workbench.constraints import Gate, network_key, violation
from workbench.definition import definition_from_dict
from workbench.engine.protocol import Cost
from workbench.errors import TrialError, WorkError
from workbench.journal import Journal
from workbench.log import StudyLog
from workbench.oracles.history import MAX_REFUSALS, HistoryOracle
from workbench.registry import Registry

DEAD = """
import workbench


@workbench.hookimpl
def workbench_models():
    return [workbench.Model(name="dead", summary="One of two hyperparameters does nothing", build=build)]


def build(hp, image_shape, num_classes):
    import keras

    units = hp.Int("units", 4, 8, step=4)
    hp.Int("of_no_use", 1, 8)
    images = keras.Input(image_shape)
    x = keras.layers.Dense(units)(keras.layers.Flatten()(images))
    return keras.Model(images, keras.layers.Dense(num_classes, activation="softmax")(x))
"""


def cost(parameters=100, flops=2000, model_mib=0.5, graph="a", seconds_per_epoch=None):
    return Cost(
        parameters=parameters, flops=flops, model_mib=model_mib, graph=graph, seconds_per_epoch=seconds_per_epoch
    )


@pytest.fixture
def log(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield StudyLog(journal)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, ""),
        ({"max_parameters": 100, "min_parameters": 100, "max_flops": 2000, "max_model_mib": 0.5}, ""),
        ({"max_seconds_per_epoch": 3.0}, ""),
        ({"max_parameters": 99}, "parameters 100 is larger than max_parameters 99"),
        ({"min_parameters": 101}, "parameters 100 is smaller than min_parameters 101"),
        ({"max_flops": 1999}, "flops 2,000 is larger than max_flops 1,999"),
        ({"max_model_mib": 0.4}, "model_mib 0.5 is larger than max_model_mib 0.4"),
        ({"max_seconds_per_epoch": 2.9}, "seconds_per_epoch 3 is larger than max_seconds_per_epoch 2.9"),
    ],
)
def test_every_constraint(tiny_definition, limits, message):
    definition = tiny_definition(constraints=limits)
    assert violation(definition.constraints, cost(seconds_per_epoch=3.0)) == message


def test_what_was_not_measured_breaks_nothing(tiny_definition):
    definition = tiny_definition(constraints={"max_seconds_per_epoch": 0.001})
    assert violation(definition.constraints, cost()) == ""


def test_a_network_is_the_graph_and_what_is_not_the_models(tiny_definition):
    definition = tiny_definition(model={"names": ["tiny", "fragile"]})
    values = {"model": "tiny", "tiny/units": 4, "constant/learning_rate": 0.1}
    same = {"model": "fragile", "fragile/number": 1, "constant/learning_rate": 0.1}
    assert network_key("a", values, definition) == network_key("a", same, definition)
    assert network_key("a", values, definition) != network_key("b", values, definition)
    other = {**values, "constant/learning_rate": 0.2}
    assert network_key("a", values, definition) != network_key("a", other, definition)


def test_the_gate_journals_what_it_refuses(tiny_definition, log):
    definition = tiny_definition(constraints={"max_parameters": 100})
    gate = Gate(definition, lambda values: cost(int(values["tiny/units"]), graph=str(values["tiny/units"])), log)
    assert gate.admit({"tiny/units": 100})
    assert not gate.admit({"tiny/units": 101})
    assert gate.graph_of({"tiny/units": 100}) == "100"
    assert gate.graph_of({"tiny/units": 101}) is None
    (event,) = log.history.rejections
    assert event["values"] == {"tiny/units": 101}
    assert event["reason"] == "parameters 101 is larger than max_parameters 100"
    assert (event["parameters"], event["flops"], event["model_mib"]) == (101, 2000, 0.5)


def test_the_gate_knows_the_networks_of_the_journals_trials(tiny_definition, log):
    log.append("proposal", trial_id="0007", values={"tiny/units": 4}, epochs=1, graph="a", at="")
    gate = Gate(tiny_definition(), lambda values: cost(graph="a" if values["tiny/units"] < 9 else "b"), log)
    assert not gate.admit({"tiny/units": 8})
    assert log.history.rejections[-1]["reason"] == "the same network as trial 0007"
    assert gate.admit({"tiny/units": 12})
    assert not gate.admit({"tiny/units": 16})


def test_a_point_that_cannot_be_built_is_admitted_and_will_fail(tiny_definition, log):
    def build(values):
        raise TrialError("ValueError: no", "ValueError")

    gate = Gate(tiny_definition(constraints={"max_parameters": 1}), build, log)
    assert gate.admit({"tiny/units": 4})
    assert gate.graph_of({"tiny/units": 4}) is None
    assert log.history.rejections == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning:keras_tuner")
def test_impossible_constraints_end_in_a_bounded_number_of_draws(tiny_definition, log):
    space = keras_tuner.HyperParameters()
    space.Float("tiny/width", 0.0, 1.0)
    gate = Gate(
        tiny_definition(constraints={"max_parameters": 10}),
        lambda values: cost(1000 + int(1000 * values["tiny/width"]), graph=str(values["tiny/width"])),
        log,
    )
    oracle = HistoryOracle(
        Registry.load(environ={}).find("oracle", "random").create({}),
        **{"objective": "val_accuracy", "direction": "max", "space": space, "seed": 3},
        **{"max_epochs": 1, "max_trials": 5},
    )
    oracle.admit = gate.admit
    assert oracle.create_trial("worker").status == "STOPPED"
    assert oracle.stop_reason == "constraints"
    assert len(log.history.rejections) == MAX_REFUSALS
    assert min(event["parameters"] for event in log.history.rejections) >= 1000


@pytest.fixture
def search(tmp_path, tiny_tables, tiny_plugin):
    def run(plugins=(), **changes):
        return workbench.search(
            tiny_tables(**changes),
            study="study",
            directory=tmp_path,
            plugin_files=[tiny_plugin, *plugins],
            inline=True,
            device="cpu",
        )

    return run


@pytest.mark.parametrize("tuner", ["random", pytest.param("grid", marks=pytest.mark.slow)])
def test_a_dead_hyperparameter_costs_no_training(search, tmp_path, tuner):
    """16 points and a budget of 100, of which 2 are networks: 2 trials, and the space is exhausted."""
    plugin = tmp_path / "dead.py"
    plugin.write_text(DEAD)
    study = search([plugin], model={"name": "dead"}, tuner={"name": tuner}, budget={"max_trials": 100})
    trials = study.trials()
    assert sorted(trials["hp.dead/units"]) == [4, 8]
    assert trials["status"].to_list() == ["completed"] * 2
    assert study.history.finished["reason"] == "space exhausted"
    assert len(study.history.rejections) == 14
    assert {event["reason"].partition(" trial")[0] for event in study.history.rejections} == {"the same network as"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tuner", "draws"), [("random", MAX_REFUSALS), ("hyperband", MAX_REFUSALS), ("evolution", MAX_REFUSALS)]
)
def test_impossible_constraints_of_a_large_space_name_the_nearest_figures(search, tuner, draws):
    with pytest.raises(
        WorkError,
        match=rf"no point of the search space was inside the constraints in {draws} draws, the last one because "
        rf"parameters .* is smaller than min_parameters 2,000; they had parameters [\d,]+ to 1,210, flops .*"
        r"Widen \[constraints\] or the space",
    ):
        search(
            schedule={"name": "constant", "space": {"learning_rate": {"min": 1e-4, "max": 1e-2}}},
            training={"epochs": 3},
            tuner={"name": tuner},
            constraints={"min_parameters": 2000},
        )


def test_the_definition_refuses_limits_that_exclude_each_other(tiny_tables):
    with pytest.raises(workbench.DefinitionError, match="min_parameters 9 is larger than max_parameters 8"):
        definition_from_dict(tiny_tables(constraints={"min_parameters": 9, "max_parameters": 8}))
