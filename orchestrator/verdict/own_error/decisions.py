"""Operators that decide (ArgMax, comparisons, casts to integers …): how many of their decisions the error of their inputs can change.

A decision near a tie changes with the rounding of its inputs, and few are near one: of values of N(0, 1) with a relative error d a
comparison changes 0.32·d of its decisions, ArgMax over 2 to 1000 values 0.3·d to 2.5·d, an index of TopK up to 0.3·k·d, a cast of values
of root mean square v 0.8·v·d (measured for d from 1e-4 to 1e-2). Eight times that is allowed. Where the tensors can be read again, the
decision is made once more from the device's own inputs, which needs no such number.
"""

from __future__ import annotations

import math
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...comparing.patterns import AlignedPair
from ...tensors.rounding import shortened
from ..seen import Observation
from .expected import RARE_SPREAD, SUSPECT_SCORE, rounding

Array = Any

_ARG = frozenset("argmax argmaxv2 argmaxd argmaxwithk argmaxwithvalue argmin argminv2 argmind argminwithvalue".split())
_COMPARE = {
    "greater": np.greater, "greaterequal": np.greater_equal, "less": np.less, "lessequal": np.less_equal,
    "equal": np.equal, "notequal": np.not_equal,
}  # fmt: skip
_ORDER = frozenset("topk topkv2 topkd sort sortv2 argsort".split())
_STEP = frozenset("cast castd todtype round rint floor ceil trunc ascendquant quantize quantizev2".split())
_SIGN = frozenset(("sign",))
_TIMES = 8.0
_SURE = 14.0
_MORE = 3.0
_STEPS: Sequence[Callable[[Array], Array]] = (np.trunc, np.rint, np.floor, np.ceil, lambda x: np.trunc(x + np.copysign(0.5, x)))
_AGREE = 0.99


class Redone(NamedTuple):
    """Decisions made once more from the device's inputs: how many of the device's are wrong, of how many, and the first of them."""

    wrong: int
    total: int
    first: Tuple[int, ...]


class Decision(NamedTuple):
    """What the decisions of one output say about its operator.

    Attributes
    ----------
    share, expected
        Of the decisions that differ from golden data, and that the inputs' error may change at most; NaN where it is not known.
    score
        As of any operator.
    redone
        None where the tensors could not be read again, or the golden decisions do not follow from golden inputs as they should.
    """

    share: float
    expected: float
    score: float
    redone: Optional[Redone] = None


def orders(op_type: str) -> bool:
    """Tell whether an operator orders values (TopK, Sort): the values that it gives are continuous, their indices are not."""
    return op_type.lower() in _ORDER


def decided(op_type: str, output: Observation, inputs: Sequence[Observation], fed: float) -> Decision:
    """Judge an output by the share of its decisions that differ.

    Parameters
    ----------
    output, inputs
        The rows.
    fed
        The inputs' relative distance together.
    """
    rounded = max([rounding(row.dtype) for row in inputs], default=0.0)
    expected = _expected(op_type.lower(), output, math.hypot(fed, rounded))
    share = output.share
    if math.isnan(expected) or not output.different:
        return Decision(share, expected, 0.0)
    score = 0.0
    if share > _MORE * expected:
        # Chernoff's bound on so many independent decisions near a tie.
        count = float(np.prod(output.shape)) if output.shape else 1.0
        score = SUSPECT_SCORE / _SURE * count * (share * math.log(share / expected) - share + expected)
    if op_type.lower() in _STEP | _SIGN and output.rms > 0 and output.distance > 0:
        allowed = math.sqrt(fed * fed + min(1.0, expected) / output.rms**2)
        score = max(score, math.log(output.distance / allowed) / RARE_SPREAD) if allowed else score
    return Decision(share, expected, score)


def _expected(name: str, output: Observation, distance: float) -> float:
    """Return the largest share of decisions that inputs of this distance may change; NaN where one change may move all others (NMS)."""
    if name in _COMPARE or name in _SIGN:
        rate = 0.32
    elif name in _ARG:
        rate = 2.5
    elif name in _ORDER:
        rate = 2.5 + 0.3 * (output.shape[-1] if output.shape else 1)
    elif name in _STEP:
        rate = 0.8 * max(1.0, output.rms) if output.rms == output.rms else math.nan
    else:
        return math.nan
    return min(1.0, _TIMES * rate * distance)


def redo(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> Optional[Redone]:
    """Make the decisions once more, from the device's inputs.

    How an operator decides (its axis, its rounding, the constant it compares with) is learnt from golden data.

    Parameters
    ----------
    inputs, output
        Whole tensors, not samples.

    Returns
    -------
    Redone or None
        None where the operator is none of those known here, or golden data do not fit any way to decide.
    """
    name = op_type.lower()
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    with np.errstate(all="ignore"):
        if name in _ARG | _ORDER:
            wrong = _by_order(name, inputs[0], output)
        elif name in _COMPARE:
            wrong = _by_comparison(name, inputs, output)
        elif name in _STEP | _SIGN:
            wrong = _by_step(name, inputs[0], output)
        else:
            wrong = None
    if wrong is None:
        return None
    first = tuple(int(part) for part in np.unravel_index(int(np.argmax(wrong)), wrong.shape)) if wrong.ndim else ()
    return Redone(int(wrong.sum()), int(wrong.size), first)


def _fuzz(values: Array, dtype: str) -> Array:
    """Return how near to a tie a device may decide either way: two steps of its type, of float32 those of float16."""
    return 2.0 * np.abs(values) * 2.0**-shortened(dtype).fraction_bits


def _numbers(values: Array) -> Array:
    return np.asarray(values, np.float64)


def _by_order(name: str, source: AlignedPair, output: AlignedPair) -> Optional[Array]:
    """ArgMax, ArgMin, and the indices of TopK and Sort: the values that are chosen, against the right ones."""
    if np.asarray(output.golden).dtype.kind not in "iu" or np.asarray(output.target).dtype.kind not in "iu":
        return None
    for axis in range(source.golden.ndim):
        for sign in (1.0, -1.0) if name not in _ARG else (-1.0,) if "min" in name else (1.0,):
            golden = _chosen(sign * _numbers(source.golden), np.asarray(output.golden), axis, name in _ARG)
            if golden is None or not (golden[0] == golden[1]).mean() >= _AGREE:
                continue
            made = _chosen(sign * _numbers(source.target), np.asarray(output.target), axis, name in _ARG)
            if made is None:
                return None
            got, best = made
            wrong = ~(np.abs(got - best) <= _fuzz(best, source.dtype)) & (got != best)
            return wrong.reshape(np.shape(output.target))
    return None


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


def _by_comparison(name: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> Optional[Array]:
    test, golden, made = _COMPARE[name], _numbers(output.golden) != 0, _numbers(output.target) != 0
    if len(inputs) == 2:
        goldens, targets = ([_numbers(side) for side in sides] for sides in zip(*[(pair.golden, pair.target) for pair in inputs]))
        try:
            fits = (test(*goldens).reshape(golden.shape) == golden).mean() >= _AGREE
            apart = np.abs(targets[0] - targets[1]).reshape(made.shape)
            right = test(*targets).reshape(made.shape)
        except ValueError:
            return None
        near = apart <= _fuzz(np.broadcast_to(targets[0], made.shape), inputs[0].dtype)
        return (right != made) & ~near if fits else None
    values, target = _numbers(inputs[0].golden), _numbers(inputs[0].target)
    if values.shape != golden.shape or name in ("equal", "notequal"):
        return None
    return _by_threshold(values, golden, target, made, inputs[0].dtype)


def _by_threshold(values: Array, golden: Array, target: Array, made: Array, dtype: str) -> Optional[Array]:
    """Compare with a constant that was not dumped: it lies between the golden values decided one way and those decided the other."""
    if golden.all() or not golden.any():
        return None
    for sign in (1.0, -1.0):
        low, high = float((sign * values)[~golden].max()), float((sign * values)[golden].min())
        if low <= high:
            wrong = (made & (sign * target < low - _fuzz(np.float64(low), dtype))) | (
                ~made & (sign * target > high + _fuzz(np.float64(high), dtype))
            )
            return np.asarray(wrong)
    return None


def _by_step(name: str, source: AlignedPair, output: AlignedPair) -> Optional[Array]:
    """Casts and roundings: the integer next to the value, in the direction that golden data show."""
    values, target = _numbers(source.golden), _numbers(source.target)
    golden, made = _numbers(output.golden), _numbers(output.target)
    if values.shape != golden.shape or np.asarray(source.golden).dtype.kind in "iub":
        return None
    ways: List[Callable[[Array], Array]] = [np.sign] if name in _SIGN else list(_STEPS)
    if np.asarray(output.golden).dtype.kind == "b":
        ways = [lambda x: (x != 0).astype(np.float64)]
    for way in ways:
        if not (way(values) == golden).mean() >= _AGREE:
            continue
        fuzz = _fuzz(target, source.dtype)
        return ~((made >= way(target - fuzz)) & (made <= way(target + fuzz)))
    return None
