"""Live progress on a terminal with Rich; plain lines where there is none."""

from __future__ import annotations

import threading
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from workbench.display import Display, Outlook, SilentDisplay


def make_display(*, quiet: bool, errors: bool = False) -> Display:
    """The display for this terminal, or none; on standard error if asked to."""
    if quiet:
        return SilentDisplay()
    console = Console(highlight=False, stderr=errors)
    return LiveDisplay(console) if console.is_terminal else LineDisplay(console)


def duration(seconds: float) -> str:
    """A length of time for people: "45 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


class _Tracker:
    """What is known of the search's course, for both displays."""

    def __init__(self) -> None:
        self.outlook: Outlook | None = None
        self.finished = 0
        self.seconds = 0.0
        self.best: float | None = None
        self.running: dict[str, dict[str, Any]] = {}

    def begin(self, outlook: Outlook) -> None:
        self.outlook = outlook
        self.finished, self.seconds, self.best = outlook.finished, outlook.seconds, outlook.best

    def start(self, trial_id: str, epochs: int, already: int) -> None:
        self.running[trial_id] = {
            "epochs": epochs,
            "epoch": already,
            "done": 0,
            "score": None,
            "seconds": 0.0,
        }

    def epoch(self, event: dict[str, Any]) -> dict[str, Any]:
        state = self.running[event["trial_id"]]
        state["epoch"], state["done"] = event["epoch"], state["done"] + 1
        state["seconds"] += event["seconds"]
        self.seconds += event["seconds"]
        if self.outlook is not None:
            state["score"] = event["metrics"].get(self.outlook.metric)
        return state

    def finish(self, row: dict[str, Any]) -> None:
        self.running.pop(row["trial_id"], None)
        self.finished += 1
        if row["score"] is not None and row["status"] == "completed" and self.outlook is not None:
            pick = max if self.outlook.direction == "max" else min
            self.best = row["score"] if self.best is None else pick(self.best, row["score"])

    def remaining_seconds(self) -> float | None:
        """An estimate from the trials and epochs so far, or None before there are any."""
        if self.outlook is None:
            return None
        estimates = []
        if self.outlook.max_seconds is not None:
            estimates.append(self.outlook.max_seconds - self.seconds)
        if self.outlook.max_trials is not None:
            of_running = 0.0
            for state in self.running.values():
                if state["done"]:
                    left = state["epochs"] * self.outlook.executions - state["done"]
                    of_running += max(0, left) * state["seconds"] / state["done"]
            spent_on_finished = self.seconds - sum(state["seconds"] for state in self.running.values())
            waiting = max(0, self.outlook.max_trials - self.finished - len(self.running))
            if self.finished:
                estimates.append(of_running + waiting * spent_on_finished / self.finished)
            elif any(state["done"] for state in self.running.values()):
                total = sum(state["seconds"] for state in self.running.values()) + of_running
                estimates.append(of_running + waiting * total / len(self.running))
        return min(estimates) if estimates else None

    def totals(self) -> str:
        number = self.finished + len(self.running)
        limit = f" of {self.outlook.max_trials}" if self.outlook is not None and self.outlook.max_trials else ""
        return f"trial {number}{limit}"

    def best_text(self) -> str:
        return f"best {self.best:.4f}" if self.best is not None else "no result yet"

    def left_text(self) -> str:
        left = self.remaining_seconds()
        return f"about {duration(left)} left" if left is not None else ""


class LineDisplay:
    """One line an event that a log should keep: phases, finished trials, slow epochs."""

    EPOCH_SECONDS = 20.0
    """Epochs are told of at most so often."""

    def __init__(self, console: Console):
        self._console = console
        self._tracker = _Tracker()
        self._lock = threading.Lock()
        self._phase = ""
        self._told_at = time.monotonic()

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
        self._told_at = time.monotonic()

    def phase(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """A line when the phase changes."""
        with self._lock:
            if text != self._phase:
                self._phase = text
                self._print(text)

    def begin(self, outlook: Outlook) -> None:
        """A line with the study and what earlier sessions left."""
        with self._lock:
            self._tracker.begin(outlook)
            before = f", {outlook.finished} trials done before" if outlook.finished else ""
            self._print(f"study {outlook.study}: {outlook.metric}{before}")

    def trial_started(self, trial_id: str, epochs: int, already: int) -> None:
        """Nothing is printed until the trial has a result."""
        with self._lock:
            self._tracker.start(trial_id, epochs, already)

    def step(self, trial_id: str, step: int, steps: int) -> None:
        """Nothing."""

    def epoch(self, event: dict[str, Any]) -> None:
        """A line, if none was printed for a while."""
        with self._lock:
            state = self._tracker.epoch(event)
            if time.monotonic() - self._told_at >= self.EPOCH_SECONDS:
                metrics = ", ".join(f"{name} {value:.4f}" for name, value in event["metrics"].items())
                self._print(
                    f"  {self._tracker.totals()}, epoch {state['epoch']} of {state['epochs']}: {metrics}, "
                    f"{event['seconds']:.1f} s, {self._tracker.left_text()}".rstrip(", ")
                )

    def trial_finished(self, row: dict[str, Any]) -> None:
        """A line with the trial's result."""
        with self._lock:
            number = self._tracker.totals()
            self._tracker.finish(row)
            self._print(
                f"{number}: {_result(row)}; {self._tracker.best_text()}; {self._tracker.left_text()}".rstrip("; ")
            )

    def message(self, text: str) -> None:
        """A line."""
        with self._lock:
            self._print(text)

    def close(self) -> None:
        """Nothing."""


class LiveDisplay:
    """A bar for the search and one for each running trial, with the results scrolling above."""

    def __init__(self, console: Console):
        self._tracker = _Tracker()
        self._lock = threading.Lock()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._whole = self._progress.add_task("starting", total=None, note="")
        self._bars: dict[str, TaskID] = {}
        self._progress.start()

    def phase(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """What is being prepared, and how far that is."""
        note = f"{done:,} of {total:,}" if done is not None and total else ""
        self._progress.update(self._whole, description=text, total=total, completed=done or 0, note=note)

    def begin(self, outlook: Outlook) -> None:
        """The search's bar counts trials from now on."""
        with self._lock:
            self._tracker.begin(outlook)
            self._progress.update(
                self._whole,
                description=outlook.study,
                total=outlook.max_trials,
                completed=outlook.finished,
                note="",
            )

    def trial_started(self, trial_id: str, epochs: int, already: int) -> None:
        """A bar for the trial."""
        with self._lock:
            self._tracker.start(trial_id, epochs, already)
            self._bars[trial_id] = self._progress.add_task(
                f"trial {trial_id}",
                total=float(epochs),
                completed=already,
                note=f"epoch {already + 1} of {epochs}",
            )
            self._refresh()

    def step(self, trial_id: str, step: int, steps: int) -> None:
        """Moves the trial's bar within the epoch."""
        with self._lock:
            state = self._tracker.running.get(trial_id)
            if state is not None:
                self._progress.update(self._bars[trial_id], completed=state["epoch"] + step / steps)

    def epoch(self, event: dict[str, Any]) -> None:
        """Moves the trial's bar and shows the objective."""
        with self._lock:
            state = self._tracker.epoch(event)
            score = f", {state['score']:.4f}" if state["score"] is not None else ""
            note = f"epoch {state['epoch']} of {state['epochs']}{score}"
            self._progress.update(self._bars[event["trial_id"]], completed=state["epoch"], note=note)
            self._refresh()

    def trial_finished(self, row: dict[str, Any]) -> None:
        """The result scrolls by; the trial's bar goes."""
        with self._lock:
            self._tracker.finish(row)
            bar = self._bars.pop(row["trial_id"], None)
            if bar is not None:
                self._progress.remove_task(bar)
            self._progress.console.print(_result(row), markup=False)
            self._refresh()

    def message(self, text: str) -> None:
        """A line above the bars."""
        self._progress.console.print(text, markup=False)

    def close(self) -> None:
        """Ends the live part."""
        self._progress.stop()

    def _refresh(self) -> None:
        notes = [self._tracker.totals(), self._tracker.best_text(), self._tracker.left_text()]
        self._progress.update(
            self._whole, completed=self._tracker.finished, note=", ".join(note for note in notes if note)
        )


def _result(row: dict[str, Any]) -> str:
    if row["score"] is None:
        return f"{row['trial_id']} {row['status']}: {row['error']}"
    return (
        f"{row['trial_id']} {row['status']} {row['score']:.4f} (epoch {row['best_epoch']} of {row['epochs']}), "
        f"{row['parameters']:,} parameters, {duration(row['seconds'])}"
    )
