"""ONNX models read without onnx, as onnx reads them; other files are named."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx_models as build
import pytest
from onnx import TensorProto, helper

from goldwatch.base.errors import FormatError, InputError, MissingPath, TruncatedFile
from goldwatch.netfiles.onnx_arrays import tensor_array
from goldwatch.netfiles.onnx_external_data import check_external, external_range
from goldwatch.netfiles.onnx_model import OnnxModel
from goldwatch.netfiles.onnx_names import name_nodes
from goldwatch.netfiles.onnx_types import TYPES


def read(tmp_path, proto):
    return OnnxModel(build.save(tmp_path / "m.onnx", proto))


def full_model():
    nodes = [
        helper.make_node(
            "LSTM", ["x", "w", "r"], ["", "", "c"], name="lstm", hidden_size=4, doc_string="d"
        ),
        helper.make_node(
            "Constant",
            [],
            ["k"],
            value=build.weight("inner", np.arange(6, dtype=np.int64).reshape(2, 3)),
        ),
        helper.make_node(
            "Custom", ["c", "", "k"], ["y"], domain="com.microsoft", alpha=-7, things=[1.5, 2.5]
        ),
    ]
    inputs = [
        build.value("x", ("seq", None, 3)),
        build.value("w", (1, 16, 3)),
        build.value("s", None, TensorProto.FLOAT16),
    ]
    inputs.append(helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None))
    weights = [
        build.weight("w", np.ones((1, 16, 3), np.float32)),
        build.weight("r", np.ones((1, 16, 4), np.float32)),
    ]
    weights.append(helper.make_tensor("scalar", TensorProto.BFLOAT16, [], [1.0]))
    return build.model(
        nodes,
        inputs,
        [build.value("y", None)],
        weights,
        value_info=[build.value("c", (1, 2, 4))],
        domains=["com.microsoft"],
    )


def test_the_whole_model_is_read_as_onnx_reads_it(tmp_path):
    proto = full_model()
    model = read(tmp_path, proto)
    graph = proto.graph
    assert (model.ir_version, model.producer) == (8, "tests 1.0") and model.opsets == {
        "": 17,
        "com.microsoft": 1,
    }
    for node, expected in zip(model.graph.nodes, graph.node):
        assert (node.name, node.op_type, node.domain) == (
            expected.name,
            expected.op_type,
            expected.domain,
        )
        assert node.inputs == list(expected.input) and node.outputs == list(expected.output)
        assert list(node.attrs) == [attribute.name for attribute in expected.attribute]
    assert [value.name for value in model.graph.inputs] == ["x", "w", "s", "list"]
    assert [value.name for value in model.graph.data_inputs] == ["x", "s", "list"]
    assert [value.shape for value in model.graph.inputs[:3]] == [("seq", None, 3), (1, 16, 3), None]
    assert [(value.kind, value.dtype) for value in model.graph.inputs] == [
        ("tensor", 1),
        ("tensor", 1),
        ("tensor", 10),
        ("sequence", 0),
    ]
    assert {name: (t.dtype, t.dims) for name, t in model.graph.initializers.items()} == {
        t.name: (t.data_type, tuple(t.dims)) for t in graph.initializer
    }
    assert model.graph.value_info["c"].shape == (1, 2, 4)
    constant = model.graph.nodes[1].tensors["value"]
    assert (constant.dims, constant.dtype, constant.nbytes) == ((2, 3), TensorProto.INT64, 48)
    with model.open() as file:
        assert (
            model.attr_int(file, model.graph.nodes[2], "alpha") == -7
            and model.attr_int(file, model.graph.nodes[2], "beta") is None
        )
        assert tensor_array(model.path, file, constant).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_spans_of_nodes_and_values_are_their_messages(tmp_path):
    proto = full_model()
    model = read(tmp_path, proto)
    data = (tmp_path / "m.onnx").read_bytes()
    for node, expected in zip(model.graph.nodes, proto.graph.node):
        assert onnx.NodeProto.FromString(data[node.record.first : node.record.last]) == expected
    for tensor in proto.graph.initializer:
        assert (
            onnx.TensorProto.FromString(data[slice(*model.graph.initializers[tensor.name].span)])
            == tensor
        )
    for entry, value in zip(model.graph.inputs, proto.graph.input):
        assert onnx.ValueInfoProto.FromString(data[slice(*entry.span)]) == value


def test_merged_messages_are_one_model(tmp_path):
    proto = full_model()
    more = onnx.ModelProto()
    more.graph.output.add().name = "c"
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString() + more.SerializeToString())
    assert [value.name for value in OnnxModel(str(tmp_path / "m.onnx")).graph.outputs] == ["y", "c"]


def test_type_codes_are_those_of_onnx():
    names = dict(TensorProto.DataType.items())
    spelled = {"FLOAT": "float32", "DOUBLE": "float64"}
    for name, code in names.items():
        if code:
            assert TYPES[code].name == spelled.get(name, name.lower())


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (b"", FormatError, "the file is empty"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
            FormatError,
            "a pointer of Git LFS",
        ),
        (
            b"PK\x03\x04rest",
            InputError,
            "not an ONNX model but a zip file, such as the .pt of PyTorch",
        ),
        (b"\x08\0\0\0ORTM", InputError, r"onnxruntime's own format \(.ort\)"),
        (b"ir_version: 8\n", InputError, "in text form"),
        (b"\x0a\x03abc", FormatError, "byte 0: field 1 is not one of an ONNX model"),
        (b"\xff" * 30, FormatError, "no protobuf message"),
        (b"\x08\x08", FormatError, "no graph in it"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path, content, kind, text):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(kind, match=text):
        OnnxModel(str(tmp_path / "m.onnx"))


def test_a_truncated_model_is_refused_with_the_byte_where_it_ends(tmp_path):
    data = full_model().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data[:-20])
    with pytest.raises(
        TruncatedFile, match="goes on to byte .*, the file has %d" % (len(data) - 20)
    ):
        OnnxModel(str(tmp_path / "m.onnx"))
    with pytest.raises(MissingPath, match="is a folder"):
        OnnxModel(str(tmp_path))


def test_graphs_nested_too_deeply_are_refused(tmp_path):
    body = b"\x0a\x00"
    for _ in range(200):
        node = (
            b"\x2a"
            + varint(len(body) + 1 + len(varint(len(body))))
            + b"\x32"
            + varint(len(body))
            + body
        )
        body = b"\x0a" + varint(len(node)) + node
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x3a" + varint(len(body)) + body)
    with pytest.raises(FormatError, match="deeper than 32"):
        OnnxModel(str(tmp_path / "m.onnx"))


def varint(number):
    from goldwatch.base.protowire import varint as encoded

    return encoded(number)


def relus(*names):
    """A chain of nodes with these (op type, name)."""
    nodes = [
        helper.make_node(op, ["v%d" % n], ["v%d" % (n + 1)], name=name)
        for n, (op, name) in enumerate(names)
    ]
    return build.model(nodes, [build.value("v0")], [build.value("v%d" % len(names), None)])


def test_only_nodes_without_a_name_are_numbered(tmp_path):
    names = [
        ("Relu", ""),
        ("Neg", ""),
        ("Mul", "named/Mul"),
        ("Abs", "b"),
        ("Identity", ""),
        ("Abs", "c"),
        ("Add", ""),
    ]
    (named,) = name_nodes(read(tmp_path, relus(*names)))
    assert named.names == ["Relu_0", "Neg_1", "named/Mul", "b", "Identity_2", "c", "Add_3"]


def test_bodies_of_if_are_named_breadth_first_with_their_prefix(tmp_path):
    found = {named.prefix: named.names for named in name_nodes(read(tmp_path, build.branches("")))}
    # onnx.helper writes attributes sorted by name: the else branch comes first in the file.
    assert found == {
        "": ["Relu_0", "If_1", "Add_2"],
        "If_1_1_else_branch/": ["If_1_1_else_branch/Abs_3"],
        "If_1_0_then_branch/": ["If_1_0_then_branch/r", "If_1_0_then_branch/Neg_4"],
    }


@pytest.mark.parametrize(
    "names", [[("Relu", "a"), ("Neg", "a")], [("Relu", ""), ("Neg", "Relu_0")], [("Relu", "v0")]]
)
def test_repeated_node_names_are_refused_as_atc_refuses_them(tmp_path, names):
    with pytest.raises(InputError, match="E19009"):
        name_nodes(read(tmp_path, relus(*names)))


def external_model(tmp_path):
    weights = [
        build.weight("w", np.arange(6, dtype=np.float32).reshape(2, 3)),
        build.weight("v", np.ones((2, 3), np.float32)),
    ]
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"], name="a"),
        helper.make_node("Add", ["a", "v"], ["y"], name="b"),
    ]
    return build.with_external(
        tmp_path / "m.onnx", build.model(nodes, [build.value("x")], [build.value("y")], weights)
    )


def test_external_data_is_found_beside_the_model(tmp_path):
    path = external_model(tmp_path)
    model = OnnxModel(path)
    data = str(tmp_path / "weights.bin")
    assert check_external(model) == {data: 48}
    found = external_range(path, model.graph.initializers["w"])
    with open(data, "rb") as stream:
        assert np.frombuffer(
            stream.read()[found.offset : found.offset + found.length], "<f4"
        ).tolist() == list(range(6))


def moved(tmp_path, location):
    """The model of :func:`external_model` with its data's location written anew."""
    proto = onnx.load(external_model(tmp_path), load_external_data=False)
    for tensor in proto.graph.initializer:
        next(entry for entry in tensor.external_data if entry.key == "location").value = location
    return OnnxModel(build.save(tmp_path / "m.onnx", proto))


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "sub/../../weights.bin"])
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    with pytest.raises(InputError, match="outside the model's folder"):
        check_external(moved(tmp_path, location))


def test_links_out_of_the_models_folder_are_refused_but_hard_links_are_not(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    model = OnnxModel(external_model(inner))
    os.rename(str(inner / "weights.bin"), str(tmp_path / "weights.bin"))
    os.symlink("../weights.bin", str(inner / "weights.bin"))
    with pytest.raises(InputError, match="a link that leads out"):
        check_external(model)
    os.unlink(str(inner / "weights.bin"))
    os.link(str(tmp_path / "weights.bin"), str(inner / "weights.bin"))
    assert check_external(model) == {str(inner / "weights.bin"): 48}


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (None, MissingPath, "its external data .* is not there"),
        (
            b"x" * 40,
            TruncatedFile,
            "cut short: tensor . of m.onnx ends at byte 48, the file has 40",
        ),
        (b"version https://git-lfs.github.com/spec/v1", FormatError, "a pointer of Git LFS"),
    ],
)
def test_missing_and_short_external_data_is_reported(tmp_path, content, kind, text):
    model = OnnxModel(external_model(tmp_path))
    (tmp_path / "weights.bin").unlink()
    if content is not None:
        (tmp_path / "weights.bin").write_bytes(content)
    with pytest.raises(kind, match=text):
        check_external(model)
