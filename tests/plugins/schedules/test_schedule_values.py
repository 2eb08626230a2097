"""Published and hand-computed learning rates."""

import keras_tuner
import numpy as np
import pytest
from workbench_plugins.schedules import constant, one_cycle, ramp_exponential, step_decay, warmup_cosine


def build(module, steps_per_epoch, total_epochs, **values):
    (component,) = module.workbench_schedules()
    hp = keras_tuner.HyperParameters()
    hp.values = {f"{component.name}/{name}": value for name, value in values.items()}
    with hp.name_scope(component.name):
        return component.build(hp, steps_per_epoch, total_epochs)


def rates_at(schedule, steps):
    return [float(schedule(step)) for step in steps]


PUBLISHED = [1e-5, 8.8e-5, 1.66e-4, 2.44e-4, 3.22e-4, 4e-4, 3.22e-4, 2.596e-4]


@pytest.mark.parametrize("step_in_epoch", [0, 1, 12])
def test_ramp_exponential_has_the_published_rates_throughout_each_epoch(step_in_epoch):
    schedule = build(ramp_exponential, 13, 12)
    steps = [13 * epoch + step_in_epoch for epoch in range(8)]
    np.testing.assert_allclose(rates_at(schedule, steps), PUBLISHED, rtol=1e-6)


def test_ramp_exponential_keeps_to_whole_epochs_at_any_number_of_steps():
    """Float32 division puts some first steps of an epoch into the one before."""
    for steps_per_epoch in (3, 7, 41, 49, 351):
        schedule = build(ramp_exponential, steps_per_epoch, 60)
        firsts = rates_at(schedule, [steps_per_epoch * epoch for epoch in (5, 6, 47)])
        lasts = rates_at(schedule, [steps_per_epoch * (epoch + 1) - 1 for epoch in (5, 6, 47)])
        assert firsts == lasts
        assert firsts[0] > firsts[1] > firsts[2]


def test_ramp_exponential_scales_with_the_peak():
    schedule = build(ramp_exponential, 1, 12, learning_rate=4e-3)
    np.testing.assert_allclose(rates_at(schedule, range(8)), [10 * rate for rate in PUBLISHED], rtol=1e-6)


def test_ramp_exponential_has_floor_and_start_of_their_own():
    schedule = build(ramp_exponential, 1, 400, start_fraction=0.5, floor_fraction=0.1)
    np.testing.assert_allclose(rates_at(schedule, [0, 5, 399]), [2e-4, 4e-4, 4e-5], rtol=1e-6)


@pytest.mark.parametrize(
    ("total_epochs", "expected"),
    [(1, [4e-4]), (2, [1e-5, 4e-4]), (4, [1e-5, 2.05e-4, 4e-4, 3.22e-4])],
)
def test_ramp_exponential_ramps_for_at_most_half_of_the_budget(total_epochs, expected):
    schedule = build(ramp_exponential, 1, total_epochs)
    np.testing.assert_allclose(rates_at(schedule, range(total_epochs)), expected, rtol=1e-6)


def test_constant_is_adams_rate_to_the_last_step():
    np.testing.assert_allclose(rates_at(build(constant, 1000, 500), [0, 1, 500_000]), 1e-3, rtol=1e-6)


def test_warmup_cosine_rises_linearly_and_falls_by_a_cosine():
    schedule = build(warmup_cosine, 10, 25, learning_rate=1e-3, floor_fraction=0.01)
    expected = [1e-5, (1e-5 + 1e-3) / 2, 1e-3, (1e-3 + 1e-5) / 2, 1e-5]
    np.testing.assert_allclose(rates_at(schedule, [0, 25, 50, 150, 250]), expected, rtol=1e-5)


def test_warmup_cosine_without_warmup_starts_at_the_peak():
    assert float(build(warmup_cosine, 10, 25, warmup_epochs=0)(0)) == pytest.approx(1e-3, rel=1e-6)


def test_one_cycle_rises_and_falls_linearly_then_goes_far_down():
    schedule = build(one_cycle, 10, 10, learning_rate=1e-2)
    steps = [0, 45, 90, 95, 100, 1000]
    expected = [1e-3, 1e-2, 1e-3, (1e-3 + 1e-5) / 2, 1e-5, 1e-5]
    np.testing.assert_allclose(rates_at(schedule, steps), expected, rtol=1e-4)
    assert float(schedule(30)) == pytest.approx(float(schedule(60)), rel=1e-5)


def test_step_decay_drops_at_half_and_three_quarters_of_the_steps():
    schedule = build(step_decay, 10, 10)
    expected = [1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5]
    np.testing.assert_allclose(rates_at(schedule, [0, 49, 50, 74, 75, 100]), expected, rtol=1e-6)


def test_step_decay_gives_even_one_step_the_first_rate():
    assert float(build(step_decay, 1, 1)(0)) == pytest.approx(1e-3, rel=1e-6)
