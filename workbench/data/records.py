"""Reading images from TFRecord files of the published schema.

A record is a `tf.train.Example` with the features `image` (bytes: JPEG, PNG), `class` (int64: the label's
index) and optionally `label` (bytes: the class's name); others are ignored. Source: the flower records of the
Google codelab.

Files are read in parallel, in rounds of `CHUNK` records each, so the order is fixed but not file by file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.components import DatasetSource, ExampleBatch
from workbench.data.images import decode_image
from workbench.data.sources import CHUNK, map_in_order, signature
from workbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt
    import tensorflow as tf

_PARALLEL_FILES = 4
_SCHEMA = "expected the features image (bytes), class (int64) and, optionally, label (bytes)"


@dataclass(frozen=True, kw_only=True)
class _Record:
    """One undecoded example. `number` counts from 0 in its file."""

    file: int
    number: int
    label: int
    name: str
    image: bytes


def record_source(
    files: Sequence[Path],
    parts: Sequence[str],
    *,
    splits: Mapping[str, Sequence[str]],
    class_names: Sequence[str] | None,
    image_size: int | None,
    cuts: Sequence[str] = ("validation", "test"),
    count: int | None = None,
) -> DatasetSource:
    """A source that reads TFRecord files.

    Args:
        files: in a fixed order.
        parts: which part each file is.
        splits: which parts make up each split.
        class_names: by label index, against which every record's `label` is checked; None to take them from
            the records, which reads all of them once.
        image_size: height and width in pixels, or None for that of the first image; then all must have it.
        cuts, count: see `DatasetSource`.

    Raises:
        DataError: no records, or records that do not follow the schema.
    """
    class_names = tuple(class_names or _scan_class_names(files))
    if image_size is None:
        height, width, _ = _decode(_first_record(files), files, None).shape
    else:
        height = width = image_size

    def decode(record: _Record) -> npt.NDArray[np.uint8]:
        _check_label(record, files, class_names)
        image = _decode(record, files, image_size)
        if image.shape != (height, width, 3):
            raise DataError(
                f"{_place(record, files)}: the image is {image.shape[1]}x{image.shape[0]} pixels where the "
                f"first one of the data set is {width}x{height}; set dataset.image_size, to resize all"
            )
        return image

    def read() -> Iterator[ExampleBatch]:
        for records, images in map_in_order(decode, _chunks(files)):
            yield ExampleBatch(
                part=parts[records[0].file],
                images=np.stack(images),
                labels=np.array([record.label for record in records], dtype=np.int32),
            )

    return DatasetSource(
        class_names=class_names,
        image_shape=(height, width, 3),
        parts=splits,
        signature=signature(files, list(parts), image_size),
        cuts=tuple(cuts),
        count=count,
        read=read,
    )


def _decode(record: _Record, files: Sequence[Path], image_size: int | None) -> npt.NDArray[np.uint8]:
    return decode_image(record.image, image_size, 3, name=_place(record, files))


def _place(record: _Record, files: Sequence[Path]) -> str:
    return f"{files[record.file]}, record {record.number}"


def _check_label(record: _Record, files: Sequence[Path], class_names: Sequence[str]) -> None:
    where = _place(record, files)
    if not 0 <= record.label < len(class_names):
        raise DataError(
            f"{where}: class must be 0 to {len(class_names) - 1} ({', '.join(class_names)}); received {record.label}"
        )
    if record.name and record.name != class_names[record.label]:
        raise DataError(
            f"{where}: class {record.label} is {class_names[record.label]!r} but the record's label is "
            f"{record.name!r}; the classes are {', '.join(class_names)}"
        )


def _chunks(files: Sequence[Path], *, images: bool = True) -> Iterator[list[_Record]]:
    """The records of all files, at most `CHUNK` of one file together."""
    import tensorflow as tf

    features = {
        "class": tf.io.FixedLenFeature([], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.string, default_value=""),
    }
    if images:
        features["image"] = tf.io.FixedLenFeature([], tf.string)

    def read_file(index: tf.Tensor, path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path).batch(CHUNK)
        return records.enumerate().map(
            lambda number, batch: (index, number * CHUNK, tf.io.parse_example(batch, features))
        )

    chunks = (
        tf.data.Dataset.from_tensor_slices((range(len(files)), [str(path) for path in files]))
        .interleave(read_file, cycle_length=_PARALLEL_FILES, num_parallel_calls=_PARALLEL_FILES, deterministic=True)
        .prefetch(1)
    )
    try:
        for file, start, batch in chunks.as_numpy_iterator():
            pixels = batch.get("image", [b""] * len(batch["class"]))
            yield [
                _Record(
                    file=int(file),
                    number=int(start) + i,
                    label=int(label),
                    name=name.decode(errors="replace"),
                    image=image,
                )
                for i, (label, name, image) in enumerate(zip(batch["class"], batch["label"], pixels, strict=True))
            ]
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        # Unicode: TensorFlow's message quotes the bytes of a record that it cannot parse.
        raise _diagnosis(files, error) from error


def _diagnosis(files: Sequence[Path], error: Exception) -> DataError:
    """Finds the first broken record, which TensorFlow's message does not name."""
    import tensorflow as tf

    for path in files:
        number = 0
        try:
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                problem = _schema_problem(record)
                if problem:
                    return DataError(f"{path}, record {number}: {problem}; {_SCHEMA}")
                number += 1
        except tf.errors.OpError:
            return DataError(
                f"{path}: the TFRecord file is broken or cut off after {number} whole records; fetch it again"
            )
    return DataError(f"the TFRecord files cannot be read ({error})")


def _schema_problem(record: bytes) -> str:
    import tensorflow as tf
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return "no tf.train.Example"
    # Looking one up adds it.
    found = ", ".join(sorted(features)) or "no features"
    if len(features["image"].bytes_list.value) != 1:
        return f"no single feature image among {found}"
    if len(features["class"].int64_list.value) != 1:
        return f"no single feature class among {found}"
    if "label" in features and len(features["label"].bytes_list.value) != 1:
        return "feature label is not one string"
    return ""


def _first_record(files: Sequence[Path]) -> _Record:
    for records in _chunks(files):
        return records[0]
    raise DataError(f"no records in {', '.join(str(path) for path in files[:3])}")


def _scan_class_names(files: Sequence[Path]) -> list[str]:
    """Class names by index: the records' labels, or the index where records have none."""
    found: dict[int, _Record] = {}
    for records in _chunks(files, images=False):
        for record in records:
            known = found.setdefault(record.label, record)
            if record.label < 0:
                raise DataError(f"{_place(record, files)}: class must not be negative; received {record.label}")
            if record.name != known.name:
                raise DataError(
                    f"{_place(record, files)}: class {record.label} is labelled {record.name!r}, but "
                    f"{known.name!r} in {_place(known, files)}; a class must have one label"
                )
    if not found:
        raise DataError(f"no records in {', '.join(str(path) for path in files[:3])}")
    names = [found[label].name or str(label) if label in found else str(label) for label in range(max(found) + 1)]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"two classes of {files[0].parent} have the same label {repeated[0]!r}")
    return names
