"""The `workbench` command: its groups, and how errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Any

import click

from workbench.cli.check import check
from workbench.cli.compare import compare
from workbench.cli.confirm import confirm
from workbench.cli.devices import devices
from workbench.cli.export import export
from workbench.cli.leaderboard import leaderboard
from workbench.cli.options import INTERRUPTED
from workbench.cli.plugins import plugins
from workbench.cli.predict import predict
from workbench.cli.report import report
from workbench.cli.search import search
from workbench.cli.searches import searches
from workbench.cli.studies import studies
from workbench.cli.train import train
from workbench.errors import WorkbenchError


class _Commands(click.Group):
    """Where a reader of the output has seen enough, Click itself would end with exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            raise click.exceptions.Exit(0) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="convnet-search-workbench", prog_name="workbench")
def cli() -> None:
    """Register an architecture plugin, launch a tuner search, compare leaderboards.

    `workbench search quickstart` runs a first search; it needs no data and takes minutes.
    """


for command in (
    search,
    train,
    confirm,
    export,
    predict,
    leaderboard,
    compare,
    report,
    studies,
    searches,
    plugins,
    devices,
    check,
):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits: 0 success, 1 the work failed, 2 wrong use, 130 interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)
    debug = "--debug" in (arguments if arguments is not None else sys.argv)
    try:
        code = cli.main(args=arguments, prog_name="workbench", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except WorkbenchError as error:
        if debug:
            traceback.print_exc()
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("Stopped. The same command continues where it was.", err=True)
        code = INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        code = 0
    except OSError as error:
        # Files of ours are StorageErrors by now.
        if debug:
            traceback.print_exc()
        where = error.filename if error.filename is not None else "standard output"
        click.echo(f"error: {where} cannot be read or written ({error.strerror or error})", err=True)
        _discard_output()
        code = 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        click.echo(
            f"error: unexpected {type(error).__name__}: {error}. This is a fault of the workbench or a plugin; "
            "run again with --debug for the traceback",
            err=True,
        )
        code = 1
    # The process ends: nobody needs the collector to walk over a million events once more.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def _discard_output() -> None:
    """For `workbench leaderboard ... | head`: the reader has seen enough."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
