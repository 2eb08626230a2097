"""`workbench predict`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import click

from workbench.cli.options import common_options, load_registry


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--top", type=click.IntRange(min=1), default=3, show_default=True, help="Classes to name.")
@click.option(
    "--format", "format_name", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True
)
@common_options
def predict(
    model: Path,
    images: tuple[Path, ...],
    top: int,
    format_name: str,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Name the classes of images with a trained MODEL.keras, on any machine.

    Images of any format and size: the shorter side is resized to the model's, the middle square is taken.
    """
    from workbench.predict import predict_images
    from workbench.quiet import use_cpu_quietly

    load_registry(plugin_files, plugins_dirs)
    use_cpu_quietly()
    rows = predict_images(model, images)
    if format_name == "json":
        click.echo(json.dumps([row.as_dict(top) for row in rows], indent=1))
    elif format_name == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(["image", "rank", "class", "probability"])
        for row in rows:
            for position, (name, probability) in enumerate(row.best(top), start=1):
                writer.writerow([row.image, position, name, f"{probability:.6f}"])
    else:
        for row in rows:
            named = "  ".join(f"{name} {probability:.1%}" for name, probability in row.best(top))
            click.echo(f"{row.image}: {named}")
