"""What was written in place of what an operator computes, by its values alone; and what is said of
weights and constants that are others.
"""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import onnx_models as build
import pytest
from onnx.helper import make_node as node
from onnx_device import write_model
from onnx_run import OnnxRun
from scene_networks import only_suspect

from goldwatch.judging.by_recomputation import excess
from goldwatch.operators.value_with_error import Value
from goldwatch.recomputing.run_variants import written_instead
from goldwatch.recomputing.variant_trials import Output
from goldwatch.recomputing.written import Written
from goldwatch.testing.device_dump import write_files
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor


@pytest.fixture
def net(tmp_path):
    return OnnxRun(tmp_path)


def found(computed, actual, others=(), dtype="float32"):
    """Return what is found of an output beside what is computed."""
    output = Output((0, 0), actual.astype(dtype), Value(computed.astype(np.float32)), dtype)
    return written_instead(Written(output, lambda: others, excess))[0]


def drawn(*shape):
    return np.random.RandomState(5).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("axis", "words"),
    [(0, "all 4 samples hold"), (1, "all 6 indices of axis 1"), (2, "all 8 indices of axis 2")],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_axis_whose_indices_all_hold_the_first_is_named(axis, words, dtype):
    y = drawn(4, 6, 8).astype(dtype)
    first = np.repeat(y.take([0], axis), y.shape[axis], axis)
    said = found(y, first, dtype=dtype)
    assert said.kind == "not-written" and words in said.sentence
    first.reshape(-1)[:40] = 0.5
    assert found(y, first, dtype=dtype) is None


def test_elements_below_a_threshold_that_are_0_are_named():
    y = drawn(16, 32)
    made = np.where(np.abs(y) < 0.1, 0, y)
    said = found(y, made)
    zeros = np.count_nonzero(made == 0)
    words = "all %d elements (of 512) that are computed below 0.0" % zeros
    assert said.kind == "activation" and words in said.sentence and "float32" not in said.next
    # One that is larger and 0, too, is of no threshold.
    made[0, np.argmax(np.abs(y[0]))] = 0
    assert found(y, made) is None


@pytest.mark.parametrize("fill", [0, 1])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_a_tail_of_whole_numbers_that_are_0_was_not_written(dtype, fill):
    """Another whole number may be that of another element."""
    y = np.random.RandomState(2).randint(0, 7, (12, 16)).astype(dtype)
    made = y.copy()
    made.reshape(-1)[130:] = fill
    output = Output((0, 0), made, Value(y), dtype)
    said = written_instead(Written(output, lambda: (), excess))[0]
    if fill:
        assert said is None
    else:
        first = 130 + int(np.argmax(y.reshape(-1)[130:] != 0))
        assert said.kind == "not-written" and "all from %d on hold 0 (" % first in said.sentence


def test_values_too_small_for_float16_are_flushed():
    y = drawn(16, 32) * np.float32(1e-4)
    said = found(y, np.where(np.abs(y) < 6.1e-5, 0, y), dtype="float16")
    assert said.kind == "flush-to-zero" and "too small for float16" in said.next


def test_the_begin_of_a_larger_tensor_is_named_and_its_middle_is_not():
    y, other = drawn(4, 32), drawn(8, 64)[::-1]
    names = [("big (output 0)", other)]
    said = found(y, other.reshape(-1)[:128].reshape(y.shape), names)
    words = "the first of the 512 elements that big (output 0) computed"
    assert said.kind == "other-tensor" and words in said.sentence
    assert found(y, other.reshape(-1)[64:192].reshape(y.shape), names) is None


@pytest.mark.parametrize("zeros", [0, 2])
def test_channels_in_another_order_are_named_beside_others_and_beside_zeros(zeros):
    """Of 96 values 8 are in another order, two of which may be 0, as one is elsewhere."""
    y = drawn(1, 96, 1, 1)
    y[0, [75, 80, 90][: zeros + (zeros > 0)]] = 0
    order = np.arange(96)
    order[74:82] = order[74:82][::-1]
    said = found(y, y[:, order])
    order = "[81, 79, 78, 77, 76, 74]" if zeros else "[81, 80, 79, 78, 77, 76, 75, 74]"
    assert said.kind == "layout" and "of axis 1 in the order " + order in said.sentence


def test_a_number_that_is_the_same_everywhere_is_no_output_that_was_not_written():
    y = np.random.RandomState(0).randint(0, 25, 16)
    assert (
        written_instead(
            Written(Output((0, 0), np.full(16, 16), Value(y), "int64"), lambda: (), excess)
        )[0]
        is None
    )


def dumped(net, device):
    """Write a device's json and dumps in place of those that are there."""
    write_model(device, net.path("net.json"), "atc --model=m.onnx")
    shutil.rmtree(net.path("dump"))
    write_files(net.path("dump"), device.dumps())


def coarse(array):
    """Return values with 11 bits, as some devices multiply float32."""
    fraction, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.rint(np.ldexp(fraction, 11)), exponent - 11).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("times 1.04", "is what is computed times 1.04 ("),
        ("transposed", "transposed: axes [0, 2, 1]"),
        ("no bias", "computed Add with its input 1 missing"),
    ],
)
def test_coarse_products_of_float32_do_not_hide_what_else_is_wrong(net, kind, words):
    random, last = np.random.RandomState(3), 3
    weights = [random.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(last + 1)]
    bias, x = (random.standard_normal(size).astype(np.float32) for size in (32, (2, 32, 32)))
    device = DeviceModel("net")
    device.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    nodes, at, value = [], "x", x
    for number, weight in enumerate(weights):
        name, made, end = ("%s%d" % (word, number) for word in ("mm", "m", "a"))
        nodes.append(node("MatMul", [at, "w%d" % number], [made], name=name))
        nodes.append(node("Add", [made, "b"], [end], name="add%d" % number))
        product = coarse(value) @ coarse(weight)
        value = product + bias
        if number == 2:
            value = {
                "times 1.04": value * np.float32(1.04),
                "transposed": np.ascontiguousarray(value.swapaxes(1, 2)),
                "no bias": product,
            }[kind]
        tensor = DeviceTensor(value, origin_name="add%d" % number)
        source = "x" if number == 0 else "mm%d" % (number - 1)
        originals = ("add%d" % number, name)
        device.add(DeviceOp(name, "MatMulV2", ((source, 0),), (tensor,), originals))
        at = end
    held = [build.weight("w%d" % number, array) for number, array in enumerate(weights)]
    held.append(build.weight("b", bias))
    ends = [build.value("x", x.shape)], [build.value(at, x.shape)]
    net.prepare(build.model(nodes, *ends, held), {"x": x})
    dumped(net, device)
    suspect = only_suspect(net.compare()[1]["summary"])
    assert suspect["op"] == "mm2" and words in suspect["explanations"][0]["sentence"]


def test_an_operator_is_right_by_the_weight_that_the_device_dequantised(net):
    random = np.random.RandomState(3)
    x = random.standard_normal((4, 16)).astype(np.float32)
    stored = random.randint(-127, 128, (16, 16)).astype(np.int8)
    scale, zero = np.float32(0.02), np.int8(0)
    nodes = [
        node("DequantizeLinear", ["w", "s", "z"], ["wide"], name="dq"),
        node("MatMul", ["x", "wide"], ["y"], name="mm"),
    ]
    held = [build.weight(*one) for one in (("w", stored), ("s", scale), ("z", zero))]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", (4, 16))], held)
    net.prepare(model, {"x": x})
    wide = stored.astype(np.float32) * np.float32(0.03)
    device = DeviceModel("net")
    device.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    device.add(DeviceOp("w", "Const", outputs=(DeviceTensor(stored),)))
    for name, kind, inputs, array in (
        ("dq", "DequantizeLinear", (("w", 0),), wide),
        ("mm", "MatMulV2", (("x", 0), ("dq", 0)), x @ wide),
    ):
        tensor = DeviceTensor(array, origin_name=name)
        device.add(DeviceOp(name, kind, inputs, (tensor,), (name,)))
    dumped(net, device)
    assert only_suspect(net.compare()[1]["summary"])["op"] == "dq"


@pytest.mark.parametrize(("rows", "told"), [(1, False), (4, True)])
def test_one_row_tells_no_bias(net, rows, told):
    """Any row of a product is that of some bias."""
    random = np.random.RandomState(3)
    x, weight = (random.standard_normal(size).astype(np.float32) for size in ((rows, 16), (16, 32)))
    own, other = random.standard_normal((2, 32)).astype(np.float32)
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], name="fc")]
    held = [build.weight("w", weight), build.weight("b", own)]
    model = build.model(nodes, [build.value("x", x.shape)], [build.value("y", (rows, 32))], held)
    net.prepare(model, {"x": x})
    device = DeviceModel("net")
    device.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    tensor = DeviceTensor(x @ weight + other, origin_name="fc")
    device.add(DeviceOp("fc", "MatMulV2", (("x", 0),), (tensor,), ("fc",)))
    dumped(net, device)
    sentence = only_suspect(net.compare()[1]["summary"])["explanations"][0]["sentence"]
    assert ("the bias other than the model's" in sentence) == told


def test_constants_of_few_operators_that_are_others_are_no_other_model(net):
    """Most operators have the model's weights: those that have not are wrong."""
    random, ops = np.random.RandomState(3), 6
    x = random.standard_normal((4, 16)).astype(np.float32)
    weights = [random.standard_normal((16, 16)).astype(np.float32) / 4 for _ in range(ops)]
    bias = random.standard_normal(16).astype(np.float32)
    nodes, held, at, value = [], [build.weight("b", bias)], "x", x
    device = DeviceModel("net")
    device.add(DeviceOp("x", "Data", outputs=(DeviceTensor(x, origin_name="x"),)))
    for number, weight in enumerate(weights):
        product, end = "m%d" % number, "a%d" % number
        nodes.append(node("MatMul", [at, "w%d" % number], [product], name=product))
        nodes.append(node("Add", [product, "b"], [end], name=end))
        held.append(build.weight("w%d" % number, weight))
        value = value @ weight
        tensor = DeviceTensor(value, origin_name=product)
        device.add(DeviceOp(product, "MatMulV2", ((at, 0),), (tensor,), (product,)))
        given = random.standard_normal(16).astype(np.float32) if number in (1, 3) else bias
        device.add(DeviceOp("c%d" % number, "Const", outputs=(DeviceTensor(given),)))
        value = value + given
        inputs, tensor = ((product, 0), ("c%d" % number, 0)), DeviceTensor(value, origin_name=end)
        device.add(DeviceOp(end, "Add", inputs, (tensor,), (end,)))
        at = end
    ends = [build.value("x", x.shape)], [build.value(at, x.shape)]
    net.prepare(build.model(nodes, *ends, held), {"x": x})
    dumped(net, device)
    suspects = net.compare()[1]["summary"]["suspects"]
    assert [one["op"] for one in suspects] == ["a1", "a3"]
    assert all("of its own dump" in one["explanations"][0]["sentence"] for one in suspects)
    assert {one["confidence"] for one in suspects} == {"high"}


def test_suspects_by_golden_data_of_a_file_that_has_changed_are_little_sure(net):
    random = np.random.RandomState(3)
    x = random.standard_normal((4, 16)).astype(np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["t"], name="first"),
        node("Relu", ["t"], ["y"], name="last"),
    ]

    def model(scale):
        weight = build.weight("w", (scale * np.eye(16)).astype(np.float32))
        return build.model(
            nodes, [build.value("x", x.shape)], [build.value("y", x.shape)], [weight]
        )

    net.prepare(model(2.0), {"x": x})
    build.save(pathlib.Path(net.path("m.onnx")), model(3.0))
    net.dump({"x": x})
    code, result, said = net.compare()
    summary = result["summary"]
    assert code == 1 and {one["confidence"] for one in summary["suspects"]} <= {"low", "none"}
    assert "m.onnx has changed since golden data were made of it" in " ".join(said.split())
    assert "But golden data are of another model file" in said


def test_a_json_of_another_om_makes_no_suspect_sure(net):
    """One op of six has another name there: the om was compiled again."""
    x = np.random.RandomState(3).standard_normal((4, 16)).astype(np.float32)
    names = ["a%d" % number for number in range(6)]
    values = ["x", *names[:-1], "y"]
    nodes = [
        node("Relu" if number == 2 else "Neg", [values[number]], [values[number + 1]], name=name)
        for number, name in enumerate(names)
    ]
    ends = [build.value("x", x.shape)], [build.value("y", x.shape)]
    net.prepare(build.model(nodes, *ends), {"x": x}, fault=("a4", lambda array: 2 * array))
    assert only_suspect(net.compare()[1]["summary"])["confidence"] == "high"
    text = pathlib.Path(net.path("net.json")).read_text(encoding="utf-8")
    pathlib.Path(net.path("net.json")).write_text(text.replace('"a1', '"b1'), encoding="utf-8")
    code, result, said = net.compare()
    assert code == 1 and only_suspect(result["summary"])["confidence"] == "low"
    assert "1 of TARGET's 6 ops is not in" in said and "But TARGET has ops that are not in" in said
