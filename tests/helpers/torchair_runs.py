"""A small graph as TorchAir compiles it: mm, add and mul fused, a cast that GE put in, relu; and a
fault on demand.
"""

from __future__ import annotations

import numpy as np

from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor, TorchAirGraph


def torchair_graph(name="graph_1", seed=0, fault=None, run="_0"):
    """Return the graph; ``fault`` is the name of the compiled op whose output the device gets
    wrong, ``run`` ends its model's folder.
    """
    random = np.random.RandomState(seed)
    x, w, b = (
        random.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 8), (8,))
    )
    mm = x @ w
    add = mm + b
    mul = add * np.float32(0.5)
    half = mul.astype(np.float16)
    relu = np.maximum(half, 0)
    view = relu.reshape(4, 16)
    original, compiled = DeviceModel(name), DeviceModel(name + run)
    device = {}

    def ran(op_name, array):
        wrong = (
            np.asarray(random.standard_normal(array.shape) * 0.5, array.dtype)
            if op_name == fault
            else 0
        )
        device[op_name] = np.asarray(array + wrong, array.dtype)
        return device[op_name]

    on_device = ran(
        "trans_Cast_3", ran("AddMul", (ran("MatMul", mm) + b) * np.float32(0.5)).astype(np.float16)
    )
    ran("Reshape", ran("Relu", np.maximum(on_device, 0)).reshape(4, 16))

    def op(model, op_name, op_type, inputs=(), array=None):
        outputs = () if array is None else (DeviceTensor(np.asarray(array), origin_format="ND"),)
        model.add(DeviceOp(op_name, op_type, tuple(inputs), outputs))

    for model in (original, compiled):
        for data, array in (("arg0_1", x), ("arg1_1", w), ("arg2_1", b)):
            op(model, data, "Data", (), array)
        op(model, "MatMul", "MatMul", [("arg0_1", 0), ("arg1_1", 0)], device["MatMul"])
    op(original, "Const", "Const", (), np.float32(0.5))
    op(original, "Add", "Add", [("MatMul", 0), ("arg2_1", 0)], add)
    op(original, "Mul", "Mul", [("Add", 0), ("Const", 0)], mul)
    op(original, "Cast", "Cast", [("Mul", 0)], half)
    op(original, "Relu", "Relu", [("Cast", 0)], relu)
    op(original, "Reshape", "Reshape", [("Relu", 0)], view)
    op(
        compiled,
        "AddMul",
        "AutomaticBufferFusionOp",
        [("MatMul", 0), ("arg2_1", 0)],
        device["AddMul"],
    )
    op(compiled, "trans_Cast_3", "Cast", [("AddMul", 0)], device["trans_Cast_3"])
    op(compiled, "Relu", "Relu", [("trans_Cast_3", 0)], device["Relu"])
    op(compiled, "Reshape", "Reshape", [("Relu", 0)], device["Reshape"])
    nodes = {
        "MatMul": ("mm", "aten.mm.default"), "Add": ("add", "aten.add.Tensor"),
        "Mul": ("mul", "aten.mul.Tensor"),
        "Cast": ("_to_copy", "aten._to_copy.default"), "Relu": ("relu", "aten.relu.default"),
        "Reshape": ("view", "aten.view.default"),
    }  # fmt: skip
    values = {
        "mm": ([x, w], [mm]), "add": ([mm, b], [add]), "mul": ([add, 0.5], [mul]),
        "_to_copy": ([mul], [half]), "relu": ([half], [relu]),
        "view": ([relu], [view]),
    }  # fmt: skip
    return TorchAirGraph(original, compiled, nodes, values)
