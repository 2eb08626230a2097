"""Where definitions come from: files, shipped names, Python tables; and `--set`."""

from __future__ import annotations

import importlib.resources
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from workbench.definition.problems import KeyPath, Problem, explain, format_path, plain
from workbench.definition.settings import Setting, apply_setting, read_setting
from workbench.definition.tables import Definition
from workbench.errors import DefinitionError, near_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHIPPED_PACKAGE = "workbench_searches"
_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load_definition(
    name_or_path: str | Path,
    sets: Sequence[str] = (),
    *,
    options: Mapping[str, tuple[str, Any]] | None = None,
) -> Definition:
    """Reads a search definition.

    Args:
        name_or_path: a TOML file, or the name of a shipped search. It is a path if it ends in `.toml`, has
            a separator, or is there as a file.
        sets: the values of `--set`: `KEY=VALUE` with a dotted key path and a TOML value, else a string.
        options: what other command line options set, after `sets`: the option's name to the key path and
            value, such as `{"--epochs": ("training.epochs", 2)}`. A value of None sets nothing.

    Raises:
        DefinitionError: no such file or name, TOML that does not parse, or a definition that is not valid;
            names every problem, with the file or the option that it comes from.
    """
    file, text = _find(name_or_path)
    data = _parse(text, file)
    settings = [read_setting(item) for item in sets]
    settings += [
        read_setting(key, label=label, value=value)
        for label, (key, value) in (options or {}).items()
        if value is not None
    ]
    for setting in settings:
        apply_setting(data, setting)
    return _validate(data, file, settings)


def definition_from_dict(data: Mapping[str, Any], where: str = "definition") -> Definition:
    """Makes a definition from the tables that a file would hold.

    Tuples may stand for lists and `pathlib.Path` for strings; a key with None counts as not given.

    Args:
        data: the tables.
        where: what error messages call them.

    Raises:
        DefinitionError: with every problem.
    """
    return _validate(data, where, ())


def shipped_searches() -> dict[str, str]:
    """The names of the shipped searches, sorted, with their summaries."""
    return {
        name: str(_parse(text, name).get("summary", ""))
        for name, (_, text) in ((name, _read_shipped(name)) for name in _shipped_names())
    }


def definition_text(name_or_path: str | Path) -> str:
    """The text of a definition, comments included.

    Raises:
        DefinitionError: no such file or shipped name.
    """
    return _find(name_or_path)[1]


def _shipped_names() -> list[str]:
    folder = importlib.resources.files(_SHIPPED_PACKAGE)
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def _read_shipped(name: str) -> tuple[str, str]:
    resource = importlib.resources.files(_SHIPPED_PACKAGE) / f"{name}.toml"
    return str(resource), resource.read_text(encoding="utf-8")


def _find(name_or_path: str | Path) -> tuple[str, str]:
    """The file that a name or path means, and its text."""
    path = Path(name_or_path)
    text = str(name_or_path)
    separators = {os.sep, os.altsep or os.sep, "/"}
    if isinstance(name_or_path, Path) or path.suffix == ".toml" or separators & set(text) or path.is_file():
        return str(path), _read_file(path)
    names = _shipped_names()
    if text in names:
        return _read_shipped(text)
    raise DefinitionError(
        [
            f"is neither a file nor a shipped search.{near_names(text, names)} "
            f"Shipped are {', '.join(names)}; a file of your own ends in .toml"
        ],
        where=repr(text),
    )


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = path.parent
        near = near_names(path.name, [item.name for item in folder.glob("*.toml")] if folder.is_dir() else [])
        raise DefinitionError([f"no such file.{near}".rstrip(".")], where=str(path)) from None
    except UnicodeDecodeError as error:
        problem = f"must be UTF-8 text; byte {error.start} is not"
        raise DefinitionError([problem], where=str(path)) from None
    except OSError as error:
        raise DefinitionError([f"cannot be read: {error.strerror}"], where=str(path)) from None


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = _TOML_POSITION.search(message)
        lines = text.split("\n")
        line, column = (match[1], match[2]) if match and match[1] else (len(lines), len(lines[-1]) + 1)
        problem = f"is not valid TOML: {_TOML_POSITION.sub('', message)}"
        raise DefinitionError([problem], where=f"{file}, line {line}, column {column}") from None


def _validate(data: Mapping[str, Any], where: str, settings: Sequence[Setting]) -> Definition:
    problems: list[Problem] = []
    tables = plain(data, problems)
    try:
        definition = Definition.model_validate(tables)
    except ValidationError as error:
        reported = {path for path, _ in problems}
        problems += [item for item in explain(error.errors(), tables) if item[0] not in reported]
    else:
        if not problems:
            return definition
    origins = [_origin(path, settings) for path, _ in problems]
    lines = [f"{format_path(path)}: {message}" if path else message for path, message in problems]
    labels = [origin for origin in dict.fromkeys(origins) if origin is not None]
    if None not in origins:
        if len(problems) == 1 and labels[0].endswith(f" {format_path(problems[0][0])}"):
            lines = [problems[0][1]]
        raise DefinitionError(lines, where=", ".join(labels))
    marked = [f"{line} (from {label})" if label else line for line, label in zip(lines, origins, strict=True)]
    raise DefinitionError(marked, where=where)


def _origin(path: KeyPath, settings: Sequence[Setting]) -> str | None:
    """The option that set the value at `path` or, for a table, something in it; None for the file."""
    for setting in reversed(settings):
        shared = min(len(path), len(setting.path))
        if shared and path[:shared] == setting.path[:shared]:
            return setting.label
    return None
