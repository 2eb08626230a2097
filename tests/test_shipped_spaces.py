"""The search spaces of the shipped searches: every override takes hold, and the default point is the published one."""

from __future__ import annotations

import pytest

from workbench.costs import count_flops
from workbench.definition import load_definition
from workbench.hypermodel import ClassifierHyperModel, overrides_of
from workbench.registry import Registry
from workbench.space import SearchSpace, explore

# Parameters do not depend on the image size where the network ends in an average over the places.
SMALL = [
    ("quickstart", (8, 8, 1), 10, None),
    ("cifar10_convnet", (32, 32, 3), 10, 1_676_982),
    ("flowers_squeezenet", (64, 64, 3), 5, 120_613),
    pytest.param("flowers_xception", (72, 72, 3), 5, 20_871_725, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def registry():
    return Registry.load(environ={})


def hypermodel(name, registry, shape, classes):
    return ClassifierHyperModel.of(
        load_definition(name), registry, image_shape=shape, num_classes=classes, steps_per_epoch=20
    )


@pytest.mark.parametrize(("name", "shape", "classes", "parameters"), SMALL)
def test_every_override_matches_and_the_default_point_is_the_published_one(name, shape, classes, parameters, registry):
    built = []

    def build(hp):
        network = hypermodel(name, registry, shape, classes).build(hp)
        built.append(network)
        return network

    # Raises for an override that matches nothing or does not fit.
    space = explore(build, overrides_of(load_definition(name)))
    default = built[0].model
    if parameters is not None:
        assert default.count_params() == parameters
    most = load_definition(name).constraints.max_parameters
    assert most is None or default.count_params() <= most
    assert count_flops(default)[1] == []
    if name != "quickstart":
        assert space.values["training/optimizer"] == "adam"
        assert space.values["training/weight_decay"] == 0.0
        assert space.values.get("augmentation", "none") == "none"


@pytest.mark.parametrize(
    ("name", "rate"), [("cifar10_convnet", 1e-3), ("flowers_squeezenet", 1e-3), ("flowers_xception", 4e-4)]
)
def test_the_published_learning_rate(name, rate, registry):
    component = registry.find("schedule", load_definition(name).schedule.names[0])
    tables = overrides_of(load_definition(name))

    def build(hp):
        with hp.name_scope(component.name):
            return component.build(hp, 20, 12)

    space = SearchSpace(tables)
    build(space)
    assert space.values[f"{component.name}/learning_rate"] == pytest.approx(rate)
