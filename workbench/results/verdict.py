"""A confirmation in sentences that a person can repeat."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.results.confirmation import test_metric
from workbench.results.statistics import mean_interval

if TYPE_CHECKING:
    from workbench.results.confirmation import Candidate, Confirmation
    from workbench.results.statistics import Comparison


def sentences(found: Confirmation) -> list[str]:
    """The verdict first, then the search's optimism, then what is missing."""
    return [_verdict(found), *_others(found), *_optimism(found), *_missing(found)]


def _verdict(found: Confirmation) -> str:
    winner = found.winner
    if winner is None:
        return "No winner: no retraining has a result."
    mean = mean_interval(winner.validation)
    first = f"trial {winner.trial_id} has the best mean validation ({mean.mean:.4f}, n = {mean.n})"
    if not found.decision.comparisons:
        return f"No comparison: {first}, and no other candidate has a result."
    if found.test_images is None:
        return (
            f"No test: data set {found.dataset!r} has no test split here. By validation alone {first}; it was chosen "
            "by that, so no test of it means anything."
        )
    runner_up = found.candidates[found.decision.comparisons[0].other]
    return _against_runner_up(found, winner, runner_up, found.decision.comparisons[0], first)


def _against_runner_up(
    found: Confirmation, winner: Candidate, runner_up: Candidate, comparison: Comparison, first: str
) -> str:
    test = comparison.test
    if min(test.n) < 2:
        return (
            f"No winner at this n: {first}, but Welch's test takes 2 or more tested seeds of each; the winner has n = "
            f"{test.n[0]}, the runner-up {runner_up.trial_id} n = {test.n[1]}. Raise --seeds."
        )
    if math.isnan(test.p):
        return (
            f"No winner at this n: {first}, but neither its test scores nor those of the runner-up "
            f"{runner_up.trial_id} differ between seeds (difference {_amount(found, test.difference)}, n = "
            f"{test.n[0]} and {test.n[1]}), so no test is possible. Raise --seeds."
        )
    metric = test_metric(found.metric)
    ahead = (test.difference >= 0) == (found.direction == "max")
    by = f"by {_amount(found, abs(test.difference))} {_details(found, comparison)}"
    if comparison.is_better:
        return f"Trial {winner.trial_id} beats the runner-up {runner_up.trial_id} on test {metric} {by}."
    if comparison.is_worse:
        return f"No winner: {first}, but the runner-up {runner_up.trial_id} beats it on test {metric} {by}."
    return (
        f"No winner at this n: {first}; its mean test {metric} is {'better' if ahead else 'worse'} than that of the "
        f"runner-up {runner_up.trial_id} {by}."
    )


def _details(found: Confirmation, comparison: Comparison) -> str:
    test, count = comparison.test, sum(not math.isnan(item.p_holm) for item in found.decision.comparisons)
    low, high = test.low, test.high
    if test.difference < 0:
        low, high = -high, -low
    corrected = f", {_p(comparison.p_holm)} by Holm over {count} comparisons" if count > 1 else ""
    return (
        f"(95 % interval {_number(found, low)} to {_number(found, high)}, Welch's t, {_p(test.p)}{corrected}; "
        f"n = {test.n[0]} and {test.n[1]} seeds)"
    )


def _others(found: Confirmation) -> list[str]:
    """What the further comparisons show, where there are any."""
    rest = found.decision.comparisons[1:]
    if found.test_images is None or not rest:
        return []
    parts = []
    for word, chosen in (
        ("beats", [item for item in rest if item.is_better]),
        ("is beaten by", [item for item in rest if item.is_worse]),
        ("is not shown to differ from", [item for item in rest if not item.is_better and not item.is_worse]),
    ):
        if chosen:
            names = ", ".join(f"{found.candidates[item.other].trial_id} ({_p(item.p_holm)})" for item in chosen)
            parts.append(f"it {word} {names}")
    return [f"Of the others, by the same test and correction: {'; '.join(parts)}."]


def _optimism(found: Confirmation) -> list[str]:
    known = [item for item in found.candidates if item.optimism is not None]
    if not known:
        return []
    best = min(known, key=lambda item: item.rank or math.inf)
    gap = best.optimism or 0.0
    mean = mean_interval(best.validation)
    text = (
        f"The search scored {best.trial_id}, its number {best.rank}, {best.score:.4f}; over {mean.n} new "
        f"{'seed' if mean.n == 1 else 'seeds'} its mean is {mean.mean:.4f}: the search was "
        f"{'optimistic' if gap >= 0 else 'pessimistic'} by {_amount(found, abs(gap))}"
    )
    if len(known) > 1:
        average = mean_interval([item.optimism or 0.0 for item in known]).mean
        word = "optimistic" if average >= 0 else "pessimistic"
        text += f" ({word} by {_amount(found, abs(average))} on average over {len(known)} candidates)"
    return [f"{text}."]


def _missing(found: Confirmation) -> list[str]:
    lines = [
        f"Trial {item.trial_id}: {item.failed} of {len(item.runs)} retrainings failed ("
        + (next(run.error for run in item.runs if run.error) or "no reason known")
        + ")."
        for item in found.candidates
        if item.failed
    ]
    left = [(found.unfinished, "trained"), (found.untested, "tested")]
    texts = [f"{count} of the retrainings are not {word} yet" for count, word in left if count]
    if texts:
        lines.append(f"Not finished: {', '.join(texts)}; `workbench confirm {found.study}` continues.")
    if found.test_images is not None:
        lost = sum(len(item.validation) - len(item.tests) for item in found.candidates) - found.untested
        if lost:
            lines.append(f"{lost} of the retrainings could not be tested: the weights were removed.")
    return lines


def _amount(found: Confirmation, value: float) -> str:
    """A difference with its unit: percentage points of an accuracy."""
    return f"{_number(found, value)} points" if _is_share(found) else _number(found, value)


def _number(found: Confirmation, value: float) -> str:
    return f"{100 * value:.2f}" if _is_share(found) else f"{value:.4g}"


def _is_share(found: Confirmation) -> bool:
    return found.metric.endswith("accuracy")


def _p(p: float) -> str:
    if math.isnan(p):
        return "no test possible"
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
