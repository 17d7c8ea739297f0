#!/bin/sh
# onnxconverter-common's float16 with keep_io_types makes the output of a last Resize float16 all the
# same. Ends with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnx==1.19.1 onnxconverter-common==1.16.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

import onnx
from onnx import TensorProto, helper
from onnxconverter_common import float16

x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, 2])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 4, 4])
scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2])
nodes = [
    helper.make_node("Relu", ["x"], ["between"], name="relu"),
    helper.make_node("Resize", ["between", "", "scales"], ["y"], name="resize"),
]
graph = helper.make_graph(nodes, "g", [x], [y], initializer=[scales])
opsets = [helper.make_opsetid("", 13)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
onnx.checker.check_model(model)
made = float16.convert_float_to_float16(model, keep_io_types=True)
types = [
    TensorProto.DataType.Name(value.type.tensor_type.elem_type)
    for value in (*made.graph.input, *made.graph.output)
]
print("onnxconverter-common", importlib.metadata.version("onnxconverter-common"))
print("input and output: expected FLOAT and FLOAT, seen", " and ".join(types))
sys.exit(1 if types == ["FLOAT", "FLOAT"] else 0)
PYTHON
