"""`workbench leaderboard`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from workbench.cli.options import DIRECTORY, check_plugin_options, common_options, find_study, output_options


@click.command()
@click.argument("study")
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@click.option("--all", "all_statuses", is_flag=True, help="Trials that are not completed, too.")
@click.option("--at-epoch", type=click.IntRange(min=1), metavar="N", help="Rank by what was reached at epoch N.")
@output_options
@common_options
def leaderboard(
    study: str,
    directory: str,
    all_statuses: bool,
    at_epoch: int | None,
    top: int | None,
    columns: str | None,
    expression: str | None,
    sort: str | None,
    format_name: str | None,
    output: Path | None,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Rank the trials of a study: completed ones, higher rung first, then score.

    STUDY is a path, or a name in the folder of studies. A table shows the hyperparameters that were searched; other
    formats have them all, and all rows.
    """
    from workbench.cli.output import TABLE_ROWS, format_of, readable_columns, select, write_table
    from workbench.journal import paused_collector
    from workbench.study import open_leading, open_study

    check_plugin_options(plugin_files, plugins_dirs)
    chosen_format = format_of(format_name, output)
    is_table = chosen_format == "table"
    if is_table and top is None:
        top = TABLE_ROWS
    # What else is asked for may look at every trial.
    is_plain = (
        is_table
        and bool(top)
        and not all_statuses
        and all(option is None for option in (columns, expression, sort, at_epoch))
    )
    with paused_collector():
        path = find_study(study, directory)
        if is_plain and top is not None:
            found, total = open_leading(path, top)
            frame = found.leaderboard()
        else:
            found = open_study(path)
            frame = found.leaderboard(all_statuses=all_statuses, at_epoch=at_epoch)
            total = len(frame)
    if is_table and frame.empty and output is None:
        counts = Counter(str(trial.status) for trial in found.history.trials.values())
        told = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no trial yet"
        wanted = "trial to rank" if at_epoch is None else f"completed trial with {at_epoch} epochs"
        hint = "" if all_statuses or not counts else "; --all lists them all"
        click.echo(f"{found.path}: no {wanted} ({told}){hint}")
        return
    chosen = select(frame, columns=columns, expression=expression, sort=sort, top=top)
    if is_table and columns is None:
        chosen = readable_columns(chosen, found.searched())
    write_table(chosen, chosen_format, output)
    if is_table and output is None and total > len(chosen):
        click.echo(f"{len(chosen)} of {total} trials; --top N shows more")
