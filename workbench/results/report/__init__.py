"""The report: one HTML file that needs nothing else, for one study or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.outputs import check_output, write_output
from workbench.results.plots import NEED_IMPORTANCES, PLOTS, Plot, View, compare_best_so_far
from workbench.results.plots.look import FONT, THEMES, line_style, template
from workbench.results.report.facts import differences, study_facts
from workbench.results.report.rows import board_data

if TYPE_CHECKING:
    from workbench.results.permutation import Solver
    from workbench.study import Study

MAX_ROWS = 20_000
"""So many rows the leaderboards of a page hold together; a browser and a mail program should still take it."""

CONTENT_POLICY = (
    # No address is allowed anywhere: nothing can be fetched or sent. Plotly's parallel coordinates compile shader
    # programs with `new Function`, hence 'unsafe-eval'.
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)


def write_report(studies: Sequence[Study], path: Path, solver: Solver | None = None) -> None:
    """Writes the report of one study or several, aside and renamed; the same studies give the same bytes.

    Args:
        studies: one or more.
        path: the file; its folders are made.
        solver: another process for the importances of hyperparameters.

    Raises:
        UsageError: no study; the file cannot be written there.
        OutputError: the disk is full or fails; an old file is as it was.
    """
    check_output(path, example="report.html")
    write_output(path, render_report(studies, solver).encode())


def render_report(studies: Sequence[Study], solver: Solver | None = None) -> str:
    """The report's HTML; see `write_report`.

    Raises:
        UsageError: no study.
    """
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    if not studies:
        raise UsageError("a report needs a study; received none")
    views = [View(study, position) for position, study in enumerate(studies)]
    if solver is not None:
        for view in views:
            view.begin_importances(solver)
    boards = [board_data(view, MAX_ROWS // len(views)) for view in views]
    facts = [study_facts(view) for view in views]
    compared = compare_best_so_far(views) if len(views) > 1 else None
    # Last, as some wait for importances.
    plots = [_plots(view) for view in views]
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    data = {
        "templates": {theme: template(theme).to_plotly_json() for theme in THEMES},
        "figures": _figures(plots, compared),
        "boards": boards,
        "studies": [line_style(view.position) for view in views],
    }
    return environment.get_template("report.html").render(
        views=views,
        facts=facts,
        plots=plots,
        boards=boards,
        compared=compared,
        differences=differences(views),
        themes=THEMES,
        font=Markup(FONT),
        policy=CONTENT_POLICY,
        style=Markup((here / "report.css").read_text(encoding="utf-8")),
        script=Markup((here / "report.js").read_text(encoding="utf-8")),
        plotly_js=Markup(get_plotlyjs()),
        data=Markup(_embedded(data)),
    )


def _plots(view: View) -> dict[str, Plot]:
    """Every figure by name; those that wait for importances are made last."""
    at_once = [name for name in PLOTS if name not in NEED_IMPORTANCES]
    made = {name: PLOTS[name](view) for name in (*at_once, *NEED_IMPORTANCES)}
    return {name: made[name] for name in PLOTS}


def _figures(plots: Sequence[dict[str, Plot]], compared: Plot | None) -> dict[str, Any]:
    """Data and layout of every figure that has something to draw, by its element's id."""
    found = {f"plot-{place}-{name}": plot for place, named in enumerate(plots) for name, plot in named.items()}
    if compared is not None:
        found["plot-compared"] = compared
    figures = {}
    for key, plot in found.items():
        if not plot.is_empty:
            made = plot.figure.to_plotly_json()
            # The page has the templates once, and changes between them.
            del made["layout"]["template"]
            figures[key] = made
    return figures


def _embedded(data: dict[str, Any]) -> str:
    """JSON for a script element: no text in it can end the element or begin a comment."""
    from plotly.io.json import to_json_plotly

    text: str = to_json_plotly(data, engine="json")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
