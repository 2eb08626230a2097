import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import DataError
from workbench.data.splits import split_indices, stratified_order

COUNTS = st.lists(st.integers(3, 60), min_size=2, max_size=6)


def labels_of(counts: list[int]) -> np.ndarray:
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return np.random.default_rng(0).permutation(labels)


def split(labels: np.ndarray, **arguments) -> dict[str, np.ndarray]:
    classes = int(labels.max()) + 1
    defaults = {
        "given": {"train": np.arange(len(labels))},
        "cuts": ("validation", "test"),
        "class_names": [f"class {label}" for label in range(classes)],
    }
    return split_indices(labels, **(defaults | arguments))


@given(COUNTS, st.integers(0, 2**32 - 1))
def test_cuts_are_disjoint_cover_everything_and_hold_every_class(counts, seed):
    labels = labels_of(counts)
    splits = split(labels, seed=seed)
    assert np.array_equal(np.sort(np.concatenate(list(splits.values()))), np.arange(len(labels)))
    for indices in splits.values():
        assert set(labels[indices]) == set(range(len(counts)))
        assert np.all(np.diff(indices) > 0)


@given(COUNTS, st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_every_beginning_of_the_order_is_stratified(counts, seed, size):
    labels = labels_of(counts)
    order = stratified_order(labels, np.arange(len(labels)), seed)
    assert np.array_equal(np.sort(order), np.arange(len(labels)))
    size = min(size, len(labels))
    if size < len(counts):
        return
    shares = np.array(counts) * size / len(labels)
    taken = np.bincount(labels[order[:size]], minlength=len(counts))
    assert np.all(taken >= 1)
    # Classes that get one although their share is below a half take it from the others.
    slack = 1 + np.sum(np.maximum(1 - shares, 0))
    assert np.all(np.abs(taken - shares) <= slack)


@given(COUNTS, st.integers(0, 1000))
def test_the_same_seed_gives_the_same_splits(counts, seed):
    labels = labels_of(counts)
    first, second = split(labels, seed=seed), split(labels, seed=seed)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_another_seed_gives_other_splits():
    labels = labels_of([50, 50])
    assert not np.array_equal(split(labels, seed=0)["test"], split(labels, seed=1)["test"])


def test_without_validation_and_test_each_takes_15_percent_of_all():
    splits = split(labels_of([100, 300]))
    assert {name: len(indices) for name, indices in splits.items()} == {
        "train": 280,
        "test": 60,
        "validation": 60,
    }


def test_beside_a_test_split_validation_takes_10_percent_of_train():
    labels = labels_of([300, 300])
    splits = split(labels, given={"train": np.arange(500), "test": np.arange(500, 600)})
    assert {name: len(indices) for name, indices in splits.items()} == {
        "train": 450,
        "test": 100,
        "validation": 50,
    }
    assert np.array_equal(splits["test"], np.arange(500, 600))


def test_a_set_with_validation_only_gets_a_test_of_15_percent_of_train():
    labels = labels_of([300, 300])
    splits = split(labels, given={"train": np.arange(400), "validation": np.arange(400, 600)})
    assert {name: len(indices) for name, indices in splits.items()} == {
        "train": 340,
        "test": 60,
        "validation": 200,
    }


def test_nothing_is_cut_that_is_not_asked_for():
    labels = labels_of([30, 30])
    assert list(split(labels, cuts=())) == ["train"]


def test_known_cut():
    """Pins the rule: a change of it silently changes every user's splits."""
    splits = split(np.repeat(np.arange(2, dtype=np.int32), 10))
    assert splits["test"].tolist() == [1, 18, 19]
    assert splits["validation"].tolist() == [2, 7, 10]


@given(COUNTS, st.integers(0, 100), st.integers(0, 200))
def test_limit_takes_a_stratified_part_of_train_alone_and_nests(counts, seed, extra):
    labels = labels_of(counts)
    whole = split(labels, seed=seed)
    small = split(labels, seed=seed, limit=len(counts))
    large = split(labels, seed=seed, limit=len(counts) + extra)
    assert sorted(labels[small["train"]]) == list(range(len(counts)))
    assert len(large["train"]) == min(len(counts) + extra, len(whole["train"]))
    assert set(small["train"]) <= set(large["train"]) <= set(whole["train"])
    assert np.array_equal(large["validation"], whole["validation"])
    assert np.array_equal(large["test"], whole["test"])


def test_limit_below_the_number_of_classes():
    with pytest.raises(DataError, match=r"dataset\.limit must be at least the number of classes, 2.*received 1"):
        split(labels_of([9, 9]), limit=1)


def test_a_class_too_small_for_the_cuts_is_named():
    with pytest.raises(DataError, match=r"at least 3 training examples, as 2 of the other splits.*'class 1' has 2"):
        split(labels_of([9, 2]))


def test_a_class_without_training_examples_is_named():
    labels = np.array([0, 0, 2, 2], dtype=np.int32)
    with pytest.raises(DataError, match="at least 1 training example; 'class 1' has 0"):
        split(labels, cuts=())


def test_no_training_examples():
    with pytest.raises(DataError, match="the training split has no examples"):
        split(np.zeros(3, dtype=np.int32), given={"test": np.arange(3)})
