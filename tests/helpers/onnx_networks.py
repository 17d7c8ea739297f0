"""Small networks as PyTorch's exporter writes them: a CNN and a block of a transformer."""

from __future__ import annotations

import numpy as np
import onnx_models as build
from onnx import helper

node = helper.make_node


def _weights(seed, **shapes):
    state = np.random.RandomState(seed)
    arrays = {
        name: state.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
        for name, shape in shapes.items()
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def cnn(batch="N"):
    """Convolutions, a BatchNormalization, a residual Add, pooling, a classifier; some nodes without
    names.
    """
    weights = _weights(0, w1=(16, 3, 3, 3), b1=(16,), mean=(16,), w2=(16, 16, 3, 3), fc=(10, 1024))
    weights.update(
        scale=np.ones(16, np.float32),
        shift=np.zeros(16, np.float32),
        variance=np.ones(16, np.float32),
    )
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node(
            "BatchNormalization",
            ["c1", "scale", "shift", "mean", "variance"],
            ["n1"],
            name="/bn/BatchNormalization",
        ),
        node("Relu", ["n1"], ["r1"], name="/relu/Relu"),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], name="/conv2/Conv", pads=[1, 1, 1, 1]),
        node("Add", ["c2", "p1"], ["a"], name="/Add"),
        node("Constant", [], ["shape"], value=build.weight("", np.array([0, -1], np.int64))),
        node("Reshape", ["a", "shape"], ["f"]),
        node("Gemm", ["f", "fc"], ["y"], name="/fc/Gemm", transB=1),
    ]
    initializers = [build.weight(name, array) for name, array in weights.items()]
    return build.model(
        nodes, [build.value("x", (batch, 3, 16, 16))], [build.value("y", (batch, 10))], initializers
    )


def transformer(width=32, heads=4, length=8):
    """LayerNormalization, attention, and a feed-forward part with both residual Adds."""
    part = width // heads
    weights = _weights(
        1,
        wq=(width, width),
        wk=(width, width),
        wv=(width, width),
        wo=(width, width),
        w1=(width, 4 * width),
        w2=(4 * width, width),
    )
    weights.update(
        scale=np.ones(width, np.float32),
        bias=np.zeros(width, np.float32),
        root=np.float32(np.sqrt(part)),
        half=np.float32(0.5),
    )
    weights.update(one=np.float32(1), two=np.float32(np.sqrt(2)))
    split = build.weight("split", np.array([0, length, heads, part], np.int64))
    merge = build.weight("merge", np.array([0, length, width], np.int64))
    nodes = [
        node(
            "LayerNormalization",
            ["x", "scale", "bias"],
            ["n"],
            name="/norm1/LayerNormalization",
            axis=-1,
        )
    ]
    for name in "qkv":
        nodes += [
            node("MatMul", ["n", "w" + name], [name], name="/attn/%s/MatMul" % name),
            node("Reshape", [name, "split"], [name + "s"], name="/attn/%s/Reshape" % name),
            node(
                "Transpose",
                [name + "s"],
                [name + "t"],
                name="/attn/%s/Transpose" % name,
                perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3],
            ),
        ]
    nodes += [
        node("MatMul", ["qt", "kt"], ["s"], name="/attn/MatMul"),
        node("Div", ["s", "root"], ["sd"], name="/attn/Div"),
        node("Softmax", ["sd"], ["p"], name="/attn/Softmax", axis=-1),
        node("MatMul", ["p", "vt"], ["o"], name="/attn/MatMul_1"),
        node("Transpose", ["o"], ["ot"], name="/attn/Transpose", perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "merge"], ["om"], name="/attn/Reshape"),
        node("MatMul", ["om", "wo"], ["op"], name="/attn/out/MatMul"),
        node("Add", ["op", "x"], ["r"], name="/Add"),
        node(
            "LayerNormalization",
            ["r", "scale", "bias"],
            ["n2"],
            name="/norm2/LayerNormalization",
            axis=-1,
        ),
        node("MatMul", ["n2", "w1"], ["h"], name="/ff/0/MatMul"),
        node("Div", ["h", "two"], ["hd"], name="/ff/1/Div"),
        node("Erf", ["hd"], ["he"], name="/ff/1/Erf"),
        node("Add", ["he", "one"], ["ha"], name="/ff/1/Add"),
        node("Mul", ["h", "ha"], ["hm"], name="/ff/1/Mul"),
        node("Mul", ["hm", "half"], ["hg"], name="/ff/1/Mul_1"),
        node("MatMul", ["hg", "w2"], ["g"], name="/ff/2/MatMul"),
        node("Add", ["g", "r"], ["y"], name="/Add_1"),
    ]
    initializers = [build.weight(name, array) for name, array in weights.items()] + [split, merge]
    shape = (1, length, width)
    return build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], initializers)


def flattened_at_run_time():
    """What PyTorch writes for ``x.relu().view(x.size(0), -1)`` where the batch is not known: the
    new shape is computed in the run.
    """
    nodes = [
        node("Relu", ["x"], ["r"], name="relu"),
        node("Shape", ["r"], ["dims"], name="shape"),
        node("Gather", ["dims", "first"], ["batch"], name="gather", axis=0),
        node("Unsqueeze", ["batch", "axes"], ["head"], name="unsqueeze"),
        node("Concat", ["head", "rest"], ["wanted"], name="concat", axis=0),
        node("Reshape", ["r", "wanted"], ["f"], name="reshape"),
        node("Neg", ["f"], ["y"], name="neg"),
    ]
    numbers = {
        "first": np.array(0, np.int64),
        "axes": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    initializers = [build.weight(name, array) for name, array in numbers.items()]
    return build.model(
        nodes, [build.value("x", ("N", 3, 4, 5))], [build.value("y", ("N", "M"))], initializers
    )
