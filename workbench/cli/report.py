"""`workbench report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from workbench.cli.options import DIRECTORY, check_plugin_options, common_options, find_study


@click.command()
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...")
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    metavar="FILE.html",
    help="The file to write.",
)
@common_options
def report(
    studies: tuple[str, ...],
    directory: str,
    output: Path,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Write one self-contained HTML page: figures, leaderboard, how the study was made.

    STUDY is a path, or a name in the folder of studies; several are compared. The page opens from disk and fetches
    nothing.
    """
    check_plugin_options(plugin_files, plugins_dirs)
    paths = list(dict.fromkeys(find_study(study, directory) for study in studies))
    was_there = output.is_file()
    _write(paths, output)
    told = "1 study" if len(paths) == 1 else f"{len(paths)} studies"
    replaced = "an older file replaced, " if was_there else ""
    click.echo(f"{output}: {told}, {replaced}{_megabytes(output)}open it in a browser")


def _megabytes(output: Path) -> str:
    return f"{output.stat().st_size / 1e6:.1f} MB; " if output.is_file() else ""


def _write(paths: Sequence[Path], output: Path) -> None:
    from workbench.journal import paused_collector
    from workbench.results.permutation import Solver
    from workbench.study import open_study

    with Solver() as solver, paused_collector():
        studies = [open_study(path) for path in paths]
        # Imports Plotly; the solver is on its way by then.
        from workbench.results.report import write_report

        write_report(studies, output, solver)
