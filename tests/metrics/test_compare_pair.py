"""One pair: padding, types that fit, causes, overflow without golden data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from goldwatch.dumps.dump_tree import DumpTree
from goldwatch.dumps.golden_set import GoldenEntry, GoldenSet
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.judging.limits import Limits, parse_limits
from goldwatch.judging.row_judge import RowJudge
from goldwatch.metrics.compare_pair import compare_pairs, compare_tensors, overflow_of
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import MEASURES, Row
from goldwatch.run.file_planner import Planner
from goldwatch.tensors.dtypes import dtype_by_code
from goldwatch.tensors.tensor import MemorySource, Tensor

ENTRY = GoldenEntry("", "", "a", 0, 0, "npy")


def judge(limits=None):
    return Settings(MEASURES, True, RowJudge(limits if limits is not None else Limits()))


def compare(target, golden, **fields):
    task = PairTask(
        Row(index=0, op="a", op_type="Conv2D", tensor="a:output:0", kind="output", verdict="pass"),
        target,
        ENTRY,
        **fields,
    )
    return compare_tensors(task, golden, None, judge())


@pytest.mark.parametrize(
    "filled, verdict", [(0.0, "pass"), (1.0, "not_compared"), (np.nan, "not_compared")]
)
def test_channels_beyond_the_goldens_are_padding_only_when_they_are_zero(filled, verdict):
    stored = np.ones((1, 2, 3, 3, 16), np.float16)
    stored[:, 1, :, :, 4:] = filled
    row = compare(
        Tensor.from_array(stored, "NC1HWC0"), Tensor.from_array(np.ones((1, 20, 3, 3), np.float32))
    )
    assert row.verdict == verdict and "C 20 of 32" in row.reason
    if verdict == "not_compared":
        assert (
            row.cause == "shape"
            and "[1, 2, 3, 3, 16]" in row.reason
            and "[1, 20, 3, 3]" in row.reason
        )


@pytest.mark.parametrize("place", [(0, 1, 2, 2, 4), (0, 1, 0, 0, 15)])
def test_one_nonzero_element_in_assumed_padding_prevents_the_comparison(place):
    stored = np.zeros((1, 2, 3, 3, 16), np.float16)
    stored[place] = 1
    row = compare(
        Tensor.from_array(stored, "NC1HWC0"), Tensor.from_array(np.zeros((1, 20, 3, 3), np.float32))
    )
    assert row.verdict == "not_compared"


def test_padding_is_recognised_in_two_dims_at_once():
    stored = np.ones((2, 3, 16, 16), np.float16)
    golden = Tensor.from_array(np.ones((40, 20), np.float32))
    laid_out = stored.transpose(1, 2, 0, 3).reshape(48, 32)
    laid_out[40:], laid_out[:, 20:] = 0, 0
    zero = np.ascontiguousarray(laid_out.reshape(3, 16, 2, 16).transpose(2, 0, 1, 3))
    assert compare(Tensor.from_array(zero, "FRACTAL_NZ"), golden).verdict == "pass"
    for place in ((1, 2, 15, 15), (0, 2, 8, 0), (1, 0, 0, 4)):
        wrong = zero.copy()
        wrong[place] = 1
        assert compare(Tensor.from_array(wrong, "FRACTAL_NZ"), golden).verdict == "not_compared"


def test_a_known_original_shape_tells_what_is_padding():
    stored = np.ones((1, 2, 3, 3, 16), np.float16)
    golden = Tensor.from_array(np.ones((1, 20, 3, 3), np.float32))
    known = {"origin_format": "NCHW", "origin_shape": (1, 20, 3, 3)}
    assert compare(Tensor.from_array(stored, "NC1HWC0"), golden, **known).verdict == "pass"


def test_float16_against_float32_of_two_dumps_is_compared_with_a_note():
    target, golden = (
        Tensor.from_array(np.ones((2, 3), np.float16)),
        Tensor.from_array(np.ones((2, 3), np.float32)),
    )
    row = compare(target, golden, as_stored=True)
    assert (
        row.verdict == "pass"
        and "data types differ: float16, in the other dump float32" in row.reason
    )
    row = compare(target, Tensor.from_array(np.ones((2, 3), np.int32)), as_stored=True)
    assert (row.verdict, row.cause) == ("not_compared", "dtype")
    row = compare(target, Tensor.from_array(np.ones((3, 2), np.float32)), as_stored=True)
    assert (row.verdict, row.cause) == ("not_compared", "shape")


def test_a_path_with_type_in_its_name_does_not_change_the_cause(tmp_path):
    folder = tmp_path / "prototype"
    folder.mkdir()
    np.save(str(folder / "a.0.1767323045000000.npy"), np.ones((4, 5), np.float32))
    entry = GoldenSet(str(folder)).find("a", 0)
    task = PairTask(
        Row(index=0, op="a", op_type="A", tensor="a:output:0", kind="output", verdict="pass"),
        Tensor.from_array(np.ones((2, 3), np.float16)),
        entry,
    )
    (row,) = compare_pairs([task], judge())
    assert (row.verdict, row.cause) == ("not_compared", "shape")
    text = replace(
        task, target=Tensor(dtype_by_code(13), (4, 5), "ND", MemorySource(np.zeros(20, np.uint8)))
    )
    (row,) = compare_pairs([text], judge())
    assert (row.verdict, row.cause) == ("not_compared", "dtype")


@pytest.mark.parametrize(
    "values, found",
    [
        (np.array([1, np.inf], np.float16), True),
        (np.array([65504], np.float16), True),
        (np.array([1, 2], np.float16), False),
        (np.array([1, np.nan], np.float32), True),
        (np.zeros(0, np.float32), False),
        (np.array([1], np.int32), None),
    ],
)
def test_overflow_is_found_without_golden_data(values, found):
    assert overflow_of(Tensor.from_array(values)) is found
    row = compare(Tensor.from_array(values), Tensor.from_array(np.ones((7, 9), np.float32)))
    assert row.verdict == "not_compared" and row.overflow is found


@pytest.mark.parametrize("wanted, found", [(True, True), (False, None)])
def test_overflow_is_filled_in_where_golden_data_is_missing(tmp_path, wanted, found):
    dumps, golden = tmp_path / "dumps", tmp_path / "golden"
    dumps.mkdir()
    golden.mkdir()
    write_dump(
        str(dumps / "Relu.a.1.2.1767323045000000"),
        [],
        [TensorData(np.array([1, np.inf], np.float16))],
    )
    np.save(str(golden / "other.0.1767323045000000.npy"), np.ones(2, np.float32))
    (step_folder,) = DumpTree(str(dumps)).step_folders
    planner = Planner(step_folder.place, GoldenSet(str(golden)), overflow=wanted)
    (row,) = planner.plan(step_folder.files[0]).waiting
    assert (row.cause, row.overflow) == ("golden_missing", found)


def test_equal_bytes_are_still_judged_by_each_ops_limits(tmp_path):
    np.save(str(tmp_path / "a.0.1767323045000000.npy"), np.ones((4, 5), np.float32))
    entry = GoldenSet(str(tmp_path)).find("a", 0)
    target = Tensor.from_array(np.full((4, 5), 1.04, np.float32))
    tasks = [
        PairTask(
            Row(
                index=0, op=op, op_type=kind, tensor=op + ":output:0", kind="output", verdict="pass"
            ),
            target,
            entry,
        )
        for op, kind in (("a", "A"), ("b", "B"), ("c", "A"))
    ]
    rows = compare_pairs(tasks, judge(parse_limits(["type=B:RelativeEuclideanDistance<0.1"])))
    assert [row.verdict for row in rows] == ["fail", "pass", "fail"]
    assert (
        "type=B:RelativeEuclideanDistance<0.1" in rows[1].decided_by
        and rows[2].decided_by == rows[0].decided_by
    )
    assert rows[0].worst_slice is not None


def test_the_reason_names_the_worst_slice_and_differing_elements():
    golden = np.arange(256, dtype=np.int32)
    labels = golden.copy()
    labels[[3, 9, 20, 21]] += 7
    row = compare(Tensor.from_array(labels), Tensor.from_array(golden))
    assert row.verdict == "fail" and row.decided_by == "DifferentElements<=0"
    assert (
        "4 of 256 elements differ (1.56 %), the first at [3]: 10 for 3, [9]: 16 for 9, [20]: "
        "27 for 20" in row.reason
    )
    argmax = PairTask(
        Row(
            index=0, op="a", op_type="ArgMaxV2", tensor="a:output:0", kind="output", verdict="pass"
        ),
        Tensor.from_array(labels),
        ENTRY,
    )
    assert (
        "ArgMaxV2 decides"
        in compare_tensors(argmax, Tensor.from_array(golden), None, judge()).reason
    )
