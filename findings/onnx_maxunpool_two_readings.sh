#!/bin/sh
# MaxUnpool with output_shape: the package onnx reads its indices in the shape that kernel and strides
# give, and pads the result; onnxruntime reads them in output_shape. Ends with 0 while that is so,
# with 1 once it has changed.
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

value = helper.make_tensor_value_info
node = helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
graph = helper.make_graph(
    [node],
    "g",
    [
        value("x", TensorProto.FLOAT, [1, 1, 1, 2]),
        value("i", TensorProto.INT64, [1, 1, 1, 2]),
        value("s", TensorProto.INT64, [4]),
    ],
    [value("y", TensorProto.FLOAT, [1, 1, 3, 5])],
)
opsets = [helper.make_opsetid("", 11)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=6)
onnx.checker.check_model(model)
feed = {
    "x": np.array([1, 2], np.float32).reshape(1, 1, 1, 2),
    "i": np.array([5, 7], np.int64).reshape(1, 1, 1, 2),
    "s": np.array([1, 1, 3, 5], np.int64),
}
session = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CPUExecutionProvider"]
)
runtime = session.run(None, feed)[0][0, 0]
reference = onnx.reference.ReferenceEvaluator(model).run(None, feed)[0][0, 0]
print("onnxruntime", onnxruntime.__version__, "1 and 2 stand at", np.argwhere(runtime).tolist())
print("onnx", onnx.__version__, "expected the same, seen", np.argwhere(reference).tolist())
sys.exit(1 if np.array_equal(runtime, reference) else 0)
PYTHON
