#!/bin/sh
# onnx.version_converter raises a linear Resize from opset 10 to 13 without a
# coordinate_transformation_mode: what was asymmetric becomes half_pixel, the newer default. Ends
# with 0 while that is so, with 1 once it has changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnx==1.23.2 onnxruntime==1.32.0
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, version_converter

x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 2])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 4])
scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 1, 2])
node = helper.make_node("Resize", ["x", "scales"], ["y"], mode="linear")
graph = helper.make_graph([node], "g", [x], [y], initializer=[scales])
opsets = [helper.make_opsetid("", 10)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=5)
onnx.checker.check_model(model)
raised = version_converter.convert_version(model, 13)
onnx.checker.check_model(raised)


def made(of):
    session = onnxruntime.InferenceSession(
        of.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    values = np.array([0, 4], np.float32).reshape(1, 1, 1, 2)
    return session.run(None, {"x": values})[0].ravel().tolist()


print("onnx", onnx.__version__, "linear Resize of [0, 4] to 4 elements, opset 10:", made(model))
print("converted to opset 13: expected the same, seen", made(raised))
sys.exit(1 if made(raised) == made(model) else 0)
PYTHON
