"""Planted patterns are found beside rounding, and none in healthy data."""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.metrics.patterns import KINDS, AlignedPair, find_patterns, walk
from goldwatch.tensors.geometry import match_layouts
from goldwatch.tensors.tensor import Tensor

SHAPES = [(1, 16, 8, 8), (2, 32, 5, 7), (1, 64, 4, 4), (3, 8, 6, 6), (1, 12, 10, 11)]
SHAPES += [(1, 24, 32), (64, 48), (128, 16), (2, 9, 33), (40, 50)]
LETTERS = "NCHW"


def golden_of(shape, seed=0, mean=0.3):
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + mean).astype(np.float32)


def pair_of(target, golden, dtype=np.float16):
    target = np.asarray(target).astype(dtype)
    return AlignedPair(
        target, golden, np.dtype(dtype).name, tuple(LETTERS[: golden.ndim]), golden.size
    )


def kinds(target, golden, **more):
    return [finding.kind for finding in find_patterns(pair_of(target, golden), **more)]


def replaced(values, axis, index, by):
    made = values.copy()
    moved = np.moveaxis(made, axis, 0)
    moved[index] = by
    return made


def permuted(values, axis, first=1, second=3):
    order = np.arange(values.shape[axis])
    order[[first, second]] = order[[second, first]]
    return np.take(values, order, axis)


PLANTED = {
    "scale": lambda y: y * 1.0497,
    "offset": lambda y: y - 0.25,
    "sign-flip": lambda y: -y,
    "shift": lambda y: np.roll(y, 1, axis=-1),
    "axis-flip": lambda y: np.flip(y, -1),
    "channel-permutation": lambda y: permuted(y, 1),
    "saturation": lambda y: np.clip(y, None, 0.9),
    "flush-to-zero": lambda y: np.where(np.abs(y) < 0.2, 0, y),
    "coarser-type": lambda y: np.round(y / 0.03) * 0.03,
    "region": lambda y: replaced(y, 1, 2, 0.7),
    "nan": lambda y: replaced(y, 1, 2, np.nan),
    "inf": lambda y: replaced(y, 1, 2, np.inf),
}


@pytest.mark.parametrize("kind", sorted(PLANTED))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_planted_pattern_is_found_first(kind, shape) -> None:
    for seed in range(3):
        golden = golden_of(shape, seed)
        found = find_patterns(pair_of(PLANTED[kind](golden), golden))
        assert found, (kind, shape)
        assert found[0].kind == kind, [(finding.kind, finding.share) for finding in found]
        assert 0.9 <= found[0].share <= 1.0 and found[0].sentence
        assert all(finding.kind in KINDS for finding in found)


def test_exchanged_axes_are_found_with_their_order() -> None:
    square, oblong = golden_of((1, 16, 8, 8)), golden_of((2, 3, 5, 7))
    assert kinds(square.swapaxes(2, 3), square)[0] == "axis-swap"
    # NHWC bytes that were read as NCHW.
    finding = find_patterns(pair_of(oblong.transpose(0, 2, 3, 1).reshape(oblong.shape), oblong))[0]
    assert (
        finding.kind == "axis-swap"
        and finding.detail["order"] == [0, 2, 3, 1]
        and "NHWC" in finding.sentence
    )


def test_sentences_give_factor_offset_and_first_index() -> None:
    golden = golden_of((1, 16, 8, 8))
    scale = find_patterns(pair_of(golden * 1.0497, golden))[0]
    assert (
        scale.detail["factor"] == pytest.approx(1.0497, rel=1e-4) and "x 1.0497" in scale.sentence
    )
    offset = find_patterns(pair_of(golden + 0.25, golden))[0]
    assert offset.detail["offset"] == pytest.approx(0.25, abs=1e-3)
    shift = find_patterns(pair_of(np.roll(golden, -2, axis=2), golden))[0]
    assert shift.detail["by"] == [0, 0, -2, 0] and "-2 along axis H" in shift.sentence
    region = find_patterns(pair_of(replaced(golden, 1, 5, 9.0), golden))[0]
    assert region.detail["indices"] == [5] and "index 5 of axis C (of 16)" in region.sentence
    permutation = find_patterns(pair_of(permuted(golden, 1), golden))[0]
    assert permutation.detail["from"][1] == 3 and permutation.detail["from"][3] == 1
    nan = find_patterns(pair_of(replaced(golden, 1, 5, np.nan), golden))[0]
    assert nan.detail["first"] == [0, 5, 0, 0] and "64 of 1024" in nan.sentence


def part_rolled(values, start, stop, step):
    flat = values.reshape(-1).copy()
    flat[start:stop] = np.roll(flat[start:stop], step)
    return flat.reshape(values.shape)


PARTS = {
    "half by one": (0, 0.5, 1, "shifted by +1"),
    "half by sixteen": (0.5, 1.0, 16, "+16"),
    "half by half of it": (0, 0.5, 0.25, "shifted by"),
    "all by half": (0, 1.0, 0.5, "shifted by"),
    "a third back": (1 / 3, 2 / 3, -5, "-5"),
}


@pytest.mark.parametrize("after", [0.0, 2.0], ids=["all", "behind a ReLU"])
@pytest.mark.parametrize("part", sorted(PARTS))
@pytest.mark.parametrize(
    "shape",
    [(1, 16, 12, 12), (2, 18, 8, 6), (1, 3, 40, 40), (1, 64, 7, 7), (4, 96), (1, 32, 64)],
    ids=str,
)
def test_a_shift_of_a_part_of_the_tensor_is_found_as_shift(shape, part, after) -> None:
    golden = golden_of(shape)
    golden = np.maximum(golden, 0) if after else golden
    start, stop, step, said = PARTS[part]
    step = int(step * golden.size) if isinstance(step, float) else step
    first = find_patterns(
        pair_of(
            part_rolled(golden, int(start * golden.size), int(stop * golden.size), step), golden
        )
    )[0]
    # Two of which each holds the other's are exchanged; that says as much.
    assert first.kind == "shift" or "2 of" in first.sentence, first.sentence
    assert first.share >= 0.9 and (said in first.sentence or first.kind != "shift")


@pytest.mark.parametrize("step", [1, 16])
def test_sentences_about_a_sampled_tensor_give_no_indices(step) -> None:
    golden = golden_of((1, 64, 80, 80))
    made = part_rolled(golden, 0, golden.size // 2, step).astype(np.float16)
    target, right = Tensor.from_array(made), Tensor.from_array(golden)
    distance = float(np.linalg.norm(made - golden) / np.linalg.norm(golden))
    first = walk(
        target, right, match_layouts(target, golden.shape, None, golden.shape, None), distance
    ).findings[0]
    said = "in some indices of axis 1 the target holds the golden's values shifted by +%d" % step
    assert first.kind == "shift" and first.sentence.startswith(said)


def test_a_wrong_part_that_is_not_shifted_is_not_called_shift() -> None:
    for seed in range(20):
        golden = golden_of((1, 16, 12, 12), seed)
        random = np.random.default_rng(seed + 100)
        half = golden.reshape(-1)[: golden.size // 2]
        for made in (
            random.permutation(half),
            half * np.float32(1.2),
            random.standard_normal(half.size),
            half[::-1],
        ):
            flat = golden.reshape(-1).copy()
            flat[: half.size] = made
            assert "shift" not in kinds(flat.reshape(golden.shape), golden)


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e4, 1e30])
def test_a_scale_is_found_at_every_magnitude(factor) -> None:
    golden = (golden_of((1, 16, 8, 8)) * factor).astype(np.float32)
    found = find_patterns(
        AlignedPair(golden * np.float32(1.05), golden, "float32", tuple("NCHW"), golden.size)
    )
    assert found[0].kind == "scale"


def test_factors_and_offsets_per_channel_are_found() -> None:
    golden = golden_of((1, 32, 8, 8))
    factors = np.random.default_rng(1).uniform(0.9, 1.1, (1, 32, 1, 1))
    found = find_patterns(pair_of(golden * factors, golden))[0]
    assert found.kind == "scale" and found.detail["axis"] == "C"
    found = find_patterns(pair_of(golden + factors - 1, golden))[0]
    assert found.kind == "offset" and found.detail["axis"] == "C"


def test_another_golden_tensor_and_a_missing_activation_are_found() -> None:
    golden, other = golden_of((1, 16, 8, 8)), golden_of((1, 16, 8, 8), 7)
    found = find_patterns(
        pair_of(other, golden), others=[("conv1", golden_of((1, 16, 8, 8), 8)), ("conv2", other)]
    )[0]
    assert (
        found.kind == "other-tensor"
        and found.detail["tensor"] == "conv2"
        and "conv2" in found.sentence
    )
    assert kinds(golden, np.maximum(golden, 0))[0] == "other-tensor"
    assert kinds(np.maximum(golden, 0), golden)[0] == "other-tensor"


def test_errors_in_the_padding_of_stored_tensors_are_found() -> None:
    golden = golden_of((1, 2, 4, 4, 16))
    golden[:, -1, :, :, 8:] = 0
    target = golden.astype(np.float16)
    target[:, -1, :, :, 14:] = 3
    found = find_patterns(
        AlignedPair(target, golden, "float16", tuple("01234"), golden.size, padded_axis=4)
    )[0]
    assert (
        found.kind == "region"
        and found.detail["padding"]
        and found.sentence.startswith("channels from 24 on")
    )


def test_errors_within_the_rounding_are_called_healthy() -> None:
    random = np.random.default_rng(3)
    for number in range(1000):
        shape = SHAPES[number % len(SHAPES)]
        golden = (
            random.standard_normal(shape) * 10.0 ** random.integers(-4, 4) + random.integers(-1, 2)
        ).astype(np.float32)
        assert kinds(golden, golden) == ["healthy"]
    constant = np.full((4, 4), 0.1, np.float32)
    assert kinds(constant, constant) == ["healthy"]


def test_noise_from_the_inputs_is_not_called_a_pattern() -> None:
    random = np.random.default_rng(4)
    for number in range(100):
        golden = golden_of(SHAPES[number % len(SHAPES)], number)
        noisy = golden + 0.003 * random.standard_normal(golden.shape) * np.abs(golden)
        assert kinds(noisy, golden) == []


def test_a_pattern_is_found_beside_noise_from_the_inputs() -> None:
    random = np.random.default_rng(5)
    golden = golden_of((1, 32, 8, 8))
    noise = 0.01 * np.sqrt(np.mean(golden**2)) * random.standard_normal(golden.shape)
    target = golden * 1.02 + noise
    assert kinds(target, golden) == []
    found = find_patterns(pair_of(target, golden), background=0.01)
    assert [finding.kind for finding in found] == ["scale"]


def test_masked_scores_do_not_hide_a_scale() -> None:
    golden = golden_of((1, 4, 24, 24))
    golden[..., 20:] = -1e4
    target = golden * np.where(golden > -1e3, 1.05, 1.0)
    assert kinds(target, golden)[0] == "scale"


def test_a_sample_is_searched_for_patterns_of_values_only() -> None:
    golden = golden_of((4096,))
    found = find_patterns(
        AlignedPair((golden * 1.05).astype(np.float16), golden, "float16", (), 10**8)
    )
    assert found[0].kind == "scale"
    assert (
        find_patterns(
            AlignedPair(np.roll(golden, 1).astype(np.float16), golden, "float16", (), 10**8)
        )
        == []
    )


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1), (0, 3), (2, 1, 3), (1, 2, 1, 2, 1)])
def test_tensors_of_every_rank_can_be_searched(shape) -> None:
    golden = np.float32(1.5) + np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    for target in (golden * -3, golden + 20, np.zeros_like(golden)):
        letters = tuple(str(axis) for axis in range(len(shape)))
        found = find_patterns(
            AlignedPair(target, golden, "float32", letters, golden.size),
            others=[("conv", golden * 0)],
        )
        assert all(finding.kind in KINDS for finding in found)


@pytest.mark.parametrize("magnitude", [3e-3, 1.0, 700.0])
@pytest.mark.parametrize("half_zeros", [False, True])
def test_the_scale_of_8_bit_integers_is_found(magnitude, half_zeros):
    golden = np.random.RandomState(5).standard_normal((16, 64)) * magnitude
    golden = np.maximum(golden, 0) if half_zeros else golden
    step = np.abs(golden).max() / 127
    target = (np.round(golden / step) * step).astype(np.float16)
    found = find_patterns(
        AlignedPair(target, golden.astype(np.float32), "float16", ("N", "C"), golden.size)
    )
    assert found[0].kind == "coarser-type"
    assert float(found[0].sentence.rsplit(" ", 1)[1]) == pytest.approx(step, rel=1e-3)


def test_a_slice_that_repeats_its_neighbour_is_not_called_an_exchange() -> None:
    golden = golden_of((1, 17, 48))
    found = find_patterns(pair_of(replaced(golden, 1, 14, np.take(golden, 13, 1)), golden))
    assert [finding.kind for finding in found] == ["region"]
    assert found[0].sentence == "1 of 17 indices of axis C hold the values of others: 14 holds 13"


def test_a_shift_is_found_though_most_elements_are_nearly_equal() -> None:
    random = np.random.default_rng(3)
    golden = np.where(
        random.random((1, 32, 16, 16)) < 0.9, -1.6, random.standard_normal((1, 32, 16, 16)) + 1
    ).astype(np.float32)
    noise = 0.003 * random.standard_normal(golden.shape)
    assert kinds(
        np.roll(golden, 1, 3) + noise, golden, background=0.003 / float(np.sqrt((golden**2).mean()))
    ) == ["shift"]


@pytest.mark.parametrize("seed", [0, 1, 2, 207, 370, 412])
@pytest.mark.parametrize("shape", [(10,), (1, 10), (1, 1000), (4, 6)])
def test_unrelated_values_show_no_pattern(shape, seed) -> None:
    assert kinds(golden_of(shape, seed), 0.5 * golden_of(shape, 100 + seed)) == []


def test_a_bias_per_channel_in_a_batch_of_2_is_found() -> None:
    golden = golden_of((2, 64))
    assert kinds(golden + golden_of((64,), 5) + 1e-3 * golden_of((2, 64), 6), golden)[0] == "offset"


@pytest.mark.filterwarnings("error")
def test_complex_numbers_are_pairs_of_real_ones():
    random = np.random.RandomState(5)
    golden = (random.standard_normal((8, 6)) + 1j * random.standard_normal((8, 6))).astype("c8")
    pair = AlignedPair(np.conj(golden), golden, "complex64", ("0", "1"), golden.size)
    assert (pair.golden.shape, pair.letters, pair.total) == ((8, 6, 2), ("0", "1", "part"), 96)
    np.testing.assert_array_equal(pair.golden[..., 1], -pair.target[..., 1])
    sample = AlignedPair(golden[0], golden[0], "complex64", (), golden.size)
    assert (sample.golden.shape, sample.sampled) == ((12,), True)


def _complex_pair(target, golden):
    sides = [np.asarray(side, "c8") for side in (target, golden)]
    return AlignedPair(*sides, "complex64", ("0", "1"), golden.size)


CONSTANT = np.full((4, 6), 1 + 2j, "c8")
VARYING = np.random.RandomState(3).standard_normal((4, 12)).astype("f4").view("c8")


@pytest.mark.parametrize(
    "target, golden, said",
    [
        (2 * CONSTANT, CONSTANT, ["the target is the golden x 2"]),
        (-CONSTANT, CONSTANT, ["the signs are flipped: target is -1 x golden"]),
        (np.conj(CONSTANT), CONSTANT, []),
        (CONSTANT.real, CONSTANT, []),
        (1j * CONSTANT, CONSTANT, []),
        (3 * VARYING, VARYING, ["the target is the golden x 3"]),
        (
            np.conj(VARYING),
            VARYING,
            ["the real and the imaginary part have a factor of their own each, from -1 to 1"],
        ),
        (1j * VARYING, VARYING, []),
        (np.full((4, 6), 6.0, "f4"), np.full((4, 6), 3.0, "f4"), ["the target is the golden x 2"]),
    ],
)
def test_constant_and_complex_data_have_one_explanation_or_none(target, golden, said):
    pair = (
        _complex_pair(target, golden)
        if golden.dtype.kind == "c"
        else AlignedPair(target, golden, "float32", ("0", "1"), golden.size)
    )
    assert [finding.sentence for finding in find_patterns(pair)] == said


def test_two_values_show_no_factor_with_an_offset():
    golden = (np.random.RandomState(0).rand(8, 9) > 0.5).astype(np.float32)
    pair = AlignedPair(5 - 2 * golden, golden, "float32", ("0", "1"), golden.size)
    assert not [one for one in find_patterns(pair) if one.kind == "scale"]


@pytest.mark.parametrize("axis", [1, 2])
def test_unrelated_values_that_are_small_have_no_factors_of_their_own(axis) -> None:
    """A sum along another axis: most of the error is the golden, whatever the target holds."""
    values = np.random.RandomState(3).standard_normal((2, 16, 16))
    golden = np.cumsum(np.abs(values) + 3, axis)
    target = 0.3 * np.cumsum(values, 3 - axis)
    found = find_patterns(pair_of(target, golden))
    assert not [finding for finding in found if "of its own" in finding.sentence]


@pytest.mark.parametrize("first", [0, 8, 32])
def test_indices_of_zeros_are_no_factor_of_0(first) -> None:
    golden = golden_of((2, 48, 5, 5))
    target = golden + 1e-3 * golden_of(golden.shape, 9)
    target[:, first : first + 16] = 0
    found = find_patterns(pair_of(target, golden))
    said = "16 of 48 indices of axis C are 0 throughout, the first is %d" % first
    assert said in [finding.sentence for finding in found if finding.kind == "region"]
    assert not [finding for finding in found if finding.kind == "scale"]


def test_factors_of_each_index_are_found_beside_one_that_holds_0() -> None:
    golden = golden_of((2, 48, 5, 5))
    target = golden * np.random.RandomState(0).uniform(0.5, 1.5, (48, 1, 1))
    golden[:, 7] *= 1e-6
    target[:, 7] = 0
    assert "scale" in kinds(target, golden)


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (4, 50), (3, 8, 9)])
@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_head_or_tail_of_zeros_is_told_as_not_written(shape, side) -> None:
    golden = golden_of(shape)
    made, count = golden.copy().reshape(-1), int(0.27 * golden.size)
    made[slice(None, count) if side == "head" else slice(-count, None)] = 0
    (found, *_) = find_patterns(pair_of(made.reshape(shape), golden))
    first = 0 if side == "head" else golden.size - count
    told = "elements %d to %d of %d" % (first, first + count - 1, golden.size)
    assert told in found.sentence and "not written" in found.sentence


@pytest.mark.parametrize(
    ("make", "about"),
    [
        (lambda y, n: 2.0 * y, False),
        (lambda y, n: 2.0 * y + 0.1 * n, True),
        (lambda y, n: 2.0 * y + 0.5, False),
        (lambda y, n: 2.0 * y + 0.5 + 0.1 * n, True),
        (lambda y, n: y + 0.5, False),
        (lambda y, n: y + 0.5 + 0.1 * n, True),
    ],
)
def test_a_factor_or_an_offset_that_leaves_more_than_rounding_is_told_as_about(make, about) -> None:
    golden = golden_of((16, 40))
    noise = np.random.RandomState(4).standard_normal(golden.shape)
    (found, *_) = find_patterns(pair_of(make(golden, noise), golden))
    assert found.kind in ("scale", "offset")
    assert found.sentence.startswith("the target is %sthe golden " % ("about " * about))
