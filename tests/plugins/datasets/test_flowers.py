import pytest
from workbench_plugins.datasets import flowers

from workbench import DataError
from workbench.data import cache_dir


@pytest.fixture
def folder(tmp_path, write_records, jpeg):
    """16 files; those of file n are of the shade 10 n."""
    for number in range(16):
        records = [(jpeg(10 * number), label, name) for label, name in enumerate(flowers.CLASS_NAMES)]
        write_records(tmp_path / "flowers" / f"flowers{number:02}-5.tfrec", records)
    return tmp_path


def files_of(values) -> set[int]:
    return {round(value / 10) for value in values}


@pytest.mark.parametrize("inside", [False, True])
def test_default_split(folder, inside, open_set, grey_values):
    data = open_set(flowers, folder / "flowers" if inside else folder, image_size=8)
    assert data.facts.counts == {"train": 55, "validation": 10, "test": 15}
    assert files_of(grey_values(data, "train")) == set(range(11))
    assert files_of(grey_values(data, "validation")) == {11, 12}
    assert files_of(grey_values(data, "test")) == {13, 14, 15}


def test_published_split_has_no_test(folder, open_set, grey_values):
    data = open_set(flowers, folder, image_size=8, split="published")
    assert data.facts.counts == {"train": 65, "validation": 15}
    assert files_of(grey_values(data, "validation")) == {13, 14, 15}
    with pytest.raises(DataError, match="no split 'test'; it has train, validation"):
        data.indices("test")


def test_both_splits_share_one_decoded_cache(folder, open_set):
    open_set(flowers, folder, image_size=8)
    open_set(flowers, folder, image_size=8, split="published")
    assert len([path for path in (cache_dir() / "datasets").iterdir() if path.is_dir()]) == 1


def test_native_size_is_192(folder, open_set):
    data = open_set(flowers, folder)
    assert data.facts.image_shape == (192, 192, 3)
    assert data.facts.class_names == ("daisy", "dandelion", "roses", "sunflowers", "tulips")


@pytest.mark.parametrize("name", ["flower_photos", "."])
def test_photo_archive(tmp_path, name, write_images, open_set):
    write_images(tmp_path / name, dict.fromkeys(flowers.CLASS_NAMES, 10))
    data = open_set(flowers, tmp_path, image_size=8)
    assert data.facts.counts == {"train": 34, "validation": 8, "test": 8}
    assert data.facts.class_names == flowers.CLASS_NAMES


def test_the_archive_has_no_published_split(tmp_path, write_images, open_set):
    write_images(tmp_path, dict.fromkeys(flowers.CLASS_NAMES, 10))
    with pytest.raises(DataError, match="'published' is a split by TFRecord files"):
        open_set(flowers, tmp_path, split="published")


def test_missing_files(folder, open_set):
    (folder / "flowers" / "flowers07-5.tfrec").unlink()
    with pytest.raises(DataError, match=r"by its 16 files flowers\*\.tfrec; .*flowers has 15: fetch the rest"):
        open_set(flowers, folder)


def test_unknown_split(folder, open_set):
    with pytest.raises(
        DataError,
        match=r"dataset\.split must be one of 'default', 'published'; received 'publishd'.*'published'",
    ):
        open_set(flowers, folder, split="publishd")


def test_wrong_folder(tmp_path, open_set):
    with pytest.raises(DataError, match=r"needs the files flowers\*\.tfrec or the class folders daisy, .*is empty"):
        open_set(flowers, tmp_path)
