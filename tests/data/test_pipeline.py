import numpy as np
import pytest
import tensorflow as tf

from workbench import DataError
from workbench.data.pipeline import evaluation_dataset, steps_per_epoch, training_dataset


def add_noise(images, labels, seed):
    return images + tf.random.stateless_uniform(tf.shape(images), seed), labels


def batches(data, **arguments):
    defaults = {"batch_size": 16, "augment": None, "seed": 5, "first_epoch": 1, "last_epoch": 1}
    return [(images.numpy(), labels.numpy()) for images, labels in training_dataset(data, **(defaults | arguments))]


def examples(found) -> list[int]:
    """Which examples are in batches: image i is filled with i / 255."""
    return [round(float(image[0, 0, 0]) * 255) for images, _ in found for image in images]


def equal(first, second) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(a, b)
        for left, right in zip(first, second, strict=True)
        for a, b in zip(left, right, strict=True)
    )


@pytest.fixture
def data(counted):
    return counted(100).prepare()


def test_values_labels_and_static_shapes(data):
    dataset = training_dataset(data, batch_size=16, augment=None, seed=0, first_epoch=1, last_epoch=2)
    assert dataset.element_spec == (
        tf.TensorSpec((16, 4, 4, 1), tf.float32),
        tf.TensorSpec((16, 3), tf.float32),
    )
    assert dataset.cardinality() == 8
    for images, labels in dataset:
        values = np.rint(images[:, 0, 0, 0].numpy() * 255).astype(int)
        assert np.array_equal(images.numpy()[:, 3, 3, 0], values.astype(np.float32) / np.float32(255))
        assert np.array_equal(labels.numpy(), np.eye(3, dtype=np.float32)[values % 3])


def test_an_epoch_has_every_training_example_at_most_once_and_no_other(data):
    train = set(data.indices("train").tolist())
    orders = []
    for epoch in (1, 2, 3):
        seen = examples(batches(data, first_epoch=epoch, last_epoch=epoch))
        assert len(seen) == len(set(seen)) == 64
        assert set(seen) <= train
        orders.append(seen)
    assert orders[0] != orders[1] != orders[2]
    # What the last, unfilled batch leaves out differs between epochs.
    assert set().union(*orders) == train


def test_a_batch_that_divides_the_split_shows_all_of_it(data):
    assert sorted(examples(batches(data, batch_size=35))) == data.indices("train").tolist()


@pytest.mark.parametrize("first", [2, 3])
def test_resuming_gives_the_batches_of_an_uninterrupted_run(data, first):
    whole = batches(data, augment=add_noise, last_epoch=3)
    before = batches(data, augment=add_noise, last_epoch=first - 1)
    after = batches(data, augment=add_noise, first_epoch=first, last_epoch=3)
    assert equal(whole, before + after)


def test_seed_decides_order_and_augmentation(data):
    assert not equal(batches(data, seed=5), batches(data, seed=6))
    noise = [
        np.mean(images - plain)
        for seed in (5, 6)
        for (images, _), (plain, _) in zip(
            batches(data, augment=add_noise, seed=seed), batches(data, seed=seed), strict=True
        )
    ]
    assert len(set(noise)) == len(noise)


def test_a_large_seed(data):
    assert equal(batches(data, seed=2**63), batches(data, seed=2**63))


def test_train_and_validation_together(data):
    seen = examples(batches(data, batch_size=85, split="train+validation"))
    assert sorted(seen) == data.indices("train+validation").tolist()


def test_shards_make_up_the_batches_of_one_host(data):
    whole = batches(data)
    halves = [batches(data, shard_index=index, shard_count=2) for index in (0, 1)]
    joined = [
        tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))
        for left, right in zip(*halves, strict=True)
    ]
    assert equal(whole, joined)


def test_shards_must_divide_the_batch(data):
    with pytest.raises(DataError, match="a batch of 16 images cannot be shared equally by 3 hosts"):
        batches(data, shard_count=3)


def test_an_augmentation_that_changes_shapes_is_an_error(data):
    def halve(images, labels, seed):
        return images[:, ::2], labels

    with pytest.raises(ValueError, match="Dimension 1 in both shapes must be equal"):
        batches(data, augment=halve)


def test_steps_per_epoch(data):
    assert steps_per_epoch(data, 16) == 4
    assert steps_per_epoch(data, 70) == 1
    assert steps_per_epoch(data, 16, "train+validation") == 5


@pytest.mark.parametrize("batch_size", [0, 71])
def test_a_batch_that_cannot_be_filled(data, batch_size):
    with pytest.raises(
        DataError,
        match=rf"1 to 70 images.*received a batch of {batch_size}.*training\.batch_size_per_replica",
    ):
        steps_per_epoch(data, batch_size)


def test_evaluation_is_in_order_and_complete(data):
    dataset = evaluation_dataset(data, split="validation", batch_size=6)
    assert dataset.element_spec == (
        tf.TensorSpec((None, 4, 4, 1), tf.float32),
        tf.TensorSpec((None, 3), tf.float32),
    )
    found = [(images.numpy(), labels.numpy()) for images, labels in dataset]
    assert [len(images) for images, _ in found] == [6, 6, 3]
    assert examples(found) == data.indices("validation").tolist()
    assert np.array_equal(
        np.concatenate([labels.argmax(axis=1) for _, labels in found]),
        data.labels[data.indices("validation")],
    )


def test_evaluation_needs_a_split_and_a_batch(data):
    with pytest.raises(DataError, match="no split 'holdout'"):
        evaluation_dataset(data, split="holdout", batch_size=4)
    with pytest.raises(DataError, match="at least 1 image; received a batch size of 0"):
        evaluation_dataset(data, split="test", batch_size=0)


def test_padded_evaluation_fills_the_last_batch_with_weight_zero(data):
    examples_there = len(data.indices("validation"))
    found = list(evaluation_dataset(data, split="validation", batch_size=12, padded=True).as_numpy_iterator())
    weights = np.concatenate([weight for _, _, weight in found])
    assert {images.shape for images, _, _ in found} == {(12, 4, 4, 1)}
    assert examples((images, labels) for images, labels, _ in found)[:examples_there] == examples(
        evaluation_dataset(data, split="validation", batch_size=12).as_numpy_iterator()
    )
    assert np.count_nonzero(weights) == examples_there
    assert np.all(weights[examples_there:] == 0)
    assert weights.mean() == pytest.approx(1.0), "Keras's loss divides by all of them"


def test_padded_evaluation_without_a_rest_is_the_plain_one(data):
    padded = list(evaluation_dataset(data, split="validation", batch_size=5, padded=True).as_numpy_iterator())
    plain = list(evaluation_dataset(data, split="validation", batch_size=5).as_numpy_iterator())
    assert equal([part[:2] for part in padded], plain)
    assert all(np.all(weights == 1) for _, _, weights in padded)
