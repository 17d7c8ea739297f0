"""Outputs whose length depends on values, and is another one on the device than in golden data."""

from __future__ import annotations

import numpy as np
import onnx_models as build
import pytest
from onnx import TensorProto
from onnx.helper import make_node as node
from onnx_run import float16_values
from scene_networks import only_suspect

from goldwatch.operators import Node, compute

THRESHOLDS = {"most": (32, np.int64), "iou": (0.5, np.float32), "least": (0.25, np.float32)}


def boxes_and_scores(seed=7):
    random = np.random.RandomState(seed)
    low = random.uniform(0, 0.6, (1, 32, 2))
    boxes = np.concatenate([low, low + random.uniform(0.2, 0.4, (1, 32, 2))], 2)
    scores = random.permutation(64).reshape(1, 2, 32) / 64 + 0.01
    return [side.astype(np.float16).astype(np.float32) for side in (boxes, scores)]


def kept(boxes, scores, **others):
    limits = [np.array([others.get(name, own)], dtype) for name, (own, dtype) in THRESHOLDS.items()]
    (value,) = compute(Node("onnx", "NonMaxSuppression"), [boxes, scores, *limits])
    return value.array


def compared(net, made, boxes, scores):
    """Compare a detector whose device keeps other boxes."""
    nodes = [
        node("Neg", ["b"], ["c"], name="boxes"),
        node("Neg", ["s"], ["t"], name="scores"),
        node("NonMaxSuppression", ["c", "t", "most", "iou", "least"], ["y"], name="nms"),
    ]
    held = [build.weight(name, np.array([own], dtype)) for name, (own, dtype) in THRESHOLDS.items()]
    ends = [build.value("b", boxes.shape), build.value("s", scores.shape)]
    proto = build.model(nodes, ends, [build.value("y", ("K", 3), TensorProto.INT64)], held)
    net.prepare(proto, {"b": -boxes, "s": -scores}, fault=("nms", lambda array: made))
    code, result, text = net.compare()
    (row,) = [row for row in result["rows"] if row["tensor"] == "nms:output:0"]
    return code, result["summary"], row, text


@pytest.mark.parametrize(
    "others, named",
    [
        ({"iou": 0.1}, "iou_threshold 0.1; the model says 0.5"),
        ({"iou": 0.28}, "iou_threshold 0."),
        ({"least": 0.5}, "score_threshold 0.5; the model says 0.25"),
        ({"most": 4}, "max_output_boxes_per_class 4; the model says 32"),
    ],
)
def test_another_threshold_fails_and_is_named(net, others, named):
    boxes, scores = boxes_and_scores()
    right, made = kept(boxes, scores), kept(boxes, scores, **others)
    assert len(right) != len(made)
    code, summary, row, text = compared(net, made, boxes, scores)
    assert (code, row["verdict"], row["cause"]) == (1, "fail", "")
    said = "it has %d entries instead of %d that are computed of the device's own inputs"
    assert said % (len(made), len(right)) in row["reason"]
    assert row["reason_codes"] == "other_length"
    (entry,) = only_suspect(summary)["explanations"]
    assert "NonMaxSuppression with %s" % named in entry["sentence"]
    assert "nms:output:0 failed (golden differs in shape" in text
    assert net.compare(force=False)[1]["summary"] == summary


@pytest.mark.parametrize("seed, said", [(1, "the device may have"), (4, "the device")])
def test_all_that_may_make_the_same_few_boxes_is_told(net, seed, said):
    boxes, scores = boxes_and_scores(seed)
    boxes, scores = boxes[:, :8], scores[:, :1, :8]
    right, made = kept(boxes, scores), kept(boxes, scores, iou=0.3)
    assert len(right) == len(made) + 1
    _, summary, _, _ = compared(net, made, boxes, scores)
    entry = only_suspect(summary)["explanations"][0]
    assert entry["sentence"].startswith(said + " computed NonMaxSuppression with ")
    assert "iou_threshold 0." in entry["sentence"]
    assert ("so few may do so by chance" in entry["sentence"]) == ("may" in said)


@pytest.mark.parametrize("seed", range(3))
def test_another_number_of_boxes_that_no_threshold_makes_fails_too(net, seed):
    boxes, scores = boxes_and_scores(seed)
    made = np.delete(kept(boxes, scores), [2, 5], 0)
    code, summary, row, _ = compared(net, made, boxes, scores)
    assert (code, row["verdict"]) == (1, "fail")
    (entry,) = only_suspect(summary)["explanations"]
    assert entry["kind"] == "unexplained" and any(
        "iou_threshold" in words for words in entry["tried"]
    )


def test_no_box_at_all_fails(net):
    boxes, scores = boxes_and_scores()
    code, summary, row, _ = compared(net, np.zeros((0, 3), np.int64), boxes, scores)
    assert (code, row["verdict"]) == (1, "fail")
    assert only_suspect(summary)["op"] == "nms"


def test_a_box_that_stays_near_the_threshold_is_no_error(net):
    """Half of the first box is overlapped, but for less than float16 holds."""
    boxes, scores = boxes_and_scores()
    boxes[0, :2] = [[0, 0, 0.25, 0.5], [0, 0, 0.5, 0.5]]
    scores[0, 0, :2] = 2, 1.5
    right = kept(boxes, scores)
    made = kept(boxes, scores, iou=0.4999)
    assert len(right) != len(made)
    code, summary, row, _ = compared(net, made, boxes, scores)
    assert not summary["suspects"]
    assert (code, row["verdict"], row["warning"]) == (0, "pass", "decided_otherwise")
    assert net.compare(force=False)[1]["summary"] == summary


@pytest.mark.parametrize("kind", ["lost", "buffer"])
def test_places_that_are_not_zero(net, kind):
    """Of a buffer for as many as there can be the beginning holds them."""
    x = np.random.RandomState(0).randint(-1, 2, (4, 16)).astype(np.float32)
    right = np.array(np.nonzero(-x))
    made = right[:, 3:] if kind == "lost" else np.pad(right, ((0, 0), (0, 9)))
    nodes = [node("Neg", ["x"], ["t"], name="first"), node("NonZero", ["t"], ["y"], name="places")]
    ends = [build.value("x", x.shape)], [build.value("y", (2, "K"), TensorProto.INT64)]
    net.prepare(build.model(nodes, *ends), {"x": x}, fault=("places", lambda array: made))
    code, result, _ = net.compare()
    if kind == "buffer":
        assert not result["summary"]["suspects"]
    else:
        assert code == 1 and only_suspect(result["summary"])["op"] == "places"


@pytest.mark.parametrize("fault", [None, lambda array: np.pad(array, ((0, 0),) * 3 + ((0, 1),))])
def test_a_shape_that_does_not_follow_from_the_devices_own_inputs_is_wrong(net, fault):
    """Not only of operators whose values tell how long their outputs are."""
    x = float16_values((1, 3, 8, 8))
    nodes = [
        node("Relu", ["x"], ["t"], name="first"),
        node("Conv", ["t", "w"], ["y"], name="conv"),
    ]
    model = build.model(
        nodes,
        [build.value("x", x.shape)],
        [build.value("y", (1, 4, 6, 6))],
        [build.weight("w", float16_values((4, 3, 3, 3)))],
    )
    net.prepare(model, {"x": x}, fault=None if fault is None else ("conv", fault))
    for force in (True, False):
        code, result, said = net.compare(force=force)
        assert code == (fault is not None), said
        told = (
            "its output has the shape [1, 4, 6, 7], what is computed [1, 4, 6, 6]); its inputs are"
        )
        assert (told in said) == (fault is not None), said
        assert ("the shape of its output is not what they make" in said) == (fault is not None)
