"""Differences explained by rounding alone pass: values below the normal range, integers that a
float type cannot hold.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import goldwatch
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.judging.diagnosis.compare_arrays import compare_arrays
from goldwatch.metrics.compare_blocks import compare_blocks
from goldwatch.metrics.rounding_slack import rounding_slack
from goldwatch.metrics.row import MEASURES

Y = np.random.RandomState(5).standard_normal((4, 16, 16))


@pytest.mark.parametrize("scale", [1e-5, 1e-6, 1e-7, 2e-8, 1e-9])
@pytest.mark.parametrize(
    "limits", [None, ["CosineSimilarity>0.99", "RelativeEuclideanDistance<0.05"]]
)
def test_float16_below_its_normal_range_passes(scale, limits):
    y = (Y * scale).astype(np.float32)
    result = compare_arrays(y.astype(np.float16), y, limits=limits)
    assert result.passed
    if scale <= 1e-7:
        assert "float16 rounds to steps of 5.96e-08 there, which explains it" in result.reason
        assert (
            not result.metrics["CosineSimilarity"] > 0.99
        ), "the metric itself is what the formula gives"


@pytest.mark.parametrize("scale", [1e-5, 1e-6, 2e-7])
@pytest.mark.parametrize(
    "change",
    [
        lambda y: np.where(np.arange(16) < 8, y, 0),
        lambda y: -y,
        lambda y: np.roll(y, 1, -1),
        lambda y: y * 3,
    ],
)
def test_differences_beyond_rounding_fail(scale, change):
    y = (Y * scale).astype(np.float32)
    assert compare_arrays(change(y).astype(np.float16), y).verdict == "fail"


def test_distances_are_judged_at_the_nearest_target_that_rounding_allows():
    y = Y * 1e-7
    x = (y * 1.5).astype(np.float16)
    slack = rounding_slack("float16", "float32")
    assert slack.distance == 2.0**-25
    found = compare_blocks(lambda: [(x, y.astype(np.float32))], MEASURES, (), slack)
    target, golden = x.astype(np.float64).ravel(), y.astype(np.float32).astype(np.float64).ravel()
    apart = np.linalg.norm(target - golden)
    nearest = golden + (target - golden) * (1 - 2.0**-25 * math.sqrt(target.size) / apart)
    assert found.judged["RelativeEuclideanDistance"] == pytest.approx(
        np.linalg.norm(nearest - golden) / np.linalg.norm(golden), rel=1e-9
    )
    cosine = nearest.dot(golden) / np.linalg.norm(nearest) / np.linalg.norm(golden)
    assert found.judged["CosineSimilarity"] == pytest.approx(cosine, rel=1e-9)
    assert found.values["RelativeEuclideanDistance"] == pytest.approx(
        apart / np.linalg.norm(golden), rel=1e-9
    )


def test_rounding_slack_changes_nothing_at_ordinary_magnitudes():
    y = Y.astype(np.float32)
    assert not compare_blocks(
        lambda: [(y.astype(np.float16), y)], MEASURES, (), rounding_slack("float16", "float32")
    ).judged


def test_a_zeroed_slice_of_tiny_values_beside_ordinary_ones_fails():
    y = Y.astype(np.float32)
    y[2] *= 1e-8
    x = y.astype(np.float16)
    assert compare_arrays(x, y).passed
    x[1] = 0
    assert compare_arrays(x, y).verdict == "fail"


@pytest.mark.parametrize("target", ["int32", "int64", "uint32"])
def test_integers_that_the_golden_type_cannot_hold_pass(target):
    ids = np.random.RandomState(1).randint(2**24, 2**31 - 200, 500).astype(target)
    golden = ids.astype(np.float32)
    assert (ids.astype(np.float64) != golden).any()
    assert compare_arrays(ids, golden).passed and compare_arrays(golden, ids).passed
    wrong = ids.copy()
    wrong[7] += np.array(500, target)
    result = compare_arrays(wrong, golden)
    assert (
        result.verdict == "fail"
        and "1 of 500 elements differ" in result.reason
        and "the first at [7]" in result.reason
    )


def test_integers_that_the_target_type_cannot_hold_pass():
    ids = np.arange(0, 30000, 7)
    assert compare_arrays(ids.astype(np.float16), ids).passed
    assert compare_arrays((ids + 40).astype(np.float16), ids).verdict == "fail"


@pytest.mark.parametrize(
    "sides",
    [
        ("float16", "int32"),
        ("float32", "int64"),
        ("int32", "float32"),
        ("int64", "int8"),
        ("float64", "uint8"),
    ],
)
def test_four_wrong_labels_of_256_fail(sides):
    labels = np.random.RandomState(2).randint(0, 100, 256)
    wrong = labels.copy()
    wrong[[3, 9, 20, 21]] += 7
    assert compare_arrays(labels.astype(sides[0]), labels.astype(sides[1])).passed
    result = compare_arrays(wrong.astype(sides[0]), labels.astype(sides[1]))
    assert (
        result.verdict == "fail"
        and result.decided_by == "DifferentElements<=0"
        and "4 of 256 elements differ" in result.reason
    )


@pytest.mark.parametrize(
    "sides",
    [
        ("uint8", "bool"),
        ("bool", "uint8"),
        ("int8", "int8"),
        ("uint8", "uint8"),
        ("float16", "bool"),
    ],
)
def test_integers_are_judged_by_equality_alone(sides):
    random = np.random.RandomState(4)
    x, y = (random.randint(0, 2, (64, 64)).astype(name) for name in sides)
    assert compare_arrays(x, y).decided_by == "DifferentElements<=0"
    assert (
        "RelativeEuclideanDistance<0.1"
        in compare_arrays(
            x, y, limits=["dtype=%s:RelativeEuclideanDistance<0.1" % sides[0]]
        ).decided_by
    )


def test_a_float32_cast_of_values_rounded_in_float16_passes(tmp_path):
    golden = (np.abs(Y) * 1e-7).astype(np.float32)
    rounded = golden.astype(np.float16)
    place, ops = tmp_path / "dump" / "20260102030405" / "0" / "net" / "1" / "0", []
    place.mkdir(parents=True)
    (tmp_path / "golden").mkdir()
    for number, (name, kind, values) in enumerate(
        [("sig", "Sigmoid", rounded), ("cast", "Cast", rounded.astype(np.float32))]
    ):
        tensor = TensorData(values, format="ND", original_shape=values.shape)
        write_dump(
            str(place / ("%s.%s.%d.1.170000000000000%d" % (kind, name, number, number))),
            [],
            [tensor],
            op_name=name,
        )
        np.save(str(tmp_path / "golden" / ("%s.0.1700000000000000.npy" % name)), golden)
        desc = {
            "dtype": "DT_FLOAT16" if values.dtype == np.float16 else "DT_FLOAT",
            "layout": "ND",
            "shape": {"dim": list(values.shape)},
        }
        ops.append({"name": name, "type": kind, "id": number, "input": ["sig:0"] if number else [],
        "output_desc": [desc],
                    "input_desc": [dict(desc, dtype="DT_FLOAT16")] if number else []})  # fmt: skip
    (tmp_path / "net.json").write_text(json.dumps({"graph": [{"name": "net", "op": ops}]}))
    target, golden, model, out = (
        str(tmp_path / name) for name in ("dump", "golden", "net.json", "out")
    )
    result = goldwatch.compare(target, golden, model=model, out=out)
    rows = {row.op: row for row in result.rows()}
    assert rows["sig"].verdict == rows["cast"].verdict == "pass", rows["cast"].reason
    assert "float16 rounds to steps of 5.96e-08 there, which explains it" in rows["cast"].reason
