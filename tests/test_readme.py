"""The examples of README.md and docs/plugins.md, run as a reader would."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from PIL import Image

import workbench
from workbench.cli import cli
from workbench.definition import load_definition
from workbench.journal import read_journal
from workbench.registry import Registry

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
STUDIES = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
PLUGINS = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")

PLUGIN_EXAMPLES = ("model", "augmentation", "schedule", "data set", "oracle", "loggers")
COLOURS = {"blue": (20, 20, 220), "red": (220, 20, 20)}
IMAGES_PER_CLASS = 12

# The examples' own sizes take hours. One step an epoch: tracing the network takes most of the time.
SMALL = (
    "dataset.image_size=16",
    "training.epochs=1",
    "training.batch_size_per_replica=16",
    "budget.max_trials=1",
)


def example(text: str, name: str, language: str) -> str:
    """The code block under `<!-- example: NAME -->`."""
    blocks = re.findall(rf"<!-- example: {name} -->\n```{language}\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 1, f"example {name!r} must be there once"
    return str(blocks[0])


def write_plugin(folder: Path, text: str, name: str) -> Path:
    """The example in a file of the name that its first line says."""
    code = example(text, name, "python")
    path = folder / re.findall(r"\A# (\w+\.py)", code)[0]
    path.write_text(code)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the reader is: with photos/CLASS/NUMBER.png and photos/labels.csv, of plain colours with noise."""
    rng = np.random.default_rng(3)
    rows = []
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(IMAGES_PER_CLASS):
            pixels = np.clip(np.array(colour) + rng.integers(-20, 20, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
            rows.append([f"{name}/{number}.png", name])
    with (tmp_path / "photos" / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["file", "label"], *rows])
    (tmp_path / "pets.toml").write_text(example(README, "own images", "toml"))
    write_plugin(tmp_path, README, "own architecture")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def search_as_written(line: str, changes: Sequence[str] = SMALL) -> workbench.Study:
    """Runs a `workbench search` line, in this process and with `changes` set after its own."""
    arguments = shlex.split(line, comments=True)
    assert arguments[:2] == ["workbench", "search"]
    given: dict[str, Any] = cli.commands["search"].make_context("search", arguments[2:]).params
    assert not given["inline"]
    return workbench.search(
        given["definition"],
        directory=given["directory"],
        study=given["study"],
        sets=[*given["sets"], *changes],
        data_dir=given["data_dir"],
        device="cpu",
        inline=True,
        plugin_files=given["plugin_files"],
    )


def readme_line(beginning: str) -> str:
    found = [line for line in README.splitlines() if line.startswith(beginning)]
    assert len(found) == 1, f"README.md must have one line {beginning!r}"
    return found[0]


def check_tables_block(study: str) -> None:
    """Runs the README's Python block about tables on another study than it names."""
    (code,) = re.findall(r"```python\n(import workbench\n\nstudy = .*?)```", README, re.DOTALL)
    found: dict[str, Any] = {}

    exec(code.replace("studies/quickstart", study), found)

    promised = {"rank", "trial_id", "score", "parameters", "flops", "seconds"}
    assert promised <= set(found["study"].leaderboard())
    assert {"epoch", "val_accuracy", "learning_rate"} <= set(found["study"].epochs())
    assert found["study"].best_model().output_shape == (None, len(COLOURS))


def check_journal_is_documented(path: Path) -> None:
    """Every event, and every key of it, is in the table of docs/studies.md."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", STUDIES, re.MULTILINE)
    keys = {event: set(re.findall(r"`(\w+)`", text)) for event, text in rows}
    for event in read_journal(path):
        assert set(event) - {"event"} <= keys[event["event"]], event["event"]


def leaf_commands(group: click.Group, name: str = "workbench") -> list[str]:
    return [
        path
        for key, command in group.commands.items()
        for path in (leaf_commands(command, f"{name} {key}") if isinstance(command, click.Group) else [f"{name} {key}"])
    ]


def test_readme_names_every_command() -> None:
    table = README[README.index("## Commands") :]
    expected = leaf_commands(cli)
    assert "workbench search" in expected
    # In the table, later commands of a group stand without the word `workbench`.
    missing = [name for name in expected if not re.search(rf"`(workbench )?{name.removeprefix('workbench ')}\b", table)]
    assert missing == []


def test_readme_definition_searches_a_folder_of_images(folder: Path) -> None:
    assert load_definition("pets.toml").model.space["pools"] == (2, 3)
    # The smallest of its networks: tracing one takes most of the time.
    line = readme_line("workbench search pets.toml --data-dir")
    study = search_as_written(line, [*SMALL, "model.space.pools=2"])

    assert study.path == Path("studies/pets")
    (row,) = study.leaderboard().to_dict("records")
    assert row["status"] == "completed"
    assert study.definition["model"]["names"] == ["squeezenet"]
    assert study.history.space["facts"]["class_names"] == ["blue", "red"]
    names = {name for name in study.trials().columns if name.startswith("hp.squeezenet/")}
    assert {"hp.squeezenet/pools", "hp.squeezenet/stage_1/expand"} <= names
    check_tables_block("studies/pets")


def test_readme_architecture_is_searched_as_the_line_says(folder: Path) -> None:
    study = search_as_written(readme_line("workbench search pets.toml --plugin"))

    assert study.path == Path("studies/pets-resnet")
    (row,) = study.trials().to_dict("records")
    assert row["status"] == "completed"
    assert (row["hp.tiny_resnet/filters"], row["hp.tiny_resnet/blocks"]) == (32, 2)


def test_readme_architecture_declares_what_it_says(folder: Path) -> None:
    from workbench.inspect import inspect_component

    registry = Registry.load(["tiny_resnet.py"])
    facts = inspect_component(registry.find("model", "tiny_resnet"))

    assert registry.problems == []
    assert {row["name"]: row["default"] for row in facts["hyperparameters"]} == {
        "tiny_resnet/filters": 32,
        "tiny_resnet/blocks": 2,
        "tiny_resnet/dropout": 0.0,
    }
    convolution = 9 * 32 * 32 + 32
    assert facts["parameters"] == (9 * 3 * 32 + 32) + 2 * 2 * convolution + (32 * 10 + 10)


def test_plugin_examples_work_together(folder: Path) -> None:
    files = [write_plugin(folder, PLUGINS, name) for name in PLUGIN_EXAMPLES]
    kernel, bias = np.full((3, 3, 3, 16), 0.25, np.float32), np.full(16, 0.5, np.float32)
    np.savez("stem.npz", kernel=kernel, bias=bias)

    study = workbench.search(
        {
            "dataset": {"name": "listed_images", "image_size": 8},
            # A learning rate this small leaves the stored kernels as they are, nearly.
            "model": {"name": "warm_convnet", "options": {"stem": "stem.npz"}, "space": {"filters": 16}},
            "augmentation": {"name": "upside_down"},
            "schedule": {"name": "half_cosine", "space": {"learning_rate": 1e-6}},
            "training": {"epochs": 1, "batch_size_per_replica": 4, "space": {"*": "default"}},
            "budget": {"max_trials": 2},
            "tuner": {"name": "hill_climb", "random_points": 1},
        },
        study="examples",
        data_dir="photos",
        inline=True,
        device="cpu",
        plugin_files=files,
    )

    assert list(study.trials()["status"]) == ["completed", "completed"]
    first, second = (trial.values for trial in study.history.trials.values())
    searched = ("warm_convnet/batch_norm", "warm_convnet/dense", "warm_convnet/units", "upside_down/probability")
    changed = {name for name in searched if first.get(name) != second.get(name)}
    assert changed
    # A neighbour: one value differs, and what becomes active with it.
    assert len(changed - {"warm_convnet/units"}) <= 1
    stem = study.best_model(Registry.load(files)).get_layer("stem")
    np.testing.assert_allclose(stem.kernel.numpy(), kernel, atol=1e-4)

    check_journal_is_documented(study.path / "journal.jsonl")
    with Path("trials.csv").open(newline="") as file:
        assert [row["trial_id"] for row in csv.DictReader(file)] == ["0001", "0002"]
    assert "upside_down/probability" in Path("leaderboard.html").read_text()


def test_plugin_examples_refuse_what_they_cannot_use(folder: Path) -> None:
    registry = Registry.load([write_plugin(folder, PLUGINS, name) for name in ("data set", "oracle")])

    with pytest.raises(ValueError, match="random_points must be a whole number of at least 1; received 0"):
        registry.find("oracle", "hill_climb").create({"random_points": 0})
    Path("photos/labels.csv").unlink()
    with pytest.raises(workbench.DataError, match=r"labels\.csv: no such file"):
        registry.find("dataset", "listed_images").open(workbench.DatasetRequest(data_dir=Path("photos")))
