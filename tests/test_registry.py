"""Finding, isolating and looking up plugins."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from workbench.errors import PluginClashError, PluginLoadError, UnknownPluginError
from workbench.registry import Registry

BUILT_IN = {
    "model": ["cifar_convnet", "squeezenet", "xception"],
    "augmentation": [
        "crop_flip",
        "cutmix",
        "flip_saturation",
        "mixup",
        "none",
        "rand_augment",
        "random_erasing",
    ],
    "schedule": ["constant", "one_cycle", "ramp_exponential", "step_decay", "warmup_cosine"],
    "dataset": ["arrays", "cifar10", "digits", "flowers", "image_folder", "tfrecords"],
    "oracle": ["asha", "bayesian", "evolution", "grid", "hyperband", "random"],
}

GOOD = """
import workbench

@workbench.hookimpl
def workbench_models():
    return [workbench.Model(name={name!r}, summary="a model", build=lambda hp, shape, classes: None)]
"""


@pytest.fixture
def plugin(tmp_path):
    """Writes a plugin file and gives its path."""

    def write(text: str, name: str = "extra.py", folder: str = "plugins") -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with one plugin module, as pip would leave it on disk."""

    def install(distribution: str, module: str, text: str) -> Path:
        root = tmp_path / "site"
        info = root / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[workbench.plugins]\n{module} = {module}\n")
        (root / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(str(root))
        monkeypatch.delitem(sys.modules, module, raising=False)
        return root / f"{module}.py"

    return install


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_built_in_components_are_registered(kind):
    registry = Registry.load(environ={})
    assert registry.problems == []
    assert registry.names(kind) == BUILT_IN[kind]
    assert {item.source.origin for item in registry.registered(kind)} == {"built-in"}
    for name in BUILT_IN[kind]:
        assert registry.find(kind, name).kind == kind


def test_a_source_tells_distribution_file_and_hash():
    source = Registry.load(environ={}).lookup("squeezenet").source
    assert source.distribution.startswith("convnet-search-workbench ")
    assert Path(source.file).name == "squeezenet.py"
    assert len(source.sha256) == 64


def test_a_plugin_file_registers_its_components(plugin):
    path = plugin(GOOD.format(name="mine"))
    registry = Registry.load([path], environ={})
    assert registry.find("model", "mine").summary == "a model"
    source = registry.lookup("mine").source
    assert (source.name, source.origin, source.file) == ("extra", "--plugin", str(path))
    assert source in registry.sources()


def test_two_plugin_files_may_have_one_file_name(plugin):
    files = [plugin(GOOD.format(name=name), folder=name) for name in ("first", "second")]
    registry = Registry.load(files, environ={})
    assert {"first", "second"} <= set(registry.names("model"))


def test_a_file_that_is_named_twice_is_loaded_once(plugin):
    path = plugin(GOOD.format(name="mine"))
    registry = Registry.load([path, path], [path.parent], environ={"WORKBENCH_PLUGINS_DIR": str(path.parent)})
    assert registry.problems == []
    assert registry.find("model", "mine").name == "mine"


MISSPELT = "import workbench\n\n@workbench.hookimpl\ndef workbench_model():\n    return []\n"
NOT_A_LIST = GOOD.format(name="mine").replace("return [", "return (").replace("None)]", "None))")
WRONG_KIND = GOOD.format(name="mine").replace("workbench_models", "workbench_oracles")
WRONG_ARGUMENTS = GOOD.format(name="mine").replace("workbench_models()", "workbench_models(size)")
BROKEN = {
    "syntax error": ("import workbench\n\ndef f(:\n", r"SyntaxError in .*extra\.py, line 3"),
    "raises": ("import workbench\n1 / 0\n", r"ZeroDivisionError: division by zero, extra\.py line 2"),
    "exits": ("import sys\nsys.exit('no')\n", r"SystemExit: no, extra\.py line 2"),
    "import": ("import no_such_module\n", r"ModuleNotFoundError: No module named 'no_such_module', extra\.py line 1"),
    "misspelt hook": (MISSPELT, "unknown hook 'workbench_model'. Did you mean 'workbench_models'"),
    "no hook": (
        "import workbench\n",
        r"implements no hook; mark functions with @workbench\.hookimpl: workbench_models",
    ),
    "not a list": (NOT_A_LIST, r"workbench_models must return a list of workbench\.Model; received Model\("),
    "wrong kind": (WRONG_KIND, r"workbench_oracles must return a list of workbench\.Oracle; received one Model"),
    "wrong arguments": (WRONG_ARGUMENTS, "PluginValidationError: .*workbench_models.*size"),
    "bad name": (
        GOOD.format(name="my-model"),
        r"ValueError: Model\.name must be letters.*'my-model', extra\.py line 6",
    ),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_named_file_that_does_not_load_is_an_error(plugin, text, reason):
    path = plugin(text)
    with pytest.raises(PluginLoadError, match=reason) as caught:
        Registry.load([path], environ={})
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_discovered_one_is_reported_and_the_rest_works(plugin, text, reason):
    path = plugin(text)
    plugin(GOOD.format(name="mine"), "good.py")
    registry = Registry.load(plugins_dirs=[path.parent], environ={})
    (problem,) = registry.problems
    assert problem.source.file == str(path)
    assert re.search(reason, str(problem))
    assert {"mine", "squeezenet"} <= set(registry.names("model"))


@pytest.mark.parametrize("name", ["missing.py", "folder.py"])
def test_a_named_file_must_be_there(tmp_path, name):
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(PluginLoadError, match=rf"plugin {name[:-3]} \(.*{name}\): no such file"):
        Registry.load([tmp_path / name], environ={})


def test_a_named_file_must_be_python(plugin):
    with pytest.raises(PluginLoadError, match=r"is not a Python file"):
        Registry.load([plugin("", "notes.txt")], environ={})


def test_plugin_folders_come_from_the_argument_and_the_environment(plugin, tmp_path):
    folders = [plugin(GOOD.format(name=name), folder=name).parent for name in ("one", "two", "three")]
    plugin("raise ValueError", "_helper.py", folder="one")
    variable = os.pathsep.join(map(str, folders[:2]))
    registry = Registry.load(plugins_dirs=folders[2:], environ={"WORKBENCH_PLUGINS_DIR": variable})
    assert {"one", "two", "three"} <= set(registry.names("model"))
    assert registry.problems == []
    with pytest.raises(PluginLoadError, match=r"the plugins folder must exist; received '.*nowhere'"):
        Registry.load(plugins_dirs=[tmp_path / "nowhere"], environ={})


def test_an_installed_distribution_registers_its_components(installed):
    file = installed("their-models", "their_models", GOOD.format(name="theirs"))
    source = Registry.load(environ={}).lookup("theirs").source
    assert (source.origin, source.distribution, source.file) == ("entry point", "their-models 1.2", str(file))


def test_a_broken_distribution_is_reported_and_the_rest_works(installed):
    installed("their-models", "their_models", "import workbench\nraise RuntimeError('no licence')\n")
    registry = Registry.load(environ={})
    (problem,) = registry.problems
    assert "their-models 1.2" in str(problem)
    assert "RuntimeError: no licence, their_models.py line 2" in str(problem)
    assert registry.names("model") == BUILT_IN["model"]
    with pytest.raises(UnknownPluginError, match=r"no model is named 'theirs'.*Not loaded: plugin their_models"):
        registry.find("model", "theirs")


@pytest.mark.parametrize("value", ["1", "true"])
def test_strict_makes_a_broken_distribution_an_error(installed, value):
    installed("their-models", "their_models", "raise RuntimeError('no licence')\n")
    with pytest.raises(PluginLoadError, match=r"their-models.*no licence"):
        Registry.load(environ={"WORKBENCH_STRICT_PLUGINS": value})
    assert Registry.load(environ={"WORKBENCH_STRICT_PLUGINS": "0"}).problems


def test_disabled_plugins_are_not_imported(installed, plugin, tmp_path):
    mark = tmp_path / "imported"
    text = f"open({str(mark)!r}, 'w')\n"
    installed("their-models", "their_models", text)
    path = plugin(text)
    environ = {"WORKBENCH_DISABLE_PLUGINS": "their_models, extra,xception"}
    registry = Registry.load([path], environ=environ)
    assert not mark.exists()
    assert [source.name for source in registry.disabled] == ["xception", "their_models", "extra"]
    assert registry.names("model") == ["cifar_convnet", "squeezenet"]


def test_a_clash_names_both_sides_and_the_rest_works(plugin, installed):
    installed("their-models", "their_models", GOOD.format(name="squeezenet"))
    registry = Registry.load(environ={})
    with pytest.raises(PluginClashError, match="the name 'squeezenet' is taken") as caught:
        registry.find("model", "squeezenet")
    for part in ("their_models.py", "squeezenet.py", "their-models 1.2", "WORKBENCH_DISABLE_PLUGINS=their_models"):
        assert part in str(caught.value)
    assert registry.find("model", "xception").name == "xception"
    environ = {"WORKBENCH_DISABLE_PLUGINS": "squeezenet"}
    assert Registry.load(environ=environ).lookup("squeezenet").source.name == "their_models"


def test_a_name_is_unique_over_all_kinds(plugin):
    with pytest.raises(PluginLoadError, match=r"'mixup' is taken: model from extra .* and augmentation from mixup"):
        Registry.load([plugin(GOOD.format(name="mixup"))], environ={})


def test_unknown_names_get_near_ones():
    registry = Registry.load(environ={})
    with pytest.raises(UnknownPluginError, match=r"no model is named 'squeezent'\. Did you mean 'squeezenet'"):
        registry.find("model", "squeezent")
    with pytest.raises(
        UnknownPluginError, match=r"no model is named 'mixup' \(that is the name of another kind: augmentation\)"
    ):
        registry.find("model", "mixup")
    with pytest.raises(UnknownPluginError, match=r"There are: asha, bayesian, evolution, grid, .*\."):
        registry.find("oracle", "zzz")


LOGGER = """
import workbench

@workbench.hookimpl
def workbench_trial_finished(record):
    {body}

@workbench.hookimpl
def workbench_study_finished():
    pass
"""


def test_notify_isolates_loggers_that_raise(plugin):
    files = [
        plugin(LOGGER.format(body="record['told'].append('first')"), "a.py"),
        plugin(LOGGER.format(body="raise OSError('disk full')"), "b.py"),
        plugin(LOGGER.format(body="record['told'].append('last')"), "c.py"),
    ]
    registry = Registry.load(files, environ={})
    record = {"told": []}
    (problem,) = registry.notify("workbench_trial_finished", record=record)
    assert record["told"] == ["last", "first"]
    assert "b.py" in problem
    assert problem.endswith("workbench_trial_finished raised OSError: disk full")
    # An implementation may take fewer arguments than the hook has.
    assert registry.notify("workbench_study_finished", study=None) == []
