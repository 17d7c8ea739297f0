"""What is said of whose error it is: inherited, or its own, only where that was computed."""

from __future__ import annotations

import glob
import os

import numpy as np
import onnx_models as build
import pytest
from onnx import TensorProto
from onnx.helper import make_node as node
from onnx_run import OnnxRun, float16_values
from scene_networks import only_suspect

NOT_KNOWN = "whose error it is is not known, as the operator was not computed again (%s"
RUN_AGAIN = (
    NOT_KNOWN % "that was not asked for, is done when the run ends, or takes the original model)"
)
NO_MODEL = NOT_KNOWN % "what it computes is not known without the original model)"


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)


def noisy(array, share):
    noise = np.random.RandomState(9).standard_normal(array.shape)
    return (array + share * array.std() * noise).astype(np.float32)


def prepared(net, read=0.0, own=0.0, mode="all"):
    """Convolutions of which the second reads what is off by ``read`` and adds ``own``."""
    weights = [
        build.weight("w1", float16_values((8, 3, 3, 3), 1) / 5),
        build.weight("w2", float16_values((8, 8, 3, 3), 2) / 8),
    ]
    nodes = [
        node("Conv", ["x", "w1"], ["c1"], name="conv1", pads=[1] * 4),
        node("Relu", ["c1"], ["r1"], name="relu1"),
        node("Conv", ["r1", "w2"], ["c2"], name="conv2", pads=[1] * 4),
        node("Sigmoid", ["c2"], ["y"], name="sigmoid"),
    ]
    shape = (2, 3, 8, 8)
    proto = build.model(nodes, [build.value("x", shape)], [build.value("y", (2, 8, 8, 8))], weights)
    faults = {"relu1": lambda array: noisy(array, read), "conv2": lambda array: noisy(array, own)}
    net.prepare(proto, {"x": float16_values(shape)}, fault=faults, mode=mode)


def without_dump(net, op):
    (path,) = glob.glob(net.path("dump", "**", "*.%s.*" % op), recursive=True)
    os.remove(path)


@pytest.mark.parametrize(
    "own, options, known, says",
    [
        (0.0, [], True, "the operator is right, so its error is inherited; it comes from relu1"),
        (0.3, [], True, "it comes out otherwise, so the error is its own."),
        (0.0, ["--recompute", "none"], True, RUN_AGAIN),
        (0.3, ["--recompute", "none"], True, RUN_AGAIN),
        (0.0, [], False, NO_MODEL),
        (0.3, [], False, NO_MODEL),
    ],
)
def test_behind_a_wrong_input_an_error_is_inherited_only_where_that_was_computed(
    net, own, options, known, says
):
    prepared(net, 0.08, own)
    without_dump(net, "relu1")
    if not known:
        os.remove(net.path("m.onnx"))
    code, result, text = net.compare(*options)
    assert code == 1 and result["summary"]["first_divergence"]["op"] == "conv2"
    assert "conv2:input:0 was already outside its limits" in text or own
    assert says in text
    assert ("inherited" in text) == ("inherited" in says)
    assert ("Whose error it is: --original MODEL.onnx" in text) == (not known)


def test_behind_a_wrong_input_nothing_is_inherited_where_golden_data_do_not_follow(net):
    prepared(net, 0.08)
    without_dump(net, "relu1")
    (path,) = glob.glob(net.path("golden", "conv2.*.npy"))
    np.save(path, noisy(np.load(path), 0.5))
    _, result, text = net.compare()
    assert result["summary"]["first_divergence"]["op"] == "conv2" and "inherited" not in text
    assert "its golden tensor does not follow from golden inputs" in text


@pytest.mark.parametrize("equal", [True, False])
def test_what_a_right_operator_rounds_itself_is_not_inherited(net, equal):
    """Sums in float16 that cancel: the inputs are golden data, or these but for their rounding."""
    weights = float16_values((64, 8), 2)
    weights = (weights - weights.mean(0)).astype(np.float16).astype(np.float32)
    x = 20 + float16_values((16, 64), 3) / 7
    held = x.astype(np.float16).astype(np.float32)
    nodes = [
        node("Abs", ["x"], ["a"], name="first"),
        node("MatMul", ["a", "w"], ["m"], name="op"),
        node("Abs", ["m"], ["y"], name="last"),
    ]
    proto = build.model(
        nodes,
        [build.value("x", x.shape)],
        [build.value("y", (16, 8))],
        [build.weight("w", weights)],
    )

    def summed(array):
        total = np.zeros(array.shape, np.float16)
        for at in range(64):
            total = (total + held[:, at : at + 1] * weights[at]).astype(np.float16)
        return total.astype(np.float32)

    net.prepare(proto, {"x": held if equal else x}, fault=("op", summed))
    code, result, text = net.compare()
    says = "the difference is rounding of its own" if equal else "that makes most of the difference"
    assert code == 1 and not result["summary"]["suspects"], text
    assert "inherited" not in text and says in text


def bfloat16_values(array):
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize("own", [0.0, 0.3])
def test_golden_data_rounded_to_bfloat16_follow_from_golden_data(net, own):
    # A model in bfloat16; its device has it in float32, or, where it is healthy, rounds to it.
    nodes = [
        node("Softmax", ["x"], ["s"], name="soft"),
        node("ReduceMean", ["s"], ["y"], name="mean", axes=[1]),
    ]
    inputs = {"x": float16_values((8, 64))}

    def fault(array):
        if own:
            return noisy(array, own)
        return bfloat16_values(array)

    proto = build.model(nodes, [build.value("x", (8, 64))], [build.value("y", (8, 1))])
    net.prepare(proto, inputs, fault={"soft": fault})
    for path in glob.glob(net.path("golden", "*.npy")):
        np.save(path, bfloat16_values(np.load(path)))
    code, result, text = net.compare()
    recomputed = result["summary"]["recomputed"]
    assert (
        code == (own > 0) and recomputed["wrong"] == code and not recomputed["not_computed"]
    ), text
    if own:
        assert result["summary"]["first_divergence"]["op"] == "soft"
        assert "so the error is its own" in text


@pytest.mark.parametrize("options, says", [([], "its own."), (["--recompute", "none"], RUN_AGAIN)])
def test_an_error_behind_an_input_that_was_not_compared_is_told_by_computing(net, options, says):
    prepared(net, own=0.3, mode="output")
    (path,) = glob.glob(net.path("golden", "relu1.*"))
    os.remove(path)
    code, result, text = net.compare(*options)
    (suspect,) = result["summary"]["suspects"]
    assert code == 1 and suspect["op"] == "conv2" and says in text and "inherited" not in text
    assert suspect["confidence"] == ("low" if options else "high")


@pytest.mark.parametrize("healthy", [True, False])
def test_what_a_floor_rounded_otherwise_near_a_whole_number_is_no_failure(net, healthy):
    """3 x 0.99999 is 3 in float16 and rounds down to 2 in golden data."""
    weights = build.weight("w", float16_values((32, 4), 3) / 4)
    nodes = [
        node("Mul", ["x", "factor"], ["m"], name="mul"),
        node("Floor", ["m"], ["f"], name="floor"),
        node("MatMul", ["f", "w"], ["p"], name="product"),
        node("Relu", ["p"], ["y"], name="relu"),
    ]
    x = np.where(np.arange(64) % 32, 1.5, 3.0).reshape(2, 32).astype(np.float32)
    held = [weights, build.weight("factor", np.float32(1 - 1e-5))]
    proto = build.model(nodes, [build.value("x", (2, 32))], [build.value("y", (2, 4))], held)
    fault = None if healthy else ("floor", lambda array: array + (np.arange(32) == 5))
    net.prepare(proto, {"x": x}, fault=fault)
    code, result, text = net.compare()
    suspects = [entry["op"] for entry in result["summary"]["suspects"]]
    assert (code, suspects) == ((0, []) if healthy else (1, ["floor"])), text
    assert ("have other decisions than golden data, near a tie" in text) == healthy, text


@pytest.mark.parametrize("factor", [1.0, 1.02])
def test_a_factor_of_each_channel_is_learnt_beside_zeros(net, factor):
    """Half of what a Relu hands on is 0; that the factors are known to a step of float16 only
    excuses no element of the others.
    """
    scales = np.array([1.93, 1.54, 1.75, 1.94], np.float32).reshape(1, 4, 1, 1)
    nodes = [
        node("Relu", ["x"], ["r"], name="relu"),
        node("Mul", ["r", "s"], ["m"], name="mul"),
        node("Abs", ["m"], ["y"], name="last"),
    ]
    x = float16_values((2, 4, 8, 8)) * np.array([4, 0.3, 1, 8], np.float32).reshape(1, 4, 1, 1)
    outputs = [build.value("y", x.shape)]
    proto = build.model(nodes, [build.value("x", x.shape)], outputs, [build.weight("s", scales)])
    net.prepare(proto, {"x": x}, fault=("mul", lambda array: array * np.float32(factor)))
    os.remove(net.path("m.onnx"))
    summary = net.compare("--recompute", "all")[1]["summary"]
    assert [entry["op"] for entry in summary["suspects"]] == ["mul"] * (factor != 1)


def test_the_first_operator_that_was_compared_need_not_be_the_first_that_ran(net):
    prepared(net, read=0.3, mode="output")
    for op in ("conv1", "relu1"):
        without_dump(net, op)
    code, _, text = net.compare("--recompute", "none")
    assert code == 1 and "conv2 (Conv) is the first operator outside its limits" in text
    assert (
        "what runs before it may be wrong, or the device may have been fed with other data" in text
    )
    assert "no operator need be wrong" not in text and "the very first" not in text


@pytest.mark.parametrize("wrong", ["sigmoid", "clip"])
def test_bounds_that_golden_data_do_not_show_accuse_no_clip(net, wrong):
    nodes = [
        node("Sigmoid", ["x"], ["s"], name="sigmoid"),
        node("Clip", ["s", "low", "high"], ["c"], name="clip"),
        node("Abs", ["c"], ["y"], name="last"),
    ]
    x = float16_values((2, 4, 8, 8))
    bounds = [build.weight("low", np.float32(0.4)), build.weight("high", np.float32(9))]
    outputs = [build.value("y", x.shape)]
    proto = build.model(nodes, [build.value("x", x.shape)], outputs, bounds)
    net.prepare(proto, {"x": x}, fault=(wrong, lambda array: array * np.float32(1.3)))
    os.remove(net.path("m.onnx"))
    summary = net.compare("--recompute", "all")[1]["summary"]
    assert [entry["op"] for entry in summary["suspects"]] == [wrong]


@pytest.mark.parametrize("clipped", [False, True])
def test_whole_numbers_of_which_32_bits_are_kept_are_told(net, clipped):
    nodes = [
        node("Cast", ["x"], ["i"], name="cast", to=TensorProto.INT64),
        node("Add", ["i", "far"], ["s"], name="add"),
        node("Mod", ["s", "m"], ["r"], name="mod"),
        node("Cast", ["r"], ["y"], name="back", to=TensorProto.FLOAT),
    ]
    held = [build.weight("far", np.int64(2**33)), build.weight("m", np.int64(97))]
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    proto = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], held)

    def fault(array):
        limits = np.iinfo(np.int32)
        kept = np.clip(array, limits.min, limits.max) if clipped else array.astype(np.int32)
        return kept.astype(np.int64)

    net.prepare(proto, {"x": x}, fault=("add", fault))
    suspects = net.compare()[1]["summary"]["suspects"]
    told = suspects[0]["explanations"][0]
    assert ([entry["op"] for entry in suspects], told["kind"]) == (["add"], "overflow"), told
    kept = "the nearest of 32 bits" if clipped else "the low 32 bits"
    assert kept + " of what is computed, 32 of 32 values of which are beyond" in told["sentence"]


@pytest.mark.parametrize("golden", ["missing", "unreadable"])
@pytest.mark.parametrize("factor", [1.07, 1.0])
def test_a_wrong_operator_that_nothing_is_compared_with_is_named(net, golden, factor):
    x = float16_values((32, 16))
    held = [
        build.weight("w", float16_values((16, 16), 1)),
        build.weight("v", float16_values((16, 16), 2)),
    ]
    nodes = [
        node("MatMul", ["x", "w"], ["s"], name="first"),
        node("Sigmoid", ["s"], ["t"], name="op"),
        node("MatMul", ["t", "v"], ["y"], name="behind"),
    ]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], held)
    net.prepare(model, {"x": x}, fault=("op", lambda array: array * np.float16(factor)))
    (file,) = glob.glob(net.path("golden", "op.0.*"))
    if golden == "missing":
        os.remove(file)
    else:
        with open(file, "wb") as stream:
            stream.write(b"cut")
    code, result, text = net.compare()
    if factor == 1.0:
        assert code == 3 and not result["summary"]["suspects"]
        assert result["summary"]["recomputed"]["right"] == 3
        return
    suspect = only_suspect(result["summary"])
    assert suspect["op"] == "op" and "times 1.07" in suspect["explanations"][0]["sentence"]
    assert "own inputs it is right, and op before it is wrong, which nothing is compared" in text
    assert "next: goldwatch replay" in text and " --op op " in text


def test_the_operator_whose_values_are_below_the_types_least_step_is_named(net):
    """The mean of squares of 1e-4 is 0 in float16: all is lost in the square, nothing grew."""
    x = (np.sign(float16_values((8, 16))) * np.float32(1e-4)).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Mul", ["t", "t"], ["s"], name="square"),
        node("ReduceMean", ["s"], ["m"], name="mean", axes=[1]),
        node("Sqrt", ["m"], ["r"], name="root"),
        node("Add", ["r", "t"], ["y"], name="last"),
    ]
    proto = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)])
    net.prepare(proto, {"x": x})
    code, result, text = net.compare()
    assert code == 1 and not result["summary"]["suspects"]
    said = " ".join(text.split())
    assert "root (Sqrt) is the first operator outside its limits" in said
    assert "square underflows: its values (root mean square 1e-08) are below the least step" in said
    assert "as far off" not in said and "grew" not in said
