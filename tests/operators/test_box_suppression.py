"""Which boxes stay, against onnxruntime; nothing is said where the choice is open."""

from __future__ import annotations

import numpy as np
import pytest
from operator_references import run_onnxruntime

from goldwatch.operators import CannotCompute, Node, Value, check, compute


def given(seed):
    random = np.random.default_rng(seed)
    boxes = random.uniform(0, 1, (2, 30, 4)).astype(np.float32)
    return boxes, random.uniform(0, 1, (2, 3, 30)).astype(np.float32)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("limits", [(30, 0.4, 0.2), (4, 0.1, 0.5), (5, 0.6, 0.0), (0, 0.5, 0.0)])
@pytest.mark.parametrize("seed", range(3))
def test_boxes_that_stay_equal_onnxruntime(seed, limits, center):
    most, overlap, least = limits
    inputs = [*given(seed), np.array([most]), np.float32([overlap]), np.float32([least])]
    attributes = {"center_point_box": center}
    (right,) = run_onnxruntime("NonMaxSuppression", inputs, attributes, 11)
    (made,) = compute(Node("onnx", "NonMaxSuppression", attributes), inputs)
    np.testing.assert_array_equal(made.array, right)


def test_nothing_is_computed_of_scores_that_are_no_numbers_or_inputs_that_may_be_off():
    boxes, limits = np.float32([[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]]), [np.array([2]), np.float32([1])]
    with pytest.raises(CannotCompute, match="a score is NaN"):
        compute(NMS, [boxes, np.float32([[[0.9, np.nan]]]), *limits])
    with pytest.raises(CannotCompute, match="inputs may be off"):
        off = Value(boxes, np.full(boxes.shape, 2e-2))
        compute(NMS, [off, np.float32([[[0.9, 0.8]]]), *limits])


@pytest.mark.parametrize(
    "scores, overlap, least, choices",
    [
        ([0.9, 0.9], 0.3, 0.0, ([[0, 0, 0]], [[0, 0, 1]])),
        ([0.9, 0.8], 1 / 3, 0.0, ([[0, 0, 0]], [[0, 0, 0], [0, 0, 1]])),
        ([0.9, 0.8], 0.5, 0.8, ([[0, 0, 0]], [[0, 0, 0], [0, 0, 1]])),
    ],
)
def test_either_choice_follows_where_roundings_decide(scores, overlap, least, choices):
    boxes = np.float32([[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]]) / np.float32(3)
    for choice in choices:
        assert not not_following(boxes, [[scores]], np.array(choice), 2, overlap, least)
    assert not_following(boxes, [[scores]], np.zeros((0, 3), int), 2, overlap, least)


def test_boxes_that_may_be_held_in_a_narrower_type_leave_open_only_what_that_decides():
    boxes = np.float32([[[0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 0.1, 1, 1.1]]]) + np.float32(1e-5)
    held = Value(boxes, boxes * np.float32(2.0**-11 / np.sqrt(3)))
    limits = [np.array([3]), np.float32([1 / 3]), np.float32([0])]
    given_ = [held, np.float32([[[0.9, 0.8, 0.7]]]), *limits]
    for kept, count in (([[0, 0, 0]], 0), ([[0, 0, 0], [0, 0, 1]], 0),
                        ([[0, 0, 0], [0, 0, 2]], 1)):  # fmt: skip
        assert np.count_nonzero(check(NMS, given_, [np.array(kept)])[0]) == count


NMS = Node("onnx", "NonMaxSuppression")


def overlap_in(dtype, a, b):
    """Intersection over union, each step rounded to a type."""
    a, b = a.astype(dtype), b.astype(dtype)
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), dtype(0))
    areas = [(one[2] - one[0]) * (one[3] - one[1]) for one in (a, b)]
    common = sides[0] * sides[1]
    return common / (areas[0] + areas[1] - common)


def suppressed_in(dtype, boxes, scores, most, overlap, least):
    """What stays where each step is rounded to a type, box by box."""
    boxes, scores, kept = boxes.astype(dtype), scores.astype(dtype), []
    for sample, kind in np.ndindex(*scores.shape[:2]):
        row, mine = scores[sample, kind], []
        for box in sorted(range(len(row)), key=lambda box: -row[box]):
            if row[box] <= dtype(least) or len(mine) >= most:
                continue
            alike = [overlap_in(dtype, boxes[sample, box], boxes[sample, other]) for other in mine]
            mine += [] if any(one > dtype(overlap) for one in alike) else [box]
        kept += [(sample, kind, box) for box in mine]
    return np.array(kept, np.int64).reshape(-1, 3)


def corners(seed, dtype):
    random = np.random.default_rng(seed)
    low = random.uniform(0, 1, (1, 40, 2))
    boxes = np.concatenate([low, low + random.uniform(0.1, 0.6, (1, 40, 2))], 2)
    return boxes.astype(dtype).astype(np.float32), random.uniform(0, 1, (1, 2, 40)).astype(dtype)


def not_following(boxes, scores, kept, most, overlap, least):
    scores = np.asarray(scores, np.float32)
    limits = [np.array([most]), np.float32([overlap]), np.float32([least])]
    return int(np.count_nonzero(check(NMS, [boxes, scores, *limits], [kept])[0]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_a_healthy_device_keeps_follows_whatever_roundings_decide(dtype):
    others = 0
    for seed in range(40):
        boxes, scores = corners(seed, dtype)
        # Equal scores are many in float16, here even more.
        scores = np.round(scores * 16) / 16 if seed % 2 else scores
        first, second = suppressed_in(np.float64, boxes, scores, 40, 0.3, 0.0)[:2, 2]
        limits = (8, overlap_in(dtype, boxes[0, first], boxes[0, second]), 0.3)
        kept = suppressed_in(dtype, boxes, scores, *limits)
        exact = suppressed_in(np.float64, boxes, scores, *limits)
        others += not np.array_equal(kept, exact)
        assert not not_following(boxes, scores, kept, *limits)
        padded = np.concatenate([kept, np.full((5, 3), -1)])
        assert not not_following(boxes, scores, padded, *limits)
    assert others >= 5


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_box_that_is_lost_or_wrongly_kept_does_not_follow(dtype):
    told = others = 0
    for seed in range(20):
        boxes, scores = corners(seed, dtype)
        limits = (8, 0.3, 0.5)
        kept = suppressed_in(np.float64, boxes, scores, *limits)
        assert not not_following(boxes, scores, kept, *limits)
        assert not_following(boxes, scores, kept[1:], *limits)
        assert not_following(boxes, scores, kept[::-1], *limits)
        assert not_following(boxes, scores, np.concatenate([kept[:1], kept]), *limits)
        assert not_following(boxes, scores, kept + [[0, 0, 40]], *limits) > len(kept)
        for other in ((8, 0.9, 0.5), (8, 0.02, 0.5), (8, 0.3, 0.8), (2, 0.3, 0.5)):
            wrong = suppressed_in(np.float64, boxes, scores, *other)
            assert not not_following(boxes, scores, wrong, *other)
            if not np.array_equal(wrong, kept):
                others += 1
                told += not_following(boxes, scores, wrong, *limits) > 0
    # An overlap of narrow boxes is off by more, in float16.
    assert others > 60 and told >= (others if dtype == np.float32 else others - 2)
