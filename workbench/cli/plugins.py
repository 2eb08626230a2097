"""`workbench plugins`: what is registered, and from where."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import common_options
from workbench.errors import UsageError
from workbench.registry import HOOK_OF_KIND, Registry

if TYPE_CHECKING:
    from workbench.registry import Registered


@click.group()
def plugins() -> None:
    """List plugins, and show what one of them searches."""


@plugins.command(name="list")
@click.option("--kind", type=click.Choice(list(HOOK_OF_KIND)), help="One kind only.")
@click.option("--format", "format_name", type=click.Choice(["table", "json"]), default="table", show_default=True)
@common_options
def list_command(
    kind: str | None, format_name: str, plugin_files: tuple[str, ...], plugins_dirs: tuple[str, ...]
) -> None:
    """List every registered component, and the plugins that did not load."""
    from workbench.cli.output import print_rows

    registry = Registry.load(plugin_files, plugins_dirs)
    kinds = list(HOOK_OF_KIND)
    found = sorted(registry.registered(kind), key=lambda item: (kinds.index(item.component.kind), item.component.name))
    if format_name == "json":
        click.echo(json.dumps({"components": [_facts(item) for item in found], **_troubles(registry)}, indent=1))
        return
    rows = [[item.component.kind, item.component.name, item.component.summary, _origin(item)] for item in found]
    print_rows(["kind", "name", "summary", "from"], rows)
    for source in registry.disabled:
        click.echo(f"disabled (WORKBENCH_DISABLE_PLUGINS): {source.name}")
    for problem in registry.problems:
        click.echo(f"not loaded: {problem}")


@plugins.command()
@click.argument("name")
@click.option("--image-size", type=click.IntRange(min=1), metavar="N", help="Pixels; default: the published one's.")
@click.option("--classes", type=click.IntRange(min=2), metavar="N", help="Default: the published one's.")
@click.option("--format", "format_name", type=click.Choice(["table", "json"]), default="table", show_default=True)
@common_options
def show(
    name: str,
    image_size: int | None,
    classes: int | None,
    format_name: str,
    plugin_files: tuple[str, ...],
    plugins_dirs: tuple[str, ...],
) -> None:
    """Show a component: where it is from, its hyperparameters with ranges and defaults, a model's size."""
    from workbench.cli.output import print_rows

    registry = Registry.load(plugin_files, plugins_dirs)
    found = registry.lookup(name)
    is_model = found.component.kind == "model"
    if not is_model and (image_size is not None or classes is not None):
        raise UsageError(f"--image-size and --classes are for models; {name} is a {found.component.kind}")
    facts = _facts(found)
    if found.component.kind in ("model", "augmentation", "schedule"):
        from workbench.quiet import quiet_stderr, use_cpu_quietly

        use_cpu_quietly()
        with quiet_stderr():
            from workbench.inspect import inspect_component
        facts |= inspect_component(found.component, image_size=image_size, classes=classes)
    if format_name == "json":
        click.echo(json.dumps(facts, indent=1))
        return
    for key, value in facts.items():
        if key not in ("hyperparameters", "options") and value not in ("", None, []):
            click.echo(f"{key.replace('_', ' ')}: {_plain(value)}")
    for option, text in facts["options"].items():
        click.echo(f"option {option}: {text}")
    if facts.get("hyperparameters"):
        header = ["hyperparameter", "kind", "values", "default", "active when"]
        print_rows(header, [[_plain(cell) for cell in row.values()] for row in facts["hyperparameters"]])


def _origin(item: Registered) -> str:
    source = item.source
    return source.distribution if source.distribution else source.file


def _facts(item: Registered) -> dict[str, Any]:
    return {
        "name": item.component.name,
        "kind": item.component.kind,
        "summary": item.component.summary,
        "source": item.component.source,
        "plugin": item.source.name,
        "origin": item.source.origin,
        "distribution": item.source.distribution,
        "file": item.source.file,
        "options": dict(item.component.options),
    }


def _troubles(registry: Registry) -> dict[str, Any]:
    return {
        "disabled": [source.name for source in registry.disabled],
        "problems": [
            {"plugin": item.source.name, "file": item.source.file, "reason": item.reason} for item in registry.problems
        ],
    }


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return " x ".join(str(part) for part in value)
    return str(value)
