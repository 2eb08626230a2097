"""`workbench predict`."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import common_options, load_registry, without_resuming

if TYPE_CHECKING:
    from workbench.predict import Prediction

_Rows = Iterable["list[Prediction]"]


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--top", type=click.IntRange(min=1), default=3, show_default=True, help="Classes to name.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "csv", "json", "jsonl"]),
    default="table",
    show_default=True,
    help="jsonl: one object a line.",
)
@click.option(
    "--on-bad-image",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Images that cannot be read are named and the others predicted; error: exit code 2 at the end.",
)
@common_options
def predict(
    model: Path,
    images: tuple[Path, ...],
    top: int,
    format_name: str,
    on_bad_image: str,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Name the classes of images with a trained model, on any machine.

    MODEL is what `workbench train -o` or `workbench export` wrote: .keras, .tflite, .onnx, or a SavedModel's folder.
    Images of any format and size: the shorter side is resized to the model's, the middle square is taken. A folder
    stands for the images in it. Rows appear as images are predicted.
    """
    from workbench.errors import DataError
    from workbench.predict import find_images, stream_predictions
    from workbench.quiet import use_cpu_quietly

    load_registry(plugin_files, plugins_dirs)
    use_cpu_quietly()
    paths = find_images(images)
    bad: list[str] = []

    def tell(error: DataError) -> None:
        bad.append(str(error))
        # The one message of a single image is the command's error.
        if len(paths) > 1 or on_bad_image == "skip":
            click.echo(f"warning: {error}", err=True)

    if hasattr(sys.stdout, "reconfigure"):
        # Names of files are bytes; those that are no text come out as they are.
        sys.stdout.reconfigure(errors="surrogateescape")
    with without_resuming():
        _PRINTERS[format_name](stream_predictions(model, paths, tell), paths, top)
    if bad and on_bad_image == "error":
        if len(paths) == 1:
            raise DataError(bad[0])
        raise DataError(
            f"{len(bad):,} of {len(paths):,} images could not be read (named above); the others were predicted. "
            "Replace or remove them, or pass --on-bad-image skip"
        )


def _print_table(batches: _Rows, paths: list[Path], top: int) -> None:
    width = max(len(click.format_filename(path)) for path in paths)
    names = 0
    for number, batch in enumerate(batches):
        if number == 0:
            names = max(len(name) for name in ["class", *batch[0].class_names])
            click.echo(f"{'image':{width}}  {'class':{names}}  probability{'  next' if top > 1 else ''}")
        for row in batch:
            (name, probability), *others = row.best(top)
            following = ", ".join(f"{other} {share:.1%}" for other, share in others)
            line = f"{click.format_filename(row.image):{width}}  {name:{names}}  {probability:>11.1%}  {following}"
            click.echo(line.rstrip())
        sys.stdout.flush()


def _print_csv(batches: _Rows, paths: list[Path], top: int) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["image", "rank", "class", "probability"])
    for batch in batches:
        for row in batch:
            for position, (name, probability) in enumerate(row.best(top), start=1):
                writer.writerow([row.image, position, name, f"{probability:.6f}"])
        sys.stdout.flush()


def _print_json(batches: _Rows, paths: list[Path], top: int) -> None:
    # The list is closed whatever happens, so that what was predicted can be read.
    with _closed_list() as separator:
        for batch in batches:
            for row in batch:
                click.echo(separator() + json.dumps(row.as_dict(top)), nl=False)
            sys.stdout.flush()


@contextlib.contextmanager
def _closed_list() -> Iterator[Callable[[], str]]:
    begun = False

    def separator() -> str:
        nonlocal begun
        lead = ",\n" if begun else "[\n"
        begun = True
        return lead

    try:
        yield separator
    except BrokenPipeError:
        raise
    except BaseException:
        if begun:
            click.echo("\n]")
        raise
    click.echo("\n]" if begun else "[]")


def _print_jsonl(batches: _Rows, paths: list[Path], top: int) -> None:
    for batch in batches:
        for row in batch:
            click.echo(json.dumps(row.as_dict(top)))
        sys.stdout.flush()


_PRINTERS: dict[str, Callable[[_Rows, list[Path], int], Any]] = {
    "table": _print_table,
    "csv": _print_csv,
    "json": _print_json,
    "jsonl": _print_jsonl,
}
