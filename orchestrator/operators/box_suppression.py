"""Boxes of which each that overlaps a better one is left out: which stay, and whether those of a
device may.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

import numpy as np

from ..tensors.type_precision import ROUNDING
from .registry import CannotCompute, Inputs, Node, has_input, input_at, operator
from .value_with_error import Arithmetic, Value
from .variants import attribute, declare, other_number

Array = Any

_MOST_OFF = 2.0**-7
"""Shares by which inputs may be off at most: one rounding to bfloat16 is 2⁻⁹, more than some of
these are errors of other operators. Chosen, no trial."""


class _Boxes(NamedTuple):
    """Boxes by their corners, float64, [samples, boxes, 2], their scores [samples, classes, boxes]
    and the limits: how many stay of a class at most, how much they overlap, their least score.

    ``rounding`` is that of the narrowest type which holds them all.
    """

    low: Array
    high: Array
    scores: Array
    most: float
    overlap: float
    least: float
    rounding: float

    def near_score(self, scores: Array) -> Array:
        """Return by how much scores may be off where a device computes in the type of the boxes."""
        return 4 * self.rounding * np.abs(scores)

    def overlaps(self, sample: int, box: int, others: Array) -> Tuple[Array, Array]:
        """Return intersection over union of a box and others, and by how much each may be off."""
        low, high = self.low[sample], self.high[sample]
        common = np.prod(
            np.maximum(np.minimum(high[box], high[others]) - np.maximum(low[box], low[others]), 0),
            axis=-1,
        )
        area = np.prod(high - low, axis=-1)
        union = area[box] + area[others] - common
        # Sides are differences, whose roundings are those of the corners.
        corner = np.maximum(np.abs(low), np.abs(high)).max(initial=0.0)
        least_side = np.min(high - low, axis=-1)
        side = np.minimum(least_side[box], least_side[others])
        with np.errstate(all="ignore"):
            shares = np.where(union > 0, common / union, 0.0)
            room = np.where(common > 0, 16 * self.rounding * (1 + corner / side), 0.0)
        return shares, room


def _boxes_of(node: Node, inputs: Inputs) -> _Boxes:
    boxes, scores = input_at(inputs, 0), input_at(inputs, 1)
    off = max(_share_off(boxes, True), _share_off(scores, False))
    if off > _MOST_OFF:
        raise CannotCompute("which boxes stay is open: its inputs may be off")
    if np.isnan(scores.array).any():
        raise CannotCompute("which boxes stay is open: a score is NaN")
    most, overlap, least = (
        float(input_at(inputs, number).array.reshape(-1)[0]) if has_input(inputs, number) else other
        for number, other in ((2, 0.0), (3, 0.0), (4, -np.inf))
    )
    first, second = np.split(np.asarray(boxes.array, np.float64), 2, axis=-1)
    if node.get("center_point_box", 0):
        first, second = first - second / 2, first + second / 2
    return _Boxes(
        np.minimum(first, second),
        np.maximum(first, second),
        np.asarray(scores.array, np.float64),
        most,
        overlap,
        least,
        max(off, _rounding_of(boxes.array, scores.array)),
    )


def _share_off(value: Value, of_largest: bool) -> float:
    """Return by which share of each element, or of the largest, a value may be off."""
    if value.error is None:
        return 0.0
    sizes = np.abs(value.array)
    with np.errstate(all="ignore"):
        shares = np.where(
            value.error > 0,
            np.sqrt(3.0) * value.error / (sizes.max(initial=0.0) if of_largest else sizes),
            0.0,
        )
    return float(np.nan_to_num(shares, nan=np.inf).max(initial=0.0))


def _rounding_of(*arrays: Array) -> float:
    with np.errstate(all="ignore"):
        halves = all(np.array_equal(array, np.asarray(array, np.float16)) for array in arrays)
    bits = [np.ascontiguousarray(array, np.float32).view(np.uint32) for array in arrays]
    if any(np.any(one & np.uint32(0xFFFF)) for one in bits):
        return ROUNDING["float16" if halves else "float32"].half_unit
    return ROUNDING["bfloat16"].half_unit


@operator(
    onnx=("NonMaxSuppression",),
    decides=True,
    counts=True,
    check=lambda node, inputs, arithmetic, outputs: [
        None if kept is None else _not_following(_boxes_of(node, inputs), kept) for kept in outputs
    ],
)
def non_max_suppression(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Return (sample, class, box) of boxes, the best scores first (of equal ones the first), that
    overlap none that is kept by more than the threshold (intersection over union).
    """
    boxes = _boxes_of(node, inputs)
    kept: List[Tuple[int, int, int]] = []
    for sample, kind in np.ndindex(*boxes.scores.shape[:2]):
        row = boxes.scores[sample, kind]
        order = np.argsort(-row, kind="stable")
        rest, count = order[row[order] > boxes.least], 0
        while rest.size and count < boxes.most:
            box, rest, count = rest[0], rest[1:], count + 1
            kept.append((sample, kind, int(box)))
            rest = rest[boxes.overlaps(sample, int(box), rest)[0] <= boxes.overlap]
    return [Value(np.array(kept, np.int64).reshape(-1, 3))]


def _not_following(boxes: _Boxes, kept: Array) -> Array:
    """Return which boxes a device may not have kept, and, behind them, one True for each that it
    may not have left out, whatever was decided near a tie or a threshold; bool, flat.

    Rows of -1 at the end are none.
    """
    if kept.ndim != 2 or kept.shape[1] != 3:
        raise CannotCompute("its output is no list of (sample, class, box)")
    rows = np.asarray(kept, np.int64)
    while len(rows) and np.all(rows[-1] == -1):
        rows = rows[:-1]
    samples, kinds, count = boxes.scores.shape
    outside = np.any((rows < 0) | (rows >= [samples, kinds, count]), axis=1)
    groups = rows[:, 0] * kinds + rows[:, 1]
    wrong = outside | (groups < np.maximum.accumulate(groups)) if len(rows) else outside
    lost = 0
    for sample, kind in np.ndindex(samples, kinds):
        at = np.flatnonzero(~outside & (groups == sample * kinds + kind))
        mine = rows[at, 2]
        wrong[at] |= _wrongly_kept(boxes, sample, kind, mine)
        lost += int(np.count_nonzero(_wrongly_lost(boxes, sample, kind, mine)))
    return np.concatenate([wrong, np.ones(lost, bool)])


def _wrongly_kept(boxes: _Boxes, sample: int, kind: int, kept: Array) -> Array:
    row = boxes.scores[sample, kind]
    wrong = row[kept] <= boxes.least - boxes.near_score(row[kept])
    wrong |= np.arange(len(kept)) >= boxes.most
    for place, box in enumerate(kept):
        before = kept[:place]
        shares, room = boxes.overlaps(sample, int(box), before)
        wrong[place] |= bool(
            np.any(before == box)
            or np.any(shares > boxes.overlap + room)
            or np.any(row[box] - row[before] > boxes.near_score(row[box]))
        )
    return wrong


def _wrongly_lost(boxes: _Boxes, sample: int, kind: int, kept: Array) -> Array:
    row = boxes.scores[sample, kind]
    lost = row > boxes.least + boxes.near_score(row)
    lost[kept] = False
    if len(kept) >= boxes.most:
        lost &= row - np.min(row[kept], initial=np.inf) > boxes.near_score(row)
    for box in kept:
        rest = np.flatnonzero(lost)
        shares, room = boxes.overlaps(sample, int(box), rest)
        better = row[rest] - row[box] <= boxes.near_score(row[rest])
        lost[rest] = ~(better & (shares > boxes.overlap - room) & (shares > 0))
    return lost


declare(
    "NonMaxSuppression",
    attribute("center_point_box", (0, 1), 0),
    other_number(2, "max_output_boxes_per_class", ()),
    other_number(3, "iou_threshold", ()),
    other_number(4, "score_threshold", ()),
)
