"""`workbench compare`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import DIRECTORY, check_plugin_options, common_options, find_study, output_options
from workbench.errors import UsageError

SAME_COLUMNS = ("metric", "direction", "target", "fingerprint")
"""What a table says once above it where all studies share it."""

if TYPE_CHECKING:
    import pandas as pd

    from workbench.study import Study


@click.command()
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...")
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@click.option("--trials", "of_trials", is_flag=True, help="Rank the trials of all studies together.")
@click.option(
    "--curves",
    "against",
    type=click.Choice(["trials", "epochs", "seconds"]),
    help="The best score so far, against what was spent; a table shows where it improved.",
)
@click.option("--target", type=float, metavar="SCORE", help="Look for this score in all, not for each one's target.")
@click.option("--anyway", is_flag=True, help="With --trials: even if objectives, data or splits differ.")
@output_options
@common_options
def compare(
    studies: tuple[str, ...],
    directory: str,
    of_trials: bool,
    against: str | None,
    target: float | None,
    anyway: bool,
    top: int | None,
    columns: str | None,
    expression: str | None,
    sort: str | None,
    format_name: str | None,
    output: Path | None,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Compare studies: best trial, time to target, what was spent, what differs between their definitions.

    Each STUDY is a path, or a name in the folder of studies. A table shows what differs below; other formats have
    it in columns `definition.KEY`.
    """
    from workbench.cli.output import TABLE_ROWS, format_of, readable_columns, select, write_table
    from workbench.comparisons import compare, compare_curves, compare_trials, labelled
    from workbench.journal import paused_collector

    _check_options(of_trials, against, target, anyway)
    check_plugin_options(plugin_files, plugins_dirs)
    chosen_format = format_of(format_name, output)
    is_table = chosen_format == "table"
    with paused_collector():
        opened = labelled(find_study(study, directory) for study in studies)
        if of_trials:
            frame = compare_trials(opened.values(), anyway=anyway)
            top = TABLE_ROWS if is_table and top is None else top
        elif against is not None:
            frame = compare_curves(opened.values(), against=against)
            frame = _improvements(frame) if is_table else frame
        else:
            frame = compare(opened.values(), target=target)
            if is_table and output is None and columns is None:
                _print_same(frame)
        searched = {name for study in opened.values() for name in study.searched()}
        chosen = select(frame, columns=columns, expression=expression, sort=sort, top=top)
        if is_table and columns is None:
            chosen = readable_columns(chosen, searched) if of_trials else _shown(chosen)
        write_table(chosen, chosen_format, output)
    if is_table and output is None:
        if of_trials and len(frame) > len(chosen):
            click.echo(f"{len(chosen)} of {len(frame)} trials; --top N shows more")
        elif not of_trials and against is None and columns is None:
            _print_differences(opened)


def _check_options(of_trials: bool, against: str | None, target: float | None, anyway: bool) -> None:
    if of_trials and against is not None:
        raise UsageError("--trials and --curves are two tables; give one of them")
    if anyway and not of_trials:
        raise UsageError("--anyway goes with --trials; studies are compared side by side whatever they differ in")
    if target is not None and not math.isfinite(target):
        raise UsageError(f"--target must be a finite score; received {target}")
    if target is not None and (of_trials or against is not None):
        raise UsageError("--target goes with the table of studies; received --trials or --curves, too")


def _improvements(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows at which the best changed, and the last one of each study."""
    key = curves["best"].fillna(float("inf"))
    is_new = (key != key.shift()) | (curves["study"] != curves["study"].shift())
    is_last = curves["study"] != curves["study"].shift(-1)
    return curves[(is_new & curves["best"].notna()) | is_last]


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table for people: those with values, no counts that are all 0, what is the same apart."""
    from workbench.trials import Status

    names = [name for name in frame.columns if not name.startswith("definition.")]
    counts = [name for name in Status if name in frame and not frame[name].any()]
    same = [name for name in SAME_COLUMNS if name in frame and frame[name].nunique(dropna=False) == 1]
    frame = frame[[name for name in names if name not in counts and name not in same and frame[name].notna().any()]]
    return frame.assign(fingerprint=frame["fingerprint"].str[:12]) if "fingerprint" in frame else frame


def _print_same(frame: pd.DataFrame) -> None:
    """One line with what all studies share of objective, target and data."""
    words = [
        f"{name} {str(frame[name].iloc[0])[:12] if name == 'fingerprint' else frame[name].iloc[0]}"
        for name in SAME_COLUMNS
        if frame[name].nunique() == 1 and frame[name].notna().all()
    ]
    if words:
        click.echo(f"{', '.join(words)}\n")


def _print_differences(opened: dict[str, Study]) -> None:
    from workbench.cli.output import write_table
    from workbench.results.comparison import differences_table

    if len(opened) < 2:
        return
    differences = differences_table(opened)
    click.echo()
    if differences.empty:
        click.echo("The definitions are the same.")
    else:
        click.echo("The definitions differ in:")
        write_table(differences, "table", None)
