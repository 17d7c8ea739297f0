"""Planted patterns of every kind are found beside float16's rounding; healthy tensors have no
finding but "healthy".
"""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.metrics.patterns.element_errors import errors_of
from goldwatch.metrics.patterns.one_pass_findings import Evidence
from goldwatch.metrics.patterns.region_patterns import region_of
from goldwatch.tensors.geometry import match_layouts
from goldwatch.tensors.golden_order_windows import ordered_windows
from goldwatch.tensors.tensor import Tensor
from goldwatch.tools.detail.element_statistics import Measures

SHAPES = [
    (1, 16, 28, 28), (2, 32, 5, 7), (1, 64, 56, 56), (3, 8, 6, 6), (1, 1000), (64, 48), (2, 9, 33),
    (4, 12, 3, 10, 11), (5000,),
    (40, 50, 30),
]  # fmt: skip
LARGE = (1, 48, 96, 96)


def golden_of(shape, seed=0, mean=0.3):
    return (np.random.RandomState(seed).standard_normal(shape) + mean).astype(np.float32)


def main_axis(shape):
    return max(range(len(shape)), key=lambda axis: (shape[axis] > 3, axis == 1, shape[axis]))


def exchanged(values, first=1, second=3):
    axis = main_axis(values.shape)
    order = np.arange(values.shape[axis])
    order[[first, second]] = order[[second, first]]
    return np.take(values, order, axis)


def replaced(values, by, index=2):
    made = values.copy()
    np.moveaxis(made, main_axis(values.shape), 0)[index] = by
    return made


def shuffled(values):
    axis = main_axis(values.shape)
    return np.take(values, np.random.RandomState(1).permutation(values.shape[axis]), axis)


def from_place_on(values, by):
    made = values.copy()
    made.reshape(-1)[values.size // 2 :] = by
    return made


def bfloat16(values):
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return bits.astype(np.uint32).view(np.float32)


PLANTED = {
    "scale": lambda y: y * 1.0497,
    "offset": lambda y: y + 0.5,
    "sign-flip": lambda y: -y,
    "shift": lambda y: np.roll(y, 1, main_axis(y.shape)),
    "axis-flip": lambda y: np.flip(y, main_axis(y.shape)),
    "saturation": lambda y: np.clip(y * 40000, -65504, 65504),
    "flush-to-zero": lambda y: np.where(np.abs(y) < 0.2, 0, y),
    "nan": lambda y: from_place_on(y, np.nan),
    "inf": lambda y: from_place_on(y, np.inf),
}
WITH_AXES = {"channel-permutation": exchanged, "region": lambda y: replaced(y, 0.7)}
TYPES = {
    "bfloat16": bfloat16,
    "an 8-bit integer": lambda y: np.round(y / np.abs(y).max() * 127) * (np.abs(y).max() / 127),
}


def kinds(document):
    return [finding["kind"] for finding in document["findings"]]


@pytest.mark.parametrize("kind", sorted(PLANTED))
@pytest.mark.parametrize("shape", SHAPES + [LARGE], ids=str)
def test_a_planted_pattern_is_the_first_finding(detail_of, kind, shape):
    golden = golden_of(shape)
    target = PLANTED[kind](golden).astype(np.float16)
    if kind == "saturation":
        golden *= 40000
    found = detail_of(target, golden)["findings"]
    assert found and found[0]["kind"] == kind, found
    assert 0.9 <= found[0]["share"] <= 1.0 and found[0]["sentence"]


@pytest.mark.parametrize("kind", sorted(WITH_AXES))
@pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES + [LARGE] if len(shape) > 1 and np.prod(shape) // max(shape) > 1],
    ids=str,
)
def test_a_pattern_planted_along_an_axis_is_the_first_finding(detail_of, kind, shape):
    golden = golden_of(shape)
    found = detail_of(WITH_AXES[kind](golden).astype(np.float16), golden)["findings"]
    assert found and found[0]["kind"] == kind, found


@pytest.mark.parametrize("name", sorted(TYPES))
@pytest.mark.parametrize("shape", SHAPES + [LARGE], ids=str)
def test_a_coarser_type_is_named(detail_of, name, shape):
    golden = golden_of(shape)
    found = detail_of(TYPES[name](golden).astype(np.float16), golden)["findings"]
    assert (
        kinds({"findings": found})[:1] == ["coarser-type"] and name in found[0]["sentence"]
    ), found


@pytest.mark.parametrize(
    "coarser, stored", [("float16", "float32"), ("float16", "float64"), ("float32", "float64")]
)
def test_a_target_with_fewer_digits_than_its_type_is_found(detail_of, coarser, stored):
    golden = golden_of((1, 16, 28, 28)).astype(np.float64) / 3
    (found,) = detail_of(golden.astype(coarser).astype(stored), golden)["findings"]
    assert found["kind"] == "coarser-type" and found["detail"]["type"] == coarser
    # With a pattern besides, that is told first.
    assert kinds(detail_of((golden * 1.05).astype(coarser).astype(stored), golden))[0] == "scale"


@pytest.mark.parametrize("shape", SHAPES + [LARGE], ids=str)
def test_long_shifts_and_permutations_of_many_channels_are_found(detail_of, shape):
    golden = golden_of(shape)
    axis = main_axis(shape)
    step = shape[axis] // 3
    found = detail_of(np.roll(golden, step, axis).astype(np.float16), golden)["findings"]
    assert found[0]["kind"] == "shift" and found[0]["detail"]["by"][axis] == step, found
    if len(shape) > 1 and np.prod(shape) // shape[axis] > 8:
        assert "channel-permutation" in kinds(
            detail_of(shuffled(golden).astype(np.float16), golden)
        )


@pytest.mark.parametrize(
    "shape", [(1, 16, 28, 28), (48, 48), (2, 5, 7, 7), (1, 24, 112, 112)], ids=str
)
def test_two_exchanged_axes_are_found(detail_of, shape):
    golden = golden_of(shape)
    assert kinds(detail_of(golden.swapaxes(-1, -2).astype(np.float16), golden))[0] == "axis-swap"


def test_bytes_read_in_another_order_of_axes_are_found(detail_of):
    for shape in ((2, 3, 5, 7), (1, 30, 100, 110)):
        golden = golden_of(shape)
        found = detail_of(golden.transpose(0, 2, 3, 1).reshape(shape).astype(np.float16), golden)[
            "findings"
        ]
        assert found[0]["kind"] == "axis-swap" and found[0]["detail"]["order"] == [
            0,
            2,
            3,
            1,
        ], found


def test_errors_at_the_border_are_called_so(detail_of):
    golden = golden_of((1, 16, 56, 56))
    target = golden.astype(np.float16)
    target[:, :, [0, 55]] += 1
    found = detail_of(target, golden)["findings"]
    assert found[0]["kind"] == "region" and found[0]["detail"]["indices"] == [0, 55]
    assert found[0]["sentence"].startswith(
        "indices 0, 55 of axis 2 (of 56) hold 100 % of the squared error: the border"
    )


def test_a_channel_of_large_values_is_not_called_a_region(detail_of):
    golden = golden_of((1, 16, 20, 20))
    golden[:, 5] *= 1000
    assert kinds(detail_of((golden * 1.05).astype(np.float16), golden)) == ["scale"]


def findings_of(target, golden):
    """Return the kinds that are found, without files."""
    tensors = Tensor.from_array(target), Tensor.from_array(golden)
    geometry = match_layouts(tensors[0], golden.shape)
    largest = float(np.abs(target.astype(np.float64) - golden).max())
    evidence = Evidence(tensors[0].dtype.name, geometry, geometry.letters)
    measures = Measures(tensors[0].dtype, tensors[1].dtype, geometry.sizes, largest)
    for window in ordered_windows(*tensors, geometry):
        errors = errors_of(window.x.reshape(-1), window.y.reshape(-1))
        measures.update(window, errors)
        evidence.update(window, errors)
    distance = float(
        np.linalg.norm(target.astype(np.float64) - golden)
        / np.linalg.norm(golden.astype(np.float64))
    )
    return [
        finding.kind
        for finding in evidence.findings(measures.shares, distance, ulps=measures.ulps.bound())
    ]


def test_healthy_tensors_have_no_finding_but_healthy():
    random = np.random.RandomState(7)
    for number in range(300):
        shape = tuple(min(size, 24) for size in SHAPES[number % len(SHAPES)])
        golden = (random.standard_normal(shape) * 10.0 ** random.uniform(-6, 4)).astype(np.float32)
        if number % 3 == 0:
            golden = np.maximum(golden, 0)
        assert findings_of(golden.astype(np.float16), golden) == ["healthy"], number
        # An operator that sums in float16: some units in the last place, here and there.
        noise = 1 + 4e-4 * random.standard_normal(shape)
        assert set(findings_of((golden * noise).astype(np.float16), golden)) <= {"healthy"}, number


def test_a_constant_that_float16_cannot_hold_is_not_called_an_offset(detail_of):
    golden = np.full((1, 8, 6, 6), 0.1, np.float32)
    assert kinds(detail_of(golden.astype(np.float16), golden)) == ["healthy"]


def test_integers_are_compared_exactly(detail_of):
    golden = np.full((4, 4), 1 << 60, np.int64)
    document = detail_of(golden + np.eye(4, dtype=np.int64), golden)
    assert document["bad"] == 4 and "healthy" not in kinds(document)
    assert kinds(detail_of(golden, golden)) == ["healthy"]


@pytest.mark.parametrize("first, last", [(8, 15), (0, 7), (4, 8)])
def test_a_run_of_block_slots_is_called_a_region(first, last):
    held = np.full(16, 1e-5)
    held[first : last + 1] = 1.0
    held /= held.sum()
    found = region_of(held, "C0", energy=np.full(16, 1 / 16), runs=True)
    assert found is not None and found.sentence.startswith(
        "slots %d to %d of C0 (of 16) hold" % (first, last)
    )
    assert region_of(held, "C0", energy=np.full(16, 1 / 16)) is None


def test_single_slots_and_slots_apart_are_not_called_a_run():
    for slots in ((3,), (1, 6, 9, 12)):
        held = np.zeros(16)
        held[list(slots)] = 1 / len(slots)
        found = region_of(held, "C0", energy=np.full(16, 1 / 16), runs=True)
        assert found is None or found.detail["indices"] == list(slots)
