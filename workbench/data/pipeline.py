"""The input pipeline: batches from the decoded cache, a pure function of (seed, epoch, step).

It follows the rules for TPUs (static shapes, full batches in training, augment batch-wise, prefetch) and
reads the memory-mapped images in place, so that processes share them. Order and augmentation hold no state:
an execution that resumes at an epoch sees the batches that it would have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import tensorflow as tf

    from workbench.data.prepared import PreparedData
    from workbench.data.splits import Indices

    Augment = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def steps_per_epoch(data: PreparedData, batch_size: int, split: str = "train") -> int:
    """How many full batches an epoch has; the examples beyond them are other ones each epoch.

    Args:
        data: as `prepare` returned it.
        batch_size: images a batch, over all replicas.
        split: "train" or "train+validation".

    Raises:
        DataError: not even one batch can be filled.
    """
    available = len(data.indices(split))
    if not 1 <= batch_size <= available:
        raise DataError(
            f"a training batch needs 1 to {available} images, all that split {split!r} of data set "
            f"{data.facts.dataset!r} has; received a batch of {batch_size}: set "
            "training.batch_size_per_replica (times the replicas) accordingly, or raise dataset.limit"
        )
    return available // batch_size


def training_dataset(
    data: PreparedData,
    *,
    batch_size: int,
    augment: Augment | None,
    seed: int,
    first_epoch: int,
    last_epoch: int,
    split: str = "train",
    shard_index: int = 0,
    shard_count: int = 1,
) -> tf.data.Dataset:
    """Shuffled, augmented training batches of several epochs in one data set.

    Args:
        data: as `prepare` returned it.
        batch_size: images a batch, over all replicas and hosts.
        augment: see `workbench.Augmentation.build`; None for none.
        seed: of order and augmentation.
        first_epoch, last_epoch: from 1, inclusive. `steps_per_epoch` batches each.
        split: "train" or "train+validation".
        shard_index, shard_count: for several hosts: this one's slice of every batch; the batch size must be a
            multiple of `shard_count`.

    Returns:
        float32 images `(batch, height, width, channels)` in [0, 1] and float32 one-hot labels
        `(batch, classes)`, with static shapes. Within an epoch no example comes twice.
    """
    import tensorflow as tf

    steps = steps_per_epoch(data, batch_size, split)
    if batch_size % shard_count:
        raise DataError(f"a batch of {batch_size} images cannot be shared equally by {shard_count} hosts")
    examples = len(data.indices(split))
    share = batch_size // shard_count
    load = _loader(data, split, share)
    # Two int32 from a seed of any size; order and augmentation must not share a stream.
    order_seed, augment_seed = (
        tf.constant(np.random.SeedSequence([seed, stream]).generate_state(2).view(np.int32)) for stream in (0, 1)
    )

    def batch(position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        epoch, step = position // steps + 1, position % steps
        epoch_seed = tf.random.experimental.stateless_fold_in(order_seed, epoch)
        ranks = step * batch_size + shard_index * share + tf.range(share, dtype=tf.int64)
        shuffled = tf.random.experimental.index_shuffle(ranks, epoch_seed, tf.constant(examples - 1, tf.int64))
        return load(shuffled)

    def augmented(position: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        images, labels = _as_float(images), tf.one_hot(labels, len(data.facts.class_names))
        if augment is None:
            return images, labels
        # The position alone tells epoch and step; each host augments its own images in its own way.
        step_seed = tf.random.experimental.stateless_fold_in(augment_seed, position * shard_count + shard_index)
        changed, mixed = augment(images, labels, step_seed)
        return tf.ensure_shape(changed, images.shape), tf.ensure_shape(mixed, labels.shape)

    positions = tf.data.Dataset.range((first_epoch - 1) * steps, last_epoch * steps)
    return (
        positions.map(
            lambda position: (position, *batch(position)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        .map(augmented, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def evaluation_dataset(data: PreparedData, *, split: str, batch_size: int, padded: bool = False) -> tf.data.Dataset:
    """Every example of a split, once and in order; the last batch is smaller, or padded.

    Args:
        data: as `prepare` returned it.
        split: see `PreparedData.indices`.
        batch_size: images a batch, over all replicas.
        padded: fill the last batch with further copies of the split's last example, of weight 0.

    Returns:
        float32 images `(None, height, width, channels)` in [0, 1] and float32 one-hot labels
        `(None, classes)`; with `padded` also float32 weights `(batch,)`, and static shapes. The weights of real
        examples are equal and above 1 by as much as the padding takes: Keras's loss divides by all examples, its
        weighted metrics by the weights, and so both are exact.
    """
    import tensorflow as tf

    if batch_size < 1:
        raise DataError(f"an evaluation batch needs at least 1 image; received a batch size of {batch_size}")
    if padded:
        return _padded_dataset(data, split, batch_size)
    load = _loader(data, split, None)
    classes = len(data.facts.class_names)
    return (
        tf.data.Dataset.range(len(data.indices(split)))
        .batch(batch_size)
        .map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .map(
            lambda images, labels: (_as_float(images), tf.one_hot(labels, classes)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        .prefetch(tf.data.AUTOTUNE)
    )


def _padded_dataset(data: PreparedData, split: str, batch_size: int) -> tf.data.Dataset:
    import tensorflow as tf

    examples, classes = len(data.indices(split)), len(data.facts.class_names)
    total = -(-examples // batch_size) * batch_size
    load = _loader(data, split, batch_size)

    def batch(ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        images, labels = load(tf.minimum(ranks, examples - 1))
        weights = tf.where(ranks < examples, total / max(examples, 1), 0.0)
        return _as_float(images), tf.one_hot(labels, classes), weights

    return (
        tf.data.Dataset.range(total)
        .batch(batch_size, drop_remainder=True)
        .map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def _loader(data: PreparedData, split: str, count: int | None) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """A function from ranks within a split, int64 `(count,)`, to uint8 images and int32 labels."""
    import tensorflow as tf

    indices: Indices = data.indices(split)

    def gather(ranks: Any) -> tuple[Any, Any]:
        chosen = indices[ranks]
        return data.images[chosen], data.labels[chosen]

    def load(ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        images, labels = tf.numpy_function(gather, [ranks], (tf.uint8, tf.int32), stateful=False)
        return tf.ensure_shape(images, (count, *data.facts.image_shape)), tf.ensure_shape(labels, (count,))

    return load


def _as_float(images: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    return tf.cast(images, tf.float32) / 255.0
