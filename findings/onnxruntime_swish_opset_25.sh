#!/bin/sh
# onnxruntime 1.32.0 has no kernel for Swish and expands it by its function body at opset 24. A model
# of opset 25 or later with the same node, which onnx.checker 1.23.2 accepts, is not loaded.
# Mish, HardSwish and Gelu of the same model run with every opset. Ends with 0 while that is so, with
# 1 once it has changed, with 2 without a Python from 3.11 on (PYTHON names one).
set -e
for python in "$PYTHON" python3 python3.13 python3.12 python3.11 ""; do
    [ "$("$python" -c 'import sys; print(sys.version_info >= (3, 11))' 2>&1)" = True ] && break
done
[ -n "$python" ] || { echo "no Python from 3.11 on is found: PYTHON=PATH names one" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2
"$folder/env/bin/python" - <<'PYTHON'
import sys

import onnx
import onnxruntime
from onnx import TensorProto, helper

print("onnxruntime", onnxruntime.__version__, "onnx", onnx.__version__)
seen = {}
for kind in ("Swish", "Mish", "HardSwish", "Gelu"):
    for opset in (24, 25, 26):
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in "xy")
        graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"])], "g", [x], [y])
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        onnx.checker.check_model(model)
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            seen[kind, opset] = "refused"
            print(kind, opset, "refused:", str(error).splitlines()[0][:150])
        else:
            seen[kind, opset] = "runs"
            print(kind, opset, "runs")
expected = {
    (kind, opset): "refused" if (kind, opset) in (("Swish", 25), ("Swish", 26)) else "runs"
    for kind in ("Swish", "Mish", "HardSwish", "Gelu")
    for opset in (24, 25, 26)
}
sys.exit(0 if seen == expected else 1)
PYTHON
