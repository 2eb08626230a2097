"""What a confirmation's journal says: retrainings by candidate, their scores, the winner's classes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.directory import StudyDirectory
from workbench.results.statistics import Decision, decide, mean_interval
from workbench.retrained import asked_seeds, runs_by_candidate, validation_scores
from workbench.trials import Status, Trial, fold

if TYPE_CHECKING:
    from workbench.journal import Event
    from workbench.oracles.protocol import Direction

CONFIRMATION_COLUMNS = (
    "trial_id",
    "rank",
    "score",
    "validation_mean",
    "validation_std",
    "validation_low",
    "validation_high",
    "validation_n",
    "test_mean",
    "test_std",
    "test_low",
    "test_high",
    "test_n",
    "macro_f1",
    "optimism",
    "failed",
    "parameters",
    "seconds",
)

COMPARISON_COLUMNS = (
    "winner",
    "other",
    "difference",
    "low",
    "high",
    "df",
    "p",
    "p_holm",
    "winner_n",
    "other_n",
    "is_better",
    "is_worse",
)

CLASS_COLUMNS = ("class", "images", "accuracy_mean", "accuracy_std", "n")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A trial of the search, and its retrainings.

    Attributes:
        trial_id: in the search.
        rank, score: there, now; None if it is ranked no more.
        in_full: whether the search trained it for all of the epochs that the retrainings have.
        runs: its retrainings, in order.
        tests: the journal's `test` events of them.
        metric, direction: the objective.
    """

    trial_id: str
    rank: int | None
    score: float | None
    in_full: bool
    runs: Sequence[Trial]
    tests: Sequence[Event]
    metric: str
    direction: Direction

    @cached_property
    def validation(self) -> list[float]:
        """The objective at each completed retraining's best epoch."""
        return validation_scores(self.runs, self.metric, self.direction)

    @cached_property
    def test(self) -> list[float]:
        """The objective's metric on the test split, of each tested retraining."""
        return [float(event["metrics"][test_metric(self.metric)]) for event in self.tests]

    @property
    def failed(self) -> int:
        """How many retrainings ended without a result."""
        return sum(run.status in (Status.FAILED, Status.STOPPED) for run in self.runs)

    @property
    def optimism(self) -> float | None:
        """By how much the search's score was better than the mean validation over the new seeds."""
        if self.score is None or not self.in_full or not self.validation:
            return None
        gap = self.score - mean_interval(self.validation).mean
        return gap if self.direction == "max" else -gap


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """The top trials of a study, retrained with new seeds.

    Attributes:
        path: where it is stored.
        study: the confirmed study's name.
        metric, direction: the objective.
        dataset: the data set's name.
        class_names: in the order of the label indices.
        test_images: how many a test is of; None if the data have no test split.
        seeds: how many retrainings were asked for last, of each candidate.
        candidates: best mean validation first; those without one last.
        unfinished: how many retrainings have no result yet.
        untested: how many completed ones have not been tested.
    """

    path: Path
    study: str
    metric: str
    direction: Direction
    dataset: str
    class_names: Sequence[str]
    test_images: int | None
    seeds: int
    candidates: Sequence[Candidate]
    unfinished: int
    untested: int

    @cached_property
    def decision(self) -> Decision:
        """The winner against the others, by their positions in `candidates`."""
        return decide(
            [item.validation for item in self.candidates],
            [item.test for item in self.candidates],
            direction=self.direction,
        )

    @property
    def winner(self) -> Candidate | None:
        """The candidate with the best mean validation over the new seeds, if one has any."""
        return self.candidates[0] if self.decision.order else None

    @property
    def beats_runner_up(self) -> bool:
        """Whether the winner's test scores are better than the runner-up's, at the stated error rate."""
        return bool(self.decision.comparisons) and self.decision.comparisons[0].is_better

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to train or to test."""
        return not self.unfinished and not self.untested

    def table(self) -> pd.DataFrame:
        """One row a candidate, best mean validation first; columns `CONFIRMATION_COLUMNS`."""
        frame = pd.DataFrame([_row(item) for item in self.candidates], columns=list(CONFIRMATION_COLUMNS))
        whole = ("rank", "validation_n", "test_n", "failed", "parameters")
        return frame.astype({name: "Int64" if name in whole else "float64" for name in CONFIRMATION_COLUMNS[1:]})

    def comparisons(self) -> pd.DataFrame:
        """The winner's test scores against each other candidate's, the runner-up first; `COMPARISON_COLUMNS`."""
        rows = [
            {
                "winner": self.candidates[0].trial_id,
                "other": self.candidates[item.other].trial_id,
                "difference": item.test.difference,
                "low": item.test.low,
                "high": item.test.high,
                "df": item.test.df,
                "p": item.test.p,
                "p_holm": item.p_holm,
                "winner_n": item.test.n[0],
                "other_n": item.test.n[1],
                "is_better": item.is_better,
                "is_worse": item.is_worse,
            }
            for item in self.decision.comparisons
        ]
        return pd.DataFrame(rows, columns=list(COMPARISON_COLUMNS))

    def per_class(self) -> pd.DataFrame:
        """The winner's accuracy on each class's test images, over its seeds; columns `CLASS_COLUMNS`."""
        tests = self.winner.tests if self.winner is not None else ()
        rows = []
        for position, name in enumerate(self.class_names if tests else ()):
            images = sum(tests[0]["confusion"][position])
            shares = [event["confusion"][position][position] / images for event in tests] if images else []
            found = mean_interval(shares)
            rows.append([name, images, found.mean, found.std, found.n])
        return pd.DataFrame(rows, columns=list(CLASS_COLUMNS))

    def confusion(self) -> pd.DataFrame:
        """The winner's test predictions, counts summed over its seeds: a row a true class, a column a predicted one.

        The column `true_class` names the row's class. Empty without a test.
        """
        tests = self.winner.tests if self.winner is not None else ()
        if not tests:
            return pd.DataFrame(columns=["true_class", *self.class_names])
        total = np.sum([event["confusion"] for event in tests], axis=0)
        frame = pd.DataFrame(total, columns=list(self.class_names))
        frame.insert(0, "true_class", list(self.class_names))
        return frame

    def sentences(self) -> list[str]:
        """What a person can repeat: the verdict, the search's optimism, and what is missing."""
        from workbench.results.verdict import sentences

        return sentences(self)


def read_confirmation(
    place: StudyDirectory, *, study: str, board: pd.DataFrame, trials: Mapping[str, Trial]
) -> Confirmation:
    """The stored confirmation of a study.

    Args:
        place: its own directory.
        study: the confirmed study's name.
        board: the study's leaderboard.
        trials: the study's.

    Raises:
        StudyError: there is none.
        JournalError: its journal cannot be read.
    """
    events = list(place.events())
    history = fold(events)
    runs = runs_by_candidate(events, history)
    tests = {event["trial_id"]: event for event in events if event["event"] == "test"}
    facts = history.space.get("facts", {})
    epochs = history.definition["training"]["epochs"]
    ranking = {name: (int(rank), float(score)) for name, rank, score in board[["trial_id", "rank", "score"]].to_numpy()}
    is_tested = "test" in facts.get("counts", {})
    candidates = [
        Candidate(
            trial_id=trial_id,
            rank=ranking.get(trial_id, (None, None))[0],
            score=ranking.get(trial_id, (None, None))[1],
            in_full=trials[trial_id].target_epochs == epochs,
            runs=own,
            tests=[tests[run.trial_id] for run in own if "metrics" in tests.get(run.trial_id, {})],
            metric=history.metric,
            direction=history.direction,
        )
        for trial_id, own in runs.items()
    ]
    candidates.sort(key=_place)
    seeds = asked_seeds(events)
    completed = [run for own in runs.values() for run in own if run.status is Status.COMPLETED]
    return Confirmation(
        path=place.path,
        study=study,
        metric=history.metric,
        direction=history.direction,
        dataset=str(facts.get("dataset", "")),
        class_names=list(facts.get("class_names", [])),
        test_images=facts["counts"]["test"] if is_tested else None,
        seeds=seeds,
        candidates=candidates,
        unfinished=sum(
            max(seeds - len(own), 0) + sum(run.status is Status.RUNNING for run in own) for own in runs.values()
        ),
        untested=sum(run.trial_id not in tests for run in completed) if is_tested else 0,
    )


def test_metric(metric: str) -> str:
    """What is measured on the test split for an objective."""
    return metric.removeprefix("val_")


def _place(candidate: Candidate) -> tuple[bool, float, int]:
    """Best mean validation first; on a tie the search's rank decides."""
    rank = candidate.rank or sys.maxsize
    if not candidate.validation:
        return True, 0.0, rank
    mean = mean_interval(candidate.validation).mean
    return False, -mean if candidate.direction == "max" else mean, rank


def _row(candidate: Candidate) -> dict[str, Any]:
    row: dict[str, Any] = {"trial_id": candidate.trial_id, "rank": candidate.rank, "score": candidate.score}
    for name, scores in (("validation", candidate.validation), ("test", candidate.test)):
        row |= {f"{name}_{key}": value for key, value in asdict(mean_interval(scores)).items()}
    parameters = [run.parameters for run in candidate.runs if run.parameters is not None]
    rows = [run.row(candidate.metric, candidate.direction) for run in candidate.runs]
    return row | {
        "macro_f1": mean_interval([event["metrics"]["macro_f1"] for event in candidate.tests]).mean,
        "optimism": candidate.optimism,
        "failed": candidate.failed,
        "parameters": parameters[0] if parameters else None,
        "seconds": sum(item["seconds"] for item in rows),
    }
