#!/bin/sh
# QLinearConv, QLinearMatMul and MatMulInteger of uint8 by int8 in onnxruntime 1.32.0 cut sums of two
# products to 16 bits on x86 without VNNI, silently and with all optimisation off; uint8 by uint8 and
# int8 by int8 are exact. Ends with 0 while that is so, with 1 once it has changed, with 2 on another
# processor or without a Python from 3.11 to 3.13 (PYTHON names one).
set -e
grep -q -m 1 -w avx2 /proc/cpuinfo && ! grep -q -m 1 -E 'avx512_vnni|avx_vnni' /proc/cpuinfo || {
    echo "this is no x86 processor with AVX2 and without VNNI" >&2; exit 2; }
for python in "$PYTHON" python3 python3.13 python3.12 python3.11 ""; do
    [ "$("$python" -c 'import sys; print((3, 11) <= sys.version_info < (3, 14))' 2>&1)" = True ] && break
done
[ -n "$python" ] || { echo "no Python from 3.11 to 3.13 is found: PYTHON=PATH names one" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/env"
"$folder/env/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
right = {}
for left, weights in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
    a, b = np.full((1, 4), np.iinfo(left).max, left), np.full((4, 1), 127, weights)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TYPES[left], a.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])],
        [numpy_helper.from_array(b, "b")],
    )
    opsets = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (made,) = session.run(None, {"a": a})
    expected = int((a.astype(np.int64) @ b.astype(np.int64)).item())
    name = "%s by %s" % (np.dtype(left), np.dtype(weights))
    right[name] = made.item() == expected
    print("onnxruntime", onnxruntime.__version__, name, "expected", expected, "seen", made.item())
sys.exit(0 if list(right.values()) == [False, True, True] else 1)
PYTHON
