#!/bin/sh
# A linear Resize by scales with align_corners has two readings: the package onnx divides by the
# length before it is rounded down, onnxruntime by the rounded one, so that golden data of one are
# wrong for a device that follows the other. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnx==1.23.2 onnxruntime==1.32.0
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import TensorProto, helper

x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 4])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 2])
scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 1, 0.6])
node = helper.make_node(
    "Resize",
    ["x", "", "scales"],
    ["y"],
    mode="linear",
    coordinate_transformation_mode="align_corners",
)
graph = helper.make_graph([node], "g", [x], [y], initializer=[scales])
opsets = [helper.make_opsetid("", 18)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
onnx.checker.check_model(model)
feed = {"x": np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4)}
session = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CPUExecutionProvider"]
)
runtime = session.run(None, feed)[0].ravel()
reference = onnx.reference.ReferenceEvaluator(model).run(None, feed)[0].ravel()
print("onnxruntime", onnxruntime.__version__, runtime.tolist())
print("onnx", onnx.__version__, "expected the same, seen", reference.tolist())
sys.exit(1 if np.allclose(runtime, reference) else 0)
PYTHON
