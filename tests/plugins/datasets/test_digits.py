import numpy as np
from sklearn.datasets import load_digits
from workbench_plugins.datasets import digits


def test_all_digits_scaled_to_bytes(open_set):
    data = open_set(digits, None)
    assert data.facts.image_shape == (8, 8, 1)
    assert data.facts.class_names == tuple("0123456789")
    assert data.facts.counts == {"train": 1257, "validation": 270, "test": 270}
    expected = np.rint(load_digits().images * 255 / 16)
    assert np.array_equal(data.images[..., 0], expected)
    assert (data.images.min(), data.images.max()) == (0, 255)
    assert np.array_equal(data.labels, load_digits().target)


def test_other_sizes(open_set):
    assert open_set(digits, None, image_size=12).images.shape == (1797, 12, 12, 1)
