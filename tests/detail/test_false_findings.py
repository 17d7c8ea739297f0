"""Patterns that a few large elements, one element or the element type only seem to show are not
reported.
"""

from __future__ import annotations

import numpy as np
import pytest

from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.schemas import load_schema

jsonschema = pytest.importorskip("jsonschema")


def kinds(document):
    return [finding["kind"] for finding in document["findings"]]


def heavy(shape, seed):
    """Return values of which few hold nearly all of the sum of squares, as scores behind an
    exponential do.
    """
    return np.exp(4 * np.random.RandomState(seed).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("shape", [(300,), (4, 1, 128), (1, 64, 14, 14), (128, 9)], ids=str)
def test_a_few_large_elements_are_not_called_scale_or_shift(detail_of, shape):
    for seed in range(8):
        random, golden = np.random.RandomState(100 + seed), heavy(shape, seed)
        for level in (0.01, 0.1, 1.0):
            noisy = (golden * (1 + level * random.standard_normal(shape))).astype(np.float32)
            assert not {"scale", "offset", "shift", "channel-permutation"} & set(
                kinds(detail_of(noisy, golden))
            ), (seed, level)
        assert "shift" not in kinds(
            detail_of(random.permutation(golden.reshape(-1)).reshape(shape), golden)
        ), seed
        # What holds for all elements is found all the same.
        assert kinds(detail_of((golden * 1.05).astype(np.float32), golden))[0] == "scale"
        assert "shift" in kinds(detail_of(np.roll(golden, 1, -1), golden))


def test_values_below_the_normal_range_are_not_called_a_coarser_type(detail_of):
    golden = np.random.RandomState(0).uniform(-1e-7, 1e-7, 4096).astype(np.float32)
    wrong = (golden * (1 + 2 * np.random.RandomState(1).standard_normal(4096))).astype(np.float16)
    assert "coarser-type" not in kinds(detail_of(wrong, golden))


def test_golden_values_that_are_as_coarse_are_not_called_a_coarser_type(detail_of):
    random = np.random.RandomState(0)
    golden = (random.randint(-100, 100, (1, 1000)) * 0.05).astype(np.float32)
    assert "coarser-type" not in kinds(
        detail_of(random.permutation(golden[0])[None].astype(np.float16), golden)
    )
    coarse = random.standard_normal(4000).astype(np.float16).astype(np.float32)
    assert "coarser-type" not in kinds(
        detail_of(coarse, random.standard_normal(4000).astype(np.float32))
    )


@pytest.mark.parametrize("largest", [0.01, 4.0, 700.0])
def test_the_scale_of_eight_bits_is_given_in_units_of_the_tensor(detail_of, largest):
    golden = (np.random.RandomState(0).uniform(-largest, largest, 5000)).astype(np.float32)
    scale = largest / 127
    findings = detail_of((np.round(golden / scale) * scale).astype(np.float32), golden)["findings"]
    (found,) = [each for each in findings if each["kind"] == "coarser-type"]
    assert float(found["sentence"].rsplit(" ", 1)[1]) == pytest.approx(scale, rel=1e-3)


def test_one_negative_element_is_not_called_a_missing_activation(detail_of):
    golden = np.maximum(np.random.RandomState(0).standard_normal(300), 0).astype(np.float32)
    target = golden.astype(np.float16)
    target[17] = -3
    assert kinds(detail_of(target, golden)) == ["region"]


def test_a_target_of_zeros_has_one_finding(detail_of):
    golden = np.random.RandomState(0).standard_normal((4, 8, 9)).astype(np.float32)
    for factor in (1.0, 1e-20):
        found = detail_of(
            np.zeros(golden.shape, np.float16 if factor == 1 else np.float32),
            golden * np.float32(factor),
        )["findings"]
        assert [each["sentence"] for each in found] == ["every element of the target is 0"]


def test_infinities_of_opposite_signs_are_counted(detail_of):
    golden = np.array([1, np.inf, -np.inf, np.inf, 5], np.float32)
    (found,) = detail_of(np.array([1, -np.inf, -np.inf, 3, 5], np.float32), golden)["findings"]
    assert found["kind"] == "inf" and found["detail"]["count"] == 2
    assert found["sentence"].startswith(
        "2 of 5 elements are Inf on one side only (0 in the target), 1 of them Inf of "
        "opposite signs,"
    )


def test_half_of_a_constant_is_not_called_saturation(detail_of):
    golden = np.full((2, 50), 2, np.float32)
    assert "saturation" not in kinds(detail_of(golden / 2, golden))


@pytest.mark.parametrize("mask", [-65504.0, -np.inf, -1e4])
@pytest.mark.parametrize("theirs", [-np.inf, -3.4028235e38, -1e9, -1e4])
def test_masked_elements_are_neither_errors_nor_evidence(detail_of, mask, theirs):
    """As compare has it: scores that must not count are called so by other numbers on the two
    sides.
    """
    if (mask == -1e4) != (theirs == -1e4):
        return
    golden = np.random.RandomState(0).standard_normal((2, 8, 32)).astype(np.float32)
    masked = np.triu(np.ones((8, 32), bool), 3)
    target = np.where(masked, mask, golden).astype(np.float16)
    golden[:, masked] = theirs
    document = detail_of(target, golden, rows="bad")
    assert document["verdict"] == "pass" and document["bad"] == 0 and kinds(document) == ["healthy"]
    with open(detail_of.path("op_output_0_0.csv"), encoding="ascii") as stream:
        assert len(stream.readlines()) == 1
    assert document["target"]["min"] in (mask, "-Infinity") or document["target"][
        "min"
    ] == pytest.approx(mask)
    target[:, :, 1] *= np.float16(1.5)
    found = detail_of(target, golden)
    assert "region" in kinds(found) and sum(found["where"]["2"][1:2]) > 0.99
    # One that is masked on one side only is an error.
    target[0, 0, 0] = mask
    assert (
        detail_of(target, golden)["bad"]
        == np.count_nonzero(
            target[:, :, 1].astype(np.float32) != golden[:, :, 1].astype(np.float16)
        )
        + 1
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_few_elements_that_fit_any_pattern_show_none(detail_of, size):
    random = np.random.RandomState(size)
    golden = random.standard_normal(size)
    found = detail_of(golden * (1 + 0.01 * random.standard_normal(size)), golden)
    assert not {"scale", "offset"} & set(kinds(found))


def test_three_probabilities_are_not_called_a_softmax_of_other_scores(detail_of):
    golden = np.array([[2.3e-3, 0.9977, 2.8e-9]])
    target = golden * [[0.99996, 1.0000001, 0.9999]]
    assert kinds(detail_of(target, golden)) == []
    scores = np.random.RandomState(0).standard_normal((4, 10))
    many = [
        np.exp(factor * scores) / np.exp(factor * scores).sum(axis=1, keepdims=True)
        for factor in (1.1, 1.0)
    ]
    assert "scale" in kinds(detail_of(many[0].astype(np.float32), many[1].astype(np.float32)))


def test_two_large_probabilities_among_many_small_ones_are_not_called_a_softmax_of_other_scores(
    detail_of,
):
    random = np.random.RandomState(0)
    golden = np.exp(random.uniform(-25, -10, (1, 24)))
    golden[0, 2], golden[0, 6] = 0.994, 0.0058
    golden /= golden.sum()
    for _ in range(20):
        target = golden * (1 + 2e-4 * random.standard_normal(golden.shape))
        target[0, 2] += 1 - target.sum()
        assert kinds(detail_of(target, golden)) == []


def test_large_probabilities_that_hold_most_of_the_error_by_chance_are_not_called_a_region(
    detail_of,
):
    """Five of 4,624 hold 99 % of the sum of squares: what noise in proportion does to them decides
    where the error sits."""
    random = np.random.RandomState(0)
    golden = np.exp(random.uniform(-25, -6, 4624))
    golden[[2751, 73, 3483, 1767, 2016]] = 0.278, 0.113, 0.195, 0.012, 0.146
    golden /= golden.sum()
    for _ in range(100):
        target = golden * (1 + 5e-5 * random.standard_normal(golden.shape))
        assert "region" not in kinds(detail_of(target, golden))
    target = golden.copy()
    target[[40, 2751]] = 0.3, 0.2
    assert "region" in kinds(detail_of(target, golden))


def test_one_large_value_with_a_proportional_error_is_not_called_a_region(detail_of):
    golden = np.array([[1e-4, 2e-5, 0.998, 3e-4], [0.7, 0.2, 0.05, 0.05]], np.float64)
    random = np.random.RandomState(0)
    for _ in range(200):
        assert "region" not in kinds(
            detail_of(golden * (1 + 1e-3 * random.standard_normal(golden.shape)), golden)
        )


@pytest.mark.parametrize("size", [1000, 300000])
@pytest.mark.filterwarnings("error")
def test_complex_numbers_have_no_pattern_between_their_parts(detail_of, size):
    random = np.random.RandomState(0)
    golden = (random.standard_normal(size) + 1j * random.standard_normal(size)).astype(
        np.complex128
    )
    assert kinds(detail_of(golden * 1.05, golden))[0] == "scale"
    spoiled = golden.real + 1.1j * golden.imag
    assert not [
        each for each in detail_of(spoiled, golden)["findings"] if "axis part" in each["sentence"]
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("numbers", [(1.7e308, -1.7e308), (5e-324, 1e-310), (3e38, 1e-45)])
def test_values_at_the_ends_of_the_range_are_judged(detail_of, numbers):
    golden = np.array(numbers * 20)
    assert detail_of(golden[::-1].copy(), golden)["verdict"] == "fail"


def test_integers_equal_floats_that_round_to_them(detail_of):
    golden = np.random.RandomState(0).uniform(-100, 100, 500).astype(np.float32)
    assert kinds(detail_of(np.rint(golden).astype(np.int8), golden)) == ["healthy"]
    assert detail_of(np.rint(golden).astype(np.int8) + np.int8(1), golden)["bad"] == 500


def test_values_of_bools_are_numbers_in_the_document(detail_of):
    document = detail_of(np.array([True, False]), np.array([False, True]))
    schema = load_schema("detail")
    jsonschema.Draft7Validator(schema).validate({"op": "op", "tensors": [document]})


def test_results_of_ops_with_names_of_255_bytes_are_written(tmp_path):
    from goldwatch.tools.detail.compare_op import compare_op
    from goldwatch.tools.detail.tensor_detail import DetailSettings
    from goldwatch.tools.detail.tensor_pairs import pairs_in_files

    path = tmp_path / ("Add.%s.1.2.1600000000000000" % ("x" * 228))
    write_dump(str(path), outputs=[TensorData(np.ones(3, np.float16))])
    np.save(str(tmp_path / "golden.npy"), np.ones(3, np.float32))
    found = compare_op(
        pairs_in_files(str(path), str(tmp_path / "golden.npy")),
        DetailSettings(str(tmp_path / "out")),
    )
    assert found.exit_code == 0 and all(
        len(name) <= 255 and (tmp_path / "out" / name).exists() for name in found.files
    )
