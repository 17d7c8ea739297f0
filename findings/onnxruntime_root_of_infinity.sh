#!/bin/sh
# Sqrt of infinity in onnxruntime 1.14.1, the last one for Python 3.7, is NaN where it computes four
# elements at once, and infinity in the rest of the tensor. Ends with 0 while that is so, with 1 once
# it has changed, with 2 without a Python from 3.7 to 3.10 (PYTHON names one).
set -e
for python in "$PYTHON" python3 python3.10 python3.9 python3.8 python3.7 ""; do
    [ "$("$python" -c 'import sys; print((3, 7) <= sys.version_info < (3, 11))' 2>&1)" = True ] && break
done
[ -n "$python" ] || { echo "no Python from 3.7 to 3.10 is found: PYTHON=PATH names one" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnxruntime==1.14.1 onnx==1.14.1 'numpy<2'
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in "xy")
graph = helper.make_graph([helper.make_node("Sqrt", ["x"], ["y"])], "g", [x], [y])
opsets = [helper.make_opsetid("", 13)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
onnx.checker.check_model(model)
session = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CPUExecutionProvider"]
)
(made,) = session.run(None, {"x": np.full(5, np.inf, np.float32)})
print("onnxruntime", onnxruntime.__version__, "Sqrt of five infinities: expected", [np.inf] * 5)
print("seen", made.tolist())
sys.exit(0 if np.isnan(made).tolist() == [True] * 4 + [False] else 1)
PYTHON
