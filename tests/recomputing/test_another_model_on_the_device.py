"""The device runs another model than the original one: what is told of the difference."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import onnx_models as build
import pytest
from onnx import TensorProto
from onnx.helper import make_node as node
from onnx_device import on_device, write_model
from onnx_run import OnnxRun, float16_values
from scene_networks import only_suspect

from goldwatch.operators import Value
from goldwatch.recomputing.fewer_bits import in_eight_bits
from goldwatch.recomputing.variant_trials import Output
from goldwatch.recomputing.written import Written
from goldwatch.testing.device_dump import write_files

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)


def compared(net, model, device, feeds, mode="all", views=(), kept=()):
    """Compare a device that runs one model with golden data of another; ``views`` have no task
    there, ``kept`` are computed in float32.
    """
    net.prepare(model, feeds)
    build.save(pathlib.Path(net.path("b.onnx")), device)
    made = on_device(net.path("b.onnx"), feeds, kept=kept)
    for op in made.ops:
        if op.name in views:
            op.attributes["_no_task"] = True
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), [dump.only(mode) for dump in made.dumps()])
    write_model(made, net.path("net.json"), "atc --model=m.onnx --framework=5")
    code, result, _ = net.compare("--original", "m.onnx")
    return code, result["summary"]


@pytest.mark.parametrize("border", [6.0, 6.25, 6.1])
def test_a_border_that_the_type_holds_leaves_no_order_open(net, border):
    """Of a causal mask whole numbers are compared: that two are equal is no rounding."""
    x = np.resize(np.float32([4, border, 8]), (3, 4, 8))
    border = np.resize(np.float32([border, 9]), 8)

    def graph(kind):
        nodes = [
            node("Relu", ["x"], ["t"], name="first"),
            node(kind, ["t", "b"], ["m"], name="op"),
            node("Cast", ["m"], ["y"], name="last", to=FLOAT),
        ]
        ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
        return build.model(nodes, *ends, [build.weight("b", border)])

    _, summary = compared(net, graph("LessOrEqual"), graph("Less"), {"x": x})
    if border[0] in (6.0, 6.25):
        suspect = only_suspect(summary)
        assert suspect["op"] == "op"
        assert "computed Less for LessOrEqual" in suspect["explanations"][0]["sentence"]
    else:
        assert not summary["suspects"]


def test_what_has_one_value_throughout_has_no_certain_reason(net):
    x = np.resize(np.float32([0, 1, 2, 3]), (5, 8))

    def graph(number):
        nodes = [
            node("Relu", ["x"], ["t"], name="first"),
            node("Equal", ["t", "b"], ["m"], name="op"),
            node("Cast", ["m"], ["y"], name="last", to=FLOAT),
        ]
        ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
        return build.model(nodes, *ends, [build.weight("b", np.float32(number))])

    _, summary = compared(net, graph(0), graph(-1), {"x": x}, "output")
    suspect = only_suspect(summary)
    told = [entry["sentence"] for entry in suspect["explanations"]]
    assert suspect["op"] == "op" and "every element of the target is 0" in told[0]
    assert "a constant of the operator" in told[0]
    assert not any("the device computed" in one for one in told)


def test_only_the_first_that_reads_another_tensor_is_accused(net):
    """What reads a Cast reads what that wrote."""
    x = np.resize(np.float32([0, 1, 2]), (5, 8))

    def graph(of_cast):
        nodes = [
            node("Equal", ["x", "b"], ["e"], name="equal"),
            node("Not", ["e"], ["n"], name="not"),
            node("Cast", [of_cast], ["c"], name="cast", to=FLOAT),
            node("Unsqueeze", ["c", "axis"], ["u"], name="view"),
            node("Mul", ["u", "z"], ["y"], name="op"),
        ]
        if of_cast == "e":
            del nodes[1]
        inputs = [build.value("x", x.shape), build.value("z", (5, 8, 4))]
        held = [build.weight("b", np.float32(1)), build.weight("axis", np.array([2]))]
        return build.model(nodes, inputs, [build.value("y", (5, 8, 4))], held)

    feeds = {"x": x, "z": float16_values((5, 8, 4))}
    _, summary = compared(net, graph("n"), graph("e"), feeds, views=("view",))
    suspect = only_suspect(summary)
    assert suspect["op"] == "cast"
    assert "output 0 of equal (Equal) as its input 0" in suspect["explanations"][0]["sentence"]


def test_an_output_is_not_told_to_hold_another_one_of_its_operator_that_is_the_same(net):
    """With one step the output of an RNN is its last state."""
    x = float16_values((1, 4, 8))

    def graph(seed):
        random = np.random.RandomState(seed)
        held = [
            build.weight(name, random.normal(0, 0.4, shape).astype(np.float16).astype(np.float32))
            for name, shape in (("w", (1, 24, 8)), ("r", (1, 24, 8)), ("h", (1, 4, 8)))
        ]
        nodes = [
            node("Neg", ["x"], ["t"], name="first"),
            node("GRU", ["t", "w", "r", "", "", "h"], ["y", "s"], name="op", hidden_size=8),
        ]
        ends = [build.value("y", (1, 1, 4, 8)), build.value("s", (1, 4, 8))]
        return build.model(nodes, [build.value("x", x.shape)], ends, held)

    _, summary = compared(net, graph(1), graph(2), {"x": x}, "output")
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op"
    told = [entry["sentence"] for entry in suspect["explanations"]]
    assert not any("its output holds what" in one for one in told)


def test_a_part_that_is_its_input_may_have_a_factor_of_one(net):
    x = float16_values((1, 10, 4))

    def graph(factors):
        nodes = [
            node("Neg", ["x"], ["t"], name="first"),
            node("Mul", ["t", "b"], ["y"], name="op"),
        ]
        ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
        return build.model(nodes, *ends, [build.weight("b", np.float32(factors))])

    models = graph([10, 10, 10, 10]), graph([10, 10, 1, 1])
    _, summary = compared(net, *models, {"x": x}, "output")
    (told,) = only_suspect(summary)["explanations"]
    assert "2 of 4 indices of axis 2 hold its input as it is throughout" in told["sentence"]
    assert (
        "that part was computed with a factor of 1 or an addend of 0, or not written"
        in (told["sentence"])
    )


@pytest.mark.parametrize("options", [(), ("--out_nodes",)])
@pytest.mark.parametrize("last", ["Abs", "Identity", "Reshape"])
def test_an_output_that_no_op_of_the_om_makes_is_told(net, last, options):
    x = float16_values((2, 8))

    def graph(with_last):
        nodes = [node("Neg", ["x"], ["t"], name="first"), node("Tanh", ["t"], ["u"], name="op")]
        if with_last:
            inputs = ["u", "shape"] if last == "Reshape" else ["u"]
            nodes.append(node(last, inputs, ["y"], name="last"))
        end = build.value("y" if with_last else "u", None)
        held = [build.weight("shape", np.array([4, 4]))] if last == "Reshape" else []
        return build.model(nodes, [build.value("x", x.shape)], [end], held)

    net.prepare(graph(True), {"x": x})
    build.save(pathlib.Path(net.path("b.onnx")), graph(False))
    made = on_device(net.path("b.onnx"), {"x": x})
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), made.dumps())
    words = "atc --model=m.onnx --framework=5"
    write_model(made, net.path("net.json"), words + (" --out_nodes=op:0" if options else ""))
    code, result, text = net.compare("--original", "m.onnx")
    told = "the original model's output y is made by Abs last, and no op of the om is"
    assert code == 0 and (told in text) == (last == "Abs" and not options)
    known = result["summary"]["recomputed"].get("outputs_of_no_op", [])
    assert bool(known) == (last == "Abs" and not options)


def test_steps_of_8_bits_that_are_the_models_own_are_no_finding():
    """A Dequantize is computed of whole numbers: values that are cut off stay on their steps."""
    numbers = np.random.RandomState(0).randint(-120, 120, 4096).astype(np.float32)
    made, cut = np.float32(0.125) * numbers, np.float32(0.125) * np.clip(numbers, -20, 20)
    written = Written(Output((0, 0), cut, Value(made), "float32"), lambda: (), lambda error: 2.0)
    assert next(in_eight_bits(written), None) is None
