import numpy as np
import pytest
from workbench_plugins.datasets import tfrecords

from workbench import DataError

NAMES = ("cat", "dog")


@pytest.fixture
def folder(tmp_path, write_records, jpeg):
    for name, offset in (("train-0", 0), ("train-1", 40), ("val-0", 100), ("test-0", 150)):
        records = [(jpeg(offset + i), i % 2, NAMES[i % 2]) for i in range(20)]
        write_records(tmp_path / f"{name}.tfrec", records)
    return tmp_path


def test_default_globs(folder, open_set, grey_values):
    data = open_set(tfrecords, folder)
    assert data.facts.counts == {"train": 40, "validation": 20, "test": 20}
    assert data.facts.class_names == NAMES
    assert data.facts.image_shape == (8, 8, 3)
    assert sorted(grey_values(data, "train")) == [*range(20), *range(40, 60)]
    assert sorted(grey_values(data, "test")) == list(range(150, 170))
    for value, label in zip(grey_values(data, "train"), data.labels[data.indices("train")], strict=True):
        assert value % 2 == label


def test_globs_as_options(folder, open_set):
    data = open_set(tfrecords, folder, train=["train-0*", "val*"], validation="train-1*", test=False)
    # The test split is cut: 15 % of 40.
    assert data.facts.counts == {"train": 34, "validation": 20, "test": 6}


def test_missing_splits_are_cut(folder, open_set):
    (folder / "val-0.tfrec").unlink()
    (folder / "test-0.tfrec").unlink()
    assert open_set(tfrecords, folder).facts.counts == {"train": 28, "validation": 6, "test": 6}


def test_records_without_labels_are_named_by_number(tmp_path, write_records, jpeg, open_set):
    write_records(tmp_path / "train", [(jpeg(i), i % 3, None) for i in range(30)])
    assert open_set(tfrecords, tmp_path).facts.class_names == ("0", "1", "2")
    assert open_set(tfrecords, tmp_path, class_names=["a", "b", "c"]).facts.class_names == ("a", "b", "c")


def test_more_records_than_one_chunk_keep_a_fixed_order(tmp_path, write_records, jpeg, open_set, monkeypatch):
    for number in range(3):
        records = [(jpeg(i % 200), i % 2, None) for i in range(number * 300, 600 + number * 100)]
        write_records(tmp_path / f"train-{number}", records)
    first = open_set(tfrecords, tmp_path)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "second cache"))
    second = open_set(tfrecords, tmp_path)
    assert len(first.labels) == 600 + 400 + 200
    assert first.facts.fingerprint == second.facts.fingerprint


def test_a_file_in_two_splits(folder, open_set):
    with pytest.raises(DataError, match=r"train-0\.tfrec belongs to train and to validation: set the globs"):
        open_set(tfrecords, folder, validation="train-0*")


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_glob_that_matches_nothing(folder, split, open_set):
    with pytest.raises(DataError, match=rf"no files match dataset\.{split} = 'shard\*' in .* holds test-0\.tfrec, "):
        open_set(tfrecords, folder, **{split: "shard*"})


def test_a_glob_of_another_type(folder, open_set):
    with pytest.raises(DataError, match=r"dataset\.train must be a glob or a list of globs; received 3"):
        open_set(tfrecords, folder, train=3)


def test_wrong_folder(tmp_path, open_set):
    with pytest.raises(DataError, match=r"no files match dataset\.train = 'train\*' in .* is empty"):
        open_set(tfrecords, tmp_path)


def test_a_file_instead_of_a_folder(folder, open_set):
    with pytest.raises(DataError, match=r"needs a folder of TFRecord files; .*val-0\.tfrec is a file"):
        open_set(tfrecords, folder / "val-0.tfrec")


def test_unequal_sizes_need_an_image_size(folder, write_records, jpeg, open_set):
    write_records(folder / "train-1.tfrec", [(jpeg(0), 0, "cat"), (jpeg(0, 10, 8), 1, "dog")])
    with pytest.raises(
        DataError,
        match=r"train-1\.tfrec, record 1: the image is 10x8 .* first one .* is 8x8; set dataset\.image_size",
    ):
        open_set(tfrecords, folder)
    assert open_set(tfrecords, folder, image_size=6).facts.image_shape == (6, 6, 3)


def test_a_truncated_jpeg(folder, write_records, jpeg, open_set):
    write_records(folder / "train-1.tfrec", [(jpeg(0), 0, "cat"), (jpeg(0)[:200], 1, "dog")])
    with pytest.raises(DataError, match=r"train-1\.tfrec, record 1: this image cannot be decoded"):
        open_set(tfrecords, folder)


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_a_broken_file(folder, damage, open_set):
    path = folder / "train-1.tfrec"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[:-100]
    elif damage == "flip":
        data[len(data) // 2] ^= 1
    else:
        data = b"this is no TFRecord file"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"train-1\.tfrec: the TFRecord file is broken or cut off after \d+ whole"):
        open_set(tfrecords, folder, class_names=list(NAMES))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((None, 0, "cat"), "no single feature image among class, label"),
        ((b"x", None, "cat"), "no single feature class among image, label"),
    ],
)
def test_another_schema(folder, record, message, write_records, open_set):
    write_records(folder / "train-1.tfrec", [record])
    with pytest.raises(DataError, match=rf"train-1\.tfrec, record 0: {message}; expected the features image"):
        open_set(tfrecords, folder)


def test_a_record_that_is_no_example(folder, open_set):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(folder / "train-1.tfrec")) as writer:
        writer.write(b"\xff\xff\xff")
    with pytest.raises(DataError, match=r"train-1\.tfrec, record 0: no tf\.train\.Example"):
        open_set(tfrecords, folder)


def test_a_class_with_two_labels(folder, write_records, jpeg, open_set):
    write_records(folder / "train-1.tfrec", [(jpeg(0), 0, "cat"), (jpeg(0), 1, "wolf")])
    with pytest.raises(DataError, match=r"record \d+: class 1 is labelled '(wolf|dog)', but '(dog|wolf)' in .*train"):
        open_set(tfrecords, folder)


def test_two_classes_with_one_label(tmp_path, write_records, jpeg, open_set):
    write_records(tmp_path / "train", [(jpeg(0), 0, "cat"), (jpeg(0), 1, "cat")])
    with pytest.raises(DataError, match="have the same label 'cat'"):
        open_set(tfrecords, tmp_path)


def test_a_class_out_of_range(folder, write_records, jpeg, open_set):
    write_records(folder / "train-1.tfrec", [(jpeg(0), 2, None)])
    with pytest.raises(DataError, match=r"record 0: class must be 0 to 1 \(cat, dog\); received 2"):
        open_set(tfrecords, folder, class_names=list(NAMES))
    write_records(folder / "train-1.tfrec", [(jpeg(0), -1, None)])
    with pytest.raises(DataError, match="class must not be negative; received -1"):
        open_set(tfrecords, folder)


def test_no_records(tmp_path, write_records, open_set):
    write_records(tmp_path / "train", [])
    with pytest.raises(DataError, match=r"no records in .*train"):
        open_set(tfrecords, tmp_path)


@pytest.mark.parametrize("names", [["a", "a"], "ab", [1, 2], []])
def test_class_names_must_be_distinct_names(folder, names, open_set):
    with pytest.raises(DataError, match=r"dataset\.class_names must be"):
        open_set(tfrecords, folder, class_names=names)


def test_labels_are_those_of_the_records(folder, open_set):
    data = open_set(tfrecords, folder)
    assert np.bincount(data.labels).tolist() == [40, 40]
