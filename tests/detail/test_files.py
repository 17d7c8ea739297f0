"""Every element written as text, against Python's formatting and csv.reader."""

from __future__ import annotations

import csv
import json
import os
from fractions import Fraction

import jsonschema
import numpy as np
import pytest

from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.metrics.patterns.element_errors import errors_of
from goldwatch.schemas import load_text
from goldwatch.tensors.dtypes import dtype_by_name
from goldwatch.tensors.geometry import match_layouts
from goldwatch.tensors.golden_order_windows import ordered_windows
from goldwatch.tensors.layout_conversion import convert
from goldwatch.tensors.tensor import Tensor
from goldwatch.tools.detail.element_files import element_texts
from goldwatch.tools.detail.element_statistics import Histogram
from goldwatch.tools.detail.tensor_detail import Top


def table(path):
    with open(path, newline="") as stream:
        return list(csv.reader(stream))


def test_written_floats_read_back_as_the_same_numbers():
    random = np.random.RandomState(0)
    values = np.concatenate([
        random.standard_normal(2000), 10.0 ** random.uniform(-44, 38, 2000),
        [0, 1, -1, 0.5, 1e8, 1e9, 99999.5, 1e-5, np.inf, -np.inf, np.nan],
    ]).astype(np.float32)  # fmt: skip
    found = element_texts(values)
    assert np.array_equal(np.array(found, "f8").astype("f4"), values, equal_nan=True)
    assert [text.replace("NaN", "nan") for text in found] == [
        "%.9g" % value for value in values.tolist()
    ]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert np.array_equal(
        np.array(element_texts(halves), "f8").astype("f2"), halves, equal_nan=True
    )
    wide = 10.0 ** random.uniform(-320, 300, 500)
    assert np.array_equal(np.array(element_texts(wide), "f8"), wide)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_written_integers_are_exact(dtype):
    limits = np.iinfo(dtype)
    numbers = [
        n
        for n in (limits.min, limits.max, 0, 1, 9, 10, 99, 100, 9999, 10000, 10001, -1, -10)
        if limits.min <= n <= limits.max
    ]
    assert element_texts(np.array(numbers, dtype)) == [str(int(number)) for number in numbers]


def test_differences_of_integers_are_exact():
    pairs = [(2**63 - 1, -(2**63)), (-5, 7), (2**53 + 1, 2**53)]
    found = errors_of(np.array([a for a, _ in pairs], "i8"), np.array([b for _, b in pairs], "i8"))
    assert found.absolute.tolist() == [abs(a - b) for a, b in pairs]
    assert errors_of(np.array([3], "u1"), np.array([5], "u1")).absolute.tolist() == [2]
    mixed = errors_of(np.array([2**64 - 1, 3], "u8"), np.array([-1, 4], "i8"))
    assert mixed.absolute.tolist() == [2**64 - 1, 1]


@pytest.mark.parametrize("base", [2, 10])
def test_histograms_count_as_numpy_does(base):
    random = np.random.RandomState(0)
    for values in (random.standard_normal(3000), np.r_[10.0 ** np.arange(-5, 5),
    -(10.0 ** np.arange(-5, 5)), 0.0], 2.0 ** np.arange(-9, 9),
                   -(2.0 ** np.arange(-9, 9)), np.zeros(4),
                   np.r_[np.inf, np.nan, 1.0]):  # fmt: skip
        histogram = Histogram(base)
        histogram.update(values[:2])
        histogram.update(values[2:])
        for found in (histogram.document(), histogram.document(-1)):
            assert (
                np.histogram(values[np.isfinite(values)], found["edges"])[0].tolist()
                == found["counts"]
            )


def test_the_largest_errors_are_ordered_with_ties_by_position():
    keys = np.array([1.0, 5.0, 3.0, 5.0, np.nan, 3.0, 3.0])
    top = Top(4)
    for start in range(0, 7, 2):
        part = keys[start : start + 2]
        top.update(start, part, part, part)
    assert top.positions.tolist() == [1, 3, 2, 5]
    random = np.random.RandomState(0).randint(0, 50, 4000).astype(np.uint64)
    top = Top(30)
    for start in range(0, 4000, 1000):
        top.update(
            start,
            random[start : start + 1000],
            random[start : start + 1000],
            random[start : start + 1000],
        )
    assert top.positions.tolist() == sorted(range(4000), key=lambda at: (-int(random[at]), at))[:30]


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("most", [1 << 16, 100, 7])
def test_elements_are_read_in_the_goldens_order(order, most):
    shape = (2, 23, 9, 11) if order == "NCHW" else (2, 9, 11, 23)
    golden = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
    target = Tensor.from_array(
        convert(golden.astype(np.float16), order, "NC1HWC0", shape), format="NC1HWC0"
    )
    geometry = match_layouts(target, shape, order, shape)
    for fortran in (False, True):
        other = (
            Tensor.from_array(golden)
            if not fortran
            else Tensor.from_array(golden.reshape(-1, order="F"))
        )
        other = other if not fortran else Tensor(other.dtype, shape, "ND", other.source, order="F")
        for start, stop in ((0, golden.size), (5, 17), (1000, 2100)):
            windows = list(ordered_windows(target, other, geometry, start, stop, most))
            at = windows[0].start
            assert at <= start and all(window.x.size <= most for window in windows)
            for window in windows:
                assert window.start == at
                at += window.x.size
                np.testing.assert_array_equal(
                    window.y.reshape(-1), golden.reshape(-1)[window.start : at]
                )
                np.testing.assert_array_equal(
                    window.x.reshape(-1), golden.astype(np.float16).reshape(-1)[window.start : at]
                )
                np.testing.assert_array_equal(
                    window.y, golden[tuple(slice(*pair) for pair in window.ranges)]
                )
            assert at >= stop


def test_two_npy_files_give_all_elements_and_errors_as_text(detail_of):
    golden = np.random.RandomState(0).standard_normal((2, 3, 7)).astype(np.float32)
    golden[0, 0, :2] = 0
    target = (golden * 1.05).astype(np.float16)
    target[1, 2, 3] = np.nan
    document = detail_of(target, golden, rows="all", max_rows=25, top=5)
    jsonschema.validate(
        json.loads(json.dumps({"op": "op", "tensors": [document]})),
        json.loads(load_text("detail.schema.json")),
    )
    rows = []
    for number, count in enumerate((25, 17)):
        lines = table(detail_of.path("op_output_0_%d.csv" % number))
        assert (
            lines[0] == ["0", "1", "2", "Left", "Right", "RelativeError", "AbsoluteError"]
            and len(lines) == count + 1
        )
        rows += lines[1:]
    for at, row in enumerate(rows):
        place = np.unravel_index(at, golden.shape)
        assert tuple(map(int, row[:3])) == tuple(int(part) for part in place)
        left, right = float(target[place]), float(golden[place])
        assert (
            np.array_equal(np.float16(row[3]), target[place], equal_nan=True)
            and np.float32(row[4]) == golden[place]
        )
        np.testing.assert_allclose(float(row[6]), abs(left - right), rtol=1e-8)
        assert (
            row[5] == "-"
            if right == 0
            else np.isclose(
                float(row[5]), abs(left - right) / abs(right), rtol=1e-8, equal_nan=True
            )
        )
    worst = table(detail_of.path("op_output_0_absolute_error_topn.csv"))[1:]
    assert worst[0][:3] == ["1", "2", "3"] and len(worst) == 5
    errors = np.abs(target.astype(np.float64) - golden).reshape(-1)
    errors[np.isnan(errors)] = np.inf
    positions = [
        int(np.ravel_multi_index([int(part) for part in row[:3]], golden.shape)) for row in worst
    ]
    assert positions == np.argsort(-errors, kind="stable")[:5].tolist()
    with open(detail_of.path("op_output_0_summary.txt"), encoding="utf-8") as stream:
        summary = dict(line.split(": ", 1) for line in stream.read().splitlines())
    ranges = ["MinAbsoluteError", "MaxAbsoluteError", "MinRelativeError", "MaxRelativeError"]
    assert list(summary) == ["TotalCount", "LeftOp", "RightOp", "Format", *ranges]
    assert summary["TotalCount"] == "42" and float(summary["MinAbsoluteError"]) == 0
    where = document["where"]
    finite = np.where(np.isfinite(target), target.astype(np.float64) - golden, 0) ** 2
    for axis in range(3):
        np.testing.assert_allclose(
            where[str(axis)],
            finite.sum(axis=tuple(set(range(3)) - {axis})) / finite.sum(),
            rtol=1e-12,
        )


def test_only_bad_rows_are_written_and_files_of_an_earlier_run_replaced(detail_of):
    golden = np.arange(1, 101, dtype=np.float32)
    detail_of(golden + 1, golden, rows="all", max_rows=10)
    assert os.path.exists(detail_of.path("op_output_0_9.csv"))
    target = golden.copy()
    target[[3, 50, 98]] += 1
    detail_of(target, golden, rows="bad", max_rows=2)
    assert [
        row[0]
        for number in (0, 1)
        for row in table(detail_of.path("op_output_0_%d.csv" % number))[1:]
    ] == ["3", "50", "98"]
    assert not os.path.exists(detail_of.path("op_output_0_2.csv"))
    detail_of(golden, golden, rows="bad")
    assert len(table(detail_of.path("op_output_0_0.csv"))) == 1
    detail_of(golden, golden, rows="none")
    assert not os.path.exists(detail_of.path("op_output_0_0.csv"))


@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
def test_scalars_and_empty_tensors_are_written(detail_of, shape):
    document = detail_of(np.ones(shape, np.float32), np.ones(shape, np.float32), rows="all")
    assert document["verdict"] == "pass"
    assert len(table(detail_of.path("op_output_0_0.csv"))) == 1 + int(np.prod(shape))


@pytest.mark.parametrize(
    "pair", [("?", "?"), ("u1", "i8"), ("i8", "i8"), ("f8", "f8"), ("c8", "c8"), ("f4", "i4")]
)
def test_all_pairs_of_number_types_are_compared(detail_of, pair):
    values = np.arange(12).reshape(3, 4)
    document = detail_of((values % 2).astype(pair[0]), (values % 2).astype(pair[1]), rows="all")
    assert document["bad"] == 0 and [finding["kind"] for finding in document["findings"]] == [
        "healthy"
    ]
    rows = table(detail_of.path("op_output_0_0.csv"))[1:]
    assert (
        [abs(complex(row[2])) for row in rows]
        == [abs(complex(row[3])) for row in rows]
        == (values % 2).reshape(-1).tolist()
    )
    wrong = detail_of((values + 1).astype(pair[0]), (2 * values).astype(pair[1]), rows="bad")
    assert wrong["bad"] == int(
        np.count_nonzero((values + 1).astype(pair[0]) != (2 * values).astype(pair[1]))
    )


def test_errors_in_slots_of_the_devices_blocks_are_located(tmp_path, detail_of):
    from goldwatch.metrics.pair_task import Settings
    from goldwatch.tools.detail.compare_op import compare_op
    from goldwatch.tools.detail.tensor_detail import DetailSettings
    from goldwatch.tools.detail.tensor_pairs import pairs_in_files

    golden = np.random.RandomState(0).standard_normal((1, 64, 6, 5)).astype(np.float32)
    target = golden.astype(np.float16)
    target[:, 3::16] += 1
    stored = convert(target, "NCHW", "NC1HWC0", target.shape)
    path, other = (
        str(tmp_path / "Conv2D.conv1.1.2.1234567890123456"),
        str(tmp_path / "conv1.0.1234567890123456.npy"),
    )
    half = dtype_by_name("float16")
    write_dump(
        path, outputs=[TensorData(stored.tobytes(), half, "NC1HWC0", stored.shape, target.shape)]
    )
    np.save(other, golden)
    found = compare_op(
        pairs_in_files(path, other), DetailSettings(str(tmp_path / "out"), compare=Settings())
    )
    document = found.tensors[0].document
    assert found.op == "conv1" and document["axes"] == ["N", "C", "H", "W"]
    assert len(document["where"]["C0"]) == 16 and document["where"]["C0"][3] > 0.99
    first = document["findings"][0]
    assert (
        first["kind"] == "region"
        and first["detail"]["axis"] == "C0"
        and first["detail"]["indices"] == [3]
    )
    assert table(str(tmp_path / "out" / "conv1_output_0_0.csv"))[0][:4] == ["N", "C", "H", "W"]


@pytest.mark.parametrize("tells_original_shape", [True, False])
def test_the_padding_of_two_dumps_is_compared_only_where_it_is_not_known(
    tmp_path, tells_original_shape
):
    from goldwatch.metrics.pair_task import Settings
    from goldwatch.tools.detail.compare_op import compare_op
    from goldwatch.tools.detail.tensor_detail import DetailSettings
    from goldwatch.tools.detail.tensor_pairs import pairs_in_files

    half = dtype_by_name("float16")
    few = np.random.RandomState(1).standard_normal((1, 8, 6, 5)).astype(np.float16)
    packed = convert(few, "NCHW", "NC1HWC0", few.shape)
    dirty = packed.copy()
    dirty[..., 8:] = 3
    original = (few.shape,) if tells_original_shape else ()
    paths = [str(tmp_path / ("Conv2D.conv1.1.2.%d" % (1234567890123456 + at))) for at in (0, 1)]
    for path, array in zip(paths, (dirty, packed)):
        write_dump(
            path, outputs=[TensorData(array.tobytes(), half, "NC1HWC0", array.shape, *original)]
        )
    settings = DetailSettings(str(tmp_path / "out"), compare=Settings())
    document = compare_op(pairs_in_files(*paths), settings).tensors[0].document
    (first, *_) = document["findings"]
    if tells_original_shape:
        assert document["axes"] == ["N", "C", "H", "W"] and first["kind"] == "healthy"
    else:
        assert document["axes"] == ["N", "C1", "H", "W", "C0"]
        assert first["sentence"].endswith("the device's padding")


def test_shares_of_the_error_along_an_axis_are_exact(detail_of):
    golden = np.array([[1, 2], [3, 4]], np.int32)
    document = detail_of(golden + np.array([[0, 1], [2, 0]], np.int32), golden)
    assert [Fraction(part).limit_denominator(100) for part in document["where"]["0"]] == [
        Fraction(1, 5),
        Fraction(4, 5),
    ]
