from __future__ import annotations

import csv
import errno
import json
import math
import os
import re

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.table_cells import cells_of

from goldwatch.base.atomic_writing import atomic_text_writer
from goldwatch.base.errors import EnvironmentProblem
from goldwatch.dumps.place import Place
from goldwatch.judging.diagnosis.summary import summarise
from goldwatch.judging.limits import Limits, parse_limits
from goldwatch.metrics.row import METRICS, VERDICTS, Row
from goldwatch.reports.csv_cells import (
    Columns,
    header,
    mapping_cells,
    metric_cell,
    shape_cell,
    text_cell,
)
from goldwatch.reports.csv_tables import TableFiles, result_names
from goldwatch.reports.report_context import ReportContext, write_files
from goldwatch.reports.result_json import JsonFile
from goldwatch.reports.terminal_table import most_urgent, render_table
from goldwatch.schemas import load_schema
from goldwatch.store.json_numbers import plain_tree
from goldwatch.store.store import RunStore

DOCUMENTED = (
    "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,CosineSimilarity,MaxAbsoluteError,"
    "AccumulatedRelativeError,RelativeEuclideanDistance,KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,"
    "RootMeanSquareError,MaxRelativeError,MeanRelativeError,CompareFailReason"
)


def read(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_the_table_has_the_documented_columns():
    assert ",".join(header(Columns())) == DOCUMENTED
    chosen = Columns(
        op_sequence=True,
        golden_address=True,
        overflow=True,
        metrics=("MaxAbsoluteError", "CosineSimilarity"),
    )
    assert (
        header(chosen)
        == (
            "Index OpSequence OpType NPUDump DataType Address GroundTruth DataType Address "
            "TensorIndex Shape OverFlow "
            "MaxAbsoluteError CosineSimilarity CompareFailReason"
        ).split()
    )


def test_the_cells_of_a_full_row_are_as_documented(make_row):
    row = make_row(
        4,
        group=("op1", "op2"),
        golden="conv1,bn1",
        target_dtype="float16",
        golden_dtype="float32",
        address=4096,
        golden_address=17,
        op_sequence=3,
        overflow=True,
        reason="a scalar",
        metrics={
            "CosineSimilarity": 0.9999999,
            "MaxAbsoluteError": 5e-7,
            "RelativeEuclideanDistance": 0.0,
            "StandardDeviation": {
                "target": {"mean": 1.0, "std": 0.12345},
                "golden": {"mean": -1.0, "std": 0.0},
            },
            "MaxRelativeError": math.inf,
        },
    )
    assert cells_of(row, Columns(op_sequence=True, golden_address=True, overflow=True)) == [
        *[
            "1",
            "3",
            "Conv2D",
            "op1,op2",
            "float16",
            "4096",
            "conv1,bn1",
            "float32",
            "17",
            "op1:output:0",
            "[1,64,56,56]",
            "YES",
        ],
        *[
            "1.000000",
            "5.000000e-07",
            "NaN",
            "0.000000",
            "NaN",
            "(1.000;0.123),(-1.000;0.000)",
            "NaN",
            "NaN",
            "inf",
            "NaN",
            "a scalar",
        ],
    ]


def test_the_cells_of_an_empty_row_are_as_documented():
    row = Row(
        index=3,
        op="op",
        op_type="Data",
        tensor="op",
        kind="op",
        verdict="expected_absent",
        reason="Data has no dump",
    )
    columns = Columns(op_sequence=True, golden_address=True, overflow=True)
    assert cells_of(row, columns) == [
        *["3", "NaN", "Data", "op", "NaN", "NaN", "*", "NaN", "NaN", "NaN", "NaN", "NaN"],
        *["NaN"] * 10,
        "Data has no dump",
    ]


@given(
    st.text(max_size=30)
    | st.text(st.characters(min_codepoint=0xDC00, max_codepoint=0xDFFF), max_size=3)
)
def test_text_cells_are_no_formulas_and_hold_no_controls(text):
    cell = text_cell(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", cell)
    cell.encode("utf-8")
    if re.match(r"[A-Za-z0-9_/. ,]*\Z", text):
        assert cell == text


@pytest.mark.parametrize(
    "text, cell",
    [
        ("=cmd()", "'=cmd()"),
        ("a\nb", "a\\x0ab"),
        ("\x1b[31m", "\\x1b[31m"),
        ("@x\t", "'@x\\x09"),
        ("a=b", "a=b"),
        ("*", "*"),
    ],
)
def test_text_cells_are_escaped(text, cell):
    assert text_cell(text) == cell


@given(st.floats())
def test_metric_cells_keep_their_number(value):
    cell = metric_cell(value)
    if math.isnan(value):
        assert cell == "NaN"
    elif math.isinf(value):
        assert float(cell) == value
    else:
        assert abs(float(cell) - value) <= max(
            5.1e-7 * (abs(value) if abs(value) < 1e-4 else 1.0), abs(value) * 1e-15
        )
        assert ("e" in cell) == (0 < abs(value) < 1e-4)


@pytest.mark.parametrize(
    "value, cell",
    [
        (None, "NaN"),
        ("text", "text"),
        ("=x", "'=x"),
        (3, "3.000000"),
        ({}, "NaN"),
        (True, "1.000000"),
    ],
)
def test_metric_cells_without_a_number_are_text(value, cell):
    assert metric_cell(value) == cell


def test_shapes_are_written_in_brackets():
    assert [shape_cell(shape) for shape in (None, (), (5,), (1, 2))] == [
        "NaN",
        "[]",
        "[5]",
        "[1,2]",
    ]


def test_an_op_without_a_dump_has_no_tensor_index(make_row):
    row = make_row(
        0,
        kind="op",
        tensor="op0",
        tensor_index=None,
        target_file=None,
        verdict="not_compared",
        cause="dump_missing",
    )
    assert cells_of(row)[7] == "NaN" and mapping_cells(row, "t", "g")[4:] == [
        "NaN",
        "NaN",
        "NaN",
    ]
    folder = make_row(
        0, kind="op", tensor="step7", target_file="dump/step7", verdict="not_compared"
    )
    assert cells_of(folder)[7] == "step7"


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = str(tmp_path / "result.csv")
    with atomic_text_writer(path) as stream:
        stream.write("old")
    with pytest.raises(EnvironmentProblem) as caught, atomic_text_writer(path) as stream:
        stream.write("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "disk is full" in caught.value.message and "free space" in caught.value.hint
    with pytest.raises(ZeroDivisionError), atomic_text_writer(path) as stream:
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["result.csv"] and (tmp_path / "result.csv").read_text() == "old"
    with pytest.raises(EnvironmentProblem, match="cannot be written"), atomic_text_writer(
        str(tmp_path / "none" / "x")
    ) as stream:
        stream.write("")


ROOT = Place()
STAMP = "20240102030405"


def place(device, step, model_id="1", time="20240101000000", model="net"):
    return Place(time, device, model, model_id, step)


def test_table_file_names_tell_places_apart():
    assert result_names([ROOT], STAMP) == {ROOT: "result_%s.csv" % STAMP}
    one = place("0", "5")
    assert result_names([one], STAMP) == {one: "result_%s.csv" % STAMP}
    two = place("0", "5", model_id="2")
    names = result_names([one, two, place("1", "5")], STAMP, stem="mapping")
    assert names[one] == "20240101000000_0_net_1_5_mapping_%s.csv" % STAMP
    assert names[two] == "20240101000000_0_net_2_5_mapping_%s.csv" % STAMP
    assert names[place("1", "5")] == "1_net_5_mapping_%s.csv" % STAMP
    odd = place("0", "5", model="a/b\n" + "x" * 300)
    name = result_names([odd, one], STAMP)[odd]
    assert (
        len(os.fsencode(name)) <= 255
        and "/" not in name
        and "\n" not in name
        and name.endswith("_result_%s.csv" % STAMP)
    )


def test_each_place_of_a_store_gets_its_table(tmp_path, make_row):
    out = str(tmp_path / "out")
    first, second, third = place("0", "9"), place("0", "10"), place("0", "9", model_id="2")

    def at(number, where):
        return make_row(number, **where._asdict())

    with RunStore.begin(out, {}) as store:
        (empty,) = TableFiles(store, Columns()).write()
        assert (
            read(empty) == [DOCUMENTED.split(",")]
            and os.path.basename(empty) == "result_%s.csv" % store.started
        )
        store.put_all([at(0, first), at(1, first), at(0, second)])
        paths = TableFiles(store, Columns(), ("dump", "/golden")).write()
        names = ["0_net_9_result", "0_net_9_mapping", "0_net_10_result", "0_net_10_mapping"]
        assert [os.path.basename(path) for path in paths] == [
            "%s_%s.csv" % (name, store.started) for name in names
        ]
        assert not os.path.exists(empty)
        assert [len(read(path)) for path in paths] == [3, 3, 2, 2]
        assert read(paths[1])[:2] == [
            "Index,OpType,NPUDump,GroundTruth,TensorIndex,NPUDumpPath,GroundTruthPath".split(","),
            [
                "0",
                "Conv2D",
                "op0",
                "*",
                "op0:output:0",
                os.path.abspath("dump/Conv2D.op0.1.2.3"),
                "NaN",
            ],
        ]
        store.put(at(0, third))
        again = TableFiles(store, Columns()).write([third])
        assert [len(read(path)) for path in again] == [3, 2]
        found = [name for name in os.listdir(out) if name.endswith(".csv")]
        assert sorted(found) == sorted(
            "%s_result_%s.csv" % (name, store.started)
            for name in ("20240101000000_0_net_1_9", "20240101000000_0_net_2_9", "0_net_10")
        )
        assert TableFiles(store, Columns()).write([]) == []


def result_text(tmp_path, summary, limits, rows, omitted=()):
    path = tmp_path / "result.json"
    context = ReportContext(
        "out", "", True, plain_tree(summary.document()), "", {}, limits, Columns(), omitted=omitted
    )
    write_files(rows, {str(path): JsonFile}, context)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("validator", [jsonschema.Draft7Validator, jsonschema.Draft202012Validator])
def test_result_json_fits_its_schema(tmp_path, make_row, validator):
    odd = "x\udcff\ud800\x1b=\n"
    rows = [
        make_row(
            0,
            verdict="fail",
            op=odd,
            tensor=odd + ":output:0",
            metrics={"CosineSimilarity": math.nan, "MaxAbsoluteError": math.inf},
        ),
        make_row(1, step="3", overflow=False, golden_dtype="float32", address=2**64 - 1),
        Row(index=2, op="op", op_type="Data", tensor="op", kind="op", verdict="expected_absent"),
        Row(
            index=3,
            op="op3",
            op_type="Conv2D",
            tensor="op3:output:0",
            kind="output",
            verdict="not_compared",
            cause="golden_missing",
            tensor_index=0,
        ),
    ]
    limits = parse_limits(["MaxAbsoluteError=inf"])
    summary = summarise(rows, 9, limits, program={"exit_code": None, "signal": "SIGKILL"})
    text = result_text(tmp_path, summary, limits, rows, [(odd, "inner")])
    text.encode("ascii")
    document = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    schema = load_schema("result")
    validator.check_schema(schema)
    validator(schema).validate(document)
    assert list(document) == ["summary", "limits", "rows", "omitted"]
    assert document["limits"]["MaxAbsoluteError"] == {"<": "Infinity"}
    assert document["omitted"] == [{"tensor": odd, "reason": "inner"}]
    first = document["summary"]["first_divergence"]
    assert (first["op"], first["metric"], first["inputs"]) == (odd, "MaxAbsoluteError", "unknown")
    assert (first["value"], first["limit"]) == ("Infinity", "Infinity")
    assert [row["verdict"] for row in document["rows"]] == [
        "fail",
        "pass",
        "expected_absent",
        "not_compared",
    ]
    assert document["rows"][0]["tensor"] == odd + ":output:0"
    assert list(document["rows"][2]["metrics"]) == list(METRICS)
    assert (
        document["rows"][0]["metrics"]["MaxAbsoluteError"] == "Infinity"
        and document["rows"][2]["metrics"]["StandardDeviation"] is None
    )
    assert document["rows"][1]["metrics"]["StandardDeviation"]["golden"] == {
        "mean": -0.5,
        "std": "Infinity",
    }
    assert (
        document["rows"][1]["address"] == 2**64 - 1
        and document["rows"][1]["metrics"]["CosineSimilarity"] == 0.25 + 1e-9
    )


def test_result_json_without_rows_is_valid(tmp_path):
    document = json.loads(result_text(tmp_path, summarise([], 0, Limits()), Limits(), []))
    assert document["rows"] == [] and document["omitted"] == [] and document["summary"]["rows"] == 0


def test_the_schema_refuses_bare_nan_names_and_missing_fields(tmp_path, make_row):
    summary = summarise([make_row(0)], 1, Limits())
    document = json.loads(result_text(tmp_path, summary, Limits(), [make_row(0)]))
    validator = jsonschema.Draft7Validator(load_schema("result"))
    assert validator.is_valid(document)
    document["rows"][0]["metrics"]["CosineSimilarity"] = "nan"
    assert not validator.is_valid(document)
    del document["rows"][0]["metrics"]["CosineSimilarity"], document["rows"][0]["tensor"]
    assert not validator.is_valid(document)


def chosen(rows, most):
    verdicts = np.array([VERDICTS.index(row.verdict) for row in rows], np.uint8)
    return [rows[number] for number in most_urgent(verdicts, most)]


@pytest.mark.parametrize("width", [66, 80, 100, 132])
def test_the_terminal_table_fits_its_width(make_row, width):
    rows = [
        make_row(
            0,
            tensor="scope/" * 9 + "c:output:0",
            verdict="fail",
            reason="CosineSimilarity 0.5 is not > 0.99; and so on " * 3,
        ),
        make_row(
            1,
            tensor="scope/" * 9 + "conv:output:1",
            verdict="not_compared",
            metrics={},
            reason="golden missing",
        ),
        make_row(2, step="1"),
    ]
    lines = list(
        render_table(
            [rows],
            9,
            file="a/rather/long/path/to/OUT/result.csv",
            first_tensor=rows[0].tensor,
            width=width,
        )
    )
    assert max(len(line) for line in lines) <= width
    text = "\n".join(lines)
    assert (
        "cosine" in "".join(lines[:2])
        and "FAIL" in text
        and "output:0" in text
        and "golden missing" in text
    )
    assert "CosineSimilarity 0.5 is" in text


def test_the_terminal_table_marks_the_first_failing_row_and_counts_the_rest(make_row):
    rows = [make_row(number) for number in range(50)]
    rows[30] = make_row(
        30, verdict="fail", reason="CosineSimilarity 0.5 is not > 0.99 " + "x" * 200
    )
    rows[40] = make_row(40, verdict="not_compared", metrics={}, reason="\x1b[31mgolden missing")
    lines = list(
        render_table(
            [chosen(rows, 5)], 50, file="OUT/result.csv", first_tensor=rows[30].tensor, width=100
        )
    )
    assert lines[-1] == "... 45 more rows in OUT/result.csv"
    assert len(lines) == 9 and all(len(line) <= 100 for line in lines)
    assert [line.split()[0] for line in lines[1:4]] == ["pass"] * 3
    assert (
        lines[4].startswith(">  FAIL ")
        and lines[4].endswith(" > 0.99")
        and lines[6].strip() == "x" * 32 + "..."
    )
    assert (
        "not compared" in lines[7]
        and "\\x1b[31mgolden missing" in lines[7]
        and "\x1b" not in "".join(lines)
    )
    assert len(list(render_table([iter(rows)]))) == 51
    coloured = list(render_table([chosen(rows, 2)], colour=True))
    assert "\x1b[31mFAIL" in coloured[1] and "\x1b" not in coloured[0]
    assert list(render_table([[]])) == ["  verdict  tensor  cosine  rel. Euclid  max abs  reason"]
    assert list(render_table([chosen(rows, 5)]))[4].endswith(
        "x" * 200
    ), "in a file no reason is cut"
    long = make_row(0, tensor="a" * 100 + ":output:0")
    assert long.tensor in list(render_table([[long]]))[1]
    endless = [
        make_row(0, tensor="p" * 90000 + letter + "q" * 90000 + ":output:0") for letter in "AB"
    ]
    lines = list(render_table([endless]))
    assert (
        max(map(len, lines)) < 300
        and "ppA" in lines[1]
        and "ppB" in lines[2]
        and lines[1].split()[1].endswith("qq:output:0")
    )


@pytest.mark.parametrize("width", [40, 66, 80, 132, None])
def test_the_terminal_table_shows_whole_names(make_row, width):
    """Layers that differ by a number in the middle of their names, as those of BERT."""
    kinds = ("attention/self/query/MatMul", "output/LayerNorm/batchnorm/add_1")
    names = [
        "bert/encoder/layer_%d/%s:output:0" % (layer, kind) for layer in range(12) for kind in kinds
    ]
    rows = [
        make_row(number, tensor=name, verdict="fail", reason="outside " * 9)
        for number, name in enumerate(names)
    ]
    lines = list(render_table([rows], width=width))
    assert all(len(line) <= width for line in lines if width)
    text = "".join(line.strip() for line in lines)
    assert [text.count(name) for name in names] == [1] * len(names)
    assert width in (40, 66) or sum(name in line for name in names for line in lines) == len(
        names
    ), "a name can be copied"
