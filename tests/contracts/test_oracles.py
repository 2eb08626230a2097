"""What holds for every built-in search algorithm."""

import copy
import math
import subprocess
import sys

import keras_tuner
import numpy as np
import pytest
from workbench_plugins.oracles import asha, bayesian, evolution, grid, hyperband, random

from workbench.oracles.history import HistoryOracle
from workbench.oracles.protocol import MultiFidelityProposer, Outcome, Proposal, Record, Verdict
from workbench.oracles.sampling import active_values, enumerate_points, levels_of, point_key
from workbench.registry import Registry

MODULES = (random, grid, bayesian, evolution, hyperband, asha)
COMPONENTS = {item.component.name: item.component for item in Registry.load(environ={}).registered("oracle")}
OPTIONS = {"bayesian": {"num_initial_points": 4}, "evolution": {"population": 4, "sample": 2}}


@pytest.fixture(params=sorted(COMPONENTS))
def name(request):
    return request.param


@pytest.fixture
def proposer(name):
    return COMPONENTS[name].create(OPTIONS.get(name, {}))


def conditional_space():
    """Conditional, with every kind of hyperparameter."""
    hp = keras_tuner.HyperParameters()
    hp.Choice("net/kind", ["plain", "fire"])
    hp.Fixed("net/bias", True)
    with hp.conditional_scope("net/kind", ["plain"]):
        hp.Int("net/filters", 8, 64, step=8)
        hp.Float("net/dropout", 0, 0.5, step=0.1)
    with hp.conditional_scope("net/kind", ["fire"]):
        hp.Int("net/squeeze", 2, 32, step=2, sampling="log")
        hp.Boolean("net/bypass")
        with hp.conditional_scope("net/bypass", [True]):
            hp.Choice("net/where", [1, 2, 3])
    hp.Float("rate", 1e-4, 1e-1, sampling="log")
    return hp


def small_space():
    """16 points, of which 8 are conditional."""
    hp = keras_tuner.HyperParameters()
    hp.Boolean("norm")
    hp.Choice("kind", ["a", "b"])
    with hp.conditional_scope("kind", ["a"]):
        hp.Int("size", 1, 4)
    with hp.conditional_scope("kind", ["b"]):
        hp.Float("drop", 0.1, 0.4, step=0.1)
    return hp


def make(proposer, *, space=None, seed=5, direction="max", max_epochs=9, max_trials=None, **options):
    return HistoryOracle(
        proposer,
        objective="score",
        direction=direction,
        space=space or conditional_space(),
        seed=seed,
        max_epochs=max_epochs,
        max_trials=max_trials,
        **options,
    )


def finish(oracle, trial, score):
    if score is not None:
        oracle.update_trial(trial.trial_id, {"score": score})
    trial.status = "FAILED" if score is None else "COMPLETED"
    oracle.end_trial(trial)


def synthetic(values):
    """A number in [0, 1) that the values alone decide."""
    return math.fmod(sum(len(str(value)) + hash_free(value) for value in values.values()), 1.0)


def hash_free(value):
    return 0.37 * len(value) if isinstance(value, str) else 7.31 * float(value)


def run(oracle, steps, workers=1, score=synthetic):
    """Keeps `workers` trials running for `steps` answers; every seventh proposal fails."""
    running = {}
    for step in range(steps):
        tuner_id = f"w{step % workers}"
        if tuner_id in running:
            trial = running.pop(tuner_id)
            failed = int(trial.trial_id) % 7 == 6
            finish(oracle, trial, None if failed else score(trial.hyperparameters.values))
        trial = oracle.create_trial(tuner_id)
        if trial.status == "RUNNING":
            running[tuner_id] = trial
    return running


def history(name, count=14):
    oracle = make(COMPONENTS[name].create(OPTIONS.get(name, {})))
    run(oracle, count, workers=2)
    return oracle.records()


def test_is_pure(name, proposer):
    space, records = conditional_space(), history(name)
    before = copy.deepcopy(records), space.get_config()
    answers = [
        proposer.propose(space, records, np.random.default_rng(3), direction="max", max_epochs=9) for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert (records, space.get_config()) == before


@pytest.mark.parametrize("workers", [1, 3])
def test_a_restored_oracle_goes_on_as_the_one_that_lived(name, workers):
    create, options = COMPONENTS[name].create, OPTIONS.get(name, {})
    enqueued = [active_values(conditional_space(), {})]
    lived = make(create(options), enqueued=enqueued)
    running_at_restore = 0
    for _ in range(6):
        restored = make(create(options), enqueued=enqueued, records=lived.records())
        running_at_restore += sum(record.outcome is Outcome.RUNNING for record in lived.records())
        for oracle in (lived, restored):
            # Both give what still runs first: to the worker that has it, or handed out again.
            trials = [oracle.create_trial(f"w{i}") for i in range(workers)]
            for trial in trials:
                if trial.status == "RUNNING":
                    finish(oracle, trial, synthetic(trial.hyperparameters.values))
            oracle.create_trial("w0")
        assert restored.records() == lived.records()
    assert running_at_restore >= 4
    assert len(lived.records()) >= 6


def test_never_repeats_a_point_at_the_same_epochs(name, proposer):
    oracle = make(proposer)
    run(oracle, 40, workers=3)
    keys = [(point_key(record.values), record.epochs) for record in oracle.records()]
    assert len(keys) > 20
    assert len(set(keys)) == len(keys)


def test_values_are_active_and_on_each_range(name, proposer):
    space = conditional_space()
    oracle = make(proposer, space=space)
    run(oracle, 30, workers=2)
    by_name = {hp.name: hp for hp in space.space}
    for record in oracle.records():
        assert record.values == active_values(space, record.values)
        for key, value in record.values.items():
            levels = levels_of(by_name[key])
            in_range = 1e-4 <= value <= 1e-1 if levels is None else value in levels
            assert in_range, (key, value)
    if name != "grid":  # which does not come to the second kind within 30 points
        assert {record.values["net/kind"] for record in oracle.records()} == {"plain", "fire"}


def test_a_finite_space_gives_every_point_once_and_ends(name, proposer):
    space = small_space()
    oracle = make(proposer, space=space, max_epochs=1, max_trials=100)
    if name == "hyperband":
        oracle = make(COMPONENTS[name].create({"hyperband_iterations": 50}), space=space, max_epochs=1)
    run(oracle, 101)
    keys = [point_key(record.values) for record in oracle.records()]
    assert len(keys) == 16
    assert set(keys) == {point_key(point) for point in enumerate_points(space)}
    is_plan = COMPONENTS[name].multi_fidelity
    assert oracle.stop_reason == ("plan done" if is_plan else "space exhausted")


def test_four_pending_proposals_are_distinct(name, proposer):
    oracle = make(proposer, records=[r for r in history(name) if r.outcome is not Outcome.RUNNING])
    trials = [oracle.create_trial(f"w{i}") for i in range(4)]
    assert len({point_key(trial.hyperparameters.values) for trial in trials}) == 4


@pytest.mark.parametrize("seeds", [(0, 1), (1, 3), (0, 3)])
def test_seeds_give_different_streams(name, seeds):
    streams = []
    for seed in seeds:
        oracle = make(COMPONENTS[name].create(OPTIONS.get(name, {})), seed=seed)
        run(oracle, 8)
        streams.append({point_key(record.values) for record in oracle.records()})
    if name == "grid":
        assert streams[0] == streams[1]
    else:
        assert not streams[0] & streams[1]


def test_an_enqueued_point_is_the_first_and_is_not_repeated(name, proposer):
    enqueued = {"net/kind": "fire", "net/squeeze": 8, "rate": 1e-3}
    oracle = make(proposer, enqueued=[enqueued])
    run(oracle, 20)
    first = oracle.records()[0]
    assert first.values == {**enqueued, "net/bias": True, "net/bypass": False}
    place = (0, 0, 1) if COMPONENTS[name].multi_fidelity else (None, None, 9)
    assert (first.bracket, first.rung, first.epochs) == place
    new = [record for record in oracle.records() if record.rung in (None, 0)]
    assert sum(point_key(record.values) == point_key(first.values) for record in new) == 1


def test_multi_fidelity_is_declared_as_it_is(name, proposer):
    assert COMPONENTS[name].multi_fidelity == isinstance(proposer, MultiFidelityProposer)


def test_an_unknown_option_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} has no option 'colour'; it takes "):
        COMPONENTS[name].create({"colour": "red"})


def test_a_failed_history_does_not_end_the_search(name, proposer):
    records = [
        Record(trial_id=f"{i:04d}", values=dict(point), epochs=1, outcome=Outcome.FAILED)
        for i, point in enumerate(enumerate_points(small_space()), start=1)
    ][:10]
    rng = np.random.default_rng(0)
    answer = proposer.propose(small_space(), records, rng, direction="max", max_epochs=9)
    assert isinstance(answer, Proposal)
    assert point_key(answer.values) not in {point_key(record.values) for record in records}


def rejected(values):
    return Record(trial_id="", values=values, epochs=0, outcome=Outcome.REJECTED)


def test_a_rejected_point_is_not_proposed_again(name, proposer):
    space = small_space()
    points = list(enumerate_points(space))
    left = points.pop(9)
    rng = np.random.default_rng(0)
    answer = proposer.propose(space, [rejected(p) for p in points], rng, direction="max", max_epochs=1)
    assert answer.values == left
    everything = [rejected(p) for p in [*points, left]]
    assert proposer.propose(space, everything, rng, direction="max", max_epochs=1) is Verdict.EXHAUSTED


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.RUNNING])
def test_rejected_points_change_nothing_else(name, proposer, outcome):
    """The answer is the same wherever rejected points that would not be proposed anyway are in the history."""
    if name == "bayesian":
        pytest.skip("it learns from them where the constraints are")
    space = conditional_space()
    records = [r for r in history(name, 30) if r.outcome in (outcome, Outcome.COMPLETED)]
    others = [rejected(active_values(space, {"net/kind": "fire", "rate": 0.1 - i / 1000})) for i in range(20)]
    answers = [
        proposer.propose(space, with_them, np.random.default_rng(7), direction="min", max_epochs=9)
        for with_them in (records, [*others, *records], [*records, *others])
    ]
    assert isinstance(answers[0], Proposal)
    assert answers[1:] == answers[:1] * 2


def test_admit_is_asked_and_the_search_goes_on(name, proposer):
    oracle = make(proposer, max_trials=12)
    oracle.admit = lambda values: values["rate"] < 1e-2
    run(oracle, 40, workers=2)
    records = oracle.records()
    refused = [r for r in records if r.outcome is Outcome.REJECTED]
    trained = [r for r in records if r.outcome is not Outcome.REJECTED]
    assert 0 < len(refused) < 60
    assert all(r.values["rate"] >= 1e-2 for r in refused)
    assert all(r.values["rate"] < 1e-2 for r in trained)
    assert len({r.trial_id for r in trained if r.outcome is not Outcome.FAILED}) == 12


def test_plugins_import_no_deep_learning_library():
    modules = ", ".join(f"workbench_plugins.oracles.{name}" for name in sorted(COMPONENTS))
    heavy = "{'tensorflow', 'keras', 'keras_tuner', 'sklearn'}"
    code = f"import sys, {modules}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
