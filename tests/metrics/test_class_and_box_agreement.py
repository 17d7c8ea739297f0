"""Agreement of classes and boxes, against a plain count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import NotComparable, UsageError
from goldwatch.metrics.class_and_box_agreement import Agreement, parse_boxes


def measured(x, y, boxes=None):
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    agreement = Agreement(() if boxes is None else (parse_boxes(boxes),))
    return agreement.measure(("det", "0"), x.reshape(-1), y.reshape(-1), x.shape)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_top_class_agreement_equals_a_sorted_count(samples, classes, seed):
    random = np.random.RandomState(seed)
    x, y = (random.permutation(samples * classes).reshape(samples, classes) for _ in range(2))
    found = measured(x[:, :, None, None], y[:, :, None, None])
    best = [
        [sorted(range(classes), key=lambda at, row=row: -row[at]) for row in side.tolist()]
        for side in (x, y)
    ]
    assert (
        found["Top1Agreement"] == sum(mine[0] == theirs[0] for mine, theirs in zip(*best)) / samples
    )
    if classes > 5:
        shares = [len(set(mine[:5]) & set(theirs[:5])) / 5 for mine, theirs in zip(*best)]
        assert found["Top5Agreement"] == pytest.approx(sum(shares) / samples)
    else:
        assert "Top5Agreement" not in found


def test_tensors_without_classes_have_no_agreement():
    assert measured(np.ones((2, 3, 4)), np.ones((2, 3, 4))) == {}
    assert measured([[np.nan, 1.0]], [[0.0, 1.0]]) == {}
    assert measured(1.0, 1.0) == {}


def iou(a, b):
    wide, high = (max(0.0, min(a[at + 2], b[at + 2]) - max(a[at], b[at])) for at in (0, 1))
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return wide * high / (area - wide * high)


def test_boxes_match_by_class_and_an_overlap_of_half():
    golden = [
        [0, 0, 10, 10, 0.9, 1],
        [20, 20, 30, 30, 0.8, 2],
        [50, 50, 60, 60, 0.7, 1],
        [0, 0, 0, 0, 0, 0],
    ]
    device = [
        [20, 20, 30, 31, 0.8, 2],
        [0, 0, 10, 9, 0.9, 1],
        [50, 50, 60, 60, 0.7, 3],
        [0, 0, 0, 0, -1, -1],
    ]
    found = measured([device], [golden], "det")
    pairs = [iou(device[1], golden[0]), iou(device[0], golden[1])]
    assert found == {
        "MatchedBoxes": pytest.approx(2 * 2 / 6),
        "MeanIoU": pytest.approx(np.mean(pairs)),
    }
    assert measured([[[0, 0, 10, 10]]], [[[0, 5, 10, 15.1]]], "det") == {
        "MatchedBoxes": 0.0,
        "MeanIoU": 0.0,
    }  # a third of the union
    assert measured(np.zeros((1, 3, 6)), np.zeros((1, 3, 6)), "0") == {
        "MatchedBoxes": 1.0,
        "MeanIoU": 1.0,
    }


def test_each_box_matches_once_and_the_best_score_first():
    twice = [[0, 0, 10, 10, 0.9], [0, 0, 10, 10, 0.8]]
    assert (
        measured(twice, [[0, 0, 10, 10, 0.9], [100, 0, 110, 10, 0.8]], "det")["MatchedBoxes"] == 0.5
    )


def test_columns_of_boxes_are_read_as_named():
    corners, centre = [[2, 4, 6, 10, 0.5]], [[0.5, 4, 7, 4, 6]]
    assert (
        measured(
            np.pad(centre, ((0, 0), (0, 1))),
            np.pad(centre, ((0, 0), (0, 1))),
            "det=score,cx,cy,w,h,_",
        )["MeanIoU"]
        == 1
    )
    assert measured(corners, corners, "det")["MatchedBoxes"] == 1
    seven = [[0, 3, 0.9, 0.1, 0.1, 0.4, 0.4]]
    assert measured(seven, seven, "det")["MatchedBoxes"] == 1
    with pytest.raises(NotComparable, match="expected 5 numbers a row"):
        measured([[1, 2, 3]], [[1, 2, 3]], "det=x1,y1,x2,y2,score")
    for text in ("=x1", "det=", "det=x1,y1,x2", "det=x1,y1,x2,y2,x1", "det=x1,y1,x2,y2,what"):
        with pytest.raises(UsageError, match="does not say which output holds boxes"):
            parse_boxes(text)
