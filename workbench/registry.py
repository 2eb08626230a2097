"""Finds, isolates and looks up plugins.

Every plugin is loaded on its own: one that raises, misspells a hook or takes a name that is taken is reported with
its file and the reason, and the rest works. Plugins come from, in this order: the entry-point group
`workbench.plugins` (the built-ins first), folders of files, single files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pluggy

from workbench import hookspecs
from workbench.components import Augmentation, Component, Dataset, Model, Oracle, Schedule
from workbench.errors import PluginClashError, PluginLoadError, UnknownPluginError, near_names

BUILT_IN_DISTRIBUTION = "convnet-search-workbench"

HOOK_OF_KIND: Mapping[str, tuple[str, type[Component]]] = MappingProxyType(
    {
        "model": ("workbench_models", Model),
        "augmentation": ("workbench_augmentations", Augmentation),
        "schedule": ("workbench_schedules", Schedule),
        "dataset": ("workbench_datasets", Dataset),
        "oracle": ("workbench_oracles", Oracle),
    }
)
"""For each kind of component: the hook that returns it, and its class."""


@dataclass(frozen=True, kw_only=True)
class PluginSource:
    """Where a plugin comes from.

    Attributes:
        name: the entry point's name, or the file's stem.
        origin: "built-in", "entry point", "plugins folder" or "--plugin".
        file: the Python file, if known (an entry point's is known once it is loaded).
        distribution: name and version of the installed distribution; empty for files.
        sha256: of the file's bytes, for journals; empty if there is no file.
    """

    name: str
    origin: str
    file: str = ""
    distribution: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        where = self.file or "file unknown"
        return f"{self.name} ({self.distribution + ', ' if self.distribution else ''}{where})"


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A component, and the plugin that registered it."""

    component: Component
    source: PluginSource


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A plugin that could not be used, or a component that it could not register."""

    source: PluginSource
    reason: str
    clash: str = ""

    def __str__(self) -> str:
        return f"plugin {self.source}: {self.reason}"


@dataclass
class Registry:
    """The components of all plugins that loaded; made by `Registry.load`."""

    problems: list[Problem] = field(default_factory=list)
    disabled: list[PluginSource] = field(default_factory=list)
    _components: dict[str, Registered] = field(default_factory=dict)
    _sources: list[PluginSource] = field(default_factory=list)
    _manager: pluggy.PluginManager = field(default_factory=lambda: pluggy.PluginManager(hookspecs.PROJECT))

    @classmethod
    def load(
        cls,
        plugin_files: Sequence[str | Path] = (),
        plugins_dirs: Sequence[str | Path] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> Registry:
        """Loads every plugin that is installed or named.

        Args:
            plugin_files: Python files that the user named; one that does not load is an error.
            plugins_dirs: folders whose `*.py` files (without a leading underscore) are plugins;
                `WORKBENCH_PLUGINS_DIR` adds to them, separated like PATH.
            environ: `WORKBENCH_DISABLE_PLUGINS` names plugins (comma separated) not to import;
                `WORKBENCH_STRICT_PLUGINS=1` makes every problem an error.

        Raises:
            PluginLoadError: a named file or folder does not load; or, when strict, any plugin.
        """
        registry = cls()
        registry._manager.add_hookspecs(hookspecs)
        disabled = {name.strip() for name in environ.get("WORKBENCH_DISABLE_PLUGINS", "").split(",") if name.strip()}
        folders = [Path(folder) for folder in environ.get("WORKBENCH_PLUGINS_DIR", "").split(os.pathsep) if folder]
        candidates = [
            *_entry_points(),
            *(found for folder in [*folders, *map(Path, plugins_dirs)] for found in _folder(folder)),
            *(_file(Path(name), "--plugin") for name in plugin_files),
        ]
        # A file that is named twice, or that lies in a plugins folder and is named too, is one plugin.
        distinct = {source.file or str(source): (source, load) for source, load in candidates}
        for source, load in distinct.values():
            if source.name in disabled:
                registry.disabled.append(source)
            else:
                registry._add(source, load)
        _refuse_problems(registry.problems, strict=environ.get("WORKBENCH_STRICT_PLUGINS", "") not in ("", "0"))
        return registry

    def notify(self, hook: str, **arguments: Any) -> list[str]:
        """Calls a hook of every plugin that implements it, each on its own; the last registered one first.

        Returns:
            One line for each plugin that raised.
        """
        problems = []
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            given = {name: arguments[name] for name in implementation.argnames}
            try:
                implementation.function(**given)
            except Exception as error:
                problems.append(f"plugin {implementation.plugin_name}: {hook} raised {type(error).__name__}: {error}")
        return problems

    def names(self, kind: str) -> list[str]:
        """The names of all components of a kind, sorted."""
        return sorted(item.component.name for item in self.registered(kind))

    def registered(self, kind: str | None = None) -> list[Registered]:
        """All components (of a kind), in the order of registration."""
        return [item for item in self._components.values() if kind is None or item.component.kind == kind]

    def find(self, kind: str, name: str) -> Any:
        """The component of this kind and name.

        Raises:
            UnknownPluginError: nothing registered it; offers near names and tells of plugins that failed.
            PluginClashError: two plugins claim the name.
        """
        return self.lookup(name, kind).component

    def lookup(self, name: str, kind: str | None = None) -> Registered:
        """The component of this name and the plugin that it is from; see `find`."""
        found = self._components.get(name)
        clashes = [problem for problem in self.problems if problem.clash == name]
        if found is not None and clashes:
            raise PluginClashError(f"{clashes[0]}. Disable one with WORKBENCH_DISABLE_PLUGINS={clashes[0].source.name}")
        if found is None or (kind is not None and found.component.kind != kind):
            raise UnknownPluginError(self._unknown(name, kind, found))
        return found

    def sources(self) -> list[PluginSource]:
        """Every plugin that loaded, in the order of loading."""
        return list(self._sources)

    def _unknown(self, name: str, kind: str | None, found: Registered | None) -> str:
        known = self.names(kind) if kind else sorted(self._components)
        text = f"no {kind or 'plugin'} is named {name!r}"
        if found is not None:
            text += f" (that is the name of another kind: {found.component.kind})"
        text += "." + (near_names(name, known) or f" There are: {', '.join(known) or 'none'}.")
        for problem in self.problems:
            text += f" Not loaded: {problem}."
        return text

    def _add(self, source: PluginSource, load: Callable[[], ModuleType]) -> None:
        try:
            module = load()
            source = _with_file(source, module)
            self._manager.register(module, name=f"{source.origin}:{source.name}:{source.file}")
            components = self._components_of(module)
        except (Exception, SystemExit) as error:
            self._drop(source)
            self.problems.append(Problem(source=source, reason=_reason(error, source)))
            return
        self._sources.append(source)
        for component in components:
            self._register(component, source)

    def _drop(self, source: PluginSource) -> None:
        name = f"{source.origin}:{source.name}:{source.file}"
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)

    def _components_of(self, module: ModuleType) -> list[Component]:
        callers = self._manager.get_hookcallers(module) or []
        known = [name for name in vars(hookspecs) if name.startswith("workbench_")]
        for caller in callers:
            if not caller.has_spec():
                raise PluginLoadError(f"unknown hook {caller.name!r}.{near_names(caller.name, known)}")
        if not callers:
            raise PluginLoadError(f"implements no hook; mark functions with @workbench.hookimpl: {', '.join(known)}")
        components: list[Component] = []
        for hook, cls in HOOK_OF_KIND.values():
            for implementation in getattr(self._manager.hook, hook).get_hookimpls():
                if implementation.plugin is module:
                    components.extend(_checked(implementation.function(), hook, cls))
        return components

    def _register(self, component: Component, source: PluginSource) -> None:
        taken = self._components.get(component.name)
        if taken is None:
            self._components[component.name] = Registered(component=component, source=source)
            return
        reason = (
            f"the name {component.name!r} is taken: {component.kind} from {source} and "
            f"{taken.component.kind} from {taken.source}"
        )
        self.problems.append(Problem(source=source, reason=reason, clash=component.name))


def _entry_points() -> Iterable[tuple[PluginSource, Callable[[], ModuleType]]]:
    found = []
    for point in importlib.metadata.entry_points(group=hookspecs.ENTRY_POINT_GROUP):
        distribution = point.dist
        name = distribution.name if distribution else ""
        built_in = name == BUILT_IN_DISTRIBUTION
        source = PluginSource(
            name=point.name,
            origin="built-in" if built_in else "entry point",
            distribution=f"{name} {distribution.version}" if distribution else "",
        )
        found.append((not built_in, name, point.name, source, point.load))
    found.sort(key=lambda item: item[:3])
    return [(source, load) for _, _, _, source, load in found]


def _folder(folder: Path) -> Iterable[tuple[PluginSource, Callable[[], ModuleType]]]:
    if not folder.is_dir():
        raise PluginLoadError(f"the plugins folder must exist; received {str(folder)!r}")
    return [_file(path, "plugins folder") for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]


def _file(path: Path, origin: str) -> tuple[PluginSource, Callable[[], ModuleType]]:
    resolved = path.resolve()

    def load() -> ModuleType:
        if not resolved.is_file():
            raise PluginLoadError("no such file")
        key = hashlib.sha256(str(resolved).encode()).hexdigest()[:12]
        module_name = f"workbench_plugin_{resolved.stem}_{key}"
        spec = importlib.util.spec_from_file_location(module_name, resolved)
        if spec is None or spec.loader is None:
            raise PluginLoadError("is not a Python file (*.py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
        return module

    return PluginSource(name=path.stem, origin=origin, file=str(resolved)), load


def _with_file(source: PluginSource, module: ModuleType) -> PluginSource:
    file = getattr(module, "__file__", None) or source.file
    if not file or not Path(file).is_file():
        return source
    return PluginSource(
        name=source.name,
        origin=source.origin,
        file=str(file),
        distribution=source.distribution,
        sha256=hashlib.sha256(Path(file).read_bytes()).hexdigest(),
    )


def _checked(answer: Any, hook: str, cls: type[Component]) -> list[Component]:
    wanted = f"{hook} must return a list of workbench.{cls.__name__}"
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise PluginLoadError(f"{wanted}; received {answer!r}")
    components = list(answer)
    for component in components:
        if not isinstance(component, cls):
            raise PluginLoadError(f"{wanted}; received one {type(component).__name__}: {component!r}")
    return components


def _reason(error: BaseException, source: PluginSource) -> str:
    if isinstance(error, PluginLoadError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"SyntaxError in {error.filename}, line {error.lineno}: {error.msg}"
    message = str(error).strip().splitlines()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source.file]
    if not frames:
        own = {__file__, inspect.getfile(pluggy), inspect.getfile(importlib.metadata)}
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename not in own and "importlib" not in frame.filename and "pluggy" not in frame.filename
        ]
    where = f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {' '.join(message) or 'no message'}{where}"


def _refuse_problems(problems: Sequence[Problem], *, strict: bool) -> None:
    fatal = [problem for problem in problems if strict or problem.source.origin == "--plugin"]
    if fatal:
        raise PluginLoadError("\n".join(str(problem) for problem in fatal))
