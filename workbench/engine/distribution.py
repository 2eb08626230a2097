"""How a training step is spread over replicas: one class a route, all with the same face."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import keras
import tensorflow as tf

from workbench.errors import DeviceError

if TYPE_CHECKING:
    from workbench.devices import DeviceChoice, Route

Shape = tuple[int, ...]


class Distribution(Protocol):
    """Replicas of a model.

    Attributes:
        route: see `workbench.devices.Route`.
        replicas: cores that hold a copy of the model; a global batch must be a multiple of it.
    """

    route: Route
    replicas: int

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where models are built, compiled and run. A new one each time: `clear_session()` wipes Keras's."""
        ...

    def replica_shapes(self, batches: Any) -> list[Shape]:
        """The shapes of the first batch's images as each replica gets them, `(batch, height, width, channels)`.

        Args:
            batches: a tf.data data set of `(images, labels)`.
        """
        ...


class Single:
    """One device: nothing to spread."""

    route: Route = "single"
    replicas = 1

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """No scope."""
        return contextlib.nullcontext()

    def replica_shapes(self, batches: Any) -> list[Shape]:
        """The batch's own, which is static."""
        return [tuple(batches.element_spec[0].shape)]


class Strategy:
    """A strategy of TensorFlow's: MirroredStrategy or TPUStrategy.

    Normalisation statistics are those of each replica's part of the batch.
    """

    def __init__(self, route: Route, strategy: Any):
        self.route = route
        self.replicas: int = strategy.num_replicas_in_sync
        self._strategy = strategy

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """The strategy's."""
        scope: contextlib.AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def replica_shapes(self, batches: Any) -> list[Shape]:
        """As the strategy cuts the data set."""
        images = next(iter(self._strategy.experimental_distribute_dataset(batches)))[0]
        return [tuple(part.shape) for part in self._strategy.experimental_local_results(images)]


class DataParallel:
    """Keras's own on the JAX backend: copies of the weights, batches cut along their first axis.

    The compiler sees the whole batch, so that normalisation statistics and dropout are those of one device.

    Args:
        count: replicas, the first so many of JAX's devices.
    """

    route: Route = "data_parallel"

    def __init__(self, count: int):
        devices = keras.distribution.list_devices()
        if len(devices) < count:
            raise DeviceError(f"{count} replicas need as many devices; JAX has {len(devices)}: {', '.join(devices)}")
        self.replicas = count
        self._distribution = keras.distribution.DataParallel(devices=devices[:count], auto_shard_dataset=False)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Sets the distribution, and puts back what was set before."""
        scope: contextlib.AbstractContextManager[Any] = self._distribution.scope()
        return scope

    def replica_shapes(self, batches: Any) -> list[Shape]:
        """As JAX cuts an array by the distribution's layout."""
        images = next(iter(batches))[0].numpy()
        layout = self._distribution.get_data_layout(images.shape)
        placed = keras.distribution.distribute_tensor(images, layout)
        return [tuple(shard.data.shape) for shard in placed.addressable_shards]


def make_distribution(device: DeviceChoice) -> Distribution:
    """The distribution that was decided on; must come before anything runs on a device in this process.

    Raises:
        DeviceError: Keras runs on another backend (it was imported before), or the devices are not there.
    """
    if keras.backend.backend() != device.backend:
        raise DeviceError(
            f"Keras must run on the {device.backend} backend here; it was imported with "
            f"{keras.backend.backend()} before. Set KERAS_BACKEND={device.backend} before Keras is imported, or train "
            "in a worker process (without inline)"
        )
    if device.route == "data_parallel":
        return DataParallel(device.replicas or 1)
    if device.route == "tpu_strategy":
        return Strategy("tpu_strategy", _tpu_strategy(device))
    names = _tensorflow_devices(device) if device.route == "mirrored" else []
    return Strategy("mirrored", tf.distribute.MirroredStrategy(names)) if len(names) > 1 else Single()


def _tpu_strategy(device: DeviceChoice) -> Any:
    address = device.address
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        tpu=address.name, zone=address.zone, project=address.project
    )
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _tensorflow_devices(device: DeviceChoice) -> list[str]:
    """The first so many GPUs, or logical CPUs that are made here."""
    if device.kind == "cpu":
        processor = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * (device.replicas or 1)
        # Too late where something ran in this process before; then what it left must do.
        with contextlib.suppress(RuntimeError):
            tf.config.set_logical_device_configuration(processor, parts)
    names = [item.name.removeprefix("/device:") for item in tf.config.list_logical_devices(device.kind.upper())]
    wanted = device.replicas or len(names)
    if len(names) < wanted:
        raise DeviceError(
            f"{wanted} replicas need as many devices; TensorFlow has {len(names)}: {', '.join(names)}. Train in a "
            "worker process (without inline), before anything else ran"
        )
    return names[:wanted]
