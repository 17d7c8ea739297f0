"""Decisions made once more from the device's own inputs: ArgMax, the indices of TopK, comparisons,
roundings and casts to integers.

A decision near a tie changes with the rounding of its inputs, and is right all the same where it is
what the operator makes of what the device gave it. How an operator decides (its axis, its rounding,
the constant it compares with) is learnt from golden data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..operators.decisions import repeated
from ..tensors.rounding import shortened, ulp
from .measured import OwnError, decided_error

if TYPE_CHECKING:
    from ..metrics.patterns import AlignedPair

Array = Any

ARG = frozenset(
    "argmax argmaxv2 argmaxd argmaxwithk argmaxwithvalue argmin argminv2 argmind "
    "argminwithvalue".split()
)
ORDER = frozenset("topk topkv2 topkd sort sortv2 argsort".split())
COMPARE = {
    "greater": np.greater, "greaterequal": np.greater_equal, "less": np.less,
    "lessequal": np.less_equal,
    "equal": np.equal, "notequal": np.not_equal,
}  # fmt: skip
STEP = frozenset(
    "cast castd todtype round rint floor ceil trunc ascendquant quantize quantizev2".split()
)
SIGN = frozenset(("sign",))
"""Types in lower case, by what they decide: the largest along an axis, the order along one, which
value is larger, the next step.
"""

_STEPS: Sequence[Callable[[Array], Array]] = (
    np.trunc,
    np.rint,
    np.floor,
    np.ceil,
    lambda x: np.trunc(x + np.copysign(0.5, x)),
)
_WAYS: Mapping[str, Sequence[Callable[[Array], Array]]] = {
    "floor": (np.floor,), "ceil": (np.ceil,), "trunc": (np.trunc,), "rint": (np.rint,),
    "round": (np.rint, _STEPS[-1]), "sign": (np.sign,),
}  # fmt: skip
_AGREE = 0.99
_NEAR = 2.0
_FEW = 8
_MOST = 0.25
_MASK = -5000.0
_CHANCE = 1e-6
_USUAL_ERROR = 0.03
LARGEST_ERROR: Mapping[str, float] = {
    "bfloat16": 0.2, **dict.fromkeys(("hifloat8", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
    "int8", "uint8", "int4"), 0.3)
}  # fmt: skip
"""By element type the default limits of the relative distance, where that is not 0.03: what healthy
networks reach (docs/reference/metrics.md).
"""


@lru_cache(maxsize=1024)
def may_redo(op_type: str) -> bool:
    """Tell whether the decisions of operators of a type can be made once more."""
    name = op_type.lower()
    return any(name in names for names in (ARG, ORDER, COMPARE, STEP, SIGN))


def redo(
    op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, exactly: bool = False
) -> Optional[OwnError]:
    """Make the decisions once more, from the device's inputs.

    How an operator decides (its axis, its rounding, the constant it compares with) is learnt from
    golden data.

    Parameters
    ----------
    inputs, output
        Whole tensors, not samples.
    exactly
        Only equal values may be chosen either way. Else values within two steps of the type may, of
        float32 those of float16.

    Returns
    -------
    OwnError or None
        How many of the device's decisions do not follow, of how many, and where the first is; None
        where the operator is none of those known here, or golden data do not fit any way to decide.
    """
    wrong = _wrong(op_type.lower(), inputs, output, 0.0 if exactly else _NEAR)
    return (
        None
        if wrong is None
        else decided_error(
            int(np.count_nonzero(wrong)), wrong.size, int(np.argmax(wrong)) if wrong.any() else 0
        )
    )


def _wrong(
    name: str, inputs: Sequence[AlignedPair], output: AlignedPair, steps: float
) -> Optional[Array]:
    """Tell which decisions do not follow, where values within so many steps of their type may go
    either way.
    """
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    with np.errstate(all="ignore"):
        if name in ARG | ORDER:
            return _by_order(name, inputs[0], output, steps)
        if name in COMPARE:
            return _by_comparison(name, inputs, output, steps)
        return _by_step(name, inputs[0], output, steps) if name in STEP | SIGN else None


def _fuzz(values: Array, dtype: str, steps: float) -> Array:
    """Return how near to a tie a device may decide either way: so many steps of its type, of
    float32 those of float16.
    """
    return steps * np.abs(values) * 2.0 ** -shortened(dtype).fraction_bits


def _numbers(values: Array) -> Array:
    return np.asarray(values, np.float64)


def _by_order(name: str, source: AlignedPair, output: AlignedPair, steps: float) -> Optional[Array]:
    """ArgMax, ArgMin, and the indices of TopK and Sort: the values that are chosen, against the
    right ones.
    """
    found = _order_of(name, source, output)
    if found is None:
        return None
    axis, sign = found
    made = _chosen(sign * _numbers(source.target), np.asarray(output.target), axis, name in ARG)
    if made is None:
        return None
    got, best = made
    wrong = ~(np.abs(got - best) <= _fuzz(best, source.dtype, steps)) & (got != best)
    if name in ORDER and not repeated(np.asarray(output.golden), axis).any():
        wrong |= repeated(np.asarray(output.target), axis)
    return wrong.reshape(np.shape(output.target))


def _order_of(name: str, source: AlignedPair, output: AlignedPair) -> Optional[Tuple[int, float]]:
    """Return the axis along which golden indices were chosen, and 1 for the largest values or -1
    for the smallest.

    Of several that fit golden data alike that which fits the device's better.
    """
    if (
        np.asarray(output.golden).dtype.kind not in "iu"
        or np.asarray(output.target).dtype.kind not in "iu"
    ):
        return None
    best, found = (_AGREE, 0.0), None
    for axis in range(source.golden.ndim):
        for sign in (1.0, -1.0) if name not in ARG else (-1.0,) if "min" in name else (1.0,):
            sides = ((source.golden, output.golden), (source.target, output.target))
            chosen = [
                _chosen(sign * _numbers(values), np.asarray(indices), axis, name in ARG)
                for values, indices in sides
            ]
            fits = [float((one[0] == one[1]).mean()) for one in chosen if one is not None]
            if (
                len(fits) == 2
                and (fits[0], fits[1]) >= best
                and (found is None or (fits[0], fits[1]) > best)
            ):
                best, found = (fits[0], fits[1]), (axis, sign)
    return found


def _chosen(values: Array, indices: Array, axis: int, one: bool) -> Optional[Tuple[Array, Array]]:
    """Return the values at indices along an axis and the largest ones, NaN at an index that is
    outside; None where shapes do not fit.
    """
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


def _by_comparison(
    name: str, inputs: Sequence[AlignedPair], output: AlignedPair, steps: float
) -> Optional[Array]:
    test, golden, made = COMPARE[name], _numbers(output.golden) != 0, _numbers(output.target) != 0
    if len(inputs) == 2:
        goldens, targets = (
            [_numbers(side) for side in sides]
            for sides in zip(*[(pair.golden, pair.target) for pair in inputs])
        )
        if broadcast_size(goldens) != golden.size:
            return None
        fits = (test(*goldens).reshape(golden.shape) == golden).mean() >= _AGREE
        right = test(*targets).reshape(made.shape)
        near = np.abs(targets[0] - targets[1]) <= _fuzz(
            np.broadcast_to(targets[0], np.broadcast(*targets).shape), inputs[0].dtype, steps
        )
        return (right != made) & ~(near.reshape(made.shape) & (steps > 0)) if fits else None
    values, target = _numbers(inputs[0].golden), _numbers(inputs[0].target)
    if values.shape != golden.shape or name in ("equal", "notequal"):
        return None
    return _by_threshold(values, golden, target, made, inputs[0].dtype, steps)


def _by_threshold(
    values: Array, golden: Array, target: Array, made: Array, dtype: str, steps: float
) -> Optional[Array]:
    """Compare with a constant that was not dumped: it lies between the golden values decided one
    way and those decided the other.
    """
    if golden.all() or not golden.any():
        return None
    known = np.isfinite(target)
    for sign in (1.0, -1.0):
        low, high = (
            float(np.nanmax((sign * values)[~golden])),
            float(np.nanmin((sign * values)[golden])),
        )
        if not low < high:
            continue
        if steps:
            least, most = (
                float(side + off * _fuzz(np.float64(side), dtype, steps))
                for side, off in ((low, -1.0), (high, 1.0))
            )
            return np.asarray((made & (sign * target < least)) | (~made & (sign * target > most)))
        # One constant has to lie between all that were decided one way and all that were decided
        # the other, golden or not.
        least = max(low, float((sign * target)[known & ~made].max(initial=low)))
        most = min(high, float((sign * target)[known & made].min(initial=high)))
        wrong = (made & (sign * target <= low)) | (~made & (sign * target >= high))
        return np.asarray(wrong if least < most else wrong | (made != golden))
    return None


def _by_step(name: str, source: AlignedPair, output: AlignedPair, steps: float) -> Optional[Array]:
    """Casts and roundings: the integer next to the value, in the direction that golden data
    show.
    """
    values, target = _numbers(source.golden), _numbers(source.target)
    golden, made = _numbers(output.golden), _numbers(output.target)
    if values.shape != golden.shape or np.asarray(source.golden).dtype.kind in "iub":
        return None
    ways: Sequence[Callable[[Array], Array]] = _WAYS.get(name, _STEPS)
    if np.asarray(output.golden).dtype.kind == "b":
        ways = [lambda x: (x != 0).astype(np.float64)]
    fits = [float((way(values) == golden).mean()) for way in ways]
    if max(fits) < _AGREE:
        return None
    fuzz = _fuzz(target, source.dtype, steps)
    # Golden values that are nearly whole fit several ways.
    likely = [way for way, fit in zip(ways, fits) if fit == max(fits)]
    found = [~((made >= way(target - fuzz)) & (made <= way(target + fuzz))) for way in likely]
    return min(found, key=lambda wrong: int(wrong.sum()))


def near_ties(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> bool:
    """Tell whether decisions that are others than golden ones follow exactly from the device's
    inputs, and these are off by rounding there.

    Golden decisions follow from golden inputs there, too. An input is off by something where the
    decision is another, and by no more than normally distributed errors may be: d·√(2·ln(n/p))
    times the root mean square of its row, and two steps of its type. The row is that along which is
    chosen, else the last axis; d is its relative distance or the whole input's, the default limit
    at most; p = 10⁻⁶, n the number of elements. A step (a cast to integers) is to the next number;
    of many decisions a quarter are others at most. Parameters as for :func:`redo`.
    """
    name = op_type.lower()
    wrong = _wrong(name, inputs, output, 0.0)
    if wrong is None or wrong.any():
        return False
    golden, target = _numbers(output.golden), _numbers(output.target)
    other = golden != target
    count = _newly_chosen(inputs[0], output) if name in ORDER else int(other.sum())
    of_golden = _wrong(
        name,
        [replace(pair, target=pair.golden) for pair in inputs],
        replace(output, target=output.golden),
        0.0,
    )
    if count > max(_FEW, _MOST * other.size) or of_golden is None or of_golden[other].any():
        return False
    with np.errstate(all="ignore"):
        if name in ARG | ORDER:
            near = _near_order(name, inputs[0], output)
        else:
            off, allowed = zip(
                *[
                    _off(pair, _row_axis(pair.golden))
                    for pair in inputs[: 2 if name in COMPARE else 1]
                ]
            )
            shape = np.broadcast(*off, np.empty(())).shape
            near = np.all(
                [np.broadcast_to(one <= most, shape) for one, most in zip(off, allowed)], axis=0
            )
            near &= np.any([np.broadcast_to(one > 0, shape) for one in off], axis=0)
            near = near.reshape(other.shape) & (
                (np.abs(golden - target) <= 1) if name in STEP else True
            )
    return bool(near[other].all())


def _newly_chosen(source: AlignedPair, output: AlignedPair) -> int:
    """Return how many chosen indices are not among those that golden data chose there: one that is
    new moves all behind it.
    """
    found = _order_of("topk", source, output)
    assert found is not None
    rows = [
        np.moveaxis(np.asarray(side), found[0], -1).reshape(-1, np.shape(side)[found[0]])
        for side in (output.golden, output.target)
    ]
    golden, target = (
        side.astype(np.int64) + np.arange(len(side))[:, None] * source.golden.shape[found[0]]
        for side in rows
    )
    return int((~np.isin(target, golden)).sum())


def _near_order(name: str, source: AlignedPair, output: AlignedPair) -> Array:
    found = _order_of(name, source, output)
    assert found is not None
    axis = found[0]
    off, allowed = _off(source, axis)
    size = off.shape[axis]
    shape = list(off.shape)
    shape[axis] = np.size(output.golden) // max(1, off.size // size)
    near = np.broadcast_to((off > 0).any(axis=axis, keepdims=True), shape)
    for side in (output.golden, output.target):
        # One that is outside follows from nothing, which was looked at before.
        at = np.clip(np.asarray(side).reshape(shape).astype(np.int64), 0, size - 1)
        near = near & (np.take_along_axis(off, at, axis) <= np.take_along_axis(allowed, at, axis))
    return near.reshape(np.shape(output.golden))


def _off(pair: AlignedPair, axis: Optional[int]) -> Tuple[Array, Array]:
    """Return by how much each element differs from golden data, and by how much it may; masked
    elements count for nothing else.
    """
    golden, target = _numbers(pair.golden), _numbers(pair.target)
    off = np.abs(target - golden)
    kept = np.isfinite(golden) & np.isfinite(target) & (golden > _MASK)
    squares, errors = (np.where(kept, values * values, 0.0) for values in (golden, off))
    rows = squares.sum(axis=axis, keepdims=True)
    distance = np.sqrt(
        np.maximum(errors.sum(axis=axis, keepdims=True) / rows, errors.sum() / squares.sum())
    )
    most = np.minimum(distance, LARGEST_ERROR.get(pair.dtype, _USUAL_ERROR)) * math.sqrt(
        2.0 * math.log(max(1, golden.size) / _CHANCE)
    )
    rows = np.sqrt(rows / np.maximum(kept.sum(axis=axis, keepdims=True), 1))
    return off, most * rows + _NEAR * ulp(golden, pair.dtype)


def _row_axis(values: Array) -> Optional[int]:
    """Return the last axis that is longer than 1; None, for all, where there is none."""
    return next((axis for axis in range(values.ndim - 1, -1, -1) if values.shape[axis] > 1), None)


def broadcast_size(arrays: Sequence[Array]) -> int:
    """Return the number of elements of arrays that are taken together, -1 where they do not fit;
    nothing is computed.
    """
    try:
        return int(np.broadcast(*arrays).size)
    except ValueError:
        return -1
