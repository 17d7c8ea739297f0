#!/bin/sh
# The ReferenceEvaluator of the package onnx sums in the element type itself: the mean of 4,096
# bfloat16 ones is not 1. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnx==1.23.2
"$folder/env/bin/python" - <<'PYTHON'
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper

value = helper.make_tensor_value_info
node = helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0)
inputs = [value("x", TensorProto.BFLOAT16, [4096])]
graph = helper.make_graph([node], "g", inputs, [value("y", TensorProto.BFLOAT16, [])])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
onnx.checker.check_model(model)
ones = np.ones(4096, ml_dtypes.bfloat16)
(mean,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": ones})
print("onnx", onnx.__version__, "mean of 4096 bfloat16 ones: expected 1.0, seen", float(mean))
sys.exit(1 if float(mean) == 1 else 0)
PYTHON
