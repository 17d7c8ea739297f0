"""How far the outputs of a network agree as its users see them: classes, and boxes.

Top1Agreement is the share of samples of which both sides take the same class for the best;
Top5Agreement the mean share of golden's five best classes that are among the target's. They are for
floats [samples, classes] (dims of size 1 do not count): of more than one class, and of more than
five.

MatchedBoxes is 2·m / (a + b), where m of a target's a boxes and golden's b are matched, MeanIoU the
mean over these m (0 without any). Boxes match whose classes are equal and whose intersection is
half of their union or more, as in PASCAL VOC (Everingham and others, "The PASCAL Visual Object
Classes Challenge", 2010); golden's are taken by falling score, each with the box that fits it best
of those that are left. A box without an area, or with a score of 0 or less, is padding. Two sides
without a box agree.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

import numpy as np

from ..base.errors import NotComparable, UsageError
from ..base.fast_dataclasses import dataclass
from ..tensors.dtypes import Array
from .row import IOU, MATCHED, TOP1, TOP5

# Two boxes are one from here on, as in the evaluation of PASCAL VOC; chosen, no trial.
_LEAST_IOU = 0.5
_COLUMNS = ("x1", "y1", "x2", "y2", "cx", "cy", "w", "h", "score", "class", "_")
_CORNERS, _CENTRE = ("x1", "y1", "x2", "y2"), ("cx", "cy", "w", "h")
USUAL = {
    4: ("x1", "y1", "x2", "y2"),
    5: ("x1", "y1", "x2", "y2", "score"),
    6: ("x1", "y1", "x2", "y2", "score", "class"),
    7: ("_", "class", "score", "x1", "y1", "x2", "y2"),
}
"""Of so many numbers a box: boxes alone, with score, with class; and Caffe's and TensorFlow's
DetectionOutput, an image's number first.
"""


@dataclass(frozen=True)
class Boxes:
    """An output that holds boxes, a row each; picklable.

    Attributes
    ----------
    output
        Its op, its tensor, or the number of the output.
    columns
        What the numbers of a row are; empty: as usual for so many.
    """

    output: str
    columns: Tuple[str, ...] = ()


def parse_boxes(text: str) -> Boxes:
    """Return what ``OUTPUT[=COLUMN,…]`` says; raises UsageError where it is another form, or says
    no box.
    """
    output, sign, words = (part.strip() for part in text.partition("="))
    columns = tuple(word.strip() for word in words.split(",")) if sign else ()
    named = [column for column in columns if column != "_"]
    box = all(name in columns for name in _CORNERS) or all(name in columns for name in _CENTRE)
    if not output or (
        sign and (not box or len(set(named)) < len(named) or not set(columns) <= set(_COLUMNS))
    ):
        hint = (
            "write OUTPUT, or OUTPUT=x1,y1,x2,y2,score,class with the columns in their order: %s"
            % ", ".join(_COLUMNS)
        )
        raise UsageError("%r does not say which output holds boxes" % text, hint=hint)
    return Boxes(output, columns)


@dataclass(frozen=True)
class Agreement:
    """What is computed of outputs besides their distances; picklable.

    Attributes
    ----------
    boxes
        The outputs that hold boxes.
    """

    boxes: Tuple[Boxes, ...] = ()

    def concerns(self, names: Sequence[str], shape: Sequence[int]) -> bool:
        """Tell whether :meth:`measure` may find anything in an output: it need not be read else."""
        return any(boxes.output in names for boxes in self.boxes) or sum(
            size != 1 for size in shape
        ) in (1, 2)

    def measure(
        self, names: Sequence[str], x: Array, y: Array, shape: Sequence[int]
    ) -> Dict[str, float]:
        """Return the metrics that make sense for an output.

        Parameters
        ----------
        names
            What the output is called.
        x, y
            Target and golden elements, flat in C order of ``shape``.

        Raises
        ------
        NotComparable
            It is to hold boxes, and has not as many numbers a row.
        """
        boxes = next((boxes for boxes in self.boxes if boxes.output in names), None)
        if boxes is not None:
            columns = boxes.columns or USUAL.get(shape[-1] if shape else 0, ())
            if not shape or len(columns) != shape[-1]:
                expected = (
                    "%d numbers" % len(columns)
                    if columns
                    else "4 to 7 numbers, or their columns named"
                )
                raise NotComparable(
                    "boxes of shape %s: expected %s a row" % (list(shape), expected)
                )
            mine, theirs = (side.reshape(-1, len(columns)).astype(np.float64) for side in (x, y))
            return _boxes(mine, theirs, columns)
        sizes = [size for size in shape if size != 1]
        rows = 1 if len(sizes) == 1 else sizes[0] if len(sizes) == 2 else 0
        if (
            not rows
            or x.dtype.kind != "f"
            or not x.size
            or not (np.isfinite(x).all() and np.isfinite(y).all())
        ):
            return {}
        return _classes(x.reshape(rows, -1), y.reshape(rows, -1))


def _classes(x: Array, y: Array) -> Dict[str, float]:
    agreements = {TOP1: float((x.argmax(axis=1) == y.argmax(axis=1)).mean())}
    if x.shape[1] > 5:
        best = [np.argsort(-side, axis=1, kind="stable")[:, :5] for side in (x, y)]
        agreements[TOP5] = float(np.mean([len(np.intersect1d(*pair)) / 5 for pair in zip(*best)]))
    return agreements


def _boxes(x: Array, y: Array, columns: Sequence[str]) -> Dict[str, float]:
    mine, theirs = _Side.of(x, columns), _Side.of(y, columns)
    total = len(mine.corners) + len(theirs.corners)
    overlaps: List[float] = []
    free = np.ones(len(mine.corners), bool)
    for number in np.argsort(-theirs.scores, kind="stable"):
        ious = np.where(
            free & (mine.classes == theirs.classes[number]),
            _ious(mine.corners, theirs.corners[number]),
            0.0,
        )
        if ious.size and ious.max() >= _LEAST_IOU:
            overlaps.append(float(ious.max()))
            free[ious.argmax()] = False
    return {
        MATCHED: 2.0 * len(overlaps) / total if total else 1.0,
        IOU: float(np.mean(overlaps)) if overlaps else float(not total),
    }


@dataclass(frozen=True)
class _Side:
    """The boxes of one side, without padding: [box, x1 y1 x2 y2], their scores and their
    classes.
    """

    corners: Array
    scores: Array
    classes: Array

    @classmethod
    def of(cls, rows: Array, columns: Sequence[str]) -> _Side:
        column = {name: rows[:, at] for at, name in enumerate(columns)}
        if "cx" in column:
            half = [column["w"] / 2, column["h"] / 2]
            corners = [
                column["cx"] - half[0],
                column["cy"] - half[1],
                column["cx"] + half[0],
                column["cy"] + half[1],
            ]
        else:
            corners = [column[name] for name in _CORNERS]
        box, nothing = np.stack(corners, axis=1), np.zeros(len(rows))
        scores = column.get("score", nothing + 1)
        valid = (box[:, 2] > box[:, 0]) & (box[:, 3] > box[:, 1]) & (scores > 0)
        return cls(box[valid], scores[valid], column.get("class", nothing)[valid])


def _ious(boxes: Array, box: Array) -> Array:
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    shared = np.where((sides > 0).all(axis=1), sides[:, 0] * sides[:, 1], 0.0)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    ious: Array = shared / (areas + (box[2] - box[0]) * (box[3] - box[1]) - shared)
    return ious
