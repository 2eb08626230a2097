"""What holds for every built-in data set, on tiny files of its own format."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import workbench
from workbench.data.prepared import prepare
from workbench.registry import Registry

REGISTRY = Registry.load(environ={})
NAMES = REGISTRY.names("dataset")
FLOWERS = ("daisy", "dandelion", "roses", "sunflowers", "tulips")


def jpeg(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (value, 255 - value, 0)).save(buffer, "JPEG")
    return buffer.getvalue()


def write_records(path, count: int, classes: int) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(count):
            image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg(i)]))
            label = tf.train.Feature(int64_list=tf.train.Int64List(value=[i % classes]))
            features = tf.train.Features(feature={"image": image, "class": label})
            writer.write(tf.train.Example(features=features).SerializeToString())


def write_files(name: str, folder) -> None:
    if name == "arrays":
        images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
        np.savez(folder / "a.npz", x_train=images, y_train=np.arange(40) % 4)
    elif name == "cifar10":
        write_records(folder / "train00-60.tfrec", 60, 10)
        write_records(folder / "test00-20.tfrec", 20, 10)
    elif name == "flowers":
        for number in range(16):
            write_records(folder / f"flowers{number:02}-10.tfrec", 10, 5)
    elif name == "tfrecords":
        write_records(folder / "train", 60, 3)
    elif name == "image_folder":
        for label in ("cat", "dog"):
            (folder / label).mkdir()
            for number in range(10):
                (folder / label / f"{number}.jpg").write_bytes(jpeg(number))


@pytest.fixture(params=NAMES)
def case(request, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_files(request.param, folder)
    component = REGISTRY.find("dataset", request.param)
    return component, workbench.DatasetRequest(data_dir=folder, image_size=8)


def test_name_summary_and_options(case):
    component, _ = case
    assert component.name in NAMES
    assert len(component.summary) <= 100
    assert component.source
    assert all(text.strip() for text in component.options.values())


def test_reads_what_it_declares_in_a_fixed_order(case):
    component, request = case
    source = component.open(request)
    first, second = list(source.read()), list(source.read())
    assert [batch.part for batch in first] == [batch.part for batch in second]
    for left, right in zip(first, second, strict=True):
        assert left.images.dtype == np.uint8
        assert left.images.shape[1:] == source.image_shape
        assert left.labels.dtype == np.int32
        assert left.labels.shape == left.images.shape[:1]
        assert np.array_equal(left.images, right.images)
        assert np.array_equal(left.labels, right.labels)
    labels = np.concatenate([batch.labels for batch in first])
    assert set(labels) == set(range(len(source.class_names)))
    declared = [part for parts in source.parts.values() for part in parts]
    assert {batch.part for batch in first} == set(declared)
    assert len(declared) == len(set(declared))


def test_the_signature_is_that_of_the_files(case):
    component, request = case
    assert component.open(request).signature == component.open(request).signature
    paths = [path for path in request.data_dir.rglob("*") if path.is_file()]
    if not paths:
        return
    before = component.open(request).signature
    paths[0].touch()
    assert component.open(request).signature != before


def test_splits_are_disjoint_and_cover_everything(case, tmp_path):
    component, request = case
    data = prepare(component, data_dir=request.data_dir, image_size=8, options={}, cache_dir=tmp_path / "cache")
    indices = [data.indices(split) for split in data.facts.counts]
    assert list(data.facts.counts) == ["train", "validation", "test"]
    assert np.array_equal(np.sort(np.concatenate(indices)), np.arange(len(data.labels)))
    assert data.images.shape == (len(data.labels), *data.facts.image_shape)


@pytest.mark.parametrize("name", NAMES)
def test_importing_a_plugin_imports_no_deep_learning_library(name):
    code = (
        f"import sys, workbench_plugins.datasets.{name} as plugin; plugin.workbench_datasets(); "
        "sys.exit(bool({'tensorflow', 'keras', 'sklearn', 'PIL'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
