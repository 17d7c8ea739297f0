"""What a device wrote in place of what an operator computes, whatever the operator: values of
another tensor, of the first sample, or nothing from some element on.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.variants import ACTIVATIONS, Variant
from .output_error import OwnError, own_error
from .variant_search import Instead, Output, agreeing, agreement

Array = Any
Judge = Callable[[OwnError], float]

_FEWEST = 8
"""Elements of which what is right and what is not written consist at least."""
_WITHIN = 0.9
"""Of the elements of a stretch that was not written, how many are wrong at least: others may be
right by chance."""
_RIGHT = 0.01
"""Relative distance of what is right beside what was not written."""
_NEXT_NOT_WRITTEN = (
    "look at the operator's tiling in the compiled model (what each core computes), and run the "
    "same input twice: what was not written may hold other values then"
)
_UNRELATED = 0.5
"""Relative distance from which on values are others, not worse ones."""
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
        if _is_same(actual, values):
            yield Instead(
                "other-tensor",
                "its output holds what %s computed, element by element" % name,
                "look at the memory that the two operators use in the compiled model (offsets, "
                "reuse), and at the order of inputs and outputs around them",
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
        if _explains(written, Value(repeated, error)):
            yield Instead(
                "not-written",
                "all %d samples hold what is computed of the first one" % computed.shape[0],
                "look at the batch size that the model was compiled for, and at the operator's "
                "tiling over the samples",
            )


def _with_activation(written: Written) -> Iterator[Instead]:
    output = written.output
    if output.computed.array.dtype.kind != "f":
        return
    for entry in ACTIVATIONS:
        if not entry.kind:
            continue
        node = Node(entry.dialect, entry.kind, entry.attributes, "", 20)
        try:
            (value,) = Variant("", "", "", node).compute([output.computed], Arithmetic())
        except CannotCompute:
            continue
        if _explains(written, value):
            yield Instead(
                "activation",
                "the device computed %s behind it, which the model does not have there (%s)"
                % (entry.text, _counts(written, value)),
                "compare what was fused into the operator in the model's json with the original "
                "model",
            )
            return


def _indices_not_written(written: Written) -> Iterator[Instead]:
    """Yield where some indices of an axis are 0 throughout, though they should not be, and all
    others are right.
    """
    output = written.output
    if output.actual.dtype.kind != "f":
        return
    x, y = (np.asarray(side, np.float64) for side in (output.actual, output.computed.array))
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
            yield Instead(
                "not-written",
                "%d of %d indices of axis %d are 0 throughout, the first is %d, and all others "
                "are right: that part was not written"
                % (count, x.shape[axis], axis, int(np.argmax(empty))),
                _NEXT_NOT_WRITTEN,
            )
            return


def _not_written(written: Written) -> Iterator[Instead]:
    """Yield where one stretch of the output is wrong and all others are right."""
    output = written.output
    right = agreeing(output, output.computed).reshape(-1)
    wrong = np.flatnonzero(~right)
    if wrong.size < _FEWEST or output.actual.dtype.kind != "f":
        return
    first, last = int(wrong[0]), int(wrong[-1])
    outside = np.ones(right.size, bool)
    outside[first : last + 1] = False
    if np.count_nonzero(output.computed.array.reshape(-1)[outside]) < _FEWEST:
        return
    actual = output.actual.reshape(-1)
    stretch, expected = (
        actual[first : last + 1],
        output.computed.array.reshape(-1)[first : last + 1],
    )
    telling = expected != 0
    off = np.linalg.norm(np.asarray(stretch, np.float64) - expected)
    if (
        not telling.any()
        or (~right[first : last + 1])[telling].mean() < _WITHIN
        or not off >= _UNRELATED * np.linalg.norm(expected)
    ):
        return
    if first and last + 1 < right.size:
        where, what = "elements %s to %s" % (_count(first), _count(last)), "all others are right"
    elif first:
        where, what = (
            "all from %s on" % _count(first),
            "all elements up to %s are right" % _count(first - 1),
        )
    else:
        where, what = (
            "all elements up to %s" % _count(last),
            "all from %s on are right" % _count(last + 1),
        )
    values = "0" if not np.any(stretch) else "other values"
    if values != "0" and stretch.size and not np.ptp(np.asarray(stretch, np.float64)):
        values = "%.6g" % float(stretch[0])
    for name, other in written.others() if values == "other values" else ():
        if _is_same(stretch, np.reshape(other, -1)[first : last + 1]):
            values = "what %s computed" % name
            break
    holds = "%s, %s hold %s" % (what, where, values)
    yield Instead(
        "not-written",
        "%s (of %s, in the order of the original layout): that part was not written"
        % (holds, _count(right.size)),
        _NEXT_NOT_WRITTEN,
    )


def _count(number: int) -> str:
    return format(number, ",")


def _is_same(x: Array, y: Array) -> bool:
    if x.size != y.size or x.dtype.kind != y.dtype.kind:
        return False
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (x, y))
    size = float(np.linalg.norm(y))
    return bool(size and float(np.linalg.norm(x - y)) <= _SAME * size)


def _explains(written: Written, value: Value) -> bool:
    output = written.output
    if output.actual.dtype.kind != "f":
        return bool(np.array_equal(output.actual, value.array))
    return (
        not np.isnan(value.array).any()
        and written.judge(own_error(output.actual, value, output.dtype)) <= 1.0
    )


def _counts(written: Written, value: Value) -> str:
    output = written.output
    agree, model = (
        int(np.count_nonzero(agreeing(output, side))) for side in (value, output.computed)
    )
    return agreement(agree, model, output.actual.size)


WRITTEN_INSTEAD: Sequence[Tuple[str, Callable[[Written], Iterator[Instead]]]] = (
    ("the first sample for all", _of_first_sample),
    ("an activation behind it", _with_activation),
    ("the output of another operator", _of_another),
    ("indices that were not written", _indices_not_written),
    ("a part that was not written", _not_written),
)
"""What is looked for, in words, and how."""


def written_instead(written: Written) -> Tuple[Optional[Instead], List[str]]:
    """Return what was written instead, None where nothing is known; and what was tried."""
    tried = []
    for words, search in WRITTEN_INSTEAD:
        tried.append(words)
        found = next(search(written), None)
        if found is not None:
            return found, tried
    return None, tried
