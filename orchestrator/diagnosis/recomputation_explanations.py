"""Explanations of outputs that computing again found wrong: the device's values are compared with
what its own inputs come to, not with golden data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Optional, Tuple

import numpy as np

from ..metrics.patterns import MOST_ELEMENTS, AlignedPair, Walked, walk
from ..recomputing.recomputed_output import ComputedPair
from ..tensors.geometry import match_layouts
from ..tensors.tensor import Tensor
from .explanations import Explanation
from .own_error.estimate import Estimate
from .pattern_explanations import (
    NOTHING_AROUND,
    Surroundings,
    background_of,
    patterns_of,
    without_pattern,
)

_FITTED = ("scale", "bias")
_RIGHT = 0.01
"""Relative distance of what is right beside what was not written."""
_EMPTY = (
    "%d of %d indices of axis %d are 0 throughout, the first is %d, and all others are right: "
    "that part was not written"
)
_NEXT_EMPTY = (
    "look at the operator's tiling in the compiled model, and run the same input twice: what was "
    "not written may hold other values then"
)
Array = Any

_SAME = 1e-3
"""An output is its input where it differs from it by no more than this, relatively: one rounding to
float16.
"""

_NOTHING = "its output is its input %s: the operator did nothing, or its output was not written"
_NEXT_NOTHING = (
    "look whether the operator ran at all (its task in the compiled model), and run the same "
    "input twice"
)
_ACTIVATION = {
    True: "its output is what the operator makes with a ReLU that it should not have",
    False: "its output is what the operator makes without its ReLU",
}
_LEFT_OUT = "its output is what the operator makes without its %s"
_NEXT_ACTIVATION = (
    "compare what was fused into the operator in the model's json with the original model"
)
_OTHER_INPUT = (
    "the first operator is right but for its input, which was not dumped: the device may have "
    "been fed with other data"
)
_BEFORE_RELU = (
    "before its ReLU the target is what is computed plus an offset for each index of axis 1, %s "
    "in the middle"
)
_NEXT_BIAS = "look whether the operator's bias (or beta, or zero point) reached the compiled model"
_LEAST = 0.9
"""The smallest share of an error that an explanation claims (docs/reference/verdict.md)."""
_LEAST_ELEMENTS = 8
"""Of a channel that an offset is fitted to: of fewer any error is one."""
_NEXT_OTHER_INPUT = (
    "compare the input file of the device with that of the golden run, preprocessing (AIPP, mean, "
    "channel order) included"
)


def explanations_by_computing(estimate: Estimate, recomputed: ComputedPair) -> List[Explanation]:
    """Return what the error of an output looks like, the likeliest first.

    Parameters
    ----------
    estimate
        Of an output that was computed again and is wrong.
    recomputed
        The output, and what was computed.
    """
    exact = _did_nothing(recomputed) or _without_activation(recomputed)
    if exact is not None:
        return [exact]
    pair = AlignedPair(
        recomputed.actual,
        np.asarray(recomputed.computed),
        recomputed.dtype,
        _letters(recomputed.actual),
        int(recomputed.actual.size),
    )
    own_error = estimate.computed.own_error if estimate.computed is not None else None
    distance = own_error.distance if own_error is not None else estimate.distance
    # The pair is that of the operator's own error: nothing came in with the inputs.
    alone = replace(
        estimate,
        distance=distance,
        inherited=own_error.explained if own_error is not None else 0.0,
        evidence=None,
    )
    whole = _walked(pair, alone) if pair.total > MOST_ELEMENTS else None
    unwritten = _not_written(recomputed)
    if unwritten is not None:
        return [unwritten]
    explanations = [
        _of_activation(entry, pair)
        for entry in patterns_of(alone, pair, (), Surroundings(right_behind=True), whole)
    ]
    explanations = explanations or [
        entry for entry in (_offset_before_relu(recomputed),) if entry is not None
    ]
    assumed = estimate.computed is not None and estimate.computed.assumed
    if assumed and not explanations:
        return [Explanation("other-input", 0.0, _OTHER_INPUT, _NEXT_OTHER_INPUT)]
    rest = [_of_computed(entry) for entry in without_pattern(alone, pair, NOTHING_AROUND)]
    # Factors and offsets of each index fit what has nothing to do with each other, too.
    unrelated = [
        entry
        for entry in rest
        if entry.kind == "random" and explanations and explanations[0].kind in _FITTED
    ]
    return [*unrelated, *explanations] or rest


def _without_activation(recomputed: ComputedPair) -> Optional[Explanation]:
    """Return an explanation where what is computed is a common activation of the output."""
    if recomputed.actual.dtype.kind != "f":
        return None
    x, y = (np.asarray(side, np.float64) for side in (recomputed.actual, recomputed.computed))
    with np.errstate(all="ignore"):
        gate, sigmoid = np.clip(x / 6 + 0.5, 0, 1), 1 / (1 + np.exp(-x))
        curves = (
            ("HardSwish", x * gate),
            ("Swish", x * sigmoid),
            ("Sigmoid", sigmoid),
            ("Tanh", np.tanh(x)),
        )
        for name, curve in curves:
            share = _share(x - y, curve - y)
            if share >= _LEAST and float(np.linalg.norm(curve - y)) <= _RIGHT * float(
                np.linalg.norm(y)
            ):
                return Explanation("activation", share, _LEFT_OUT % name, _NEXT_ACTIVATION)
    return None


def _offset_before_relu(recomputed: ComputedPair) -> Optional[Explanation]:
    """Return an explanation where an offset for each channel was lost before a ReLU, whose zeros
    hide it in part.
    """
    if recomputed.actual.dtype.kind != "f" or recomputed.actual.ndim < 2:
        return None
    x, y = (
        np.moveaxis(np.asarray(side, np.float64), 1, 0).reshape(side.shape[1], -1)
        for side in (recomputed.actual, recomputed.computed)
    )
    if (
        not (np.isfinite(x).all() and np.isfinite(y).all())
        or min(x.min(initial=0.0), y.min(initial=0.0)) < 0
        or (y > 0).all()
    ):
        return None
    both_positive = (x > 0) & (y > 0)
    offsets = np.zeros(len(x))
    for index in np.flatnonzero(both_positive.sum(1) >= _LEAST_ELEMENTS):
        offsets[index] = np.median((x - y)[index][both_positive[index]])
    # What a ReLU made 0 was anything below: with the offset it is at most the offset.
    shifted = np.maximum(y + offsets[:, None], 0)
    fitted = np.where(y > 0, shifted, np.minimum(x, shifted))
    share = _share(x - y, x - fitted)
    moved = offsets[offsets != 0]
    return (
        Explanation("bias", share, _BEFORE_RELU % ("%.3g" % np.median(moved)), _NEXT_BIAS)
        if share >= _LEAST and moved.size
        else None
    )


def _share(error: Array, left: Array) -> float:
    """Return the explained share of a squared error, by what is left of it; 0 without an error."""
    whole = float(np.sum(np.square(error)))
    return 1 - float(np.sum(np.square(left))) / whole if whole > 0 and np.isfinite(whole) else 0.0


def golden_is_wrong() -> Explanation:
    """Return the explanation of an operator that is right while golden data do not follow from
    golden data.
    """
    sentence = (
        "computed of golden inputs its golden output comes out otherwise, and the device is "
        "right: the golden data are wrong"
    )
    step = (
        "make the golden data again; of a Caffe net without in-place layers (goldwatch golden "
        "caffe deinplace)"
    )
    return Explanation("wrong-golden", 1.0, sentence, step)


def _not_written(recomputed: ComputedPair) -> Optional[Explanation]:
    """Return an explanation where some indices of an axis are 0 throughout, though they should not
    be, and all others are right.
    """
    if recomputed.actual.dtype.kind != "f":
        return None
    x, y = (np.asarray(side, np.float64) for side in (recomputed.actual, recomputed.computed))
    for axis in range(x.ndim):
        other_axes = tuple(number for number in range(x.ndim) if number != axis)
        if not 1 < x.shape[axis] < x.size:
            continue
        empty = ~(x != 0).any(axis=other_axes) & (y != 0).any(axis=other_axes)
        count = int(np.count_nonzero(empty))
        if not 0 < count < x.shape[axis]:
            continue
        right = np.compress(~empty, x, axis), np.compress(~empty, y, axis)
        size = float(np.linalg.norm(right[1]))
        if size and float(np.linalg.norm(right[0] - right[1])) <= _RIGHT * size:
            first = int(np.argmax(empty))
            return Explanation(
                "one-slice", 1.0, _EMPTY % (count, x.shape[axis], axis, first), _NEXT_EMPTY
            )
    return None


def _walked(pair: AlignedPair, estimate: Estimate) -> Optional[Walked]:
    target, computed = (
        Tensor.from_array(pair.target),
        Tensor.from_array(np.asarray(pair.golden, np.float32)),
    )
    shape = tuple(int(size) for size in pair.golden.shape)
    return walk(
        target,
        computed,
        match_layouts(target, shape, None, shape, None),
        estimate.distance,
        background_of(estimate),
    )


def _did_nothing(recomputed: ComputedPair) -> Optional[Explanation]:
    for name, values in recomputed.inputs:
        if (
            values.size == recomputed.actual.size
            and values.dtype.kind == "f"
            and recomputed.actual.dtype.kind == "f"
        ):
            x, y = (
                np.asarray(side, np.float64).reshape(-1) for side in (recomputed.actual, values)
            )
            size = float(np.linalg.norm(y))
            if size and float(np.linalg.norm(x - y)) <= _SAME * size:
                return nothing_was_done(name)
    return None


def nothing_was_done(name: str) -> Explanation:
    """Return the explanation that an operator's output is one of its inputs, as it is named."""
    return Explanation("did-nothing", 1.0, _NOTHING % name, _NEXT_NOTHING)


def _letters(values: Array) -> Tuple[str, ...]:
    return (
        ("N", "C", "H", "W")
        if values.ndim == 4
        else tuple(str(axis) for axis in range(values.ndim))
    )


def _of_computed(entry: Explanation) -> Explanation:
    """Return an explanation whose sentence names what was computed in place of golden data."""
    sentence = entry.sentence.replace("the golden ones", "what is computed").replace(
        "the golden's values", "the computed values"
    )
    sentence = sentence.replace("the golden", "what is computed")
    return replace(entry, sentence=sentence)


def _of_activation(entry: Explanation, pair: AlignedPair) -> Explanation:
    """Golden data cannot be those of another place here: they were computed."""
    if entry.kind != "wrong-golden":
        return _of_computed(entry)
    rectified = float(np.min(pair.target, initial=0.0)) >= 0
    return Explanation("activation", entry.share, _ACTIVATION[rectified], _NEXT_ACTIVATION)
