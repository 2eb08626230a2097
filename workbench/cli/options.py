"""Options that several commands share."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from workbench.devices import DeviceWish, TpuAddress
from workbench.registry import Registry

Command = TypeVar("Command", bound=Callable[..., Any])

DIRECTORY = "studies"

INTERRUPTED = 130
"""The exit code after Ctrl-C or SIGTERM, as shells have it."""


def common_options(command: Command) -> Command:
    """`--plugin`, `--plugins-dir` and `--debug`, which every command takes."""
    options = [
        click.option(
            "--plugin",
            "plugin_files",
            multiple=True,
            metavar="FILE.py",
            help="Load a plugin file; may be given several times.",
        ),
        click.option(
            "--plugins-dir",
            "plugins_dirs",
            multiple=True,
            metavar="DIR",
            help="Load every plugin file of a folder.",
        ),
        click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks of errors."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def definition_options(command: Command) -> Command:
    """What `search` and `train` take to change a definition and to say where and on what it runs."""
    command = running_options(command)
    options = [
        click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies."),
        click.option("--study", metavar="NAME", help="The study's name; by default the definition's."),
        click.option("--epochs", type=int, metavar="N", help="Epochs of a trial in full."),
        click.option("--seed", type=int, metavar="N", help="What everything random follows from."),
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="KEY=VALUE",
            help="Change the definition: dataset.image_size=96. May be given several times.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def running_options(command: Command) -> Command:
    """What a command that trains takes to say on which data and device, and what it tells meanwhile."""
    options = [
        click.option(
            "--data-dir",
            metavar="DIR",
            help="Where the data set's files are (or set WORKBENCH_DATA).",
        ),
        click.option("--inline", is_flag=True, help="Train in this process, for debugging."),
        click.option("--quiet", "-q", is_flag=True, help="Print results only, no progress."),
    ]
    for option in reversed(options):
        command = option(command)
    return device_options(command)


def device_options(command: Command) -> Command:
    """What to train on: gives the command one argument, `device`, a `workbench.devices.DeviceWish`."""

    @functools.wraps(command)
    def with_wish(
        *arguments: Any,
        device: Any,
        backend: Any,
        replicas: int | None,
        tpu_name: str | None,
        tpu_zone: str | None,
        tpu_project: str | None,
        probe_seconds: float,
        **others: Any,
    ) -> Any:
        wish = DeviceWish(
            kind=device,
            backend=backend,
            replicas=replicas,
            address=TpuAddress(name=tpu_name, zone=tpu_zone, project=tpu_project),
            probe_seconds=probe_seconds,
        )
        return command(*arguments, device=wish, **others)

    options = [
        click.option(
            "--device",
            type=click.Choice(["auto", "tpu", "gpu", "cpu"]),
            default="auto",
            show_default=True,
            help="What to train on.",
        ),
        click.option(
            "--backend",
            type=click.Choice(["auto", "tensorflow", "jax"]),
            default="auto",
            show_default=True,
            help="Keras's backend; auto: what KERAS_BACKEND says, else JAX on a TPU, TensorFlow elsewhere.",
        ),
        click.option(
            "--replicas",
            type=click.IntRange(min=1),
            metavar="N",
            help="Cores to use; by default all of a TPU's, all GPUs, or one CPU. On a CPU: logical devices.",
        ),
        click.option("--tpu-name", metavar="NAME", help="A TPU by name (TensorFlow only), or local: this host's."),
        click.option("--tpu-zone", metavar="ZONE", help="The named TPU's Google Cloud zone."),
        click.option("--tpu-project", metavar="PROJECT", help="The named TPU's Google Cloud project."),
        click.option(
            "--probe-seconds",
            type=click.FloatRange(min=0, min_open=True),
            default=DeviceWish.probe_seconds,
            show_default=True,
            metavar="SECONDS",
            help="How long a TPU may take to start before it is given up.",
        ),
    ]
    wrapped: Any = with_wish
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def output_options(command: Command) -> Command:
    """How a table is printed, and how much of it."""
    top = click.option("--top", type=click.IntRange(min=1), metavar="N", help="The first N rows; a table shows 20.")
    return top(table_options(command))


def table_options(command: Command) -> Command:
    """How a table is printed."""
    command = file_options(command)
    options = [
        click.option("--columns", metavar="A,B,...", help="These columns only; globs such as 'hp.*' work."),
        click.option(
            "--where",
            "expression",
            metavar="EXPR",
            help="Rows that satisfy a pandas expression: 'parameters < 200000'; `hp.a/b` in backticks.",
        ),
        click.option("--sort", metavar="COLUMN", help="Sort by a column; -COLUMN: largest first."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def file_options(command: Command) -> Command:
    """In which format a table is printed, and where to."""
    options = [
        click.option(
            "--format",
            "format_name",
            type=click.Choice(["table", "csv", "json", "markdown", "html", "parquet"]),
            help="Default: table, or what the ending of --output says.",
        ),
        click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write to a file."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def load_registry(plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]) -> Registry:
    """The registry; tells on standard error of discovered plugins that did not load."""
    registry = Registry.load(plugin_files, plugins_dirs)
    for problem in registry.problems:
        click.echo(f"warning: {problem}", err=True)
    return registry


def check_plugin_options(plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]) -> None:
    """For commands that read results only: looks at plugins if some were named, at none otherwise."""
    if plugin_files or plugins_dirs:
        load_registry(plugin_files, plugins_dirs)


def find_study(study: str, directory: str) -> Path:
    """A study by path, or by name in the folder of studies."""
    as_path = Path(study)
    with contextlib.suppress(OSError):  # of a name that is too long for a file
        if "/" in study or (as_path / "journal.jsonl").exists():
            return as_path
    return Path(directory) / study


@contextlib.contextmanager
def without_resuming() -> Iterator[None]:
    """Ctrl-C in commands that begin anew when they are run again."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
