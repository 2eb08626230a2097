"""Tables for people and for programs: Rich on a terminal, pandas' writers elsewhere."""

from __future__ import annotations

import fnmatch
import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.errors import UsageError, near_names
from workbench.outputs import check_output, write_output

if TYPE_CHECKING:
    import pandas as pd

    from workbench.study import Study

TABLE_ROWS = 20
"""How many rows a table shows where nothing else is asked for."""

TABLE_COLUMNS = (
    "rank",
    "study",
    "trial_id",
    "score",
    "score_std",
    "confirmed_score",
    "confirmed_seeds",
    "best_epoch",
    "epochs",
    "rung",
    "parameters",
    "seconds",
)
"""What the leaderboard's table shows before the hyperparameters that differ between trials."""

FOUR_DIGITS = ("score", "score_std", "last_score", "best", "confirmed_score", "accuracy_mean", "accuracy_std")

LAST_COLUMN = 80
"""How wide the last column may be where there is no terminal to fit into."""

LEAST_LAST_COLUMN = 32
"""How wide it is on a terminal, if its text is that long: rather than less, columns before it are left out."""

MOST_COLUMNS = 4
"""So many hyperparameters get a column each in a table; more share one."""

_ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".html": "html",
    ".parquet": "parquet",
    ".txt": "table",
}


def print_leaderboard(study: Study) -> None:
    """The leaderboard as a search's last word, with the target and what did not complete."""
    frame = study.leaderboard()
    if len(frame):
        write_table(readable_columns(frame, study.searched()).head(TABLE_ROWS), "table", None)
    trials = study.trials()
    counts = ", ".join(f"{count} {status}" for status, count in trials["status"].value_counts().items())
    text = f"{study.path}: {counts or 'no trials'}"
    target = study.definition["objective"].get("target")
    if target is not None and len(frame):
        best = float(frame["score"].iloc[0])
        reached = best >= target if study.direction == "max" else best <= target
        text += f"; target {study.metric} {target} {'reached' if reached else 'not reached'}"
    click.echo(text)
    failed = trials[trials["status"] == "failed"]
    for _, row in failed.head(3).iterrows():
        click.echo(f"trial {row['trial_id']} failed: {row['error']}")


def readable_columns(frame: pd.DataFrame, searched: Collection[str]) -> pd.DataFrame:
    """The columns that tell trials apart: those of `TABLE_COLUMNS` with values, and hyperparameters.

    Args:
        frame: a leaderboard.
        searched: the hyperparameters that the search could choose, by full name; others are shown where they differ.
    """
    shown = [name for name in TABLE_COLUMNS if name in frame and frame[name].notna().any()]
    if "status" in frame and frame["status"].nunique() > 1:
        shown.insert(shown.index("trial_id") + 1, "status")
        shown += ["error"] if frame["error"].notna().any() else []
    shown += [name for name in frame.columns if name.startswith("tpu.") and frame[name].notna().any()]
    hyperparameters = [name for name in frame.columns if name.startswith("hp.")]
    chosen = [
        name
        for name in hyperparameters
        if frame[name].nunique(dropna=False) > 1 or (name.removeprefix("hp.") in searched and frame[name].notna().any())
    ]
    return frame[[*shown, *chosen]]


def select(
    frame: pd.DataFrame,
    *,
    columns: str | None,
    expression: str | None,
    sort: str | None,
    top: int | None,
) -> pd.DataFrame:
    """Rows and columns as the output options name them.

    Raises:
        UsageError: an unknown column or an expression that pandas does not take.
    """
    import pandas as pd

    if expression is not None:
        try:
            frame = frame.query(expression)
            if not isinstance(frame, pd.DataFrame):
                raise TypeError(f"it gives a {type(frame).__name__}, not rows")
        except Exception as error:
            raise UsageError(
                f"--where must be a pandas expression over the columns, such as 'parameters < 200000' (hp columns in "
                f"backticks: '`hp.a/b` > 2'); received {expression!r} ({_short(error)})"
            ) from error
    if sort is not None:
        name = _known_column(frame, sort.removeprefix("-"), "--sort")
        frame = frame.sort_values(name, ascending=not sort.startswith("-"), kind="stable", na_position="last")
    if columns is not None:
        chosen: list[str] = []
        for pattern in filter(None, (item.strip() for item in columns.split(","))):
            matches = [name for name in frame.columns if fnmatch.fnmatchcase(name, pattern)]
            chosen += matches or [_known_column(frame, pattern, "--columns")]
        if not chosen:
            raise UsageError(f"--columns must name a column or more; received {columns!r}")
        frame = frame[list(dict.fromkeys(chosen))]
    return frame.head(top) if top is not None else frame


def _known_column(frame: pd.DataFrame, name: str, option: str) -> str:
    if name in frame.columns:
        return name
    names = [str(column) for column in frame.columns]
    hint = near_names(name, names) or f" There are: {', '.join(names)}."
    raise UsageError(f"{option} must name columns; received {name!r}.{hint}")


def format_of(format_name: str | None, output: Path | None) -> str:
    """The format asked for, or the one of the file's ending, or "table".

    Raises:
        UsageError: the ending stands for no format.
    """
    if format_name is not None:
        return format_name
    if output is None or not output.suffix:
        return "table"
    if output.suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"--output must end in {', '.join(_ENDINGS)}, or stand with --format; received {str(output)!r}"
        )
    return _ENDINGS[output.suffix.lower()]


def write_table(frame: pd.DataFrame, format_name: str, output: Path | None) -> None:
    """Prints a table, or writes it to a file.

    Args:
        frame: what to write; JSON is a list of rows with null for missing values.
        format_name: "table", "csv", "json", "markdown", "html" or "parquet".
        output: a file, or None for standard output.

    Raises:
        UsageError: Parquet without a file or without pyarrow; a file that cannot be written.
    """
    if format_name == "parquet":
        _write_parquet(frame, output)
        return
    if format_name == "table" and output is None:
        print_frame(frame)
        return
    write_text(_as_text(frame, format_name), output)


def write_text(text: str, output: Path | None) -> None:
    """Prints a text as it is, or writes it to a file.

    Raises:
        UsageError, OutputError: the file cannot be written, see `write_output`.
    """
    if output is None:
        click.echo(text, nl=False)
        return
    write_output(output, text.encode())


def _as_text(frame: pd.DataFrame, format_name: str) -> str:
    if format_name == "csv":
        return frame.to_csv(index=False)
    if format_name == "json":
        return json.dumps(as_rows(frame), indent=1) + "\n"
    if format_name == "html":
        return frame.to_html(index=False, na_rep="") + "\n"
    if format_name == "markdown":
        return _as_strings(frame).to_markdown(index=False, disable_numparse=True) + "\n"
    return _as_strings(frame).to_string(index=False) + "\n"


def as_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them, null for missing values."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", date_format="iso", double_precision=15))
    return rows


def _write_parquet(frame: pd.DataFrame, output: Path | None) -> None:
    if output is None:
        raise UsageError("--format parquet needs a file; add --output FILE.parquet")
    check_output(output)
    try:
        data = frame.to_parquet(index=False)
    except ImportError:
        raise UsageError(
            "--format parquet needs pyarrow; install it with: pip install 'convnet-search-workbench[parquet]'"
        ) from None
    write_output(output, data)


def _short(error: Exception) -> str:
    """The first line of an error's text: pandas' may hold a whole table."""
    return str(error).strip().split("\n")[0][:200]


def _as_strings(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: [cell(name, value) for value in frame[name]] for name in frame.columns})


def cell(column: str, value: Any) -> str:
    """A value as a table shows it: four digits of scores, thousands separated, nothing for missing ones."""
    import pandas as pd

    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M")
    if column in FOUR_DIGITS:
        return f"{value:.4f}"
    if column in ("seconds", "target_seconds", "step_ms", "images_per_s"):
        return f"{value:,.1f}"
    if column in ("mxu_fill", "peak_gib", "tpu.mxu_fill", "tpu.peak_gib"):
        return f"{value:.3f}"
    if column in ("gflop", "gbytes", "intensity", "tpu.gflop"):
        return f"{value:,.4g}"
    if column in ("parameters", "flops"):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def print_frame(frame: pd.DataFrame) -> None:
    """A Rich table on standard output; hyperparameters share a column when there are many of them."""
    strings = _as_strings(frame)
    hyperparameters = [name for name in frame.columns if name.startswith("hp.")]
    numbers = {name for name in frame.columns if frame[name].dtype.kind in "iuf"}
    labels = _short_names(hyperparameters)
    if len(hyperparameters) > MOST_COLUMNS:
        strings["hyperparameters"] = [
            ", ".join(f"{labels[name]}={row[name]}" for name in hyperparameters if row[name])
            for _, row in strings.iterrows()
        ]
        strings = strings.drop(columns=hyperparameters)
    print_rows(
        [labels.get(name, name) for name in strings.columns],
        strings.to_numpy().tolist(),
        right=[name in numbers for name in strings.columns],
    )


def _short_names(columns: Sequence[str]) -> dict[str, str]:
    """Names without `hp.` and, where that leaves them distinct, without their component."""
    full = {name: name.removeprefix("hp.") for name in columns}
    short = {name: text.partition("/")[2] or text for name, text in full.items()}
    counts = Counter(short.values())
    return {name: short[name] if counts[short[name]] == 1 else full[name] for name in columns}


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool] = ()) -> None:
    """A plain Rich table."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not header:
        click.echo("nothing to show")
        return
    console = Console(highlight=False)
    widths = [max([len(name), *(len(str(row[i])) for row in rows)]) for i, name in enumerate(header)]
    shown = list(range(len(header)))
    if console.is_terminal:
        shown = _fitting(widths, console.width)
    else:
        # A pipe or file has no width to fit into: only a long last column is wrapped.
        widths[-1] = min(widths[-1], LAST_COLUMN)
        console = Console(highlight=False, width=sum(widths) + 2 * len(widths))
    left_out = [name for position, name in enumerate(header) if position not in shown]
    header, rows = [header[i] for i in shown], [[row[i] for i in shown] for row in rows]
    right = [bool(right) and right[i] for i in shown]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True, show_edge=False)
    for position, name in enumerate(header):
        is_right = bool(right) and right[position]
        # Only the last column, with the longest text, is wrapped on a narrow terminal.
        is_last = position == len(header) - 1
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold", no_wrap=not is_last)
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row))
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().rstrip().split("\n")))
    if left_out:
        click.echo(f"too narrow for {', '.join(left_out)}; --columns chooses, --format csv has all")


def _fitting(widths: Sequence[int], width: int) -> list[int]:
    """The columns that a terminal has room for: the first ones and the last, which may be wrapped."""
    shown = list(range(len(widths)))
    last = min(widths[-1], LEAST_LAST_COLUMN)
    while len(shown) > 3 and sum(widths[i] for i in shown[:-1]) + last + 2 * len(shown) > width:
        del shown[-2]
    return shown
