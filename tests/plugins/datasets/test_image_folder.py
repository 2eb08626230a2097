import pytest
from workbench_plugins.datasets import image_folder

from workbench import DataError


def test_class_folders(tmp_path, write_images, open_set, grey_values):
    write_images(tmp_path, {"cat": 10, "dog": 30}, (20, 12))
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / ".git").mkdir()
    data = open_set(image_folder, tmp_path, image_size=8)
    assert data.facts.class_names == ("cat", "dog")
    assert data.facts.image_shape == (8, 8, 3)
    assert data.facts.counts == {"train": 28, "validation": 6, "test": 6}
    assert data.labels.tolist() == [0] * 10 + [1] * 30
    assert data.images[:, 4, 4, 0].tolist() == [*range(10), *range(40, 70)]


def test_native_size_is_192(tmp_path, write_images, open_set):
    write_images(tmp_path, {"cat": 3, "dog": 3})
    assert open_set(image_folder, tmp_path).facts.image_shape == (192, 192, 3)


@pytest.mark.parametrize("validation", ["validation", "val", "valid"])
def test_split_folders(tmp_path, validation, write_images, open_set):
    write_images(tmp_path / "train", {"cat": 5, "dog": 5})
    write_images(tmp_path / validation, {"cat": 2, "dog": 1})
    write_images(tmp_path / "test", {"cat": 3, "dog": 3})
    data = open_set(image_folder, tmp_path, image_size=8)
    assert data.facts.counts == {"train": 10, "validation": 3, "test": 6}
    assert data.labels[data.indices("validation")].tolist() == [0, 0, 1]


def test_a_split_without_folder_is_cut(tmp_path, write_images, open_set):
    write_images(tmp_path / "train", {"cat": 20, "dog": 20})
    write_images(tmp_path / "test", {"cat": 3, "dog": 3})
    assert open_set(image_folder, tmp_path, image_size=8).facts.counts == {
        "train": 36,
        "validation": 4,
        "test": 6,
    }


def test_a_new_image_is_seen(tmp_path, write_images, jpeg, open_set):
    folder = tmp_path / "photos"
    write_images(folder, {"cat": 4, "dog": 4})
    before = open_set(image_folder, folder, image_size=8)
    (folder / "cat" / "new.JPG").write_bytes(jpeg(200))
    after = open_set(image_folder, folder, image_size=8)
    assert (len(before.labels), len(after.labels)) == (8, 9)


def test_a_broken_image_is_an_error(tmp_path, write_images, jpeg, open_set):
    write_images(tmp_path, {"cat": 4, "dog": 4})
    (tmp_path / "dog" / "001.jpg").write_bytes(jpeg(0)[:100])
    with pytest.raises(DataError, match=r"dog/001\.jpg: this image cannot be decoded .*replace or remove it"):
        open_set(image_folder, tmp_path, image_size=8)


def test_broken_images_are_skipped_and_counted(tmp_path, write_images, open_set):
    write_images(tmp_path, {"cat": 5, "dog": 5})
    for name in ("cat/001.jpg", "dog/003.jpg"):
        (tmp_path / name).write_bytes(b"broken")
    with pytest.warns(UserWarning, match=r"2 of 10 images were skipped; the first: .*cat/001\.jpg"):
        data = open_set(image_folder, tmp_path, image_size=8, on_bad_image="skip")
    assert data.labels.tolist() == [0] * 4 + [1] * 4


def test_unknown_on_bad_image(tmp_path, write_images, open_set):
    write_images(tmp_path, {"cat": 3, "dog": 3})
    with pytest.raises(DataError, match=r"dataset\.on_bad_image must be one of 'error', 'skip'; received 'ignore'"):
        open_set(image_folder, tmp_path, on_bad_image="ignore")


def test_a_class_that_training_does_not_have(tmp_path, write_images, open_set):
    write_images(tmp_path / "train", {"cat": 3, "dog": 3})
    write_images(tmp_path / "test", {"cat": 3, "wolf": 3})
    with pytest.raises(DataError, match="test/wolf: the folder is none of the classes cat, dog"):
        open_set(image_folder, tmp_path)


def test_an_empty_class_folder(tmp_path, write_images, open_set):
    write_images(tmp_path, {"cat": 3, "dog": 0})
    with pytest.raises(DataError, match=r"dog: no images in this class folder \(looked for \.jpg, .*is empty"):
        open_set(image_folder, tmp_path)


def test_an_empty_split_folder(tmp_path, write_images, open_set):
    write_images(tmp_path / "train", {"cat": 3, "dog": 3})
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match="test: no images; expected a folder for each class"):
        open_set(image_folder, tmp_path)


def test_images_without_class_folders(tmp_path, jpeg, open_set):
    (tmp_path / "a.jpg").write_bytes(jpeg(0))
    with pytest.raises(DataError, match=r"needs at least 2 class folders in .* holds a\.jpg"):
        open_set(image_folder, tmp_path)


def test_a_file_instead_of_a_folder(tmp_path, jpeg, open_set):
    (tmp_path / "a.jpg").write_bytes(jpeg(0))
    with pytest.raises(DataError, match=r"needs a folder of class folders; .*a\.jpg is a file"):
        open_set(image_folder, tmp_path / "a.jpg")


def test_two_folders_for_one_split(tmp_path, write_images, open_set):
    for name in ("train", "val", "validation"):
        write_images(tmp_path / name, {"cat": 3, "dog": 3})
    with pytest.raises(DataError, match="several folders for the validation split: validation, val; keep one"):
        open_set(image_folder, tmp_path)


def test_a_class_too_small_to_be_cut(tmp_path, write_images, open_set):
    write_images(tmp_path, {"cat": 2, "dog": 9})
    with pytest.raises(DataError, match=r"data set 'image_folder': every class needs at least 3 .*'cat' has 2"):
        open_set(image_folder, tmp_path, image_size=8)
