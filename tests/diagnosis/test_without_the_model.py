"""What is told of a wrong operator where the original model is not known: golden data, and the
attributes of the json, show what it computes."""

from __future__ import annotations

import numpy as np
import pytest


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
