"""WorstSliceDistance and DifferentElements against slow references, for every way that blocks are
read.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.judging.limits import Limits
from goldwatch.metrics.accumulator import Accumulator
from goldwatch.metrics.compare_blocks import compare_blocks
from goldwatch.metrics.differing_elements import sentence
from goldwatch.metrics.pair_alignment import axes_of
from goldwatch.metrics.pair_task import PairTask
from goldwatch.metrics.row import MEASURES, Row
from goldwatch.metrics.worst_slice import LEFT_TO_CHANCE, MOST_SLICES, borders, slice_axes
from goldwatch.tensors.aligned_blocks import placed_blocks
from goldwatch.tensors.geometry import match_layouts
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.tensor import Tensor

WANTED = ("RelativeEuclideanDistance", "WorstSliceDistance", "DifferentElements")


def reference(x, y, axis):
    """The definition, slice by slice, in exact sums."""
    norms, distances = [], []
    for index in range(y.shape[axis]):
        a, b = (
            np.asarray(np.take(side, index, axis), np.float64).ravel().tolist() for side in (x, y)
        )
        norms.append(math.sqrt(math.fsum(value * value for value in b)))
        distances.append(math.sqrt(math.fsum((p - q) ** 2 for p, q in zip(a, b))))
    floor = math.fsum(norms) / len(norms)
    ratios = []
    for distance, norm in zip(distances, norms):
        ratios.append(
            distance / max(norm, floor) if max(norm, floor) else (math.inf if distance else 0.0)
        )
    best = max(range(len(ratios)), key=lambda index: ratios[index])
    return ratios[best], best


def reference_by_own_size(x, y, axis):
    """The definition for outputs of a network, slice by slice."""
    sides = [np.moveaxis(side, axis, 0).reshape(y.shape[axis], -1) for side in (x - y, y)]
    errors, norms = ([math.sqrt(math.fsum(v * v for v in row)) for row in s] for s in sides)
    mean = math.fsum(norms) / len(norms)
    some = sorted(norm for norm in norms if norm > 0)
    distances = []
    for error, norm in zip(errors, norms):
        near = [other for other in some if other <= 4 * norm]
        floor = sum(near) / len(near) if near else some[len(some) // 2]
        if sides[0].shape[1] >= 16:
            floor = min(max(floor, 1e-3 * math.sqrt(sides[0].shape[1])), mean)
        else:
            floor = mean
        distances.append(error / max(norm, floor))
    return max(distances)


def measure(x, y, format="ND", channel=None, max_elements=65536, stored=None, groups=1):
    target = Tensor.from_array(x if stored is None else stored, format, sub_format=groups)
    golden = Tensor.from_array(y)
    origin = None if channel is None else {1: "NCHW", 3: "NHWC"}[channel]
    geometry = match_layouts(target, y.shape, origin, y.shape)
    axes = slice_axes(y.shape, channel)
    return compare_blocks(
        lambda: placed_blocks(target, golden, geometry, max_elements, (0, 1), borders(axes)),
        WANTED,
        axes,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.integers(0, 10**6),
    st.sampled_from([3, 16, 50, 65536]),
)
def test_the_worst_slice_of_any_axis_equals_plain_loops(shape, seed, max_elements):
    random = np.random.RandomState(seed)
    y = random.standard_normal(shape).astype(np.float32)
    x = (y + 0.1 * random.standard_normal(shape)).astype(np.float32)
    result = measure(x, y, max_elements=max_elements)
    wanted = [(reference(x, y, axis)[0], axis) for axis, size in enumerate(shape) if size > 1]
    if not wanted:
        assert (
            result.values["WorstSliceDistance"] == result.values["RelativeEuclideanDistance"]
            and result.worst_slice is None
        )
        return
    assert result.values["WorstSliceDistance"] == pytest.approx(max(wanted)[0], rel=1e-12)
    axis, index = result.worst_slice.axis, result.worst_slice.index
    assert (
        reference(x, y, axis)[0] == pytest.approx(max(wanted)[0], rel=1e-12)
        and reference(x, y, axis)[1] == index
    )


@pytest.mark.parametrize("shape", [(1, 6, 40), (40, 7), (2, 30, 17), (3, 3, 5, 19)])
@pytest.mark.parametrize("low", [-6, -2, 0])
def test_slices_of_an_output_are_measured_by_their_own_size(shape, low):
    random = np.random.RandomState(len(shape))
    for axis in range(len(shape)):
        sizes = 10.0 ** random.uniform(low, 4, shape[axis])
        sizes[0] = 0.0 if low == -6 and shape[axis] > 1 else sizes[0]
        y = np.moveaxis(np.moveaxis(random.standard_normal(shape), axis, -1) * sizes, -1, axis)
        y = np.ascontiguousarray(y)
        x = y + 0.1 * random.standard_normal(shape) * (np.abs(y) + 1e-5)
        axes = slice_axes(shape, by_own_size=True)
        target, golden = Tensor.from_array(x), Tensor.from_array(y)
        geometry = match_layouts(target, shape, None, shape)
        blocks = list(placed_blocks(target, golden, geometry, 50, (0, 1), borders(axes)))
        found = compare_blocks(lambda blocks=blocks: blocks, WANTED, axes)
        wanted = max(reference_by_own_size(x, y, number.axis) for number in axes)
        assert found.values["WorstSliceDistance"] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("channels", [3, 16, 20, 33])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 7), (30, 41)])
@pytest.mark.parametrize("channel", [1, 3])
@pytest.mark.parametrize("max_elements", [100, 65536])
def test_one_broken_channel_is_found_in_every_layout(channels, size, channel, max_elements):
    random = np.random.RandomState(channels)
    shape = (2, channels, *size) if channel == 1 else (2, *size, channels)
    y = random.standard_normal(shape).astype(np.float32)
    x = y.copy()
    np.moveaxis(x, channel, 0)[channels - 2] += np.float32(0.5)
    plain = "NCHW" if channel == 1 else "NHWC"
    for format in ("NC1HWC0", "NHWC" if channel == 1 else "NCHW", plain):
        other = np.moveaxis(x, channel, 4 - channel)
        stored = (
            convert(x, plain, format, shape)
            if format == "NC1HWC0"
            else x
            if format == plain
            else other
        )
        result = measure(x, y, format, channel, max_elements, np.ascontiguousarray(stored))
        distance, index = reference(x, y, channel)
        assert result.values["WorstSliceDistance"] == pytest.approx(distance, rel=1e-12)
        assert (
            (result.worst_slice.axis, result.worst_slice.index)
            == (channel, index)
            == (channel, channels - 2)
        )


def test_a_fortran_ordered_golden_has_the_same_worst_slice_and_places():
    random = np.random.RandomState(1)
    y = random.randint(0, 9, (4, 5, 6))
    x = y.copy()
    x[2, 3, 1] += 1
    golden = replace(
        Tensor.from_array(np.asfortranarray(y).reshape(-1, order="F")), shape=y.shape, order="F"
    )
    target = Tensor.from_array(x)
    axes = slice_axes(y.shape, None, "F")
    geometry = match_layouts(target, y.shape)
    result = compare_blocks(
        lambda: placed_blocks(target, golden, geometry, 17, (0, 1), borders(axes)), WANTED, axes
    )
    assert result.values["WorstSliceDistance"] == pytest.approx(
        max(reference(x, y, axis)[0] for axis in range(3)), rel=1e-12
    )
    assert [2, 3, 1][result.worst_slice.axis] == result.worst_slice.index
    assert "[2, 3, 1]: %d for %d" % (x[2, 3, 1], y[2, 3, 1]) in sentence(
        1, y.size, list(result.differences), y.shape, "F"
    )


def test_blocks_that_cross_slices_give_the_same_distances():
    random = np.random.RandomState(2)
    y = random.standard_normal((4, 5, 6))
    x = y + 0.1 * random.standard_normal(y.shape)
    sums = Accumulator(WANTED, slice_axes(y.shape))
    for start in range(0, 120, 7):
        sums.update(x.reshape(-1)[start : start + 7], y.reshape(-1)[start : start + 7], start, (1,))
    assert sums.result().values["WorstSliceDistance"] == pytest.approx(
        max(reference(x, y, axis)[0] for axis in range(3)), rel=1e-12
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e200, 1e300])
def test_slices_whose_squares_overflow_are_measured_right(scale):
    random = np.random.RandomState(3)
    y = random.standard_normal((6, 40)) * scale
    x = y * (1 + 0.01 * random.standard_normal(y.shape))
    x[2] *= 1.5
    near = measure(x / scale, y / scale).values["WorstSliceDistance"]
    assert measure(x, y).values["WorstSliceDistance"] == pytest.approx(near, rel=1e-9)


def test_merged_and_pickled_sums_give_the_same_bits():
    random = np.random.RandomState(4)
    y = random.standard_normal((64, 5000)).astype(np.float32)
    x = (y + 0.01 * random.standard_normal(y.shape)).astype(np.float16)
    axes = slice_axes(y.shape)
    parts = []
    for number in range(4):
        part = Accumulator(WANTED, axes)
        for row in range(16 * number, 16 * number + 16):
            part.update(x[row : row + 1], y[row : row + 1], row * 5000, (5000, 1))
        parts.append(pickle.loads(pickle.dumps(part)))
    for part in parts[1:]:
        parts[0].merge(part)
    found = parts[0].result()
    assert found.values["WorstSliceDistance"] == pytest.approx(
        measure(x, y).values["WorstSliceDistance"], rel=1e-12
    )


@pytest.mark.parametrize("mask", [-1e4, -65504.0, -np.inf])
def test_wrong_scores_do_not_hide_behind_a_mask(mask):
    random = np.random.RandomState(5)
    y = random.standard_normal((4, 32, 32)).astype(np.float32)
    masked = np.triu(np.ones((32, 32), bool), 1)
    x = y.copy()
    x[:, 5, :5] = random.standard_normal((4, 5))
    for side in (x, y):
        side[:, masked] = side[:, masked] * (0 if np.isinf(mask) else 1) + mask
    result = measure(x.astype(np.float16), y)
    rest = np.where(masked, 0, y), np.where(masked, 0, x)
    assert result.values["WorstSliceDistance"] == pytest.approx(
        max(reference(rest[1], rest[0], axis)[0] for axis in range(3)), rel=0.02
    )
    assert result.values["WorstSliceDistance"] > 0.3 and (
        result.worst_slice.axis,
        result.worst_slice.index,
    ) == (1, 5)
    if np.isfinite(mask):
        assert result.values["RelativeEuclideanDistance"] < 0.001


@pytest.mark.parametrize("scale", [1e4, 1e6])
def test_large_values_are_not_taken_for_a_mask(scale):
    random = np.random.RandomState(6)
    y = random.standard_normal((8, 64)) * scale
    x = y.copy()
    x[3] = -np.abs(x[3]) - 1e4
    y[3] = -np.abs(y[3]) - 3e4
    assert measure(x, y).values["WorstSliceDistance"] == pytest.approx(
        max(reference(x, y, axis)[0] for axis in range(2)), rel=1e-12
    )


def test_slices_that_are_masked_completely_do_not_count():
    y = np.ones((6, 8), np.float32)
    x = y * np.float32(1.1)
    x[0, 0] += 0.2
    alone = measure(x[:3], y[:3]).values["WorstSliceDistance"]
    for mask in (-1e4, -np.inf):
        x[3:], y[3:] = mask, mask
        found = measure(x, y)
        assert found.worst_slice.axis == 1 and found.values["WorstSliceDistance"] == pytest.approx(
            alone, rel=1e-6
        )
    x[4:], y[4:] = -1e4, -1e4
    assert measure(x, y).values["WorstSliceDistance"] == pytest.approx(alone, rel=1e-6)


def test_a_mask_tensor_itself_is_compared_by_slices():
    y = np.where(np.eye(6, dtype=bool), 0.0, -1e4).astype(np.float32)
    x = y.copy()
    x[2, 3] = -2e4
    assert measure(x, y).values["WorstSliceDistance"] == pytest.approx(
        max(reference(x, y, axis)[0] for axis in range(2)), rel=1e-12
    )


def test_nan_at_the_same_places_is_left_out_of_slices():
    y = np.ones((4, 8), np.float32)
    y[0, 0] = np.nan
    x = y.copy()
    x[2] = 1.5
    filled = np.nan_to_num(x), np.nan_to_num(y)
    assert measure(x, y).values["WorstSliceDistance"] == pytest.approx(
        max(reference(*filled, axis)[0] for axis in range(2)), rel=1e-12
    )


def test_slices_of_complex_numbers_bools_and_empty_tensors_are_measured():
    y = np.array([[1 + 1j, 2], [3, 4j]], np.complex64)
    x = y.copy()
    x[1, 0] += 0.5j
    parts = [np.stack([side.real, side.imag], -1) for side in (x, y)]
    assert measure(x, y).values["WorstSliceDistance"] == pytest.approx(
        max(reference(*parts, axis)[0] for axis in range(2)), rel=1e-7
    )
    assert math.isnan(
        measure(np.array([True, False]), np.array([True, True])).values["WorstSliceDistance"]
    )
    assert math.isnan(measure(np.zeros((0, 3)), np.zeros((0, 3))).values["WorstSliceDistance"])
    assert measure(np.ones((2, 3)), np.zeros((2, 3))).values["WorstSliceDistance"] == math.inf
    assert measure(np.zeros((2, 3)), np.zeros((2, 3))).values["WorstSliceDistance"] == 0.0


def test_only_axes_with_few_enough_slices_are_measured():
    assert [axis.axis for axis in slice_axes((1, 5, 7))] == [1, 2]
    assert [(axis.axis, axis.size, axis.inner) for axis in slice_axes((2, 64, 7, 7), 1)] == [
        (1, 64, 49)
    ]
    assert [axis.axis for axis in slice_axes((2, 1, 7, 7), 1)] == [0, 2, 3]
    assert slice_axes(()) == slice_axes((1, 1)) == ()
    assert [axis.axis for axis in slice_axes((MOST_SLICES + 1, 2))] == [1]


@pytest.mark.parametrize(
    "format, origin, golden, axis",
    [
        ("ND", "NCHW", (1, 8, 3, 3), 1),
        ("ND", "NHWC", (1, 3, 3, 8), 3),
        ("ND", "ND", (2, 8, 3, 3), None),
        ("NCHW", None, (2, 8, 3, 3), 1),
    ],
)
def test_the_channel_axis_is_that_of_the_golden(tmp_path, format, origin, golden, axis):
    target, other = (
        Tensor.from_array(np.zeros(golden, np.float16), format),
        Tensor.from_array(np.zeros(golden, np.float32)),
    )
    task = PairTask(
        Row(index=0, op="a", op_type="A", tensor="a:output:0", kind="output", verdict="pass"),
        target,
        None,
        origin,
    )
    axes = axes_of(task, other, match_layouts(target, golden, origin))
    assert [found.axis for found in axes] == (
        [axis] if axis is not None else [n for n, size in enumerate(golden) if size > 1]
    )


def test_a_golden_without_its_dims_of_one_keeps_its_axis_numbers():
    stored = convert(np.zeros((1, 20, 1, 7), np.float16), "NCHW", "NC1HWC0", (1, 20, 1, 7))
    target, golden = (
        Tensor.from_array(stored, "NC1HWC0"),
        Tensor.from_array(np.zeros((20, 7), np.float32)),
    )
    task = PairTask(
        Row(index=0, op="a", op_type="A", tensor="a:output:0", kind="output", verdict="pass"),
        target,
        None,
        "NCHW",
        (1, 20, 1, 7),
    )
    assert [
        axis.axis
        for axis in axes_of(task, golden, match_layouts(target, (20, 7), "NCHW", (1, 20, 1, 7)))
    ] == [0]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "u8", "?"])
def test_the_share_of_differing_elements_and_the_first_places_are_given(dtype):
    y = np.zeros((3, 4, 50), dtype)
    x = y.copy()
    for place in ((2, 3, 49), (1, 0, 7), (0, 3, 3), (1, 0, 9)):
        x[place] = 1
    result = measure(x, y, max_elements=64)
    assert result.values["DifferentElements"] == 4 / 600 and result.differing == 4
    assert [np.unravel_index(found.place, y.shape) for found in result.differences] == [
        (0, 3, 3),
        (1, 0, 7),
        (1, 0, 9),
    ]
    assert all((found.target, found.golden) == (1, 0) for found in result.differences)


def test_integers_that_float64_cannot_tell_apart_differ():
    y = np.array([2**60, -(2**60), 5], np.int64)
    assert measure(y + np.array([1, 0, 0]), y).values["DifferentElements"] == pytest.approx(1 / 3)
    assert measure(y[:1], y[:1].astype(np.uint64) + np.uint64(1)).differing == 1


def test_labels_stored_as_float_count_as_integers():
    golden = np.arange(256, dtype=np.float32)
    labels = np.arange(256, dtype=np.int32)
    labels[[3, 9, 20, 21]] += 7
    result = measure(labels, golden)
    assert result.differing == 4 and result.values["DifferentElements"] == 4 / 256
    assert measure(labels.astype(np.float16), golden.astype(np.uint16)).differing == 4
    golden[7] = 0.5
    assert math.isnan(measure(labels, golden).values["DifferentElements"])
    assert (
        measure(golden, labels).differing == 5
    ), "an integer golden says by its type that these are whole numbers"
    assert math.isnan(measure(golden, golden + 1).values["DifferentElements"])


def test_metrics_that_were_not_asked_for_are_not_computed(monkeypatch):
    def never(*_):
        raise AssertionError("computed")

    monkeypatch.setattr("goldwatch.metrics.compare_blocks.DivergenceSums", never)
    monkeypatch.setattr("goldwatch.metrics.numpy_kernel._spread", never)
    x = np.random.RandomState(0).randn(10, 10)
    values = compare_blocks(
        lambda: [(x + 0.1, x)], ("CosineSimilarity", "RelativeEuclideanDistance")
    ).values
    assert sorted(values) == ["CosineSimilarity", "RelativeEuclideanDistance"]
    assert set(MEASURES) > set(values)


@pytest.mark.parametrize("elements", [1, 2, 7, 49])
def test_the_worst_of_many_small_slices_is_allowed_for_chance(elements):
    random = np.random.RandomState(elements)
    y = np.ones((1, 1000, elements, 1))
    for _ in range(300):
        share = random.uniform(0.05, 0.3)
        found = measure(y + share * random.standard_normal(y.shape), y, channel=1).worst_slice
        assert found.axis == 1 and found.beyond_chance == 0.0 or found.distance <= LEFT_TO_CHANCE
    x = y + 0.1 * random.standard_normal(y.shape)
    x[0, 17] = 1.0 + 0.1 * (1.0 + 8.0 / math.sqrt(elements))
    found = measure(x, y, channel=1).worst_slice
    assert found.index == 17 and found.beyond_chance == found.distance


def test_no_default_limit_lies_where_chance_is_not_considered():
    assert all(
        limit.value > LEFT_TO_CHANCE
        for limit in Limits().entries
        if limit.metric == "WorstSliceDistance"
    )


def test_large_or_few_slices_are_not_allowed_for_chance():
    random = np.random.RandomState(3)
    for shape in ((7,), (70, 70)):
        y = random.standard_normal(shape)
        found = measure(y + 0.2 * random.standard_normal(shape), y).worst_slice
        assert found.beyond_chance == found.distance > 0.0


def test_an_axis_beyond_chance_wins_over_one_within_chance():
    random = np.random.RandomState(4)
    y = np.sign(random.standard_normal((300, 300)))
    x = y + 0.01 * random.standard_normal(y.shape)
    x[:, 7] += 0.3
    # A row of 300 elements is no small slice; one element of 20 is.
    found = measure(x, y).worst_slice
    assert (found.axis, found.index, found.beyond_chance) == (1, 7, found.distance)
    y = np.ones((20, 40))
    x = y + 0.01 * random.standard_normal(y.shape)
    x[3] = 1.4
    x[:, 9] *= 1.001
    found = measure(x, y).worst_slice
    assert (found.axis, found.index, found.beyond_chance) == (0, 3, found.distance)
