"""ONNX models that the tests build."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name, shape=(2, 3), dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, initializers=(), opset=17, ir_version=8, domains=(), **graph):
    """A ModelProto; opset 17 and IR 8 are what onnxruntime 1.14 reads too."""
    body = helper.make_graph(
        list(nodes), "g", list(inputs), list(outputs), list(initializers), **graph
    )
    opsets = [helper.make_opsetid("", opset)] + [
        helper.make_opsetid(domain, 1) for domain in domains
    ]
    return helper.make_model(
        body,
        opset_imports=opsets,
        ir_version=ir_version,
        producer_name="tests",
        producer_version="1.0",
    )


def save(path, proto):
    """Write a model and return its path as text."""
    path.write_bytes(proto.SerializeToString())
    return str(path)


def branches(name="cond_node"):
    """A model whose If has an unnamed and a named node in each body, beside named and unnamed nodes
    of its own.
    """
    then_body = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["t1"], name="r"),
            helper.make_node("Neg", ["t1"], ["t2"]),
        ],
        "t",
        [],
        [value("t2", None)],
    )
    else_body = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["e1"])], "e", [], [value("e1", None)]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(
            "If", ["c"], ["b"], name=name, then_branch=then_body, else_branch=else_body
        ),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    return model(nodes, [value("x"), value("c", (), TensorProto.BOOL)], [value("y", None)])


def with_external(path, proto, location="weights.bin", threshold=0):
    """Save a model with all its initializers in one file beside it."""
    onnx.save_model(
        proto,
        str(path),
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=location,
        size_threshold=threshold,
    )
    return str(path)


def with_outputs(proto, *names):
    """A copy of a model with further outputs."""
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    present = {output.name for output in copy.graph.output}
    for name in names:
        if name not in present:
            copy.graph.output.add().name = name
    return copy
