#!/bin/sh
# onnx.version_converter lowers a Softmax from opset 13 to 11 with its axis as it is, where the older
# Softmax normalises over all axes from that one on: a valid model with other values. Ends with 0
# while that is so, with 1 once it has changed.
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

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3]) for name in "xy")
graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=1)], "g", [x], [y])
opsets = [helper.make_opsetid("", 13)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
onnx.checker.check_model(model)
lowered = version_converter.convert_version(model, 11)
onnx.checker.check_model(lowered)


def sums(of):
    session = onnxruntime.InferenceSession(
        of.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": np.zeros((1, 2, 3), np.float32)})[0].sum(axis=1).round(3)


print("onnx", onnx.__version__, "sums of Softmax over axis 1, opset 13:", sums(model).tolist())
print("converted to opset 11: expected the same, seen", sums(lowered).tolist())
sys.exit(1 if np.allclose(sums(lowered), 1) else 0)
PYTHON
