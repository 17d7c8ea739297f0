"""Finds an output whose values are those that are computed, in another order or further on."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations
from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np

from ..operators import Value
from .variant_search import Instead
from .variant_trials import CHANCE_BITS, told_bits
from .written import (
    SAME_TENSOR,
    Written,
    agreement_with,
    explains,
    flattened,
    holds_the_same,
    is_right,
    is_spread,
    moved_value,
    part_of,
)

Array = Any
_MOST_MOVED = 1 << 20
"""Elements that are written in each order of the memory."""
_SHOWN = 12
"""Indices of an order that are told."""
_SUMS = 16
"""Random sums by which the indices of an axis are told apart."""
_MOST_INDICES = 1 << 12
"""Of an axis whose indices may stand in another order."""
ANCHOR = 8
"""Elements in a row by which values further on in memory are found."""
_CANDIDATES = 4
"""Places where these are found, of which each is tried."""
_SHIFTS = (1, -1, 2, -2)
_SHIFTED = 4
"""Times a shift, what an axis has at least: what is left over is the border."""
_FEW_VALUES = 64
"""Elements of which it is counted how many orders their values have."""
_ORDER_BITS = 6.0
"""By which an order of the axes has to be less of a chance."""
_MOST_AXES = 4
"""Of a tensor whose axes are tried in each order."""


def rearranged(written: Written) -> Iterator[Instead]:
    """Yield where the output holds its own values in another order: its axes, one of them
    backwards, the indices of one, or all some elements further on.
    """
    y = written.output.computed
    shape, size = y.array.shape, y.array.size
    if not is_spread(y.array) or not np.any(written.output.actual) or _few_orders(y.array):
        return
    for order in permutations(range(len(shape))) if len(shape) <= _MOST_AXES else ():
        long = [axis for axis in order if shape[axis] > 1]
        if long == sorted(long):
            continue
        turned = tuple(shape[axis] for axis in order)
        memory = "" if turned == shape else " in memory"
        if memory and size > _MOST_MOVED:
            continue
        # Written in that order; or read in it, which differs where the shape does not tell.
        values = [moved_value(y, partial(_transposed, order=order, shape=shape))]
        if memory:
            values.append(moved_value(y, partial(_transposed_back, order=order, turned=turned)))
        for value in values:
            if explains(written, value, _ORDER_BITS):
                words = "transposed%s: axes %s" % (memory, list(order))
                yield _in_other_order(written, value, words)
                return
    for axis, length in enumerate(shape):
        if length < 2:
            continue
        value = moved_value(y, partial(np.flip, axis=axis))
        if explains(written, value, 3.0):
            yield _in_other_order(written, value, "reversed along axis %d" % axis)
            return
        # Of a large output only channels, as each axis is a copy of all.
        if length > _MOST_INDICES or (size > _MOST_MOVED and axis != 1):
            continue
        places = _matching_indices(written.output.actual, y.array, axis)
        steps = np.bincount((np.arange(length) - places) % length, minlength=length)
        # Indices that hold the same are taken for each other.
        step = int(np.argmax(steps[1:])) + 1
        value = moved_value(y, partial(np.roll, shift=step, axis=axis))
        if 2 * steps[step] >= length and explains(written, value, np.log2(length * len(shape))):
            letter = _letters(len(shape))[axis]
            yield Instead(
                "shift",
                "its output is what is computed, rolled by %+d along axis %s (%s)"
                % (
                    step if 2 * step <= length else step - length,
                    letter,
                    agreement_with(written, value),
                ),
                _next_for_shift([letter]),
            )
            return
        value = moved_value(y, partial(np.take, indices=places, axis=axis))
        # Which indices moved, and where to.
        moved = [number for number, place in enumerate(places) if place != number]
        stayed = length - len(moved)
        orders = (math.lgamma(length + 1) - math.lgamma(stayed + 1)) / math.log(2.0)
        if sorted(places) == list(range(length)) and explains(written, value, orders):
            those = "the indices" if not stayed else "indices %s" % _listed(moved)
            words = "with %s of axis %d in the order %s" % (
                those, axis, _listed([places[number] for number in moved]),
            )  # fmt: skip
            yield _in_other_order(written, value, words)
            return


def _few_orders(array: Array) -> bool:
    """Tell whether so few different values have so few orders that one of them is there by chance:
    a triangle of four numbers beside four zeros, turned over, is another triangle.
    """
    if array.size > _FEW_VALUES:
        return False
    _, counts = np.unique(array, return_counts=True)
    ways = math.lgamma(array.size + 1) - sum(math.lgamma(int(count) + 1) for count in counts)
    return ways / math.log(2.0) < CHANCE_BITS + _ORDER_BITS


def _listed(numbers: Sequence[int]) -> str:
    return "[%s%s]" % (", ".join(map(str, numbers[:_SHOWN])), ", ..." * (len(numbers) > _SHOWN))


def _transposed(array: Array, order: Sequence[int], shape: Sequence[int]) -> Array:
    return array.transpose(order).reshape(shape)


def _transposed_back(array: Array, order: Sequence[int], turned: Sequence[int]) -> Array:
    return array.reshape(turned).transpose(np.argsort(order))


def shifted(written: Written) -> Iterator[Instead]:
    """Yield where the output is the computed one some places further on, along an axis or the last
    two, but for its border.
    """
    output, y = written.output, written.output.computed
    shape, axes = y.array.shape, y.array.ndim
    moves: List[Tuple[int, ...]] = []
    for axis in range(axes):
        moves += [(0,) * axis + (step,) + (0,) * (axes - axis - 1) for step in _SHIFTS]
    if axes > 2:
        moves += [(0,) * (axes - 2) + (down, right) for down in _SHIFTS for right in _SHIFTS]
    for steps in moves if output.actual.dtype.kind == "f" else ():
        if any(length < _SHIFTED * abs(step) for length, step in zip(shape, steps)):
            continue
        here, there = (
            tuple(
                slice(max(0, sign * step), length - max(0, -sign * step))
                for length, step in zip(shape, steps)
            )
            for sign in (1, -1)
        )
        if not any(steps[:-1]):
            # Along the last axis: not where the first of each row comes from the row before.
            flat = moved_value(y, np.ravel)
            on, before = (slice(places[-1].start, None) for places in (here, there))
            count = y.array.size - abs(steps[-1])
            whole = None if flat.error is None else flat.error[before][:count]
            memory = Value(flat.array[before][:count], whole)
            if is_right(written, output.actual.reshape(-1)[on][:count], memory):
                continue
        error = None if y.error is None else np.broadcast_to(y.error, shape)[there]
        part = Value(y.array[there], error)
        if (
            not is_right(written, output.actual[here], part)
            or told_bits(part_of(output, here), part) < CHANCE_BITS + np.log2(len(moves))
            or not is_spread(part.array)
            or not np.isfinite(part.array).all()
        ):
            continue
        letters = _letters(axes)
        moved_along = [letters[axis] for axis, step in enumerate(steps) if step]
        yield Instead(
            "shift",
            "the target holds the computed values shifted by "
            + " and ".join(
                "%+d along axis %s" % (step, letters[axis])
                for axis, step in enumerate(steps)
                if step
            ),
            _next_for_shift(moved_along),
        )
        return


def _letters(axes: int) -> str:
    return "NCHW" if axes == 4 else "0123456789"


def _next_for_shift(along: Sequence[str]) -> str:
    if along in (["N"], ["0"]):
        return (
            "look at the order of samples (of a recurrent layer: of steps, its direction and first "
            "state), and whether the output was written from its begin on"
        )
    return (
        "look at the order of its channels and weights, and at concat, split and group"
        if along == ["C"]
        else "look at the operator's padding, stride and crop attributes in the model's json"
    )


def further_on(written: Written) -> Iterator[Instead]:
    """Yield where the output is the computed one some elements further on in memory: found by a few
    elements of its middle in a row.
    """
    output = written.output
    x, y = (
        np.asarray(side, np.float64).reshape(-1) for side in (output.actual, output.computed.array)
    )
    size, first = y.size, y.size // 2
    if output.actual.dtype.kind != "f" or size < 4 * ANCHOR or not np.isfinite(y).all():
        return
    row = y[first : first + ANCHOR]
    if not is_spread(row):
        return
    fits = np.ones(size - ANCHOR + 1, bool)
    near = SAME_TENSOR * float(np.abs(row).max())
    for number, value in enumerate(row):
        fits &= np.abs(x[number : number + len(fits)] - value) <= near
    error = output.computed.error
    if error is not None:
        error = np.broadcast_to(error, output.computed.array.shape).reshape(-1)
    for place in np.flatnonzero(fits)[:_CANDIDATES]:
        step = int(place) - first
        here = slice(max(0, step), size + min(0, step))
        there = slice(max(0, -step), size - max(0, step))
        part = Value(
            output.computed.array.reshape(-1)[there], None if error is None else error[there]
        )
        if (
            step
            and is_right(written, output.actual.reshape(-1)[here], part)
            and told_bits(part_of(flattened(output), here), part) >= CHANCE_BITS + np.log2(size)
        ):
            rest = np.delete(x, np.r_[here]), np.delete(y, np.r_[there])
            turned = " (the last ones at its begin)" if step > 0 else " (the first ones at its end)"
            words = (
                "its output holds the computed values %+d elements further on in memory%s: %s of %s"
            )
            yield Instead(
                "shift",
                words
                % (step, turned if holds_the_same(*rest) else "", format(part.array.size, ","),
                   format(size, ",")),
                "look at the memory that the operator writes to in the compiled model (offsets, "
                "alignment), and at its tiling",
            )  # fmt: skip
            return


def _in_other_order(written: Written, value: Value, words: str) -> Instead:
    return Instead(
        "layout",
        "its output is what is computed, %s (%s)" % (words, agreement_with(written, value)),
        "compare the operator's formats, and the order of its axes, channels, inputs and outputs, "
        "in the om's json with the original model",
    )


def _matching_indices(actual: Array, computed: Array, axis: int) -> List[int]:
    """Return which index of an axis of the computed values each of the device's is likest to, told
    by a few random sums of each. Of those that are likest to one (of several that are 0, say) the
    first is, and the others stand in for those that none is likest to.
    """
    x, y = (
        np.moveaxis(np.asarray(side, np.float64), axis, 0).reshape(side.shape[axis], -1)
        for side in (actual, computed)
    )
    # Far from each other in many sums are those that differ, whatever rounding makes of them.
    weights = np.random.RandomState(0).normal(size=(x.shape[1], _SUMS))
    sums, own = x @ weights, y @ weights
    with np.errstate(all="ignore"):
        apart = np.square(own).sum(1) - 2.0 * (sums @ own.T)
    places = np.argmin(np.where(np.isfinite(apart), apart, np.inf), 1)
    taken, first = np.unique(places, return_index=True)
    others = np.setdiff1d(np.arange(len(places)), first)
    places[others] = np.setdiff1d(np.arange(len(places)), taken)
    return [int(place) for place in places]
