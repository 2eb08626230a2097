"""`workbench searches`: the search definitions that are shipped."""

from __future__ import annotations

import click

from workbench.cli.options import check_plugin_options, common_options


@click.group()
def searches() -> None:
    """List and show the search definitions that are shipped."""


@searches.command(name="list")
@common_options
def list_command(plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]) -> None:
    """Name the shipped search definitions."""
    from workbench.cli.output import print_rows
    from workbench.definition import shipped_searches

    check_plugin_options(plugin_files, plugins_dirs)
    print_rows(["name", "summary"], [[name, summary] for name, summary in shipped_searches().items()])


@searches.command()
@click.argument("definition", metavar="NAME_OR_FILE")
@common_options
def show(definition: str, plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]) -> None:
    """Print a shipped definition; save it to a file, change it, and pass the file to `workbench search`."""
    from workbench.definition import definition_text

    check_plugin_options(plugin_files, plugins_dirs)
    click.echo(definition_text(definition), nl=False)
