"""An output that no variant of its operator explains, and how it is held against what may have been
written in its place.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..operators import Value
from ..operators.value_with_error import joined_errors
from .output_error import OwnError, own_error
from .variant_search import agreement
from .variant_trials import CHANCE_BITS, MOST_AGREE, Output, agreeing, told_bits

Array = Any
Judge = Callable[[OwnError], float]

# The bounds here are chosen; no trial of each alone. Together attribute_trial tries them: with
# --lot 1 40 --null nothing is found.
FEWEST_ELEMENTS = 8
"""Elements of which what is right and what is not written consist at least: of two, a Clip that
ends at 0 is one of 200 that attribute_trial --lot 1 4000 --unread calls not written."""
_LOOKED_AT = 1 << 12
"""Elements that are looked at before all are."""
FAR_OFF = 4.0
"""Of such a few: how far off they are at most where the whole may be right."""
SAME_TENSOR = 1e-3
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
    inputs
        The device's own, as far as they are known.
    zeros_of
        Returns what of the operator makes zeros where it is 0, in words; empty: nothing does.
    """

    output: Output
    others: Callable[[], Iterable[Tuple[str, Array]]]
    judge: Judge
    inputs: Sequence[Array] = ()
    zeros_of: Callable[[], str] = lambda: "weights or inputs"


def is_spread(array: Array) -> bool:
    """Tell whether values differ from each other: where they do not, each order is as good."""
    return bool(array.size and np.ptp(np.asarray(array, np.float64)) > 0)


def moved_value(value: Value, move: Callable[[Array], Array]) -> Value:
    """Return a value and its error with the elements moved alike."""
    error = value.error
    return Value(
        move(value.array),
        None if error is None else move(np.broadcast_to(error, value.array.shape)),
    )


def holds_the_same(x: Array, y: Array) -> bool:
    """Tell whether two tensors differ by one rounding to float16 at most, by their norm."""
    if x.size != y.size or x.dtype.kind != y.dtype.kind:
        return False
    x, y = x.reshape(-1), y.reshape(-1)
    # The difference of some is a part of that of all.
    some = slice(None, None, x.size // _LOOKED_AT + 1)
    y = np.float64(y)
    most = SAME_TENSOR * float(np.linalg.norm(y))
    return bool(
        most
        and float(np.linalg.norm(x[some] - y[some])) <= most
        and float(np.linalg.norm(x - y)) <= most
    )


def explains(written: Written, value: Value, bits: float, fitted: Optional[Array] = None) -> bool:
    """Tell whether an output is a value, where that is no chance: ``bits`` is how much less likely
    the value is than a single one, ``fitted`` how well its numbers are known.
    """
    output = written.output
    if output.actual.dtype.kind != "f":
        is_same = bool(np.array_equal(output.actual, value.array))
    else:
        is_same = is_right(written, output.actual, value) and _most_agree(
            output, Value(value.array, joined_errors(value.error, fitted))
        )
    return is_same and is_told(written, value, bits)


def _most_agree(output: Output, value: Value) -> bool:
    """Tell whether a value agrees at most elements, as a variant has to: a number that only lessens
    the largest differences does not.
    """
    times = max(1.0, own_error(output.actual, value, output.dtype).ratio)
    agree = np.count_nonzero(agreeing(output, value, times))
    return bool(agree >= MOST_AGREE * output.actual.size)


def is_told(written: Written, value: Value, bits: float) -> bool:
    """Tell whether a value is told by more than chance and so many bits."""
    return told_bits(written.output, value) >= CHANCE_BITS + bits


def part_of(output: Output, here: Any) -> Output:
    """Return a part of an output."""
    computed = output.computed.array.reshape(output.actual.shape)
    error = output.computed.error
    if error is not None:
        error = np.broadcast_to(error, output.computed.array.shape).reshape(computed.shape)[here]
    return output._replace(actual=output.actual[here], computed=Value(computed[here], error))


def flattened(output: Output) -> Output:
    """Return an output with one axis."""
    return output._replace(
        actual=output.actual.reshape(-1), computed=moved_value(output.computed, np.ravel)
    )


def is_right(written: Written, actual: Array, value: Value) -> bool:
    """Tell whether values are right; those that are not are mostly told by a few of them."""
    dtype = written.output.dtype
    return (
        written.judge(own_error(*some_elements(actual, value), dtype)) <= FAR_OFF
        and not np.isnan(value.array).any()
        and written.judge(own_error(actual, value, dtype)) <= 1.0
    )


def some_elements(actual: Array, value: Value) -> Tuple[Array, Value]:
    """Return elements at even distances of both sides, few enough to be looked at first."""
    shape, size = value.array.shape or (1,), value.array.size
    # By their indices: parts of a tensor are not copied.
    places = np.unravel_index(np.arange(0, size, max(1, size // _LOOKED_AT)), shape)
    error = value.error
    if error is not None:
        error = np.broadcast_to(error, shape)[places]
    return actual.reshape(shape)[places], Value(value.array.reshape(shape)[places], error)


def agreement_with(written: Written, value: Value) -> str:
    """Return in words how many elements agree with a value, and how many with the model."""
    output = written.output
    agree, model = (
        int(np.count_nonzero(agreeing(output, side))) for side in (value, output.computed)
    )
    return agreement(agree, model, output.actual.size)
