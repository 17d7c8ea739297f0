"""Statistics of golden data, and what the statistics of two tensors prove."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from goldwatch.base.errors import NotComparable
from goldwatch.dumps.statistics_csv import Statistics
from goldwatch.dumps.tensor_statistics import (
    LEAST,
    MEAN,
    NORM,
    NOT_FINITE,
    RANGE,
    differences,
    remarkable_values,
    statistics_as_golden,
    statistics_of,
)
from goldwatch.tensors.tensor import Tensor

# Values that float32 has: the squares of smaller ones are 0, and so is what a device would tell of
# them.
FLOATS = arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32))


def told(values, printed=False):
    """Return what a device tells of an array, by the obvious formulas."""
    shown = (lambda value: float("%g" % value)) if printed else float
    finite = values[np.isfinite(values)]
    return Statistics(
        elements=values.size, max=shown(np.nanmax(values)), min=shown(np.nanmin(values)),
        mean=shown(values.mean()),
        norm=shown(np.linalg.norm(finite)), nan=int(np.isnan(values).sum()),
        negative_inf=int((values == -np.inf).sum()),
        positive_inf=int((values == np.inf).sum()),
    )  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(FLOATS, st.integers(0, 99), st.booleans())
def test_the_distance_proven_by_statistics_is_never_above_the_real_one(golden, seed, printed):
    target = (
        golden + np.random.RandomState(seed).standard_normal(golden.size) * np.abs(golden).max()
    )
    found = differences(told(target, printed), statistics_of(Tensor.from_array(golden)))
    # Squares of small numbers have few digits left.
    scale = np.abs(golden).max() or 1.0
    norm = np.linalg.norm(golden / scale)
    distance = np.linalg.norm((target - golden) / scale) / norm if norm else math.inf
    assert found[LEAST] <= distance * (1 + 1e-9) + 1e-12
    assert found[NOT_FINITE] == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.bool_])
def test_golden_statistics_equal_those_of_all_elements(dtype):
    values = (np.random.RandomState(0).standard_normal((700, 800)) * 3).astype(dtype)
    wide = values.astype(np.float64)
    known = statistics_of(Tensor.from_array(values))
    assert known[:3] == (wide.size, wide.max(), wide.min())
    assert known.mean == pytest.approx(wide.mean(), abs=1e-12)
    assert known.norm == pytest.approx(np.linalg.norm(wide), rel=1e-12)


def test_values_not_finite_are_counted_and_left_out_of_statistics():
    known = statistics_of(Tensor.from_array(np.array([1, np.nan, np.inf, -3], np.float32)))
    assert known[:7] == (4, np.inf, -3.0, -1.0, math.sqrt(10), 1, 1)
    with pytest.raises(NotComparable):
        statistics_of(Tensor.from_array(np.array([1j])))


@pytest.mark.parametrize("dtype, values, expected", [
    ("float16", [1.0, 1 + 2.0**-11, 1e-9], [1.0, 1.0, 0.0]),
    ("float16", [-3.4e38, 70000.0], [-65504.0, 65504.0]),
    ("bfloat16", [1.0 + 2.0**-9, 3.0], [1.0, 3.0]),
])  # fmt: skip
def test_golden_elements_are_rounded_to_the_devices_type(dtype, values, expected):
    known = statistics_of(Tensor.from_array(np.array(values, np.float32)), dtype)
    assert known[1:4] == (max(expected), min(expected), pytest.approx(np.mean(expected)))


def test_padding_counts_as_zeros_and_does_not_hide_a_difference():
    golden = np.array([2.0, 4.0])
    padded = told(np.array([2.0, 4.0, 0.0, 0.0]))
    found = differences(padded, statistics_of(Tensor.from_array(golden)), padded=2)
    assert found[MEAN] == found[NORM] == found[RANGE] == 0 and LEAST not in found
    worse = padded._replace(mean=1.8)
    assert differences(worse, statistics_of(Tensor.from_array(golden)), padded=2)[MEAN] > 0.1


def test_nothing_else_is_measured_where_one_side_has_nan_or_inf():
    golden = np.array([1.0, 2.0, 3.0, 4.0])
    found = differences(
        told(np.array([1.0, np.nan, 3.0, 4.0])), statistics_of(Tensor.from_array(golden))
    )
    assert found == {NOT_FINITE: 0.25}
    # A mask that the device's type has no number for may be infinite there.
    masked = statistics_of(Tensor.from_array(np.array([1.0, -1e30])), "float16")
    assert differences(told(np.array([1.0, -np.inf])), masked)[NOT_FINITE] == 0


def test_golden_statistics_without_a_norm_make_nobody_fail():
    values = np.random.RandomState(0).standard_normal(500)
    full = told(values)
    for lacking in (
        full._replace(norm=None),
        full._replace(mean=None),
        full._replace(norm=None, mean=None),
    ):
        found = differences(full, statistics_as_golden(lacking, 500))
        assert found[LEAST] == found[RANGE] == 0, lacking
        assert (NORM in found, MEAN in found) == (
            lacking.norm is not None,
            lacking.mean is not None,
        )
        assert (
            differences(full._replace(max=full.max + 9), statistics_as_golden(lacking, 500))[LEAST]
            > 0.1
        )
    assert LEAST not in differences(full, statistics_as_golden(Statistics(mean=full.mean), 500))


def test_nan_in_statistics_is_seen_without_a_nan_count():
    counted = told(np.array([1.0, np.nan]))
    bare = Statistics(max=math.nan, min=math.nan, norm=1.0)
    golden = np.array([1.0, 2.0])
    assert differences(bare, statistics_of(Tensor.from_array(golden))) == {NOT_FINITE: 0.5}
    for target, other in ((bare, counted), (counted, bare), (bare, bare)):
        assert differences(target, statistics_as_golden(other, 2))[NOT_FINITE] == 0


def test_nan_saturation_and_constants_are_called_remarkable():
    for values, dtype, expected in (
        ([np.nan, 1.0, np.inf], "float16", {0: "1 NaN", 1: "1 Inf"}),
        ([65504.0, 1.0], "float16", {2: "65504, the largest number of float16"}),
        ([65504.0, 1.0], "float32", {}),
        ([0.0] * 3, "float16", {3: "nothing but 0"}),
        ([7.0] * 3, "int32", {4: "one value throughout, 7"}),
        ([0.0], "float16", {}),
    ):
        assert remarkable_values(told(np.array(values)), dtype) == expected
