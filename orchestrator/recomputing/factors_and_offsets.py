"""Finds an output that is what is computed by factors and offsets."""

from __future__ import annotations

import math
from typing import Any, Iterator, Optional, Sequence, Tuple

import numpy as np

from ..operators import Value
from .variant_search import Instead
from .variant_trials import BITS_OF_A_DIGIT, MOST_BITS, Output, agreeing
from .written import Written, agreement_with, explains, is_spread

Array = Any
_DIGITS = (1, 2, 3, 4, 6)
"""Of a factor or an offset, tried one after the other."""
_NEXT_NUMBERS = {
    "scale": "compare the operator's weights and numbers (scale, epsilon, alpha, quantisation) "
    "with those of the original model",
    "bias": "look whether the operator's bias (or beta, or zero point) reached the compiled model",
}
_SAMPLED, _FEWEST = 1 << 17, 64
"""Elements that are looked at first, and the least of one index. Chosen; no trial."""
_FEW = 0.1
"""Of the largest change, that of half of the indices where only few of them are wrong."""


def by_numbers(written: Written) -> Iterator[Instead]:
    """Yield where the output is what is computed by one factor or with one offset, or by one for
    each index of an axis.
    """
    output = written.output
    shape = output.computed.array.shape
    x, y = (np.asarray(side, np.float64) for side in (output.actual, output.computed.array))
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all() or not is_spread(y):
        return
    axes = [axis for axis in (1, len(shape) - 1) if axis < len(shape) and shape[axis] > 1]
    for axis in (None, *dict.fromkeys(axes)):
        if not _may_follow(x, y, axis):
            continue
        over = tuple(other for other in range(x.ndim) if other != axis)
        mean_x, mean_y = (side.mean(over, keepdims=True) for side in (x, y))
        with np.errstate(all="ignore"):
            factor = (x * y).sum(over, keepdims=True) / (y * y).sum(over, keepdims=True)
            slope = ((x - mean_x) * (y - mean_y)).sum(over, keepdims=True) / np.square(
                y - mean_y
            ).sum(over, keepdims=True)
        for kind, a, b in (
            ("scale", factor, np.zeros(1)),
            ("bias", np.ones(1), mean_x - mean_y),
            ("scale", slope, mean_x - slope * mean_y),
        ):
            a, b = np.where(np.isfinite(a), a, 1.0), np.where(np.isfinite(b), b, 0.0)
            if output.actual.dtype.kind != "f":
                a, b = np.round(a, 6), np.rint(b)
            changes = [np.abs(side - none) for side, none in ((a, 1.0), (b, 0.0)) if side.size > 1]
            if changes and all(np.median(side) <= _FEW * np.max(side) for side in changes):
                # Only few indices are wrong: the others are as the model says.
                a, b = (
                    side if side.size == 1 else np.where(
                        np.abs(side - none) <= _FEW * np.max(np.abs(side - none)), none, side
                    )
                    for side, none in ((a, 1.0), (b, 0.0))
                )  # fmt: skip
            found = None if not np.any(a) else _with_numbers(written, a, b)
            if found is None:
                continue
            a, b, value = found
            yield Instead(
                kind,
                "%s (%s)" % (_in_words(a, b, axis), agreement_with(written, value)),
                _NEXT_NUMBERS[kind],
                axis is not None,
                int(np.count_nonzero(agreeing(output, value))),
            )
            return


def _may_follow(x: Array, y: Array, axis: Optional[int]) -> bool:
    """Tell by some elements whether values may be others by a factor and an offset, one for each
    index of an axis: a straight line leaves less than half of their spread (chosen; no trial).
    """
    x, y = (
        side.reshape(1, -1)
        if axis is None
        else np.moveaxis(side, axis, 0).reshape(side.shape[axis], -1)
        for side in (x, y)
    )
    step = max(1, x.size // _SAMPLED)
    if step == 1 or x.shape[1] < _FEWEST * step:
        return True
    x, y = (side[:, ::step] - side[:, ::step].mean(1, keepdims=True) for side in (x, y))
    with np.errstate(all="ignore"):
        slope = (x * y).sum(1, keepdims=True) / (y * y).sum(1, keepdims=True)
        rest = x - np.where(np.isfinite(slope), slope, 0.0) * y
        return bool(np.linalg.norm(rest) < 0.5 * np.linalg.norm(x) or not np.any(x))


def _in_words(a: Array, b: Array, axis: Optional[int]) -> str:
    """Return in words by which factors and offsets an output comes of what is computed."""
    changed = (a != 1.0) | (b != 0.0)
    here = np.flatnonzero(changed)
    a, b = (np.broadcast_to(side, changed.shape)[changed] for side in (a, b))
    words = " and ".join(
        text % _span(numbers)
        for text, numbers, none in (("times %s", a, 1.0), ("plus %s", b, 0.0))
        if np.any(numbers != none)
    )
    if axis is None or here.size == changed.size:
        each = "" if axis is None else ", one for each index of axis %d" % axis
        return "its output is what is computed %s%s" % (words, each)
    is_zero = not np.any(a) and not np.any(b)
    if here.size == 1:
        which, verb = "index %d of axis %s" % (here[0], axis), "holds" if is_zero else "is"
    else:
        which = "%d of %d indices of axis %s" % (here.size, changed.size, axis)
        verb = "(the first is %d) %s" % (here[0], "hold" if is_zero else "are")
    told = "0" if is_zero else "what is computed " + words
    return "%s of its output %s %s, all others are right" % (which, verb, told)


def _with_numbers(written: Written, a: Array, b: Array) -> Optional[Tuple[Array, Array, Value]]:
    """Return factors and offsets, the shortest that explain an output, and what they make of what
    is computed; None where they do not explain it.
    """
    y, error = written.output.computed.array, written.output.computed.error
    counts = [int(np.count_nonzero(side != none)) for side, none in ((a, 1.0), (b, 0.0))]
    for digits in _DIGITS if max(counts) == 1 else _DIGITS[-1:]:
        short_a, short_b = (
            np.array([float("%.*g" % (digits, one)) for one in side.ravel()]).reshape(side.shape)
            for side in (a, b)
        )
        made = short_a * y + short_b
        value = Value(
            made if y.dtype.kind == "f" else made.astype(y.dtype),
            None if error is None else np.abs(short_a) * error,
        )
        # Which of the indices are wrong is to be told, too.
        bits = sum(
            (min(MOST_BITS, BITS_OF_A_DIGIT * (1 + digits)) + math.log2(side.size)) * count
            for side, count in ((short_a, counts[0]), (short_b, counts[1]))
        )
        if explains(written, value, bits, _error_of_fit(written.output, made, (a + b).shape)):
            return short_a, short_b, value
    return None


def _error_of_fit(output: Output, made: Array, shape: Sequence[int]) -> Array:
    """Return how well numbers in a shape are known that were fitted: of so many elements."""
    over = tuple(
        axis
        for axis in range(made.ndim)
        if len(shape) != made.ndim or shape[axis] < made.shape[axis]
    )
    each = max(1, made.size // max(1, int(np.prod(shape))))
    with np.errstate(all="ignore"):
        squares = np.square(np.float64(output.actual) - made).mean(over, keepdims=True)
    return np.sqrt(squares / each)


def _span(numbers: Array) -> str:
    least, most = float(np.min(numbers)), float(np.max(numbers))
    return "%.6g" % least if least == most else "%.6g to %.6g" % (least, most)
