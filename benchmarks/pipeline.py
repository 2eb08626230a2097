"""Images a second of the input pipeline, against the published one and Keras's reader of image folders.

    python benchmarks/pipeline.py --data-dir DATA [--output pipeline.csv]    # about 15 minutes
    python benchmarks/pipeline.py --quick                                     # synthetic images, about 4 minutes

All give batches of float32 images and one-hot labels, at 32, 96 and 192 pixels:

- `workbench`: reads the memory-mapped bytes of its cache, one a channel, and augments each batch with stateless,
  compiled operations, so that it resumes exactly.
- `published` is the codelab's: it keeps decoded floats in `cache()`, then repeats, augments each image by a map with
  stateful operations of `tf.image` (for `rand_augment`, which it does not have, Keras's layer of that name, image by
  image), shuffles, batches and prefetches.
- `image_folder`: `keras.utils.image_dataset_from_directory` on the same images as JPEG files, without augmentation; it
  decodes them in every epoch.

Runs alternate, so that load from elsewhere hits all. Memory is that of one image in the cache. The last line is
JSON; `images_per_s_vs_published` has a ratio for each case.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from common import FLAGS, announce, write_csv

import workbench
from workbench.data import PreparedData, prepare, training_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tensorflow as tf

PACKAGES = ("tensorflow", "keras", "numpy")
AUGMENTATIONS = ("none", "flip_saturation", "crop_flip", "rand_augment")
MAX_SATURATION = 2.0
PADDING_FRACTION = 0.125
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
    if data_dir is None or quick:
        sizes = {32: 2_000, 96: 500, 192: 300} if quick else {32: 50_000, 96: 3_000, 192: 3_000}
        return {
            f"synthetic_{size}px": prepare(synthetic(examples, size), data_dir=None, image_size=size, options={})
            for size, examples in sizes.items()
        }
    from workbench_plugins.datasets import cifar10, flowers

    wanted = [(cifar10, 32), (flowers, 96), (flowers, 192)]
    return {
        f"{component.name}_{size}px": prepare(component, data_dir=data_dir, image_size=size, options={})
        for plugin, size in wanted
        for component in plugin.workbench_datasets()
    }


def published(data: PreparedData, batch_size: int, augmentation: str) -> tf.data.Dataset:
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

    images = tf.data.Dataset.from_tensor_slices(indices).map(decoded).cache().repeat()
    if augmentation != "none":
        change = per_image(augmentation, data.facts.image_shape)
        images = images.map(lambda image, label: (change(image), label), num_parallel_calls=tf.data.AUTOTUNE)
    images = images.shuffle(shuffle_buffer(augmentation)).batch(batch_size, drop_remainder=True)
    return images.prefetch(tf.data.AUTOTUNE)


def shuffle_buffer(augmentation: str) -> int:
    """The codelab's; less where Keras's layer would take minutes to fill it: no matter for the rate after that."""
    return 128 if augmentation == "rand_augment" else SHUFFLE_BUFFER


def per_image(augmentation: str, shape: tuple[int, int, int]) -> Callable[[tf.Tensor], tf.Tensor]:
    """An augmentation of one image, as people write it."""
    import keras
    import tensorflow as tf

    if augmentation == "flip_saturation":
        return lambda image: tf.image.random_saturation(tf.image.random_flip_left_right(image), 0, MAX_SATURATION)
    if augmentation == "crop_flip":
        side = round(PADDING_FRACTION * shape[0])
        padding = [[side, side], [side, side], [0, 0]]
        return lambda image: tf.image.random_crop(tf.pad(tf.image.random_flip_left_right(image), padding), shape)
    layer = keras.layers.RandAugment(value_range=(0, 1), num_ops=2, factor=0.3)
    return lambda image: layer(tf.image.random_flip_left_right(image), training=True)


def ours(data: PreparedData, batch_size: int, augmentation: str) -> tf.data.Dataset:
    """The workbench's pipeline."""
    import keras_tuner

    from workbench.registry import Registry

    component = Registry.load((), ()).find("augmentation", augmentation)
    return training_dataset(
        data,
        batch_size=batch_size,
        augment=component.build(keras_tuner.HyperParameters()),
        seed=0,
        first_epoch=1,
        last_epoch=1_000_000,
    )


def image_folder(data: PreparedData, batch_size: int, folder: Path) -> tf.data.Dataset:
    """Keras's reader on the same images as files, of which there are as many as the first so many."""
    import keras
    from PIL import Image

    chosen = data.indices("train")[:2000]
    for number, index in enumerate(chosen):
        place = folder / f"{data.labels[index]:03d}"
        place.mkdir(exist_ok=True)
        pixels = data.images[index]
        Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0]).save(place / f"{number}.jpg", quality=95)
    height, width, _ = data.facts.image_shape
    return keras.utils.image_dataset_from_directory(
        folder, label_mode="categorical", batch_size=batch_size, image_size=(height, width), verbose=False
    ).repeat()


def measure(make: Callable[[], tf.data.Dataset], warm: int, steps: int, batch_size: int) -> Callable[[], float]:
    """A function that draws `steps` batches and returns images a second; `warm` batches are drawn now."""
    batches = iter(make())
    for _ in range(warm):
        next(batches)

    def run() -> float:
        # What was prefetched while another pipeline ran is no work of this run.
        for _ in range(min(8, steps + 1)):
            next(batches)
        start = time.perf_counter()
        for _ in range(steps):
            next(batches)
        return steps * batch_size / (time.perf_counter() - start)

    return run


def compare(
    data: PreparedData, batch_size: int, augmentation: str, runs: int, seconds: float
) -> dict[str, list[float]]:
    """Images a second over alternating runs of about `seconds` each."""
    epoch = data.facts.counts["train"] // batch_size + 1
    # The published one is measured once its cache and its shuffle buffer are full.
    filled = shuffle_buffer(augmentation) // batch_size
    # Keras's layer is slow enough for the first epoch, of decoding, not to matter.
    warm = {"workbench": 8, "published": filled + (0 if augmentation == "rand_augment" else epoch), "image_folder": 8}
    with tempfile.TemporaryDirectory() as folder:
        makers: dict[str, Callable[[], tf.data.Dataset]] = {
            "published": lambda: published(data, batch_size, augmentation),
            "workbench": lambda: ours(data, batch_size, augmentation),
        }
        if augmentation == "none":
            makers["image_folder"] = lambda: image_folder(data, batch_size, Path(folder))
        ready = {}
        for name, make in makers.items():
            rate = measure(make, warm[name], 2, batch_size)()
            ready[name] = measure(make, warm[name], max(1, int(seconds * rate / batch_size)), batch_size)
        found: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(runs):
            for name, run in ready.items():
                found[name].append(run())
    return found


def main() -> None:
    """Measures every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with cifar10/ and flowers/; synthetic images otherwise")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5, help="of each pipeline in each case")
    parser.add_argument("--quick", action="store_true", help="few synthetic images, batches of 32, 5 short runs")
    parser.add_argument("--output", type=Path, help="CSV with one row a run")
    arguments = parser.parse_args()
    runs, seconds = (5, 0.3) if arguments.quick else (arguments.runs, 2.0)
    if arguments.quick:
        # Keras's RandAugment takes seconds for 128 images.
        arguments.batch_size = 32
    os.environ.update({name: os.environ.get(name, value) for name, value in FLAGS.items()})
    announce(*PACKAGES)
    rows: list[dict[str, Any]] = []
    ratios: dict[str, float] = {}
    memory: dict[str, dict[str, int]] = {}
    print(f"{'case':<34}{'workbench':>14}{'published':>14}{'ratio':>8}{'image folder':>14}{'n':>4}")
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("WORKBENCH_CACHE", cache)
        for name, data in cases(arguments.data_dir, arguments.quick).items():
            pixels = int(np.prod(data.facts.image_shape))
            memory[name] = {"workbench": pixels * data.images.dtype.itemsize, "published": 4 * pixels}
            for augmentation in AUGMENTATIONS:
                key = f"{name}_{augmentation}"
                found = compare(data, arguments.batch_size, augmentation, runs, seconds)
                rate = {peer: statistics.median(values) for peer, values in found.items()}
                ratios[key] = round(rate["workbench"] / rate["published"], 3)
                folder = f"{rate['image_folder']:>14,.0f}" if "image_folder" in rate else " " * 14
                print(
                    f"{key:<34}{rate['workbench']:>14,.0f}{rate['published']:>14,.0f}{ratios[key]:>8.2f}{folder}{runs:>4}",
                    flush=True,
                )
                rows += [
                    {"case": key, "pipeline": peer, "run": number, "images_per_s": round(value, 1)}
                    for peer, values in found.items()
                    for number, value in enumerate(values, start=1)
                ]
    write_csv(rows, arguments.output)
    result = {
        "benchmark": "pipeline",
        "images_per_s_vs_published": ratios,
        "bytes_per_cached_image": memory,
        "n": runs,
        "batch_size": arguments.batch_size,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
