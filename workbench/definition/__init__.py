"""Search definitions: TOML to frozen structs, with every problem reported at once, and `--set`.

A definition names a data set, models, augmentations, schedules and a tuner, and says what to spend and what
to aim for. `load_definition` reads one from a file or by the name of a shipped one, `definition_from_dict`
takes the same tables from Python, `check_plugins` compares it with what is registered.
"""

from __future__ import annotations

from workbench.definition.compare import FREE_KEYS, differences
from workbench.definition.load import definition_from_dict, definition_text, load_definition, shipped_searches
from workbench.definition.overrides import DEFAULT, Override, Range, Scalar
from workbench.definition.plugins import check_plugins
from workbench.definition.tables import (
    BudgetTable,
    ComponentTable,
    ConstraintsTable,
    DatasetTable,
    Definition,
    ModelTable,
    ObjectiveTable,
    TrainingTable,
    TunerTable,
)

__all__ = [
    "DEFAULT",
    "FREE_KEYS",
    "BudgetTable",
    "ComponentTable",
    "ConstraintsTable",
    "DatasetTable",
    "Definition",
    "ModelTable",
    "ObjectiveTable",
    "Override",
    "Range",
    "Scalar",
    "TrainingTable",
    "TunerTable",
    "check_plugins",
    "definition_from_dict",
    "definition_text",
    "differences",
    "load_definition",
    "shipped_searches",
]
