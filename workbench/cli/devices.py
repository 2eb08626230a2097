"""`workbench devices`."""

from __future__ import annotations

import click

from workbench.cli.options import check_plugin_options, common_options, device_options
from workbench.devices import DeviceWish, choose_device


@click.command()
@device_options
@common_options
def devices(device: DeviceWish, plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]) -> None:
    """Show what a search would train on here, and why.

    Where something speaks of a TPU, a child process starts it, which takes some seconds.
    """
    check_plugin_options(plugin_files, plugins_dirs)
    choice = choose_device(device)
    for reason in choice.reasons:
        click.echo(reason)
    for name, value in choice.environment.items():
        click.echo(f"sets {name}={value}")
