"""Quantisers to floats of 8 bits: each number is a decision."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from in_process import run_here
from onnx import TensorProto, helper

from goldwatch.dumps import TensorData, write_dump
from goldwatch.testing import DeviceModel, DeviceOp, DeviceTensor

pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize("stored", ["float16", "float32"])
@pytest.mark.parametrize("fault", ["", "scale in float16", "one bit"])
def test_a_number_of_8_bits_that_rounding_does_not_make_fails(tmp_path, fault, stored):
    """One flipped bit is far within the limits of the tensor; a scale that float16 holds moves
    what lies near the middle of two numbers."""
    x = np.random.RandomState(4).standard_normal((16, 64)).astype(stored)
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], name="q")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT8E4M3FN, x.shape)],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [0.05]),
            helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0]),
        ],
    )
    opset = [helper.make_opsetid("", 19)]
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opset), path)
    told = "1 of its 1024 values do not follow from the device's own inputs"
    exact = (x.astype(np.float32) / np.float32(0.05)).astype("float8_e4m3fn")
    (tmp_path / "golden").mkdir()
    for name, array in (("x", x), ("q", exact)):
        np.save(
            str(tmp_path / "golden" / ("%s.0.1767323045000000.npy" % name)),
            array.astype(np.float32),
        )
    scale = np.float32(np.float16(0.05) if fault and stored == "float16" else 0.05)
    made = (x.astype(np.float32) / scale).astype("float8_e4m3fn").view(np.uint8)
    made[3, 5] ^= np.uint8(fault == "one bit")
    model = DeviceModel("net")
    model.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    out = DeviceTensor(made, origin_name="q")
    model.add(DeviceOp("q", "QuantizeLinear", inputs=(("x", 0),), outputs=(out,), originals=("q",)))
    json_path = tmp_path / "net.json"
    model.write_json(str(json_path))
    json_path.write_text(json_path.read_text().replace("DT_UINT8", "DT_FLOAT8_E4M3FN"))
    step = tmp_path / "dump" / "20260102030405" / "0" / "net" / "1" / "0"
    step.mkdir(parents=True)
    tensors = [
        TensorData(x, stored, "ND", x.shape), TensorData(made, "float8_e4m3fn", "ND", x.shape),
    ]  # fmt: skip
    write_dump(str(step / "QuantizeLinear.q.1.3.1767323045000000"), tensors[:1], tensors[1:])
    words = ["dump", "golden", "-f", "net.json", "--original", "m.onnx", "-o", "out"]
    for _ in range(2):
        done = run_here(["goldwatch", "compare", *words], tmp_path)
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        (row,) = [row for row in result["rows"] if row["tensor"] == "q:output:0"]
        if fault == "one bit":
            assert done.returncode == 1 and row["reason_codes"] == "other_steps"
            assert row["reason"] == told
        else:
            assert (done.returncode, row["reason"]) == (0, ""), done.stdout
            assert not result["summary"]["suspects"]
