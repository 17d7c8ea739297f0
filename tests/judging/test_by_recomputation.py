"""Verdicts by computed outputs: their limits, and a device's arithmetic as its other operators show
it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from goldwatch.judging import by_recomputation
from goldwatch.judging.by_recomputation import (
    MOST_ELEMENT,
    MOST_RATIO,
    MOST_SLICE,
    RIGHT,
    UNKNOWN,
    WRONG,
    excess,
)
from goldwatch.recomputing.output_error import OwnError
from goldwatch.recomputing.recomputed_output import MOVE, SUM, VECTOR, Recomputed


def own(
    ratio=1.0, slice_ratio=1.0, worst=1.0, odd=0, unequal=0, factor=1.0, deviation=1e-5, rms=1.0
):
    return OwnError(
        0.01, ratio, slice_ratio, worst, 0, odd, unequal, factor, deviation, 0.001, 100, rms
    )


def judged(outputs):
    """Judge outputs by the names of their operators."""
    return by_recomputation.judge_recomputed(
        {name: replace(one, op=name) for name, one in outputs.items()}
    )


def output(tight, loose=None, kind=SUM, dtype="float16"):
    return Recomputed("op", "MatMul", 0, kind, dtype, tight, loose)


@pytest.mark.parametrize(
    "error, times",
    [
        (own(2 * MOST_RATIO), 2.0),
        (own(slice_ratio=3 * MOST_SLICE), 3.0),
        (own(worst=4 * MOST_ELEMENT), 4.0),
        (own(odd=1), math.inf),
        (own(unequal=1), math.inf),
        (own(MOST_RATIO, MOST_SLICE, MOST_ELEMENT), 1.0),
    ],
)
def test_the_largest_excess_over_a_limit_counts(error, times):
    assert excess(error) == pytest.approx(times)
    state = judged({"a": output(error)})["a"]
    assert (state.state, state.times) == (RIGHT if times <= 1 else WRONG, pytest.approx(times))


def test_a_moved_value_may_be_rounded_once_only():
    assert excess(own(worst=1.7), moves=True) <= 1.0 < excess(own(worst=2.1), moves=True)
    assert judged({"a": output(own(worst=2.1), kind=MOVE)})["a"].state == WRONG


def test_an_output_that_could_not_be_computed_is_unknown():
    found = judged({"a": Recomputed("op", "If", 0, reason="it has a body")})["a"]
    assert (found.state, found.reason) == (UNKNOWN, "it has a body")


COARSE = output(own(10.0), own(1.0))
"""Ten times what float32 inside explains, and just what float16 inside explains."""


def test_a_device_that_sums_in_its_own_type_is_right_when_all_operators_show_it():
    assert {one.state for one in judged({name: COARSE for name in "abcd"}).values()} == {RIGHT}


@pytest.mark.parametrize("others", [2, 5])
def test_one_coarse_operator_among_finer_ones_is_wrong(others):
    run = {str(number): output(own(1.0), None) for number in range(others)}
    found = judged({**run, "alone": COARSE})
    assert found.pop("alone").state == WRONG and {one.state for one in found.values()} == {RIGHT}


@pytest.mark.parametrize(
    "other", [output(own(1.0), None, VECTOR), output(own(1.0), None, SUM, "float32")]
)
def test_operators_of_another_kind_or_type_do_not_make_one_wrong(other):
    run = {str(number): other for number in range(5)}
    assert judged({**run, "alone": COARSE})["alone"].state == RIGHT


def test_too_few_other_operators_do_not_make_one_wrong():
    assert judged({"one": output(own(1.0)), "alone": COARSE})["alone"].state == RIGHT


def test_an_error_beyond_the_coarser_arithmetic_is_wrong_on_any_device():
    run = {str(number): COARSE for number in range(5)}
    assert judged({**run, "wrong": output(own(100.0), own(10.0))})["wrong"].state == WRONG


def test_the_coarser_error_is_allowed_as_far_as_the_others_show_it():
    """Others show a fifth of the coarser error: ratio r with r² = 1 + 0.2² (10² - 1)."""
    shown = math.sqrt(1 + 0.2**2 * (10**2 - 1))
    run = {str(number): output(own(shown), own(shown / 10)) for number in range(5)}
    right, wrong = (output(own(shown * times), own(shown * times / 10)) for times in (3.5, 4.5))
    found = judged({**run, "right": right, "wrong": wrong})
    assert (found["right"].state, found["wrong"].state) == (RIGHT, WRONG)


HALF_STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def among(others, one, dtype="float16"):
    """Judge an output among others of its kind and type."""
    run = {
        str(number): output(own(factor=factor), None, dtype=dtype)
        for number, factor in enumerate(others)
    }
    return judged({**run, "one": output(one, dtype=dtype)})["one"]


@pytest.mark.parametrize("dtype", sorted(HALF_STEP))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_common_factor_is_wrong_though_rounding_would_explain_its_size(dtype, sign):
    right, wrong = (own(factor=1 + sign * steps * HALF_STEP[dtype]) for steps in (1.9, 2.5))
    assert among([1.0, 1.0], right, dtype).state == RIGHT
    found = among([1.0, 1.0], wrong, dtype)
    assert (found.state, found.own_error) == (WRONG, wrong)
    assert 2 * HALF_STEP[dtype] <= found.factor < abs(wrong.factor - 1) and found.times > 1


def test_a_factor_over_few_elements_is_noise():
    assert among([1.0, 1.0], own(factor=1.01, deviation=2e-3)).state == RIGHT
    assert among([1.0, 1.0], own(factor=1.02, deviation=2e-3)).state == WRONG


def test_a_larger_factor_is_allowed_for_values_below_the_steps_of_the_type():
    assert among([1.0, 1.0], own(factor=0.96, rms=2.0**-20)).state == RIGHT
    assert among([1.0, 1.0], own(factor=0.96, rms=2.0**-10)).state == WRONG


def test_a_device_that_truncates_its_sums_may_shrink_all_outputs():
    """Half-step by half-step: others at 4 and 5 grant an operator 8; where one alone shrinks it is
    wrong, and a second does not hide it.
    """
    of = [1 - steps * HALF_STEP["float16"] for steps in (4, 5, 6, 12)]
    assert among([1.0, of[0], of[1]], own(factor=of[2])).state == RIGHT
    assert among([1.0, of[0], of[1]], own(factor=of[3])).state == WRONG
    assert among([1.0, 1.0, of[3]], own(factor=of[2])).state == WRONG


def test_among_too_few_operators_only_what_grows_is_wrong_by_a_factor():
    """Sums that are cut off shrink."""
    assert among([1.0], own(factor=0.99)).state == RIGHT
    assert among([1.0], own(factor=1.01)).state == WRONG
    assert among([1.0], own(factor=1.0009)).state == RIGHT


def test_factors_of_float32_and_moved_outputs_are_not_judged():
    assert among([1.0, 1.0], own(factor=1.01), "float32").state == RIGHT
    run = {str(number): output(own()) for number in range(3)}
    assert judged({**run, "moved": output(own(factor=1.01), kind=MOVE)})["moved"].state == RIGHT
