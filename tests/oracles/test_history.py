import threading

import keras_tuner
import numpy as np
import pytest

from workbench.errors import PluginError, SpaceError
from workbench.oracles.history import HistoryOracle
from workbench.oracles.protocol import Outcome, Proposal, Record, Verdict
from workbench.oracles.sampling import new_values, point_key


class Draw:
    """Random search, for these tests."""

    def propose(self, space, records, rng, *, direction, max_epochs):
        values = new_values(space, {point_key(record.values) for record in records}, rng)
        return Verdict.EXHAUSTED if values is None else Proposal(values=values)


class Twice(Draw):
    """Trains every trial for 1 epoch and then for all, one trial after the other."""

    def propose(self, space, records, rng, *, direction, max_epochs, new_trials=True):
        if any(record.outcome is Outcome.RUNNING for record in records):
            return Verdict.IDLE
        if records and records[-1].rung == 0:
            last = records[-1]
            return Proposal(values=last.values, epochs=max_epochs, trial_id=last.trial_id, bracket=0, rung=1)
        if not new_trials:
            return Verdict.EXHAUSTED
        proposal = super().propose(space, records, rng, direction=direction, max_epochs=max_epochs)
        return proposal if isinstance(proposal, Verdict) else self.place(proposal.values, records)

    def place(self, values, records, *, max_epochs=0):
        return Proposal(values=values, epochs=1, bracket=0, rung=0)


def small_space():
    """16 points."""
    hp = keras_tuner.HyperParameters()
    hp.Int("size", 1, 4)
    hp.Choice("kind", ["a", "b", "c", "d"])
    return hp


def make(proposer=None, **options):
    settings = {
        "objective": "val_accuracy",
        "direction": "max",
        "space": small_space(),
        "seed": 0,
        "max_epochs": 5,
        "max_trials": None,
    }
    return HistoryOracle(proposer or Draw(), **{**settings, **options})


def finish(oracle, trial, *scores, status="COMPLETED"):
    for epoch, score in enumerate(scores, start=1):
        oracle.update_trial(trial.trial_id, {"val_accuracy": score, "loss": 1.0}, step=epoch)
    trial.status = status
    oracle.end_trial(trial)


def run(oracle, score=lambda number: 0.5, tuner_id="w"):
    """Runs all trials one after the other; returns the last answer's status."""
    while (trial := oracle.create_trial(tuner_id)).status == "RUNNING":
        finish(oracle, trial, score(len(oracle.records())))
    return trial.status


def test_a_proposal_becomes_a_trial_and_a_record():
    oracle = make()
    trial = oracle.create_trial("w")
    proposal, trial_id = oracle.proposals[trial.trial_id]
    assert (trial.status, trial_id) == ("RUNNING", "0001")
    assert trial.hyperparameters.values == proposal.values
    running = Record(trial_id="0001", values=proposal.values, epochs=5, outcome=Outcome.RUNNING)
    assert oracle.records() == [running]
    finish(oracle, trial, 0.3, 0.8, 0.6)
    completed = Record(trial_id="0001", values=proposal.values, epochs=5, outcome=Outcome.COMPLETED, score=0.8)
    assert oracle.records() == [completed]


def test_prints_and_writes_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    oracle = make(max_trials=3)
    run(oracle)
    finished = capfd.readouterr()
    assert (finished.out, finished.err) == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("direction", "best"), [("max", 0.9), ("min", 0.2)])
def test_the_score_is_the_best_finite_value_in_the_direction(direction, best):
    oracle = make(direction=direction)
    finish(oracle, oracle.create_trial("w"), float("nan"), 0.2, 0.9, float("inf"), float("-inf"))
    assert oracle.records()[0].score == best


@pytest.mark.parametrize("status", ["COMPLETED", "STOPPED"])
@pytest.mark.parametrize("scores", [(), (float("nan"),), (float("inf"), float("nan"))])
def test_a_trial_without_a_finite_score_has_failed(status, scores):
    oracle = make()
    first = oracle.create_trial("w")
    finish(oracle, first, *scores, status=status)
    record = oracle.records()[0]
    assert (record.outcome, record.score) == (Outcome.FAILED, None)
    second = oracle.create_trial("w")  # not a retry
    assert second.hyperparameters.values != first.hyperparameters.values


def test_a_stopped_trial_has_a_score():
    oracle = make()
    finish(oracle, oracle.create_trial("w"), 0.4, 0.7, status="STOPPED")
    assert (oracle.records()[0].outcome, oracle.records()[0].score) == (Outcome.STOPPED, 0.7)


def test_many_failures_in_a_row_are_no_error_and_do_not_count_as_trials():
    oracle = make(max_trials=2)
    for _ in range(6):
        finish(oracle, oracle.create_trial("w"), status="FAILED")
    assert run(oracle) == "STOPPED"
    outcomes = [record.outcome for record in oracle.records()]
    assert outcomes == [Outcome.FAILED] * 6 + [Outcome.COMPLETED] * 2
    assert oracle.stop_reason == "max_trials"
    assert [record.trial_id for record in oracle.records()] == [f"{i:04d}" for i in range(1, 9)]


def test_stops_at_max_failures():
    oracle = make(max_failures=2)
    for _ in range(2):
        finish(oracle, oracle.create_trial("w"), status="FAILED")
    assert oracle.create_trial("w").status == "STOPPED"
    assert oracle.stop_reason == "max_failures"


def test_stops_when_the_space_is_used_up():
    oracle = make(max_trials=100)
    assert oracle.stop_reason is None
    assert run(oracle) == "STOPPED"
    assert oracle.stop_reason == "space exhausted"
    assert len({point_key(record.values) for record in oracle.records()}) == 16


def test_waits_at_max_trials_as_a_running_trial_may_fail():
    oracle = make(max_trials=2)
    first, second = oracle.create_trial("w1"), oracle.create_trial("w2")
    finish(oracle, first, 0.5)
    assert oracle.create_trial("w1").status == "IDLE"
    assert oracle.stop_reason is None
    finish(oracle, second, status="FAILED")
    third = oracle.create_trial("w1")
    assert third.status == "RUNNING"
    finish(oracle, third, 0.5)
    assert oracle.create_trial("w1").status == "STOPPED"
    assert oracle.stop_reason == "max_trials"


def test_enqueued_points_come_first_completed_and_once():
    enqueued = [{"size": 3}, {"kind": "c"}, {"size": 3, "kind": "a"}]
    oracle = make(enqueued=enqueued, max_trials=16)
    run(oracle)
    values = [record.values for record in oracle.records()]
    assert values[:2] == [{"size": 3, "kind": "a"}, {"size": 1, "kind": "c"}]
    assert len({point_key(point) for point in values}) == 16
    again = make(enqueued=enqueued, records=oracle.records()[:1])
    again.create_trial("w")
    assert again.records()[1].values == {"size": 1, "kind": "c"}


def test_an_enqueued_name_outside_the_space_is_an_error():
    with pytest.raises(SpaceError, match=r"received 'sise'\. Did you mean 'size'\?"):
        make(enqueued=[{"sise": 3}])


def test_a_promotion_is_another_keras_tuner_trial_of_the_same_study_trial():
    oracle = make(Twice(), max_trials=2, enqueued=[{"size": 2, "kind": "b"}])
    run(oracle, score=lambda number: number / 10)
    assert [(r.trial_id, r.epochs, r.rung, r.score) for r in oracle.records()] == [
        ("0001", 1, 0, 0.1),
        ("0001", 5, 1, 0.2),
        ("0002", 1, 0, 0.3),
        ("0002", 5, 1, 0.4),
    ]
    assert oracle.records()[1].values == {"size": 2, "kind": "b"}
    assert [trial_id for _, trial_id in oracle.proposals.values()] == ["0001", "0001", "0002", "0002"]
    assert oracle.stop_reason == "max_trials"


def test_a_proposer_that_starts_a_trial_beyond_the_limit_is_refused():
    class Greedy(Twice):
        def propose(self, space, records, rng, **_):
            return Draw.propose(self, space, records, rng, direction="max", max_epochs=1)

    oracle = make(Greedy(), max_trials=0)
    with pytest.raises(PluginError, match="must not start a trial when new_trials is False"):
        oracle.create_trial("w")


def test_a_promotion_of_an_unknown_trial_is_refused():
    class Wrong:
        def propose(self, space, records, rng, *, direction, max_epochs):
            return Proposal(values={"size": 1, "kind": "a"}, trial_id="0007")

    with pytest.raises(PluginError, match=r"must promote a trial of its records.*'0007'"):
        make(Wrong()).create_trial("w")


def test_running_records_are_handed_out_again_first():
    lived = make(Twice())
    finish(lived, lived.create_trial("w"), 0.5)
    lived.create_trial("w")
    restored = make(Twice(), records=lived.records())
    trial = restored.create_trial("w")
    proposal, trial_id = restored.proposals[trial.trial_id]
    assert (trial_id, proposal.trial_id, proposal.epochs, proposal.rung) == ("0001", "0001", 5, 1)
    assert restored.resumed == {trial.trial_id}
    assert len(restored.records()) == 2
    finish(restored, trial, 0.7)
    assert restored.records()[1].score == 0.7


@pytest.mark.parametrize("seeds", [(0, 1), (1, 3), (0, 2**31)])
def test_every_seed_is_a_stream_of_its_own(seeds):
    streams = []
    for seed in seeds:
        hp = keras_tuner.HyperParameters()
        hp.Float("rate", 0, 1)
        oracle = make(seed=seed, space=hp, max_trials=20)
        run(oracle)
        streams.append([record.values["rate"] for record in oracle.records()])
    assert not set(streams[0]) & set(streams[1])


def test_what_a_trial_declares_later_does_not_change_the_space():
    oracle = make(max_trials=2)
    trial = oracle.create_trial("w")
    trial.hyperparameters.Int("later", 0, 9)
    finish(oracle, trial, 0.5)
    assert {hp.name for hp in oracle.get_space().space} == {"size", "kind"}
    assert oracle.records()[0].values.keys() == {"size", "kind"}


def test_a_missing_objective_is_an_error_that_names_it():
    oracle = make()
    trial = oracle.create_trial("w")
    with pytest.raises(ValueError, match=r"'val_accuracy' must be among the metrics; received \['loss'\]"):
        oracle.update_trial(trial.trial_id, {"loss": 1.0})


def test_a_trial_cannot_end_as_running():
    oracle = make()
    with pytest.raises(ValueError, match="received 'RUNNING'"):
        oracle.end_trial(oracle.create_trial("w"))


def test_an_error_of_the_proposer_reaches_every_thread_and_locks_none():
    class Broken:
        def propose(self, space, records, rng, *, direction, max_epochs):
            raise ArithmeticError("broken proposer")

    oracle, errors = make(Broken()), []

    def ask(tuner_id):
        try:
            oracle.create_trial(tuner_id)
        except ArithmeticError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask, args=[f"w{i}"], daemon=True) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert errors == ["broken proposer"] * 3


def test_threads_share_one_oracle():
    oracle = make(max_trials=100)

    def work(tuner_id):
        rng = np.random.default_rng()
        while True:
            trial = oracle.create_trial(tuner_id)
            if trial.status == "STOPPED":
                return
            if trial.status == "RUNNING":
                finish(oracle, trial, float(rng.random()))

    threads = [threading.Thread(target=work, args=[f"w{i}"], daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    records = oracle.records()
    assert len(records) == len({point_key(record.values) for record in records}) == 16
    assert {record.outcome for record in records} == {Outcome.COMPLETED}
    assert [record.trial_id for record in records] == [f"{i:04d}" for i in range(1, 17)]


def test_a_new_trial_never_takes_the_name_of_another():
    """Of two workers' proposals, a process that was killed may have left the later one only."""
    later = Record(trial_id="0002", values={}, epochs=5, outcome=Outcome.COMPLETED, score=0.5)
    oracle = make(records=[later])
    trial = oracle.create_trial("w")
    assert oracle.proposals[trial.trial_id][1] == "0003"
