"""What holds for every registered learning rate schedule."""

import subprocess
import sys

import keras
import keras_tuner
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench_plugins.schedules import constant, one_cycle, ramp_exponential, step_decay, warmup_cosine

from workbench import Schedule
from workbench.registry import Registry

MODULES = (constant, one_cycle, ramp_exponential, step_decay, warmup_cosine)


def all_schedules() -> list[Schedule]:
    return [item.component for item in Registry.load(environ={}).registered("schedule")]


@pytest.fixture(params=all_schedules(), ids=lambda schedule: schedule.name)
def schedule(request):
    return request.param


def build(schedule, hp=None, steps_per_epoch=10, total_epochs=12):
    hp = hp or keras_tuner.HyperParameters()
    with hp.name_scope(schedule.name):
        return schedule.build(hp, steps_per_epoch, total_epochs)


def explored(schedule):
    hp = keras_tuner.HyperParameters()
    build(schedule, hp)
    return hp


def test_gives_a_keras_schedule_that_starts_from_a_float32_scalar(schedule):
    rates = build(schedule)
    assert isinstance(rates, keras.optimizers.schedules.LearningRateSchedule)
    rate = keras.ops.convert_to_tensor(rates(0))
    assert keras.backend.standardize_dtype(rate.dtype) == "float32"
    assert tuple(rate.shape) == ()


def test_peaks_at_the_declared_learning_rate(schedule):
    hp = explored(schedule)
    name = f"{schedule.name}/learning_rate"
    for learning_rate in (hp.get(name), 2e-3):
        hp.values[name] = learning_rate
        rates = build(schedule, hp, steps_per_epoch=20, total_epochs=20)
        np.testing.assert_allclose(max(float(rates(step)) for step in range(401)), learning_rate, rtol=1e-5)


@pytest.mark.parametrize("component", all_schedules(), ids=lambda schedule: schedule.name)
@settings(max_examples=15, deadline=None)
@given(steps_per_epoch=st.integers(1, 40), total_epochs=st.integers(1, 12), seed=st.integers(0, 2**31 - 1))
def test_is_positive_and_at_most_the_peak_at_every_step(component, steps_per_epoch, total_epochs, seed):
    hp = explored(component)
    for number, each in enumerate(hp.space):
        hp.values[each.name] = each.random_sample(seed + number)
    rates = build(component, hp, steps_per_epoch, total_epochs)
    total_steps = steps_per_epoch * total_epochs
    steps = {*range(min(total_steps, 3)), *range(0, total_steps, max(total_steps // 16, 1)), total_steps}
    for step in sorted(steps):
        assert 0 < float(rates(step)) <= hp.get(f"{component.name}/learning_rate") * (1 + 1e-6)


@pytest.mark.parametrize("total_epochs", [1, 2, 3])
def test_short_budgets_learn_from_the_first_epoch_on(schedule, total_epochs):
    """At least one step in the budget comes near the peak, however long the declared ramps are."""
    hp = explored(schedule)
    rates = build(schedule, hp, 10, total_epochs)
    best = max(float(rates(step)) for step in range(10 * total_epochs))
    assert best >= 0.8 * hp.get(f"{schedule.name}/learning_rate")


def test_traces_in_a_graph_and_agrees_with_eager(schedule):
    rates = build(schedule)
    traced = tf.function(lambda step: tf.convert_to_tensor(rates(step)))
    for step in (0, 9, 10, 55, 119, 120):
        assert float(traced(tf.constant(step, tf.int64))) == pytest.approx(float(rates(step)), rel=1e-5)


def test_drives_an_optimizer(schedule):
    rates = build(schedule)
    optimizer = keras.optimizers.SGD(rates)
    variable = keras.Variable(np.ones(1, np.float32))
    optimizer.build([variable])
    optimizer.apply([keras.ops.ones(1)])
    assert float(variable[0]) == pytest.approx(1 - float(rates(0)), rel=1e-6)


def test_survives_serialisation(schedule):
    rates = build(schedule)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(rates))
    assert type(again) is type(rates)
    assert [float(again(step)) for step in (0, 30, 120)] == [float(rates(step)) for step in (0, 30, 120)]


def test_defaults_lie_on_their_grids_and_names_are_declared_once(schedule):
    space = explored(schedule).space
    assert len({each.name for each in space}) == len(space)
    for each in space:
        assert each.name.startswith(f"{schedule.name}/")
        if each.step is not None:
            assert any(np.isclose(each.default, value) for value in each.values)
        assert each.min_value <= each.default <= each.max_value


def test_names_are_unique_and_those_of_the_files():
    expected = [module.__name__.rpartition(".")[2] for module in MODULES]
    assert [schedule.name for schedule in all_schedules()] == expected


def test_importing_them_imports_no_deep_learning_library():
    names = ", ".join(module.__name__ for module in MODULES)
    code = f"import sys, {names}; print({{'tensorflow', 'keras', 'keras_tuner'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
