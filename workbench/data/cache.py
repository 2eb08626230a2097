"""The decoded cache: every data set is decoded once for each image size, then memory-mapped.

`CACHE/datasets/KEY/` holds `images.bin` (uint8, `(examples, height, width, channels)`), `labels.npy` (int32),
`parts.npy` (which part each example is from) and `facts.json`. It is written aside and renamed when complete,
under a lock, so that a killed process leaves nothing that another could take for data.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import numpy as np
import platformdirs

from workbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from workbench.components import DatasetSource, ExampleBatch, ImageShape

    Progress = Callable[[int, int | None], None]

_FORMAT = 1


def cache_dir() -> Path:
    """Where caches are kept: `WORKBENCH_CACHE`, or else the user's cache folder for `workbench`."""
    return Path(os.environ.get("WORKBENCH_CACHE") or platformdirs.user_cache_dir("workbench"))


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """A decoded data set.

    Attributes:
        images: uint8 `(examples, height, width, channels)`, memory-mapped and read-only.
        labels: int32 `(examples,)`.
        parts: int32 `(examples,)`, indices into `part_names`.
        part_names: the source's parts.
        sha256: of the images' and labels' bytes.
    """

    images: np.memmap[Any, np.dtype[np.uint8]]
    labels: npt.NDArray[np.int32]
    parts: npt.NDArray[np.int32]
    part_names: tuple[str, ...]
    sha256: str


def open_or_decode(name: str, source: DatasetSource, root: Path, progress: Progress | None) -> Decoded:
    """Opens the cache of a source, decoding the source first if there is none or a broken one.

    Args:
        name: the data set's.
        source: as the data set's `open` returned it.
        root: the cache folder.
        progress: called with the examples done and the total, or None where unknown.

    Raises:
        DataError: the source is broken, or the cache cannot be written.
    """
    target = root / "datasets" / f"{name}-{_key(name, source)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own beside the folder, since the folder is renamed into place.
        lock = filelock.FileLock(f"{target}.lock")
        lock.acquire()
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        decoded = _open(target, source.image_shape)
        if decoded is None:
            _build(name, source, target, progress)
            decoded = _open(target, source.image_shape)
            if decoded is None:
                raise DataError(f"the decoded cache {target} was changed while it was written; run again")
        return decoded
    finally:
        lock.release()


def is_decoded(name: str, source: DatasetSource, root: Path) -> bool:
    """Whether the cache has this source, so that `open_or_decode` decodes nothing."""
    return _open(root / "datasets" / f"{name}-{_key(name, source)}", source.image_shape) is not None


def _key(name: str, source: DatasetSource) -> str:
    # Which part belongs to which split is not in it: other splits of the same files are other selections.
    identity = [_FORMAT, name, source.signature, source.image_shape, source.class_names]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def _open(folder: Path, image_shape: ImageShape) -> Decoded | None:
    try:
        facts = json.loads((folder / "facts.json").read_text("utf-8"))
        labels = np.load(folder / "labels.npy")
        parts = np.load(folder / "parts.npy")
        shape = (len(labels), *image_shape)
        if len(parts) != len(labels) or (folder / "images.bin").stat().st_size != np.prod(shape, dtype=np.int64):
            return None
        images = np.memmap(folder / "images.bin", dtype=np.uint8, mode="r", shape=shape)
        return Decoded(
            images=images,
            labels=labels,
            parts=parts,
            part_names=tuple(facts["parts"]),
            sha256=facts["sha256"],
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _build(name: str, source: DatasetSource, target: Path, progress: Progress | None) -> None:
    aside = target.with_name(f"{target.name}.partial")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)
        _write(name, source, aside, progress)
        aside.rename(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(name: str, source: DatasetSource, folder: Path, progress: Progress | None) -> None:
    folder.mkdir()
    part_names = tuple(dict.fromkeys(part for parts in source.parts.values() for part in parts))
    labels: list[npt.NDArray[np.int32]] = []
    parts: list[npt.NDArray[np.int32]] = []
    digest = hashlib.sha256()
    done = 0
    with (folder / "images.bin").open("wb") as file:
        for batch in _examples(name, source):
            _check(name, batch, source, part_names)
            pixels = np.ascontiguousarray(batch.images)
            file.write(pixels.data)
            digest.update(pixels.data)
            labels.append(np.asarray(batch.labels, dtype=np.int32))
            parts.append(np.full(len(pixels), part_names.index(batch.part), dtype=np.int32))
            done += len(pixels)
            if progress is not None:
                progress(done, source.count)
        file.flush()
        os.fsync(file.fileno())
    if not done:
        raise DataError(f"data set {name!r}: no images were found")
    all_labels = np.concatenate(labels)
    digest.update(all_labels.astype("<i4").tobytes())
    np.save(folder / "labels.npy", all_labels)
    np.save(folder / "parts.npy", np.concatenate(parts))
    facts = {"parts": part_names, "sha256": digest.hexdigest(), "signature": source.signature}
    (folder / "facts.json").write_text(json.dumps(facts, indent=1), "utf-8")


def _examples(name: str, source: DatasetSource) -> Iterator[ExampleBatch]:
    # Otherwise an unreadable source would be taken for an unwritable cache.
    try:
        yield from source.read()
    except OSError as error:
        raise DataError(f"data set {name!r} cannot be read ({error})") from error


def _check(name: str, batch: ExampleBatch, source: DatasetSource, part_names: tuple[str, ...]) -> None:
    where = f"data set {name!r}, part {batch.part!r}"
    if batch.part not in part_names:
        raise DataError(f"{where}: the source declares only the parts {', '.join(part_names)}")
    if batch.images.dtype != np.uint8 or batch.images.shape[1:] != tuple(source.image_shape):
        raise DataError(
            f"{where}: images must be uint8 of shape {tuple(source.image_shape)}; "
            f"received {batch.images.dtype} of shape {batch.images.shape[1:]}"
        )
    if batch.labels.shape != (len(batch.images),):
        raise DataError(f"{where}: {len(batch.images)} images but labels of shape {batch.labels.shape}")
    classes = len(source.class_names)
    outside = batch.labels[(batch.labels < 0) | (batch.labels >= classes)]
    if len(outside):
        raise DataError(f"{where}: labels must be 0 to {classes - 1} ({classes} classes); received {outside[0]}")


def _unwritable(target: Path, error: OSError) -> DataError:
    return DataError(
        f"the decoded images cannot be written to {target} ({error.strerror or error}); "
        "free some space there, or set WORKBENCH_CACHE to a folder with more"
    )
