"""From a data set component to arrays and splits that are ready to train on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.components import Dataset, DatasetRequest, DatasetSource, ImageShape
from workbench.data.cache import Decoded, cache_dir, open_or_decode
from workbench.data.splits import split_indices
from workbench.errors import DataError, near_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from workbench.data.cache import Progress
    from workbench.data.splits import Indices

__all__ = ["DataFacts", "PreparedData", "cache_dir", "prepare"]

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """What a study records about its data; `DataFacts(**json.loads(...))` gives back what `asdict` gave.

    Attributes:
        dataset: the component's name.
        class_names: in the order of the label indices.
        image_shape: (height, width, channels) of every image.
        counts: examples in each split; a limit is already taken off "train".
        fingerprint: sha256 over decoded images, labels, class names and each split's indices; equal on two
            machines that train on the same data (and decode JPEG alike: Pillow brings its own decoder).
    """

    dataset: str
    class_names: tuple[str, ...]
    image_shape: ImageShape
    counts: dict[str, int]
    fingerprint: str

    def __post_init__(self) -> None:
        # JSON has lists only.
        object.__setattr__(self, "class_names", tuple(self.class_names))
        object.__setattr__(self, "image_shape", tuple(self.image_shape))


class PreparedData:
    """Decoded images on disk, and which of them belong to which split.

    Attributes:
        facts: see `DataFacts`.
        images: uint8 `(examples, height, width, channels)`, all examples of the source, memory-mapped.
        labels: int32 `(examples,)`.
    """

    def __init__(self, facts: DataFacts, decoded: Decoded, splits: Mapping[str, Indices]):
        self.facts = facts
        self.images: np.memmap[Any, np.dtype[np.uint8]] = decoded.images
        self.labels: npt.NDArray[np.int32] = decoded.labels
        self._splits = dict(splits)

    def indices(self, split: str) -> Indices:
        """Which examples belong to a split: int64, ascending.

        Args:
            split: "train", "validation", "test" or "train+validation".

        Raises:
            DataError: the data set has no such split.
        """
        wanted = split.split("+") if split == "train+validation" else [split]
        if not set(wanted) <= set(self._splits):
            raise DataError(f"data set {self.facts.dataset!r} has no split {split!r}; it has {', '.join(self._splits)}")
        return np.sort(np.concatenate([self._splits[name] for name in wanted]))


def prepare(
    dataset: Dataset,
    *,
    data_dir: Path | None,
    image_size: int | None,
    options: Mapping[str, Any],
    limit: int | None = None,
    split_seed: int = 0,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> PreparedData:
    """Finds a data set, decodes it if no earlier call has, and splits it.

    Args:
        dataset: the component.
        data_dir: the folder (or file) with the data.
        image_size: height and width in pixels, or None for the data set's own.
        options: the data set's own keys of the `[dataset]` table.
        limit: a stratified subset of so many training examples; the other splits stay whole.
        split_seed: of cut splits and of the limit; keep it, so that studies compare.
        cache_dir: by default `workbench.data.cache_dir()`.
        progress: called while images are decoded with how many are done, and how many there are if known.

    Raises:
        DataError: the data is missing, broken or unfit, an option is unknown, or the cache cannot be written.
    """
    _check_request(dataset, data_dir, image_size, options)
    request = DatasetRequest(data_dir=data_dir, image_size=image_size, options=dict(options))
    source = dataset.open(request)
    root = _default_cache_dir() if cache_dir is None else cache_dir
    decoded = open_or_decode(dataset.name, source, root, progress)
    splits = _splits(dataset.name, source, decoded, split_seed, limit)
    facts = DataFacts(
        dataset=dataset.name,
        class_names=tuple(source.class_names),
        image_shape=source.image_shape,
        counts={name: len(indices) for name, indices in splits.items()},
        fingerprint=_fingerprint(source, decoded, splits),
    )
    return PreparedData(facts, decoded, splits)


# `prepare` has an argument of the same name.
_default_cache_dir = cache_dir


def _check_request(dataset: Dataset, data_dir: Path | None, image_size: int | None, options: Mapping[str, Any]) -> None:
    if dataset.needs_data_dir and data_dir is None:
        raise DataError(
            f"data set {dataset.name!r} reads files and no folder was given: "
            "pass --data-dir FOLDER or set WORKBENCH_DATA"
        )
    if data_dir is not None and dataset.needs_data_dir and not data_dir.exists():
        raise DataError(f"data set {dataset.name!r}: the data folder {data_dir} does not exist")
    if image_size is not None and image_size < 1:
        raise DataError(f"dataset.image_size must be at least 1 pixel; received {image_size}")
    for key in options:
        if key not in dataset.options:
            known = ", ".join(sorted(dataset.options)) or "none"
            raise DataError(
                f"data set {dataset.name!r} has no option {key!r}; its options: {known}."
                + near_names(key, dataset.options)
            )


def _splits(name: str, source: DatasetSource, decoded: Decoded, seed: int, limit: int | None) -> dict[str, Indices]:
    given = {
        split: np.flatnonzero(np.isin(decoded.parts, [decoded.part_names.index(part) for part in parts]))
        for split, parts in source.parts.items()
    }
    try:
        found = split_indices(
            decoded.labels, given, cuts=source.cuts, class_names=source.class_names, seed=seed, limit=limit
        )
    except DataError as error:
        raise DataError(f"data set {name!r}: {error}") from error
    return {split: found[split] for split in SPLITS if split in found}


def _fingerprint(source: DatasetSource, decoded: Decoded, splits: Mapping[str, Indices]) -> str:
    digest = hashlib.sha256()
    shape = [*source.image_shape, len(decoded.labels)]
    digest.update(json.dumps([decoded.sha256, shape, list(source.class_names)]).encode())
    for name in SPLITS:
        if name in splits:
            digest.update(name.encode() + splits[name].astype("<i8").tobytes())
    return digest.hexdigest()
