"""`workbench train`."""

from __future__ import annotations

import statistics
from pathlib import Path

import click

from workbench.cli.options import common_options, definition_options, load_registry
from workbench.devices import DeviceWish


@click.command()
@click.argument("definition", metavar="NAME_OR_FILE")
@click.option(
    "--point",
    default="default",
    show_default=True,
    metavar="POINT",
    help="default (the published network), a TOML or JSON file of hyperparameters, or STUDY:TRIAL.",
)
@click.option("--seeds", type=int, default=1, show_default=True, metavar="S", help="Trainings, each with a new seed.")
@click.option(
    "--on",
    type=click.Choice(["train", "train+validation"]),
    default="train",
    show_default=True,
    help="What to train on; train+validation keeps the last epoch's weights.",
)
@click.option("--evaluate-test", is_flag=True, help="Measure on the test split at the end.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the model: MODEL.keras.")
@definition_options
@common_options
def train(
    definition: str,
    point: str,
    seeds: int,
    on: str,
    evaluate_test: bool,
    output: Path | None,
    data_dir: str | None,
    directory: str,
    study: str | None,
    epochs: int | None,
    device: DeviceWish,
    seed: int | None,
    sets: tuple[str, ...],
    inline: bool,
    quiet: bool,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Train one point in full: the published network, a point from a file, or a stored trial again.

    The training is a study of one trial (by default DIRECTORY/NAME-train): the same command continues it. The
    weights of the best validation epoch are kept.
    """
    from workbench.cli.display import make_display
    from workbench.run import Request
    from workbench.train_point import Trained
    from workbench.train_point import train as run_training

    load_registry(plugin_files, plugins_dirs)
    display = make_display(quiet=quiet)
    try:
        trained: Trained = run_training(
            definition,
            point=point,
            seeds=seeds,
            on=on,  # type: ignore[arg-type]
            evaluate_test=evaluate_test,
            output=output,
            directory=directory,
            study=study,
            sets=sets,
            options={"--epochs": ("training.epochs", epochs), "--seed": ("seed", seed)},
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
    _report(trained)


def _report(trained: object) -> None:
    from workbench.train_point import Trained

    assert isinstance(trained, Trained)
    study = trained.study
    row = study.trials().iloc[0]
    count = len(study.history.trials[trained.trial_id].executions)
    spread = f" (standard deviation {row['score_std']:.4f}, n = {count})" if count > 1 else ""
    click.echo(
        f"{study.metric} {row['score']:.4f}{spread}, best of {row['epochs']} epochs at epoch {row['best_epoch']}; "
        f"{row['parameters']:,} parameters; {row['seconds']:.0f} s"
    )
    accuracies = [metrics["accuracy"] for metrics in trained.test.values()]
    if accuracies:
        images = study.history.space["facts"]["counts"]["test"]
        mean = statistics.fmean(accuracies)
        spread = f" (standard deviation {statistics.stdev(accuracies):.4f})" if len(accuracies) > 1 else ""
        click.echo(f"test accuracy {mean:.4f}{spread} on {images:,} images, n = {len(accuracies)}")
    if trained.output is not None:
        click.echo(f"model written to {trained.output}; `workbench predict {trained.output} IMAGE...` uses it")
    click.echo(f"study: {study.path}")
