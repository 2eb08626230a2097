import numpy as np
import pytest
from workbench_plugins.datasets import cifar10

from workbench import DataError


@pytest.fixture
def folder(tmp_path, write_records, jpeg):
    names = cifar10.CLASS_NAMES
    for part, files, offset in (("train", 2, 0), ("test", 1, 100)):
        for number in range(files):
            records = [(jpeg(offset + i, 32, 32), i % 10, names[i % 10]) for i in range(50)]
            write_records(tmp_path / "cifar10" / f"{part}{number:02}-50.tfrec", records)
    return tmp_path


@pytest.mark.parametrize("inside", [False, True])
def test_reads_files_from_the_folder_or_its_parent(folder, inside, open_set):
    data = open_set(cifar10, folder / "cifar10" if inside else folder)
    assert data.facts.counts == {"train": 90, "validation": 10, "test": 50}
    assert data.facts.class_names == cifar10.CLASS_NAMES
    assert data.facts.image_shape == (32, 32, 3)
    assert np.bincount(data.labels[data.indices("validation")]).tolist() == [1] * 10


def test_the_test_files_are_the_test_split(folder, open_set, grey_values):
    data = open_set(cifar10, folder)
    assert min(grey_values(data, "test")) >= 99
    assert max(grey_values(data, "train+validation")) <= 50


def test_image_size(folder, open_set):
    assert open_set(cifar10, folder, image_size=16).facts.image_shape == (16, 16, 3)


def test_wrong_folder_says_what_was_looked_for_and_found(tmp_path, open_set):
    (tmp_path / "flowers").mkdir()
    with pytest.raises(DataError, match=r"needs train\*\.tfrec and test\*\.tfrec in .*cifar10 or .* holds flowers/"):
        open_set(cifar10, tmp_path)


def test_half_of_the_files(folder, open_set):
    (folder / "cifar10" / "test00-50.tfrec").unlink()
    with pytest.raises(DataError, match="has only the former"):
        open_set(cifar10, folder)


def test_a_label_that_is_not_the_classs_name(folder, write_records, jpeg, open_set):
    write_records(folder / "cifar10" / "train00-50.tfrec", [(jpeg(0), 3, "dog")])
    with pytest.raises(DataError, match=r"train00-50\.tfrec, record 0: class 3 is 'cat' but .*label is 'dog'"):
        open_set(cifar10, folder)


def test_without_a_folder_keras_downloads(monkeypatch, open_set):
    import keras

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    labels = (np.arange(60, dtype=np.uint8) % 10)[:, None]
    monkeypatch.setattr(
        keras.datasets.cifar10, "load_data", lambda: ((images[:50], labels[:50]), (images[50:], labels[50:]))
    )
    data = open_set(cifar10, None)
    assert np.array_equal(data.images, images)
    assert data.facts.counts == {"train": 40, "validation": 10, "test": 10}


def test_a_failed_download_says_what_to_pass(monkeypatch, open_set):
    import keras

    def fail():
        raise Exception("URL fetch failure on https://example.org")

    monkeypatch.setattr(keras.datasets.cifar10, "load_data", fail)
    with pytest.raises(DataError, match=r"could not be downloaded by Keras .*example\.org.*pass --data-dir FOLDER"):
        open_set(cifar10, None)
