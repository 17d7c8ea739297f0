"""Finds which part of an output was not written, or holds one value: single indices, borders, a
stretch, all samples but the first.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from ..tensors.type_precision import rounding_of
from .variant_search import Instead
from .variant_trials import CHANCE_BITS, Output, agreeing
from .written import (
    FEWEST_ELEMENTS,
    SAME_TENSOR,
    Written,
    agreement_with,
    explains,
    holds_the_same,
    is_spread,
    moved_value,
)

Array = Any
_WITHIN = 0.9
"""Of the elements of a stretch that was not written, how many are wrong at least: others may be
right by chance."""
_RIGHT = 0.99
"""Of the elements beside what was not written, how many are right at least."""
_FEWEST_OF_TAIL = 4
"""Elements at the end that hold 0 alone, and are computed otherwise: attribute_trial --lot 1 4000
--unread calls as many outputs not written as with 8 of them."""
_MOST_ALONE = 4
"""Indices that are right while all others are wrong, of which each is named."""
_NEXT_NOT_WRITTEN = (
    "look at the operator's tiling in the compiled model (what each core computes), and run the "
    "same input twice: what was not written may hold other values then"
)
_NEXT_OTHER_VALUES = (
    "compare that part of any weights in the compiled model with the original's, and run the same "
    "input twice: what was not written may hold other values then"
)
_NEXT_CONSTANTS = (
    "compare the operator's constants and attributes in the compiled model with the original's, "
    "and run the same input twice: what was not written may hold other values then"
)
_SINGULARS = {"are": "is", "hold": "holds"}
_SINGULAR = re.compile("^(are|hold)")
_UNRELATED = 0.5
"""Relative distance from which on values are others, not worse ones; and the correlation."""


def first_index(written: Written) -> Iterator[Instead]:
    """Yield where all indices of an axis, such as the samples, hold what is computed of the first
    one.
    """
    computed = written.output.computed
    shape = computed.array.shape
    for axis, length in enumerate(shape) if len(shape) > 1 else ():
        first = moved_value(computed, partial(np.take, indices=[0] * length, axis=axis))
        if length == 1 or not explains(written, first, math.log2(len(shape))):
            continue
        if axis == 0:
            yield Instead(
                "not-written",
                "all %d samples hold what is computed of the first one" % length,
                "look at the batch size that the model was compiled for, and at the operator's "
                "tiling over the samples",
            )
        else:
            yield Instead(
                "not-written",
                "all %d indices of axis %d hold what is computed of the first one (%s)"
                % (length, axis, agreement_with(written, first)),
                "look at the operator's tiling along that axis (where each core reads and writes), "
                "and whether one of its inputs is broadcast along it",
            )
        return


def below_threshold(written: Written) -> Iterator[Instead]:
    """Yield where all elements that are computed below some size are 0, and all others right."""
    output = written.output
    if output.actual.dtype.kind != "f":
        return
    x, size = output.actual.reshape(-1), np.abs(output.computed.array.reshape(-1))
    wrong, there = ~agreeing(output, output.computed).reshape(-1), x != 0
    if min(np.count_nonzero(wrong), np.count_nonzero(there)) < FEWEST_ELEMENTS:
        return
    threshold = float(size[wrong].max())
    least = rounding_of(output.dtype).least_normal
    # Rounding decides of those next to the threshold.
    if (wrong & there).any() or float(size[there].min()) < threshold * (1.0 - SAME_TENSOR):
        return
    words = "all %s elements (of %s) that are computed below %.4g in size are 0, all others right"
    is_tiny = threshold <= 2.0 * least
    yield Instead(
        "flush-to-zero" if is_tiny else "activation",
        words % (format(np.count_nonzero(~there), ","), format(x.size, ","), threshold),
        "keep the operator in float32, or scale its inputs up: its values are too small for %s"
        % output.dtype
        if is_tiny
        else "compare what was fused into the operator (a threshold, Shrink) in the model's json "
        "with the original model, and look whether it was quantised or pruned",
    )


def one_value(written: Written) -> Iterator[Instead]:
    """Yield where all elements are one value, and not all of what is computed."""
    actual, computed = written.output.actual, written.output.computed.array
    if not is_spread(computed) or np.any(actual != actual.flat[0]):
        return
    # An index or a count may be the same everywhere.
    if actual.dtype.kind != "f" and actual.flat[0]:
        return
    too_small = rounding_of(written.output.dtype).least_normal
    if np.any(np.abs(computed) >= too_small) and np.isfinite(np.float64(actual.flat[0])):
        yield Instead(
            "not-written",
            "every element of the target is %.6g: the output was not computed, or not written, or "
            "a constant of the operator (weights, a scale, a bound) makes all of it that"
            % (actual.flat[0] or 0.0),
            _NEXT_CONSTANTS,
        )


def indices_not_written(written: Written) -> Iterator[Instead]:
    """Yield where some indices of an axis hold 0 or other values throughout, and all others are
    right.
    """
    output = written.output
    if output.actual.dtype.kind != "f":
        return
    x, y = (np.asarray(side, np.float64) for side in (output.actual, output.computed.array))
    right = agreeing(output, output.computed)
    for axis in range(x.ndim):
        other_axes = tuple(number for number in range(x.ndim) if number != axis)
        if not 1 < x.shape[axis] < x.size:
            continue
        wrong = 1.0 - right.mean(other_axes) >= _WITHIN
        # What is 0 throughout is told by itself: all others are right also where another rounding
        # of the weights is all that they are off.
        zero = ~x.any(other_axes) & ((y != 0).mean(other_axes) >= _WITHIN)
        is_zero = zero.any() and holds_the_same(
            *(np.compress(~zero, side, axis) for side in (x, y))
        )
        wrong = zero if is_zero else wrong
        count, each = int(np.count_nonzero(wrong)), x.size // x.shape[axis]
        if each * min(count, x.shape[axis] - count) < FEWEST_ELEMENTS or (
            not is_zero and np.compress(~wrong, right, axis).mean() < _RIGHT
        ):
            continue
        stretch, expected = (np.compress(wrong, side, axis) for side in (x, y))
        holds, otherwise, kind = "", "", "not-written"
        if not np.any(stretch):
            holds, otherwise = "are 0", _of_zeros(written)
        elif not np.ptp(stretch):
            # A channel whose weights are 0 holds its bias.
            holds = "hold %.6g" % stretch.flat[0]
            otherwise = "computed of a bias alone, or "
        has_weights = not holds and "weights" in written.zeros_of()
        for given in written.inputs if has_weights else ():
            # Of an operator that works in place what is not written still holds its input.
            if given.size == x.size and holds_the_same(
                stretch, np.compress(wrong, np.reshape(given, x.shape), axis)
            ):
                holds = "hold its input as it is"
                otherwise = "computed with a factor of 1 or an addend of 0, or "
                break
        for name, other in () if holds else written.others():
            if other.size != x.size:
                continue
            if holds_the_same(stretch, np.compress(wrong, np.reshape(other, x.shape), axis)):
                holds = "hold what %s computed" % name
                break
        if not holds:
            with np.errstate(all="ignore"):
                alike = np.corrcoef(stretch.reshape(-1), expected.reshape(-1))[0, 1]
            # What is like it was written, but otherwise. An axis, pads or an order that were read
            # otherwise leave few indices right; a stride the first of two.
            is_most = 2 * count > x.shape[axis] or x.shape[axis] == 2
            if is_most or not np.isfinite(stretch).all() or abs(alike) > _UNRELATED:
                continue
            # Values that nothing else of the run holds.
            holds, kind = "hold other values", "one-slice"
            otherwise = "computed of other weights or inputs, or "
        which = "%d of %d indices of axis %d %s throughout, the first is %d" % (
            count, x.shape[axis], axis, holds, int(np.argmax(wrong)),
        )  # fmt: skip
        if count == 1:
            which = "index %d of axis %d (of %d) %s throughout" % (
                int(np.argmax(wrong)),
                axis,
                x.shape[axis],
                _SINGULAR.sub(lambda verb: _SINGULARS[verb.group()], holds),
            )
        yield Instead(
            kind,
            "%s, and all others are right: that part was %snot written" % (which, otherwise),
            _NEXT_OTHER_VALUES if otherwise else _NEXT_NOT_WRITTEN,
            kind == "one-slice",
        )
        return


def borders_not_written(written: Written) -> Iterator[Instead]:
    """Yield where indices of one axis or several are 0 throughout, and all others are right: the
    last row and the last column.
    """
    output = written.output
    actual, shape = output.actual, output.actual.shape
    right = agreeing(output, output.computed)
    zeros = {}
    for axis in range(len(shape)) if actual.dtype.kind == "f" else ():
        over = tuple(number for number in range(len(shape)) if number != axis)
        zero = ~actual.any(over) & ~right.all(over)
        # Single elements are also what a threshold makes 0.
        if zero.any() and actual.size > shape[axis]:
            zeros[axis] = zero
    for axis in sorted(zeros, key=lambda one: -np.count_nonzero(zeros[one])):
        # What is left beside the others is 0 by right there (of a Relu): nothing was left out.
        others = {one: zero for one, zero in zeros.items() if one != axis}
        if others and right[~_at_any(others, shape)].all():
            zeros = others
    empty = _at_any(zeros, shape)
    if (
        not np.count_nonzero(~right & empty) >= FEWEST_ELEMENTS <= np.count_nonzero(~empty)
        or not right[~empty].all()
    ):
        return
    words = [
        "%d of %d indices of axis %d (the first is %d)"
        % (np.count_nonzero(zero), shape[axis], axis, np.argmax(zero))
        if np.count_nonzero(zero) > 1
        else "index %d of axis %d (of %d)" % (np.argmax(zero), axis, shape[axis])
        for axis, zero in zeros.items()
    ]
    is_one = len(words) == 1 and words[0].startswith("index")
    of_all = "%s %s 0 throughout, and all others are right: that " % (
        " and ".join(words),
        "is" if is_one else "are",
    )
    if len(words) == 1 or not all(_is_end(zero) for zero in zeros.values()):
        otherwise = _of_zeros(written)
        yield Instead(
            "not-written",
            "%spart was %snot written" % (of_all, otherwise),
            _NEXT_OTHER_VALUES if otherwise else _NEXT_NOT_WRITTEN,
        )
    else:
        yield Instead(
            "not-written",
            of_all + "border was not computed (the tiling there; pads and what they hold, "
            "output_padding, ceil_mode, where it has such), or not written",
            "look at the operator's tiling, and compare pads, mode, output_padding and ceil_mode, "
            "where it has such, in the om's json with the original model",
        )


def _of_zeros(written: Written) -> str:
    """Return of what else than memory that was not written zeros may come, before "or"."""
    causes = written.zeros_of()
    return "computed of %s that are 0, or " % causes if causes else ""


def _at_any(chosen: Mapping[int, Array], shape: Sequence[int]) -> Array:
    """Return which elements of a shape stand at an index that is chosen of some axis."""
    at = np.zeros(shape, bool)
    for axis, indices in chosen.items():
        at |= indices.reshape([-1 if number == axis else 1 for number in range(len(shape))])
    return at


def _is_end(chosen: Array) -> bool:
    """Tell whether the indices that are chosen are the first ones, the last ones, or both."""
    return bool(np.count_nonzero(chosen[1:] != chosen[:-1]) <= 1 + (chosen[0] and chosen[-1]))


def right_alone(output: Output) -> str:
    """Return in words which indices of an axis alone are right, where these are the fewer ones; no
    words where there are none.
    """
    x, right = output.actual, agreeing(output, output.computed)
    for axis, length in enumerate(x.shape if x.dtype.kind == "f" else ()):
        share = right.mean(tuple(other for other in range(x.ndim) if other != axis))
        alone = np.flatnonzero(share >= _RIGHT)
        if (
            0 < 2 * alone.size < length
            and alone.size <= _MOST_ALONE
            and x.size // length >= FEWEST_ELEMENTS
            and np.all(np.delete(share, alone) <= 1.0 - _WITHIN)
            and all(is_spread(np.take(x, number, axis)) for number in alone)
        ):
            return "%s %s of axis %d alone %s right" % (
                "index" if alone.size == 1 else "indices",
                ", ".join(map(str, alone)),
                axis,
                "is" if alone.size == 1 else "are",
            )
    return ""


def not_written(written: Written) -> Iterator[Instead]:
    """Yield where one stretch of the output was not written, and all others are right: it holds 0,
    one value or another tensor's; or other values, from inside an index of the first axis on.
    """
    output = written.output
    right = agreeing(output, output.computed).reshape(-1)
    wrong = np.flatnonzero(~right)
    if not wrong.size:
        return
    first, last = int(wrong[0]), int(wrong[-1])
    is_tail = last + 1 == right.size and not np.any(output.actual.reshape(-1)[first:])
    # A whole number is often that of another element.
    if output.actual.dtype.kind != "f" and np.any(output.actual.reshape(-1)[first : last + 1]):
        return
    if wrong.size < (_FEWEST_OF_TAIL if is_tail else FEWEST_ELEMENTS):
        return
    stretch, expected = (
        np.asarray(side, np.float64).reshape(-1)[first : last + 1]
        for side in (output.actual, output.computed.array)
    )
    outside = np.delete(output.computed.array.reshape(-1), np.s_[first : last + 1])
    telling = expected != 0
    off = np.linalg.norm(stretch - expected)
    if (
        np.count_nonzero(outside) < FEWEST_ELEMENTS
        or not telling.any()
        or (~right[first : last + 1])[telling].mean() < _WITHIN
        or not off >= _UNRELATED * np.linalg.norm(expected)
    ):
        return
    if first and last + 1 < right.size:
        where, what = "elements %d to %d" % (first, last), "all others are right"
    elif first:
        where, what = "all from %d on" % first, "all elements up to %d are right" % (first - 1)
    else:
        where, what = "all elements up to %d" % last, "all from %d on are right" % (last + 1)
    values, otherwise = "0" if not np.any(stretch) else "", ""
    if not values and not np.ptp(stretch):
        # A channel whose weights are 0 holds its bias.
        values, otherwise = "%.6g" % stretch[0], "computed of a bias alone, or "
    for name, other in () if values else written.others():
        if holds_the_same(stretch, np.reshape(other, -1)[first : last + 1]):
            values = "what %s computed" % name
            break
    if not values:
        with np.errstate(all="ignore"):
            alike = np.corrcoef(stretch, expected)[0, 1]
        # What is like it was written, but otherwise.
        if abs(alike) > _UNRELATED or not _ends_inside_an_index(
            right, output.computed.array.shape, first, last
        ):
            return
        values, otherwise = "other values", "computed of something else, or "
    yield Instead(
        "not-written",
        "%s, %s hold %s (of %d, in the order of the original layout): that part was %snot written"
        % (what, where, values, right.size, otherwise),
        _NEXT_OTHER_VALUES if "bias" in otherwise else _NEXT_NOT_WRITTEN,
    )


def _ends_inside_an_index(right: Array, shape: Sequence[int], first: int, last: int) -> bool:
    """Tell whether a stretch of wrong elements begins or ends inside an index of some axes, with
    whole indices wrong and others right: what is read otherwise, an axis, pads or weights, changes
    whole indices, or the same elements of each.
    """
    wrong_size, size = last + 1 - first, right.size
    by_chance = (float(np.count_nonzero(right[first : last + 1])) + 1.0) / (wrong_size + 1)
    for axis in range(1, len(shape)):
        each = int(np.prod(shape[axis:]))
        wrong = (last + 1) // each - -(-first // each)
        others = first // each + (size - last - 1) // each
        inside = max(first % each, -(last + 1) % each)
        bits = -np.log2(by_chance) * inside
        if wrong > 0 and others > 0 and bits >= CHANCE_BITS + np.log2(size):
            return True
    return False
