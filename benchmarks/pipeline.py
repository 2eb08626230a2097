"""Images a second of the input pipeline, against the published one of the codelab.

Both give batches of float32 images in [0, 1] and one-hot labels, plain and with flip and saturation. The
published pipeline keeps decoded floats in `cache()`, then repeats, augments each image with stateful
operations, shuffles, batches and prefetches. Ours reads the memory-mapped bytes (a quarter of the memory,
shared between processes) and augments each batch with stateless operations, so that it can resume exactly.
Runs alternate, so that load from elsewhere hits both.

    python benchmarks/pipeline.py --data-dir DATA
    python benchmarks/pipeline.py --quick          # synthetic images, seconds

The last line is JSON; `images_per_s_vs_published` has a ratio for each case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import workbench
from workbench.data import PreparedData, prepare, training_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tensorflow as tf

MAX_SATURATION = 2.0
SHUFFLE_BUFFER = 2048


def synthetic(examples: int, size: int) -> workbench.Dataset:
    """A data set of random images."""

    def read() -> Iterator[workbench.ExampleBatch]:
        rng = np.random.default_rng(0)
        for start in range(0, examples, 512):
            count = min(512, examples - start)
            yield workbench.ExampleBatch(
                part="all",
                images=rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8),
                labels=(np.arange(count) % 10).astype(np.int32),
            )

    source = workbench.DatasetSource(
        class_names=tuple("0123456789"),
        image_shape=(size, size, 3),
        parts={"train": ("all",)},
        signature=f"random {examples}",
        read=read,
    )
    return workbench.Dataset(
        name="synthetic", summary="random images", needs_data_dir=False, open=lambda request: source
    )


def cases(data_dir: Path | None, quick: bool) -> dict[str, PreparedData]:
    """What is measured, by name."""
    if data_dir is None:
        sizes = {32: 2_000, 96: 500} if quick else {32: 50_000, 96: 3_000, 192: 3_000}
        return {
            f"synthetic_{size}px": prepare(synthetic(examples, size), data_dir=None, image_size=size, options={})
            for size, examples in sizes.items()
        }
    from workbench_plugins.datasets import cifar10, flowers

    wanted = [(cifar10, 32), (flowers, 96), (flowers, 192)]
    return {
        f"{component.name}_{size}px": prepare(
            component, data_dir=data_dir, image_size=size, options={}, limit=500 if quick else None
        )
        for plugin, size in wanted
        for component in plugin.workbench_datasets()
    }


def published(data: PreparedData, batch_size: int, augment: bool) -> tf.data.Dataset:
    """The codelab's pipeline from its cache on: decoded float images, cached in memory."""
    import tensorflow as tf

    indices, classes = data.indices("train"), len(data.facts.class_names)

    def decoded(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image, label = tf.numpy_function(
            lambda i: (data.images[i].astype(np.float32) / np.float32(255), data.labels[i]),
            [index],
            (tf.float32, tf.int32),
        )
        return tf.ensure_shape(image, data.facts.image_shape), tf.one_hot(tf.ensure_shape(label, ()), classes)

    def change(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.image.random_saturation(tf.image.random_flip_left_right(image), 0, MAX_SATURATION), label

    images = tf.data.Dataset.from_tensor_slices(indices).map(decoded).cache().repeat()
    if augment:
        images = images.map(change, num_parallel_calls=tf.data.AUTOTUNE)
    images = images.shuffle(SHUFFLE_BUFFER).batch(batch_size, drop_remainder=True)
    return images.prefetch(tf.data.AUTOTUNE)


def ours(data: PreparedData, batch_size: int, augment: bool) -> tf.data.Dataset:
    """The workbench's pipeline with the same augmentation."""
    function = None
    if augment:
        import keras_tuner
        from workbench_plugins.augmentations.flip_saturation import workbench_augmentations

        (component,) = workbench_augmentations()
        function = component.build(keras_tuner.HyperParameters())
    return training_dataset(data, batch_size=batch_size, augment=function, seed=0, first_epoch=1, last_epoch=1_000_000)


def measure(make: Callable[[], tf.data.Dataset], warm: int, steps: int, batch_size: int) -> Callable[[], float]:
    """A function that draws `steps` batches and returns images a second; `warm` batches are drawn now."""
    batches = iter(make())
    for _ in range(warm):
        next(batches)

    def run() -> float:
        # What was prefetched while the other pipeline ran is no work of this run.
        for _ in range(8):
            next(batches)
        start = time.perf_counter()
        for _ in range(steps):
            next(batches)
        return steps * batch_size / (time.perf_counter() - start)

    return run


def compare(data: PreparedData, batch_size: int, augment: bool, runs: int, seconds: float) -> dict[str, float]:
    """Medians over alternating runs of about `seconds` each."""
    epoch = data.facts.counts["train"] // batch_size + 1
    shuffled = SHUFFLE_BUFFER // batch_size
    pair = {
        # The published one is measured once its cache and its shuffle buffer are full.
        "published": lambda steps: measure(
            lambda: published(data, batch_size, augment), epoch + shuffled, steps, batch_size
        ),
        "workbench": lambda steps: measure(lambda: ours(data, batch_size, augment), epoch, steps, batch_size),
    }
    rates = {name: start(5)() for name, start in pair.items()}
    ready = {name: start(max(3, int(seconds * rates[name] / batch_size))) for name, start in pair.items()}
    found: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(runs):
        for name, run in ready.items():
            found[name].append(run())
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with cifar10/ and flowers/; synthetic images otherwise")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5, help="of each pipeline in each case")
    parser.add_argument("--quick", action="store_true", help="small data, short runs: shows that it works")
    arguments = parser.parse_args()
    runs, seconds = (3, 0.2) if arguments.quick else (arguments.runs, 2.0)
    ratios, rates = {}, {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("WORKBENCH_CACHE", cache)
        for name, data in cases(arguments.data_dir, arguments.quick).items():
            for augment in (False, True):
                key = f"{name}{'_flip_saturation' if augment else ''}"
                rates[key] = compare(data, arguments.batch_size, augment, runs, seconds)
                ratios[key] = round(rates[key]["workbench"] / rates[key]["published"], 3)
                print(
                    f"{key:32} workbench {rates[key]['workbench']:>10,.0f} images/s   "
                    f"published {rates[key]['published']:>10,.0f}   ratio {ratios[key]}   n={runs}",
                    flush=True,
                )
    print(json.dumps(summary(ratios, rates, runs, arguments.batch_size)))


def summary(
    ratios: dict[str, float], rates: dict[str, dict[str, float]], runs: int, batch_size: int
) -> dict[str, object]:
    import tensorflow as tf

    return {
        "benchmark": "pipeline",
        "images_per_s_vs_published": ratios,
        "images_per_s": {key: {name: round(rate) for name, rate in pair.items()} for key, pair in rates.items()},
        "n": runs,
        "batch_size": batch_size,
        "processors": os.cpu_count(),
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
        },
    }


if __name__ == "__main__":
    main()
