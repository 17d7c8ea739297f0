"""Two arrays in memory: the functions behind ``goldwatch.compare_arrays`` and
``goldwatch.assert_close``.
"""

from __future__ import annotations

import math
import os
import pathlib

import numpy as np
import pytest

from goldwatch.base.errors import InputError, UsageError
from goldwatch.judging.diagnosis.compare_arrays import assert_close, compare_arrays
from goldwatch.judging.limits import VENDOR, Limits

Y = np.random.RandomState(0).standard_normal((4, 64)).astype(np.float32)


def test_rounded_arrays_pass_with_all_metrics():
    result = compare_arrays(Y.astype(np.float16), Y)
    assert result.passed and result.verdict == "pass" and result.reason == ""
    assert len(result.metrics) == 12 and result.metrics["RelativeEuclideanDistance"] < 1e-3
    assert (result.shape, result.target_dtype, result.golden_dtype) == (
        (4, 64),
        "float16",
        "float32",
    )
    assert "RelativeEuclideanDistance<0.03" in result.decided_by


def test_one_bad_column_fails_and_is_named():
    x = Y.copy()
    x[:, 17] = 0
    result = compare_arrays(x, Y)
    assert result.verdict == "fail" and result.worst_slice == {"axis": 1, "index": 17}
    assert "index 17" in result.reason or "17 of axis 1" in result.reason
    with pytest.raises(AssertionError) as caught:
        assert_close(x, Y)
    text = str(caught.value)
    assert "float32 [4, 64]" in text and "17 of axis 1" in text and "MaxAbsoluteError" in text


@pytest.mark.parametrize("shape, at", [((64,), [42]), ((1, 64, 1), [0, 42, 0])])
def test_a_vectors_worst_element_is_named_in_place_of_a_slice(shape, at):
    golden = Y[0].reshape(shape)
    target = golden.copy()
    target[tuple(at)] = 30
    with pytest.raises(AssertionError) as caught:
        assert_close(target, golden)
    assert "slice is" not in str(caught.value) and "the largest difference is at %s" % at in str(
        caught.value
    )
    assert (
        "for its size the element at %s is off most" % at in compare_arrays(target, golden).reason
    )
    assert compare_arrays(target, golden).worst_slice["index"] == 42


@pytest.mark.parametrize(
    "shape, told", [((), "the tensor is a scalar"), ((1,), "the tensor has one element, shape [1]")]
)
def test_a_single_element_is_described_by_its_shape(shape, told):
    assert told in compare_arrays(np.ones(shape), np.ones(shape)).reason


def test_chosen_metrics_and_those_with_limits_are_computed():
    result = compare_arrays(Y, Y, metrics=["MaxAbsoluteError"])
    assert set(result.metrics) == {
        "MaxAbsoluteError", "CosineSimilarity", "RelativeEuclideanDistance", "WorstSliceDistance",
        "DifferentElements"
    }  # fmt: skip
    assert set(compare_arrays(Y, Y, limits=["MeanAbsoluteError<1"], metrics=[]).metrics) > {
        "MeanAbsoluteError"
    }


@pytest.mark.parametrize(
    "limits, passed",
    [
        (None, False),
        ("default", False),
        (Limits(), False),
        ("vendor", True),
        (Limits(VENDOR), True),
        (["RelativeEuclideanDistance<0.06"], True),
        ({"RelativeEuclideanDistance": {"<": 0.06}}, True),
        ({"base": "vendor", "RelativeEuclideanDistance": {"<": 0.01}}, False),
    ],
)
def test_limits_are_accepted_in_every_documented_form(limits, passed):
    assert compare_arrays(Y * np.float32(1.04), Y, limits=limits).passed is passed


def test_arrays_of_different_shapes_or_types_are_not_compared():
    result = compare_arrays(Y, Y[:, :60])
    assert (
        result.verdict == "not_compared"
        and "[4, 64]" in result.reason
        and "[4, 60]" in result.reason
    )
    with pytest.raises(AssertionError, match=r"4, 60"):
        assert_close(Y, Y[:, :60])
    assert compare_arrays(Y[None], Y).passed


def test_integers_name_the_first_difference():
    x = np.arange(12).reshape(3, 4)
    y = x.copy()
    y[1, 2] = 9
    with pytest.raises(
        AssertionError, match=r"1 of 12 elements differ \(8.33 %\), the first at \[1, 2\]: 6 for 9"
    ):
        assert_close(x, y)
    assert_close(x, y, limits=["DifferentElements<=0.1"])


def test_arrays_without_a_finite_element_pass_with_a_warning_but_are_not_close():
    nothing = np.full(3, np.nan)
    result = compare_arrays(nothing, nothing)
    assert (
        result.passed
        and result.warning == "nothing_finite"
        and "no element is finite" in result.reason
    )
    with pytest.raises(AssertionError, match="no element is finite"):
        assert_close(nothing, nothing)


def test_infinities_of_opposite_sign_are_counted():
    reason = compare_arrays(np.array([1, np.inf, -np.inf]), np.array([1, -np.inf, -np.inf])).reason
    assert "target 1 +Inf and 1 -Inf, golden 2 -Inf" in reason


def test_memory_maps_scalars_strides_and_byte_orders_are_accepted(tmp_path):
    path = str(tmp_path / "a.npy")
    np.save(path, Y)
    assert compare_arrays(np.load(path, mmap_mode="r"), Y).passed
    assert (
        compare_arrays(np.float16(3.0), 3.1).verdict == "fail"
        and "scalar" in compare_arrays(3.0, 3.0).reason
    )
    assert (
        compare_arrays(Y.T, np.ascontiguousarray(Y.T)).passed
        and compare_arrays(Y.astype(">f4"), Y).passed
    )
    assert_close([1, 2, 3], (1, 2, 3))


def test_an_unknown_limit_or_metric_is_refused_with_a_hint():
    for arguments in ({"limits": ["Cosine<1"]}, {"limits": "mine"}, {"metrics": ["Cosine"]}):
        with pytest.raises(UsageError):
            compare_arrays(Y, Y, **arguments)
    with pytest.raises(InputError):
        compare_arrays(Y, Y, limits={"CosineSimilarity": 1})


@pytest.mark.parametrize(
    "limits, told",
    [
        ({"CosineSimilarity": 0.9}, "such as {'CosineSimilarity': {'>': 0.9}}"),
        (
            {"rules": [{"op": "a", "MaxAbsoluteError": {"=": 1}}]},
            "such as {'MaxAbsoluteError': {'<': 0.05}}",
        ),
        ({"Cosin": {">": 0.9}}, "did you mean CosineSimilarity?"),
        (["Cosin>0.9"], "did you mean CosineSimilarity?"),
        (["cosine>0.9"], "did you mean CosineSimilarity?"),
        (["Max<1"], "metrics with limits: CosineSimilarity"),
    ],
)
def test_wrong_limits_are_refused_with_how_to_write_them(limits, told):
    with pytest.raises((InputError, UsageError)) as caught:
        compare_arrays(Y, Y, limits=limits)
    assert told in caught.value.hint


@pytest.mark.parametrize(
    "path", [pathlib.Path("my/limits"), "limits.json", "lr=1/limits.yaml", b"limits"]
)
def test_a_path_given_as_limits_is_refused_with_how_to_read_it(path):
    with pytest.raises(
        UsageError, match="is a path; a mapping, texts, a name or goldwatch.Limits were expected"
    ) as caught:
        compare_arrays(Y, Y, limits=path)
    assert "json.loads(pathlib.Path('%s').read_text())" % os.fsdecode(path) in caught.value.hint


def test_arrays_of_two_byte_void_are_taken_for_bfloat16():
    """As numpy writes and reads ml_dtypes' bfloat16; of one byte there are several types."""
    bits = (Y.view(np.uint32) >> 16).astype(np.uint16)
    rounded = (bits.astype(np.uint32) << 16).view(np.float32)
    found = compare_arrays(bits.view("V2"), rounded)
    assert (
        found.target_dtype == "bfloat16" and found.passed and found.metrics["MaxAbsoluteError"] == 0
    )
    with pytest.raises(AssertionError, match="bfloat16"):
        assert_close(bits.view("V2"), -rounded)
    with pytest.raises(InputError, match=r"save array.astype\('float32'\)"):
        compare_arrays(Y.astype(np.int8).view("V1"), Y)


class OfAnotherPackage:
    """A tensor that refuses to become an array."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


@pytest.mark.parametrize(
    "side, words",
    [
        (None, "an array was expected, got None"),
        ("golden.npy", "an array was expected, got 'golden.npy'"),
        ([[1, 2], [3]], "no array can be made of it|an array of Python objects"),
        (np.array([1, None]), "an array of Python objects"),
        (
            np.zeros(2, [("mean", "f4"), ("std", "f4")]),
            "an array of records holds several numbers per element",
        ),
        ({}, "an array was expected, got a dict"),
        (pathlib.Path("golden.npy"), "an array was expected, got a PosixPath"),
        (
            OfAnotherPackage(RuntimeError("requires grad, use detach()")),
            "no array can be made of it: requires grad, use detach",
        ),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "1 of 2 elements are masked"),
    ],
)
def test_values_that_are_no_arrays_of_numbers_are_refused_with_a_hint(side, words):
    with pytest.raises(InputError, match="target: (%s)" % words):
        compare_arrays(side, Y)
    with pytest.raises(InputError, match="golden: (%s)" % words):
        assert_close(Y, side)


@pytest.mark.parametrize(
    "dtype, told",
    [
        ("g", "array.astype(numpy.float64)"),
        ("G", "array.astype(numpy.complex128)"),
        *[(name, "give an array of numbers") for name in ("U1", "S1", "M8[s]", "m8[s]", "V3")],
    ],
)
def test_numpy_types_that_cannot_be_compared_are_refused_with_a_hint(dtype, told):
    side = np.zeros(Y.shape, dtype)
    for function in (compare_arrays, assert_close):
        for arguments, name in (((side, Y), "target"), ((Y, side), "golden")):
            with pytest.raises(
                InputError, match="^%s: elements of numpy type .* cannot be compared" % name
            ) as caught:
                function(*arguments)
            assert caught.value.hint == told


def test_a_masked_array_without_masked_elements_is_compared():
    assert compare_arrays(np.ma.masked_array(Y), Y).passed


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu"])
def test_element_types_of_ml_dtypes_are_compared(name):
    """Of which numpy's isbuiltin is 2, and the kind of one an f as of numpy's own floats."""
    packages = pytest.importorskip("ml_dtypes", reason="it does not exist for this Python")
    x = np.abs(Y).astype(getattr(packages, name))
    result = compare_arrays(x, x.astype(np.float32))
    assert (result.verdict, result.target_dtype, result.metrics["MaxAbsoluteError"]) == (
        "pass",
        name,
        0,
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, ">f4"])
def test_assert_close_names_the_largest_difference_of_floats(order, dtype):
    y = np.array(Y.reshape(2, 2, 64), dtype, order=order)
    x = y.copy()
    x[1, 0, 5] += 40
    x[0, 1, 3] += 39
    with pytest.raises(AssertionError) as caught:
        assert_close(x, np.ascontiguousarray(y)[None])
    assert "the largest difference is at [0, 1, 0, 5]: target %s, golden %s" % (
        x[1, 0, 5],
        y[1, 0, 5],
    ) in str(caught.value)


@pytest.mark.parametrize("other", [1.0, np.inf, -np.inf])
def test_assert_close_names_the_first_differing_nan_or_inf(other, monkeypatch):
    monkeypatch.setattr("goldwatch.judging.diagnosis.compare_arrays._PIECE", 7)
    x, y = Y.copy(), Y.copy()
    x[0, 1] = y[0, 1] = np.nan
    x[1, 1] = y[1, 1] = -np.inf
    x[2, 9], y[2, 9] = np.nan, other
    y[3, 3] = np.nan
    with pytest.raises(AssertionError) as caught:
        assert_close(x, y)
    assert "the first NaN or Inf that differs is at [2, 9]: target nan, golden %s" % other in str(
        caught.value
    )


def test_metrics_may_be_given_as_an_iterator():
    assert "MeanAbsoluteError" in compare_arrays(Y, Y, metrics=iter(["MeanAbsoluteError"])).metrics


def test_one_metric_may_be_given_by_name():
    assert "MeanAbsoluteError" in compare_arrays(Y, Y, metrics="MeanAbsoluteError").metrics
    for name in ("Mean", 7):
        with pytest.raises(UsageError, match="unknown metric"):
            compare_arrays(Y, Y, metrics=[name])


def test_the_message_of_assert_close_keeps_sentences_whole():
    x = Y.copy()
    x[0, 0] = np.nan
    with pytest.raises(AssertionError) as caught:
        assert_close(x, np.full_like(Y, np.nan))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 or lines[1].strip() == compare_arrays(x, np.full_like(Y, np.nan)).reason
    assert "; the golden is NaN throughout" in lines[1]


def test_one_limit_may_be_given_as_text_and_other_values_are_refused():
    values = np.ones(8, np.float32)
    assert (
        compare_arrays(values * 1.001, values, limits="RelativeEuclideanDistance<1e-5").verdict
        == "fail"
    )
    for wrong in (5, [5], [["CosineSimilarity>0.9"]]):
        with pytest.raises(UsageError, match="texts such as"):
            compare_arrays(values, values, limits=wrong)
    with pytest.raises(UsageError, match="names of metrics"):
        compare_arrays(values, values, metrics=5)


@pytest.mark.parametrize("mask", [-1e4, -65504.0, -np.inf])
@pytest.mark.parametrize(
    ("factor", "offset", "verdict"), [(1.0, 0.0, "pass"), (1.06, 0.0, "fail"), (1.0, 0.25, "fail")]
)
def test_scores_beside_a_mask_are_judged_without_the_mask(mask, factor, offset, verdict):
    random = np.random.RandomState(3)
    scores = random.standard_normal((2, 4, 24, 24)).astype(np.float32)
    golden, target = scores.copy(), (scores * factor + offset).astype(np.float16)
    golden[..., 20:] = target[..., 20:] = mask
    found = compare_arrays(target, golden)
    assert found.verdict == verdict, found.reason
    if verdict == "fail" and np.isfinite(mask):
        assert "(without the masked elements)" in found.reason
        x, y = (side[..., :20].astype(np.float64).reshape(-1).tolist() for side in (target, golden))
        slow = math.sqrt(
            math.fsum((a - b) ** 2 for a, b in zip(x, y)) / math.fsum(b * b for b in y)
        )
        assert float(found.reason.split()[1]) == pytest.approx(slow, abs=1e-6)


def test_limits_may_be_given_as_an_iterator():
    texts = ["RelativeEuclideanDistance<0.5", "WorstSliceDistance<0.5"]
    for limits in (texts, iter(texts), (text for text in texts), map(str, texts), tuple(texts)):
        assert compare_arrays(Y * 1.2, Y, limits=limits).passed
    assert not compare_arrays(Y * 1.2, Y, limits=iter(["RelativeEuclideanDistance<0.1"])).passed


@pytest.mark.parametrize(
    "limits",
    [
        {"base": []},
        {"base": {}},
        {"CosineSimilarity": {">": math.nan}},
        {"CosineSimilarity": {">": True}},
    ],
)
def test_a_limit_without_a_number_is_refused(limits):
    with pytest.raises((UsageError, InputError), match="no limits named|is not a number"):
        compare_arrays(Y, Y, limits=limits)


def test_a_metric_name_that_is_no_text_is_refused():
    with pytest.raises(UsageError, match="unknown metric"):
        compare_arrays(Y, Y, metrics=[("x", "y")])


def test_a_masked_element_is_not_named_as_the_largest_difference():
    target, golden = np.array([1, 2, 3, -65504], np.float16), np.array([1, 2, 9, -3e38], np.float32)
    with pytest.raises(
        AssertionError, match=r"the largest difference is at \[2\]: target 3.0, golden 9.0"
    ):
        assert_close(target, golden)


def test_a_difference_beyond_float64_is_named_as_the_largest():
    with pytest.raises(
        AssertionError, match=r"the largest difference is at \[1\]: target 1e\+308, golden -1e\+308"
    ):
        assert_close(np.array([1.0, 1e308, 5.0]), np.array([1.0, -1e308, 1.0]))
