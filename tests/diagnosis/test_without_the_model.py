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
        "the device computed what the om's json says (alpha 0.75), and golden data do not follow",
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
    of_json = "what the om's json says (begin_mask 0)" if told else "StridedSlice"
    said = (
        "the device computed %s with the constants of its dump (input 1: [0, 1, 0], input 2: "
        "[4, 9, 12], input 3: [1, 2, 1]), and golden data do not follow from golden inputs by that"
    )
    assert suspect["explanations"][0]["sentence"].startswith(said % of_json)


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
