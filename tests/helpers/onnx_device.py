"""An ONNX network on a device that computes in float16, node by node on the device's values; some
nodes are fused.
"""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from goldwatch.netfiles.onnx_model import OnnxModel
from goldwatch.netfiles.onnx_names import name_nodes
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor


def on_device(path, feeds, fused=(), fault=None, kept=(), shortened=()):
    """Return the network as a :class:`DeviceModel`.

    Parameters
    ----------
    fused
        Chains of node names that are one op; its output is that of the last.
    fault
        (node, function of its array): what that node computes wrong; or such functions by node.
    kept
        Names of nodes that are computed in float32, without the fault.
    shortened
        Those of them whose factors a cube unit shortens to float16.
    """
    faults = fault if isinstance(fault, dict) else dict([fault] if fault is not None else [])
    proto = onnx.load(path)
    names = name_nodes(OnnxModel(path))[0].names
    weights = {
        tensor.name: _held(numpy_helper.to_array(tensor)) for tensor in proto.graph.initializer
    }
    whole = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    values = {name: array.astype(np.float16) for name, array in feeds.items()}
    sources = {name: (name, 0) for name in feeds}
    model = DeviceModel("net")
    for name, array in values.items():
        model.add(DeviceOp(name, "Data", outputs=(DeviceTensor(array, origin_name=name),)))
    chains = {name: chain for chain in fused for name in chain}
    pending = {}
    for name, node in zip(names, proto.graph.node):
        if node.op_type == "Constant":
            weights[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            model.add(
                DeviceOp(
                    name,
                    "Const",
                    outputs=(DeviceTensor(weights[node.output[0]]),),
                    originals=(name,),
                )
            )
            continue
        inside = chains.get(name, (name,))
        weights[""] = None
        read = [values[value] if value in values else weights[value] for value in node.input]
        if name in kept:
            read = [
                each if value in values else whole.get(value, each)
                for value, each in zip(node.input, read)
            ]
            if name in shortened:
                read = [each.astype(np.float16).astype(np.float32) for each in read]
        elif kept:
            made = [
                value in values and each.dtype == np.float32
                for value, each in zip(node.input, read)
            ]
            read = [each.astype(np.float16) if wide else each for wide, each in zip(made, read)]
        (array,) = _run(
            node, [pending.get(value, each) for value, each in zip(node.input, read)], proto
        )
        if name in faults and name not in kept:
            array = faults[name](array)
        # What a fused op computes within is not rounded.
        pending[node.output[0]] = array
        with np.errstate(over="ignore"):
            values[node.output[0]] = (
                array.astype(np.float16) if array.dtype.kind == "f" and name not in kept else array
            )
        if name != inside[-1]:
            sources[node.output[0]] = sources[node.input[0]]
            continue
        for value in [value for value in pending if value == node.output[0] or len(inside) > 1]:
            del pending[value]
        inputs = tuple(sources[value] for value in node.input if value in sources)
        # As atc lists them: a pass over an op lists its original again; of a fusion another than
        # the last may stand first.
        originals = (name, name) if len(inside) == 1 else (inside[-1],) + tuple(inside[:-1])
        op = "".join(inside)
        layout = (
            "NC1HWC0"
            if array.ndim == 4 and node.op_type in ("Conv", "MaxPool", "Relu", "BatchNormalization")
            else "ND"
        )
        tensor = DeviceTensor(values[node.output[0]], layout, origin_name=name)
        model.add(DeviceOp(op, node.op_type, inputs=inputs, outputs=(tensor,), originals=originals))
        sources[node.output[0]] = (op, 0)
    return model


def _held(array):
    """Weights as the device holds them."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32) if array.dtype == np.float32 else array


def _run(node, arrays, proto):
    given = {name: each for name, each in zip(node.input, arrays) if each is not None}
    arrays = [
        each.astype(np.float32) if each.dtype == np.float16 else each for each in given.values()
    ]
    if node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.BFLOAT16:
        # onnxruntime hands over no bfloat16.
        bits = arrays[0].view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return [rounded.astype(np.uint32).view(np.float32)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in zip(given, arrays)
    ]
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name=node.output[0])])
    single = helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)
    session = onnxruntime.InferenceSession(
        single.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(given, arrays)))


def write_model(model, path, command):
    """Write the om json with atc's command line in it."""
    document = model.document()
    document["attr"] = [{"key": "atc_cmdline", "value": {"s": command}}]
    with open(str(path), "w", encoding="utf-8") as stream:
        json.dump(document, stream)
