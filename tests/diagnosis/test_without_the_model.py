"""What is told of a wrong operator where the original model is not known: golden data, and the
attributes of the json, show what it computes."""

from __future__ import annotations

import os

import numpy as np
import pytest

TIMESTAMP = 1767323045000000


def softmax(x, axis):
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


def thresholded(x, alpha):
    return np.where(x > alpha, x, 0).astype(x.dtype)


def alike(one, other):
    return one - other


KINDS = {
    "an axis": (
        "SoftmaxV2", lambda x: softmax(x, 2), lambda x: softmax(x, 1), {},
        "the device computed Softmax with axis 1; golden data follow with 2 (",
    ),
    "a slope": (
        "LeakyRelu", lambda x: np.where(x < 0, 0.1 * x, x), lambda x: np.where(x < 0, 0.37 * x, x),
        {}, "the device computed LeakyRelu with alpha 0.37; golden data follow with 0.1 (",
    ),
    "a function": (
        "Atan", np.arctan, np.tanh, {},
        "the device computed Tanh for Atan; golden data follow with Atan (",
    ),
    "axes": (
        "ReduceMean", lambda x: x.mean(2), lambda x: x.mean(1), {},
        "the device computed ReduceMean with axes [1]; golden data follow with [2] (",
    ),
    "what the json says": (
        "ThresholdedRelu", lambda x: thresholded(x, 0.2), lambda x: thresholded(x, 0.75),
        {"alpha": {"f": 0.75}},
        "the device computed ThresholdedRelu as the om's json says (alpha 0.75); golden data "
        "follow with alpha 0.2: which of both the original model says is not known without it",
    ),
    "nor what the json says": (
        "ThresholdedRelu", lambda x: thresholded(x, 0.2), lambda x: thresholded(x, 0.5),
        {"alpha": {"f": 0.75}}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_was_read_otherwise_is_told_without_the_original_model(scene, random, kind):
    """By other ways than the one by which golden outputs follow from golden inputs."""
    op_type, model, device, attributes, said = KINDS[kind]
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("op", op_type, ["data"], model(golden), device(made))
    scene.ops[-1]["attr"] = [{"key": key, "value": value} for key, value in attributes.items()]
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    told = [entry["sentence"] for entry in suspect["explanations"]]
    assert suspect["op"] == "op"
    assert told[0].startswith(said) if said else not any("the device computed" in t for t in told)


@pytest.mark.parametrize(("op_type", "make"), [("Sub", alike), ("Concat", None)])
def test_inputs_in_another_order_are_told_without_the_original_model(scene, random, op_type, make):
    make = make or (lambda one, other: np.concatenate([one, other], 1))
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    scene.op("one", "Square", ["data"], golden**2, scene.made["data"].astype(np.float32) ** 2)
    scene.op("two", "Abs", ["data"], np.abs(golden), np.abs(scene.made["data"]))
    made = [scene.made[name].astype(np.float32) for name in ("two", "one")]
    scene.op("op", op_type, ["one", "two"], make(scene.golden["one"], scene.golden["two"]),
             make(*made))  # fmt: skip
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    said = "the device computed %s with the order of its inputs [1, 0]; golden data follow with"
    assert suspect["op"] == "op"
    assert suspect["explanations"][0]["sentence"].startswith(said % op_type)


OF_ASCEND = {
    "Pow": (
        ["two", "three"], lambda x, y: x**y, lambda x, y: y**x,
        "Pow with the order of its inputs [1, 0]; golden data follow with [0, 1] (",
    ),
    "SelectV2": (
        ["less", "one", "two"], np.where, lambda c, x, y: np.where(c, y, x),
        "SelectV2 with the order of its inputs [2, 1]; golden data follow with [1, 2] (",
    ),
    "BatchMatMulV2": (
        ["one", "two"], np.matmul, lambda x, y: x @ y.swapaxes(1, 2),
        "BatchMatMulV2 with adj_y True; golden data follow with False (",
    ),
    "PRelu": (
        ["one", "two"], lambda x, y: np.where(x < 0, y * x, x),
        lambda x, y: np.where(x < 0, -y * x, x),
        "PRelu with the slope of the other sign; golden data follow with the slope unchanged (",
    ),
    "CumsumD": (
        ["one"], lambda x: np.cumsum(x, 1), lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1],
        "CumsumD with reverse 1; golden data follow with 0 (",
    ),
}  # fmt: skip


@pytest.mark.parametrize("op_type", sorted(OF_ASCEND))
def test_an_operator_of_ascend_ir_is_read_otherwise_as_the_same_one_of_onnx(scene, random, op_type):
    """What it computes is known by the json's attributes, not by its type alone."""
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    for name, function in (
        ("one", np.sin), ("two", lambda x: 1 / (1 + np.exp(-x))), ("three", lambda x: np.cos(x) + 2)
    ):  # fmt: skip
        scene.op(name, {"one": "Sin", "two": "Sigmoid", "three": "Other"}[name], ["data"],
                 function(golden), function(made))  # fmt: skip
    scene.op("less", "Less", ["one", "two"], scene.golden["one"] < scene.golden["two"],
             scene.made["one"] < scene.made["two"])  # fmt: skip
    read, model, device, said = OF_ASCEND[op_type]
    given = [np.float32(scene.made[name]) for name in read]
    given = [one > 0 if name == "less" else one for name, one in zip(read, given)]
    scene.op("op", op_type, read, model(*(scene.golden[name] for name in read)), device(*given))
    if op_type == "CumsumD":
        scene.ops[-1]["attr"] = [{"key": "axis", "value": {"i": 1}}]
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op"
    assert said in suspect["explanations"][0]["sentence"]


def fed_with(one, other):
    """Two tensors of one shape, and an operator that the om feeds with other ones than golden data
    follow from: as type, its inputs in the om, golden and made by numpy."""
    return {
        "Sub": (["two", "one"], one - other, "from them in the order [1, 0]"),
        "RealDiv": (["two", "one"], one / other, "from them in the order [1, 0]"),
        "ConcatD": (
            ["two", "one"], np.concatenate([one, other], 1), "from them in the order [1, 0]"
        ),
        "PRelu": (
            ["two", "one"], np.where(one < 0, other * one, one), "from them in the order [1, 0]"
        ),
        "SoftmaxV2": (["two"], softmax(one, 2), "from one:output:0 there"),
        "Relu": (["two"], np.maximum(one, 0), "from one:output:0 there"),
        "Mul": (["two", "two"], one * other, "from one:output:0 there"),
    }  # fmt: skip


@pytest.mark.parametrize("form", ["all", "output"])
@pytest.mark.parametrize("op_type", sorted(fed_with(np.ones((1, 1, 1)), np.ones((1, 1, 1)))))
def test_an_edge_that_the_om_has_otherwise_is_told_without_the_original_model(
    scene, random, op_type, form
):
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("one", "Sin", ["data"], np.sin(golden), np.sin(made))
    scene.op("two", "Sigmoid", ["data"], 1 / (1 + np.exp(-golden)), 1 / (1 + np.exp(-made)))
    read, value, said = fed_with(scene.golden["one"], scene.golden["two"])[op_type]
    device = [scene.made[name].astype(np.float32) for name in read]
    by_om = {
        "Sub": lambda x, y: x - y,
        "RealDiv": lambda x, y: x / y,
        "ConcatD": lambda x, y: np.concatenate([x, y], 1),
        "PRelu": lambda x, y: np.where(x < 0, y * x, x),
        "SoftmaxV2": lambda x: softmax(x, 2),
        "Relu": lambda x: np.maximum(x, 0),
        "Mul": lambda x, y: x * y,
    }
    scene.op("op", op_type, read, value, by_om[op_type](*device), with_inputs=form == "all")
    attr = {"ConcatD": "concat_dim", "SoftmaxV2": "axes"}.get(op_type)
    if attr:
        told = {"i": 1} if attr == "concat_dim" else {"list": {"i": [2], "val_type": "VT_LIST_INT"}}
        scene.ops[-1]["attr"] = [{"key": attr, "value": told}]
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op"
    assert said in suspect["explanations"][0]["sentence"]


@pytest.mark.parametrize("form", ["all", "output"])
def test_what_reshapes_without_a_task_hides_no_attribute(scene, random, form):
    """An operator reads what its producer wrote in another shape; golden data follow in this."""
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    scene.op("one", "Sin", ["data"], np.sin(golden), np.sin(scene.made["data"].astype(np.float32)))
    read = scene.golden["one"].reshape(4, 6, 24)
    device = scene.made["one"].astype(np.float32).reshape(4, 6, 24)
    scene.op("op", "SoftmaxV2", ["one"], softmax(read, 2), softmax(device, 1),
             with_inputs=form == "all")  # fmt: skip
    shape = {"list": {"i": [4, 6, 24], "val_type": "VT_LIST_INT"}}
    scene.ops[-1]["input_desc"] = [
        {"layout": "ND", "attr": [{"key": "origin_shape", "value": shape}]}
    ]
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    said = "the device computed Softmax with axis 1; golden data follow with 2 ("
    assert suspect["explanations"][0]["sentence"].startswith(said)


@pytest.mark.parametrize("told", [True, False])
def test_constants_of_a_dump_that_golden_data_do_not_follow_by_are_told(scene, random, told):
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    for name, values in (("begin", [0, 1, 0]), ("end", [4, 9, 12]), ("strides", [1, 2, 1])):
        scene.ops.append({"name": name, "type": "Const", "id": len(scene.ops)})
        scene.made[name] = np.array(values, np.int64)
    scene.op("op", "StridedSlice", ["data", "begin", "end", "strides"], golden[:, 2:10:2],
             scene.made["data"][:, 1:9:2])  # fmt: skip
    if told:
        scene.ops[-1]["attr"] = [{"key": "begin_mask", "value": {"i": 0}}]
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    said = (
        "the device computed StridedSlice as the om's json says with the constants of its dump "
        "(input 1: [0, 1, 0], input 2: [4, 9, 12], input 3: [1, 2, 1]); golden data follow with "
        "its input 0 rolled by -1 along axis 1: which of both"
    )
    assert suspect["explanations"][0]["sentence"].startswith(said)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_gather_of_ascend_ir_has_its_axis_as_a_list(scene, random, axis):
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    places = random.permutation(12).astype(np.int64)
    scene.data(places, "places")
    device = scene.made["data"].astype(np.float32)
    scene.op("op", "GatherV2D", ["data", "places"], np.take(golden, places, axis),
             np.take(device, places, axis))  # fmt: skip
    axes = {"list": {"i": [axis], "val_type": "VT_LIST_INT"}}
    scene.ops[-1]["attr"] = [{"key": "axis", "value": axes}]
    code, summary, _ = scene.compare("--recompute", "all")
    assert code == 0
    assert summary["recomputed"]["right"] == 1


def test_a_product_whose_factor_is_not_known_ends_no_run(scene, random):
    """Its attributes are in the json, and its weights in no dump."""
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    weights = random.standard_normal((12, 8)).astype(np.float32)
    scene.op("op", "MatMulV2", ["data"], golden @ weights,
             scene.made["data"].astype(np.float32) @ weights[::-1])  # fmt: skip
    scene.ops[-1]["attr"] = [{"key": "transpose_x1", "value": {"b": False}}]
    code, summary, _ = scene.compare()
    assert code == 1
    assert [suspect["op"] for suspect in summary["suspects"]] == ["op"]


@pytest.mark.parametrize("order", [(1, 2, 0), (0, 2, 1), (1, 0, 2), (0, 1, 2)])
@pytest.mark.parametrize("wrong", ["outputs", "golden"])
def test_outputs_in_another_order_are_not_wrong_golden_data(scene, random, order, wrong):
    """They are the operator's where what reads them is wrong, too; else golden data's."""
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    parts = np.split(golden, 3, 1)
    made = [part.astype(np.float16) for part in parts]
    read = [made[at] for at in order] if wrong == "outputs" else made
    kept = [parts[at] for at in order] if wrong == "golden" else parts
    scene.ops.append({"name": "op", "type": "SplitVD", "id": 1, "input": ["data:0"],
                      "output_desc": [{"layout": "ND"}] * 3})  # fmt: skip
    scene.write("dump", "", "op", "SplitVD", [scene.made["data"]], read)
    for number, part in enumerate(kept):
        np.save(os.path.join(scene.golden_dir, "op.%d.%d.npy" % (number, TIMESTAMP)), part)
    for number in range(3):
        name = "reader%d" % number
        reader = {"name": name, "type": "Sin", "id": 2 + number, "input": ["op:%d" % number]}
        scene.ops.append({**reader, "output_desc": [{"layout": "ND"}]})
        value = np.sin(read[number].astype(np.float32)).astype(np.float16)
        scene.write("dump", "", name, "Sin", [read[number]], [value])
        scene.npy(name, np.sin(parts[number]))
    code, summary, _ = scene.compare()
    told = [
        (entry["kind"], entry["sentence"])
        for suspect in summary["suspects"]
        if suspect["op"] == "op"
        for entry in suspect["explanations"]
    ]
    said = "its outputs [0, 1, 2] hold what golden data have as its outputs %s"
    if order == (0, 1, 2):
        assert code == 0
    elif wrong == "outputs":
        assert told[0] == ("attribute", said % list(order))
    else:
        assert told[0][0] == "wrong-golden"


def quantised(x, scale, zero, low=-128, high=127):
    return np.clip(np.rint(np.float64(x) / scale) + zero, low, high).astype(np.int8)


def const(scene, name, values):
    scene.ops.append({"name": name, "type": "Const", "id": len(scene.ops)})
    scene.made[name] = values


OF_DUMP = {
    "a factor": ("Mul", -4, 4, lambda x, c: x * c, "Mul"),
    "a divisor": ("RealDiv", 2.83, 8, lambda x, c: x / c, "Div"),
    "a summand": ("Add", 1.5, -3, lambda x, c: x + c, "Add"),
    "what is taken away": ("Sub", 0.5, 2, lambda x, c: x - c, "Sub"),
    "an exponent": ("Pow", 2, 3, lambda x, c: x**c, "Pow"),
}


@pytest.mark.parametrize("kind", sorted(OF_DUMP))
def test_a_constant_of_its_dump_is_told_before_a_function_behind(scene, random, kind):
    """Of few different values the other sign is what Abs makes, 1 for 10000 what Tanh does."""
    op_type, model, device, compute, name = OF_DUMP[kind]
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    const(scene, "constant", np.float16(device))
    made = scene.made["data"].astype(np.float32)
    scene.op("op", op_type, ["data", "constant"], compute(golden, np.float32(np.float16(model))),
             compute(made, np.float32(device)))  # fmt: skip
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    said = suspect["explanations"][0]["sentence"]
    assert suspect["op"] == "op"
    assert said.startswith(
        "the device computed %s with its input 1 of its own dump (input 1): %s; golden data follow "
        "with %s" % (name, device, model)
    )
    assert "the model" not in said


@pytest.mark.parametrize(("kind", "said"), [
    ("reversed", "): golden data's reversed along axis 2 (1,152 of 1,152"),
    ("zero", "): 0 throughout (1,152 of 1,152"),
    ("other", "; 24 of 24 values are not golden data's) (1,152 of 1,152"),
    ("doubled", "): golden data's doubled (1,152 of 1,152"),
    ("moved", "): golden data's plus 0.5 (1,152 of 1,152"),
    ("quantised", "): golden data's rounded to 8 bits (1,152 of 1,152"),
])  # fmt: skip
def test_a_constant_of_several_values_is_told_before_an_offset_for_each(scene, random, kind, said):
    golden = scene.data(random.standard_normal((4, 12, 24)).astype(np.float32))
    model = random.standard_normal(24).astype(np.float16)
    step = np.abs(model).max() / np.float32(127)
    device = {
        "reversed": model[::-1],
        "zero": np.zeros_like(model),
        "other": random.standard_normal(24),
        "doubled": model * 2,
        "moved": model + np.float16(0.5),
        "quantised": np.rint(model / step) * step,
    }[kind].astype(np.float16)
    const(scene, "constant", device)
    scene.op("op", "Add", ["data", "constant"], golden + np.float32(model),
             scene.made["data"].astype(np.float32) + np.float32(device))  # fmt: skip
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    told = suspect["explanations"][0]
    assert said in told["sentence"]
    assert told["kind"] == ("rounding" if kind == "quantised" else "attribute")


@pytest.mark.parametrize("way", ["scale", "reciprocal"])
@pytest.mark.parametrize("step", [0.03, 0.0625])
def test_a_quantiser_is_computed_of_the_scale_of_its_dump(scene, random, way, step):
    """What it decides near a tie is rounding, whichever way the om has its scale."""
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    held = np.float16(step if way == "scale" else 1.0 / step)
    used = np.float64(held if way == "scale" else 1.0 / np.float64(held))
    const(scene, "scale", held)
    const(scene, "zero", np.int8(7))
    whole = quantised(scene.made["data"], used, 7)
    scene.op("op", "AscendQuantV2", ["data", "scale", "zero"], quantised(golden, step, 7), whole,
             dtype=np.int8)  # fmt: skip
    scene.op(
        "back",
        "AscendDequantV2",
        ["op", "scale", "zero"],
        ((quantised(golden, step, 7) - 7.0) * step).astype(np.float32),
        (whole - 7.0) * used,
    )
    code, summary, text = scene.compare()
    assert np.any(whole != quantised(golden, step, 7))
    assert (code, summary["suspects"]) == (0, [])
    assert summary["recomputed"]["right"] == 2
    assert "have left limits by rounding alone" in text


def test_what_a_quantiser_decides_is_no_rounding_two_steps_off(scene, random):
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    const(scene, "scale", np.float16(0.03))
    const(scene, "zero", np.int8(0))
    whole = quantised(scene.made["data"], np.float64(np.float16(0.03)), 0)
    whole[1, 2, 3] += 2
    scene.op("op", "AscendQuantV2", ["data", "scale", "zero"], quantised(golden, 0.03, 0), whole,
             dtype=np.int8)  # fmt: skip
    code, summary, _ = scene.compare()
    assert code == 1
    assert [suspect["op"] for suspect in summary["suspects"]] == ["op"]
    assert summary["recomputed"]["wrong"] == 1


def hard_swish(x):
    return x * np.clip(x / 6 + 0.5, 0, 1)


OF_JSON = {
    "an activation": ("Relu", hard_swish, lambda x: np.maximum(x, 0), {}, "HardSwish"),
    "a function": ("Tanh", lambda x: 1 / (1 + np.exp(-x)), np.tanh, {}, "Sigmoid"),
    "a logarithm": (
        "SoftmaxV2", lambda x: np.log(softmax(x, 2)), lambda x: softmax(x, 2), {"axes": [2]},
        "LogSoftmax",
    ),
    "a reduction": (
        "ReduceMin", lambda x: x.max(1), lambda x: x.min(1), {"axes": [1], "keep_dims": False},
        "ReduceMax",
    ),
}  # fmt: skip


def attributes(values):
    forms = {bool: lambda one: {"b": one}, list: lambda one: {"list": {"i": one}},
             int: lambda one: {"i": one}, float: lambda one: {"f": one},
             str: lambda one: {"s": one}}  # fmt: skip
    return [{"key": key, "value": forms[type(one)](one)} for key, one in values.items()]


@pytest.mark.parametrize("kind", sorted(OF_JSON))
def test_the_type_that_the_json_has_is_told_where_golden_data_show_another(scene, random, kind):
    """Which of both the original model says nobody knows without it."""
    op_type, model, device, told, name = OF_JSON[kind]
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    scene.op("op", op_type, ["data"], model(golden), device(scene.made["data"].astype(np.float32)))
    scene.ops[-1]["attr"] = attributes(told)
    _, summary, text = scene.compare()
    (suspect,) = summary["suspects"]
    said = suspect["explanations"][0]["sentence"]
    assert (suspect["op"], suspect["confidence"]) == ("op", "high")
    assert said.startswith("the device computed %s as the om's json says" % op_type)
    assert "golden data follow with %s: which of both the original model says is" % name in said
    assert "so the error arises here: in the om, or in how golden data were made" in text


def test_two_inputs_of_another_type_are_told_as_the_json_has_them(scene, random):
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("one", "Sin", ["data"], np.sin(golden), np.sin(made))
    device = scene.made["one"].astype(np.float32) * made
    scene.op("op", "Mul", ["one", "data"], scene.golden["one"] + golden, device)
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    assert "; golden data follow with Add: which of both" in suspect["explanations"][0]["sentence"]


@pytest.mark.parametrize(("number", "told"), [(1, "scale 0.03"), (2, "zero point 7")])
def test_the_scale_and_zero_point_that_golden_data_show_are_told(scene, random, number, told):
    whole = scene.data(random.randint(-128, 128, (4, 12, 12)).astype(np.int8))
    golden = ((whole - 7.0) * 0.03).astype(np.float32)
    held = [np.float16(0.05 if number == 1 else 0.03), np.int8(0 if number == 2 else 7)]
    const(scene, "scale", held[0])
    const(scene, "zero", held[1])
    device = (whole - np.float32(held[1])) * np.float32(held[0])
    scene.op("op", "AscendDequantV2", ["data", "scale", "zero"], golden, device)
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    assert (
        "; golden data follow with the %s: which" % told in (suspect["explanations"][0]["sentence"])
    )


@pytest.mark.parametrize("mask", [-1e4, -3e4])
def test_masks_do_not_hide_that_golden_data_follow_from_another_tensor(scene, random, mask):
    """The scale before the mask is missing in the om: nothing is inherited."""
    golden = scene.data(8 * random.standard_normal((4, 12, 12)).astype(np.float32))
    scene.op("one", "Square", ["data"], golden**2, scene.made["data"].astype(np.float32) ** 2)
    scene.npy("scaled", scene.golden["one"] / 8)
    masks = np.where(random.random_sample((4, 12, 12)) < 0.2, mask, 0).astype(np.float32)
    scene.data(masks, "masks")
    device = scene.made["one"].astype(np.float32) + masks
    scene.op("op", "Add", ["one", "masks"], scene.golden["one"] / 8 + masks, device)
    code, summary, text = scene.compare()
    (suspect,) = summary["suspects"]
    assert code == 1 and "inherited" not in text
    assert (
        "golden data follow from scaled (output 0 of golden data, of which the om has no op)"
        in (suspect["explanations"][0]["sentence"])
    )


def test_an_operator_that_is_missing_before_a_view_is_not_inherited(scene, random):
    """What is read is what was written, within its limits; golden data of the view are others."""
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    scene.op("one", "Sin", ["data"], np.sin(golden), np.sin(scene.made["data"].astype(np.float32)))
    scene.view("view", "Reshape", "one", (4, 6, 24))
    shifted = scene.golden["view"] + 0.3
    scene.npy("view", shifted)
    device = scene.made["view"].transpose(0, 2, 1)
    scene.op("op", "TransposeD", ["view"], shifted.transpose(0, 2, 1), device)
    made = scene.made["op"].astype(np.float32)
    scene.op("last", "Sin", ["op"], np.sin(scene.golden["op"]), np.sin(made))
    code, _, text = scene.compare()
    assert code == 1 and "inherited" not in text
    assert (
        "op:input:0 is what one wrote (one:output:0), which is within its limits, and golden data "
        "of view, which only reshapes it, are others: the om lacks an operator between them"
    ) in text


@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_a_bias_of_a_dump_that_golden_data_do_not_have(scene, random, bias, cancels):
    """Also where the output is within its limits; sums that cancel accuse nobody."""
    golden = scene.data(random.standard_normal((32, 64)).astype(np.float32))
    weights = random.standard_normal((64, 16)).astype(np.float32)
    if cancels:
        golden = scene.data(np.repeat(golden[:, :32], 2, 1), "other")
        weights[1::2] = -weights[::2] * (1 + 1e-3 * random.standard_normal((32, 16)))
    held, own = weights.astype(np.float16), (0.2 * random.standard_normal(16)).astype(np.float16)
    const(scene, "weights", held)
    const(scene, "bias", own * np.float16(bias))
    source = "other" if cancels else "data"
    made = scene.made[source].astype(np.float32) @ held.astype(np.float32)
    scene.op("op", "MatMulV2", [source, "weights", "bias"], golden @ weights + np.float32(own),
             made + np.float32(own) * np.float32(bias))  # fmt: skip
    scene.ops[-1]["attr"] = attributes({"transpose_x1": False, "transpose_x2": False})
    _, summary, _ = scene.compare("--recompute", "all")
    told = [
        entry["sentence"] for suspect in summary["suspects"] for entry in suspect["explanations"]
    ]
    if bias:
        assert not summary["suspects"], told
    else:
        assert "as the om's json says" in told[0]
        assert cancels or "input 2: bias, 0 throughout" in told[0]
        assert cancels or "the bias other than the om's in 16 of 16 values" in told[0]


@pytest.mark.parametrize("fits", [True, False])
def test_what_overflows_of_an_input_that_is_outside_its_limits_is_no_suspect(scene, random, fits):
    """Where golden data do not fit into the type it is its own, whatever comes in."""
    golden = scene.data(random.random_sample((4, 12, 12)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("first", "Other", ["data"], golden, 50 * made)
    const(scene, "factor", np.float16(10000))
    factor = 1.0 if fits else 50.0
    scene.golden["first"] = golden * factor
    scene.npy("first", golden * factor)
    device = scene.made["first"].astype(np.float32) * (1.1 if not fits else 1.0)
    scene.op("op", "Mul", ["first", "factor"], golden * factor * 10000, device * 10000)
    _, summary, text = scene.compare()
    assert summary["first_divergence"]["op"] == "first" or not fits
    assert ("op" in [suspect["op"] for suspect in summary["suspects"]]) == (not fits), text


@pytest.mark.parametrize("kind", ["first", "other", "zeros", "unrelated"])
def test_what_an_operator_of_unknown_weights_wrote_is_held_against_golden_data(scene, random, kind):
    weights = random.standard_normal((12, 12))
    shape = (1, 16, 3, 12) if kind == "zeros" else (4, 12, 12)
    golden = scene.data(random.standard_normal(shape).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("one", "Sin", ["data"], np.sin(golden), np.sin(made))
    scene.op("two", "Square", ["data"], golden**2, made**2)
    device = made @ weights
    if kind == "first":
        device[...] = device[:, :1]
        said = "all 12 indices of axis 1 hold golden data of the first one (576 of 576 elements"
    elif kind == "other":
        device = scene.made["one"]
        said = "its output holds what one (output 0) computed, element by element"
    elif kind == "zeros":
        device[:, :, 2] = 0
        said = "index 2 of axis 2 (of 3) is 0 throughout, and all others are right"
    else:
        device = random.standard_normal((4, 12, 12))
        said = "the values have nothing to do with the golden ones"
    scene.op("op", "MatMulV2", ["data"], golden @ weights, device.astype(np.float32))
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op"
    assert said in suspect["explanations"][0]["sentence"]


def conv(x, w, pads, dilation=1):
    """A convolution of NCHW, by the places of its filter."""
    (top, bottom), (left, right) = pads
    x = np.pad(np.float64(x), ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(size - 1) * dilation for size in w.shape[2:]]
    high, wide = (size - more for size, more in zip(x.shape[2:], reach))
    return np.float32(sum(
        np.einsum("nchw,oc->nohw", x[:, :, a * dilation:a * dilation + high,
                                     b * dilation:b * dilation + wide], w[:, :, a, b])
        for a in range(w.shape[2]) for b in range(w.shape[3])
    ))  # fmt: skip


def leaky(x, slope):
    return np.where(x < 0, slope * x, x)


EVEN = ((1, 1), (1, 1))
DRAWN = np.random.RandomState(8)
FILTERS = (DRAWN.standard_normal((6, 4, 3, 3)) / 6).astype(np.float16)
BIAS = DRAWN.standard_normal((1, 6, 1, 1)).astype(np.float16)
CONVOLUTIONS = {
    "dilations": (
        lambda x: conv(x, FILTERS, ((2, 2), (2, 2)), 2), lambda x: conv(x, FILTERS, EVEN),
        [1, 1, 1, 1], (), "Conv2D as the om's json says (dilations [1, 1]); "
        "golden data follow with dilations [2, 2]: which of both",
    ),
    "pads of a fused one": (
        lambda x: leaky(conv(x, FILTERS, ((1, 1), (1, 1))), 0.2),
        lambda x: leaky(conv(x, FILTERS, ((2, 0), (1, 1))), 0.2),
        [2, 0, 1, 1], ("conv", "act"), "Conv2D as the om's json says (pads [2, 1, 0, 1]); golden "
        "data follow with pads [1, 1, 1, 1]: which of both",
    ),
    "a fused slope": (
        lambda x: leaky(conv(x, FILTERS, EVEN), 0.3), lambda x: leaky(conv(x, FILTERS, EVEN), 0.05),
        [1, 1, 1, 1], ("conv", "act"),
        "the device computed LeakyRelu with alpha 0.05; golden data follow with 0.3 (",
    ),
    "a fused function": (
        lambda x: np.tanh(conv(x, FILTERS, EVEN)),
        lambda x: 1 / (1 + np.exp(-conv(x, FILTERS, EVEN))),
        [1, 1, 1, 1], ("conv", "act"),
        "the device computed Sigmoid for Tanh; golden data follow with Tanh (",
    ),
    "no function": (
        lambda x: np.maximum(conv(x, FILTERS, EVEN), 0), lambda x: conv(x, FILTERS, EVEN),
        [1, 1, 1, 1], ("conv", "act"),
        "the device computed no activation (Identity) for Relu; golden data follow with Relu (",
    ),
    "a bias": (
        lambda x: np.maximum(conv(x, FILTERS, EVEN) + BIAS, 0),
        lambda x: np.maximum(conv(x, FILTERS, EVEN), 0), [1, 1, 1, 1], ("conv", "act"),
        "(input 1: filters); golden data follow with a bias, of which the om has none: which",
    ),
    "filters": (
        lambda x: conv(x, np.float16(FILTERS[:, :, ::-1, ::-1]), EVEN),
        lambda x: conv(x, FILTERS, EVEN), [1, 1, 1, 1], (),
        "golden data follow with the filters flipped along all axes of the window: which of both",
    ),
    "right": (
        lambda x: leaky(conv(x, FILTERS, EVEN), 0.2), lambda x: leaky(conv(x, FILTERS, EVEN), 0.2),
        [1, 1, 1, 1], ("conv", "act"), "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CONVOLUTIONS))
def test_a_convolution_is_computed_by_its_json_with_what_is_fused_into_it(scene, random, kind):
    model, device, pads, fused, said = CONVOLUTIONS[kind]
    golden = scene.data(random.standard_normal((1, 4, 12, 10)).astype(np.float32))
    const(scene, "filters", FILTERS)
    made = scene.made["data"].astype(np.float32)
    scene.op("op", "Conv2D", ["data", "filters"], model(golden), device(made))
    scene.ops[-1]["attr"] = attributes(
        {"strides": [1] * 4, "dilations": [1] * 4, "pads": pads, "groups": 1, "data_format": "NCHW"}
    )
    if fused:
        names = {"list": {"s": list(fused), "val_type": "VT_LIST_STRING"}}
        scene.ops[-1]["attr"].append({"key": "_datadump_original_op_names", "value": names})
        scene.ops[-1]["output_desc"][0]["attr"] = [
            {"key": "_datadump_origin_name", "value": {"s": fused[-1]}},
            {"key": "_datadump_origin_output_index", "value": {"i": 0}},
        ]
        scene.npy(fused[-1], model(golden))
    code, summary, _ = scene.compare("--recompute", "all")
    if kind == "right":
        assert code == 0 and summary["recomputed"]["right"] == 1
        return
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


def normed(x, epsilon):
    return (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + epsilon)


def moved(x, mode):
    n, c, h, w = x.shape
    parts = (n, 2, 2, c // 4, h, w) if mode == "DCR" else (n, c // 4, 2, 2, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return x.reshape(parts).transpose(order).reshape(n, c // 4, 2 * h, 2 * w)


def pooled(x, function):
    n, c, h, w = x.shape
    return function(x.reshape(n, c, h // 2, 2, w // 2, 2), (3, 5))


def gru(x, after):
    """One layer of ONNX; the state is reset before its product or after it."""
    w, r, b, h = (np.float32(one[0]) for one in GRU)
    of_x, of_h = np.split(b, 2)
    steps = []
    for now in x:
        a = now @ w.T + of_x
        c = h @ r.T + of_h
        z, k = (1 / (1 + np.exp(-(a + c)[:, at * 5 : at * 5 + 5])) for at in (0, 1))
        last = k * c[:, 10:] if after else (k * h) @ r[10:].T + of_h[10:]
        h = (1 - z) * np.tanh(a[:, 10:] + last) + z * h
        steps.append(h[None])
    return np.stack(steps)


GRU = [
    (DRAWN.standard_normal(shape) / 2).astype(np.float16)
    for shape in ((1, 15, 6), (1, 15, 5), (1, 30), (1, 3, 5))
]
POOL = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0], "exclusive": True,
        "data_format": "NCHW"}  # fmt: skip
TYPES = {
    "a normalisation": (
        "InstanceNormalization", lambda x: normed(x, 1e-5), lambda x: normed(x, 0.05),
        {"epsilon": 0.05}, {"scale": np.ones(8, np.float16), "bias": np.zeros(8, np.float16)},
        "(epsilon 0.05); golden data follow with epsilon ",
    ),
    "the sizes of values": (
        "ReduceL1", lambda x: np.sqrt(np.square(x).sum(1)), lambda x: np.abs(x).sum(1),
        {"axes": [1], "keepdims": 0}, {}, "golden data follow with ReduceL2: which of both",
    ),
    "an order of channels": (
        "DepthToSpace", lambda x: moved(x, "CRD"), lambda x: moved(x, "DCR"),
        {"blocksize": 2, "mode": "DCR"}, {}, "(mode DCR); golden data follow with mode CRD: which",
    ),
    "a whole picture": (
        "GlobalMaxPool", lambda x: x.mean((2, 3), keepdims=True),
        lambda x: x.max((2, 3), keepdims=True), {}, {},
        "golden data follow with GlobalAveragePool: which of both",
    ),
    "a pool": (
        "AvgPoolV2", lambda x: pooled(x, np.max), lambda x: pooled(x, np.mean), POOL, {},
        "as the om's json says; golden data follow with MaxPool: which of both",
    ),
    "a border": (
        "PadV3", lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (1, 1)), "reflect"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (1, 1)), "edge"), {"mode": "edge"},
        {"pads": np.array([0, 0, 2, 1, 0, 0, 1, 1])},
        "(mode edge); golden data follow with mode reflect: which of both",
    ),
    "indices": (
        "ArgMin", lambda x: np.argmax(x, 1), lambda x: np.argmin(x, 1), {"axis": 1, "keepdims": 0},
        {}, "golden data follow with ArgMax: which of both",
    ),
    "unchanged": (
        "Maximum", lambda x: np.maximum(x, -9), lambda x: np.maximum(x, 0.5), {},
        {"least": np.float16(0.5)}, "(input 1: least, 0.5); golden data are its input 0 unchanged:",
    ),
    "a factor behind": (
        "Square", lambda x: 0.3 * x * x, lambda x: x * x, {"reason": 1}, {},
        "golden data are what that makes, times 0.3: which of both",
    ),
    "a layer": (
        "DynamicGRUV2", lambda x: gru(x, True), lambda x: gru(x, False),
        {"hidden_size": 5, "linear_before_reset": 0}, dict(zip("wrbh", GRU)),
        "(linear_before_reset 0); golden data follow with linear_before_reset 1: which of both",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_what_the_json_says_in_the_words_of_onnx_is_computed(scene, random, kind):
    op_type, model, device, told, constants, said = TYPES[kind]
    shape = (9, 3, 6) if kind == "a layer" else (1, 8, 8, 6)
    golden = scene.data(random.standard_normal(shape).astype(np.float32))
    for name, values in constants.items():
        const(scene, name, values)
    made = scene.made["data"].astype(np.float32)
    scene.op("op", op_type, ["data", *constants], model(golden), device(made))
    scene.ops[-1]["attr"] = attributes(told)
    _, summary, _ = scene.compare("--recompute", "all")
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


def in_steps(x, scale, zero, by=np.rint):
    return np.clip(by(x / np.float64(scale)) + zero, -128, 127).astype(np.int8)


QUANTISED = {
    "rounding": (0.03, 5, lambda x: in_steps(x, 0.03, 5, np.floor), "with rounding floor; golden"),
    "range": (
        0.01, 5, lambda x: (np.rint(x / np.float64(0.01)) + 5).astype(int).astype(np.int8),
        "with its range what is beyond it wraps; golden data follow with it saturates (",
    ),
    "scale": (
        0.05, 5, lambda x: in_steps(x, np.float16(0.05), 5),
        "(the scale 0.0499878); golden data follow with the scale 0.03: which of both",
    ),
    "zero point": (
        0.03, 0, lambda x: in_steps(x, np.float16(0.03), 0),
        "(the zero point 0); golden data follow with the zero point 5: which of both",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(QUANTISED))
def test_a_quantiser_whose_dumped_scale_is_rounded_is_told(scene, random, kind):
    """What lies near the middle of two numbers may become either by the scale in float16."""
    scale, zero, device, said = QUANTISED[kind]
    own = scale if kind == "range" else 0.03
    golden = scene.data(random.standard_normal((4, 12, 24)).astype(np.float32))
    const(scene, "scale", np.float16(scale))
    const(scene, "zero", np.int8(zero))
    made = scene.made["data"].astype(np.float64)
    scene.op("op", "AscendQuantV2", ["data", "scale", "zero"], in_steps(golden, own, 5),
             device(made))  # fmt: skip
    _, summary, _ = scene.compare("--recompute", "all")
    (suspect,) = summary["suspects"]
    assert suspect["op"] == "op" and said in suspect["explanations"][0]["sentence"]


def test_bounds_that_golden_data_show_are_held_against_those_of_the_dump(scene, random):
    golden = scene.data(random.standard_normal((4, 12, 24)).astype(np.float32))
    const(scene, "least", np.float16(-1))
    const(scene, "most", np.float16(6))
    made = scene.made["data"].astype(np.float32)
    scene.op("op", "ClipByValueV2", ["data", "least", "most"], np.clip(golden, -1, 0.75),
             np.clip(made, -1, 6))  # fmt: skip
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    said = (
        "the device computed ClipByValueV2 as the om's json says (max 6); golden data follow with"
    )
    assert suspect["explanations"][0]["sentence"].startswith(said + " max 0.75: which of both")


@pytest.mark.parametrize("is_input", [True, False])
def test_an_input_of_the_network_may_be_what_golden_data_follow_from(scene, random, is_input):
    golden = scene.data(random.standard_normal((4, 12, 12)).astype(np.float32))
    made = scene.made["data"].astype(np.float32)
    scene.op("one", "Sin", ["data"], np.sin(golden), np.sin(made))
    scene.op("two", "Square", ["one"], scene.golden["one"] ** 2, np.float32(scene.made["one"]) ** 2)
    device = np.float32(scene.made["one"]) + np.float32(scene.made["two"])
    other = golden if is_input else golden + random.standard_normal(golden.shape)
    scene.op("op", "Add", ["one", "two"], np.float32(scene.golden["one"] + other), device)
    _, summary, _ = scene.compare()
    (suspect,) = summary["suspects"]
    said = suspect["explanations"][0]["sentence"]
    assert suspect["op"] == "op"
    assert ("golden data follow from one:input:0 there" in said) == is_input, said
