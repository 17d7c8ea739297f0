"""The kind of a file is recognised by its content, whatever its name."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
from in_process import run_here

from goldwatch.base.errors import InputError, MissingPath
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.kinds import kind as kinds
from goldwatch.kinds.files import kind_of_file
from goldwatch.kinds.wrong_kind_advice import model_error
from goldwatch.model import load_model

NODE = b"\x0a\x01x\x12\x0bPlaceholder"
TENSOR = b"\x08\x01\x08\x02\x10\x01\x42\x01x\x4a\x08" + bytes(8)
ONNX = b"\x08\x08\x12\x02pt\x3a\x06\x0a\x04\x0a\x01x\x22"


def zipped(name):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, b"data")
    return data.getvalue()


def npy():
    data = io.BytesIO()
    np.save(data, np.zeros(3, np.float32))
    return data.getvalue()


FILES = {
    kinds.EMPTY: b"",
    kinds.LFS: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n",
    kinds.NPY: npy(),
    kinds.OM: b"IMOD" + bytes(300),
    kinds.TORCH: zipped("archive/data.pkl"),
    kinds.TENSOR_PROTO: TENSOR,
    kinds.NPZ: zipped("x.npy"),
    kinds.ZIP: zipped("readme.txt"),
    kinds.PICKLE: pickle.dumps({"a": 1}, 2),
    kinds.SAFETENSORS: struct.pack("<Q", 14) + b'{"a":{"x":[1]}}' + bytes(40),
    kinds.ATB: b"$Version=1.0\n$Object.Count=1\nformat=2\ndtype=1\ndims=2,4\n$End=1\n" + bytes(16),
    kinds.STATISTICS: b"Input/Output,Index,Data Size,Data Type,Format,Shape,Max "
    b"Value\nInput,0,4,DT_FLOAT,ND,1,2\n",
    kinds.MINDSPORE_STATISTICS: b"Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data "
    b"Size\nSub,a,0,0,1,input,0,4\n",
    kinds.RESULT_TABLE: b"Index,OpType,NPUDump,DataType,Address,GroundTruth\n0,Relu,a,float16,0,a\n",  # noqa: E501
    kinds.NUMBERS: b"1.5\n-2e-3\nnan\n",
    kinds.SCRIPT: b"#!/usr/bin/env python\nimport acl\n",
    kinds.SHELL: b"#!/bin/bash\npython3 train.py\n",
    kinds.AIPP: b"aipp_op {\n  aipp_mode: static\n}\n",
    kinds.KEEP_LIST: b"OpType::ReduceMean\n/norm/Pow\n",
    kinds.OP_PRECISION: b"[ByType]\nSoftmax=high_precision\n[ByNodeName]\nfc=high_performance\n",
    kinds.CONVERTER: b"[ascend_context]\nprecision_mode=enforce_fp32\n",
    kinds.CHECK_REPORT: b'{"op":[{"check_result":"success","name":"c","type":"Conv"}]}',
    kinds.OP_DESCRIPTION: b'[{"op": "Add", "input_desc": [], "output_desc": []}]',
    kinds.OP_PROTOTYPE: b'[{"op": "Clamp", "language": "cpp", "input_desc": [{"name": "x", '
    b'"param_type": "required", "format": ["ND"], "type": ["float"]}], "output_desc": []}]',
    kinds.TEXT: b"some words\nand more of them\n",
    kinds.PROTOTXT: b'# a net\nname: "net"\nlayer {\n  name: "conv"\n  type: "Convolution"\n}\n',
    kinds.SOLVER: b'net: "train.prototxt"\nbase_lr: 0.1\nmax_iter: 5\n',
    kinds.ONNX_TEXT: b'ir_version: 7\ngraph {\n  node {\n    op_type: "Relu"\n  }\n}\n',
    kinds.GE_ONNX: b'ir_version: 7\nproducer_name: "GE"\ngraph {\n  node {\n    name: "a"\n    '
    b"op_type: "
    b'"ge:Relu"\n  }\n}\n',
    kinds.GE_TEXT: b'graph {\n  name: "g"\n  op {\n    name: "a"\n    type: "Relu"\n  }\n}\n',
    kinds.GE_READABLE: b'graph("g"):\n  %a : [#users=1] = Node[type=Data] (attrs = {index: '
    b"0})\n  return (%a)\n",
    kinds.GRAPH_DEF_TEXT: b'node {\n  name: "x"\n  op: "Placeholder"\n}\n',
    kinds.QUANT_RECORD: b'record {\n  key: "conv"\n  value {\n    scale_d: 0.1\n  }\n}\n',
    kinds.OM_JSON: b'{"name": "net", "graph": [{"op": []}]}',
    kinds.FUSION_LOG: b'[{"session_and_graph_id": "0_0", "graph_fusion": {}, "ub_fusion": {}}]',
    kinds.MIX_LIST: b'{"white-list": {"to-remove": ["Mul"]}}',
    kinds.FUSION_SWITCH: b'{"Switch": {"GraphFusion": {"ALL": "off"}}}',
    kinds.ACL: b'{"dump": {"dump_path": "out", "dump_list": []}}',
    kinds.MINDSPORE_CONFIG: b'{"common_dump_settings": {"path": "/out"}}',
    kinds.MSPROBE: b'{"Module.conv.Conv2d.forward.0": {"input_args": []}}',
    kinds.MSPROBE_CONFIG: b'{"task": "tensor", "dump_path": "/out", "rank": [], "level": "L1"}',
    kinds.QUANT_CONFIG: b'{"version": 1, "activation_offset": true, "conv": {}}',
    kinds.OPS_INFO: b'{"Conv2D": {"opFile": {"value": "conv2d"}, "precision_reduce": {"flag": '
    b'"true"}}}',
    kinds.MANIFEST: b'{"backend": "onnx", "tensors": []}',
    kinds.JSON: b'{"a": 1}',
    kinds.ONNX: ONNX[:4] + b"\x12\x02pt" + b"\x3a\x05" + b"\x0a\x03\x0a\x01x",
    kinds.GRAPH_DEF: b"\x0a" + bytes([len(NODE)]) + NODE + b"\x22\x03\x08\xaa\x01",
    kinds.CAFFEMODEL: b"\x0a\x03net\xa2\x06\x06\x0a\x04conv",
    kinds.RAW: np.random.RandomState(0).standard_normal(200).astype(np.float32).tobytes(),
}


def test_a_number_alone_as_onnx_stores_it_is_known(tmp_path):
    path = tmp_path / "input_1.pb"
    path.write_bytes(b"\x10\x01\x42\x01x\x4a\x04" + bytes(4))
    assert kind_of_file(str(path)).name == kinds.TENSOR_PROTO


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_kind_is_known_whatever_its_name(tmp_path, name):
    path = tmp_path / "file.dat"
    path.write_bytes(FILES[name])
    found = kind_of_file(str(path))
    assert found.name == name and found.words == kinds.WORDS[name]


def test_a_dump_is_recognised_even_when_cut_short(tmp_path):
    path = str(tmp_path / "Relu.a.1.2.1767323045000000")
    write_dump(path, [], [TensorData(np.ones(500, np.float16))])
    assert kind_of_file(path).name == kinds.DUMP
    with open(path, "r+b") as stream:
        stream.truncate(400)
    assert kind_of_file(path).name == kinds.DUMP


def test_text_in_another_encoding_is_text(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_bytes("# 网络结构\n".encode("gbk") + FILES[kinds.PROTOTXT])
    assert kind_of_file(str(path)).name == kinds.PROTOTXT


def test_a_huge_json_is_recognised_by_its_first_keys(tmp_path):
    path = tmp_path / "net.json"
    path.write_bytes(
        b'{"name": "net", "graph": [{"name": "net", "op": ['
        + b'{"name": "a"},' * (700 * 1024)
        + b"{}]}]}"
    )
    assert kind_of_file(str(path)).name == kinds.OM_JSON


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(MissingPath):
        kind_of_file(str(tmp_path / "none"))


MODELS = [kinds.OM_JSON, kinds.GE_TEXT, kinds.OM, kinds.EMPTY, kinds.RAW, kinds.TEXT, kinds.JSON]
#: Whose ops are read as those of a graph.
GRAPHS = {kinds.GE_TEXT, kinds.OM_JSON, kinds.CHECK_REPORT}


@pytest.mark.parametrize("name", sorted(set(FILES) - GRAPHS))
def test_a_file_given_as_model_that_is_none_is_named(tmp_path, name):
    path = tmp_path / "model"
    path.write_bytes(FILES[name])
    with pytest.raises(InputError) as caught:
        load_model(str(path))
    if name not in MODELS:
        assert (
            "this is %s, not the compiled model" % kinds.WORDS[name] in caught.value.message
            and "ge_proto_" in caught.value.hint
        )
    else:
        assert model_error(str(path)) is None


@pytest.mark.parametrize(
    "form, name",
    [
        ("ge_onnx_00000012_graph_1_Build.pbtxt", kinds.GE_ONNX),
        ("ge_readable_00000012_graph_1_Build.txt", kinds.GE_READABLE),
    ],
)
def test_the_readable_form_of_a_graph_beside_the_given_one_is_named(tmp_path, form, name):
    path = tmp_path / form
    path.write_bytes(FILES[name])
    assert "ge_proto_*_Build.txt, which GE writes beside it" in model_error(str(path)).hint
    beside = tmp_path / "ge_proto_00000012_graph_1_Build.txt"
    beside.write_bytes(FILES[kinds.GE_TEXT])
    assert model_error(str(path)).hint == "give %s, the same graph" % beside
    for command in (
        ["compare", str(tmp_path), str(tmp_path), "-f", str(path), "-o", str(tmp_path / "out")],
        ["graph", str(path), "-o", str(tmp_path / "g")],
    ):
        done = run_here(["goldwatch", *command])
        assert (
            done.returncode == 4 and kinds.WORDS[name] in done.stderr and str(beside) in done.stderr
        )


def test_a_graph_text_without_its_outer_message_is_read_with_a_note(tmp_path):
    path = tmp_path / "dynamo_original_graph_1_rank_0_pid_1_ts_1.txt"
    path.write_text('name: "g"\nop {\n  name: "a"\n  type: "Relu"\n}\n')
    model = load_model(str(path))
    assert [op.name for op in model.ops] == ["a"] and "before GE compiled it" in " ".join(
        model.notes
    )


@pytest.mark.parametrize("ending", ["prototxt", "txt", "net"])
def test_a_graph_is_drawn_by_its_content_whatever_its_ending(tmp_path, ending):
    path = tmp_path / ("net." + ending)
    path.write_text(
        'name: "net"\nlayer {\n  name: "in"\n  type: "Input"\n  top: "in"\n  input_param { '
        "shape { dim: 1 } }\n}\n"
    )
    assert (
        run_here(["goldwatch", "graph", str(path), "-o", str(tmp_path / "net.html")]).returncode
        == 0
    )


RAW_FILES = [
    ("t.pt", kinds.TORCH),
    ("o_0.bin", kinds.RAW),
    ("o.txt", kinds.NUMBERS),
    ("intensor0.bin", kinds.ATB),
    ("a.npz", kinds.NPZ),
]


@pytest.mark.parametrize("file, name", RAW_FILES)
def test_a_file_that_is_not_a_dump_is_named_by_every_command(tmp_path, file, name):
    path = tmp_path / file
    path.write_bytes(FILES[name])
    out = str(tmp_path / "out")
    for words in (
        ["convert", str(path), "-o", out],
        ["compare", str(path), str(path), "-o", out],
        ["compare-op", str(path), str(path), "-o", out],
    ):
        done = run_here(["goldwatch", *words])
        assert (
            done.returncode == 4
            and "this is %s" % kinds.WORDS[name] in done.stderr
            and "header length" not in done.stderr
        )
    done = run_here(["goldwatch", "inspect", str(path), "--format", "json"])
    assert (done.returncode, json.loads(done.stdout)["what"]) == (0, kinds.WORDS[name])


@pytest.mark.parametrize(
    "name, data, words",
    [
        (
            "net.onnx",
            b"\x08\x07\x12\x07pytorch\x3a\xff\xff\x7f" + b"\x0a\x10node" * 50,
            "an ONNX model",
        ),
        ("net.prototxt", b"layer {\x00\x01\xff", "a network of Caffe"),
    ],
)
def test_a_truncated_model_is_not_taken_for_a_dump(name, data, words, tmp_path):
    (tmp_path / name).write_bytes(data)
    done = run_here(["goldwatch", "inspect", tmp_path / name])
    assert (done.returncode, "header length" in done.stdout) == (3, False), done.stdout
    assert "by its name it is %s" % words in done.stdout and "cut short or damaged" in done.stdout


@pytest.mark.parametrize("end", [b"<", b"\n1.5 x\n", b"e+"])
def test_a_long_number_before_other_text_is_looked_at_once(tmp_path, end):
    """Each digit doubled the time where numbers might follow each other without a separator."""
    path = tmp_path / "labels.txt"
    path.write_bytes(b"9" * 1500 + end)
    assert kind_of_file(str(path)).name == kinds.TEXT
