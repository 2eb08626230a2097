import pytest

from workbench.oracles.options import check_names, real_number, whole_number


def test_reads_what_is_given_and_else_the_default():
    assert whole_number({"factor": 4}, "factor", 3, least=2) == 4
    assert whole_number({}, "factor", 3, least=2) == 3
    assert real_number({"beta": 1}, "beta", 2.6, above=0) == 1.0
    assert real_number({}, "beta", 2.6, above=0) == 2.6


@pytest.mark.parametrize("value", [1, 2.0, True, "3", None])
def test_refuses_what_is_not_a_whole_number_in_range(value):
    with pytest.raises(ValueError, match=rf"factor must be a whole number of at least 2; received {value!r}"):
        whole_number({"factor": value}, "factor", 3, least=2)


@pytest.mark.parametrize("value", [0, -1.5, True, "3", float("nan"), float("inf")])
def test_refuses_what_is_not_a_number_in_range(value):
    with pytest.raises(ValueError, match=rf"beta must be a finite number greater than 0; received {value!r}"):
        real_number({"beta": value}, "beta", 2.6, above=0)


def test_an_unknown_option_is_named_with_those_there_are_and_a_near_one():
    with pytest.raises(ValueError, match=r"has no option 'fator'; it takes factor, size\. Did you mean 'factor'"):
        check_names({"fator": 3}, ["size", "factor"], "hyperband")
    with pytest.raises(ValueError, match="it takes no options"):
        check_names({"x": 3}, [], "random")
