"""`workbench export`."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.options import DIRECTORY, common_options, load_registry, without_resuming


@click.command()
@click.argument("source", metavar="STUDY[:TRIAL]")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["keras", "weights", "savedmodel", "tflite", "onnx"]),
    help="Default: what the ending of --output says.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file or folder to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace a model that is there.")
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@click.option(
    "--data-dir", metavar="DIR", help="Where the data set's files are, for the check (or set WORKBENCH_DATA)."
)
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@common_options
def export(
    source: str,
    format_name: str | None,
    output: Path,
    overwrite: bool,
    directory: str,
    data_dir: str | None,
    quiet: bool,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Write a trained model for other programs, checked against Keras, with a model card.

    STUDY is a path, or a name in the folder of studies; without TRIAL the best one with stored weights is taken. A
    MODEL.keras that `workbench train` wrote does, too. The model takes uint8 images (batch, height, width,
    channels) and gives probabilities; weights are those of the bare network.
    """
    from workbench.cli.display import make_display
    from workbench.convert import export as run_export
    from workbench.quiet import use_cpu_quietly

    load_registry(plugin_files, plugins_dirs)
    use_cpu_quietly()
    display = make_display(quiet=quiet)
    try:
        with without_resuming():
            done = run_export(
                source,
                output,
                format=format_name,
                directory=directory,
                data_dir=data_dir,
                overwrite=overwrite,
                plugin_files=plugin_files,
                plugins_dirs=plugins_dirs,
                display=display,
            )
    finally:
        display.close()
    click.echo(
        f"{done.path} agrees with Keras on {done.images} {done.origin}: largest difference of a probability "
        f"{done.largest_difference:.2g} (up to {done.tolerance:g} is let pass)"
    )
    if done.reason:
        click.echo(f"no validation images were used: {done.reason}")
    click.echo(f"model card: {done.card}")
