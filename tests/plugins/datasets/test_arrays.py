import numpy as np
import pytest
from workbench_plugins.datasets import arrays

from workbench import DataError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(40) % 4


@pytest.fixture
def save(tmp_path):
    def save_(**changes):
        content = {"x_train": IMAGES, "y_train": LABELS} | changes
        path = tmp_path / "data.npz"
        np.savez(path, **{name: values for name, values in content.items() if values is not None})
        return path

    return save_


@pytest.mark.parametrize("inside", [False, True])
def test_train_only(save, inside, open_set):
    path = save()
    data = open_set(arrays, path.parent if inside else path)
    assert np.array_equal(data.images, IMAGES)
    assert data.facts.image_shape == (6, 5, 3)
    assert data.facts.class_names == ("0", "1", "2", "3")
    assert data.facts.counts == {"train": 28, "validation": 6, "test": 6}


def test_the_layout_of_keras_mnist(save, open_set):
    path = save(x_train=IMAGES[..., 0], x_test=IMAGES[:8, ..., 0], y_test=LABELS[:8].astype(np.uint8))
    data = open_set(arrays, path)
    assert data.facts.image_shape == (6, 5, 1)
    assert data.facts.counts == {"train": 36, "validation": 4, "test": 8}
    assert np.array_equal(data.images[data.indices("test")][..., 0], IMAGES[:8, ..., 0])


def test_validation_is_kept(save, open_set):
    path = save(x_validation=IMAGES[:8], y_validation=LABELS[:8, None], x_test=IMAGES[:4], y_test=LABELS[:4])
    assert open_set(arrays, path).facts.counts == {"train": 40, "validation": 8, "test": 4}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_floats_in_0_to_1(save, dtype, open_set):
    data = open_set(arrays, save(x_train=(IMAGES / 255).astype(dtype)))
    assert np.array_equal(data.images, IMAGES)


def test_class_names(save, open_set):
    path = save(class_names=np.array(list("abcd")))
    assert open_set(arrays, path).facts.class_names == ("a", "b", "c", "d")
    assert open_set(arrays, path, class_names=list("wxyz")).facts.class_names == ("w", "x", "y", "z")


def test_image_size(save, open_set):
    assert open_set(arrays, save(), image_size=4).images.shape == (40, 4, 4, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": None}, "needs the array x_train; it has y_train"),
        ({"y_train": None}, "needs the array y_train; it has x_train"),
        ({"x_test": IMAGES}, "needs the array y_test"),
        (
            {"x_train": None, "y_train": None, "pixels": IMAGES},
            "needs the arrays x_train and y_train; it has pixels",
        ),
        ({"x_train": IMAGES[..., :2]}, r"1 or 3 channels, the last axis; received \(40, 6, 5, 2\)"),
        ({"x_train": RNG.random((40, 6, 5, 4))}, r"1 or 3 channels, the last axis; received \(40, 6, 5, 4\)"),
        ({"x_train": IMAGES[:39]}, "x_train has 39 images but y_train has 40 labels"),
        ({"x_train": IMAGES.astype(np.int64)}, "x_train must be uint8, or float in .*received int64"),
        ({"x_train": IMAGES / 1.0}, r"x_train is float64 and must be in \[0, 1\]; it is in \[0, 255\]"),
        ({"x_train": np.full(IMAGES.shape, np.nan)}, r"must be in \[0, 1\]; it is in \[nan, nan\]"),
        ({"x_train": IMAGES[:, 0, :, 0]}, r"must have the shape .*received \(40, 5\)"),
        ({"y_train": LABELS / 1.0}, "y_train must be integers .*received float64"),
        ({"y_train": np.eye(4, dtype=int)[LABELS]}, r"y_train must be integers of shape .*\(40, 4\)"),
        (
            {"y_train": LABELS - 1},
            r"labels must be 0 to 2, as there are 3 classes; received -1 in y_train\[0\]",
        ),
        (
            {"x_test": IMAGES[:, :5], "y_test": LABELS},
            r"x_test are \(5, 5, 3\) where those of x_train are \(6, 5, 3\)",
        ),
        ({"y_train": np.array([None] * 40)}, "the array y_train cannot be read .*pickle"),
    ],
)
def test_unfit_arrays(save, changes, message, open_set):
    with pytest.raises(DataError, match=rf"data\.npz.*{message}"):
        open_set(arrays, save(**changes))


def test_fewer_names_than_classes(save, open_set):
    with pytest.raises(DataError, match=r"labels must be 0 to 2, as there are 3 classes; received 3 in y_train\[3\]"):
        open_set(arrays, save(), class_names=list("abc"))


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_file_that_is_no_npz(tmp_path, content, open_set):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz: no \.npz file, or a broken one"):
        open_set(arrays, tmp_path)


def test_a_damaged_npz(save, open_set):
    path = save()
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"data\.npz: the array x_train cannot be read \(Bad CRC"):
        open_set(arrays, path)


@pytest.mark.parametrize("count", [0, 2])
def test_a_folder_must_have_one_file(tmp_path, count, open_set):
    for number in range(count):
        np.savez(tmp_path / f"{number}.npz", x_train=IMAGES)
    with pytest.raises(DataError, match=r"needs one \.npz file: pass it as --data-dir FILE"):
        open_set(arrays, tmp_path)
