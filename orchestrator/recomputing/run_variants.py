"""What a device wrote in place of what an operator computes, whatever the operator: values of
another tensor, of the first sample, its own in another order or by a factor, or nothing from some
element on.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.registry import TENSORFLOW
from ..operators.value_with_error import joined_errors
from ..operators.variants import ACTIVATIONS, Function, Variant
from ..tensors.type_precision import rounding_of
from .output_error import OwnError, own_error
from .variant_search import Instead, agreement
from .variant_trials import (
    BITS_OF_A_DIGIT,
    CHANCE_BITS,
    MOST_AGREE,
    MOST_BITS,
    Output,
    agreeing,
    told_bits,
)

Array = Any
Judge = Callable[[OwnError], float]

# The bounds here are chosen; no trial of each alone. Together attribute_trial tries them: with
# --lot 1 40 --null nothing is found.
_FEWEST = 8
"""Elements of which what is right and what is not written consist at least: of two, a Clip that
ends at 0 is one of 200 that attribute_trial --lot 1 4000 --unread calls not written."""
_ROUNDINGS = 16.0
"""Of a narrower type, what its steps inside an operator come to at most, root mean square."""
# What variant_search asks more of what no attribute says.
_UNLIKELY_BITS = 10.0
_DIGITS = (1, 2, 3, 4, 6)
"""Of a factor or an offset, tried one after the other."""
_GRID_BITS = 4.0
"""That a number on a step of 8 bits tells; beside the first ones, which tell the step."""
_WITHIN = 0.9
"""Of the elements of a stretch that was not written, how many are wrong at least: others may be
right by chance."""
_RIGHT = 0.99
"""Of the elements beside what was not written, how many are right at least."""
_MOST_ALONE = 4
"""Indices that are right while all others are wrong, of which each is named."""
_NEXT_NOT_WRITTEN = (
    "look at the operator's tiling in the compiled model (what each core computes), and run the "
    "same input twice: what was not written may hold other values then"
)
_OF_ZEROS = "computed of weights or inputs that are 0, or not written"
_NEXT_OTHER_VALUES = (
    "compare that part of any weights in the compiled model with the original's, and run the same "
    "input twice: what was not written may hold other values then"
)
_UNRELATED = 0.5
"""Relative distance from which on values are others, not worse ones; and the correlation."""
_NEXT_NUMBERS = {
    "scale": "compare the operator's scale, epsilon, alpha and quantisation factors with those of "
    "the original model",
    "bias": "look whether the operator's bias (or beta, or zero point) reached the compiled model",
}
_NARROWER: Mapping[str, Tuple[Any, int, Sequence[Tuple[int, str]]]] = {
    "float32": (np.uint32, 23, ((7, "bfloat16"), (10, "float16"))),
    "float16": (
        np.uint16,
        10,
        (*((bits, "%d bits of mantissa" % bits) for bits in (3, 4, 5, 6)), (7, "bfloat16")),
    ),
}
"""Of each type: its numbers as whole ones, the bits of its mantissa, and what may have fewer."""
_FUNCTIONS = (
    Function("Abs"),
    Function("Sqrt"),
    Function("Square", dialect=TENSORFLOW),
    Function("Reciprocal"),
    Function("Exp"),
    Function("Log"),
)
"""Other functions that may follow."""
_LOOKED_AT = 1 << 12
"""Elements that are looked at before all are."""
_FAR_OFF = 4.0
"""Of such a few: how far off they are at most where the whole may be right."""
_MOST_MOVED = 1 << 20
"""Elements that are written in each order of the memory."""
_SUMS = 16
"""Random sums by which the indices of an axis are told apart."""
_MOST_INDICES = 1 << 12
"""Of an axis whose indices may stand in another order."""
_FEW = 0.1
"""Of the largest change, that of half of the indices where only few of them are wrong."""
_STEP_OFF = 0.02
"""Of the step between values of 8 bits, what rounding of the output's own type may add."""
_ANCHOR = 8
"""Elements in a row by which values further on in memory are found."""
_CANDIDATES = 4
"""Places where these are found, of which each is tried."""
_SHIFTS = (1, -1, 2, -2)
_SHIFTED = 4
"""Times a shift, what an axis has at least: what is left over is the border."""
_MOST_AXES = 4
"""Of a tensor whose axes are tried in each order."""
_SAME = 1e-3
"""Relative distance up to which values are those of another tensor: one rounding to float16."""


class Written(NamedTuple):
    """An output that no variant of its operator explains.

    Attributes
    ----------
    output
        The output, and what is computed.
    others
        Other tensors of the run by their names, those of as many elements, the nearest first.
    judge
        Returns by how many times an error exceeds what is allowed.
    """

    output: Output
    others: Callable[[], Iterable[Tuple[str, Array]]]
    judge: Judge


def _of_another(written: Written) -> Iterator[Instead]:
    actual = written.output.actual
    for name, values in written.others():
        if _is_same(actual, values) and _is_told(
            written, Value(np.reshape(values, actual.shape)), 4.0
        ):
            yield Instead(
                "other-tensor",
                "its output holds what %s computed, element by element" % name,
                "look at the memory that both use in the compiled model (offsets, reuse), whether "
                "the operator ran this time, and at the order of inputs and outputs around it",
            )
            return


def _of_first_sample(written: Written) -> Iterator[Instead]:
    output = written.output
    computed = output.computed.array
    if computed.ndim > 1 and computed.shape[0] > 1:
        repeated = np.broadcast_to(computed[:1], computed.shape)
        error = output.computed.error
        if error is not None:
            error = np.broadcast_to(np.broadcast_to(error, computed.shape)[:1], computed.shape)
        if _explains(written, Value(repeated, error), 1.0):
            yield Instead(
                "not-written",
                "all %d samples hold what is computed of the first one" % computed.shape[0],
                "look at the batch size that the model was compiled for, and at the operator's "
                "tiling over the samples",
            )


def _with_activation(written: Written) -> Iterator[Instead]:
    output = written.output
    if output.computed.array.dtype.kind != "f" or not np.any(output.actual):
        return
    few = _some_elements(output.actual, output.computed)
    for entry in (*ACTIVATIONS, *_FUNCTIONS):
        if not entry.kind:
            continue
        node = Node(entry.dialect, entry.kind, entry.attributes, "", 20)
        activation = Variant("", "", "", node)
        try:
            (value,) = activation.compute([few[1]], Arithmetic())
            if not written.judge(own_error(few[0], value, output.dtype)) <= _FAR_OFF:
                continue
            (value,) = activation.compute([output.computed], Arithmetic())
        except CannotCompute:
            continue
        if _explains(written, value, np.log2(len(ACTIVATIONS) + len(_FUNCTIONS))):
            agree = np.count_nonzero(agreeing(output, value))
            number = next(_by_numbers(written), None) if agree < output.actual.size else None
            if number is not None and not number.several and number.agree > agree:
                # Times 1.05 is about what Selu does, whose factor is 1.0507.
                return
            yield Instead(
                "activation",
                "the device computed %s behind it, which the model does not have there (%s)"
                % (entry.text, _counts(written, value)),
                "compare what was fused into the operator in the model's json with the original "
                "model",
            )
            return


def _one_value(written: Written) -> Iterator[Instead]:
    """Yield where all elements are one value, and not all of what is computed."""
    actual, computed = written.output.actual, written.output.computed.array
    if not _is_spread(computed) or np.any(actual != actual.flat[0]):
        return
    too_small = rounding_of(written.output.dtype).least_normal
    if np.any(np.abs(computed) >= too_small) and np.isfinite(np.float64(actual.flat[0])):
        yield Instead(
            "not-written",
            "every element of the target is %.6g: the output was not computed, or not written, or "
            "what it is multiplied by (weights, a scale, alpha) was 0" % (actual.flat[0] or 0.0),
            _NEXT_NOT_WRITTEN,
        )


def _indices_not_written(written: Written) -> Iterator[Instead]:
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
        is_zero = zero.any() and _is_same(*(np.compress(~zero, side, axis) for side in (x, y)))
        wrong = zero if is_zero else wrong
        count, each = int(np.count_nonzero(wrong)), x.size // x.shape[axis]
        if each * min(count, x.shape[axis] - count) < _FEWEST or (
            not is_zero and np.compress(~wrong, right, axis).mean() < _RIGHT
        ):
            continue
        stretch, expected = (np.compress(wrong, side, axis) for side in (x, y))
        holds, otherwise, kind = "", "", "not-written"
        if not np.any(stretch):
            holds, otherwise = "are 0", "computed of weights or inputs that are 0, or "
        elif not np.ptp(stretch):
            # A channel whose weights are 0 holds its bias.
            holds = "hold %.6g" % stretch.flat[0]
            otherwise = "computed of a bias alone, or "
        for name, other in () if holds else written.others():
            # Of an operator that works in place what is not written still holds its input.
            if _is_same(stretch, np.compress(wrong, np.reshape(other, x.shape), axis)):
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
        yield Instead(
            kind,
            "%d of %d indices of axis %d %s throughout, the first is %d, and all others "
            "are right: that part was %snot written"
            % (count, x.shape[axis], axis, holds, int(np.argmax(wrong)), otherwise),
            _NEXT_OTHER_VALUES if otherwise else _NEXT_NOT_WRITTEN,
            kind == "one-slice",
        )
        return


def _borders_not_written(written: Written) -> Iterator[Instead]:
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
        not np.count_nonzero(~right & empty) >= _FEWEST <= np.count_nonzero(~empty)
        or not right[~empty].all()
    ):
        return
    words = [
        "%d of %d indices of axis %d (the first is %d)"
        % (np.count_nonzero(zero), shape[axis], axis, np.argmax(zero))
        for axis, zero in zeros.items()
    ]
    of_all = "%s are 0 throughout, and all others are right: that " % " and ".join(words)
    if len(words) == 1 or not all(_is_end(zero) for zero in zeros.values()):
        yield Instead("not-written", of_all + "part was " + _OF_ZEROS, _NEXT_OTHER_VALUES)
    else:
        yield Instead(
            "not-written",
            of_all + "border was not computed (the tiling there; pads and what they hold, "
            "output_padding, ceil_mode, where it has such), or not written",
            "look at the operator's tiling, and compare pads, mode, output_padding and ceil_mode, "
            "where it has such, in the om's json with the original model",
        )


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
            and x.size // length >= _FEWEST
            and np.all(np.delete(share, alone) <= 1.0 - _WITHIN)
            and all(_is_spread(np.take(x, number, axis)) for number in alone)
        ):
            return "%s %s of axis %d alone %s right" % (
                "index" if alone.size == 1 else "indices",
                ", ".join(map(str, alone)),
                axis,
                "is" if alone.size == 1 else "are",
            )
    return ""


def _not_written(written: Written) -> Iterator[Instead]:
    """Yield where one stretch of the output was not written, and all others are right: it holds 0,
    one value or another tensor's; or other values, from inside an index of the first axis on.
    """
    output = written.output
    right = agreeing(output, output.computed).reshape(-1)
    wrong = np.flatnonzero(~right)
    if wrong.size < _FEWEST or output.actual.dtype.kind != "f":
        return
    first, last = int(wrong[0]), int(wrong[-1])
    stretch, expected = (
        np.asarray(side, np.float64).reshape(-1)[first : last + 1]
        for side in (output.actual, output.computed.array)
    )
    outside = np.delete(output.computed.array.reshape(-1), np.s_[first : last + 1])
    telling = expected != 0
    off = np.linalg.norm(stretch - expected)
    if (
        np.count_nonzero(outside) < _FEWEST
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
        if _is_same(stretch, np.reshape(other, -1)[first : last + 1]):
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


def _rearranged(written: Written) -> Iterator[Instead]:
    """Yield where the output holds its own values in another order: its axes, one of them
    backwards, the indices of one, or all some elements further on.
    """
    y = written.output.computed
    shape, size = y.array.shape, y.array.size
    if not _is_spread(y.array) or not np.any(written.output.actual):
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
        values = [_moved(y, partial(_transposed, order=order, shape=shape))]
        if memory:
            values.append(_moved(y, partial(_transposed_back, order=order, turned=turned)))
        for value in values:
            if _explains(written, value, 6.0):
                words = "transposed%s: axes %s" % (memory, list(order))
                yield _in_other_order(written, value, words)
                return
    for axis, length in enumerate(shape):
        if length < 2:
            continue
        value = _moved(y, partial(np.flip, axis=axis))
        if _explains(written, value, 3.0):
            yield _in_other_order(written, value, "reversed along axis %d" % axis)
            return
        # Of a large output only channels, as each axis is a copy of all.
        if length > _MOST_INDICES or (size > _MOST_MOVED and axis != 1):
            continue
        places = _matching_indices(written.output.actual, y.array, axis)
        steps = np.bincount((np.arange(length) - places) % length, minlength=length)
        # Indices that hold the same are taken for each other.
        step = int(np.argmax(steps[1:])) + 1
        value = _moved(y, partial(np.roll, shift=step, axis=axis))
        if 2 * steps[step] >= length and _explains(written, value, np.log2(length * len(shape))):
            letter = _letters(len(shape))[axis]
            yield Instead(
                "shift",
                "its output is what is computed, rolled by %+d along axis %s (%s)"
                % (
                    step if 2 * step <= length else step - length,
                    letter,
                    _counts(written, value),
                ),
                _next_for_shift([letter]),
            )
            return
        value = _moved(y, partial(np.take, indices=places, axis=axis))
        orders = math.lgamma(length + 1) / math.log(2.0)
        if sorted(places) == list(range(length)) and _explains(written, value, orders):
            shown = ", ".join(map(str, places[:12])) + (", ..." if length > 12 else "")
            yield _in_other_order(
                written, value, "with the indices of axis %d in the order [%s]" % (axis, shown)
            )
            return


def _transposed(array: Array, order: Sequence[int], shape: Sequence[int]) -> Array:
    return array.transpose(order).reshape(shape)


def _transposed_back(array: Array, order: Sequence[int], turned: Sequence[int]) -> Array:
    return array.reshape(turned).transpose(np.argsort(order))


def _shifted(written: Written) -> Iterator[Instead]:
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
            flat = _moved(y, np.ravel)
            on, before = (slice(places[-1].start, None) for places in (here, there))
            count = y.array.size - abs(steps[-1])
            whole = None if flat.error is None else flat.error[before][:count]
            memory = Value(flat.array[before][:count], whole)
            if _fits(written, output.actual.reshape(-1)[on][:count], memory):
                continue
        error = None if y.error is None else np.broadcast_to(y.error, shape)[there]
        part = Value(y.array[there], error)
        if (
            not _fits(written, output.actual[here], part)
            or told_bits(_part(output, here), part) < CHANCE_BITS + np.log2(len(moves))
            or not _is_spread(part.array)
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


def _further_on(written: Written) -> Iterator[Instead]:
    """Yield where the output is the computed one some elements further on in memory: found by a few
    elements of its middle in a row.
    """
    output = written.output
    x, y = (
        np.asarray(side, np.float64).reshape(-1) for side in (output.actual, output.computed.array)
    )
    size, first = y.size, y.size // 2
    if output.actual.dtype.kind != "f" or size < 4 * _ANCHOR or not np.isfinite(y).all():
        return
    row = y[first : first + _ANCHOR]
    if not _is_spread(row):
        return
    fits = np.ones(size - _ANCHOR + 1, bool)
    near = _SAME * float(np.abs(row).max())
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
            and _fits(written, output.actual.reshape(-1)[here], part)
            and told_bits(_part(_flat(output), here), part) >= CHANCE_BITS + np.log2(size)
        ):
            rest = np.delete(x, np.r_[here]), np.delete(y, np.r_[there])
            turned = " (the last ones at its begin)" if step > 0 else " (the first ones at its end)"
            words = (
                "its output holds the computed values %+d elements further on in memory%s: %s of %s"
            )
            yield Instead(
                "shift",
                words
                % (step, turned if _is_same(*rest) else "", format(part.array.size, ","),
                   format(size, ",")),
                "look at the memory that the operator writes to in the compiled model (offsets, "
                "alignment), and at its tiling",
            )  # fmt: skip
            return


def _in_eight_bits(written: Written) -> Iterator[Instead]:
    """Yield where the output has at most 256 values, one step apart, and each element is the one
    that is nearest to the computed one.
    """
    output = written.output
    x, y = (np.asarray(side, np.float64) for side in (output.actual, output.computed.array))
    if output.actual.dtype.kind != "f" or x.size < _FEWEST or not np.isfinite(x).all():
        return
    values = np.unique(x)
    told = _GRID_BITS * (values.size - 3)
    if values.size > 256 or np.unique(y).size <= 2 * values.size or told < CHANCE_BITS:
        return
    # Rounded to the output's type, values lie a little off the steps.
    apart = np.diff(values)
    step = float(apart[apart < 1.5 * apart.min()].mean())
    step = float(values[-1] - values[0]) / max(1.0, float(np.rint((values[-1] - values[0]) / step)))
    places = (values - values[0]) / step
    inside = np.clip(y, values[0], values[-1])
    if (
        places[-1] < 256
        and np.all(np.abs(places - np.rint(places)) <= 0.1)
        and np.all(np.abs(x - inside) <= (0.5 + _STEP_OFF) * step + 2.0**-10 * np.abs(x))
    ):
        yield Instead(
            "rounding",
            "its output has %d values, %.6g apart, and each element is the nearest to what is "
            "computed: 8 bits with one scale for all" % (values.size, step),
            "compare the precision of the operator in the om's json with the original model, and "
            "leave it out of quantisation",
        )


def _in_narrow_type(written: Written) -> Iterator[Instead]:
    """Yield where all numbers are those of a narrower type, next to what is computed."""
    output = written.output
    if output.dtype not in _NARROWER or output.computed.array.dtype.kind != "f":
        return
    unsigned, mantissa, narrower = _NARROWER[output.dtype]
    with np.errstate(over="ignore"):
        x, y = (np.asarray(side, output.dtype) for side in (output.actual, output.computed.array))
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        return
    # Numbers below the normal ones have fewer bits in any case.
    normal = np.abs(x) >= rounding_of(output.dtype).least_normal
    different = np.unique(x[normal & (x != y)])
    off = np.linalg.norm(np.float64(x) - y) / max(np.linalg.norm(np.float64(y)), 1e-300)
    for kept, name in narrower:
        bits, unit = mantissa - kept, 2.0 ** -(kept + 1)
        mask = unsigned((1 << bits) - 1)
        if (
            min(bits * different.size, _told_of_mantissa(different, kept))
            >= CHANCE_BITS + _UNLIKELY_BITS
            and not np.any(np.ascontiguousarray(x[normal]).view(unsigned) & mask)
            and np.any(np.ascontiguousarray(y).view(unsigned) & mask)
            and off <= _ROUNDINGS * unit
        ):
            yield Instead(
                "rounding",
                "its output is %s and holds numbers of %s alone, %.2g roundings of it off "
                "what is computed: the operator computed, or wrote, in %s"
                % (output.dtype, name, off / unit, name),
                "compare the precision of the operator in the om's json (its types, the precision "
                "mode of the compiler) with the original model",
            )
            return


def _told_of_mantissa(numbers: Array, kept: int) -> float:
    """Return how many bits tell that numbers have so few bits of mantissa, and are not on one step
    for all, as whole numbers are.
    """
    fraction, exponent = np.frexp(np.asarray(numbers, np.float64))
    whole = np.abs(np.ldexp(fraction, 24)).astype(np.int64)
    if not whole.size:
        return 0.0
    lowest = np.log2(whole & -whole) + exponent - 24
    return float(np.maximum(exponent - 1 - kept - lowest.min(), 0.0).sum())


def in_32_bits(output: Output) -> Optional[Instead]:
    """Return that whole numbers of 64 bits hold what 32 bits keep of what is computed; None where
    they do not. By chance not one number beyond 32 bits comes out so.
    """
    return _in_bits(output, (32,)) if output.computed.array.dtype == np.int64 else None


def _in_fewer_bits(written: Written) -> Iterator[Instead]:
    """Yield where whole numbers hold what 8 or 16 bits keep of what is computed."""
    found = _in_bits(written.output, (16, 8))
    if found is not None:
        yield found


def _within_parts(written: Written) -> Iterator[Instead]:
    """Yield where whole numbers are the remainders of what is computed: indices within parts."""
    y, x = written.output.computed.array, written.output.actual
    if y.dtype.kind not in "iu" or x.dtype.kind not in "iu" or x.shape != y.shape:
        return
    apart = y.astype(np.int64) - x.astype(np.int64)
    size = int(np.gcd.reduce(apart.reshape(-1))) if apart.size else 0
    if size < 2 or np.any(apart < 0) or not np.array_equal(x, y.astype(np.int64) % size):
        return
    beyond = np.unique(y[apart > 0])
    if beyond.size * math.log2(size) >= CHANCE_BITS + math.log2(size):
        yield Instead(
            "layout",
            "its output holds what is computed within parts of %d (the remainder): %d of %d values "
            "are beyond the first" % (size, np.count_nonzero(apart), y.size),
            "look at the operator's tiling in the compiled model: to places within a part its "
            "beginning is not added",
        )


def _in_bits(output: Output, widths: Sequence[int]) -> Optional[Instead]:
    """Return that whole numbers hold what fewer bits keep of what is computed; None where they do
    not, or where too few different ones tell it. A 0 may be anything.
    """
    y, x = output.computed.array, output.actual
    if y.dtype.kind not in "iu" or x.dtype.kind not in "iu" or x.shape != y.shape:
        return None
    for width in widths:
        if y.dtype.itemsize * 8 <= width:
            continue
        for dtype in ("int%d" % width, "uint%d" % width):
            limits = np.iinfo(dtype)
            beyond = (y < limits.min) | (y > limits.max)
            kept = (
                (y.astype(dtype), "the low %d bits" % width),
                (np.clip(y, limits.min, limits.max), "the nearest of %d bits" % width),
            )
            words = next((words for made, words in kept if np.array_equal(x, made)), None)
            told = width * np.unique(x[beyond & (x != 0)]).size
            if words is None or told < CHANCE_BITS + np.log2(2 * 2 * len(widths)):
                continue
            return Instead(
                "overflow",
                "its output holds %s of what is computed, %d of %d values of which are beyond %s: "
                "%s was narrowed to %s"
                % (words, np.count_nonzero(beyond), y.size, dtype, y.dtype, dtype),
                "keep such values within %s in the original model (offsets, hashes, identifiers), "
                "or compute them outside of the network" % dtype
                if width == 32
                else "compare the operator's types in the om's json with the original model's %s, "
                "or keep such values within %s there" % (y.dtype, dtype),
            )
    return None


def _in_other_order(written: Written, value: Value, words: str) -> Instead:
    return Instead(
        "layout",
        "its output is what is computed, %s (%s)" % (words, _counts(written, value)),
        "compare the operator's formats, and the order of its axes, channels, inputs and outputs, "
        "in the om's json with the original model",
    )


def _is_spread(array: Array) -> bool:
    """Tell whether values differ from each other: where they do not, each order is as good."""
    return bool(array.size and np.ptp(np.asarray(array, np.float64)) > 0)


def _matching_indices(actual: Array, computed: Array, axis: int) -> List[int]:
    """Return which index of an axis of the computed values each of the device's is likest to, told
    by a few random sums of each.
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
    return [int(n) for n in np.argmin(np.where(np.isfinite(apart), apart, np.inf), 1)]


def _moved(value: Value, move: Callable[[Array], Array]) -> Value:
    error = value.error
    return Value(
        move(value.array),
        None if error is None else move(np.broadcast_to(error, value.array.shape)),
    )


def _by_numbers(written: Written) -> Iterator[Instead]:
    """Yield where the output is what is computed by one factor or with one offset, or by one for
    each index of an axis.
    """
    output = written.output
    shape = output.computed.array.shape
    x, y = (np.asarray(side, np.float64) for side in (output.actual, output.computed.array))
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all() or not _is_spread(y):
        return
    axes = [axis for axis in (1, len(shape) - 1) if axis < len(shape) and shape[axis] > 1]
    for axis in (None, *dict.fromkeys(axes)):
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
                "%s (%s)" % (_in_words(a, b, axis), _counts(written, value)),
                _NEXT_NUMBERS[kind],
                axis is not None,
                int(np.count_nonzero(agreeing(output, value))),
            )
            return


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
    if here.size == 1:
        which = "index %d of axis %s of its output is" % (here[0], axis)
    else:
        which = "%d of %d indices of axis %s of its output (the first is %d) are" % (
            here.size, changed.size, axis, here[0],
        )  # fmt: skip
    return "%s what is computed %s, all others are right" % (which, words)


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
        if _explains(written, value, bits, _error_of_fit(written.output, made, (a + b).shape)):
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


def _is_same(x: Array, y: Array) -> bool:
    if x.size != y.size or x.dtype.kind != y.dtype.kind:
        return False
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (x, y))
    size = float(np.linalg.norm(y))
    return bool(size and float(np.linalg.norm(x - y)) <= _SAME * size)


def _explains(written: Written, value: Value, bits: float, fitted: Optional[Array] = None) -> bool:
    """Tell whether an output is a value, where that is no chance: ``bits`` is how much less likely
    the value is than a single one, ``fitted`` how well its numbers are known.
    """
    output = written.output
    if output.actual.dtype.kind != "f":
        is_same = bool(np.array_equal(output.actual, value.array))
    else:
        is_same = _fits(written, output.actual, value) and _most_agree(
            output, Value(value.array, joined_errors(value.error, fitted))
        )
    return is_same and _is_told(written, value, bits)


def _most_agree(output: Output, value: Value) -> bool:
    """Tell whether a value agrees at most elements, as a variant has to: a number that only lessens
    the largest differences does not.
    """
    times = max(1.0, own_error(output.actual, value, output.dtype).ratio)
    agree = np.count_nonzero(agreeing(output, value, times))
    return bool(agree >= MOST_AGREE * output.actual.size)


def _is_told(written: Written, value: Value, bits: float) -> bool:
    return told_bits(written.output, value) >= CHANCE_BITS + bits


def _part(output: Output, here: Any) -> Output:
    """Return a part of an output."""
    computed = output.computed.array.reshape(output.actual.shape)
    error = output.computed.error
    if error is not None:
        error = np.broadcast_to(error, output.computed.array.shape).reshape(computed.shape)[here]
    return output._replace(actual=output.actual[here], computed=Value(computed[here], error))


def _flat(output: Output) -> Output:
    return output._replace(
        actual=output.actual.reshape(-1), computed=_moved(output.computed, np.ravel)
    )


def _fits(written: Written, actual: Array, value: Value) -> bool:
    """Tell whether values are right; those that are not are mostly told by a few of them."""
    dtype = written.output.dtype
    return (
        written.judge(own_error(*_some_elements(actual, value), dtype)) <= _FAR_OFF
        and not np.isnan(value.array).any()
        and written.judge(own_error(actual, value, dtype)) <= 1.0
    )


def _some_elements(actual: Array, value: Value) -> Tuple[Array, Value]:
    places = slice(None, None, max(1, value.array.size // _LOOKED_AT))
    error = value.error
    if error is not None:
        error = np.broadcast_to(error, value.array.shape).reshape(-1)[places]
    return actual.reshape(-1)[places], Value(value.array.reshape(-1)[places], error)


def _counts(written: Written, value: Value) -> str:
    output = written.output
    agree, model = (
        int(np.count_nonzero(agreeing(output, side))) for side in (value, output.computed)
    )
    return agreement(agree, model, output.actual.size)


class Search(NamedTuple):
    """What is looked for.

    Attributes
    ----------
    words
        What it is.
    find
        Yields what was found.
    bits
        Returns how many bits an output has to tell at least, by its number of elements.
    """

    words: str
    find: Callable[[Written], Iterator[Instead]]
    bits: Callable[[int], float] = lambda size: 0.0


def _of_two_parts(size: int) -> float:
    return 0.0 if size >= 2 * _FEWEST else math.inf


OF_ANOTHER: Sequence[Search] = (Search("the output of another operator", _of_another),)
PARTS: Sequence[Search] = (
    Search("indices that were not written", _indices_not_written, _of_two_parts),
    Search("borders that were not written", _borders_not_written, _of_two_parts),
    Search("a part that was not written", _not_written, _of_two_parts),
)
WRITTEN_INSTEAD: Sequence[Search] = (
    Search("one value throughout", _one_value),
    Search("whole numbers of fewer bits", _in_fewer_bits, lambda size: 10.0),
    Search("indices within parts", _within_parts, lambda size: 10.0),
    Search("the first sample for all", _of_first_sample),
    Search("an activation behind it", _with_activation, lambda size: 5.0),
    *OF_ANOTHER,
    # What is written in another order looks, in part, as if it were further on in memory or not
    # written.
    Search("its values in another order", _rearranged, lambda size: 6.0),
    Search(
        "its values further on in memory",
        _further_on,
        lambda size: math.log2(max(1, size)) if size >= 4 * _ANCHOR else math.inf,
    ),
    Search("its values some places further on", _shifted, lambda size: 4.0),
    *PARTS,
    Search("numbers of a narrower type", _in_narrow_type, lambda size: _UNLIKELY_BITS),
    Search(
        "values of 8 bits",
        _in_eight_bits,
        lambda size: 0.0 if _GRID_BITS * (size - 3) >= 2.0 * CHANCE_BITS else math.inf,
    ),
    Search("factors and offsets", _by_numbers, lambda size: BITS_OF_A_DIGIT * 4.0),
)
"""What is looked for, in words, and how."""


def written_instead(
    written: Written, searches: Sequence[Search] = WRITTEN_INSTEAD
) -> Tuple[Optional[Instead], List[str], List[str]]:
    """Return what was written instead, None where nothing is known; what was tried, and what the
    elements are too few to tell.
    """
    tried: List[str] = []
    too_few: List[str] = []
    output = written.output
    most = told_bits(output, Value(output.actual)) - CHANCE_BITS
    for search in searches:
        found = next(search.find(written), None)
        (tried if search.bits(output.actual.size) <= most else too_few).append(search.words)
        if found is not None:
            return found, tried, too_few
    return None, tried, too_few
