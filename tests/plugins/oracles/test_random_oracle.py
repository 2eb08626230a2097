import keras_tuner
import numpy as np
from workbench_plugins.oracles import random


def test_draws_in_the_sampling_of_the_hyperparameter():
    hp = keras_tuner.HyperParameters()
    hp.Float("rate", 1e-4, 1, sampling="log")
    proposer = random.create({})
    rates = [
        proposer.propose(hp, [], np.random.default_rng(seed), direction="max", max_epochs=1).values["rate"]
        for seed in range(400)
    ]
    below = np.mean(np.array(rates) < 1e-2)
    assert 0.4 < below < 0.6  # four standard deviations; 0.01 if drawn linearly
