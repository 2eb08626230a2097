"""`workbench studies`: what is stored."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.options import DIRECTORY, check_plugin_options, common_options, output_options


@click.command()
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@output_options
@common_options
def studies(
    directory: str,
    top: int | None,
    columns: str | None,
    expression: str | None,
    sort: str | None,
    format_name: str | None,
    output: Path | None,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """List the stored studies with their best scores."""
    from workbench.cli.output import format_of, select, write_table
    from workbench.study import list_table

    check_plugin_options(plugin_files, plugins_dirs)
    frame, problems = list_table(directory)
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
    if frame.empty and format_of(format_name, output) == "table":
        click.echo(f"no studies in {directory}; `workbench search quickstart` makes one")
        return
    chosen = select(frame, columns=columns, expression=expression, sort=sort, top=top)
    write_table(chosen, format_of(format_name, output), output)
