"""Search algorithms: the pure protocol, and its Keras Tuner wrapper."""
