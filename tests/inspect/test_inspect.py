"""``goldwatch inspect`` on files and trees, as a user calls it."""

from __future__ import annotations

import json
import math
import os
import struct

import jsonschema
import numpy as np
import pytest
from in_process import run_here

from goldwatch.base.errors import FormatError
from goldwatch.dumps.dump_file import DumpFile
from goldwatch.dumps.overflow_records import parse_record
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.kinds.kind import MSPROBE, TEXT, WORDS
from goldwatch.schemas import load_text
from goldwatch.tensors.tensor import Tensor
from goldwatch.tools.inspect.tensor_statistics import statistics

SCHEMA = json.loads(load_text("inspect.schema.json"))
STEP = os.path.join("20260102030405", "0", "net", "1", "3")


def inspect(*args):
    done = run_here(["goldwatch", "inspect", *args])
    return done.returncode, done.stdout, done.stderr


def document(*args):
    code, out, err = inspect(*args, "--format", "json")
    found = json.loads(out)
    jsonschema.validate(found, SCHEMA)
    return code, found


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "dump" / STEP
    folder.mkdir(parents=True)
    for number, name in enumerate(("conv1", "conv2", "pool1")):
        data = TensorData(
            np.full((1, 1, 2, 2, 16), number + 1, np.float16),
            format="NC1HWC0",
            original_shape=(1, 3, 2, 2),
            address=4096,
        )
        write_dump(
            str(folder / ("Conv2D.%s.%d.7.1767323045000%03d" % (name, number, number))),
            outputs=[data],
            op_name=name,
        )
    return tmp_path / "dump"


def test_a_dump_file_shows_its_tensors(tree):
    path = tree / STEP / "Conv2D.conv1.0.7.1767323045000000"
    code, found = document(path, "--stats")
    assert (
        code == 0
        and found["kind"] == "dump"
        and found["version"] == 2
        and found["op_name"] == "conv1"
    )
    (tensor,) = found["tensors"]
    expected = {
        "kind": "output",
        "index": 0,
        "dtype": "float16",
        "layout": "NC1HWC0",
        "shape": [1, 1, 2, 2, 16],
        "bytes": 128,
    }
    assert (
        {name: tensor[name] for name in expected} == expected
        and tensor["address"] == 4096
        and tensor["original_shape"] == [1, 3, 2, 2]
    )
    with open(str(path), "rb") as stream:
        stream.seek(tensor["offset"])
        assert np.array_equal(
            np.frombuffer(stream.read(tensor["bytes"]), np.float16), np.ones(64, np.float16)
        )
    assert (
        tensor["stats"]["min"] == tensor["stats"]["max"] == 1.0
        and tensor["stats"]["histogram"] is None
    )
    code, text, _ = inspect(path)
    assert code == 0 and "NC1HWC0" in text and "original [1,3,2,2]" in text and "0x1000" in text


def test_a_trees_files_are_counted_and_damaged_ones_listed(tree):
    folder = tree / STEP
    cut = folder / "Conv2D.conv2.1.7.1767323045000001"
    cut.write_bytes(cut.read_bytes()[:-5])
    (folder / "notes.txt").write_text("mine")
    (folder / "Conv2D.conv1.0.7.1767323045999999").write_bytes(
        (folder / "Conv2D.conv1.0.7.1767323045000000").read_bytes()
    )
    (folder / "12345678901234567890").write_bytes(
        (folder / "Conv2D.conv1.0.7.1767323045000000").read_bytes()
    )
    (folder / "mapping.csv").write_text(
        "12345678901234567890,Relu.%s.5.7.1767323045000005\n" % ("long" * 100)
    )
    code, found = document(tree)
    assert code == 3
    (place,) = found["places"]
    assert (place["device"], place["model"], place["step"], place["ops"], place["files"]) == (
        "0",
        "net",
        "3",
        4,
        5,
    )
    assert [entry["file"] for entry in found["broken"]] == [os.path.join(STEP, cut.name)]
    size = os.path.getsize(str(cut))
    assert "expected %d bytes, got %d" % (size + 5, size) in found["broken"][0]["reason"]
    assert [(entry["op"], entry["files"]) for entry in found["repeated"]] == [("conv1", 2)]
    assert found["hashed"] == [
        {"file": os.path.join(STEP, "12345678901234567890"), "op": "long" * 100}
    ]
    assert found["foreign"] == [os.path.join(STEP, "notes.txt")]
    code, chosen = document(tree, "--op", "POOL*")
    assert code == 0 and chosen["files"] == 1 and not chosen["broken"]


def test_overflow_records_are_joined_to_their_op(tree):
    new = struct.pack("<6I", 0x5A5A5A5A, 1, 1, 0, 0, 88) + struct.pack(
        "<11Q", 9, 7, 2, 0, 1, 2, 0xABC, 0xDEF, 5, 6, 3
    )
    old = bytearray(2048)
    struct.pack_into("<6Q", old, 256, 9, 7, 1, 0, 0x1000, 0x2000)
    struct.pack_into("<3Q", old, 1024, 0xFF, 4, 8)
    (pooled,) = (tree / STEP).glob("*.pool1.*")
    (tree / STEP / (pooled.name[:-1] + "9")).write_bytes(pooled.read_bytes())
    for number, data in enumerate((new, bytes(old))):
        path = tree / STEP / ("Opdebug.Node_OpDebug.99.7.176732304600000%d" % number)
        write_dump(str(path), outputs=[TensorData(data, "uint8", shape=(len(data),))])
    code, found = document(tree)
    assert code == 0
    assert [entry["ops"] for entry in found["overflow"]] == [["pool1"], ["conv2"]]
    record = found["overflow"][0]["records"][0]
    assert record["type"] == "AIC" and record["pc_start"] == "0xabc" and record["status"] == 3
    assert found["overflow"][1]["records"][0]["ai_core"]["kernel_code"] == "0xff"
    assert found["overflow"][1]["records"][0]["ai_core"]["block_idx"] == 4
    code, one = document(tree / STEP / "Opdebug.Node_OpDebug.99.7.1767323046000000")
    assert one["kind"] == "overflow" and one["records"] == [record]


@pytest.mark.parametrize("cut", [False, True])
def test_an_overflow_record_that_cannot_be_read_counts_as_damage(tmp_path, cut):
    path = tmp_path / "Opdebug.Node_OpDebug.99.7.1767323046000000"
    if cut:
        path.write_bytes(b"junk")
    else:
        write_dump(str(path), outputs=[TensorData(b"\1" * 100, "uint8", shape=(100,))])
    for what in (path, tmp_path):
        code, text, _ = inspect(what)
        assert (
            code == 3
            and text.count(str(tmp_path)) == 1
            and ("its 4 bytes end" in text or "2048" in text or what == path)
        )


def test_an_overflow_record_of_unknown_form_is_refused():
    with pytest.raises(FormatError, match="2048"):
        parse_record(b"\0" * 100)
    with pytest.raises(FormatError, match="needs"):
        parse_record(struct.pack("<6I", 0x5A5A5A5A, 1, 1, 0, 0, 88) + b"\0" * 8)


def test_other_files_are_described_by_kind(tmp_path):
    np.save(str(tmp_path / "a.0.1.npy"), np.arange(6, dtype=np.int64).reshape(2, 3))
    (tmp_path / "mapping.csv").write_text("1,a\n2,b\n")
    (tmp_path / "manifest.json").write_text(
        json.dumps({"backend": "numpy", "tensors": [{}, {}], "skipped": []})
    )
    desc = {"dtype": "DT_FLOAT", "layout": "NCHW", "shape": {"dim": [4]}}
    graph = {
        "name": "net",
        "graph": [{"name": "g", "op": [{"name": "a", "type": "Relu", "output_desc": [desc]}]}],
    }
    (tmp_path / "model.json").write_text(json.dumps(graph))
    code, found = document(
        *(tmp_path / name for name in ("a.0.1.npy", "mapping.csv", "manifest.json", "model.json"))
    )
    assert code == 0 and [entry["kind"] for entry in found] == [
        "npy",
        "mapping",
        "manifest",
        "model",
    ]
    assert (
        found[0]["tensors"][0]["shape"] == [2, 3]
        and found[1]["names"] == 2
        and found[2]["files"] == 2
    )
    assert (
        found[3]["ops"] == 1
        and found[3]["types"] == {"Relu": 1}
        and found[3]["layouts"] == {"NCHW": 1}
    )


def test_text_and_folders_of_other_tools_are_named(tmp_path):
    (tmp_path / "notes.txt").write_text("no graph at all\n")
    assert document(str(tmp_path / "notes.txt"))[1]["what"] == WORDS[TEXT]
    (tmp_path / "dump_tensor_data").mkdir()
    for name in ("construct.json", "stack.json"):
        (tmp_path / name).write_text("{}")
    assert document(str(tmp_path))[1]["notes"] == [
        "it holds %s (2 files, such as construct.json)" % WORDS[MSPROBE]
    ]


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', "[]"])
def test_json_of_something_else_is_no_damaged_model(tmp_path, text):
    """Nearly all public acl.json are an empty object."""
    (tmp_path / "acl.json").write_text(text)
    code, found = document(tmp_path / "acl.json")
    assert (code, found["what"]) == (0, "a json file without a graph")


def test_damage_exits_with_3_and_a_missing_file_is_an_error(tmp_path):
    (tmp_path / "a.0.1.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "model.json").write_text("{")
    (tmp_path / "Relu.a.1.2.3").write_bytes(b"abc")
    for name in ("a.0.1.npy", "model.json", "Relu.a.1.2.3"):
        code, found = document(tmp_path / name)
        # The path stands beside it.
        assert code == 3 and found["problem"] and str(tmp_path) not in found["problem"]
        code, out, err = inspect(tmp_path / name)
        assert out.endswith("\n  PROBLEM: %s\n" % found["problem"]) and out.count(name) == 1
    code, out, err = inspect(tmp_path / "nothing")
    assert code == 4 and "nothing" in err and "Traceback" not in err
    code, out, err = inspect(tmp_path / "model.json", "--op", "a")
    assert code == 2


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64, np.bool_]
)
def test_statistics_of_a_tensor_equal_plain_loops(dtype):
    random = np.random.default_rng(5)
    data = (random.standard_normal(300_000) * 3).astype(dtype)
    floats = np.dtype(dtype).kind == "f"
    if floats:
        info = np.finfo(dtype)
        data[:7] = [np.nan, np.inf, -np.inf, info.max, info.tiny / 2, 0, -0.0]
    found = statistics(Tensor.from_array(data))
    finite = [float(value) for value in data.tolist() if math.isfinite(float(value))]
    mean = math.fsum(finite) / len(finite)
    assert found["mean"] == pytest.approx(mean, rel=1e-9, abs=1e-12)
    if not floats or float(info.max) < 1e100:
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))
        assert found["std"] == pytest.approx(std, rel=1e-9)
        alike = min(finite) == max(finite)
        assert (
            found["histogram"] is None
            if alike
            else sum(found["histogram"]["counts"]) == len(finite)
        )
    assert found["zeros"] == sum(value == 0 for value in data.tolist())
    if floats:
        expected = {"nan": 1, "inf": 2, "saturated": 1, "min": "-Infinity", "max": "Infinity"}
        assert {name: found[name] for name in expected} == expected and found["subnormals"] >= 1
        assert found["first"][:3] == ["NaN", "Infinity", "-Infinity"]
    else:
        assert (found["min"], found["max"]) == (int(data.min()), int(data.max()))


def test_statistics_of_large_integers_are_exact():
    found = statistics(Tensor.from_array(np.array([2**62 + 1, -(2**63)], np.int64)))
    assert found["max"] == 2**62 + 1 and found["min"] == -(2**63) and found["saturated"] == 1


def test_empty_and_scalar_tensors_have_statistics():
    empty = statistics(Tensor.from_array(np.zeros((0, 3), np.float32)))
    assert (
        empty["count"] == 0
        and empty["min"] is None
        and empty["mean"] is None
        and empty["histogram"] is None
    )
    assert statistics(Tensor.from_array(np.float32(2.5)))["mean"] == 2.5


def test_saturation_of_bfloat16_is_counted_by_its_own_range(tmp_path):
    path = str(tmp_path / "Relu.a.1.2.3")
    write_dump(
        path, outputs=[TensorData(np.array([0x7F7F, 0x0001, 0x3F80], np.uint16), "bfloat16")]
    )
    found = statistics(DumpFile.open(path).tensor("output", 0))
    assert found["saturated"] == 1 and found["subnormals"] == 1


def test_a_dump_without_a_readable_header_is_reported(tmp_path):
    path = tmp_path / "Add.add.1.2.1234567890123456"
    path.write_bytes(b"\x05\0\0\0\0\0\0\0hello world")
    code, out, _ = inspect(tmp_path, "--format", "json")
    (broken,) = json.loads(out)["broken"]
    assert code == 3 and broken["reason"].endswith("its 19 bytes hold no header that can be read")


def test_statistics_dumps_are_shown_row_by_row(tmp_path):
    folder = tmp_path / "dump" / STEP
    folder.mkdir(parents=True)
    text = (
        "Input/Output,Index,Data Type,Format,Shape,Max Value,Nan Count,Own "
        "Column\nOutput,0,DT_FLOAT16,ND,2x3,nan,3,7\n"
    )
    (folder / "Relu.relu1.3.3.1700000000000001.csv").write_text(text)
    code, found = document(tmp_path / "dump", "--stats")
    assert (code, found["statistics_files"], found["files"]) == (0, 1, 1)
    assert found["contents"][0]["rows"][0]["Nan Count"] == "3"
    code, text, _ = inspect(tmp_path / "dump", "--stats")
    assert "1 of them statistics (dump_data is stats)" in text
    assert "Output 0 DT_FLOAT16 ND 2x3: Max Value nan, Nan Count 3, Own Column 7" in text


def test_remarkable_statistics_are_shown_first(tmp_path):
    folder = tmp_path / "dump" / STEP
    folder.mkdir(parents=True)
    header = (
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max "
        "Value,Min Value,Nan Count\n"
    )
    ops = {"fine": "1,-1,0", "zero": "0,0,0", "full": "65504,1,0", "odd": "3,1,2", "same": "7,7,0"}
    lines = ['Relu,%s,1,0,17,output,0,4,float16,"(2,)",%s\n' % op for op in ops.items()]
    (folder / "statistic.csv").write_text(header + "".join(lines))
    code, found = document(tmp_path / "dump", "--stats")
    assert code == 0 and [entry["op"] for entry in found["remarkable"]] == [
        "odd",
        "full",
        "zero",
        "same",
    ]
    assert (found["places"][0]["ops"], found["statistics_files"], found["foreign"]) == (5, 1, [])
    code, text, _ = inspect(folder / "statistic.csv")
    lines = text.splitlines()
    assert lines[1] == "  remarkable: Relu odd output:0: 2 NaN" and "fine" in lines[5]


@pytest.mark.parametrize("ending", ["prototxt", "txt"])
def test_an_original_model_is_described_by_its_nodes(tmp_path, ending):
    path = tmp_path / ("net." + ending)
    path.write_text(
        'name: "n"\nlayer { name: "a" type: "Input" top: "a" }\nlayer { name: "b" type: '
        '"ReLU" bottom: "a" top: "b" }\n'
    )
    code, found = document(path)
    assert (code, found["kind"], found["ops"], found["types"]) == (
        0,
        "original",
        2,
        {"Input": 1, "ReLU": 1},
    )
    path.write_text('layer { name: "a" type: "Input" top: "a" }\nlayer { name: "b"')
    code, found = document(path)
    assert code == 3 and found["kind"] == "original" and found["problem"]


def test_the_first_ops_with_nan_are_listed_without_golden_data(tmp_path):
    folder = tmp_path / "dump" / STEP
    folder.mkdir(parents=True)
    good, bad, full = (
        np.ones(4, np.float16),
        np.array([1, np.nan, 1, 1], np.float16),
        np.full(4, 65504, np.float16),
    )
    ops = [("Relu.a", good, good), ("Exp.b", good, bad), ("Add.c", bad, bad), ("Mul.d", good, full)]
    ops += [("Cast.e", full, full.astype(np.int32))]
    for number, (name, read, made) in enumerate(ops):
        write_dump(
            str(folder / ("%s.%d.0.%d" % (name, 9 - number, 1767323045000000 + number))),
            [TensorData(read)],
            [TensorData(made)],
        )
    found = document(tmp_path / "dump", "--stats")[1]["not_finite"]
    assert [(entry["op"], entry["nan"], entry["saturated"], entry["began"]) for entry in found] == [
        ("b", 1, 0, True), ("c", 1, 0, False), ("d", 0, 4, True),
    ]  # fmt: skip
    text = inspect(tmp_path / "dump", "--stats")[1]
    assert (
        "Exp b in step 3 on device 0: nan 1; its inputs hold none: it begins here" in text
        and "Relu a in" not in text
    )
    assert "not_finite" not in document(tmp_path / "dump")[1]


def test_infinities_in_padding_alone_have_no_first_op(tmp_path):
    # Zeros that TransData fills a block up with, and what Log makes of them.
    folder = tmp_path / "dump" / STEP
    folder.mkdir(parents=True)
    read = np.zeros((2, 2, 16, 16), np.float16)
    read[0, 0, :, :], read[1, 0, :, :8], read[0, 1, :4, :], read[1, 1, :4, :8] = 2, 2, 2, 2
    with np.errstate(divide="ignore"):
        made = np.log(read)
    tensors = [
        [TensorData(array, format="FRACTAL_NZ", original_shape=(20, 24))] for array in (read, made)
    ]
    write_dump(str(folder / "Log.a.1.0.1767323045000000"), *tensors)
    found = document(tmp_path / "dump", "--stats")[1]
    assert found["not_finite"] == []
    assert found["contents"][0]["tensors"][1]["stats"]["padding"] == {
        "nan": 0,
        "inf": 544,
        "saturated": 0,
    }
    assert "inf 544 (544 in the padding)" in inspect(tmp_path / "dump", "--stats")[1]
    made[0, 0, 3, 5] = np.inf
    write_dump(str(folder / "Log.a.1.0.1767323045000000"), *tensors)
    found = document(tmp_path / "dump", "--stats")[1]
    assert [(entry["op"], entry["inf"], entry["began"]) for entry in found["not_finite"]] == [
        ("a", 1, True)
    ]


@pytest.mark.parametrize("value", [None, [None, None], str([None, 1.5])])
def test_an_npy_for_an_argument_that_is_no_tensor_is_no_damage(tmp_path, value):
    path = tmp_path / "Add.a.0.1.input.0.npy"
    np.save(str(path), np.array(value), allow_pickle=True)
    code, found = document(str(path))
    assert code == 0 and "problem" not in found and "npy, no tensor (" in found["what"]
    assert "PROBLEM" not in inspect(str(path))[1]
