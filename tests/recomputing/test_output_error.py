"""The distance of an output from its computed values, against definitions element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goldwatch.judging.by_recomputation import excess
from goldwatch.metrics.patterns import AlignedPair
from goldwatch.operators import ONNX, Arithmetic, CannotCompute, Node, Value
from goldwatch.recomputing import output_error
from goldwatch.recomputing.formulas_by_type import NodeFormula
from goldwatch.recomputing.formulas_fitted_to_golden import made_by, recomputed_by_golden
from goldwatch.recomputing.output_error import own_error
from goldwatch.tensors.type_precision import ulp


def slow(x, y, error, dtype):
    """Ratio, worst slice, worst element and odd ones; y and error float64 of one shape."""
    both = np.isfinite(x) & np.isfinite(y)
    steps = [float(ulp(np.float64(b), dtype)) / math.sqrt(12) for b in y.flat]
    unit = [math.hypot(step, e) if ok else 0.0 for step, e, ok in zip(steps, error.flat, both.flat)]
    off = [abs(float(a) - b) if ok else 0.0 for a, b, ok in zip(x.flat, y.flat, both.flat)]
    squares = [math.fsum(value**2 for value in side) for side in (off, unit)]
    whole = math.sqrt(squares[1] / both.sum())
    slices = []
    for axis in range(x.ndim):
        places = np.moveaxis(np.arange(x.size).reshape(x.shape), axis, 0).reshape(x.shape[axis], -1)
        slices += [
            math.sqrt(
                math.fsum(off[n] ** 2 for n in row)
                / math.fsum(unit[n] ** 2 + (0.1 * whole) ** 2 for n in row)
            )
            for row in places
        ]
    worst = [o / math.hypot(u, whole) for o, u in zip(off, unit)]
    return math.sqrt(squares[0] / squares[1]), max(slices), max(worst), worst.index(max(worst))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("block", [1 << 15, 7])
@pytest.mark.parametrize("spoiled", [False, True])
def test_errors_equal_their_definitions(monkeypatch, dtype, block, spoiled):
    monkeypatch.setattr(output_error, "_BLOCK", block)
    random = np.random.RandomState(5)
    y = random.standard_normal((3, 4, 5)) * np.exp(random.standard_normal((3, 4, 5)))
    error = np.abs(random.standard_normal(y.shape)) * 1e-3
    x = (y + 2e-3 * random.standard_normal(y.shape)).astype(np.float32)
    if spoiled:
        x[0, 1, 2], x[2, 0, 0], y[1, 1, 1] = np.nan, np.inf, np.nan
    found = own_error(x, Value(y, error), dtype)
    ratio, slices, worst, at = slow(x.astype(np.float64), y, error, dtype)
    assert (found.ratio, found.slice_ratio, found.worst) == tuple(
        pytest.approx(value, rel=1e-9) for value in (ratio, slices, worst)
    )
    # Where NaN was computed nothing can be told.
    assert (found.worst_at, found.not_finite, found.elements) == (
        at,
        2 if spoiled else 0,
        57 if spoiled else 60,
    )
    both = np.isfinite(x) & np.isfinite(y)
    a, b = x[both].astype(np.float64), y[both]
    noise = [
        math.hypot(float(ulp(np.float64(value), dtype)) / math.sqrt(12), e)
        for value, e in zip(b, error[both])
    ]
    size = math.fsum(b * b)
    assert found.factor == pytest.approx(math.fsum(a * b) / size, rel=1e-9)
    assert found.factor_deviation == pytest.approx(
        math.sqrt(math.fsum((n * value) ** 2 for n, value in zip(noise, b))) / size, rel=1e-6
    )
    assert found.rms == pytest.approx(math.sqrt(size / both.sum()), rel=1e-9)


@pytest.mark.parametrize("shape", [(), (0,), (1, 1)])
def test_one_element_or_none_has_no_error(shape):
    values = np.full(shape, 2.0)
    found = own_error(values.astype(np.float16), Value(values), "float16")
    assert (found.distance, found.ratio, found.worst, found.not_finite, found.elements) == (
        0.0,
        0.0,
        0.0,
        0,
        values.size,
    )


@pytest.mark.parametrize(
    "x, y, odd",
    [
        (65504.0, 1e5, 1),
        (65504.0, 66000.0, 0),
        (np.inf, 65519.0, 0),
        (np.inf, 6e4, 1),
        (np.inf, -np.inf, 1),
        (6e4, np.inf, 1),
    ],
)
def test_values_at_the_end_of_the_range_may_overflow(x, y, odd):
    assert own_error(np.array([1.0, x]), Value(np.array([1.0, y])), "float16").not_finite == odd


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_float64_values_whose_squares_overflow_are_measured(scale):
    values = np.linspace(1, 2, 8) * scale
    found = own_error(values * 1.001, Value(values), "float64")
    assert found.worst > 24 and found.not_finite == 0


@pytest.mark.parametrize(
    ("computed", "device", "odd"),
    [
        (-1e9, -np.inf, 0),  # a mask of attention scores
        (np.finfo(np.float32).min, -np.inf, 0),
        (-1e9, -65504.0, 0),
        (-1e9, 3.0, 0),  # finite on both sides: its distance tells
        (-70000.0, -np.inf, 1),  # overflow of a value
        (1e9, np.inf, 1),
        (-1e9, np.inf, 1),
        (-1e9, np.nan, 1),
    ],
)
def test_masks_stored_as_infinity_in_float16_are_not_overflow(computed, device, odd):
    rest = np.linspace(-2, 2, 7)
    expected = np.append(rest, computed).reshape(2, 4)
    actual = np.append(rest, device).astype(np.float16).reshape(2, 4)
    assert own_error(actual, Value(expected), "float16").not_finite == odd


@pytest.mark.parametrize("off, right", [(1e-6, True), (1e-4, False)])
def test_errors_below_the_precision_of_float32_golden_data_accuse_nobody(off, right):
    x = np.linspace(-2.9999, 2.9999, 512, dtype=np.float32).reshape(1, 512)
    golden = np.clip(x / np.float32(6) + np.float32(0.5), 0, 1)
    sides = [
        AlignedPair(x, x, "float32", ("N", "C"), x.size),
        AlignedPair(golden + np.float32(off), golden, "float32", ("N", "C"), x.size),
    ]
    found = recomputed_by_golden("HardSigmoid", sides[:1], sides[1], None, None)
    assert (excess(found.tight) <= 1.0) == right


@pytest.mark.parametrize("kind", ["Add", "Greater", "MatMul"])
def test_inputs_that_make_more_elements_than_the_output_has_are_not_computed(kind):
    column = Value(np.ones((1_000_000, 1), np.float32))
    line = Value(np.ones((1, 1_000_000), np.float32))
    formula = NodeFormula(Node(ONNX, kind, {}, "", 20))
    with pytest.raises(CannotCompute, match="it makes 1000000000000 elements, not"):
        made_by(formula, [column, line], Arithmetic(), (1_000_000,))
    few = [Value(np.ones((3, 1), np.float32)), Value(np.ones((1, 4), np.float32))]
    assert made_by(formula, few, Arithmetic(), (12,)).array.shape == (12,)
