"""What a device computed instead is named: an attribute, or what was not written."""

from __future__ import annotations

import dataclasses
import glob
import os
import pathlib
import shutil

import numpy as np
import onnx_models as build
import pytest
from onnx import numpy_helper
from onnx.helper import make_node as node
from onnx.reference import ReferenceEvaluator
from onnx_device import on_device, write_model
from onnx_run import OnnxRun, float16_values
from scene_networks import only_suspect

from goldwatch.judging.by_recomputation import excess
from goldwatch.judging.diagnosis.recomputation_explanations import by_variants
from goldwatch.operators import Node
from goldwatch.operators.elementwise import erf
from goldwatch.operators.value_with_error import Value
from goldwatch.recomputing.fewer_bits import from_table
from goldwatch.recomputing.run_variants import PARTS, written_instead
from goldwatch.recomputing.variant_search import Explained, VariantSearch, agreement
from goldwatch.recomputing.variant_trials import Output, agreeing
from goldwatch.recomputing.written import Written
from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor

SHAPE = (2, 4, 8, 8)


def dump_with_constants(net, device, constants):
    """Write json and dumps anew: the op called op reads these behind its first input."""
    changed = DeviceModel(device.name)
    for one in device.ops:
        if one.name == "op":
            for name, values in constants.items():
                changed.add(DeviceOp(name, "Const", outputs=(DeviceTensor(values),)))
            inputs = (*one.inputs[:1], *((name, 0) for name in constants))
            one = dataclasses.replace(one, inputs=inputs)
        changed.add(one)
    write_model(changed, net.path("net.json"), "atc --model=m.onnx --input_fp16_nodes=x")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), changed.dumps())


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)


def padded(array, value):
    return np.pad(array, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=value)


def pooled(array, function):
    return function(
        [
            array[:, :, row : row + 8, column : column + 8]
            for row in range(3)
            for column in range(3)
        ],
        0,
    )


def tail(array, instead=0):
    made = array.copy().reshape(-1)
    made[300:] = np.broadcast_to(instead, made.shape)[300:]
    return made.reshape(array.shape)


def of_blocks(array, count):
    """Return it normalised over the last axis by the statistics of so many elements."""
    own = array.shape[-1]
    rows = np.pad(array, ((0, 0), (0, 0), (0, 0), (0, count - own)))
    made = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    return made[..., :own]


EXCHANGES = {
    "count_include_pad": (
        node("AveragePool", ["t"], ["u"], name="op", kernel_shape=[3, 3], pads=[1] * 4),
        lambda t: pooled(padded(t, 0), np.mean),
        "AveragePool with count_include_pad 1; the model says 0",
    ),
    "alpha": (
        node("LeakyRelu", ["t"], ["u"], name="op", alpha=0.1),
        lambda t: np.where(t < 0, np.float32(0.01) * t, t),
        "LeakyRelu with alpha 0.01; the model says 0.1",
    ),
    "any alpha": (
        node("LeakyRelu", ["t"], ["u"], name="op", alpha=0.1),
        lambda t: np.where(t < 0, np.float32(0.37) * t, t),
        "LeakyRelu with alpha 0.37; the model says 0.1",
    ),
    "factor": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.float32(1.5) * np.tanh(t),
        "its output is what is computed times 1.5",
    ),
    "shift": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.roll(np.tanh(t), (1, 1), (2, 3)),
        "the computed values shifted by +1 along axis H and +1 along axis W",
    ),
    "transposed": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.tanh(t).swapaxes(2, 3),
        "its output is what is computed, transposed: axes [0, 1, 3, 2]",
    ),
    "reversed": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.tanh(t[:, ::-1]),
        "its output is what is computed, reversed along axis 1",
    ),
    "channels": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.tanh(t)[:, [2, 0, 3, 1]],
        "with the indices of axis 1 in the order [2, 0, 3, 1]",
    ),
    "function": (
        node("Sigmoid", ["t"], ["u"], name="op"),
        lambda t: np.clip(t * np.float32(0.2) + np.float32(0.5), 0, 1),
        "the device computed HardSigmoid (alpha 0.2, beta 0.5) for Sigmoid",
    ),
    "axis": (
        node("Softmax", ["t"], ["u"], name="op", axis=1),
        lambda t: np.exp(t) / np.exp(t).sum(3, keepdims=True),
        "Softmax with axis 3; the model says 1",
    ),
    "two bounds": (
        node("Clip", ["t", "low", "high"], ["u"], name="op"),
        lambda t: np.clip(t, np.float32(-1.2), np.float32(0.5)),
        "Clip with min -1.2 and max 0.5; the model says min -0.5 and max 1.2",
    ),
    "two numbers": (
        node("HardSigmoid", ["t"], ["u"], name="op", alpha=0.2, beta=0.5),
        lambda t: np.clip(np.float32(0.31) * t + np.float32(0.42), 0, 1),
        "HardSigmoid with alpha 0.31 and beta 0.42; the model says alpha 0.2 and beta 0.5",
    ),
    "diagonal": (
        node("Trilu", ["t"], ["u"], name="op"),
        lambda t: np.triu(t, 3),
        "Trilu with k 3; the model says 0",
    ),
    "tail": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: tail(np.tanh(t)),
        "all elements up to 299 are right, all from 300 on hold 0",
    ),
    "old memory": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: tail(np.tanh(t), np.random.RandomState(1).standard_normal(t.size)),
        "all from 300 on hold other values (of 512, in the order of the original layout): that "
        "part was computed of something else, or not written",
    ),
    "borders": (
        node("AveragePool", ["t"], ["u"], name="op", kernel_shape=[1, 1]),
        lambda t: np.pad(t[:, :, :-1, :-2], ((0, 0), (0, 0), (0, 1), (0, 2))),
        "index 7 of axis 2 (of 8) and 2 of 8 indices of axis 3 (the first is 6) "
        "are 0 throughout, and all others are right: that border was not computed",
    ),
    "factor of a move": (
        node("Transpose", ["t"], ["u"], name="op", perm=[0, 1, 3, 2]),
        lambda t: t.swapaxes(2, 3) * np.float32(0.98),
        "its output is what is computed times 0.98",
    ),
    "its input": (
        node("Exp", ["t"], ["u"], name="op"),
        lambda t: np.where(np.arange(t.shape[3]) < t.shape[3] // 2, np.exp(t), t),
        "4 of 8 indices of axis 3 hold what first (output 0) computed throughout, the first is 4",
    ),
    "sample": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.tanh(np.broadcast_to(t[:1], t.shape)),
        "all 2 samples hold what is computed of the first one",
    ),
    "memory": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.roll(np.tanh(t).reshape(-1), 19).reshape(t.shape),
        "+19 elements further on in memory (the last ones at its begin): 493 of 512",
    ),
    "eight bits": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.rint(np.tanh(t) * 100) / np.float32(100),
        "apart, and each element is the nearest to what is computed: 8 bits",
    ),
    "table": (
        node("Sigmoid", ["t"], ["u"], name="op"),
        lambda t: 1 / (1 + np.exp(-np.rint(t * 8) / np.float32(8))),
        "its output is read from a table: as its input rises it takes 42 values, each on a step "
        "of the input about 0.13 wide and one that is computed there; what is computed takes 469",
    ),
    "statistics": (
        node("MeanVarianceNormalization", ["t"], ["u"], name="op", axes=[0, 2, 3]),
        lambda t: (t - t.mean((1, 2, 3), keepdims=True)) / t.std((1, 2, 3), keepdims=True),
        "its statistics axes [1, 2, 3]; the model says axes [0, 2, 3]",
    ),
    "statistics of whole blocks": (
        node("LayerNormalization", ["t", "gamma"], ["u"], name="op", axis=3, epsilon=1e-5),
        lambda t: of_blocks(np.abs(t), 16),
        "its statistics those of 16 elements, zeros behind its 8; the model says those of its 8",
    ),
    "a variance of 0": (
        node("LayerNormalization", ["t", "gamma"], ["u"], name="op", axis=3, epsilon=1e-2),
        lambda t: (t - t.mean(-1, keepdims=True)) * np.float32(10),
        "its statistics a variance of 0 (epsilon alone); the model says the variance",
    ),
    "not broadcast": (
        node("Add", ["t", "row"], ["u"], name="op"),
        lambda t: t + np.where(np.arange(8)[:, None] == 0, np.linspace(-4, 3, 8), 0),
        "Add with its input 1 beside index 0 of axis 2 alone, 0 beside the others",
    ),
    "epsilon of a norm": (
        node("LpNormalization", ["t"], ["u"], name="op", axis=3, p=2),
        lambda t: t / np.sqrt(np.square(t).sum(-1, keepdims=True) + np.float32(8e-3)),
        "its norm an epsilon of 0.001 added to their mean; the model says none",
    ),
    "factor of the input": (
        node("Softmax", ["t"], ["u"], name="op", axis=3),
        lambda t: np.exp(0.3 * t) / np.exp(0.3 * t).sum(3, keepdims=True),
        "Softmax with its input 0 times 0.3; the model takes its input 0 unchanged",
    ),
    "factor of either": (
        node("Elu", ["t"], ["u"], name="op"),
        lambda t: np.float32(1.04) * np.abs(t),
        "its output is what is computed times 1.04",
    ),
    "factor of the input alone": (
        node("Elu", ["t"], ["u"], name="op"),
        lambda t: np.where(t > 0, np.float32(1.04) * t, np.expm1(np.float32(1.04) * t)),
        "Elu with its input 0 times 1.04; the model takes its input 0 unchanged",
    ),
    "threshold": (
        node("ThresholdedRelu", ["t"], ["u"], name="op", alpha=1.0),
        lambda t: np.where(t > 0.85, t, 0),
        "ThresholdedRelu with alpha 0.8",
    ),
    "divisor": (
        node("Mod", ["t", "d"], ["u"], name="op", fmod=1),
        lambda t: np.fmod(t, np.float32(0.03125)),
        "Mod with its divisor 0.03125; the model says 2",
    ),
    "small divisor": (
        node("Mod", ["t", "d"], ["u"], name="op", fmod=1),
        lambda t: np.fmod(t, np.float32(0.007)),
        "Mod with its divisor 0.007; the model says 2",
    ),
    "power": (
        node("LpPool", ["t"], ["u"], name="op", kernel_shape=[3, 3], pads=[1] * 4, p=2),
        lambda t: pooled(padded(np.abs(t) ** 9, 0), np.sum) ** np.float32(1 / 9),
        "LpPool with p 9; the model says 2",
    ),
    "onnxruntime's own": (
        node("QuickGelu", ["t"], ["u"], name="op", domain="com.microsoft"),
        lambda t: np.maximum(t, 0),
        "the device computed Relu or Relu6 for com.microsoft.QuickGelu",
    ),
    "median": (
        node("GlobalAveragePool", ["t"], ["u"], name="op"),
        lambda t: np.median(t, (2, 3), keepdims=True),
        "the device computed the median for GlobalAveragePool",
    ),
    "function behind": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.square(np.tanh(t)),
        "the device computed Square behind it",
    ),
    "constant": (
        node("HardSigmoid", ["t"], ["u"], name="op", alpha=0.3, beta=0.25),
        lambda t: np.full_like(t, 0.25),
        "the device may have computed HardSigmoid with alpha 0; the model says 0.3",
    ),
    "offset beyond a bound": (
        node("HardSigmoid", ["t"], ["u"], name="op"),
        np.ones_like,
        "the device may have computed HardSigmoid with beta 1.6 or more; the model says 0.5 (",
    ),
    "other sign": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: -np.tanh(t),
        "its output is what is computed times -1 (512 of 512 elements agree",
    ),
    "no threshold": (
        node("ThresholdedRelu", ["t"], ["u"], name="op", alpha=1.0),
        lambda t: np.maximum(t, 0),
        "ThresholdedRelu with alpha 0; the model says 1 (512 of 512 elements agree, with the "
        "model's 65 %); the same is Relu or Relu6 for ThresholdedRelu",
    ),
    "unknown": (
        node("Tanh", ["t"], ["u"], name="op"),
        lambda t: np.random.RandomState(1).permutation(np.tanh(t).reshape(-1)).reshape(t.shape),
        "no known variant explains it (tried: 4 that it may have read otherwise, ",
    ),
}


@pytest.mark.parametrize("mode", ["all", "output"])
@pytest.mark.parametrize("kind", sorted(EXCHANGES))
def test_what_the_device_computed_instead_is_named(net, kind, mode):
    made, wrong, said = EXCHANGES[kind]
    size = 0.02 if kind == "epsilon of a norm" else 1.0
    feeds = {"x": (np.random.RandomState(0).standard_normal(SHAPE) * size).astype(np.float16)}
    feeds = {"x": feeds["x"].astype(np.float32)}
    # Of what is not negative a factor behind it says the same.
    before = "Abs" if kind in ("factor of either", "statistics of whole blocks") else "Neg"
    nodes = [node(before, ["x"], ["t"], name="first"), made, node("Abs", ["u"], ["y"], name="last")]
    shape = (2, 4, 1, 1) if kind == "median" else SHAPE
    ends = [build.value("x", SHAPE)], [build.value("y", shape)]
    held = (
        {"d": 2.0} if "divisor" in kind else {"low": -0.5, "high": 1.2} if "bounds" in kind else {}
    )
    held = [build.weight(name, np.array(number, np.float32)) for name, number in held.items()]
    if "gamma" in made.input:
        held.append(build.weight("gamma", np.ones(SHAPE[-1:], np.float32)))
    if "row" in made.input:
        held.append(build.weight("row", np.linspace(-4, 3, 8).astype(np.float32)))
    net.prepare(build.model(nodes, *ends, held, domains=("com.microsoft",)), feeds)
    right = -feeds["x"].astype(np.float16).astype(np.float32)
    net.dump(feeds, (), ("op", lambda array: wrong(right)), mode)
    suspect = only_suspect(net.compare()[1]["summary"])
    explanation = suspect["explanations"][0]
    assert suspect["op"] == "op" and said in explanation["sentence"]
    assert "foreign memory" not in explanation["next"]


def correlated(x, weights, steps, strides):
    """A convolution without pads."""
    windows = zip(x.shape[2:], weights.shape[2:], steps, strides)
    shape = [(size - step * (taps - 1) - 1) // stride + 1 for size, taps, step, stride in windows]
    made = np.zeros((len(x), len(weights), *shape))
    for row, column in np.ndindex(weights.shape[2:]):
        begin = row * steps[0], column * steps[1]
        part = x[:, :, begin[0] :: strides[0], begin[1] :: strides[1]]
        part = part[:, :, : shape[0], : shape[1]]
        made += np.einsum("nchw,oc->nohw", part, weights[:, :, row, column])
    return made


def spread(x, weights, stride, extra):
    """A transposed convolution with ``extra`` rows and columns of nothing before."""
    sizes = [(size - 1) * stride + taps for size, taps in zip(x.shape[2:], weights.shape[2:])]
    made = np.zeros((len(x), weights.shape[1], *(size + extra for size in sizes)))
    for row, column in np.ndindex(weights.shape[2:]):
        part = np.einsum("nchw,co->nohw", x, weights[:, :, row, column])
        made[:, :, extra + row :: stride, extra + column :: stride][
            :, :, : x.shape[2], : x.shape[3]
        ] += part
    return made


@pytest.mark.parametrize("kind", ["dilations", "output_padding", "filter", "signs"])
def test_what_is_read_otherwise_of_weights_is_named(net, kind):
    random = np.random.RandomState(0)
    x = random.standard_normal((2, 3, 9, 12)).astype(np.float16).astype(np.float32)
    weights = random.standard_normal((3, 3, 2, 2)).astype(np.float16).astype(np.float32)
    rows = random.standard_normal((1024, 12)).astype(np.float16).astype(np.float32)
    other = weights.copy()
    other[:, 1] = random.standard_normal((3, 2, 2)).astype(np.float16)
    made, wrong, said = {
        "dilations": (
            node("Conv", ["t", "w"], ["u"], name="op", strides=[1, 2], dilations=[1, 2]),
            correlated(-x, weights, (1, 3), (1, 2)),
            "Conv with dilations [1, 3]; the model says [1, 2] (",
        ),
        "output_padding": (
            node("ConvTranspose", ["t", "w"], ["u"], name="op", strides=[2, 2],
                 output_padding=[1, 1]),
            spread(-x, weights, 2, 1),
            "ConvTranspose with output_padding [1, 1] at the begin; the model says [1, 1] (",
        ),
        "filter": (
            node("ConvTranspose", ["t", "w"], ["u"], name="op", strides=[2, 2]),
            spread(-x, other, 2, 0),
            "ConvTranspose with the weights other than the model's in 12 of 36 values (the first",
        ),
        "signs": (
            node("Gemm", ["a", "w", "b"], ["u"], name="op"),
            rows @ weights.reshape(12, 3) + [1, -2, 3],
            "; the same is Gemm with its input 0 of the other sign, or Gemm with the weights of "
            "the other sign",
        ),
    }[kind]  # fmt: skip
    nodes = [node("Neg", ["x"], ["t"], name="first"), made, node("Abs", ["u"], ["y"], name="last")]
    if kind == "signs":
        x, weights = rows, weights.reshape(12, 3)
        nodes[0] = node("Neg", ["x"], ["a"], name="first")
    ends = [build.value("x", x.shape)], [build.value("y", wrong.shape)]
    held = [build.weight("w", weights), build.weight("b", np.array([1, -2, 3], np.float32))]
    proto = build.model(nodes, *ends, held[: len(made.input) - 1])
    net.prepare(proto, {"x": x}, fault=("op", lambda array: wrong.astype(array.dtype)))
    (entry,) = only_suspect(net.compare("--recompute", "all")[1]["summary"])["explanations"]
    assert said in entry["sentence"]


def test_a_siblings_constant_is_named(net):
    random = np.random.RandomState(0)
    weights = {name: random.standard_normal(4).astype(np.float32) for name in "ab"}
    nodes = [
        node("Mul", ["x", "a"], ["t"], name="sibling"),
        node("Mul", ["t", "b"], ["y"], name="op"),
    ]
    feeds = {"x": random.standard_normal((8, 4)).astype(np.float32)}
    held = [build.weight(name, array) for name, array in weights.items()]
    model = build.model(nodes, [build.value("x", (8, 4))], [build.value("y", (8, 4))], held)
    net.prepare(model, feeds)
    narrow = weights["a"].astype(np.float16).astype(np.float32)
    wrong = feeds["x"].astype(np.float16).astype(np.float32) * narrow
    net.dump(feeds, (), ("op", lambda array: wrong.astype(np.float16) * narrow))
    explanation = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    assert "Mul with its input 1 of its sibling sibling" in explanation["sentence"]


def test_all_constants_of_a_sibling_are_named_together(net):
    random = np.random.RandomState(0)
    held = {
        name: random.standard_normal(shape).astype(np.float16).astype(np.float32)
        for name, shape in (("w0", (8, 8)), ("b0", 8), ("w1", (8, 8)), ("b1", 8))
    }
    x = random.standard_normal((32, 8)).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Gemm", ["t", "w0", "b0"], ["s"], name="sibling"),
        node("Gemm", ["t", "w1", "b1"], ["u"], name="op"),
        node("Add", ["s", "u"], ["y"], name="last"),
    ]
    ends = [build.value("x", (32, 8))], [build.value("y", (32, 8))]
    proto = build.model(nodes, *ends, [build.weight(*one) for one in held.items()])
    wrong = -x @ held["w0"] + held["b0"]
    net.prepare(proto, {"x": x}, fault=("op", lambda array: wrong.astype(array.dtype)))
    entry = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    assert "Gemm with the weights and the bias of its sibling sibling; the" in entry["sentence"]


@pytest.mark.parametrize(("names", "instead"), [
    ("scale bias", "sibling"), ("mean variance", "sibling"), ("scale variance", "sibling"),
    ("scale bias", "missing"), ("mean variance", "missing"),
])  # fmt: skip
def test_two_constants_of_a_normalisation_that_are_wrong_at_once_are_named(net, names, instead):
    random = np.random.RandomState(0)
    draws = {
        "scale": lambda: random.normal(1, 0.3, 6), "bias": lambda: random.normal(0, 0.5, 6),
        "mean": lambda: random.normal(0, 0.5, 6), "variance": lambda: random.uniform(0.3, 2, 6),
    }  # fmt: skip
    draw = {name: (make(), make()) for name, make in draws.items()}
    held = {
        name + str(at): array.astype(np.float16).astype(np.float32)
        for name, arrays in draw.items()
        for at, array in enumerate(arrays)
    }
    nodes = [
        node("BatchNormalization", ["x", *(name + "1" for name in draws)], ["s"], name="sibling"),
        node("BatchNormalization", ["s", *(name + "0" for name in draws)], ["t"], name="op"),
        node("Neg", ["t"], ["y"], name="last"),
    ]
    shape = (2, 6, 5, 5)
    ends = [build.value("x", shape)], [build.value("y", shape)]
    proto = build.model(nodes, *ends, [build.weight(*one) for one in held.items()])
    taken = {name: held[name + str(int(name in names and instead == "sibling"))] for name in draws}
    if instead == "missing":
        neutral = {"scale": 1, "bias": 0, "mean": 0, "variance": 1}
        taken.update({name: np.full(6, neutral[name], np.float32) for name in names.split()})

    def of(x, scale, bias, mean, variance):
        scale, bias, mean, variance = (one[:, None, None] for one in (scale, bias, mean, variance))
        return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias

    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    before = of(x, *(held[name + "1"] for name in draws)).astype(np.float16).astype(np.float32)
    wrong = of(before, *taken.values())
    net.prepare(proto, {"x": x}, fault=("op", lambda array: wrong.astype(array.dtype)))
    entry = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    both = " and ".join("the " + name for name in names.split())
    words = "missing; the model has " + both
    if instead == "sibling":
        words = "of its sibling sibling; the model has its own"
    named = "BatchNormalization with %s %s (" % (both, words)
    assert named in entry["sentence"]


@pytest.mark.parametrize("ties", [1, 3, 32])
@pytest.mark.parametrize("last", [True, False])
def test_ties_that_all_go_to_the_last_index_read_an_attribute_otherwise(net, last, ties):
    random = np.random.RandomState(0)
    x = np.stack([random.permutation(8) for _ in range(32)])
    x[:ties] = random.randint(0, 2, (ties, 8))
    feeds = {"x": x.astype(np.float32)}
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("ArgMax", ["t"], ["i"], name="op", axis=1, keepdims=0),
        node("Cast", ["i"], ["y"], name="cast", to=1),
    ]
    made = build.model(nodes, [build.value("x", (32, 8))], [build.value("y", (32,))], [])
    net.prepare(made, feeds)
    first, behind = (-feeds["x"]).argmax(1), 7 - (-feeds["x"])[:, ::-1].argmax(1)
    chosen = behind if last else np.where(np.arange(32) % 2 == 1, first, behind)
    chosen = chosen if last or ties > 1 else first
    net.dump(feeds, (), ("op", lambda array: chosen.astype(array.dtype)))
    summary = net.compare("--recompute", "all")[1]["summary"]
    if last:
        sentence = only_suspect(summary)["explanations"][0]["sentence"]
        assert "ArgMax with select_last_index 1; the model says 0 (32 of 32" in sentence
    else:
        assert not summary["suspects"]


@pytest.mark.parametrize(
    "factor, said", [(1.05, "times 1.05 (256 of 256"), (1.0507, "Selu behind")]
)
def test_what_a_factor_explains_better_is_no_other_activation(net, factor, said):
    """Selu's factor is 1.0507: of values rounded to float16 times 1.05 is nearly that."""
    x = np.random.RandomState(0).standard_normal((8, 32)).astype(np.float16)
    nodes = [node("Relu", ["x"], ["t"], name="op"), node("Abs", ["t"], ["y"], name="last")]
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    fault = ("op", lambda array: (array * np.float32(factor)).astype(array.dtype))
    net.prepare(build.model(nodes, *ends, []), {"x": x.astype(np.float32)}, (), fault)
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    assert said in entry["sentence"]


@pytest.mark.parametrize("kind", ["erf", "tanh"])
def test_another_activation_is_named_for_a_fused_chain(net, kind):
    """The device has one op; the model the nodes that it was made from."""
    x = np.random.RandomState(0).uniform(1.5, 3, (4, 8, 32)).astype(np.float16)
    numbers = {"r": 2**0.5, "1": 1, "h": 0.5, "3": 3, "c": 0.044715, "s": 0.7978845608}
    held = [build.weight(name, np.array(one, np.float32)) for name, one in numbers.items()]
    first = {
        "erf": [("Div", "t", "r", "a"), ("Erf", "a", "d")],
        "tanh": [("Pow", "t", "3", "p"), ("Mul", "p", "c", "q"), ("Add", "t", "q", "a"),
                 ("Mul", "a", "s", "b"), ("Tanh", "b", "d")],
    }[kind]  # fmt: skip
    chain = [*first, ("Add", "d", "1", "e"), ("Mul", "t", "e", "f"), ("Mul", "f", "h", "u")]
    chain = [node(one[0], list(one[1:-1]), [one[-1]], name="n" + one[-1]) for one in chain]
    nodes = [node("Neg", ["x"], ["t"], name="first"), *chain,
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    names = tuple(one.name for one in chain)
    made = -x.astype(np.float64) / (1 + np.exp(1.702 * x.astype(np.float64)))
    fault = ("nu", lambda array: made.astype(array.dtype))
    net.prepare(build.model(nodes, *ends, held), {"x": x.astype(np.float32)}, (names,), fault)
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    words = {
        "erf": "for the chain Div, Erf, Add, Mul, Mul; the model says Gelu (approximate none) (",
        "tanh": "for the chain Pow, Mul, Add, Mul, Tanh, Add, Mul, Mul; "
        "the model says Gelu (approximate tanh) (",
    }[kind]
    said = "the device computed Gelu by a sigmoid (x * sigmoid(1.702 x)) " + words
    assert said in entry["sentence"]


FUSED = {
    "no activation (Identity) for the chain Sigmoid, Mul; the model says Swish (": (
        [("Sigmoid", "c", "g"), ("Mul", "c", "g", "u")], lambda c, s: c,
    ),
    "Relu for the chain Sigmoid, Mul; the model says Swish (": (
        [("Sigmoid", "c", "g"), ("Mul", "c", "g", "u")], lambda c, s: np.maximum(c, 0),
    ),
    "Sigmoid for Relu; the model says Relu (": (
        [("Relu", "c", "u")], lambda c, s: 1 / (1 + np.exp(-c)),
    ),
    "Add with its input 1 missing; ": (
        [("Add", "c", "s", "a"), ("Relu", "a", "u")], lambda c, s: np.maximum(c, 0),
    ),
    "Relu with its place before Add, on its input 0; the model says behind Add (": (
        [("Add", "c", "s", "a"), ("Relu", "a", "u")], lambda c, s: np.maximum(c, 0) + s,
    ),
    "LeakyRelu with its place before Mul; the model says behind Mul (": (
        [("Mul", "c", "n", "a"), ("LeakyRelu", "a", "u")],
        lambda c, s: np.where(c < 0, -0.01 * c, -c),
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", FUSED)
def test_what_a_fused_convolution_lacks_is_named_without_golden_data_inside(net, said):
    """Sums in float16 are off by more than one rounding, which what is computed of them shares."""
    behind, device = FUSED[said]
    random = np.random.RandomState(0)
    feeds = {"x": random.standard_normal((2, 16, 6, 6)), "z": random.standard_normal((2, 8, 6, 6))}
    feeds = {name: array.astype(np.float16).astype(np.float32) for name, array in feeds.items()}
    held = [build.weight("w", (0.2 * random.standard_normal((8, 16, 3, 3))).astype(np.float32)),
            build.weight("n", np.array(-1, np.float32))]  # fmt: skip
    fused = [node("Conv", ["t", "w"], ["c"], name="op", pads=[1] * 4)]
    fused += [node(one[0], list(one[1:-1]), [one[-1]], name="n" + one[-1]) for one in behind]
    nodes = [node("Neg", ["x"], ["t"], name="first"), node("Neg", ["z"], ["s"], name="second"),
             *fused, node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    inputs = [build.value(name, array.shape) for name, array in feeds.items()]
    model = build.model(nodes, inputs, [build.value("y", None)], held)
    made = {}

    def kept(array):
        made["c"] = array
        return array

    faults = {"op": kept, "nu": lambda array: device(made["c"], -feeds["z"]).astype(array.dtype)}
    net.prepare(model, feeds, (tuple(one.name for one in fused),), faults)
    for one in fused[:-1]:
        (file,) = pathlib.Path(net.path("golden")).glob(one.name + ".*.npy")
        file.unlink()
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    assert "the device computed " + said in entry["sentence"]


@pytest.mark.parametrize("held", ["initializer", "Constant"])
def test_a_constant_that_is_rounded_to_the_type_is_no_other_one(net, held):
    """All elements are off by 1 of 4, by the rounding of one number."""
    x = np.random.RandomState(0).uniform(5410, 5430, (8, 64)).astype(np.float16)
    number = np.array(5409, np.float32)
    nodes = [node("Neg", ["x"], ["s"], name="first"), node("Neg", ["s"], ["t"], name="second"),
             node("Sub", ["t", "c"], ["u"], name="op"),
             node("Mul", ["u", "u"], ["y"], name="last")]  # fmt: skip
    weights = [build.weight("c", number)]
    if held == "Constant":
        told = numpy_helper.from_array(number)
        nodes, weights = [node("Constant", [], ["c"], name="c", value=told), *nodes], []
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    net.prepare(build.model(nodes, *ends, weights), {"x": x.astype(np.float32)})
    summary = net.compare()[1]["summary"]
    assert not summary["suspects"] and summary["recomputed"]["wrong"] == 0


def gelu(x, form, step=np.float64):
    """Gelu by Erf or Tanh of float64; each step rounded to a type."""
    x = x.astype(step)
    if form == "erf":
        inner = erf(x.astype(np.float64) / 2**0.5)
    else:
        inner = np.tanh((2 / np.pi) ** 0.5 * (x.astype(np.float64) + 0.044715 * x**3))
    return (x * (inner.astype(step) + step(1))).astype(step) * step(0.5)


@pytest.mark.parametrize("device", ["tanh", "erf in steps of float16"])
@pytest.mark.parametrize("model", ["Gelu", "chain"])
def test_another_form_of_gelu_is_no_coarser_arithmetic(net, model, device):
    """All of them in the network are so: none is the others' excuse."""
    random = np.random.RandomState(0)
    held = [build.weight("r", np.array(2**0.5, np.float32))]
    held += [build.weight(name, np.array(one, np.float32)) for name, one in (("1", 1), ("h", 0.5))]
    nodes, feeds, faults, chains = [], {}, {}, []
    for place in "abcde":
        x, t, u = ("%s%s" % (name, place) for name in "xtu")
        feeds[x] = random.uniform(0.5, 3.5, (8, 64)).astype(np.float16).astype(np.float32)
        nodes.append(node("Neg", [x], [t], name="first" + place))
        if model == "Gelu":
            nodes.append(node("Gelu", [t], [u], name="n" + u))
        else:
            steps = [("Div", t, "r", "a"), ("Erf", "a", "d"), ("Add", "d", "1", "e"),
                     ("Mul", t, "e", "f"), ("Mul", "f", "h", u)]  # fmt: skip
            steps = [[name if name in (t, u, "r", "1", "h") or not at else name + place
                      for at, name in enumerate(one)] for one in steps]  # fmt: skip
            steps = [node(one[0], one[1:-1], [one[-1]], name="n" + one[-1]) for one in steps]
            nodes += steps
            chains.append(tuple(one.name for one in steps))
        made = gelu(-feeds[x], "tanh") if device == "tanh" else gelu(-feeds[x], "erf", np.float16)
        faults["n" + u] = lambda array, made=made: made.astype(array.dtype)
    nodes.append(node("Sum", ["u" + place for place in "abcde"], ["y"], name="last"))
    ends = [build.value(x, (8, 64)) for x in feeds], [build.value("y", (8, 64))]
    proto = build.model(nodes, *ends, held, opset=20, ir_version=9)
    net.prepare(proto, feeds, tuple(chains), faults)
    summary = net.compare("--recompute", "all")[1]["summary"]
    if device != "tanh":
        assert not summary["suspects"]
        return
    said = "the device computed Gelu with approximate tanh; the model says none ("
    if model == "chain":
        said = "the device computed Gelu (approximate tanh) for the chain Div, Erf, Add, Mul, Mul; "
    assert summary["recomputed"]["wrong"] == 5
    for suspect in summary["suspects"][:3]:
        (entry,) = suspect["explanations"]
        assert said in entry["sentence"] and "512 of 512" in entry["sentence"]


@pytest.mark.parametrize("least, most, told", [(-3.0, -1.7, True), (-3.5, 1.0, True),
                                               (-3.0, 3.0, False)])  # fmt: skip
def test_how_far_the_forms_of_gelu_have_to_differ_to_be_told(net, least, most, told):
    """By 46, 5 and 1.4 roundings of float16, root mean square; the limit is 4."""
    x = np.random.RandomState(0).uniform(least, most, (8, 64)).astype(np.float16)
    x = x.astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Neg", ["t"], ["u"], name="second"),
        node("Gelu", ["u"], ["v"], name="op"),
        node("Abs", ["v"], ["y"], name="last"),
    ]
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    fault = ("op", lambda array: gelu(x, "tanh").astype(array.dtype))
    net.prepare(build.model(nodes, *ends, opset=20, ir_version=9), {"x": x}, fault=fault)
    summary = net.compare("--recompute", "all")[1]["summary"]
    assert bool(summary["suspects"]) == told
    if told:
        (entry,) = only_suspect(summary)["explanations"]
        assert "Gelu with approximate tanh; the model says none (512 of 512" in entry["sentence"]


def test_a_form_that_shows_in_small_elements_alone_is_named(net):
    """In the sum of all squares the rounding of large elements is more."""
    x = np.random.RandomState(0).uniform(-2, -1, (8, 64))
    x[0] = np.random.RandomState(1).uniform(1.5, 3.5, 64)
    x = x.astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Gelu", ["t"], ["u"], name="op", approximate="tanh"),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    fault = ("op", lambda array: gelu(-x, "erf").astype(array.dtype))
    net.prepare(build.model(nodes, *ends, opset=20, ir_version=9), {"x": x}, fault=fault)
    (entry,) = only_suspect(net.compare("--recompute", "all")[1]["summary"])["explanations"]
    assert "Gelu with approximate none; the model says tanh (512 of 512" in entry["sentence"]


def test_a_number_that_lessens_the_largest_differences_alone_is_not_told():
    x = np.random.RandomState(0).normal(0, 2.5, 512)
    right, made = (gelu(x, form) for form in ("tanh", "erf"))
    output = Output((0, 0), made.astype(np.float16), Value(right), "float16")
    said, _, _ = written_instead(Written(output, lambda: (), excess))
    assert said is None


@pytest.mark.parametrize("kind", ["all ties up", "as offsets are rounded"])
def test_places_on_a_border_are_open_only_where_a_devices_arithmetic_rounds(net, kind):
    """Times 1.5 each third place of half_pixel lies between two of the input, exactly; the sum of
    two rounded products takes some of them to the other side.
    """
    x = np.random.RandomState(0).standard_normal((1, 4, 8, 8)).astype(np.float16)
    at = (np.arange(12, dtype=np.float32) + 0.5) / 1.5
    if kind == "as offsets are rounded":
        factor = np.float32(1) / np.float32(1.5)
        at = np.arange(12, dtype=np.float32) * factor + (np.float32(0.5) * factor - np.float32(0.5))
        at = np.ceil(at - np.float32(0.5))
    high = np.clip(np.floor(at), 0, 7).astype(int)
    model = np.clip(np.ceil((np.arange(12) + 0.5) / 1.5 - 1), 0, 7).astype(int)
    made = -x[:, :, high][:, :, :, high]
    held = [build.weight("scales", np.array([1, 1, 1.5, 1.5], np.float32))]
    held += [build.weight("roi", np.zeros(0, np.float32))]
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Resize", ["t", "roi", "scales"], ["u"], name="op", mode="nearest"),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    ends = [build.value("x", x.shape)], [build.value("y", (1, 4, 12, 12))]
    fault = ("op", lambda array: made.astype(array.dtype))
    net.prepare(build.model(nodes, *ends, held), {"x": x.astype(np.float32)}, fault=fault)
    summary = net.compare("--recompute", "all")[1]["summary"]
    assert not np.array_equal(high, model)
    if kind == "all ties up":
        (entry,) = only_suspect(summary)["explanations"][:1]
        assert "nearest_mode round_prefer_ceil; the model says round_pr" in entry["sentence"]
    else:
        assert not summary["suspects"]


@pytest.mark.parametrize("kind", ["memory", "nothing", "bias"])
def test_a_few_elements_have_no_false_reason(net, kind):
    """A shift along an axis is none in memory, zeros are no factor, a bias is a written value."""
    shape = (1, 3, 5, 8) if kind == "bias" else (1, 3, 4)
    made = node("Tanh", ["t"], ["u"], name="op")
    held = []
    if kind == "bias":
        weights = np.random.RandomState(1).standard_normal((3, 3, 1, 1)).astype(np.float16)
        bias = np.array([0.5, -0.125, 0.25], np.float32)
        held = [build.weight("w", weights.astype(np.float32)), build.weight("b", bias)]
        made = node("Conv", ["t", "w", "b"], ["u"], name="op")

    def wrong(array):
        if kind == "bias":
            array = array.copy()
            array[:, 1] = -0.125
            return array
        return np.roll(array.reshape(-1), 1).reshape(shape) if kind == "memory" else array * 0

    x = np.random.RandomState(0).standard_normal(shape).astype(np.float16).astype(np.float32)
    nodes = [node("Neg", ["x"], ["t"], name="first"), made, node("Abs", ["u"], ["y"], name="last")]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], held)
    net.prepare(model, {"x": x}, fault=("op", wrong))
    suspect = only_suspect(net.compare()[1]["summary"])
    said = " ".join(entry["sentence"] for entry in suspect["explanations"])
    assert (
        suspect["op"] == "op" and "along axis" not in said and "with its input 0 times" not in said
    )
    assert kind != "bias" or "was computed of a bias alone, or not written" in said


def test_an_order_of_axes_that_has_another_shape_is_not_told_beside_one_that_fits(net):
    """[1, 0, 2, 3] holds the same in memory, as (8, 1, 8, 4)."""
    shape = (1, 8, 8, 4)
    x = np.random.RandomState(2).standard_normal(shape).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Transpose", ["t"], ["u"], name="op", perm=[0, 2, 1, 3]),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", shape)])
    net.prepare(model, {"x": x}, fault=("op", lambda array: -x))
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    assert "Transpose with perm [0, 1, 2, 3]; the model says [0, 2, 1, 3]" in entry["sentence"]


def test_what_a_few_elements_may_tell_stands_beside_that_nothing_was_done(net):
    x = np.array([[[0.5, -1.5], [1.0, -0.75]]], np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Transpose", ["t"], ["u"], name="op", perm=[0, 2, 1]),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)])
    net.prepare(model, {"x": x}, fault=("op", lambda array: -x))
    said = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert [entry["kind"] for entry in said][:2] == ["did-nothing", "attribute"]
    assert "may have computed Transpose with perm [0, 1, 2]" in said[1]["sentence"]


def test_an_epsilon_is_not_taken_for_the_unbiased_variance_that_comes_near(net):
    random, shape = np.random.RandomState(5), (1, 16, 16)
    x = random.standard_normal(shape)
    x *= (1.22 + 0.02 * random.standard_normal((1, 16, 1))) / x.std(-1, keepdims=True)
    x = x.astype(np.float16).astype(np.float32)
    held = [build.weight(name, np.ones(16, np.float32) * one) for name, one in (("s", 1), ("b", 0))]
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("LayerNormalization", ["t", "s", "b"], ["u"], name="op"),
        node("Abs", ["u"], ["y"], name="last"),
    ]

    def wrong(array):
        given = -x.astype(np.float64)
        less = given - given.mean(-1, keepdims=True)
        return less / np.sqrt(np.square(less).mean(-1, keepdims=True) + 0.1)

    model = build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], held)
    net.prepare(model, {"x": x}, fault=("op", wrong))
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    assert "computed LayerNormalization with epsilon 0.1; the model says 1e-05" in entry["sentence"]
    assert "unbiased" not in entry["sentence"]


def with_one_op(net, op, x, wrong, held=()):
    """Compare a network of one operator between two others with a device that does ``wrong``."""
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        op,
        node("Abs", ["u"], ["y"], name="last"),
    ]
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    net.prepare(build.model(nodes, *ends, list(held)), {"x": x}, fault=("op", wrong))
    _, document, said = net.compare()
    return only_suspect(document["summary"])["explanations"][0], said


@pytest.mark.parametrize("kind", ["LayerNormalization", "InstanceNormalization"])
def test_a_normalisation_whose_variance_overflows_has_no_first_index_for_all(net, kind):
    """What it normalises is 0 then, and its output the bias, whatever it reads."""
    random = np.random.RandomState(5)
    shape, size = ((4, 6, 32), 32) if kind.startswith("Layer") else ((1, 6, 8, 8), 6)
    x = (random.standard_normal(shape) * 300).astype(np.float16).astype(np.float32)
    bias = random.standard_normal(size).astype(np.float16).astype(np.float32)
    held = [build.weight("s", random.rand(size).astype(np.float32) + 1), build.weight("b", bias)]
    op = node(kind, ["t", "s", "b"], ["u"], name="op")
    made = bias if kind.startswith("Layer") else bias.reshape(1, 6, 1, 1)
    entry, _ = with_one_op(net, op, x, lambda array: np.broadcast_to(made, array.shape), held)
    assert "its input 0 throughout, as where its variance is beyond" in entry["sentence"], entry
    assert "first index" not in entry["sentence"] and "statistics" not in entry["sentence"]


@pytest.mark.parametrize("large", [False, True])
def test_infinities_where_nothing_is_too_large_are_no_overflow(net, large):
    """A core that did not write its part; of large inputs sums on the way may have overflowed."""
    random = np.random.RandomState(5)
    x = (random.standard_normal((64, 8)) * (300 if large else 1)).astype(np.float16)

    def wrong(array):
        made = np.array(array)
        made[48:] = np.where(random.rand(16, 8) > 0.5, np.inf, 0)
        return made

    op = node("Softmax", ["t"], ["u"], name="op", axis=-1)
    entry, said = with_one_op(net, op, x.astype(np.float32), wrong)
    cured = "next: goldwatch cure" in " ".join(said.split())
    if large:
        assert (entry["kind"], cured) == ("overflow", True), entry
    else:
        assert "no overflow, what is computed there is 0." in entry["sentence"], entry
        assert "they stand in indices 48 to 63 of axis 0 (of 64) alone" in entry["sentence"]
        assert not cured and "the operator's tiling" in entry["next"]


@pytest.mark.parametrize("taken", ["of the first", "of nobody"])
def test_a_group_with_other_weights_is_not_said_to_be_not_written_alone(net, taken):
    random, shape = np.random.RandomState(7), (1, 8, 8, 8)
    weights = random.standard_normal((8, 4, 3, 3)).astype(np.float16).astype(np.float32)
    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Conv", ["t", "w"], ["u"], name="op", group=2),
        node("Abs", ["u"], ["y"], name="last"),
    ]

    def wrong(array):
        windows = np.lib.stride_tricks.sliding_window_view(-x[:, 4:], (3, 3), axis=(2, 3))
        array = array.copy()
        other = (
            weights[:4]
            if taken == "of the first"
            else np.cos(9 * np.arange(144)).reshape(4, 4, 3, 3)
        )
        array[:, 4:] = np.einsum("ncyxij,ocij->noyx", windows, other)
        return array

    held = [build.weight("w", weights)]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", (1, 8, 6, 6))], held)
    net.prepare(model, {"x": x}, fault=("op", wrong))
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    words = {
        "of the first": "Conv with the weights the first of its 2 parts along axis 0 for all",
        "of nobody": "",
    }[taken]
    assert entry["kind"] != "not-written" and words in entry["sentence"]
    assert words or "computed of other weights or inputs, or not written" in entry["sentence"]


def of_written(computed, actual):
    output = Output((0, 0), np.float32(actual), Value(np.float32(computed)), "float32")
    return written_instead(Written(output, lambda: (), lambda error: error.ratio), PARTS)[0]


@pytest.mark.parametrize("dtype", ["int16", "uint8", "int8"])
@pytest.mark.parametrize("wraps", [True, False])
def test_whole_numbers_of_fewer_bits_are_named(dtype, wraps):
    y = np.random.RandomState(0).randint(-5, 6, (16, 12)).astype(np.int32) * 40000
    y[::2] //= 40000
    limits = np.iinfo(dtype)
    x = (y.astype(dtype) if wraps else np.clip(y, limits.min, limits.max)).astype(np.int32)

    def said(actual):
        output = Output((0, 0), actual, Value(y), "int32")
        return written_instead(Written(output, lambda: (), lambda error: error.ratio))[0]

    words = "the low" if wraps else "the nearest of"
    if (wraps, dtype) != (False, "uint8"):
        assert words in said(x).sentence and "narrowed to %s" % dtype in said(x).sentence
        (entry,) = by_variants(VariantSearch([], [], 0, said(x)), "op")
        assert entry.kind == "overflow" and not entry.of_precision
    x[3, 4] += 1
    assert said(x) is None


def test_one_number_alone_is_not_told_to_be_narrowed_to_8_bits():
    y = np.random.RandomState(0).randint(-99, 99, (16, 12)).astype(np.int32)
    y[3, 4] = 300
    output = Output((0, 0), y.astype(np.int8).astype(np.int32), Value(y), "int32")
    assert written_instead(Written(output, lambda: (), lambda error: error.ratio))[0] is None


def test_rows_of_0_are_not_written_also_where_other_weights_are_rounded_otherwise():
    random = np.random.RandomState(0)
    x = random.standard_normal((64, 32)).astype(np.float32)
    y = x @ random.standard_normal((32, 16)).astype(np.float32)
    made = y * (1 + 3e-4 * random.standard_normal(y.shape))
    assert of_written(y, made) is None
    made[32:] = 0
    said = of_written(y, made)
    assert said.kind == "not-written"
    assert "32 of 64 indices of axis 0 are 0 throughout, the first is 32" in said.sentence
    made[:32] *= 1.01
    assert of_written(y, made) is None


@pytest.mark.parametrize("kept", [3, 6, 7, 10])
def test_float16_of_fewer_bits_of_mantissa_is_named(kept):
    y = np.random.RandomState(0).standard_normal(512).astype(np.float16)
    fraction, exponent = np.frexp(y.astype(np.float64))
    made = np.ldexp(np.rint(np.ldexp(fraction, kept + 1)), exponent - kept - 1).astype(np.float16)
    output = Output((0, 0), made, Value(np.float32(y)), "float16")
    said = written_instead(Written(output, lambda: (), lambda error: error.ratio))[0]
    name = "bfloat16" if kept == 7 else "%d bits of mantissa" % kept
    assert (said and said.kind) == (None if kept == 10 else "rounding")
    assert said is None or "is float16 and holds numbers of %s alone" % name in said.sentence


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_values_rounded_to_whole_numbers_are_of_no_narrower_type(dtype):
    """Up to 128 each is one of 7 bits of mantissa as well."""
    y = (30 * np.random.RandomState(0).standard_normal(512)).astype(dtype).clip(-127, 127)
    output = Output((0, 0), np.rint(y), Value(np.float32(y)), dtype)
    said = written_instead(Written(output, lambda: (), lambda error: error.ratio))[0]
    assert said is None or "alone" not in said.sentence


@pytest.mark.parametrize("rows", [1, 31])
def test_rows_of_a_relu_that_were_not_written_are_no_border(rows):
    """Columns whose elements are 0 by right where a row is left were written."""
    y = np.maximum(np.random.RandomState(0).standard_normal((32, 32)), 0).astype(np.float32)
    made = y.copy()
    made[32 - rows :] = 0
    said = of_written(y, made)
    words = "%d of 32 indices of axis 0 (the first is %d) are" % (rows, 32 - rows)
    if rows == 1:
        words = "index 31 of axis 0 (of 32) is"
    assert said.kind == "not-written" and "border" not in said.sentence + said.next
    assert (
        words + " 0 throughout, and all others are right" in said.sentence
        and "pads" not in said.next
    )


def test_rows_and_columns_in_the_middle_are_no_border():
    y = np.random.RandomState(0).standard_normal((32, 32)).astype(np.float32)
    for rows, is_border in ((slice(31, 32), True), (slice(4, 6), False)):
        made = y.copy()
        made[rows], made[:, 0] = 0, 0
        said = of_written(y, made)
        assert said.kind == "not-written" and "and index 0 of axis 1 (of 32) are" in said.sentence
        assert ("border" in said.sentence) == is_border == ("pads" in said.next)


@pytest.mark.parametrize("rows", [[0], [3, 7], []])
def test_rows_that_alone_are_right_are_told_where_nothing_explains_the_others(net, rows):
    x, other = np.random.RandomState(0).standard_normal((2, 64, 16)).astype(np.float32)
    nodes = [node("Neg", ["x"], ["t"], name="first"), node("Tanh", ["t"], ["u"], name="op"),
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]

    def wrong(right):
        made = other.astype(right.dtype)
        made[rows] = right[rows]
        return made

    net.prepare(build.model(nodes, *ends), {"x": x}, fault=("op", wrong))
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    words = {0: "it (tried", 1: "it; index 0 of axis 0 alone is right (",
             2: "it; indices 3, 7 of axis 0 alone are right ("}  # fmt: skip
    assert "no known variant explains " + words[len(rows)] in entry["sentence"]
    # Without the original model too.
    os.remove(net.path("m.onnx"))
    os.remove(net.path("golden", "manifest.json"))
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    words[0] = "and no pattern fits"
    assert words[len(rows)] in entry["sentence"]


@pytest.mark.parametrize(("axis", "step"), [(0, 1), (1, 1), (1, -3), (2, 2), (3, -1)])
def test_a_roll_along_an_axis_comes_before_a_shift_in_memory(axis, step):
    shape = (5, 9, 12, 14) if axis == 0 else (1, 9, 12, 14)
    y = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
    # Channels that hold the same are told from each other by none.
    y[0, 2:5] = 0.0
    output = Output((0, 0), np.roll(y, step, axis), Value(y), "float32")
    said = written_instead(Written(output, lambda: (), lambda error: error.ratio))[0]
    count = format(y.size, ",")
    words = "rolled by %+d along axis %s (%s of %s elements agree"
    assert words % (step, "NCHW"[axis], count, count) in said.sentence
    assert ("channels" in said.next) == (axis == 1)
    assert ("samples" in said.next) == (axis == 0)


def test_what_another_reading_leaves_right_does_not_make_the_rest_not_written():
    """The first row of a CumSum along another axis; a Clip that ends at 0; the first row of each
    window of another stride; a channel of a nearest Resize that moves N and C.
    """
    x = np.random.RandomState(0).standard_normal((14, 6, 9))
    assert of_written(np.cumsum(x, 1), np.cumsum(x, 0)) is None
    few = np.array([1.5, -2.0, -0.5, 0.25])
    assert of_written(few, np.maximum(few, 0)) is None
    assert of_written(x[:, :4:3][:, :2], x[:, :3:2][:, :2]) is None
    channels = np.repeat(np.repeat(x.reshape(2, 7, 6, 9), 2, 0), 2, 1)
    assert of_written(channels, np.tile(x.reshape(2, 7, 6, 9), (2, 2, 1, 1))) is None


@pytest.mark.parametrize("count", [3, 4, 7, 9])
def test_a_short_tail_of_0_was_not_written(count):
    """Of fewer elements, of others than 0 and of those in the middle it may be anything."""
    x, other = np.random.RandomState(0).standard_normal((2, 6, 16))

    def said(first, instead):
        made = x.copy().reshape(-1)
        made[first : first + count] = instead.reshape(-1)[first : first + count]
        found = of_written(x, made.reshape(x.shape))
        return found.sentence if found is not None else ""

    words = "all elements up to %d are right, all from %d on hold 0 (of 96" % (
        95 - count,
        96 - count,
    )
    assert said(96 - count, 0 * x).startswith(words) == (count > 3)
    if count < 8:
        assert not said(96 - count, other) and not said(40, 0 * x)


def test_a_stretch_that_ends_inside_an_index_was_not_written_whatever_it_holds():
    x, other = np.random.RandomState(0).standard_normal((2, 14, 6, 9))
    for first, last, at in ((100, 756, 700), (0, 333, 100), (130, 650, 500)):
        made = x.copy().reshape(-1)
        made[first:last] = other.reshape(-1)[first:last]
        # One that is right by chance.
        made[at] = x.reshape(-1)[at]
        said = of_written(x, made.reshape(x.shape))
        assert said.kind == "not-written" and "hold other values (of 756" in said.sentence
    made = x.copy()
    made[3:6] = other[3:6]
    said = of_written(x, made)
    assert said.kind == "one-slice" and "3 of 14 indices of axis 0 hold other" in said.sentence


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_what_overflows_behind_a_wrong_operator_is_no_error_of_its_own(net, own, cut):
    """A device without infinity cuts at the largest number; golden data beyond it are an error of
    the operator's own.
    """
    random = np.random.RandomState(3)
    x = random.standard_normal((4, 16)).astype(np.float16).astype(np.float32)
    factors = np.full(16, 700.0 if own else 100.0, np.float32)
    weights = random.uniform(0.25, 1, (16, 16)).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Softmax", ["t"], ["u"], name="op"),
        node("MatMul", ["u", "w"], ["v"], name="product"),
        node("Mul", ["v", "f"], ["s"], name="scale"),
        node("Mul", ["s", "f"], ["y"], name="again"),
    ]
    held = [build.weight("w", weights), build.weight("f", factors)]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], held)
    limit = [np.float16(65504), np.float16(np.inf)][not cut]

    def cut_off(array):
        return np.clip(array, -limit, limit)

    faults = {"op": lambda array: np.float16(np.exp(-x) * 8), "scale": cut_off, "again": cut_off}
    net.prepare(model, {"x": x}, fault=faults)
    summary = net.compare("--recompute", "all")[1]["summary"]
    names = [suspect["op"] for suspect in summary["suspects"]]
    assert names == (["op", "again"] if own else ["op"])
    said = "of its elements overflowed: what is computed of the device's own inputs is too large"
    assert not own or said in summary["suspects"][1]["evidence"]


@pytest.mark.parametrize("kind", ["factor", "variant"])
def test_another_sum_of_a_few_elements_is_not_told_where_a_factor_comes_nearer(net, kind):
    """Sums of magnitudes that are 1.1 times the sums but for a hundredth, which what float16 rounds
    inside of a sum may come to.
    """
    random = np.random.RandomState(1)
    x = np.abs(random.standard_normal((8, 64))).astype(np.float16).astype(np.float32)
    share = 0.04545 * (1 + 0.02 * random.standard_normal((8, 1)))
    # What is negative is about 1 / 22 of all magnitudes: |x| is 1.1 times the sum.
    x[:, :3] = -np.float16(share * x[:, 3:].sum(1, keepdims=True) / (1 - share) / 3)
    nodes = [node("Neg", ["x"], ["t"], name="first"), node("Neg", ["t"], ["v"], name="second"),
             node("ReduceSum", ["v", "a"], ["u"], name="op"),
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    ends = [build.value("x", x.shape)], [build.value("y", (8, 1))]
    held = [build.weight("a", np.array([1]))]
    made = np.abs(x).sum(1, keepdims=True) if kind == "variant" else 1.1 * x.sum(1, keepdims=True)
    fault = ("op", lambda array: made.astype(array.dtype))
    net.prepare(build.model(nodes, *ends, held), {"x": x}, fault=fault)
    (entry, *_) = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert ("ReduceL1" in entry["sentence"]) == (kind == "variant")
    assert ("1.1" in entry["sentence"]) == (kind == "factor")


@pytest.mark.parametrize(("indices", "said"), [
    ([-1], "with its indices 0 (one more) or 0 (0 for what is negative); the model says -1 ("),
    ([2, -1, 1], "with its indices 0 for what is negative; the model takes its indices unchanged"),
    ([2, 0, 3, 1], "with its indices one less; the model takes its indices unchanged ("),
])  # fmt: skip
def test_other_indices_of_a_gather_are_named_as_they_are(net, indices, said):
    x = np.random.RandomState(0).standard_normal((2, 5, 16)).astype(np.float32)
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node("Gather", ["t", "i"], ["u"], name="op", axis=1),
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    ends = [build.value("x", x.shape)], [build.value("y", (2, len(indices), 16))]
    read = [max(0, one - 1) for one in indices] if "less" in said else np.maximum(indices, 0)
    made = -x[:, read].astype(np.float16)
    net.prepare(build.model(nodes, *ends, [build.weight("i", np.array(indices))]), {"x": x},
                fault=("op", lambda array: made.astype(array.dtype)))  # fmt: skip
    explanations = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert said in explanations[0]["sentence"]
    assert "one less" in said or "one less" not in str(explanations)
    step = explanations[0]["next"]
    assert step.startswith("compare the indices of op as the compiled model holds or reads them, ")
    assert "with the original model's Gather op" in step


def test_the_other_filter_of_a_channel_is_named(net):
    random, shape = np.random.RandomState(3), (1, 8, 16, 16)
    weights, other = random.standard_normal((2, 8, 8, 1, 1)).astype(np.float16).astype(np.float32)
    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Conv", ["t", "w"], ["u"], name="op"),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    held = [build.weight("w", weights)]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], held)

    def wrong(array):
        array = array.copy()
        array[0, 3] = np.einsum("i,ihw->hw", other[3, :, 0, 0], -x[0])
        return array

    net.prepare(model, {"x": x}, fault=("op", wrong))
    (said, *_) = only_suspect(net.compare()[1]["summary"])["explanations"]
    words = "Conv with the weights other than the model's in 8 of 64 values (the first is [3, 0, 0"
    assert words in said["sentence"]


@pytest.mark.parametrize("kind", ["alike", "unrelated", "exact factor"])
def test_what_a_few_elements_may_tell_by_chance_is_said_so(net, kind):
    x = np.array([[-0.5, -1.5], [1.0, -0.75]], np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Hardmax" if kind == "alike" else "Tanh", ["t"], ["u"], name="op"),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    model = build.model(nodes, [build.value("x", (2, 2))], [build.value("y", (2, 2))], [])
    wrong = {
        "alike": lambda u: np.array([[1, 1], [0, 0]]),
        "unrelated": lambda u: np.array([[0.3, -0.7], [0.11, 0.5]]),
        "exact factor": lambda u: u * 0.5,
    }[kind]
    net.prepare(model, {"x": x}, fault=("op", wrong))
    suspect = only_suspect(net.compare()[1]["summary"])
    (said,) = {
        "alike": ["the device may have computed Hardmax with axis 0; the model says -1 (4 of 4 "],
        "unrelated": ["; too few elements to tell 7 more; result.json has all)"],
        "exact factor": ["its output is what is computed times 0.5 (4 of 4 elements agree"],
    }[kind]
    assert said in suspect["explanations"][0]["sentence"]
    assert ("may do so by chance" in suspect["explanations"][0]["sentence"]) == (kind == "alike")


@pytest.mark.parametrize("start, step", [(4, 1), (5, 1), (7, -1)])
def test_any_other_start_of_a_slice_is_named(net, start, step):
    x = np.random.RandomState(0).standard_normal((4, 12, 16)).astype(np.float16)
    held = {"b": [2], "e": [8], "a": [1], "s": [1]}
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node("Slice", ["t", *held], ["u"], name="op"),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    weights = [build.weight(name, np.array(one)) for name, one in held.items()]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", None)], weights)
    read = [start + step * number for number in range(6)]
    fault = ("op", lambda array: -x[:, read].astype(array.dtype))
    net.prepare(model, {"x": x.astype(np.float32)}, (), fault)
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    said = "its places start %d and step %d of axis 1; the model says start 2 and" % (start, step)
    assert said in entry["sentence"]


@pytest.mark.parametrize("kind", ["Conv", "Softmax"])
def test_what_is_told_by_a_part_of_a_large_output_is_read_as_the_variant_reads(net, kind):
    """A part along an axis of windows, or the axis that is exchanged, is not the model's part."""
    shape = (1, 2, 300, 256) if kind == "Conv" else (4, 192, 128)
    x = np.random.RandomState(0).standard_normal(shape).astype(np.float16).astype(np.float32)
    w = np.random.RandomState(1).standard_normal((2, 2, 3, 3)).astype(np.float16)
    if kind == "Conv":
        made = node("Conv", ["t", "w"], ["u"], name="op", pads=[0, 0, 2, 2])
        said = "Conv with pads [2, 2, 0, 0]; the model says [0, 0, 2, 2] ("
    else:
        made = node("Softmax", ["t"], ["u"], name="op", axis=2)
        said = "Softmax with axis 1; the model says 2 ("
    nodes = [node("Neg", ["x"], ["t"], name="first"), made, node("Sin", ["u"], ["y"], name="last")]
    held = [build.weight("w", w.astype(np.float32))]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", None)], held)

    def wrong(array):
        if kind == "Softmax":
            powers = np.exp(-x)
            return (powers / powers.sum(1, keepdims=True)).astype(array.dtype)
        padded = np.pad(-x, ((0, 0), (0, 0), (2, 0), (2, 0)))
        return correlated(padded, w.astype(np.float32), (1, 1), (1, 1)).astype(array.dtype)

    net.prepare(model, {"x": x}, (), ("op", wrong))
    (entry, *_) = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert "the device computed " + said in entry["sentence"]


@pytest.mark.parametrize("size, said", [(16, "so few may do"), (1024, "so few different numbers")])
def test_many_elements_that_agree_are_not_called_few(net, size, said):
    """Ones throughout tell as little as few elements do, however many they are."""
    x = np.random.RandomState(0).uniform(-2, 2, (2, size // 2)).astype(np.float16)
    nodes = [node("Neg", ["x"], ["t"], name="first"), node("HardSigmoid", ["t"], ["u"], name="op"),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], [])
    net.prepare(model, {"x": x.astype(np.float32)}, (), ("op", np.ones_like))
    (entry, *_) = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert "may have computed HardSigmoid with beta" in entry["sentence"]
    assert said in entry["sentence"]


@pytest.mark.parametrize("rule", [np.floor, np.rint, np.trunc])
def test_how_a_cast_of_the_model_rounds_is_named(net, rule):
    x = np.random.RandomState(0).uniform(-9, 9, (4, 16)).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Cast", ["t"], ["u"], name="op", to=6),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    outputs = [build.value("y", (4, 16), 6)]
    model = build.model(nodes, [build.value("x", (4, 16))], outputs, [])
    net.prepare(model, {"x": x}, fault=("op", lambda array: rule(-x).astype(np.int32)))
    code, result, _ = net.compare()
    if rule is np.trunc:
        assert code == 0 and not result["summary"]["suspects"]
        return
    words = {np.floor: "floor", np.rint: "half to even"}[rule]
    suspect = only_suspect(result["summary"])
    said = "the device computed Cast with rounding %s" % words
    assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


@pytest.mark.parametrize("indices", [(0, 1), (0, 0)])
def test_exchanged_outputs_are_named_also_where_the_json_calls_both_the_same(net, indices):
    x = np.random.RandomState(0).standard_normal((12, 16)).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Split", ["t"], ["u", "v"], name="op", axis=1),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    outputs = [build.value("y", (12, 8)), build.value("v", (12, 8))]
    made = net.prepare(build.model(nodes, [build.value("x", (12, 16))], outputs, []), {"x": x})
    halves = np.split((-x).astype(np.float16), 2, 1)[::-1]
    tensors = tuple(
        DeviceTensor(half, "ND", origin_name="op", origin_index=index)
        for half, index in zip(halves, indices)
    )
    changed = DeviceModel(made.name)
    for op in made.ops:
        changed.add(dataclasses.replace(op, outputs=tensors) if op.name == "op" else op)
    write_model(changed, net.path("net.json"), "atc --model=m.onnx --input_fp16_nodes=x")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), changed.dumps())
    suspect = only_suspect(net.compare()[1]["summary"])
    sentence = suspect["explanations"][0]["sentence"]
    assert suspect["op"] == "op" and "Split with the order of its outputs [1, 0]" in sentence


@pytest.mark.parametrize("kind", ["another step", "equal steps", "healthy"])
def test_what_an_operator_wrote_in_another_step_is_named(net, kind):
    """Of two steps, the second's Tanh holds what the first's made."""
    random = np.random.RandomState(0)
    first, second = (random.standard_normal((4, 16)).astype(np.float16) for _ in range(2))
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Tanh", ["t"], ["u"], name="op"),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    model = build.model(nodes, [build.value("x", (4, 16))], [build.value("y", (4, 16))], [])
    feeds = {"x": second.astype(np.float32)}
    net.prepare(model, feeds)
    old = np.tanh(-first.astype(np.float32))
    other = feeds if kind == "equal steps" else {"x": first.astype(np.float32)}
    wrong = {"another step": lambda array: old, "equal steps": lambda array: array * 1.5}.get(kind)
    net.dump(other)
    kept = net.path("kept")
    shutil.move(net.path("dump"), kept)
    net.dump(feeds, (), ("op", wrong) if wrong else None)
    (step,) = glob.glob(os.path.join(kept, "*", "*", "*", "*", "0"))
    (now,) = glob.glob(net.path("dump", "*", "*", "*", "*", "0"))
    shutil.move(now, os.path.join(os.path.dirname(now), "1"))
    shutil.move(step, now)
    summary = net.compare("--recompute", "all")[1]["summary"]
    suspects = [suspect for suspect in summary["suspects"] if suspect["op"] == "op"]
    said = " ".join(entry["sentence"] for one in suspects for entry in one["explanations"])
    assert bool(suspects) == (kind != "healthy")
    assert ("what op (output 0) at" in said) == (kind == "another step")


def test_inputs_that_fit_no_operator_are_no_variant(net):
    """Axes of an Unsqueeze that are reversed or rolled, or of the other sign, may not fit it."""
    x = np.random.RandomState(0).standard_normal((3, 4)).astype(np.float16).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Unsqueeze", ["t", "axes"], ["u"], name="op"),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    axes = [build.weight("axes", np.array([0, 2], np.int64))]
    net.prepare(
        build.model(nodes, [build.value("x", (3, 4))], [build.value("y", (1, 3, 1, 4))], axes),
        {"x": x},
        fault=(
            "op",
            lambda array: np.random.RandomState(1).permutation(array.ravel()).reshape(array.shape),
        ),
    )
    suspect = only_suspect(net.compare("--recompute", "all")[1]["summary"])
    assert suspect["op"] == "op"


@pytest.mark.parametrize(
    "kind",
    [
        "filter",
        "filter before a Relu",
        "gamma",
        "dumped",
        "dumped in parts",
        "dumped of a sibling",
        "dumped rolled",
        "two dumped",
        "two dumped of a sibling",
        "noise",
    ],  # fmt: skip
)
def test_other_constants_are_solved_from_the_output_or_read_from_the_dump(net, kind):
    """They count where the output is right by them: not where it holds more than a sum of them."""
    random, shape = np.random.RandomState(3), (2, 4, 16, 16)

    def drawn(*sizes):
        return random.standard_normal(sizes).astype(np.float16).astype(np.float32)

    filters, other = drawn(6, 4, 1, 1), drawn(6, 4, 1, 1)
    if kind in ("dumped in parts", "dumped rolled"):
        other = np.roll(filters, 3 if "parts" in kind else 1, 0)
    gamma, beta = drawn(16), drawn(16)
    x = drawn(*shape)
    made = [node("Conv", ["t", "w"], ["u"], name="op")]
    out = (2, 6, 16, 16)
    other_gamma, other_beta = drawn(16), drawn(16)
    normalises = kind == "gamma" or kind.startswith("two dumped")
    if normalises:
        made, out = [node("LayerNormalization", ["t", "g", "b"], ["u"], name="op")], shape
    last = "Relu" if "Relu" in kind else "Abs"
    nodes = [node("Neg", ["x"], ["t"], name="first"), *made, node(last, ["u"], ["y"], name="last")]
    held = {"g": gamma, "b": beta} if normalises else {"w": filters}
    if "sibling" in kind:
        held.update({"og": other_gamma, "ob": other_beta} if normalises else {"ow": other})
        read = ["t", "og", "ob"] if normalises else ["t", "ow"]
        nodes[-1:] = [node(made[0].op_type, read, ["s"], name="beside"),
                      node("Add", ["u", "s"], ["y"], name="last")]  # fmt: skip
    held_now = [build.weight(name, array) for name, array in held.items()]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", out)], held_now)

    def wrong(array):
        if kind.startswith("two dumped"):
            return (array - beta) / gamma * other_gamma + other_beta
        if kind == "gamma":
            scaled = (array - beta) / gamma
            return scaled * np.where(np.arange(16) == 5, 0.25, gamma) + beta
        made = np.einsum("oi,nihw->nohw", other[:, :, 0, 0], -x)
        if kind == "noise":
            made = made + random.standard_normal(made.shape)
        return np.maximum(made, 0) if "Relu" in kind else made

    relu = kind == "filter before a Relu"
    fused = [("op", "last")] if relu else ()
    fault = ("last" if relu else "op", lambda array: wrong(array).astype(array.dtype))
    device = net.prepare(model, {"x": x}, fused, fault)
    if "dumped" in kind:
        given = {"g": other_gamma, "b": other_beta} if normalises else {"w": other}
        dump_with_constants(net, device, given)
    said = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    words = {
        "filter": "the device computed Conv with the weights other than the model's in 24 of 24",
        "filter before a Relu": "the weights other than the model's in 24 of 24 values",
        "gamma": "with the scale other than the model's in 1 of 16 values (the first is [5]: 0.25",
        "two dumped of a sibling": "with the scale and bias of its own dump (inputs 1 and 2): "
        "those of its sibling beside, not the model's (",
        "dumped of a sibling": "the weights of its own dump (input 1): those of its sibling "
        "beside, not the model's (",
        "dumped rolled": "(input 1): the model's rolled by +1 along axis 0 (",
        "two dumped": "with the scale and bias of its own dump (inputs 1 and 2), which are not",
        "dumped in parts": "the model's 2 parts along axis 0 in the order 1, 0",
        "dumped": "the weights of its own dump (input 1; 24 of 24 values are not the model's)",
        "noise": "no known variant explains it (tried: ",
    }[kind]
    assert words in said["sentence"]
    assert kind == "noise" or "as the compiled model holds" in said["next"]


@pytest.mark.parametrize("dumped", [True, False])
def test_other_weights_of_whole_numbers_are_no_saturation(net, dumped):
    """The largest values hold most of the error, and cutting them off explains that."""
    random = np.random.RandomState(1)
    own = random.randint(0, 15, (16, 16)).astype(np.int8)
    other = np.full_like(own, 3)
    x = random.randint(0, 15, (16, 16)).astype(np.float32)
    nodes = [
        node("Cast", ["x"], ["q"], name="first", to=3),
        node("MatMulInteger", ["q", "w"], ["t"], name="op"),
        node("Cast", ["t"], ["y"], name="last", to=1),
    ]
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    models = [build.model(nodes, *ends, [build.weight("w", one)]) for one in (own, other)]
    net.prepare(models[0], {"x": x})
    build.save(pathlib.Path(net.path("b.onnx")), models[1])
    made = on_device(net.path("b.onnx"), {"x": x})
    device = DeviceModel(made.name)
    for op in made.ops:
        if op.name == "op" and dumped:
            device.add(DeviceOp("w", "Const", outputs=(DeviceTensor(other),)))
            op = dataclasses.replace(op, inputs=(*op.inputs[:1], ("w", 0)))
        device.add(op)
    write_model(device, net.path("net.json"), "atc --model=m.onnx")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), device.dumps())
    suspect = only_suspect(net.compare()[1]["summary"])
    said = suspect["explanations"][0]
    assert suspect["op"] == "op" and said["kind"] == ("attribute" if dumped else "unexplained")
    assert ("the weights of its own dump (input 1): 3 throughout (" in said["sentence"]) == dumped


@pytest.mark.parametrize(
    "kind", ["both", "one", "exchanged", "one, of another file", "shape", "shape, the model's json"]
)
def test_an_om_of_other_weights_than_the_model_accuses_no_operator(net, kind):
    """Where several operators are right by the weights of their dumps, which the model does not
    hold; weights that are the model's in another order are read otherwise."""
    random, shape = np.random.RandomState(4), (2, 8, 16)

    def drawn(*sizes):
        return random.standard_normal(sizes).astype(np.float16).astype(np.float32)

    def model(weights):
        nodes = [
            node("MatMul", ["x", "w1"], ["t"], name="first"),
            node("Relu", ["t"], ["u"], name="act"),
            node("MatMul", ["u", "w2"], ["y"], name="last"),
        ]
        held = [build.weight(name, array) for name, array in weights.items()]
        return build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], held)

    own = {"w1": drawn(16, 16), "w2": drawn(16, 16)}
    other = {
        "both": {"w1": drawn(16, 16), "w2": drawn(16, 16)},
        "one": {"w1": own["w1"], "w2": drawn(16, 16)},
        "one, of another file": {"w1": own["w1"], "w2": drawn(16, 16)},
        "shape": {"w1": drawn(16, 16), "w2": drawn(16, 12)},
        "shape, the model's json": {"w1": drawn(16, 16), "w2": drawn(16, 12)},
        "exchanged": {name: array[::-1] for name, array in own.items()},
    }[kind]
    x = drawn(*shape)
    net.prepare(model(own), {"x": x})
    build.save(pathlib.Path(net.path("b.onnx")), model(other))

    def device_of(file, weights):
        made = on_device(net.path(file), {"x": x})
        device = DeviceModel(made.name)
        for op in made.ops:
            weight = {"first": "w1", "last": "w2"}.get(op.name)
            if weight is not None:
                device.add(DeviceOp(weight, "Const", outputs=(DeviceTensor(weights[weight]),)))
                op = dataclasses.replace(op, inputs=(*op.inputs[:1], (weight, 0)))
            if op.name == "last" and kind == "shape, the model's json":
                # 12 columns and 16 take the same blocks: the json tells how many there are.
                blocked = dataclasses.replace(op.outputs[0], format="FRACTAL_NZ")
                op = dataclasses.replace(op, outputs=(blocked,))
            device.add(op)
        return device

    device = device_of("b.onnx", other)
    compiled_from = "b" if kind == "one, of another file" else "m"
    command = "atc --model=%s.onnx --input_fp16_nodes=x" % compiled_from
    described = device_of("m.onnx", own) if kind == "shape, the model's json" else device
    write_model(described, net.path("net.json"), command)
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), device.dumps())
    code, result, said = net.compare()
    suspects = {one["op"]: one["explanations"][0] for one in result["summary"]["suspects"]}
    sure = {one["confidence"] for one in result["summary"]["suspects"]}
    assert code == 1
    assert {op: entry["kind"] for op, entry in suspects.items()} == {
        "both": {"first": "other-weights", "last": "other-weights"},
        "one": {"last": "attribute"},
        "one, of another file": {"last": "other-weights"},
        "shape": {"first": "other-weights"},
        "shape, the model's json": {"first": "other-weights", "last": "other-weights"},
        "exchanged": {"first": "attribute", "last": "attribute"},
    }[kind]
    of_another = kind not in ("one", "exchanged")
    assert sure == ({"none"} if of_another else {"high"})
    assert ("suspect 1" in said) == ("look closer" in said) == (not of_another)
    assert ("so no operator need be wrong" in said) == of_another
    assert ("next: make golden data of the model that the om" in said) == of_another
    assert ("(golden data were made of m, the om of b)" in said) == (compiled_from == "b")
    assert ("last: its output has the shape [2, 8, 12], what is" in said) == (kind == "shape")
    of_weights = (
        "its weights have the shape [16, 12], the model's [16, 16]; the original model holds"
    )
    assert (of_weights in said) == (kind == "shape, the model's json")
    assert "warning: golden data were made of" not in said


OF_LAYERS = {
    "fully connected": [
        ("first", "Gemm", "x", {"w": (16, 16), "b": (16,)}),
        ("last", "Gemm", "u", {"w2": (16, 16), "b2": (16,)}),
    ],
    "convolutions": [
        ("first", "Conv", "x", {"w": (16, 16, 1, 1), "b": (16,)}),
        ("last", "Conv", "u", {"w2": (16, 16, 1, 1), "b2": (16,)}),
    ],
    "normalised": [
        ("first", "LayerNormalization", "x", {"w": (16,), "b": (16,)}),
        ("last", "MatMul", "u", {"w2": (16, 16)}),
    ],
    "scaled": [
        ("first", "MatMul", "x", {"w": (16, 16)}),
        ("last", "MatMul", "u", {"w2": (16, 16)}),
    ],
    "recurrent": [
        ("first", "GRU", "x", {"w": (1, 48, 16), "r": (1, 48, 16), "b": (1, 96)}),
        ("last", "MatMul", "u", {"w2": (16, 16)}),
    ],
}


@pytest.mark.parametrize(
    "layers, kind",
    [
        (layers, kind)
        for layers in OF_LAYERS
        for kind in ("all", "one operator", "left out")
        if (layers, kind) != ("scaled", "left out")
    ],
)
def test_an_om_of_another_checkpoint_in_all_its_parameters_accuses_no_operator(net, layers, kind):
    """A trained model differs in biases and scales as well; where these are 1 or 0 in all operators
    they were left out, and one operator alone may be wrong."""
    random = np.random.RandomState(7)

    def drawn(*sizes):
        return random.standard_normal(sizes).astype(np.float16).astype(np.float32)

    shape = (64, 16, 1, 1) if layers == "convolutions" else (64, 16)
    shape = (12, 5, 16) if layers == "recurrent" else shape
    sizes = {key: size for *_, held in OF_LAYERS[layers] for key, size in held.items()}
    own = {key: drawn(*size) for key, size in sizes.items()}
    of_last = {*OF_LAYERS[layers][1][-1]}
    other = {
        key: np.full_like(array, key == "w")
        if kind == "left out" and (key[0] == "b" or array.ndim == 1)
        else drawn(*sizes[key])
        if kind == "all" or (kind == "one operator" and key in of_last)
        else array
        for key, array in own.items()
    }
    x = drawn(*shape)

    def model(weights):
        nodes = [node("Relu", ["t"], ["u"], name="act")]
        if layers == "scaled":
            nodes = [node("PRelu", ["t", "s"], ["u"], name="act")]
            slope = 0.5 if weights is own or kind != "all" else 0.6
            weights = {**weights, "s": np.float32([slope])}
        for name, op_type, source, held in OF_LAYERS[layers]:
            made = ["t" if source == "x" else "y"]
            given = {"hidden_size": 16} if op_type == "GRU" else {}
            nodes.append(node(op_type, [source, *held], made, name=name, **given))
        if layers == "recurrent":
            nodes[1].output[0] = "t4"
            nodes.append(node("Squeeze", ["t4", "axis"], ["t"], name="squeeze"))
            weights = {**weights, "axis": np.array([1])}
        order = {"first": 0, "squeeze": 1, "act": 2, "last": 3}
        nodes.sort(key=lambda one: order[one.name])
        held = [build.weight(name, array) for name, array in weights.items()]
        return build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], held)

    net.prepare(model(own), {"x": x})
    build.save(pathlib.Path(net.path("b.onnx")), model(other))
    made = on_device(net.path("b.onnx"), {"x": x})
    device = DeviceModel(made.name)
    reads = {name: held for name, _, _, held in OF_LAYERS[layers]}
    for op in made.ops:
        for key in reads.get(op.name, ()):
            tensor = DeviceTensor(other[key].astype(np.float16))
            device.add(DeviceOp(key, "Const", outputs=(tensor,)))
        constants = [(key, 0) for key in reads.get(op.name, ())]
        device.add(dataclasses.replace(op, inputs=(*op.inputs[:1], *constants)))
    write_model(device, net.path("net.json"), "atc --model=m.onnx --input_fp16_nodes=x")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), device.dumps())
    code, result, said = net.compare()
    kinds = {
        one["op"]: (one["explanations"][0]["kind"], one["confidence"])
        for one in result["summary"]["suspects"]
    }
    assert code == 1
    if kind == "all":
        ops = ("first", "act", "last") if layers == "scaled" else ("first", "last")
        assert kinds == dict.fromkeys(ops, ("other-weights", "none")), said
        assert "so no operator need be wrong" in said
    elif kind == "one operator":
        assert kinds == {"last": ("attribute", "high")}, said
    else:
        assert kinds and {*kinds.values()} <= {("attribute", "high")}, said


def test_an_output_that_is_its_input_may_also_come_of_other_indices(net):
    x = np.random.RandomState(0).standard_normal((6, 8)).astype(np.float32)
    order = np.array([3, 0, 5, 1, 4, 2])
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Gather", ["t", "order"], ["u"], name="op", axis=0),
        node("Neg", ["u"], ["y"], name="last"),
    ]
    held = [build.weight("order", order)]
    made = build.model(nodes, [build.value("x", (6, 8))], [build.value("y", (6, 8))], held)
    net.prepare(made, {"x": x}, fault=("op", lambda array: array[np.argsort(order)]))
    suspect = only_suspect(net.compare()[1]["summary"])
    (explanation,) = suspect["explanations"]
    assert suspect["op"] == "op" and explanation["kind"] == "did-nothing"
    assert "or it read an attribute or another input (its indices, say)" in explanation["sentence"]
    assert "constants there with the original" in explanation["next"]
    assert "did nothing" not in suspect["evidence"]


def _reversed_in_full(x):
    return x[::-1]


def _gru(x, weights, bias_of_state):
    """One direction of a GRU with linear_before_reset, of a batch [steps, batch, size]."""
    w, r, b = (weights[name][0].astype(np.float64) for name in ("w", "r", "b"))
    size = r.shape[1]
    of_input, of_state = b[: 3 * size], b[3 * size :] * bias_of_state
    state, made = np.zeros((x.shape[1], size)), []
    for now in x.astype(np.float64):
        given, fed = now @ w.T + of_input, state @ r.T + of_state
        z, reset = (
            1 / (1 + np.exp(-(given + fed)[:, at * size : (at + 1) * size])) for at in range(2)
        )
        new = np.tanh(given[:, 2 * size :] + reset * fed[:, 2 * size :])
        state = (1 - z) * new + z * state
        made.append(state)
    return np.stack(made)[:, None]


def _lstm(x, weights, of_state):
    """One direction of an LSTM without a bias and without first states: gates i, o, f, c."""
    size = of_state.shape[2]
    state, cell, made = np.zeros((x.shape[1], size)), np.zeros((x.shape[1], size)), []
    for now in x.astype(np.float64):
        i, o, f, new = np.split(now @ weights[0].T + state @ of_state[0].T, 4, 1)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        cell = f * cell + i * np.tanh(new)
        state = o * np.tanh(cell)
        made.append(state)
    return np.stack(made)[:, None]


def _clipped_rnn(x, clip):
    state, made = np.zeros((x.shape[1], 4)), []
    for now in x.astype(np.float64):
        total = now @ OF_GRU["w"][0, :4].T + state @ OF_GRU["r"][0, :4].T
        state = np.tanh(np.clip(total, -clip, clip))
        made.append(state)
    return np.stack(made)[:, None]


RANDOM = np.random.RandomState(6)
OF_GRU = {
    name: RANDOM.standard_normal(shape).astype(np.float16).astype(np.float32) / 2
    for name, shape in (("w", (1, 12, 8)), ("r", (1, 12, 4)), ("b", (1, 24)))
}
TOKENS = RANDOM.randint(0, 6, (5, 7)).astype(np.int64)
TABLE = RANDOM.standard_normal((6, 8)).astype(np.float16).astype(np.float32)
NORM = {
    name: np.array(values, np.float32)
    for name, values in (
        ("s4", [1, 1, 1, 1]),
        ("h4", [0.25] * 4),
        ("m4", [0.5] * 4),
        ("v4", [0.05, 0.3, 0.75, 2.5]),
    )
}
CAUSAL = np.where(np.triu(np.ones((4, 8)), 1) > 0, -np.inf, 0).astype(np.float32)
CHOSEN = RANDOM.uniform(size=(6, 4, 8)) < 0.4
STEPS = {"s": np.float32(0.02), "z": np.int8(3)}


def quantised(x, function=np.rint, least=-128, most=127):
    return np.clip(function(x.astype(np.float64) / STEPS["s"]) + 3, least, most).astype(np.int8)


def pixels(x, mode, by_columns):
    """A DepthToSpace of blocks of 2 × 2."""
    n, channels, height, width = x.shape
    split = (n, 2, 2, channels // 4) if mode == "DCR" else (n, channels // 4, 2, 2)
    parts = x.reshape(*split, height, width)
    block, inner = ((1, 2), 3) if mode == "DCR" else ((2, 3), 1)
    rows, columns = block[::-1] if by_columns else block
    moved = parts.transpose(0, inner, 4, rows, 5, columns)
    return moved.reshape(n, channels // 4, 2 * height, 2 * width)


def in_groups(x, count):
    parts = x.reshape(len(x), count, -1).astype(np.float64)
    less = parts - parts.mean(2, keepdims=True)
    return (less / np.sqrt(np.square(less).mean(2, keepdims=True) + 1e-5)).reshape(x.shape) * 1.5


FILTERS = (RANDOM.standard_normal((5, 8, 3, 3)) / 8).astype(np.float16).astype(np.float32)
IMAGE = RANDOM.standard_normal((2, 8, 4, 6)).astype(np.float16).astype(np.float32)
MIDDLE, LAST = (RANDOM.standard_normal(shape).astype(np.float16).astype(np.float32)
                for shape in ((8, 8), (6, 8, 3)))  # fmt: skip
OTHERWISE = {
    "an operand of three transposed": (
        node("Einsum", ["x", "m", "l"], ["y"], name="op", equation="bik,kj,bjl->bil"),
        {"m": MIDDLE, "l": LAST},
        lambda x: np.einsum("bik,jk,bjl->bil", x, MIDDLE, LAST),
        "Einsum with equation bik,jk,bjl->bil; the model says bik,kj,bjl->bil (",
    ),
    "starts of two axes": (
        node("Slice", ["x", "b", "e", "a"], ["y"], name="op"),
        {
            name: np.array(one, np.int64)
            for name, one in {"b": [1, 0], "e": [4, 5], "a": [0, 2]}.items()
        },
        lambda x: x[2:5, :, 3:8],
        "Slice with its places start 2 of axis 0 and start 3 of axis 2; the model says start 1 of "
        "axis 0 and start 0 of axis 2 (",
    ),
    "axes of a window exchanged": (
        node("MaxPool", ["x"], ["y"], name="op", kernel_shape=[2, 1], strides=[2, 1]),
        {},
        lambda x: np.maximum(x[..., ::2], x[..., 1::2]),
        "MaxPool with its window strides [1, 2] and kernel_shape [1, 2]; the model says strides "
        "[2, 1] and kernel_shape [2, 1] (",
    ),
    "pads of the edge": (
        node("Conv", ["x", "f"], ["y"], name="op", kernel_shape=[3, 3], pads=[1] * 4),
        {"f": FILTERS},
        lambda x: correlated(
            np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "edge"), FILTERS, (1, 1), (1, 1)
        ),
        "Conv with pads that hold the edge; the model says 0 (",
    ),
    "symmetric pads": (
        node("Pad", ["x", "p"], ["y"], name="op", mode="reflect"),
        {"p": np.array([0, 0, 1, 2, 0, 0, 2, 1])},
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (2, 1)), "symmetric"),
        "Pad with mode symmetric; the model says reflect (",
    ),
    "sums of a reversed input": (
        node("CumSum", ["x", "a"], ["y"], name="op"),
        {"a": np.array(2)},
        lambda x: np.cumsum(x[:, :, ::-1], 2),
        "CumSum with its input reversed along axis 2; the model takes its input unchanged (",
    ),
    "constant of the other sign": (
        node("Add", ["x", "c"], ["y"], name="op"),
        {"c": np.float32(3)},
        lambda x: x - 3,
        "Add with its constant -3; the model says 3 (192 of 192 elements agree, with the model's "
        "0 %); the same is Sub for Add",
    ),
    "blocks by columns": (
        node("DepthToSpace", ["x"], ["y"], name="op", blocksize=2),
        {},
        lambda x: pixels(x, "DCR", True),
        "DepthToSpace with its blocks by columns; the model says by rows (",
    ),
    "blocks by columns of the other mode": (
        node("DepthToSpace", ["x"], ["y"], name="op", blocksize=2),
        {},
        lambda x: pixels(x, "CRD", True),
        "DepthToSpace with its blocks by columns, and mode CRD; the model says by rows, and mode "
        "DCR (",
    ),
    "groups": (
        node("GroupNormalization", ["x", "g", "h"], ["y"], name="op", num_groups=4),
        {"g": np.full(4, 1.5, np.float32), "h": np.zeros(4, np.float32)},
        lambda x: in_groups(x, 2),
        "GroupNormalization with num_groups 2; the model says 4 (",
    ),
    "lengths": (
        node("ReverseSequence", ["x", "l"], ["y"], name="op"),
        {"l": np.array([3, 6, 2, 5], np.int64)},
        _reversed_in_full,
        "ReverseSequence with its sequence_lens [6, 6, 6, 6]; the model says [3, 6, 2, 5]",
    ),
    "both states": (
        node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], name="op", hidden_size=3),
        {
            "w": OF_GRU["w"],
            "r": OF_GRU["r"][..., :3],
            "h": np.full((1, 4, 3), 0.5, np.float32),
            "c": np.ones((1, 4, 3), np.float32),
        },
        lambda x: _lstm(x, OF_GRU["w"], OF_GRU["r"][..., :3]),
        "LSTM with initial_h and initial_c missing; the model has initial_h and initial_c (",
    ),
    "order of gates": (
        node("LSTM", ["x", "w", "r"], ["y"], name="op", hidden_size=3),
        {"w": OF_GRU["w"], "r": OF_GRU["r"][..., :3]},
        lambda x: _lstm(
            x,
            *(
                np.concatenate([np.split(OF_GRU[name], 4, 1)[n] for n in (0, 2, 3, 1)], 1)[..., :k]
                for name, k in (("w", 8), ("r", 3))
            ),
        ),
        "LSTM with the order of its weights' gates ifco, read as iofc; the model says iofc (",
    ),
    "no root": (
        node("BatchNormalization", ["x", "s4", "h4", "m4", "v4"], ["y"], name="op", epsilon=1e-2),
        NORM,
        lambda x: (x - 0.5) / (NORM["v4"] + 1e-2)[:, None] + 0.25,
        "BatchNormalization with the variance taken for the deviation, with epsilon; ",
    ),
    "recurrent bias": (
        node("GRU", ["x", "w", "r", "b"], ["y"], name="op", hidden_size=4, linear_before_reset=1),
        OF_GRU,
        lambda x: _gru(x, OF_GRU, 0.0),
        "GRU with the bias B without its recurrent half Rb",
    ),
    "clip": (
        node("RNN", ["x", "v", "h"], ["y"], name="op", hidden_size=4),
        {"v": OF_GRU["w"][:, :4], "h": OF_GRU["r"][:, :4]},
        lambda x: _clipped_rnn(x, 0.17),
        "the device computed RNN with clip 0.1",
    ),
    "beyond float16": (
        node("Mul", ["x", "c"], ["y"], name="op"),
        {"c": np.array([-1e12], np.float32)},
        lambda x: np.where(x > 0, -np.inf, np.where(x < 0, np.inf, np.nan)),
        "input 1 of the model holds numbers beyond float16's range (65504), for which the device "
        "has Inf (192 of 192 elements agree",
    ),
    "near float32's end": (
        node("Mul", ["x", "c"], ["y"], name="op"),
        {"c": np.array([-1e38], np.float32)},
        lambda x: np.where(x > 0, -np.inf, np.where(x < 0, np.inf, np.nan)),
        "input 1 of the model holds numbers beyond float16's range (65504), for which the device "
        "has Inf (192 of 192 elements agree",
    ),
    "cut at float16's end": (
        node("Add", ["x", "c"], ["y"], name="op"),
        {"c": np.array([1.0, 1e6, 2.0, -1e6] * 2, np.float32)},
        lambda x: x + np.float32([1.0, 65504.0, 2.0, -65504.0] * 2),
        "input 1 of the model holds numbers beyond float16's range (65504), for which the device "
        "has the largest one (192 of 192",
    ),
    "infinite mask": (
        node("Add", ["x", "m"], ["y"], name="op"),
        {"m": CAUSAL},
        lambda x: x + np.roll(CAUSAL, 1, 0),
        "Add with its input 1 rolled by +1 along axis 0; the model takes its input 1 unchanged",
    ),
    "one branch": (
        node("Where", ["x", "c", "v", "u"], ["y"], name="op"),
        {"c": CHOSEN, "v": np.float32([-10000])},
        lambda x: x,
        "Where with its condition false throughout; the model takes its condition unchanged (",
    ),
    "constant of a branch": (
        node("Where", ["x", "c", "v", "u"], ["y"], name="op"),
        {"c": CHOSEN, "v": np.float32([-10000])},
        lambda x: np.where(CHOSEN, np.float32(-1), x),
        "Where with its constant -1; the model says -10000 (",
    ),
    "padding": (
        node("Gather", ["e", "t"], ["y"], name="op"),
        {"t": TOKENS},
        lambda x: np.where((TOKENS == 2)[:, :, None], 0, x[TOKENS]),
        "Gather with its padding index 2; the model says none",
    ),
    "truncated": (
        node("QuantizeLinear", ["x", "s", "z"], ["y"], name="op"),
        STEPS,
        lambda x: quantised(x, np.trunc),
        "QuantizeLinear with rounding truncated (towards zero); the model says half to even",
    ),
    "cut": (
        node("QuantizeLinear", ["x", "s", "z"], ["y"], name="op"),
        STEPS,
        lambda x: quantised(x, np.rint, 0, 127),
        "QuantizeLinear with its range 0 to 127; the model says that of its type",
    ),
    "wrapped": (
        node("QuantizeLinear", ["x", "s", "z"], ["y"], name="op"),
        {"s": np.float32(0.01), "z": np.int8(3)},
        lambda x: (np.rint(x.astype(np.float64) / np.float32(0.01)) + 3).astype(int).astype("int8"),
        "QuantizeLinear with its range what is beyond it wraps; the model says it saturates",
    ),
    "beta": (
        node("Softplus", ["u"], ["y"], name="op"),
        {},
        lambda x: np.log1p(np.exp(3 * x)) / 3,
        "Softplus with beta 3; the model says 1 (",
    ),
    "half of an addend": (
        node("Add", ["u", "m"], ["y"], name="op"),
        {"m": float16_values((6, 4, 8), 3)},
        lambda x: x / 2 + float16_values((6, 4, 8), 3),
        "Add with its input 0 times 0.5; the model takes its input 0 unchanged (",
    ),
    "a tenth of a table": (
        node("Sub", ["u", "m"], ["y"], name="op"),
        {"m": float16_values((6, 4, 8), 3)},
        lambda x: x - np.float32(0.1) * float16_values((6, 4, 8), 3),
        "Sub with its input 1 times 0.1; the model takes its input 1 unchanged (",
    ),
    "floor of a float16 scale": (
        node("QuantizeLinear", ["x", "s", "z"], ["y"], name="op"),
        {"s": np.float32(0.0205), "z": np.int8(3)},
        lambda x: np.clip(np.floor(x / np.float64(np.float16(0.0205))) + 3, -128, 127).astype(
            "int8"
        ),
        "QuantizeLinear with rounding floor, with the scale as float16 holds it; the model says",
    ),
}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("kind", sorted(OTHERWISE))
def test_what_is_read_otherwise_of_other_operators_is_named(net, kind):
    made, constants, wrong, said = OTHERWISE[kind]
    of_image = made.op_type in ("DepthToSpace", "GroupNormalization", "MaxPool", "Conv", "Pad")
    x = TABLE if kind == "padding" else IMAGE if of_image else float16_values((6, 4, 8))
    shape = x.shape
    held = [build.weight(name, np.asarray(array)) for name, array in constants.items()]
    # What is chosen from stands behind the condition.
    made.input[0] = "u"
    if made.op_type == "Where":
        del made.input[0]
    nodes = [node("Neg", ["x"], ["u"], name="first"), made]
    right = wrong(-x)
    dtype = {"int8": 3}.get(str(right.dtype), 1)
    model = build.model(
        nodes, [build.value("x", shape)], [build.value("y", right.shape, dtype)], held, 18
    )
    net.prepare(model, {"x": x}, fault=("op", lambda array: right.astype(array.dtype)))
    suspect = only_suspect(net.compare()[1]["summary"])
    assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


def test_what_wraps_decides_either_way_near_the_middle_as_the_model_may(net):
    """Some quotients lie in the middle of two numbers, but for the rounding of the scale."""
    x = 2 * float16_values((8, 32))
    x[0] = np.arange(-16, 16) / 4
    held = [build.weight("s", np.float32(0.02)), build.weight("z", np.int8(3))]
    nodes = [
        node("Neg", ["x"], ["u"], name="first"),
        node("QuantizeLinear", ["u", "s", "z"], ["y"], name="op"),
    ]
    model = build.model(
        nodes, [build.value("x", x.shape)], [build.value("y", x.shape, 3)], held, 18
    )
    made = np.rint(-x / np.float32(0.02)) + 3
    exact = np.rint(-np.float64(x) / np.float32(0.02)) + 3
    ties = (made != exact) & (np.abs(made) < 100)
    ties[:, ::4] = False
    made[ties] = exact[ties]
    assert ties.any() and (made != exact).any()
    net.prepare(model, {"x": x}, fault=("op", lambda array: made.astype(int).astype(np.int8)))
    suspect = only_suspect(net.compare()[1]["summary"])
    said = "QuantizeLinear with its range what is beyond it wraps; the model says it saturates"
    assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


def test_a_mask_beyond_float16_in_the_dump_is_told_as_such():
    made = Node("onnx", "Add", {}, "op", 17)
    device = "of its own dump (input 1): the model's holding Inf for what float16 cannot hold"
    entry = Explained("", "its input 1", made, device, "as it is", 64, 36, 64)
    (said,) = by_variants(VariantSearch([entry], []), "add_mask")
    assert said.kind == "overflow" and said.sentence == (
        "input 1 of the model holds numbers beyond float16's range (65504), for which the device "
        "has Inf (of its own dump; 64 of 64 elements agree, with the model's 56 %)"
    )
    assert "a mask of -65504 or -1e4" in said.next and "goldwatch cure" in said.next


SUMMED = float16_values((32, 24), 5) / 4
TAILS = {
    "product": (
        node("MatMul", ["u", "w"], ["y"], name="op"),
        lambda x: x[:, :29] @ SUMMED[:29],
        "MatMul with its sums without the last 3 of 32 along axis 1 of its input 0 (taken as 0)",
    ),
    "sum": (
        node("ReduceMean", ["u"], ["y"], name="op", axes=[1]),
        lambda x: x[:, :24].sum(1, keepdims=True) / 32,
        "ReduceMean with its sums without the last 8 of 32 along axis 1 of its input 0 (taken as",
    ),
    "count": (
        node("ReduceMean", ["u"], ["y"], name="op", axes=[1]),
        lambda x: x[:, :24].mean(1, keepdims=True),
        "ReduceMean with its sums without the last 8 of 32 along axis 1 of its input 0; the model",
    ),
    "image": (
        node("GlobalAveragePool", ["u"], ["y"], name="op"),
        lambda x: x.reshape(4, 16, 49)[..., :48].sum(-1).reshape(4, 16, 1, 1) / 49,
        "without the last 1 of 49 along axes 2 and 3 together of its input 0 (taken as 0)",
    ),
}


@pytest.mark.parametrize("kind", sorted(TAILS))
def test_what_a_kernel_leaves_out_of_its_sums_is_named(net, kind):
    made, wrong, said = TAILS[kind]
    shape = (4, 16, 7, 7) if kind == "image" else (64, 32)
    nodes = [node("Neg", ["x"], ["u"], name="first"), made]
    held = [build.weight("w", SUMMED)] if kind == "product" else []
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", None)], held, 17)
    feeds = {"x": float16_values(shape)}
    net.prepare(model, feeds, fault=("op", lambda array: wrong(-feeds["x"])))
    (told,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert said in told["sentence"] and "where each sum ends" in told["next"]


@pytest.mark.parametrize("count", [1, 16])
def test_rows_that_are_not_summed_over_are_not_left_out_of_sums(net, count):
    shape, zero = (64, 32), np.s_[64 - count :]
    made = node("MatMul", ["u", "w"], ["y"], name="op")
    nodes = [node("Neg", ["x"], ["u"], name="first"), made]
    model = build.model(
        nodes, [build.value("x", shape)], [build.value("y", None)], [build.weight("w", SUMMED)], 17
    )

    def unwritten(right):
        right = right.copy()
        right[zero] = 0
        return right

    net.prepare(model, {"x": float16_values(shape)}, fault=("op", unwritten))
    told = only_suspect(net.compare()[1]["summary"])["explanations"]
    said = "%d of 64 indices of axis 0 are 0 throughout, the first is %d" % (count, 64 - count)
    if count == 1:
        said = "index 63 of axis 0 (of 64) is 0 throughout"
    assert [one["kind"] for one in told] == ["not-written"] and said in told[0]["sentence"]


@pytest.mark.parametrize(
    ("agree", "said"),
    [(512, "100 %"), (511, "all but 1"), (509, "99 %"), (256, "50 %"), (1, "0.20 %"), (0, "0 %")],
)
def test_how_many_elements_agree_with_the_model_is_a_share(agree, said):
    assert agreement(512, agree, 512) == "512 of 512 elements agree, with the model's " + said


@pytest.mark.parametrize("size", [8, 16])
def test_places_within_parts_are_named(size):
    """As those of a TopK over tiles, to which the beginning of the tile is not added."""
    places = np.random.RandomState(0).randint(0, 64, (4, 5))
    output = Output((0, 0), places % size, Value(places), "int64")
    said, *_ = written_instead(Written(output, lambda: (), excess))
    assert said.kind == "layout" and "within parts of %d (the remainder)" % size in said.sentence
    output = Output((0, 0), np.where(places == places.max(), 1, places % size), Value(places), "")
    assert written_instead(Written(output, lambda: (), excess))[0] is None


@pytest.mark.parametrize("kind", ["MatMul", "Conv"])
def test_weights_that_a_narrower_type_holds_are_named(net, kind):
    """The rest is computed in float32: rounding of the weights alone makes it."""
    of_image = kind == "Conv"
    shape = (2, 8, 6, 6) if of_image else (64, 32)
    weights = float16_values((12, 8, 3, 3) if of_image else (32, 24), 5) / 4
    nodes = [
        node("Neg", ["x"], ["u"], name="first"),
        node(kind, ["u", "w"], ["y"], name="op"),
    ]

    def graph(held):
        outputs = [build.value("y", None)]
        return build.model(nodes, [build.value("x", shape)], outputs, [build.weight("w", held)])

    bits = weights.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    narrow = ((bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)).view(np.float32)
    feeds = {"x": float16_values(shape)}
    net.prepare(graph(weights), feeds)
    build.save(pathlib.Path(net.path("b.onnx")), graph(narrow))
    shutil.rmtree(net.path("dump"))
    made = on_device(net.path("b.onnx"), feeds, kept=("first", "op"))
    write_files(net.path("dump"), made.dumps())
    write_model(made, net.path("net.json"), "atc --model=m.onnx --framework=5")
    (told,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert told["kind"] == "rounding"
    assert (
        "%s with its weights rounded to bfloat16; the model takes its weights unchanged" % kind
        in told["sentence"]
    )


@pytest.mark.parametrize("of_node", ["", "w", "b"])
def test_weights_of_8_bits_are_named_wherever_the_model_holds_them(net, of_node):
    """The device rounds what float16 holds of them: one of float32 would be the next number."""
    random = np.random.RandomState(1)
    weights = random.normal(0, 0.1, (12, 1, 3, 3)).astype(np.float32)
    held = weights.astype(np.float16).astype(np.float32)
    step = np.abs(held).max() / 127
    # A number whose half float16 goes over: the whole filter differs by it.
    weights[:, 0, 0] = held[:, 0, 0] = step * (np.arange(36).reshape(12, 3) + 0.5)
    held = held.astype(np.float16).astype(np.float32)
    x, bias = float16_values((2, 1, 6, 6)), np.float32(0.125) * np.eye(12, dtype=np.float32)[0]
    held_by_model = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")]
    constants = [
        node("Constant", [], [one.name], name="constant", value=one)
        for one in held_by_model
        if one.name == of_node
    ]
    proto = build.model(
        [*constants, node("Neg", ["x"], ["u"], name="first"),
         node("Conv", ["u", "w", "b"], ["y"], name="op", pads=[1] * 4)],
        [build.value("x", x.shape)], [build.value("y", (2, 12, 6, 6))],
        [one for one in held_by_model if one.name != of_node],
    )  # fmt: skip
    narrow = np.rint(held / (np.abs(held).max() / 127)) * (np.abs(held).max() / 127)
    made = correlated(np.pad(-x, ((0, 0), (0, 0), (1, 1), (1, 1))), narrow, (1, 1), (1, 1))
    made += bias[:, None, None]
    net.prepare(proto, {"x": x}, fault=("op", lambda array: made.astype(array.dtype)))
    (told,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert told["kind"] == "rounding"
    assert "int8 weights (one scale for all)" in told["sentence"]


def test_an_operator_that_reads_one_value_twice_in_place_of_two_is_named(net):
    """The om's json and the dump say what it reads, golden data of each are there."""

    def graph(first):
        nodes = [
            node("Tanh", ["x"], ["t"], name="first"),
            node("Neg", ["x"], ["s"], name="second"),
            node("Mul", ["t", "s"], ["v"], name="both"),
            node("Add", [first, "s"], ["u"], name="op"),
            node("Add", ["u", "v"], ["y"], name="last"),
        ]
        return build.model(nodes, [build.value("x", SHAPE)], [build.value("y", SHAPE)])

    feeds = {"x": float16_values(SHAPE)}
    net.prepare(graph("t"), feeds)
    build.save(pathlib.Path(net.path("b.onnx")), graph("s"))
    made = on_device(net.path("b.onnx"), feeds)
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), made.dumps())
    write_model(made, net.path("net.json"), "atc --model=m.onnx --framework=5")
    code, result, said = net.compare("--original", "m.onnx")
    suspect = only_suspect(result["summary"])
    assert code == 1 and suspect["op"] == "op"
    (told,) = suspect["explanations"]
    assert told["kind"] == "other-tensor"
    assert "with output 0 of second (Neg) as its input 0" in told["sentence"]
    assert "the model says output 0 of first (Tanh)" in told["sentence"]
    assert "is right on what it read" in suspect["evidence"] and "inherited" not in said


@pytest.mark.parametrize("beside", ["the device", "golden data"])
def test_an_output_that_differs_where_rounding_decides_is_not_inherited(net, beside):
    """A place in the middle of two elements: both take one of them, of inputs that differ by the
    rounding to float16.
    """
    x = np.random.RandomState(0).standard_normal((1, 2, 6, 20)).astype(np.float32)
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Resize", ["t", "", "", "sizes"], ["u"], name="op", mode="nearest",
             coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil"),
        node("Neg", ["u"], ["y"], name="last"),
    ]  # fmt: skip
    held = [build.weight("sizes", np.array([1, 2, 6, 6], np.int64))]
    ends = [build.value("x", x.shape)], [build.value("y", (1, 2, 6, 6))]

    def low(array):
        other = array.copy()
        other[..., 4] = -x[..., 14]
        return other

    fault = ("op", low) if beside == "the device" else None
    net.prepare(build.model(nodes, *ends, held), {"x": x}, fault=fault)
    if fault is None:
        for name, sign in (("op", 1), ("last", -1)):
            (path,) = glob.glob(net.path("golden", name + ".*.npy"))
            array = np.load(path)
            array[..., 4] = -sign * x[..., 14]
            np.save(path, array)
    code, result, said = net.compare()
    assert code == 1 and not result["summary"]["suspects"], said
    assert "the error is inherited" not in said and "elements differ that rounding decides" in said


@pytest.mark.parametrize("ulps", [0, 12, 40])
def test_a_function_of_float32_is_off_by_some_units_in_the_last_place(ulps):
    """As tanh of onnxruntime's RNN is at the clip: no error of inputs reaches it there."""
    exact = np.full((4, 3), np.tanh(0.1))
    actual = exact.astype(np.float32) + np.float32(ulps) * np.spacing(np.float32(np.tanh(0.1)))
    output = Output(("y", 0), actual, Value(np.zeros((4, 3)), None), "float32")
    assert agreeing(output, Value(exact, None)).all() == (ulps < 20)


@pytest.mark.parametrize("op", ["quantise", "back"])
@pytest.mark.parametrize("zero, model", [(5, 0), (-13, 3)])
def test_any_zero_point_is_named_where_the_device_rounds_the_scale(net, op, zero, model):
    """The scale is none that float16 holds, and some values are cut off at the type's end."""
    x = 2 * float16_values((64, 8))
    scale = np.float32(0.02)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantise"),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], name="back"),
    ]
    weights = [build.weight("s", scale), build.weight("z", np.int8(model))]
    held = np.float64(np.float16(scale))

    def whole(number):
        return np.clip(np.rint(x / held) + number, -128, 127)

    right = {
        "quantise": whole(zero),
        "back": (whole(model) - zero) * held,
    }[op]
    assert (np.abs(whole(zero)) >= 127).any()
    outputs = [build.value("y", x.shape)]
    proto = build.model(nodes, [build.value("x", x.shape)], outputs, weights)
    net.prepare(proto, {"x": x}, fault=(op, lambda array: right.astype(array.dtype)))
    suspect = only_suspect(net.compare()[1]["summary"])
    said = "with the zero point %d; the model says %d" % (zero, model)
    assert suspect["op"] == op and said in suspect["explanations"][0]["sentence"]


QUOTIENT = "the quotient of its scales (of the input, times of the weights, by of the output)"


@pytest.mark.parametrize(
    "change, said",
    [
        ({}, None),
        ({"w": 0.011}, QUOTIENT + " 0.00322266; the model says 0.00292969"),
        ({"z": 119}, "the zero point of the output 119; the model says 128"),
    ],
)
def test_a_product_of_whole_numbers_may_hold_its_scales_in_float16(net, change, said):
    """Those of the model are none that float16 holds: near ties the next number comes out."""
    state = np.random.RandomState(3)
    x, weights = 2 * float16_values((16, 32)), state.randint(-63, 64, (32, 24))
    constants = {
        "s": np.float32(15 / 512), "i": np.uint8(128), "m": weights.astype(np.int8),
        "w": np.float32(0.01), "j": np.int8(0), "t": np.float32(0.1), "z": np.uint8(128),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "s", "i"], ["q"], name="quantise"),
        node("QLinearMatMul", ["q", "s", "i", "m", "w", "j", "t", "z"], ["p"], name="op"),
        node("DequantizeLinear", ["p", "t", "z"], ["y"], name="back"),
    ]
    held = [build.weight(name, array) for name, array in constants.items()]
    outputs = [build.value("y", (16, 24))]
    proto = build.model(nodes, [build.value("x", x.shape)], outputs, held)
    whole = np.clip(np.rint(x / constants["s"]) + 128, 0, 255) - 128
    sums = np.zeros((16, 24))
    for row in range(16):
        for column in range(24):
            sums[row, column] = sum(whole[row, k] * int(weights[k, column]) for k in range(32))
    device = {**constants, **change}
    scales = [np.float64(np.float16(device[name])) for name in "swt"]
    right = np.clip(np.rint(sums * scales[0] * scales[1] / scales[2]) + device["z"], 0, 255)
    net.prepare(proto, {"x": x}, fault=("op", lambda array: right.astype(array.dtype)))
    code, result, _ = net.compare()
    if said is None:
        assert (code, result["summary"]["suspects"]) == (0, [])
        (row,) = [row for row in result["rows"] if row["tensor"] == "op:output:0"]
        assert "by rounding alone" in row["reason"] and "elements differ" in row["reason"]
    else:
        suspect = only_suspect(result["summary"])
        assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


def test_what_stands_behind_a_reshape_without_a_task_is_named_of_a_dump_of_outputs(net):
    """Of its input there is the output of the operator before the Reshape."""
    x = float16_values((4, 6, 8))
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("Reshape", ["t", "s"], ["r"], name="reshape"),
        node("Transpose", ["r"], ["u"], name="op", perm=[0, 2, 1, 3]),
        node("Abs", ["u"], ["y"], name="last"),
    ]
    held = [build.weight("s", np.array([4, 2, 3, 8]))]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", (4, 3, 2, 8))], held)
    wrong = -x.reshape(4, 2, 3, 8).transpose(0, 2, 1, 3)[:, ::-1]
    device = net.prepare(model, {"x": x}, fault=("op", lambda array: wrong.astype(array.dtype)))
    changed = DeviceModel(device.name)
    for op in device.ops:
        if op.name == "reshape":
            op = dataclasses.replace(op, attributes={**op.attributes, "_no_task": True})
        changed.add(op)
    write_model(changed, net.path("net.json"), "atc --model=m.onnx --input_fp16_nodes=x")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), [dump.only("output") for dump in changed.dumps()])
    summary = net.compare()[1]["summary"]
    (entry,) = only_suspect(summary)["explanations"]
    assert summary["suspects"][0]["op"] == "op" and not summary["recomputed"]["not_computed"]
    assert "reversed along axis 1" in entry["sentence"]


def test_a_loss_of_one_number_without_axes_is_looked_at():
    """Its shape is ()."""
    output = Output((0, 0), np.array(3.0, np.float16), Value(np.array(1.0, np.float32)), "float16")
    said, tried, too_few = written_instead(Written(output, lambda: (), excess))
    assert said is None and "factors and offsets" in [*tried, *too_few]


@pytest.mark.parametrize(
    "kind", ["starts and ends", "indices", "indices that are the model's", "indices of no dump"]
)
def test_whole_numbers_that_the_device_read_are_told(net, kind):
    """Of its own dump, or, where a Gather's are not dumped, by its table."""
    random, shape = np.random.RandomState(3), (2, 12, 8)
    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    if kind == "starts and ends":
        held = {"starts": [0, 0], "ends": [6, 4], "axes": [1, 2]}
        read = {"starts": [5, 3], "ends": [11, 7], "axes": [1, 2]}
        op = node("Slice", ["t", *held], ["u"], name="op")
        made, out = -x[:, 5:11, 3:7], (2, 6, 4)
    else:
        held, read = {"indices": [3, 1, 5, 0]}, {"indices": [3, 1, 4, 0]}
        op = node("Gather", ["t", "indices"], ["u"], name="op", axis=1)
        made, out = -x[:, read["indices"]], (2, 4, 8)
    nodes = [node("Neg", ["x"], ["t"], name="first"), op,
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    numbers = [build.weight(name, np.array(array, np.int64)) for name, array in held.items()]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", out)], numbers)
    device = net.prepare(model, {"x": x}, (), ("op", lambda array: made.astype(array.dtype)))
    if "no dump" not in kind:
        given = held if "the model's" in kind else read
        given = {name: np.array(values, np.int64) for name, values in given.items()}
        dump_with_constants(net, device, given)
    said = only_suspect(net.compare()[1]["summary"])["explanations"][0]["sentence"]
    assert {
        "starts and ends": "Slice with the starts and ends of its own dump (inputs 1 and 2), "
        "which are not the model's: [5, 3] for [0, 0], [11, 7] for [6, 4] (",
        "indices": "Gather with its indices of its own dump (input 1): [3, 1, 4, 0]; the model "
        "says [3, 1, 5, 0] (64 of 64",
        "indices that are the model's": "index 2 of axis 1 (of 4) holds other values throughout",
        "indices of no dump": "Gather with its indices [3, 1, 4, 0]; the model says [3, 1, 5, 0]",
    }[kind] in said


def test_a_scale_that_float16_rounds_is_not_told_as_another_one(net):
    """Beside it the zero point is another one."""
    x = float16_values((6, 4, 8))
    held = [build.weight("s", np.float32(0.03)), build.weight("z", np.int8(3))]
    nodes = [
        node("Neg", ["x"], ["t"], name="first"),
        node("QuantizeLinear", ["t", "s", "z"], ["y"], name="op"),
    ]
    model = build.model(
        nodes, [build.value("x", x.shape)], [build.value("y", x.shape, 3)], held, 18
    )
    made = np.clip(np.rint(-x / np.float32(np.float16(0.03))) + 9, -128, 127).astype(np.int8)
    device = net.prepare(model, {"x": x}, (), ("op", lambda array: made))
    dump_with_constants(net, device, {"s": np.float16(0.03), "z": np.int8(9)})
    told = only_suspect(net.compare()[1]["summary"])["explanations"]
    said = " ".join(entry["sentence"] for entry in told)
    assert "the zero point of its own dump (input 2): 9; the model says 3 (" in said
    assert "the scale and zero point" not in said


@pytest.mark.parametrize("dumped", [True, False])
def test_a_channel_by_a_factor_is_no_other_constant(net, dumped):
    """Another bias comes to about the same; the scale that is read is the model's."""
    random, shape = np.random.RandomState(5), (2, 8, 6, 6)
    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    held = {"g": 1 + 0.2 * random.standard_normal(8), "b": random.standard_normal(8)}
    held = {name: array.astype(np.float16).astype(np.float32) for name, array in held.items()}
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node("InstanceNormalization", ["t", "g", "b"], ["u"], name="op"),
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    weights = [build.weight(name, array) for name, array in held.items()]
    model = build.model(nodes, [build.value("x", shape)], [build.value("y", shape)], weights)
    factors = np.where(np.arange(8) == 3, 0.98, 1.0)[:, None, None]
    fault = ("op", lambda array: (array.astype(np.float64) * factors).astype(array.dtype))
    device = net.prepare(model, {"x": x}, (), fault)
    if dumped:
        dump_with_constants(net, device, held)
    said = only_suspect(net.compare()[1]["summary"])["explanations"]
    assert (
        "index 3 of axis 1 of its output is what is computed times 0.98, all others are right"
        in (said[0]["sentence"])
    )


TIMES = {
    "the weights of filter 5 of 8 times -1, what is added as it is; ": ("Conv", {5: -1.0}),
    "the weights of filters 2 and 5 of 8 times 0.5 and 1.5, what is added": (
        "Conv", {2: 0.5, 5: 1.5}
    ),
    "the weights of 6 of 8 filters times 0.5 to 1.25, what is added": (
        "Conv", {0: 0.5, 1: 0.75, 2: 0.8, 3: 0.9, 4: 1.1, 5: 1.25}
    ),
    "the weights of column 7 of 8 times -1, what is added as it is; ": ("Gemm", {7: -1.0}),
}  # fmt: skip


@pytest.mark.parametrize("dumped", [True, False])
@pytest.mark.parametrize("said", TIMES)
def test_filters_by_a_factor_are_named_with_the_bias_as_it_is(net, said, dumped):
    kind, factors = TIMES[said]
    random = np.random.RandomState(1)
    shape, weights = ((2, 6, 6, 6), (8, 6, 3, 3)) if kind == "Conv" else ((32, 24), (24, 8))
    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    held = {"w": 0.2 * random.standard_normal(weights), "b": random.standard_normal(8)}
    held = {name: array.astype(np.float16).astype(np.float32) for name, array in held.items()}
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node(kind, ["t", "w", "b"], ["u"], name="op"),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    given = [build.weight(name, array) for name, array in held.items()]
    ends = [build.value("x", shape)], [build.value("y", None)]
    wide = (8, 1, 1) if kind == "Conv" else (8,)
    times, bias = np.ones(wide), held["b"].reshape(wide)
    for number, factor in factors.items():
        times[number] = factor
    fault = ("op", lambda array: ((array - bias) * times + bias).astype(array.dtype))
    device = net.prepare(build.model(nodes, *ends, given), {"x": x}, (), fault)
    if dumped:
        scaled = times.reshape((8, 1, 1, 1) if kind == "Conv" else (1, 8))
        held["w"] = (held["w"] * scaled).astype(np.float16)
        dump_with_constants(net, device, held)
        said = {
            1: "of its own dump (input 1): the model's, but for %s (" % said[15:].split(",")[0],
            2: "of its own dump (input 1; filters 2 and 5 of 8 are not the model's) (",
            6: "of its own dump (input 1; 324 of 432 values are not the model's) (",
        }[len(factors)]
    (told,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    assert (
        "the device computed %s with " % kind + ("the weights " * dumped) + said in told["sentence"]
    )


def test_one_factor_of_all_is_not_one_for_each_filter(net):
    """Rounded sums give each filter a factor of its own, which fits as well."""
    random = np.random.RandomState(1)
    x = random.standard_normal((2, 16, 20, 20)).astype(np.float16).astype(np.float32)
    held = {
        "w": 0.1 * random.standard_normal((24, 16, 3, 3)),
        "b": 0.02 * random.standard_normal(24),
    }
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node("Conv", ["t", "w", "b"], ["u"], name="op"),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    given = [build.weight(name, array.astype(np.float32)) for name, array in held.items()]
    ends = [build.value("x", x.shape)], [build.value("y", None)]
    fault = ("op", lambda array: (array * np.float32(0.98)).astype(array.dtype))
    net.prepare(build.model(nodes, *ends, given), {"x": x}, (), fault)
    (told,) = only_suspect(net.compare()[1]["summary"])["explanations"][:1]
    assert "its output is what is computed times 0.98 (" in told["sentence"]


def test_values_that_are_cut_off_are_not_read_from_a_table():
    """Where what is computed has more digits than the device's numbers, some of these are equal."""
    x = np.linspace(-3, 3, 4096, dtype=np.float32)
    made = 1 / (1 + np.exp(-x.astype(np.float64)))
    equal = np.where(np.arange(4096) % 64 == 1, np.roll(made, 1), made)
    cut = np.minimum(equal, 0.3).astype(np.float32)
    output = Output((0, 0), cut, Value(made), "float32")
    assert not list(from_table(Written(output, list, excess, [x])))


@pytest.mark.parametrize(
    "kind, read",
    [("Add", "x (output 0)"), ("Mul", "second (output 0)"), ("Concat", "second (output 0)")],
)
def test_another_tensor_that_was_read_in_place_of_an_input_is_named(net, kind, read):
    """The json says what the model does: no edge tells it, but the values do."""
    x = np.random.RandomState(1).standard_normal((4, 24)).astype(np.float16)
    nodes = [node("Tanh", ["x"], ["t"], name="first"), node("Exp", ["x"], ["s"], name="second"),
             node("Cos", ["x"], ["c"], name="third"),
             node(kind, ["t", "c"], ["u"], name="op", **({"axis": 1} if kind == "Concat" else {})),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", None)], [])
    made = {}

    def kept(name):
        return lambda array: made.setdefault(name, array.astype(np.float16).astype(np.float32))

    def wrong(array):
        other = x.astype(np.float32) if read.startswith("x") else made["second"]
        sides = (other, made["third"])
        return {
            "Add": np.add, "Mul": np.multiply, "Concat": lambda *each: np.concatenate(each, 1),
        }[kind](*sides).astype(array.dtype)  # fmt: skip

    faults = {"second": kept("second"), "third": kept("third"), "op": wrong}
    net.prepare(model, {"x": x.astype(np.float32)}, (), faults)
    (told,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    said = "%s with its input 0 from %s; the model says from first (output 0) (" % (kind, read)
    assert "the device computed " + said in told["sentence"]
    assert "an edge drawn otherwise" in told["next"]


@pytest.mark.parametrize("columns", [32, 24])
def test_an_input_that_is_stored_with_padding_has_the_size_that_the_model_says(net, columns):
    """16 rows of 32 columns are stored for 8: as many elements as another tensor has."""
    random = np.random.RandomState(3)
    x = random.standard_normal((1, 8, columns)).astype(np.float16).astype(np.float32)
    w = (random.standard_normal((columns, 64)) / 6).astype(np.float16).astype(np.float32)
    nodes = [node("MatMul", ["x", "w"], ["m"], name="first"),
             node("Tanh", ["m"], ["t"], name="second"), node("Add", ["t", "m"], ["u"], name="op"),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    model = build.model(
        nodes, [build.value("x", x.shape)], [build.value("y", None)], [build.weight("w", w)]
    )
    device = net.prepare(model, {"x": x}, (), {"op": lambda array: array * np.float32(1.05)})
    blocked = DeviceModel(device.name)
    for op in device.ops:
        if op.name == "x":
            stored = dataclasses.replace(op.outputs[0], format="FRACTAL_NZ")
            op = dataclasses.replace(op, outputs=(stored,))
        blocked.add(op)
    write_model(blocked, net.path("net.json"), "atc --model=m.onnx --input_fp16_nodes=x")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), blocked.dumps())
    code, result, said = net.compare()
    assert code == 1, said
    (told,) = only_suspect(result["summary"])["explanations"][:1]
    assert "times 1.05" in told["sentence"]


@pytest.mark.parametrize("direction", ["bidirectional", "reverse"])
@pytest.mark.parametrize("runs", ["forward", "backward"])
def test_a_backward_direction_that_is_not_turned_is_named(net, direction, runs):
    """It runs from the first step on, or hands on its steps as it made them."""
    random, steps, hidden = np.random.RandomState(2), 6, 5
    count = 2 if direction == "bidirectional" else 1
    x = random.standard_normal((steps, 3, 4)).astype(np.float16).astype(np.float32)
    w, r = (
        (0.4 * random.standard_normal((count, hidden, size))).astype(np.float16).astype(np.float32)
        for size in (4, hidden)
    )
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node("RNN", ["t", "w", "r"], ["u"], name="op", hidden_size=5, direction=direction),
             node("Sin", ["u"], ["y"], name="last")]  # fmt: skip
    held = [build.weight("w", w), build.weight("r", r)]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", None)], held)

    def wrong(array):
        array, state = array.copy(), np.zeros((3, hidden))
        if runs == "backward":
            array[:, -1] = array[::-1, -1]
            return array
        for step in range(steps):
            state = np.tanh(-x[step] @ w[-1].T + state @ r[-1].T)
            array[step, -1] = state
        return array

    net.prepare(model, {"x": x}, (), ("op", wrong))
    entry = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    said = {
        "backward": "written in the order in which it ran; the model says in the order of the in",
        "forward": "from the first step on; the model says from the last step on (",
    }[runs]
    if (direction, runs) == ("reverse", "forward"):
        said = "RNN with direction forward; the model says reverse ("
    assert said in entry["sentence"]


@pytest.mark.parametrize(
    "kind, causes",
    [("Sigmoid", ""), ("Tanh", "computed of inputs that are 0, or "),
     ("Resize", "computed of inputs that are 0, or "),
     ("Conv", "computed of weights or inputs that are 0, or ")],
)  # fmt: skip
def test_zeros_are_said_to_come_of_what_the_operator_has(net, kind, causes):
    random = np.random.RandomState(0)
    x = random.standard_normal((1, 4, 8, 8)).astype(np.float16).astype(np.float32)
    held = {"w": random.standard_normal((4, 4, 1, 1)), "s": np.array([1, 1, 2, 2])}
    held = [build.weight(name, array.astype(np.float32)) for name, array in held.items()]
    given = {"Conv": ["t", "w"], "Resize": ["t", "", "s"]}.get(kind, ["t"])
    nodes = [node("Neg", ["x"], ["t"], name="first"), node(kind, given, ["u"], name="op"),
             node("Cos", ["u"], ["y"], name="last")]  # fmt: skip
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", None)], held)

    def wrong(array):
        array = array.copy()
        array[:, :, 5] = 0
        return array

    net.prepare(model, {"x": x}, (), ("op", wrong))
    (entry,) = only_suspect(net.compare()[1]["summary"])["explanations"]
    said = "index 5 of axis 2 (of %d) is 0 throughout" % (16 if kind == "Resize" else 8)
    says = said + ", and all others are right: that part was %snot written" % causes
    assert says in entry["sentence"]


@pytest.mark.parametrize("dumped", [True, False])
def test_what_reproduces_an_output_is_told_the_likeliest_first(net, dumped):
    """A constant of 1 that is 0: a product, a quotient and a power by 1 make the same."""
    shape = (4, 48)
    x = np.random.RandomState(2).uniform(1, 9, shape).astype(np.float16).astype(np.float32)
    nodes = [node("Neg", ["x"], ["t"], name="first"), node("Add", ["t", "c"], ["u"], name="op"),
             node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
    ends = [build.value("x", shape)], [build.value("y", shape)]
    held = [build.weight("c", np.array(1.0, np.float32))]
    fault = ("op", lambda array: (-x).astype(array.dtype))
    device = net.prepare(build.model(nodes, *ends, held), {"x": x}, (), fault)
    if dumped:
        dump_with_constants(net, device, {"c": np.zeros((), np.float16)})
    said = only_suspect(net.compare()[1]["summary"])["explanations"][0]["sentence"]
    told = "its input 1 of its own dump (input 1): 0; the model says 1 (" if dumped else (
        "Add with its input 1 missing; the model has its input 1 (192 of 192 elements agree, with "
        "the model's 0 %); the same is Mul or Div or Pow for Add; its output holds what first"
    )  # fmt: skip
    assert told in said and ("; the same is" in said) != dumped


def test_the_last_sentence_names_what_was_read_otherwise_and_where_the_error_arose(net):
    shape = (4, 48)
    x = np.random.RandomState(2).uniform(10, 11, shape).astype(np.float16).astype(np.float32)
    nodes = [node("Neg", ["x"], ["t"], name="first"),
             node("LeakyRelu", ["t"], ["u"], name="op", alpha=0.5),
             node("Add", ["u", "c"], ["v"], name="near"),
             node("Abs", ["v"], ["y"], name="last")]  # fmt: skip
    ends = [build.value("x", shape)], [build.value("y", shape)]
    held = [build.weight("c", np.full((1, 48), 5.0, np.float32))]
    fault = ("op", lambda array: (array * np.float32(1.02)).astype(array.dtype))
    net.prepare(build.model(nodes, *ends, held), {"x": x}, (), fault)
    _, result, text = net.compare()
    assert result["summary"]["first_divergence"]["op"] == "near"
    assert only_suspect(result["summary"])["op"] == "op"
    assert (
        "it is right, and op before it is wrong, though within its limits: the error is inherited: "
        "the device computed LeakyRelu with alpha 0.51; the model says 0.5. Besides, op (LeakyRelu)"
        in text
    )


IN_PAIRS = {
    "six axes": (
        (1, 3, 4, 3, 4, 5), {}, ("Transpose", {"perm": [0, 1, 3, 2, 4, 5]}),
        {"perm": [0, 3, 1, 4, 2, 5]}, "Transpose with perm [0, 3, 1, 4, 2, 5]; the model says",
    ),
    "linear for nearest": (
        (1, 3, 6, 7), {"": None, "scales": np.float32([1, 1, 2, 2])},
        ("Resize", {"mode": "nearest", "nearest_mode": "floor",
                    "coordinate_transformation_mode": "asymmetric"}),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        "Resize with mode linear and coordinate_transformation_mode align_corners; the model says "
        "nearest and coordinate_transformation_mode asymmetric (",
    ),
    "dilation of a causal convolution": (
        (1, 4, 96), {"w": (5, 4, 2)}, ("Conv", {"dilations": [4], "pads": [4, 0]}),
        {"dilations": [1], "pads": [1, 0]},
        "Conv with dilations [1] and pads [1, 0]; the model says [4] and pads [4, 0] (",
    ),
    "filters stored otherwise": (
        (1, 6, 12, 12), {"w": (5, 6, 3, 3)}, ("Conv", {"pads": [1, 1, 1, 1]}), "w",
        "Conv with the weights stored with its axes in the order [0, 2, 3, 1], and read in its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(IN_PAIRS))
def test_what_is_read_otherwise_in_two_attributes_or_many_axes_is_named(net, kind):
    shape, held, (op_type, attributes), other, said = IN_PAIRS[kind]
    random = np.random.RandomState(4)
    x = random.standard_normal(shape).astype(np.float16).astype(np.float32)
    held = {
        name: random.standard_normal(array).astype(np.float16).astype(np.float32)
        if isinstance(array, tuple)
        else array
        for name, array in held.items()
    }
    wrong = dict(held)
    if isinstance(other, str):
        wrong[other] = held[other].transpose(0, 2, 3, 1).reshape(held[other].shape)
        other = {}

    def model(attributes, held):
        op = node(op_type, ["t", *held], ["u"], name="op", **attributes)
        nodes = [node("Neg", ["x"], ["t"], name="first"), op,
                 node("Abs", ["u"], ["y"], name="last")]  # fmt: skip
        weights = [build.weight(name, array) for name, array in held.items() if name]
        ends = [build.value("x", shape)], [build.value("u", None), build.value("y", None)]
        return build.model(nodes, *ends, weights, 18)

    device = ReferenceEvaluator(model({**attributes, **other}, wrong))
    made = device.run(["u"], {"x": x})[0]
    fault = ("op", lambda array: made.astype(array.dtype))
    net.prepare(model(attributes, held), {"x": x}, (), fault)
    told = only_suspect(net.compare()[1]["summary"])["explanations"][0]
    assert said in told["sentence"]


@pytest.mark.parametrize("numbers", [4, 6, 64])
def test_few_numbers_beside_zeros_have_no_order_of_their_own(numbers):
    """A triangle turned over is another triangle."""
    values = np.zeros(max(8, numbers), np.float32)
    values[:numbers] = np.random.RandomState(6).standard_normal(numbers).astype(np.float16)
    output = Output((0, 0), values[::-1].copy(), Value(values), "float16")
    said, _, _ = written_instead(Written(output, lambda: (), excess))
    assert (said is not None and "reversed" in said.sentence) == (numbers > 4)
