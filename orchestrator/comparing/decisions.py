"""Decisions made once more from the device's own inputs: ArgMax, the indices of TopK, comparisons, roundings and casts to integers.

A decision near a tie changes with the rounding of its inputs, and is right all the same where it is what the operator makes of what the
device gave it. How an operator decides (its axis, its rounding, the constant it compares with) is learnt from golden data.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..tensors.rounding import shortened
from .patterns import AlignedPair

Array = Any

ARG = frozenset("argmax argmaxv2 argmaxd argmaxwithk argmaxwithvalue argmin argminv2 argmind argminwithvalue".split())
ORDER = frozenset("topk topkv2 topkd sort sortv2 argsort".split())
COMPARE = {
    "greater": np.greater, "greaterequal": np.greater_equal, "less": np.less, "lessequal": np.less_equal,
    "equal": np.equal, "notequal": np.not_equal,
}  # fmt: skip
STEP = frozenset("cast castd todtype round rint floor ceil trunc ascendquant quantize quantizev2".split())
SIGN = frozenset(("sign",))
"""Types in lower case, by what they decide: the largest along an axis, the order along one, which value is larger, the next step."""

_STEPS: Sequence[Callable[[Array], Array]] = (np.trunc, np.rint, np.floor, np.ceil, lambda x: np.trunc(x + np.copysign(0.5, x)))
_AGREE = 0.99
_NEAR = 2.0


class Redone(NamedTuple):
    """Decisions made once more from the device's inputs: how many of the device's are wrong, of how many, and the first of them."""

    wrong: int
    total: int
    first: Tuple[int, ...]


def may_redo(op_type: str) -> bool:
    """Tell whether the decisions of operators of a type can be made once more."""
    name = op_type.lower()
    return any(name in names for names in (ARG, ORDER, COMPARE, STEP, SIGN))


def redo(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, exactly: bool = False) -> Optional[Redone]:
    """Make the decisions once more, from the device's inputs.

    How an operator decides (its axis, its rounding, the constant it compares with) is learnt from golden data.

    Parameters
    ----------
    inputs, output
        Whole tensors, not samples.
    exactly
        Only equal values may be chosen either way, and of float32 those that are alike in float16, in which a device may order them. Else
        values within two steps of the type may go either way.

    Returns
    -------
    Redone or None
        None where the operator is none of those known here, or golden data do not fit any way to decide.
    """
    name = op_type.lower()
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    with np.errstate(all="ignore"):
        if name in ARG | ORDER:
            wrong = _by_order(name, inputs[0], output, exactly)
        elif name in COMPARE:
            wrong = _by_comparison(name, inputs, output, 0.0 if exactly else _NEAR)
        elif name in STEP | SIGN:
            wrong = _by_step(name, inputs[0], output, 0.0 if exactly else _NEAR)
        else:
            wrong = None
    if wrong is None:
        return None
    first = tuple(int(part) for part in np.unravel_index(int(np.argmax(wrong)), wrong.shape)) if wrong.ndim else ()
    return Redone(int(wrong.sum()), int(wrong.size), first)


def _fuzz(values: Array, dtype: str, steps: float) -> Array:
    """Return how near to a tie a device may decide either way: so many steps of its type, of float32 those of float16."""
    return steps * np.abs(values) * 2.0**-shortened(dtype).fraction_bits


def _numbers(values: Array) -> Array:
    return np.asarray(values, np.float64)


def _by_order(name: str, source: AlignedPair, output: AlignedPair, exactly: bool) -> Optional[Array]:
    """ArgMax, ArgMin, and the indices of TopK and Sort: the values that are chosen, against the right ones."""
    if np.asarray(output.golden).dtype.kind not in "iu" or np.asarray(output.target).dtype.kind not in "iu":
        return None
    steps = 0.0 if exactly and source.dtype != "float32" else _NEAR
    for axis in range(source.golden.ndim):
        for sign in (1.0, -1.0) if name not in ARG else (-1.0,) if "min" in name else (1.0,):
            golden = _chosen(sign * _numbers(source.golden), np.asarray(output.golden), axis, name in ARG)
            if golden is None or not (golden[0] == golden[1]).mean() >= _AGREE:
                continue
            made = _chosen(sign * _numbers(source.target), np.asarray(output.target), axis, name in ARG)
            if made is None:
                return None
            got, best = made
            wrong = ~(np.abs(got - best) <= _fuzz(best, source.dtype, steps)) & (got != best)
            if name in ORDER and not _repeated(np.asarray(output.golden), axis).any():
                wrong |= _repeated(np.asarray(output.target), axis)
            return wrong.reshape(np.shape(output.target))
    return None


def _repeated(indices: Array, axis: int) -> Array:
    """Tell which indices stand before along an axis already."""
    order = np.argsort(indices, axis, kind="stable")
    ordered = np.take_along_axis(indices, order, axis)
    again = np.zeros(indices.shape, bool)
    rest = [slice(None)] * indices.ndim
    rest[axis] = slice(1, None)
    again[tuple(rest)] = np.diff(ordered, axis=axis) == 0
    found = np.empty_like(again)
    np.put_along_axis(found, order, again, axis)
    return found


def _chosen(values: Array, indices: Array, axis: int, one: bool) -> Optional[Tuple[Array, Array]]:
    """Return the values at indices along an axis and the largest ones, NaN at an index that is outside; None where shapes do not fit."""
    size = values.shape[axis]
    shape = list(values.shape)
    shape[axis] = 1 if one else (indices.shape[axis] if indices.ndim == values.ndim else 0)
    if int(np.prod(shape)) != indices.size or not indices.size or not 0 < shape[axis] <= size:
        return None
    at = indices.reshape(shape).astype(np.int64)
    got = np.take_along_axis(values, np.clip(at, 0, size - 1), axis)
    got = np.where((at >= 0) & (at < size), got, np.nan)
    best = np.take(-np.sort(-values, axis), range(shape[axis]), axis)
    return got, best


def _by_comparison(name: str, inputs: Sequence[AlignedPair], output: AlignedPair, steps: float) -> Optional[Array]:
    test, golden, made = COMPARE[name], _numbers(output.golden) != 0, _numbers(output.target) != 0
    if len(inputs) == 2:
        goldens, targets = ([_numbers(side) for side in sides] for sides in zip(*[(pair.golden, pair.target) for pair in inputs]))
        try:
            fits = (test(*goldens).reshape(golden.shape) == golden).mean() >= _AGREE
            apart = np.abs(targets[0] - targets[1]).reshape(made.shape)
            right = test(*targets).reshape(made.shape)
        except ValueError:
            return None
        near = (apart <= _fuzz(np.broadcast_to(targets[0], made.shape), inputs[0].dtype, steps)) & (steps > 0)
        return (right != made) & ~near if fits else None
    values, target = _numbers(inputs[0].golden), _numbers(inputs[0].target)
    if values.shape != golden.shape or name in ("equal", "notequal"):
        return None
    return _by_threshold(values, golden, target, made, inputs[0].dtype, steps)


def _by_threshold(values: Array, golden: Array, target: Array, made: Array, dtype: str, steps: float) -> Optional[Array]:
    """Compare with a constant that was not dumped: it lies between the golden values decided one way and those decided the other."""
    if golden.all() or not golden.any():
        return None
    for sign in (1.0, -1.0):
        low, high = float((sign * values)[~golden].max()), float((sign * values)[golden].min())
        if low <= high:
            wrong = (made & (sign * target < low - _fuzz(np.float64(low), dtype, steps))) | (
                ~made & (sign * target > high + _fuzz(np.float64(high), dtype, steps))
            )
            return np.asarray(wrong)
    return None


def _by_step(name: str, source: AlignedPair, output: AlignedPair, steps: float) -> Optional[Array]:
    """Casts and roundings: the integer next to the value, in the direction that golden data show."""
    values, target = _numbers(source.golden), _numbers(source.target)
    golden, made = _numbers(output.golden), _numbers(output.target)
    if values.shape != golden.shape or np.asarray(source.golden).dtype.kind in "iub":
        return None
    ways: List[Callable[[Array], Array]] = [np.sign] if name in SIGN else list(_STEPS)
    if np.asarray(output.golden).dtype.kind == "b":
        ways = [lambda x: (x != 0).astype(np.float64)]
    for way in ways:
        if not (way(values) == golden).mean() >= _AGREE:
            continue
        fuzz = _fuzz(target, source.dtype, steps)
        return ~((made >= way(target - fuzz)) & (made <= way(target + fuzz)))
    return None
