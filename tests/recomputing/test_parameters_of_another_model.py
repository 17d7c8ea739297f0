"""An om with the parameters of another checkpoint accuses no operator for these; what is wrong
beside them is named, and one wrong operator of an om with the model's."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil

import numpy as np
import onnx_models as build
import pytest
from onnx.helper import make_node as node
from onnx_device import on_device, write_model
from onnx_run import OnnxRun

from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

SHAPE = (2, 8, 6, 6)
LAYERS = ("0", "1", "2")


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)


def drawn(random, *sizes):
    return random.standard_normal(sizes).astype(np.float16).astype(np.float32)


def trained(random):
    """Return the parameters of three convolutions with their normalisations."""
    of_layer = {"w": (8, 8, 3, 3), "b": (8,), "g": (8,), "s": (8,), "m": (8,), "v": (8,)}
    held = {key + at: drawn(random, *size) for at in LAYERS for key, size in of_layer.items()}
    for at in LAYERS:
        held["w" + at] = held["w" + at] / np.float32(8)
        held["v" + at] = np.abs(held["v" + at]) + np.float32(0.5)
        held["g" + at] = np.abs(held["g" + at]) + np.float32(0.5)
    return held


def model(held, folded=False, pool="AveragePool", dilated=""):
    """Return a network with the normalisations as nodes, or folded into weights."""
    nodes, value = [], "x"
    for at in LAYERS:
        pads = [2] * 4 if at == dilated else [1] * 4
        dilations = [2, 2] if at == dilated else [1, 1]
        kept = [one + at for one in "wb"]
        given = {"name": "conv" + at, "pads": pads, "dilations": dilations}
        nodes.append(node("Conv", [value, *kept], ["c" + at], **given))
        last = "c" + at
        if not folded:
            reads = ["c" + at, *(one + at for one in "gsmv")]
            nodes.append(node("BatchNormalization", reads, ["n" + at], name="bn" + at))
            last = "n" + at
        nodes.append(node("Relu", [last], ["r" + at], name="relu" + at))
        value = "r" + at
    nodes.append(node(pool, [value], ["p"], name="pool", kernel_shape=[2, 2]))
    nodes.append(node("Tanh", ["p"], ["y"], name="last"))
    kept = [build.weight(key, array) for key, array in held.items() if not folded or key[0] in "wb"]
    made = [build.value("y", (2, 8, 5, 5))]
    return build.model(nodes, [build.value("x", SHAPE)], made, kept)


def in_weights(held):
    """Return the parameters with the normalisations folded into weights and biases."""
    folded = dict(held)
    for at in LAYERS:
        weights, bias, scale, shift, mean, variance = (held[key + at] for key in "wbgsmv")
        factor = scale / np.sqrt(variance + np.float32(1e-5))
        folded["w" + at] = weights * factor[:, None, None, None]
        folded["b" + at] = (bias - mean) * factor + shift
    return folded


def compare(net, own, other, fault=None, **changes):
    """Compare what an om of other parameters dumps, its normalisations folded, with the model."""
    x = drawn(np.random.RandomState(1), *SHAPE)
    net.prepare(model(own), {"x": x})
    held = in_weights(other)
    build.save(pathlib.Path(net.path("b.onnx")), model(held, folded=True, **changes))
    fused = [("conv" + at, "relu" + at) for at in LAYERS]
    made = on_device(net.path("b.onnx"), {"x": x}, fused=fused, fault=fault)
    device = DeviceModel(made.name)
    for op in made.ops:
        at = op.name[-1]
        if op.name.startswith("conv"):
            for key in ("w" + at, "b" + at):
                tensor = DeviceTensor(held[key].astype(np.float16))
                device.add(DeviceOp(key, "Const", outputs=(tensor,)))
            inputs = (*op.inputs[:1], ("w" + at, 0), ("b" + at, 0))
            originals = ("relu" + at, "conv" + at, "bn" + at)
            op = dataclasses.replace(op, type="Conv2D", inputs=inputs, originals=originals)
        device.add(op)
    write_model(device, net.path("net.json"), "atc --model=m.onnx --input_fp16_nodes=x")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), device.dumps())
    code, result, said = net.compare()
    assert code == 1
    suspects = {one["op"]: one for one in result["summary"]["suspects"]}
    accused = {op: one for op, one in suspects.items() if one["confidence"] != "none"}
    told = {one["explanations"][0]["kind"] for op, one in suspects.items() if op not in accused}
    return accused, {*suspects} - {*accused}, told, said


ALL = {"conv%srelu%s" % (at, at) for at in LAYERS}
OTHERS = {
    "all": "wbgsmv",
    "weights alone": "w",
    "statistics": "mv",
    "scale and shift": "gs",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_folded_normalisations_of_another_checkpoint_accuse_nobody(net, kind):
    own, random = trained(np.random.RandomState(2)), np.random.RandomState(3)
    drawn_anew = trained(random)
    other = {key: drawn_anew[key] if key[0] in OTHERS[kind] else own[key] for key in own}
    accused, cleared, told, said = compare(net, own, other)
    assert not accused and cleared == ALL and told == {"other-weights"}, said
    assert "3 of 3 operators with weights differ from what is computed with the original" in said
    assert "2 of 2 that read no constants agree" in said
    of_filters = "the weights are the original's but for a factor of each filter" in said
    assert of_filters == (kind in ("statistics", "scale and shift"))


@pytest.mark.parametrize("kind", ["pool", "dilated"])
def test_what_is_wrong_beside_other_parameters_is_named(net, kind):
    own, other = (trained(np.random.RandomState(seed)) for seed in (4, 5))
    changes = {"pool": "MaxPool"} if kind == "pool" else {"dilated": "1"}
    accused, cleared, told, said = compare(net, own, other, **changes)
    wrong = "pool" if kind == "pool" else "conv1relu1"
    assert {*accused} == {wrong} and cleared == ALL - {wrong} and told == {"other-weights"}, said
    if kind == "pool":
        assert "the device computed MaxPool for AveragePool" in said
    assert "no operator need be wrong" not in said


@pytest.mark.parametrize("keys", ["wbgsmv", "mv", "w"])
def test_one_operator_with_other_parameters_is_wrong(net, keys):
    own, anew = (trained(np.random.RandomState(seed)) for seed in (6, 7))
    other = {**own, **{key + "1": anew[key + "1"] for key in keys}}
    accused, cleared, _, said = compare(net, own, other)
    assert {*accused} == {"conv1relu1"} and not cleared, said
    assert "conv1relu1: attribute" in said or "the weights and bias of its own dump" in said


@pytest.mark.parametrize("is_folded", [True, False])
def test_a_fault_in_all_operators_with_weights_is_theirs(net, is_folded):
    """The dump holds the model's parameters: no others explain it."""
    own = trained(np.random.RandomState(8))
    if is_folded:
        fault = {"relu" + at: lambda array: array * np.float32(1.25) for at in LAYERS}
        accused, cleared, _, said = compare(net, own, own, fault=fault)
        assert {*accused} == ALL and not cleared, said
        return
    x = drawn(np.random.RandomState(1), *SHAPE)
    fault = {"conv" + at: lambda array: array * np.float32(1.25) for at in LAYERS}
    net.prepare(model(own), {"x": x}, fault=fault)
    _, result, said = net.compare()
    suspects = result["summary"]["suspects"]
    assert {one["op"] for one in suspects} == {"conv" + at for at in LAYERS}, said
    assert all(one["confidence"] == "high" for one in suspects)
