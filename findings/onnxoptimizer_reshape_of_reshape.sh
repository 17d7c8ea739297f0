#!/bin/sh
# onnxoptimizer's default passes drop the first of two Reshapes although the second one copies sizes
# (0) from it: the output has another shape. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnx==1.19.1 onnxoptimizer==0.4.2 onnxruntime==1.23.2
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
from onnx import TensorProto, helper

x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"])
shapes = [
    helper.make_tensor("first", TensorProto.INT64, [3], [1, 4, 3]),
    helper.make_tensor("second", TensorProto.INT64, [3], [0, 0, -1]),
]
nodes = [
    helper.make_node("Reshape", ["x", "first"], ["between"]),
    helper.make_node("Reshape", ["between", "second"], ["y"]),
]
graph = helper.make_graph(nodes, "g", [x], [y], initializer=shapes)
opsets = [helper.make_opsetid("", 13)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
onnx.checker.check_model(model)


def shape(of):
    session = onnxruntime.InferenceSession(
        of.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": np.zeros((1, 2, 6), np.float32)})[0].shape


before, after = shape(model), shape(onnxoptimizer.optimize(model))
print("onnxoptimizer", importlib.metadata.version("onnxoptimizer"))
print("shape before", before, "after: expected the same, seen", after)
sys.exit(1 if before == after else 0)
PYTHON
