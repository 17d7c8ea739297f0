"""Whole and healthy input, small, from which the cases make theirs; everything below the current
folder.
"""

from __future__ import annotations

import functools
import io
import json
import os
import pathlib
import tempfile
from random import Random

import numpy as np

from goldwatch.dumps.write import TensorData, write_dump

HERE = os.path.dirname(os.path.abspath(__file__))
STAMP = 1700000000000000

with open(
    os.path.join(HERE, "..", "..", "tests", "data", "tensorflow", "lt_listing_infer.txt"),
    encoding="utf-8",
) as stream:
    LISTING = "".join(stream.readlines()[:60])

PROTOTXT = """name: "net"
input: "data"
input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "drop1" type: "Dropout" bottom: "conv1" top: "conv1" include { phase: TRAIN not_stage: "x" } }
layer { name: "ip" type: "InnerProduct" bottom: "conv1" top: "ip" inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""  # noqa: E501

GE_TEXT = (
    'graph {\n  name: "net"\n'
    + "".join(
        '  op { name: "op_%d" type: "Relu" id: %d input: "op_%d:0" output_desc { dtype: '
        'DT_FLOAT layout: "ND" shape { dim: 2 dim: 12 }'
        ' attr { key: "_datadump_origin_name" value { s: "op_%d" } } } }\n'
        % (number, number, number - 1, number)
        for number in range(3)
    )
    + "}\n"
)

CONFIGURATIONS = {
    "acl": [
        {"dump": {"dump_path": "/data", "dump_mode": "all", "dump_step": "0|5-9", "dump_list": [
            {"model_name": "net", "layer": ["a", "b/c"]}]}},
        {"dump": {"dump_path": "/data", "dump_level": "op", "dump_data": "stats",
        "dump_stats": ["Max", "Nan"], "dump_list": [
            {"model_name": "net", "opname_range": [{"begin": "a", "end": "b"}],
             "optype_blacklist": [{"name": "Cast", "pos": ["input0"]}]}]}},
        {"dump": {"dump_path": "/data", "dump_scene": "watcher",
        "dump_list": [{"layer": ["a"], "watcher_nodes": ["b"]}]}},
        {"dump": {"dump_path": "/data", "dump_op_switch": "on",
        "dump_kernel_data": "printf,assert"}},
    ],
    "npu": [
        {"enable_dump": True, "dump_path": "/data", "dump_step": "0|5-9", "dump_mode": "all",
        "dump_data": "stats", "dump_layer": "a b"},
        {"enable_dump_debug": True, "dump_path": "/data", "dump_debug_mode": "all",
        "quant_dumpable": "1", "enable_exception_dump": 1},
    ],
    "plan": [
        {"dump_path": "/data", "models": [{"name": "net", "layers": ["a", "b"]}], "mode": "all",
        "step": "0|5-9"},
        {"dump_path": "/data", "level": "op", "models": [
            {"name": "net", "op_ranges": [["a", "b"]],
            "skip_ops": [{"name": "a", "positions": ["input0"]}]}]},
        {"dump_path": "/data", "debug": True, "debug_mode": "all"},
    ],
}  # fmt: skip

SCRIPTS = (
    "from npu_bridge.estimator.npu.npu_config import DumpConfig, NPURunConfig\n"
    'd = DumpConfig(True, "/data", dump_step="0|5-9", dump_mode="all")\n'
    "NPURunConfig(dump_config=d)\n",
    "o = c.graph_options.rewrite_options.custom_optimizers.add()\no.name = "
    '"NpuOptimizer"\no.parameter_map["use_off_line"].b = True\n'
    'o.parameter_map["enable_dump"].b = True\no.parameter_map["dump_path"].s = '
    'tf.compat.as_bytes("/data")\n'
    "c.graph_options.rewrite_options.remapping = RewriterConfig.OFF\nwith "
    "tf.Session(config=c) as s:\n    s.run(x)\n",
    "import npu_device as npu\nd = npu.global_options().dump_config\nd.enable_dump = "
    'True\nd.dump_path = "/data"\nd.dump_layer = "a b"\n',
)


def network(random, broken=None):
    """Write dump/, golden/ and model.json of three ops that follow one another; ``broken`` is the
    number of one that is wrong.
    """
    numbers = np.random.RandomState(random.randrange(2**31))
    kind, golden_kind = random.choice(
        (
            ("<f2", "<f4"),
            ("<f4", "<f4"),
            ("<f4", "<f2"),
            ("<i4", "<i4"),
            ("i1", "i1"),
            ("u1", "<f4"),
        )
    )
    shape = random.choice(((2, 12), (24,), (1, 2, 3, 4), ()))
    layout = "NCHW" if len(shape) == 4 else "ND"
    folder = os.path.join("dump", "20240101000000", "0", "net", "1", "0")
    os.makedirs(folder)
    os.makedirs("golden")
    before = None
    ops = []
    for number in range(3):
        exact = (
            numbers.standard_normal(shape) * 10
            if kind[-2] == "f"
            else numbers.randint(1, 100, shape)
        )
        values = np.asarray(exact).astype(kind)
        wrong = (
            np.asarray(-exact if kind[-2] == "f" else np.asarray(exact) + 20).astype(kind)
            if number == broken
            else values
        )
        inputs = [] if before is None else [TensorData(before, format=layout)]
        name = "Relu.op_%d.%d.1.%d" % (number, number + 1, STAMP + number)
        write_dump(os.path.join(folder, name), inputs, [TensorData(wrong, format=layout)])
        np.save(
            os.path.join("golden", "op_%d.0.%d.npy" % (number, STAMP)), values.astype(golden_kind)
        )
        before = wrong
        desc = {"dtype": "DT_FLOAT", "layout": layout, "shape": {"dim": list(shape)}, "attr": [
            {"key": "_datadump_origin_name", "value": {"s": "op_%d" % number}}]}  # fmt: skip
        source = ["op_%d:0" % (number - 1)] if number else []
        ops.append(
            {
                "name": "op_%d" % number,
                "type": "Relu",
                "id": number,
                "input": source,
                "input_desc": [desc] * len(source),
                "output_desc": [desc],
            }
        )
    with open("model.json", "w", encoding="utf-8") as out:
        json.dump({"name": "net", "graph": [{"name": "net", "op": ops}]}, out)


@functools.lru_cache(maxsize=1)
def small_files():
    """Return (name, bytes) of one whole file for each reader of the library."""
    values = np.arange(24, dtype="<f4").reshape(2, 3, 4)
    npy, before = io.BytesIO(), os.getcwd()
    np.save(npy, values)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            network(Random(1))
            write_dump("Add.x.1.2.3", outputs=[TensorData(values, format="ND")])
            dump, model = (
                pathlib.Path(name).read_bytes() for name in ("Add.x.1.2.3", "model.json")
            )
        finally:
            os.chdir(before)
    acl = json.dumps(CONFIGURATIONS["acl"][0]).encode()
    return (
        ("x.npy", npy.getvalue()), ("y.npy", npy.getvalue()), ("Add.x.1.2.3", dump),
        ("model.json", model),
        ("ge_proto_00000000_Build.txt", GE_TEXT.encode()),
        ("mapping.csv", b"123456789012,Add.op_0.1.2.3\n12,Relu.op_1.1.2.3\n"),
        ("net.prototxt", PROTOTXT.encode()), ("net.caffemodel", caffemodel()), ("acl.json", acl),
        ("train.py", SCRIPTS[1].encode()),
        ("listing", LISTING.encode()), ("net.onnx", onnx_model()),
    )  # fmt: skip


def files(folder):
    """Return the paths of all files below a folder, always in the same order."""
    return sorted(os.path.join(base, name) for base, _, names in os.walk(folder) for name in names)


def onnx_model():
    """Return a small ONNX model: weights, external ones too, nodes with and without names, and an
    If with a body in each attribute.
    """

    def node(op, inputs, output, name=b"", attrs=b""):
        reads = b"".join(_field(1, each) for each in inputs)
        return _field(
            1,
            reads + _field(2, output) + (_field(3, name) if name else b"") + _field(4, op) + attrs,
        )

    def value(number, name, *dims):
        shape = b"".join(_field(1, b"\x08" + bytes([dim])) for dim in dims)
        return _field(
            number, _field(1, name) + _field(2, _field(1, b"\x08\x01" + _field(2, shape)))
        )

    bodies = (
        (b"then_branch", node(b"Neg", [b"a"], b"t")),
        (b"else_branch", node(b"Abs", [b"a"], b"e", b"named")),
    )
    attrs = b"".join(
        _field(5, _field(1, name) + _field(6, body + value(12, body[-1:])) + b"\xa0\x01\x05")
        for name, body in bodies
    )
    weight = b"\x08\x02\x08\x03\x10\x01" + _field(8, b"w") + _field(9, bytes(24))
    beside = (
        b"\x08\x06\x10\x01"
        + _field(8, b"v")
        + _field(13, _field(1, b"location") + _field(2, b"net.prototxt"))
        + b"\x70\x01"
    )
    graph = (
        node(b"Add", [b"x", b"w"], b"a")
        + node(b"If", [b"c"], b"b", b"if", attrs)
        + node(b"Dropout", [b"b", b"", b"c"], b"y")
    )
    graph += (
        _field(5, weight)
        + _field(5, beside)
        + value(11, b"x", 2, 3)
        + value(11, b"c")
        + value(12, b"y", 2, 3)
    )
    return b"\x08\x08" + _field(2, b"fuzz") + _field(7, graph) + _field(8, b"\x10\x11")


def frozen_graph():
    """Return a small GraphDef: a constant, a conditional, a control edge and a colocation."""
    float32, kinds = b"\x30\x01", {"T": b"\x30\x01"}
    nodes = (
        ("x", "Placeholder", (), {"dtype": float32, "shape": _field(7, b"")}),
        ("p", "Placeholder", (), {"dtype": b"\x30\x0a"}),
        ("w", "Const", (), {"dtype": float32}),
        ("add", "Add", ("x", "w", "^p"), kinds),
        ("switch", "Switch", ("add", "p"), kinds),
        ("left", "Relu", ("switch",), kinds),
        ("merge", "Merge", ("left", "switch:1"), dict(kinds, N=b"\x18\x02")),
        ("out", "Relu", ("merge",), dict(kinds, _class=_field(1, _field(2, b"loc:@add")))),
    )
    data = b""
    for name, kind, inputs, attrs in nodes:
        body = (
            _field(1, name.encode())
            + _field(2, kind.encode())
            + b"".join(_field(3, text.encode()) for text in inputs)
        )
        data += _field(
            1,
            body
            + b"".join(
                _field(5, _field(1, key.encode()) + _field(2, value))
                for key, value in attrs.items()
            ),
        )
    return data


def caffemodel():
    """Return a small NetParameter: one layer with two blobs."""
    values = np.arange(12, dtype="<f4").tobytes()
    shape = _field(7, _field(1, bytes((4, 3))))
    blob = shape + _field(5, values)
    layer = _field(1, b"conv1") + _field(2, b"Convolution") + _field(7, blob) + _field(7, blob)
    return _field(1, b"net") + _field(100, layer)


def _field(number, data):
    tag, length = number << 3 | 2, len(data)
    return _varint(tag) + _varint(length) + data


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
