"""Counts that decide on speed and that no machine can slow down: decodes, traces, bytes, imports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench

COUNTING_PLUGIN = """
import json
from pathlib import Path

import numpy as np

import workbench

FILE = Path({file!r})
EXAMPLES = 120


def count(what, amount=1):
    with FILE.open("a") as file:
        file.write(json.dumps([what, amount]) + "\\n")


def read():
    rng = np.random.default_rng(0)
    for start in range(0, EXAMPLES, 40):
        count("decode", 40)
        yield workbench.ExampleBatch(
            part="all",
            images=rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8),
            labels=np.arange(40, dtype=np.int32) % 4,
        )


def open_source(request):
    return workbench.DatasetSource(
        class_names=tuple("abcd"),
        image_shape=(8, 8, 1),
        parts={{"train": ("all",)}},
        signature=f"counted {{FILE}}",
        read=read,
    )


@workbench.hookimpl
def workbench_datasets():
    return [workbench.Dataset(name="counted", summary="Counts", needs_data_dir=False, open=open_source)]


@workbench.hookimpl
def workbench_models():
    return [workbench.Model(name="traced", summary="Counts", build=build)]


@workbench.hookimpl
def workbench_augmentations():
    return [workbench.Augmentation(name="traced_change", summary="Counts", build=build_augmentation)]


def build(hp, image_shape, num_classes):
    import keras

    class Traced(keras.layers.Layer):
        def call(self, x, training=None):
            count(f"call training={{bool(training)}}")
            return x

    images = keras.Input(image_shape)
    x = keras.layers.Flatten()(images)
    x = Traced()(x)
    x = keras.layers.Dense(hp.Int("units", 1, 50))(x)
    return keras.Model(images, keras.layers.Dense(num_classes, activation="softmax")(x))


def build_augmentation(hp):
    def change(images, labels, seed):
        count("augment")
        return images, labels

    return change
"""


@pytest.fixture
def counted(tmp_path, tiny_tables):
    """`counted(study, trials, ...)` runs a search and returns it with the counts since the last call."""
    file, plugin = tmp_path / "counts", tmp_path / "counting.py"
    plugin.write_text(COUNTING_PLUGIN.format(file=str(file)))

    def run(study, trials, epochs=3, workers=1, inline=True):
        file.unlink(missing_ok=True)
        found = workbench.search(
            tiny_tables(
                dataset={"name": "counted", "limit": 80},
                model={"name": "traced"},
                augmentation={"name": "traced_change"},
                training={"epochs": epochs, "batch_size_per_replica": 20},
                budget={"max_trials": trials},
            ),
            study=study,
            directory=tmp_path,
            plugin_files=[plugin],
            inline=inline,
            workers=workers,
            device="cpu",
        )
        counts: dict[str, int] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            what, amount = json.loads(line)
            counts[what] = counts.get(what, 0) + amount
        return found, counts

    return run


def test_an_image_is_decoded_once_whatever_the_trials_workers_and_studies(counted):
    _, first = counted("first", trials=2, workers=2, inline=False)
    assert first["decode"] == 120
    _, second = counted("second", trials=1)
    assert "decode" not in second


def test_a_trial_traces_one_training_step_one_validation_step_and_one_augmentation(counted):
    counted("decoded", trials=1)
    _, one = counted("one", trials=1)
    _, three = counted("three", trials=3)
    _, longer = counted("longer", trials=1, epochs=9)
    per_trial = {what: (three[what] - one[what]) / 2 for what in three}
    # What is called with training=False: the build that looks at its cost, the build that is trained, the trace of
    # validation.
    assert per_trial == {"call training=True": 1, "call training=False": 3, "augment": 1}
    assert longer == one, "no epoch traces anything"


def test_what_an_epoch_writes(counted):
    """A journal line an epoch, and a checkpoint a trial as long as it takes less than 15 seconds."""
    study, _ = counted("study", trials=1, epochs=9)
    lines = (study.path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    sizes = [len(line) for line in lines if json.loads(line)["event"] == "epoch"]
    assert len(sizes) == 9
    assert max(sizes) < 450
    events = [json.loads(line)["event"] for line in lines]
    assert events.count("checkpoint") == 1
    parameters = int(study.trials()["parameters"].iloc[0])
    # The weights are kept, four bytes each, without the optimizer.
    kept = sum(file.stat().st_size for file in (study.path / "checkpoints").rglob("*") if file.is_file())
    assert 4 * parameters < kept < 4 * parameters + 4096


LISTED = """
import sys
from click.testing import CliRunner
from workbench.cli import main
from workbench.cli.main import cli
result = CliRunner().invoke(cli, sys.argv[1:])
assert result.exit_code == 0, result.output
print(len(sys.modules))
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize(
    ("command", "most", "absent"),
    [
        (["--help"], 260, {"numpy", "pandas", "pydantic", "rich", "tensorflow", "keras"}),
        (["plugins", "list"], 330, {"numpy", "pandas", "tensorflow", "keras", "keras_tuner"}),
    ],
    ids=["help", "plugins-list"],
)
def test_start_up_imports_little(run_python, command, most, absent):
    result = run_python(LISTED, *command)
    assert result.returncode == 0, result.stderr
    count, names = result.stdout.strip().splitlines()[-2:]
    assert absent.isdisjoint(names.split())
    assert int(count) < most


def test_the_counts_are_of_this_package():
    """An installed older one would be measured otherwise."""
    assert Path(workbench.__file__).is_relative_to(Path(__file__).parents[1])
