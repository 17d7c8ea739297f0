"""ONNX models for the tests of sub-models and replay, and onnxruntime without optimisation."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def run(model, feeds, wanted, threads=1):
    """Return the values of a model (its bytes) by name."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return dict(zip(wanted, session.run(list(wanted), feeds)))


def all_values(model, feeds):
    """Return every value of the main graph of a ModelProto, its inputs among them."""
    names = [name for node in model.graph.node for name in node.output if name]
    more = onnx.ModelProto()
    declared = {value.name for value in model.graph.output}
    more.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in declared
    )
    return dict(run(model.SerializeToString() + more.SerializeToString(), feeds, names), **feeds)


class Builder:
    """Collects nodes and weights."""

    def __init__(self, seed=0):
        self.nodes, self.weights = [], []
        self.random = np.random.RandomState(seed)

    def weight(self, name, *shape, scale=0.4):
        return self.put(name, (self.random.standard_normal(shape) * scale).astype(np.float32))

    def put(self, name, values):
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op, inputs, outputs, name="", **attrs):
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attrs))
        return outputs[0]

    def model(self, inputs, outputs, name="net", opset=17, **more):
        """Inputs and outputs are (name, type, dims); dims None: not told."""
        values = [
            [helper.make_tensor_value_info(*value) for value in values]
            for values in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, name, values[0], values[1], self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more
        )


def branching():
    """A net of 32 nodes: branches, shared weights, unnamed nodes, optional values, computed shapes,
    an If that reads outer values.
    """
    net = Builder()
    net.weight("w1", 8, 3, 3, 3)
    net.weight("b1", 8)
    net.node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1])
    norm = [net.weight(name, 8) for name in ("scale", "shift", "mean")] + [
        net.put("variance", np.linspace(1, 2, 8, dtype=np.float32))
    ]
    net.node("BatchNormalization", ["c1", *norm], ["bn1"], "bn1")
    net.node("Relu", ["bn1"], ["r1"])
    net.node("Split", ["r1"], ["sa", "sb"], "split", axis=1)
    net.node("Sigmoid", ["sa"], ["sg"], "sig")
    net.node("Mul", ["sg", "sb"], ["mu"], "mul")
    net.node("Concat", ["mu", "sa"], ["cc"], "cat", axis=1)
    net.node("MaxPool", ["cc"], ["mp", "mi"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    net.node("Dropout", ["mp"], ["dr", ""], "drop")
    net.node("Shape", ["dr"], ["sh"], "shape")
    net.node("Gather", ["sh", net.put("zero", np.int64([0]))], ["bs"], "batch", axis=0)
    net.node("Concat", ["bs", net.put("minus", np.int64([-1]))], ["tgt"], "tgt", axis=0)
    net.node("Reshape", ["dr", "tgt"], ["fl"], "flat")
    net.node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([[0.5]])))
    net.node("Mul", ["fl", "k"], ["fk"])
    net.weight("wm", 128, 16)
    net.node("MatMul", ["fk", "wm"], ["mm"], "mm1")
    net.node("MatMul", ["fl", "wm"], ["mm2"], "mm2")
    net.node("Identity", ["wm"], ["wmid"], "wid")
    net.node("MatMul", ["fk", "wmid"], ["mm3"], "mm3")
    net.node("Add", ["mm", "mm2"], ["ad"], "add/with:odd.name")
    net.node("Sub", ["ad", "mm3"], ["su"], "sub")
    net.node("TopK", ["su", net.put("four", np.int64([4]))], ["tv", "ti"], "topk")
    net.node("Cast", ["ti"], ["tf"], "cast", to=TensorProto.FLOAT)
    net.node("Add", ["tv", "tf"], ["mix"], "mix")
    net.node("Unsqueeze", ["su", "zero"], ["un"], "unsq")
    lstm = [net.weight("W", 1, 32, 16), net.weight("R", 1, 32, 8)]
    net.node("LSTM", ["un", *lstm], ["", "yh", "yc"], "lstm", hidden_size=8)
    net.node("Squeeze", ["yh", "zero"], ["sq"], "squeeze")
    taken = (
        helper.make_node("Neg", ["mix"], ["tn"], name="neg"),
        helper.make_node("Relu", ["tn"], ["t_out"]),
    )
    other = helper.make_node("Mul", ["mix", "half"], ["e_out"], name="m")
    half = numpy_helper.from_array(np.float32(0.5), "half")
    result = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("t_out", "e_out")
    ]
    bodies = {
        "then_branch": helper.make_graph(taken, "then", [], result[:1]),
        "else_branch": helper.make_graph([other], "else", [], result[1:], [half]),
    }
    net.node("If", ["flag"], ["io"], "cond", **bodies)
    net.node("Clip", ["io", "", net.put("most", np.float32(1.5))], ["cl"], "clip")
    net.node("ReduceMean", ["cl"], ["rm"], "mean", keepdims=1)
    net.node("Add", ["rm", "sq"], ["s2"], "last")
    net.node("Softmax", ["s2"], ["y"], axis=-1)
    return net.model(
        [("x", TensorProto.FLOAT, [2, 3, 8, 8]), ("flag", TensorProto.BOOL, [])],
        [("y", TensorProto.FLOAT, [2, 8]), ("yc", TensorProto.FLOAT, [1, 2, 8])],
    )
