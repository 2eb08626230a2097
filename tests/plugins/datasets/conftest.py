"""Tiny files for the tests of data set plugins."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from workbench.data.prepared import PreparedData, prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))


def jpeg(value: int, width: int = 8, height: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (value, value, value)).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def example(image: bytes | None, label: int | None, name: str | None) -> bytes:
    import tensorflow as tf

    feature = {}
    if image is not None:
        feature["image"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image]))
    if label is not None:
        feature["class"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    if name is not None:
        feature["label"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode()]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


@pytest.fixture
def write_records() -> Callable[..., Path]:
    """`write_records(path, [(image, label, name), ...])`: a TFRecord file."""
    import tensorflow as tf

    def write(path: Path, records: list[tuple[bytes | None, int | None, str | None]]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(example(*record))
        return path

    return write


@pytest.fixture
def write_images() -> Callable[..., None]:
    """`write_images(folder, {"cat": 3})`: a folder of class folders of JPEG files."""

    def write(folder: Path, counts: dict[str, int], size: tuple[int, int] = (8, 8)) -> None:
        for label, (name, count) in enumerate(counts.items()):
            (folder / name).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                (folder / name / f"{number:03}.jpg").write_bytes(jpeg(40 * label + number, *size))

    return write


@pytest.fixture
def open_set() -> Callable[..., PreparedData]:
    """`open_set(plugin_module, data_dir, image_size=None, **options)`."""

    def open_(plugin: Any, data_dir: Path | None, image_size: int | None = None, **options: Any) -> PreparedData:
        (component,) = plugin.workbench_datasets()
        return prepare(component, data_dir=data_dir, image_size=image_size, options=options)

    return open_


@pytest.fixture
def grey_values() -> Callable[[PreparedData, str], list[int]]:
    """The images of a split by their first pixel."""

    def values(data: PreparedData, split: str) -> list[int]:
        return np.asarray(data.images)[data.indices(split), 0, 0, 0].tolist()

    return values


@pytest.fixture(name="jpeg")
def jpeg_fixture() -> Callable[..., bytes]:
    """`jpeg(value, width, height)`: the bytes of a grey JPEG."""
    return jpeg
