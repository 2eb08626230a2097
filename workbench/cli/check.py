"""`workbench check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import DIRECTORY, common_options, find_study, load_registry, table_options
from workbench.errors import DefinitionError, UsageError

if TYPE_CHECKING:
    from workbench.check.subjects import Subject
    from workbench.registry import Registry
    from workbench.study import Study


@click.command()
@click.argument("name", metavar="NAME_OR_STUDY")
@click.option("--tpu", metavar="TOPOLOGY", help="v2-8, v3-8, v4-8, v5e-4, v5e-8, v5p-8 or v6e-8.")
@click.option(
    "--point",
    default="default",
    show_default=True,
    metavar="POINT",
    help="default (of each model), a TOML or JSON file of hyperparameters, or STUDY:TRIAL.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="Check the best K trials of a study.")
@click.option(
    "--batch-size-per-replica",
    "batch_size",
    type=int,
    default=128,
    show_default=True,
    metavar="N",
    help="Images a core.",
)
@click.option(
    "--tier",
    type=click.IntRange(1, 3),
    default=3,
    show_default=True,
    help="How far to go: 1 static rules (seconds), 2 lowering, 3 the TPU compiler (minutes).",
)
@click.option("--largest-batch", is_flag=True, help="Look for the largest batch that fits, even if N does.")
@click.option(
    "--max-seconds", type=float, default=900, show_default=True, metavar="S", help="Time limit of one compilation."
)
@click.option("--data-dir", metavar="DIR", help="Where the data set's files are (or set WORKBENCH_DATA).")
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change the definition.")
@click.option("--quiet", "-q", is_flag=True, help="Print results only, no progress.")
@table_options
@common_options
def check(
    name: str,
    tpu: str | None,
    point: str,
    top: int | None,
    directory: str,
    data_dir: str | None,
    sets: tuple[str, ...],
    quiet: bool,
    columns: str | None,
    expression: str | None,
    sort: str | None,
    format_name: str | None,
    output: Path | None,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
    **how: Any,
) -> None:
    """Look at a search before a minute is spent on it; with --tpu, ask what a TPU makes of its networks.

    NAME_OR_STUDY is a search definition: its models' default points are built, or --point. With --tpu it may be a
    study: its best --top trials are compiled for the TPU (none is needed); the leaderboard then has tpu.* columns.
    A name that is both is the definition unless --top is given.
    """
    from workbench.cli.display import make_display
    from workbench.cli.output import format_of, select, write_table
    from workbench.quiet import quiet_stderr, use_cpu_quietly
    from workbench.tpu.chips import find_topology

    if tpu is not None:
        find_topology(tpu)
    registry = load_registry(plugin_files, plugins_dirs)
    use_cpu_quietly()
    with quiet_stderr():
        import keras  # noqa: F401
    import pandas as pd

    subjects, notes, study = _subjects(
        name, registry, top=top, point=point, directory=directory, data_dir=data_dir, sets=sets
    )
    if tpu is None:
        from workbench.check import lint

        if study is not None:
            raise UsageError(f"{study.path} is a study: check its trials with --tpu, or name its search definition")
        found = lint.lint(subjects, registry)
        shown, types, rows, more = list(lint.COLUMNS), lint.TYPES, found.rows, found.notes
    else:
        from workbench.check import tpu as tiers

        options = tiers.TpuOptions(topology=tpu, plugin_files=plugin_files, plugins_dirs=plugins_dirs, **how)
        display = make_display(quiet=quiet)
        try:
            checked = tiers.check_tpu(subjects, options, display=display, study=study)
        finally:
            display.close()
        shown, types, rows, more = list(tiers.COLUMNS), tiers.TYPES, checked.rows, checked.notes
    frame = pd.DataFrame(rows, columns=shown).astype(types)
    chosen_format = format_of(format_name, output)
    frame = select(frame, columns=columns, expression=expression, sort=sort, top=None)
    if chosen_format == "table" and columns is None:
        frame = frame.dropna(axis="columns", how="all")
    write_table(frame, chosen_format, output)
    for note in dict.fromkeys([*notes, *more]):
        click.echo(note, err=chosen_format != "table" or output is not None)


def _subjects(
    name: str, registry: Registry, *, top: int | None, directory: str, **how: Any
) -> tuple[list[Subject], list[str], Study | None]:
    from workbench.check.subjects import subjects_of_search, subjects_of_study
    from workbench.study import open_study

    path = find_study(name, directory)
    is_study = (path / "journal.jsonl").is_file()
    if top is None and not (is_study and Path(name).is_dir()):
        try:
            return *subjects_of_search(name, registry, directory=directory, **how), None
        except DefinitionError:
            # A file or a shipped search that is not valid is not taken for a study.
            if not is_study or name.endswith(".toml"):
                raise
    study = open_study(path)
    return subjects_of_study(study, top or 1), [], study
