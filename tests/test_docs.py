"""The guides name everything that there is: hooks, keys of definitions, columns."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workbench import hookspecs
from workbench.components import Component
from workbench.definition.compare import FREE_KEYS
from workbench.definition.overrides import Range
from workbench.definition.tables import Definition
from workbench.oracles.protocol import Outcome
from workbench.registry import HOOK_OF_KIND, Registry
from workbench.results.comparison import COMPARE_COLUMNS
from workbench.results.confirmation import CLASS_COLUMNS, COMPARISON_COLUMNS, CONFIRMATION_COLUMNS
from workbench.tpu.stored import COLUMNS as TPU_COLUMNS
from workbench.trials import TRIAL_COLUMNS, Status

DOCS = Path(__file__).resolve().parent.parent / "docs"


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"there is no heading {heading!r}"
    return re.split(rf"\n#{{1,{level}}} ", rest)[0]


def first_cells(text: str) -> list[str]:
    """The code words that begin the rows of tables."""
    return re.findall(r"^\| `([^`]+)` +\|", text, re.MULTILINE)


def test_plugins_guide_names_every_hook() -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("workbench_")}
    documented = {re.sub(r"\(.*", "", cell) for cell in first_cells(read("plugins.md"))}
    assert {name for name in documented if name.startswith("workbench_")} == hooks


@pytest.mark.parametrize("kind", list(HOOK_OF_KIND))
def test_plugins_guide_has_an_example_of_every_kind(kind: str) -> None:
    hook, component = HOOK_OF_KIND[kind]
    examples = re.findall(r"```python\n(.*?)```", read("plugins.md"), re.DOTALL)
    assert any(f"def {hook}(" in code and f"workbench.{component.__name__}(" in code for code in examples)
    assert issubclass(component, Component)


def test_plugins_guide_names_every_variable() -> None:
    documented = set(re.findall(r"WORKBENCH_\w+", read("plugins.md")))
    assert documented == set(re.findall(r"WORKBENCH_\w+", str(Registry.load.__doc__)))


def tables_of_definitions() -> list[tuple[str, set[str]]]:
    """(heading, keys) of each table; `name` stands for `names` in tables that take both."""
    found = [("### Top level", {key for key, field in Definition.model_fields.items() if not is_table(field)})]
    headings = {name: f"### `[{name}]`" for name in Definition.model_fields}
    headings["augmentation"] = headings["schedule"] = "### `[augmentation]` and `[schedule]`"
    for name, field in Definition.model_fields.items():
        if is_table(field):
            keys = set(field.annotation.model_fields)
            found.append((headings[name], keys | {"name"} if "names" in keys else keys))
            for key, inner in field.annotation.model_fields.items():
                found += [(f"### `[{name}.{key}]`", set(table.model_fields)) for table in optional_tables(inner)]
    return [*found, ("## Overrides", set(Range.model_fields))]


def optional_tables(field: FieldInfo) -> list[type[BaseModel]]:
    options = typing.get_args(field.annotation)
    return [item for item in options if isinstance(item, type) and issubclass(item, BaseModel)]


def is_table(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


@pytest.mark.parametrize(("heading", "keys"), tables_of_definitions())
def test_definition_guide_names_every_key(heading: str, keys: set[str]) -> None:
    documented = set(first_cells(section(read("definition.md"), heading)))
    assert {cell for cell in documented if re.fullmatch(r"\w+", cell)} == keys


def test_definition_guide_says_what_may_change() -> None:
    text = section(read("definition.md"), "## What may change when a study is resumed")
    free = [f"`[{path[0]}]`" if path == ("budget",) else f"`{'.'.join(path)}`" for path in FREE_KEYS]
    assert [name for name in free if name not in text] == []
    assert len(re.findall(r"`(?!--)[^`]+`", text)) == len(free)


def test_studies_guide_names_every_column_in_order() -> None:
    columns = first_cells(section(read("studies.md"), "## The table of trials"))
    statuses = [str(status) for status in Status]
    assert columns == [*TRIAL_COLUMNS, *TPU_COLUMNS, "hp.COMPONENT/NAME", *statuses]
    assert {str(outcome) for outcome in Outcome} - set(statuses) == {"rejected"}


def test_studies_guide_names_every_column_of_comparisons() -> None:
    text = section(read("studies.md"), "## Comparing studies")
    statuses = [str(status) for status in Status]
    assert first_cells(text) == [*(name for name in COMPARE_COLUMNS if name not in statuses), "definition.KEY"]
    assert [name for name in statuses if f"`{name}`" not in text] == []


def test_studies_guide_names_every_column_of_a_confirmation() -> None:
    text = section(read("studies.md"), "### The tables")
    marks = ["confirmed_score", "confirmed_seeds"]
    assert first_cells(text) == [*marks, *CONFIRMATION_COLUMNS, *COMPARISON_COLUMNS]
    assert [name for name in (*CLASS_COLUMNS, "true_class") if f"`{name}`" not in text] == []


def test_data_guide_names_every_data_set_and_option() -> None:
    text = read("data.md")
    registry = Registry.load(environ={})
    assert set(first_cells(section(text, "## The data sets"))) == set(registry.names("dataset"))
    options = {option for name in registry.names("dataset") for option in registry.find("dataset", name).options}
    assert {option for option in options if f"`{option}" not in text} == set()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *sorted(path.name for path in DOCS.glob("*.md"))])
def test_links_lead_somewhere(name: str) -> None:
    path = DOCS / name if (DOCS / name).exists() else DOCS.parent / name
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", path.read_text(encoding="utf-8"))
    for link in links:
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        assert file.is_file(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, link
