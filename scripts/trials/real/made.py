"""A small network that needs no download: made with numpy and onnx, with most of what public ones
have."""

from __future__ import annotations

import os
from typing import Any, List

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = Any


class _Maker:
    """Appends nodes; each method returns the name of the value that it makes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)
        self.nodes: List[Any] = []
        self.weights: List[Any] = []

    def weight(self, array: Array) -> str:
        name = "w%d" % len(self.weights)
        self.weights.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = "%s_%d" % (kind, len(self.nodes))
        made = [name + ":out"] + ["%s:out%d" % (name, number) for number in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name, **attributes))
        return made[0]

    def scalar(self, value: float) -> str:
        return self.weight(np.array(value, np.float32))

    def conv(
        self, x: str, before: int, channels: int, size: int, stride: int = 1, groups: int = 1
    ) -> str:
        shape = (channels, before // groups, size, size)
        filters = (
            self.random.laplace(0, 1, shape)
            * np.sqrt(1.0 / np.prod(shape[1:]))
            * self.random.lognormal(0, 0.4, (channels, 1, 1, 1))
        )
        made = self.node(
            "Conv",
            x,
            self.weight(filters.astype(np.float32)),
            strides=[stride] * 2,
            pads=[size // 2] * 4,
            group=groups,
            kernel_shape=[size] * 2,
        )
        draw = self.random.normal
        scale, bias, mean = (
            1 + 0.3 * draw(size=channels),
            0.2 * draw(size=channels),
            0.3 * draw(size=channels),
        )
        variance = self.random.uniform(0.5, 2, channels)
        return self.node(
            "BatchNormalization",
            made,
            *(self.weight(entry.astype(np.float32)) for entry in (scale, bias, mean, variance)),
        )

    def hard_swish(self, x: str) -> str:
        clipped = self.node(
            "Clip", self.node("Add", x, self.scalar(3)), self.scalar(0), self.scalar(6)
        )
        return self.node("Div", self.node("Mul", x, clipped), self.scalar(6))

    def gelu(self, x: str) -> str:
        one = self.node(
            "Add", self.node("Erf", self.node("Div", x, self.scalar(2**0.5))), self.scalar(1)
        )
        return self.node("Mul", self.node("Mul", x, one), self.scalar(0.5))

    def norm(self, x: str, size: int) -> str:
        less = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", less, self.scalar(2)), axes=[-1])
        made = self.node(
            "Div", less, self.node("Sqrt", self.node("Add", variance, self.scalar(1e-5)))
        )
        gain, shift = (1 + 0.2 * self.random.normal(size=size), 0.1 * self.random.normal(size=size))
        scaled = self.node("Mul", made, self.weight(gain.astype(np.float32)))
        return self.node("Add", scaled, self.weight(shift.astype(np.float32)))

    def dense(self, x: str, before: int, size: int) -> str:
        weights = self.random.laplace(0, 1, (before, size)) / np.sqrt(before)
        made = self.node("MatMul", x, self.weight(weights.astype(np.float32)))
        return self.node(
            "Add", made, self.weight((0.1 * self.random.normal(size=size)).astype(np.float32))
        )


def write_made(path: str) -> str:
    """Write the network and return its path: convolutions, squeeze-and-excite, attention, a
    classifier; 1 × 3 × 32 × 32 → 1 × 64 × 20."""
    if os.path.exists(path):
        return path
    make = _Maker(5)
    x = make.node("Relu", make.conv("image", 3, 16, 3, 2))
    y = make.hard_swish(make.conv(x, 16, 32, 1))
    y = make.node("Relu", make.conv(y, 32, 32, 3, groups=32))
    gate = make.conv(make.node("GlobalAveragePool", y), 32, 32, 1)
    y = make.node("Mul", y, make.node("HardSigmoid", gate, alpha=0.2, beta=0.5))
    x = make.node("Add", make.conv(y, 32, 16, 1), x)
    low = make.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    low = make.conv(low, 16, 32, 3)
    low = make.node("Mul", low, make.node("Sigmoid", low))
    sizes = make.weight(np.array([1, 1, 2, 2], np.float32))
    back = make.node(
        "Resize", low, "", sizes, mode="linear", coordinate_transformation_mode="half_pixel"
    )
    x = make.node("Concat", back, make.conv(x, 16, 16, 3), axis=1)
    x = make.node(
        "AveragePool",
        make.node("LeakyRelu", make.conv(x, 48, 32, 3), alpha=0.1),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    x = make.node(
        "Transpose",
        make.node("Reshape", x, make.weight(np.array([1, 32, 64], np.int64))),
        perm=[0, 2, 1],
    )
    for _ in range(2):
        normed = make.norm(x, 32)
        query, key, value = (make.dense(normed, 32, 32) for _ in range(3))
        scores = make.node(
            "Mul",
            make.node("MatMul", query, make.node("Transpose", key, perm=[0, 2, 1])),
            make.scalar(32**-0.5),
        )
        mixed = make.node("MatMul", make.node("Softmax", scores, axis=-1), value)
        x = make.node("Add", x, make.dense(mixed, 32, 32))
        x = make.node("Add", x, make.dense(make.gelu(make.dense(make.norm(x, 32), 32, 64)), 64, 32))
    out = make.node("Softmax", make.dense(make.node("Tanh", make.norm(x, 32)), 32, 20), axis=-1)
    best = make.node("ArgMax", out, axis=-1, keepdims=0)
    three = make.node("TopK", out, make.weight(np.array([3], np.int64)), outputs=2, axis=-1)
    given = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])
    made = [
        helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 64, 20]),
        helper.make_tensor_value_info(best, TensorProto.INT64, [1, 64]),
        helper.make_tensor_value_info(three, TensorProto.FLOAT, [1, 64, 3]),
        helper.make_tensor_value_info(three + "1", TensorProto.INT64, [1, 64, 3]),
    ]
    graph = helper.make_graph(make.nodes, "made", [given], made, make.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    os.makedirs(os.path.dirname(path), exist_ok=True)
    onnx.save(model, path + ".part")
    os.replace(path + ".part", path)
    return path
