"""The images that an export is checked with: the study's own validation images where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.components import DatasetRequest
from workbench.data import PreparedData, prepare
from workbench.data.cache import cache_dir, is_decoded
from workbench.data.sources import DATA_VARIABLE
from workbench.display import Display
from workbench.errors import DataError, UsageError
from workbench.registry import Registry

COUNT = 100
"""Images of a check; fewer where the validation split has fewer."""

_SEED = 0
_COMMON_KEYS = ("name", "image_size", "limit", "split_seed")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Images of a check.

    Attributes:
        images: uint8 `(images, height, width, channels)`.
        origin: what they are, for people.
        reason: why they are not the validation images; empty if they are.
    """

    images: npt.NDArray[np.uint8]
    origin: str
    reason: str = ""


def draw_sample(
    facts: Mapping[str, Any],
    registry: Registry,
    *,
    data_dir: Path | None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Sample:
    """Draws images, seeded: of the validation split, or made of noise where the data are not at hand.

    At hand means: in the folder given, or decoded here before. Nothing is downloaded.

    Args:
        facts: of the model; see `workbench.exports.facts.trial_facts`.
        registry: with the data set's plugin.
        data_dir: where the data are; other data there are an error. None takes the environment's WORKBENCH_DATA,
            where other data are passed over.
        progress: told while images are decoded.

    Raises:
        DataError: `data_dir` does not hold the data that the model was trained on.
    """
    fallback = os.environ.get(DATA_VARIABLE)
    folder = data_dir or (Path(fallback) if fallback else None)
    try:
        data = _prepared(facts, registry, folder, progress)
        if data.facts.fingerprint != facts["data_fingerprint"]:
            raise DataError(
                f"{folder or 'the data set'}: the check needs the data that the model was trained "
                f"on (fingerprint {facts['data_fingerprint'][:12]}); received data with {data.facts.fingerprint[:12]}. "
                "Without --data-dir the check takes seeded noise"
            )
        indices = data.indices("validation")
    except UsageError as error:
        if data_dir is not None:
            raise
        return _noise(facts["image_shape"], str(error))
    chosen = np.sort(np.random.default_rng(_SEED).permutation(indices)[:COUNT])
    return Sample(images=data.images[chosen], origin=f"validation images of {facts['dataset']}")


def decoding(display: Display) -> Callable[[int, int | None], None]:
    """Tells a display of decoded images."""
    return lambda done, total: display.phase("decoding images", done, total)


def _prepared(
    facts: Mapping[str, Any],
    registry: Registry,
    data_dir: Path | None,
    progress: Callable[[int, int | None], None] | None,
) -> PreparedData:
    table = facts.get("dataset_table")
    if table is None:
        raise DataError("the model's file does not say how its data were read")
    dataset = registry.find("dataset", facts["dataset"])
    options = {key: value for key, value in table.items() if key not in _COMMON_KEYS}
    size = table.get("image_size")
    if data_dir is None:
        if dataset.needs_data_dir:
            raise DataError("no data folder was given (--data-dir)")
        source = dataset.open(DatasetRequest(data_dir=None, image_size=size, options=options))
        if not is_decoded(dataset.name, source, cache_dir()):
            raise DataError("the data are not in the cache here, and no data folder was given (--data-dir)")
    return prepare(
        dataset,
        data_dir=data_dir,
        image_size=size,
        options=options,
        limit=table.get("limit"),
        split_seed=table.get("split_seed", 0),
        progress=progress,
    )


def _noise(image_shape: list[int], reason: str) -> Sample:
    images = np.random.default_rng(_SEED).integers(0, 256, (COUNT, *image_shape), dtype=np.uint8)
    return Sample(images=images, origin="images of seeded noise", reason=reason)
