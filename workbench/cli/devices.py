"""`workbench devices`."""

from __future__ import annotations

import click

from workbench.cli.options import check_plugin_options, common_options


@click.command()
@click.option("--device", type=click.Choice(["auto", "tpu", "gpu", "cpu"]), default="auto", show_default=True)
@common_options
def devices(device: str, plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]) -> None:
    """Show what a search would train on here, and why."""
    from workbench.devices import choose_device

    check_plugin_options(plugin_files, plugins_dirs)
    choice = choose_device(device)  # type: ignore[arg-type]
    for reason in choice.reasons:
        click.echo(reason)
    for name, value in choice.environment.items():
        click.echo(f"sets {name}={value}")
