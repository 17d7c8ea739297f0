"""An ONNX model with the device's dumps and om json: fused ops, parser-made names, ladders, whole
ops.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import onnx
import onnx_models as build
import pytest
from caffe_as_onnx import AsOnnx
from onnx_graphs import Builder

from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.testing import CaffeNetwork, DeviceModel, DeviceOp, DeviceTensor, DumpServer

DATA = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "caffe", "resblock"
)


@pytest.fixture(scope="module")
def network():
    data = np.load(os.path.join(DATA, "input_data.npy"))
    prototxt = os.path.join(DATA, "resblock.prototxt")
    weights = read_weights(os.path.join(DATA, "resblock.caffemodel"))
    return CaffeNetwork(prototxt, weights, {"data": data}, "resblock"), AsOnnx(
        prototxt, weights, {"data": data.shape}
    )


@pytest.fixture
def device_options(network, tmp_path):
    """The model, its om json and dumps; the names of fused ops as in the om."""
    device, made = network
    build.save(tmp_path / "net.onnx", made.model)
    model = made.renamed(device.model())
    # As the compiler writes them: a name twice, and constants among them.
    model.ops = [
        replace(op, originals=(op.originals[0], *op.originals))
        if len(op.originals or ()) > 1
        else op
        for op in model.ops
    ]
    DumpServer(str(tmp_path / "dump"), list(model.dumps())).run()
    model.write_json(str(tmp_path / "om.json"))
    return ["--om", "om.json", "--dump", "dump"]


def values(model, name):
    return np.asarray(model.output(name).array, np.float32)


def test_inputs_of_an_onnx_cut_are_the_devices_values(network, device_options, exported):
    folder, document = exported(
        "--start", "res2a_branch2a", "--end", "res2a", *device_options, model="net.onnx"
    )
    entries = {entry["name"]: entry for entry in document["inputs"]}
    assert {entry["from"] for entry in entries.values()} == {"target"} and len(entries) == 2
    device = network[0].model()
    for entry in entries.values():
        held = next(
            op
            for op in device.ops
            if op.outputs and op.outputs[0].origin_name == entry["producer"]["op"] and op.originals
        )
        assert np.array_equal(
            np.load(os.path.join(folder, entry["npy"])), values(device, held.name)
        )
        assert entry["shape_source"] == "om" and entry["dtype"] == "float32"
    onnx.checker.check_model(os.path.join(folder, "dump.onnx"))
    assert document["spanning_ops"][0]["op"] == "res2ares2a_relu"


def test_whole_ops_and_ladder_work_for_onnx_models(network, device_options, exported, cut):
    _, document = exported(
        "--start",
        "res2a_branch2a",
        "--end",
        "res2a",
        "--whole-ops",
        *device_options,
        model="net.onnx",
    )
    assert (
        document["spanning_ops"] == []
        and document["end"][-1].startswith("Relu_")
        and document["missing"] == []
    )
    done = cut(
        "--start",
        "gap",
        "--end",
        "gap",
        "--ladder",
        *device_options,
        "--dry-run",
        "--format",
        "json",
        out=False,
        model="net.onnx",
    )
    ladder = json.loads(done.stdout)["ladder"]
    assert [len(step["layers"]) for step in ladder] == sorted(
        len(step["layers"]) for step in ladder
    ) and len(ladder) > 1


def test_list_shows_ops_shapes_and_dumps(device_options, cut):
    rows = [
        line.split("\t")
        for line in cut("--list", *device_options, out=False, model="net.onnx").stdout.splitlines()
    ]
    by_name = {row[1]: row for row in rows}
    assert by_name["conv1"][2:] == ["Conv", "", "conv1conv1_relu", "yes"]
    assert by_name["Relu_0"][2:] == ["Relu", "2x8x16x16", "conv1conv1_relu", "yes"]


def test_an_om_of_another_model_is_refused(network, device_options, cut, tmp_path):
    model = network[0].model()
    model.ops = [
        replace(op, originals=tuple("other_" + name for name in op.originals or ()))
        for op in model.ops
    ]
    model.write_json(str(tmp_path / "om.json"))
    assert (
        "of another model"
        in cut(
            "--start", "conv1", "--end", "conv1", "--om", "om.json", model="net.onnx", code=4
        ).stderr
    )


def test_axes_that_the_device_adds_are_removed(exported, cut, tmp_path):
    """A 1-D convolution is one of two dims on the device, and the om json says so."""
    net = Builder()
    net.node("Conv", ["x", net.weight("w", 20, 6, 3)], ["c"], "conv", pads=[1, 1])
    net.node("Relu", ["c"], ["y"], "relu")
    build.save(
        tmp_path / "net.onnx", net.model([("x", 1, ["batch", 6, 8])], [("y", 1, ["batch", 20, 8])])
    )
    held = np.random.RandomState(1).standard_normal((2, 20, 1, 8)).astype(np.float16)
    model = DeviceModel("net")
    model.add(
        DeviceOp(
            "x", "Data", (), (DeviceTensor(np.ones((2, 6, 1, 8), np.float16), "NCHW", "NCHW", "x"),)
        )
    )
    for name, source in (("conv", "x"), ("relu", "conv")):
        model.add(
            DeviceOp(
                name,
                "Conv2D",
                ((source, 0),),
                (DeviceTensor(held, "NC1HWC0", "NCHW", name),),
                (name,),
            )
        )
    DumpServer(str(tmp_path / "dump"), list(model.dumps())).run()
    model.write_json(str(tmp_path / "om.json"))
    words = ["--start", "relu", "--end", "relu", "--om", "om.json", "--dump", "dump"]
    folder, document = exported(*words, model="net.onnx")
    (entry,) = document["inputs"]
    assert (entry["shape"], entry["from"]) == ([2, 20, 8], "target")
    assert np.array_equal(
        np.load(os.path.join(folder, entry["npy"])), held.reshape(2, 20, 8).astype(np.float32)
    )
    onnx.checker.check_model(os.path.join(folder, "dump.onnx"), full_check=True)
    (tmp_path / "golden").mkdir()
    for name in ("conv", "relu"):
        np.save(
            str(tmp_path / "golden" / (name + ".0.1700000000000000.npy")),
            held.reshape(2, 20, 8).astype(np.float32),
        )
    _, document = exported(*words, "--golden", "golden", model="net.onnx")
    assert (document["inputs"][0]["shape"], document["inputs"][0]["shape_source"]) == (
        [2, 20, 8],
        "golden",
    )
    (tmp_path / "golden" / "conv.0.1700000000000000.npy").unlink()
    np.save(
        str(tmp_path / "golden" / "conv.0.1700000000000001.npy"), np.ones((2, 20, 9), np.float32)
    )
    assert (
        "golden says [2, 20, 9], om says [2, 20, 8]"
        in cut(*words, "--golden", "golden", model="net.onnx", code=4).stderr
    )


def test_a_value_behind_a_removed_reshape_has_the_original_shape(exported, cut, tmp_path):
    """The device's values are taken in the original's shape; where nobody knows that, the hint
    shows one of as many axes.
    """
    net = Builder()
    net.node("Relu", ["x"], ["r"], "relu")
    net.node("Reshape", ["r", net.put("s", np.array([2, -1], np.int64))], ["f"], "reshape")
    net.node("Neg", ["f"], ["y"], "neg")
    build.save(
        tmp_path / "net.onnx",
        net.model(
            [("x", onnx.TensorProto.FLOAT, [2, 3, 4, 5])], [("y", onnx.TensorProto.FLOAT, None)]
        ),
    )
    x = np.random.RandomState(0).standard_normal((2, 3, 4, 5)).astype(np.float16)
    model = DeviceModel("net")
    model.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    relu = DeviceTensor(np.maximum(x, 0), "NC1HWC0", origin_name="relu")
    model.add(DeviceOp("relu", "Relu", (("x", 0),), (relu,), ("relu",)))
    model.add(
        DeviceOp(
            "neg",
            "Neg",
            (("relu", 0),),
            (DeviceTensor(-relu.array.reshape(2, -1), "ND", origin_name="neg"),),
            ("neg",),
        )
    )
    DumpServer(str(tmp_path / "dump"), list(model.dumps())).run()
    model.write_json(str(tmp_path / "om.json"))
    given = ["--start", "neg", "--end", "neg", "--om", "om.json"]
    assert "or you do (f=1,1)" in cut(*given, "--dump", "dump", model="net.onnx", code=4).stderr
    wrong = cut(*given, "--dump", "dump", "--shape", "f=2,61", model="net.onnx", code=4)
    assert "120 elements are recorded, the shape [2, 61] has 122" in wrong.stderr
    (tmp_path / "golden").mkdir()
    np.save(
        str(tmp_path / "golden" / "reshape.0.1700000000000000.npy"), np.zeros((2, 60), np.float32)
    )
    folder, document = exported(
        *given, "--dump", "dump", "--golden", "golden", model="net.onnx", code=3
    )
    (entry,) = document["inputs"]
    assert (
        entry["from"] == "target"
        and entry["shape"] == [2, 60]
        and entry["shape_source"] == "golden"
    )
    assert np.array_equal(np.load(os.path.join(folder, entry["npy"])), relu.array.reshape(2, 60))
    # An op that reads it in that shape tells its sizes.
    document = json.loads((tmp_path / "om.json").read_text())
    for op in document["graph"][0]["op"]:
        if op["name"] == "neg":
            desc = op["input_desc"][0]
            desc["shape"] = {"dim": [2, 60]}
            desc["layout"] = "ND"
            desc["attr"] = [entry for entry in desc["attr"] if "origin" not in entry["key"]]
    (tmp_path / "om.json").write_text(json.dumps(document))
    assert "or you do (f=2,60)" in cut(*given, model="net.onnx", code=4).stderr
