"""Seconds and peak memory of the commands that read studies, beside those of Optuna.

    python benchmarks/startup.py [--quick] [--studies DIR] [--output startup.csv]

Writes synthetic studies of 1,000, 10,000 and 100,000 trials of 10 epochs (`--quick`: 1,000 only), and an SQLite study
of Optuna's with as many trials where Optuna is installed. Then it runs every command in a process of its own, in
turn, five times (three for 100,000 trials, two for Optuna's 10,000). `work_seconds` is what a command takes longer
than `leaderboard` on a study of one trial. CPU seconds, of user and system, say more than seconds on a busy machine.
`compare` reads two studies of that size. The last line of output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from common import announce, write_csv

EPOCHS = 10
WORKBENCH = [sys.executable, "-c", "from workbench.cli import main; main()"]
PACKAGES = ("convnet-search-workbench", "pandas", "pydantic", "click", "rich", "plotly", "optuna")

# In processes of their own: a child's peak memory begins with that of the process that started it.
WRITE_STUDY = """
import sys
from workbench.testing import synthetic_study
synthetic_study(sys.argv[1], trials=int(sys.argv[2]), epochs=int(sys.argv[3]), seed=int(sys.argv[4]))
"""
WRITE_OPTUNA = """
import random, sqlite3, sys
import optuna
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import create_trial

optuna.logging.set_verbosity(optuna.logging.ERROR)
file, trials, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
study = optuna.create_study(study_name="peer", storage="sqlite:///" + file, direction="maximize")
space = {f"x{n}": FloatDistribution(0, 1) for n in range(10)} | {f"k{n}": IntDistribution(1, 8) for n in range(10)}
values = {name: 0.5 if name[0] == "x" else 3 for name in space}
curve = {epoch: 0.5 for epoch in range(1, epochs + 1)}
study.add_trial(create_trial(params=values, distributions=space, value=0.5, intermediate_values=curve))

# The first trial again and again, as add_trial takes longer than a tenth of a second for each.
draw = random.Random(0)
database = sqlite3.connect(file)
for number in range(1, trials):
    for table in ("trials", "trial_params", "trial_values", "trial_intermediate_values"):
        rows = database.execute(f"SELECT * FROM {table} WHERE trial_id = 1")
        names = [column[0] for column in rows.description]
        for row in rows.fetchall():
            new = dict(zip(names, row)) | {"trial_id": number + 1}
            if table == "trials":
                new["number"] = number
            else:
                del new[names[0]]
            if table == "trial_values":
                new["value"] = draw.random()
            marks = ", ".join("?" * len(new))
            database.execute(f"INSERT INTO {table} ({', '.join(new)}) VALUES ({marks})", list(new.values()))
database.commit()
assert len(study.get_trials()) == trials
"""


@dataclass
class Command:
    """A command and what its runs took.

    Attributes:
        trials: of each study that it reads; 0 for none.
    """

    name: str
    arguments: list[str]
    trials: int
    repetitions: int
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Runs it once; output is thrown away, but for an error's."""
        with tempfile.TemporaryFile() as errors:
            begin = perf_counter()
            process = subprocess.Popen(self.arguments, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds.append(perf_counter() - begin)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                errors.seek(0)
                sys.exit(f"{self.name} failed ({process.returncode}): {errors.read().decode(errors='replace')}")
        self.cpu_seconds.append(usage.ru_utime + usage.ru_stime)
        # KiB on Linux, bytes on macOS.
        self.peak_mib.append(usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))

    @property
    def key(self) -> str:
        """What its figures are called."""
        return f"{self.name.replace(' ', '_').replace('-', '_').strip('_')}_{self.trials}".removesuffix("_0")


def write_studies(folder: Path, sizes: list[int]) -> None:
    """The synthetic studies that are not there yet; two of a size, but one of 1 and of 100,000 trials."""
    for trials in sizes:
        for seed in (0, 1) if 1 < trials < 100_000 else (0,):
            path = folder / f"trials-{trials}-{seed}"
            if not path.exists():
                begin = perf_counter()
                numbers = [str(trials), str(EPOCHS), str(seed)]
                subprocess.run([sys.executable, "-c", WRITE_STUDY, str(path), *numbers], check=True)
                size = (path / "journal.jsonl").stat().st_size / 2**20
                print(f"wrote {path.name}: {size:,.0f} MiB in {perf_counter() - begin:.1f} s", flush=True)


def write_peers(folder: Path, sizes: list[int]) -> None:
    """Optuna's studies that are not there yet."""
    for trials in sizes:
        path = folder / f"optuna-{trials}.db"
        if not path.exists():
            begin = perf_counter()
            aside = path.with_suffix(".tmp")
            aside.unlink(missing_ok=True)
            arguments = [str(aside), str(trials), str(EPOCHS)]
            subprocess.run([sys.executable, "-c", WRITE_OPTUNA, *arguments], check=True)
            aside.rename(path)
            print(f"wrote {path.name} in {perf_counter() - begin:.1f} s", flush=True)


def commands(folder: Path, sizes: list[int], optuna: str | None) -> list[Command]:
    """All commands, the start-up first."""
    found = [
        Command("--help", [*WORKBENCH, "--help"], 0, 5),
        Command("plugins list", [*WORKBENCH, "plugins", "list"], 0, 5),
    ]
    for trials in (1, *sizes):
        one, other = (str(folder / f"trials-{trials}-{seed}") for seed in (0, 1))
        found.append(Command("leaderboard", [*WORKBENCH, "leaderboard", one], trials, 5 if trials < 100_000 else 3))
        if 1 < trials < 100_000:
            found.append(Command("compare", [*WORKBENCH, "compare", one, other], trials, 5))
            found.append(Command("report", [*WORKBENCH, "report", one, "-o", str(folder / "report.html")], trials, 5))
    if optuna is not None:
        found.append(Command("optuna --help", [optuna, "--help"], 0, 5))
        for trials in (size for size in sizes if size < 100_000):
            where = ["--study-name", "peer", "--storage", f"sqlite:///{folder / f'optuna-{trials}.db'}"]
            found += [
                # A run of 10,000 takes half a minute.
                Command(f"optuna {name}", [optuna, name, *where], trials, 5 if trials < 10_000 else 2)
                for name in ("best-trials", "trials")
            ]
    return found


def show(found: list[Command]) -> dict[str, float]:
    """Prints a row a command; the figures by name."""
    medians = {item.key: (statistics.median(item.seconds), statistics.median(item.cpu_seconds)) for item in found}
    start, start_cpu = medians["leaderboard_1"]
    figures: dict[str, float] = {}
    print(f"{'command':<20}{'trials':>8}{'n':>3}{'seconds (min to max)':>26}{'CPU s':>8}{'work s':>8}{'peak MiB':>10}")
    for item in found:
        seconds, cpu = medians[item.key]
        work = f"{seconds - start:8.2f}" if item.trials > 1 and "optuna" not in item.name else " " * 8
        spread = f"{seconds:.2f} ({min(item.seconds):.2f} to {max(item.seconds):.2f})"
        peak = statistics.median(item.peak_mib)
        count = f"{item.trials or '':>8}"
        print(f"{item.name:<20}{count}{len(item.seconds):>3}{spread:>26}{cpu:8.2f}{work}{peak:10.0f}")
        figures |= {f"{item.key}_seconds": seconds, f"{item.key}_cpu_seconds": cpu, f"{item.key}_peak_mib": peak}
        if work.strip():
            figures |= {f"{item.key}_work_seconds": seconds - start, f"{item.key}_work_cpu_seconds": cpu - start_cpu}
    return {name: round(value, 3) for name, value in figures.items()}


def as_rows(found: list[Command]) -> list[dict[str, object]]:
    """One row a run."""
    return [
        {
            "command": item.name,
            "trials": item.trials,
            "repetition": number,
            "seconds": run[0],
            "cpu_seconds": run[1],
            "peak_mib": run[2],
        }
        for item in found
        for number, run in enumerate(zip(item.seconds, item.cpu_seconds, item.peak_mib, strict=True), start=1)
    ]


def main() -> None:
    """Writes the studies, runs the commands in turn, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 trials only")
    parser.add_argument("--studies", type=Path, help="keep the studies here, and use those that are there")
    parser.add_argument("--no-peers", action="store_true", help="the workbench's commands only")
    parser.add_argument("--output", type=Path, help="CSV with one row a run")
    arguments = parser.parse_args()
    sizes = [1_000] if arguments.quick else [1_000, 10_000, 100_000]
    beside = Path(sys.executable).with_name("optuna")
    optuna = str(beside) if beside.exists() else shutil.which("optuna")
    optuna = None if arguments.no_peers else optuna
    announce(*PACKAGES)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.studies or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        write_studies(folder, [1, *sizes])
        if optuna is not None:
            write_peers(folder, [size for size in sizes if size < 100_000])
        found = commands(folder, sizes, optuna)
        for repetition in range(max(item.repetitions for item in found)):
            for item in found:
                if repetition < item.repetitions:
                    item.run()
            print(f"round {repetition + 1} done; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    figures = show(found)
    write_csv(as_rows(found), arguments.output)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
