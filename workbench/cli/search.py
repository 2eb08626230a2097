"""`workbench search`."""

from __future__ import annotations

import click

from workbench.cli.options import common_options, definition_options, load_registry
from workbench.devices import DeviceWish


@click.command()
@click.argument("definition", metavar="NAME_OR_FILE")
@definition_options
@click.option("--max-trials", type=int, metavar="N", help="Trials with a result before the search ends.")
@click.option(
    "--workers", type=int, default=1, show_default=True, metavar="N", help="Trials at once; they share a CPU's threads."
)
@click.option(
    "--enqueue",
    multiple=True,
    metavar="POINT",
    help="Run this point first: a TOML or JSON file of hyperparameters, or STUDY:TRIAL. May be given several times.",
)
@click.option(
    "--warm-start",
    multiple=True,
    metavar="STUDY",
    help="Let the tuner learn from this study's results, where they fit. May be given several times.",
)
@common_options
def search(
    definition: str,
    data_dir: str | None,
    directory: str,
    study: str | None,
    epochs: int | None,
    device: DeviceWish,
    seed: int | None,
    sets: tuple[str, ...],
    inline: bool,
    quiet: bool,
    max_trials: int | None,
    workers: int,
    enqueue: tuple[str, ...],
    warm_start: tuple[str, ...],
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Run a search, or resume it: the same command continues where it was.

    NAME_OR_FILE is a shipped search (`workbench searches list`) or a TOML file. Results go to DIRECTORY/STUDY and
    are kept at every moment; Ctrl-C stops cleanly. Ends with the leaderboard.
    """
    from workbench.cli.display import make_display
    from workbench.cli.output import print_leaderboard
    from workbench.launch import search as run_search
    from workbench.run import Request

    load_registry(plugin_files, plugins_dirs)
    display = make_display(quiet=quiet)
    try:
        result = run_search(
            definition,
            directory=directory,
            study=study,
            sets=sets,
            options={
                "--max-trials": ("budget.max_trials", max_trials),
                "--epochs": ("training.epochs", epochs),
                "--seed": ("seed", seed),
            },
            workers=workers,
            enqueue=enqueue,
            warm_start=warm_start,
            request=Request(
                data_dir=data_dir,
                device=device,
                inline=inline,
                plugin_files=plugin_files,
                plugins_dirs=plugins_dirs,
                display=display,
            ),
        )
    finally:
        display.close()
    print_leaderboard(result)
