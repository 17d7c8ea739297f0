#!/bin/sh
# Where onnxruntime 1.22.1 has no kernel for an operator and expands it by its function body, the
# error names an operator of that body and no node: a named Softmax in bfloat16 is reported as a
# ReduceMax without a name, which the model does not have. Ends with 0 while that is so, with 1 once
# it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnxruntime==1.22.1 onnx==1.18.0
"$folder/env/bin/python" - <<'PYTHON'
import sys

import onnx
import onnxruntime
from onnx import TensorProto, helper

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
nodes = [
    helper.make_node("Cast", ["x"], ["narrow"], "to_bfloat16", to=TensorProto.BFLOAT16),
    helper.make_node("Softmax", ["narrow"], ["probabilities"], "my_softmax"),
    helper.make_node("Cast", ["probabilities"], ["y"], "to_float", to=TensorProto.FLOAT),
]
graph = helper.make_graph(nodes, "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.checker.check_model(model)
print("onnxruntime", onnxruntime.__version__)
try:
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    message = "no error"
except Exception as error:
    message = str(error)
print("expected: an error that names my_softmax, a Softmax")
print("seen:", message)
sys.exit(0 if "ReduceMax" in message and "my_softmax" not in message else 1)
PYTHON
