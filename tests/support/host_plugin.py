"""A plugin whose models do what a TPU cannot: `calls_host` leaves the device, `picks_pixels` has an open shape."""

from __future__ import annotations

import workbench


def _model(layer_class, image_shape, num_classes, name):
    import keras

    images = keras.Input(image_shape)
    x = keras.layers.GlobalAveragePooling2D()(layer_class(name=name)(images))
    return keras.Model(images, keras.layers.Dense(num_classes, activation="softmax")(x))


def _calls_host(hp, image_shape, num_classes):
    import keras

    class Halve(keras.layers.Layer):
        def call(self, inputs):
            if keras.backend.backend() == "jax":
                import jax

                # What plots or logs from inside a model would do.
                jax.debug.callback(lambda values: None, inputs[0, 0, 0, 0])
            return inputs / 2

    return _model(Halve, image_shape, num_classes, "halve")


def _picks_pixels(hp, image_shape, num_classes):
    import keras

    class Pick(keras.layers.Layer):
        def compute_output_spec(self, inputs):
            return keras.KerasTensor(inputs.shape, inputs.dtype)

        def call(self, inputs):
            count = len(keras.ops.nonzero(inputs)[0])
            return inputs / count

    return _model(Pick, image_shape, num_classes, "pick")


@workbench.hookimpl
def workbench_models():
    return [
        workbench.Model(name="calls_host", summary="Calls the host.", build=_calls_host),
        workbench.Model(name="picks_pixels", summary="Counts what is not zero.", build=_picks_pixels),
    ]
