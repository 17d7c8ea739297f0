"""Parameters of nodes as words: of layers, of GraphDef nodes, of ONNX nodes."""

from __future__ import annotations

import struct

from wire_graph import node, typed

from goldwatch.base.protowire import field
from goldwatch.netfiles.caffe_net import Net, initial_state
from goldwatch.netfiles.graphdef import GraphFile
from goldwatch.netfiles.parameters_in_words import (
    graphdef_parameters,
    layer_parameters,
    onnx_parameters,
    shortened,
)
from goldwatch.netfiles.protobuf_file import WireFile
from goldwatch.netfiles.prototxt_edits import Document

FLOATS = struct.pack("<2f", 0.5, -2.0)


def test_a_caffe_layers_parameters_are_listed_with_their_messages():
    text = """layer { name: "a" type: "Convolution" top: "a" loss_weight: 1 loss_weight: 2
      convolution_param { num_output: 64 kernel_size: [3, 5] weight_filler { type: "xavier" } } }"""
    document = Document(text)
    (layer,) = Net(document, initial_state(document, "TEST", None, ())).layers
    assert layer_parameters(layer) == [
        ("loss_weight", "1"),
        ("loss_weight", "2"),
        ("convolution_param.num_output", "64"),
        ("convolution_param.kernel_size", "3, 5"),
        ("convolution_param.weight_filler.type", "xavier"),
    ]


def test_a_graphdef_nodes_parameters_of_every_form_are_listed(tmp_path):
    shape = field(2, field(1, 2)) + field(2, field(1, (1 << 64) - 1))
    attrs = {
        "text": field(2, b"SAME"),
        "bytes": field(2, b"\xff"),
        "number": field(3, (1 << 64) - 3),
        "real": b"\x25" + FLOATS[:4],
        "no": b"\x28\x00",
        "yes": field(5, 1),
        "T": typed(19),
        "shape": field(7, shape),
        "any": field(7, field(3, 1)),
        "value": field(8, field(1, 1) + field(2, field(2, field(1, 3)) + field(2, field(1, 4)))),
        "f": field(10, field(1, b"fn")),
        "numbers": field(1, field(3, b"\x01\x02")),
        "reals": field(1, field(4, FLOATS)),
        "types": field(1, field(6, b"\x01\x03")),
        "many": field(1, field(3, b"\x07" * 100)),
    }
    path = tmp_path / "g.pb"
    path.write_bytes(node("a", "Op", **attrs))
    graph = GraphFile(str(path))
    with graph.open() as file:
        found = dict(graphdef_parameters(file, graph.nodes[0].attrs))
    many = found.pop("many")
    assert found == {
        "text": "SAME", "bytes": "\\xff", "number": "-3", "real": "0.5", "no": "false",
        "yes": "true", "T": "float16",
        "shape": "2,-1", "any": "?", "value": "float32 3,4", "f": "function fn",
        "numbers": "[1, 2]",
        "reals": "[0.5, -2]", "types": "[float32, int32]",
    }  # fmt: skip
    assert many.endswith("7, …]") and many.count("7") == 64


def test_an_onnx_nodes_parameters_of_every_form_are_listed(tmp_path):
    tensor = field(1, 2) + field(1, 3) + field(2, 1) + field(8, b"w") + field(9, b"\0" * 24)
    attrs = {
        "real": field(1, b"real") + b"\x15" + FLOATS[:4],
        "number": field(3, (1 << 64) - 1),
        "text": field(4, b"SAME_UPPER"),
        "tensor": field(5, tensor),
        "body": field(6, b""),
        "reals": field(7, FLOATS),
        "numbers": field(8, 3) + field(8, 4),
        "texts": field(9, b"a") + field(9, b"b"),
    }
    path = tmp_path / "attrs"
    spans, data = {}, b""
    for name, value in attrs.items():
        spans[name] = (len(data), len(data) + len(value))
        data += value
    path.write_bytes(data)
    with WireFile(str(path), "MODEL", "") as file:
        assert dict(onnx_parameters(file, spans)) == {
            "real": "0.5", "number": "-1", "text": "SAME_UPPER", "tensor": "float32 2,3",
            "body": "a graph", "reals": "[0.5, -2]",
            "numbers": "[3, 4]", "texts": "[a, b]",
        }  # fmt: skip


def test_long_values_are_cut_and_counted():
    assert shortened("x" * 300) == "x" * 300
    assert shortened("x" * 310) == "x" * 300 + " … (10 letters more)"
