"""Which examples train, validate and test: the rule for sources that lack a split.

- Parts that the source assigns to a split are kept as they are.
- A source with neither test nor validation examples: 15 % of its training examples become the test split,
  then 15 % (of the same total) the validation split.
- A source with its own test split, or with none by design, and no validation split: 10 % of its training
  examples become the validation split (CIFAR-10: 5,000 of 50,000).
- A source with its own validation split and no test split: 15 % of its training examples become the test.
- Every cut is stratified: each class is in it, with its share to within about one example. The seed is fixed
  (0) unless another is asked for, so that studies compare; the same seed gives the same cut on every machine.
- `limit` keeps a stratified subset of the training split and leaves the others as they are; a smaller limit's
  subset is part of a larger one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]

CUT_FRACTION = 0.15
VALIDATION_FRACTION_BESIDE_TEST = 0.10


def split_indices(
    labels: npt.NDArray[np.int32],
    given: Mapping[str, Indices],
    *,
    cuts: Sequence[str],
    class_names: Sequence[str],
    seed: int = 0,
    limit: int | None = None,
) -> dict[str, Indices]:
    """The sorted example indices of each split.

    Args:
        labels: int32 `(examples,)`.
        given: the source's own splits; "train" is required, an empty one counts as missing.
        cuts: which of "validation" and "test" to cut from "train" where `given` has none.
        class_names: for messages and for the number of classes.
        seed: of the cuts and of the limit, 0 to 2**32 - 1.
        limit: how many training examples to keep; None, or more than there are: all.

    Returns:
        "train", and "validation" and "test" where given or cut.

    Raises:
        DataError: no training examples, a class too small to be cut, or a limit below the number of classes.
    """
    splits = {name: np.sort(indices) for name, indices in given.items() if len(indices)}
    if "train" not in splits:
        raise DataError("the training split has no examples; a data set needs some")
    missing = [name for name in ("test", "validation") if name in cuts and name not in splits]
    _check_classes(labels[splits["train"]], class_names, len(missing))
    total = len(splits["train"])
    for name in missing:
        beside_test = name == "validation" and "test" not in missing
        fraction = VALIDATION_FRACTION_BESIDE_TEST if beside_test else CUT_FRACTION
        count = max(round(fraction * total), len(class_names))
        train = stratified_order(labels, splits["train"], seed)
        splits[name], splits["train"] = np.sort(train[:count]), np.sort(train[count:])
    if limit is not None:
        splits["train"] = _limited(labels, splits["train"], limit, len(class_names), seed)
    return splits


def stratified_order(labels: npt.NDArray[np.int32], indices: Indices, seed: int) -> Indices:
    """The indices in a seeded random order of which every long enough beginning is stratified.

    The first of each class come first; then, in a beginning of k out of n, a class with m examples has
    k m / n of them to within one.
    """
    # RandomState's stream is frozen (NEP 19), Generator's is not: cuts must not depend on NumPy's version.
    shuffled = indices[np.random.RandomState(seed).permutation(len(indices))]
    rank = np.empty(len(shuffled))
    first = np.zeros(len(shuffled), dtype=bool)
    for label in np.unique(labels[shuffled]):
        (members,) = np.nonzero(labels[shuffled] == label)
        rank[members] = (np.arange(len(members)) + 0.5) / len(members)
        first[members[0]] = True
    return shuffled[np.lexsort((rank, ~first))]


def _check_classes(labels: npt.NDArray[np.int32], class_names: Sequence[str], cuts: int) -> None:
    counts = np.bincount(labels, minlength=len(class_names))
    needed = cuts + 1
    small = [f"{name!r} has {count}" for name, count in zip(class_names, counts, strict=True) if count < needed]
    # Every cut takes at least one example of each class, and training keeps at least one.
    if small:
        listed = ", ".join(small[:5]) + (f" and {len(small) - 5} more classes" if len(small) > 5 else "")
        raise DataError(
            f"every class needs at least {needed} training example{'s' if cuts else ''}"
            + (f", as {cuts} of the other splits must be cut from them" if cuts else "")
            + f"; {listed}; add images or remove the class"
        )


def _limited(labels: npt.NDArray[np.int32], train: Indices, limit: int, num_classes: int, seed: int) -> Indices:
    if limit < num_classes:
        raise DataError(
            f"dataset.limit must be at least the number of classes, {num_classes}, "
            f"so that training sees each; received {limit}"
        )
    return np.sort(stratified_order(labels, train, seed)[:limit])
