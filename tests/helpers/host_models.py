"""Small models for the stand-in host, and its programs run in this process."""

from __future__ import annotations

import json
import os
import types

import numpy as np
from onnx import TensorProto, helper
from onnx_models import model, save, value, weight

from goldwatch.testing.host import ais_bench, atc, msame
from goldwatch.testing.host.host_config import HostConfig
from goldwatch.testing.host.pyacl import fill_module

SOC = "Ascend310P3"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "caffe", "resblock")


def conv_net(path):
    """x [1,3,8,8] -> conv1 -> bn1 -> relu1 -> pool1 -> flat -> fc -> prob -> y [1,10]."""
    random = np.random.RandomState(0)

    def made(name, *shape, low=0.0, scale=0.3):
        return weight(
            name,
            (random.randn(*shape) * scale if not low else random.rand(*shape) + low).astype(
                np.float32
            ),
        )

    weights = [
        made("w1", 8, 3, 3, 3),
        made("b1", 8),
        made("s", 8, low=0.5),
        made("o", 8),
        made("m", 8),
        made("v", 8, low=0.5),
    ]
    weights += [
        made("w2", 128, 10, scale=0.1),
        made("b2", 10),
        weight("shape", np.array([1, -1], np.int64)),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"], name="bn1"),
        helper.make_node("Relu", ["n"], ["r"], name="relu1"),
        helper.make_node(
            "MaxPool", ["r"], ["p"], name="pool1", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Reshape", ["p", "shape"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["g"], name="fc"),
        helper.make_node("Softmax", ["g"], ["y"], name="prob", axis=1),
    ]
    return save(
        path, model(nodes, [value("x", (1, 3, 8, 8))], [value("y", (1, 10))], weights, opset=13)
    )


def dynamic_net(path):
    """x [n,3,h,w] -> conv1 -> relu1 -> gap -> flat -> fc; its sum with y0 [n,10] is y."""
    random = np.random.RandomState(1)
    weights = [
        weight("w1", (random.randn(8, 3, 3, 3) * 0.3).astype(np.float32)),
        weight("w2", random.randn(8, 10).astype(np.float32)),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu1"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="gap"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "w2"], ["m"], name="fc"),
        helper.make_node("Add", ["m", "y0"], ["y"], name="add"),
    ]
    inputs = [value("x", ("n", 3, "h", "w")), value("y0", ("n", 10))]
    return save(path, model(nodes, inputs, [value("y", ("n", 10))], weights, opset=13))


def overflowing_net(path):
    """x [1,4] -> times (by 400) -> square (leaves float16's range) -> root -> y."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"], name="times"),
        helper.make_node("Mul", ["a", "a"], ["b"], name="square"),
        helper.make_node("Sqrt", ["b"], ["y"], name="root"),
    ]
    weights = [weight("k", np.full((1, 4), 400, np.float32))]
    return save(path, model(nodes, [value("x", (1, 4))], [value("y", (1, 4))], weights, opset=13))


def odd_net(path):
    """A model with an op that nothing computes."""
    nodes = [helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")]
    return save(path, model(nodes, [value("x", (3, 3))], [value("y", ())], opset=13))


def string_net(path):
    """A model whose input is a text."""
    nodes = [helper.make_node("StringNormalizer", ["x"], ["y"], name="odd")]
    inputs, outputs = [value("x", (1,), TensorProto.STRING)], [value("y", (1,), TensorProto.STRING)]
    return save(path, model(nodes, inputs, outputs, opset=13))


def run_atc(*words):
    """Run atc and return its exit code."""
    return atc.main([str(word) for word in words])


def compile_onnx(path, om, **options):
    """Return the .om of an ONNX model."""
    words = [
        "--framework=5",
        "--model=%s" % path,
        "--output=%s" % str(om)[: -len(".om")],
        "--soc_version=" + SOC,
    ]
    assert run_atc(*words, *("--%s=%s" % item for item in options.items())) == 0
    return str(om)


def host_module(folder, *faults, **fields):
    """Return the module acl of a host, and the state behind it."""
    os.makedirs(str(folder), exist_ok=True)
    HostConfig(faults=tuple(faults), **fields).write(str(folder))
    module = types.ModuleType("acl")
    return module, fill_module(module, str(folder))


def run_ais_bench(folder, *words, faults=(), **fields):
    """Run ais_bench on a host and return its exit code."""
    return ais_bench.main(host_module(folder, *faults, **fields)[1], [str(word) for word in words])


def run_msame(folder, *words, faults=(), **fields):
    """Run msame on a host, in the current folder, and return its exit code."""
    return msame.main(host_module(folder, *faults, **fields)[1], [str(word) for word in words])


def acl_json(path, dump_path, name, mode="all", **more):
    """Write a dump configuration and make its dump_path."""
    os.makedirs(str(dump_path), exist_ok=True)
    model_dump = {"model_name": name, **({"layer": more.pop("layer")} if "layer" in more else {})}
    path.write_text(
        json.dumps(
            {
                "dump": {
                    "dump_path": str(dump_path),
                    "dump_mode": mode,
                    "dump_list": [model_dump],
                    **more,
                }
            }
        )
    )
    return str(path)


def dump_names(folder):
    """Return the names of all files below a folder."""
    return sorted(name for _, _, names in os.walk(str(folder)) for name in names)


def ops_of(document):
    """Return the ops of a json by name."""
    return {op["name"]: op for op in document["graph"][0]["op"]}


def golden(path, feeds):
    """Return the outputs of an ONNX model by onnxruntime, in float32."""
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def cast_only(path):
    """A model whose only node is onnx's Identity, of which the compiler leaves nothing."""
    nodes = [
        helper.make_node("Identity", ["x"], ["i"], name="same"),
        helper.make_node("Relu", ["i"], ["y"], name="relu1"),
    ]
    return save(path, model(nodes, [value("x", (2, 3))], [value("y", (2, 3))], opset=13))
