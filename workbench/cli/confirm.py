"""`workbench confirm`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import DIRECTORY, common_options, file_options, load_registry, running_options
from workbench.devices import DeviceWish
from workbench.errors import WorkError

if TYPE_CHECKING:
    import pandas as pd

    from workbench.results.confirmation import Confirmation

TABLES = ("candidates", "comparisons", "classes", "confusion")

MOST_CLASSES = 20
"""So many classes are printed in full; of more, the worst ones."""


@click.command()
@click.argument("study")
@click.option("--top", type=int, default=3, show_default=True, metavar="K", help="How many trials to retrain.")
@click.option("--seeds", type=int, default=5, show_default=True, metavar="S", help="Retrainings of each, new seeds.")
@click.option("--epochs", type=int, metavar="N", help="Epochs of a retraining; by default the study's.")
@click.option("--workers", type=int, default=1, show_default=True, metavar="N", help="Retrainings at once.")
@click.option(
    "--table",
    type=click.Choice(TABLES),
    help="Print this table only. Without it, JSON is one object with all of them, other formats have the candidates.",
)
@file_options
@click.option("--directory", default=DIRECTORY, show_default=True, metavar="DIR", help="Folder of studies.")
@running_options
@common_options
def confirm(
    study: str,
    top: int,
    seeds: int,
    epochs: int | None,
    workers: int,
    table: str | None,
    format_name: str | None,
    output: Path | None,
    directory: str,
    data_dir: str | None,
    device: DeviceWish,
    inline: bool,
    quiet: bool,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Retrain the best trials with new seeds, test each model once, and say whether the winner wins.

    STUDY is a path, or a name in the folder of studies. The same command continues; a larger --top or --seeds
    extends. The winner has the best mean validation over the new seeds; the verdict compares the test scores.
    """
    from workbench.cli.display import make_display
    from workbench.cli.output import format_of, write_table
    from workbench.confirm_study import confirm as run_confirmation
    from workbench.run import Request

    load_registry(plugin_files, plugins_dirs)
    chosen_format = format_of(format_name, output)
    # What a program reads on standard output holds nothing else.
    display = make_display(quiet=quiet, errors=chosen_format != "table" and output is None)
    try:
        found = run_confirmation(
            study,
            top=top,
            seeds=seeds,
            epochs=epochs,
            directory=directory,
            workers=workers,
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
    if chosen_format == "table" and table is None and output is None:
        _print(found)
    elif chosen_format == "json" and table is None:
        _write_json(found, output)
    else:
        write_table(_tables(found)[table or "candidates"], chosen_format, output)
    if found.winner is None:
        raise WorkError(f"{found.path}: every retraining failed. {found.sentences()[-1]}")


def _tables(found: Confirmation) -> dict[str, pd.DataFrame]:
    frames = (found.table(), found.comparisons(), found.per_class(), found.confusion())
    return dict(zip(TABLES, frames, strict=True))


def _write_json(found: Confirmation, output: Path | None) -> None:
    from workbench.cli.output import as_rows, write_text

    document = {
        "study": found.study,
        "metric": found.metric,
        "direction": found.direction,
        "winner": found.winner.trial_id if found.winner is not None else None,
        "beats_runner_up": found.beats_runner_up,
        "sentences": found.sentences(),
        **{name: as_rows(frame) for name, frame in _tables(found).items()},
    }
    write_text(json.dumps(document, indent=1) + "\n", output)


def _print(found: Confirmation) -> None:
    from workbench.cli.output import print_frame, print_rows

    rows = [_readable(found, row) for row in found.table().to_dict("records")]
    header = [label for label, _ in rows[0]]
    print_rows(header, [[text for _, text in row] for row in rows], right=[name != "trial" for name in header])
    if found.winner is not None and found.winner.tests:
        classes = (
            found.per_class().sort_values("accuracy_mean", kind="stable") if _are_many(found) else found.per_class()
        )
        click.echo(
            f"\ntest accuracy of the winner {found.winner.trial_id} by class, over n = {len(found.winner.tests)} seeds"
            + (f"; the {MOST_CLASSES} worst of {len(found.class_names)} classes" if _are_many(found) else "")
        )
        print_frame(classes.head(MOST_CLASSES))
        if not _are_many(found):
            click.echo(f"\nits predictions, summed over these seeds ({found.test_images} test images each)")
            print_frame(found.confusion())
    click.echo("")
    for sentence in found.sentences():
        click.echo(sentence)
    click.echo(f"stored in {found.path}")


def _are_many(found: Confirmation) -> bool:
    return len(found.class_names) > MOST_CLASSES


def _readable(found: Confirmation, row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """A candidate's row as (header, text), with each interval in one cell."""
    from workbench.cli.output import cell

    shown = [("trial", row["trial_id"]), ("rank", cell("rank", row["rank"])), ("score", cell("score", row["score"]))]
    for name in ("validation", "test") if found.test_images is not None else ("validation",):
        mean, std, low, high = (cell("score", row[f"{name}_{key}"]) for key in ("mean", "std", "low", "high"))
        interval = f"{low} to {high}" if low else ""
        shown += [(name, mean), ("std", std), ("95 % interval", interval), ("n", str(row[f"{name}_n"]))]
    if found.test_images is not None:
        shown.append(("macro F1", cell("score", row["macro_f1"])))
    return [*shown, *((name, cell(name, row[name])) for name in ("parameters", "seconds"))]
