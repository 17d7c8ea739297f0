"""Repeats decisions with the device's own inputs: ArgMax, the indices of TopK, comparisons,
roundings and casts to integers.

A decision near a tie changes with the rounding of its inputs; it is right if it follows from the
device's inputs. How an operator decides (axis, rounding, constant to compare with) is learnt from
golden data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..tensors.type_precision import shortened, ulp
from .output_error import OwnError, decided_error

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
# A way to decide is the operator's if golden data follow it this often; chosen, no trial.
_AGREE = 0.99
# A tie is as wide as so many units in the last place of the golden values, beside their errors;
# chosen, no trial.
_NEAR = 2.0
# More wrong decisions than so many and this share of all are no matter of ties; chosen, no trial.
_FEW = 8
MOST_NEAR_TIES = 0.25
# Lower scores are masked: masks of attention are -1e4 or the type's lowest number.
_MASK = -5000.0
# The farthest of n normally distributed errors is wider than a tie's width this seldom.
_CHANCE = 1e-6
# The default limit of the relative distance (judging/limits.py).
_USUAL_ERROR = 0.03
LARGEST_ERROR: Mapping[str, float] = {
    "bfloat16": 0.2, **dict.fromkeys(("hifloat8", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
    "int8", "uint8", "int4"), 0.3)
}  # fmt: skip
"""By element type the default limits of the relative distance, where that is not 0.03: what healthy
networks reach (docs/reference/metrics.md).
"""


@lru_cache(maxsize=1024)
def can_repeat(op_type: str) -> bool:
    """Return whether the decisions of operators of a type can be repeated."""
    name = op_type.lower()
    return any(name in names for names in (ARG, ORDER, COMPARE, STEP, SIGN))


def repeat_decisions(
    op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, exactly: bool = False
) -> Optional[OwnError]:
    """Repeat an operator's decisions with the device's own inputs.

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
    wrong = _wrong_decisions(op_type.lower(), inputs, output, 0.0 if exactly else _NEAR)
    return (
        None
        if wrong is None
        else decided_error(
            int(np.count_nonzero(wrong)), wrong.size, int(np.argmax(wrong)) if wrong.any() else 0
        )
    )


def _wrong_decisions(
    name: str, inputs: Sequence[AlignedPair], output: AlignedPair, steps: float
) -> Optional[Array]:
    """Return a mask of the decisions that do not follow, bool in the output's shape; values within
    so many steps of their type may be decided either way.
    """
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    with np.errstate(all="ignore"):
        if name in ARG | ORDER:
            return _wrong_order(name, inputs[0], output, steps)
        if name in COMPARE:
            return _wrong_comparison(name, inputs, output, steps)
        return _wrong_step(name, inputs[0], output, steps) if name in STEP | SIGN else None


def _tie_width(values: Array, dtype: str, steps: float) -> Array:
    """Return how near to a tie a device may decide either way: so many steps of its type, of
    float32 those of float16.
    """
    return steps * np.abs(values) * 2.0 ** -shortened(dtype).fraction_bits


def _numbers(values: Array) -> Array:
    return np.asarray(values, np.float64)


def _wrong_order(
    name: str, source: AlignedPair, output: AlignedPair, steps: float
) -> Optional[Array]:
    """ArgMax, ArgMin, and the indices of TopK and Sort: the values that are chosen, against the
    right ones.
    """
    axis_and_sign = _order_of(name, source, output)
    if axis_and_sign is None:
        return None
    axis, sign = axis_and_sign
    chosen_and_best = _chosen(
        sign * _numbers(source.target), np.asarray(output.target), axis, name in ARG
    )
    if chosen_and_best is None:
        return None
    got, best = chosen_and_best
    wrong = ~(np.abs(got - best) <= _tie_width(best, source.dtype, steps)) & (got != best)
    from ..operators.ordering import repeated

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
    best, axis_and_sign = (_AGREE, 0.0), None
    signs: Tuple[float, ...] = (1.0, -1.0)
    if name in ARG:
        signs = (-1.0,) if "min" in name else (1.0,)
    for axis in range(source.golden.ndim):
        for sign in signs:
            sides = ((source.golden, output.golden), (source.target, output.target))
            chosen = [
                _chosen(sign * _numbers(values), np.asarray(indices), axis, name in ARG)
                for values, indices in sides
            ]
            fits = [
                float((values_pair[0] == values_pair[1]).mean())
                for values_pair in chosen
                if values_pair is not None
            ]
            if (
                len(fits) == 2
                and (fits[0], fits[1]) >= best
                and (axis_and_sign is None or (fits[0], fits[1]) > best)
            ):
                best, axis_and_sign = (fits[0], fits[1]), (axis, sign)
    return axis_and_sign


def _chosen(values: Array, indices: Array, axis: int, one: bool) -> Optional[Tuple[Array, Array]]:
    """Return the values at indices along an axis and the largest ones, NaN at an index that is
    outside; None where shapes do not fit.
    """
    size = values.shape[axis]
    shape = list(values.shape)
    shape[axis] = indices.shape[axis] if indices.ndim == values.ndim else 0
    if one:
        shape[axis] = 1
    if int(np.prod(shape)) != indices.size or not indices.size or not 0 < shape[axis] <= size:
        return None
    at = indices.reshape(shape).astype(np.int64)
    got = np.take_along_axis(values, np.clip(at, 0, size - 1), axis)
    got = np.where((at >= 0) & (at < size), got, np.nan)
    best = np.take(-np.sort(-values, axis), range(shape[axis]), axis)
    return got, best


def _wrong_comparison(
    name: str, inputs: Sequence[AlignedPair], output: AlignedPair, steps: float
) -> Optional[Array]:
    test, golden, decided = (
        COMPARE[name],
        _numbers(output.golden) != 0,
        _numbers(output.target) != 0,
    )
    if len(inputs) == 2:
        goldens, targets = (
            [_numbers(side) for side in sides]
            for sides in zip(*[(pair.golden, pair.target) for pair in inputs])
        )
        if broadcast_size(goldens) != golden.size:
            return None
        fits = (test(*goldens).reshape(golden.shape) == golden).mean() >= _AGREE
        right = test(*targets).reshape(decided.shape)
        near = np.abs(targets[0] - targets[1]) <= _tie_width(
            np.broadcast_to(targets[0], np.broadcast(*targets).shape), inputs[0].dtype, steps
        )
        return (right != decided) & ~(near.reshape(decided.shape) & (steps > 0)) if fits else None
    values, target = _numbers(inputs[0].golden), _numbers(inputs[0].target)
    if values.shape != golden.shape or name in ("equal", "notequal"):
        return None
    return _wrong_by_threshold(values, golden, target, decided, inputs[0].dtype, steps)


def _wrong_by_threshold(
    values: Array, golden: Array, target: Array, decided: Array, dtype: str, steps: float
) -> Optional[Array]:
    """Compare with a constant that was not dumped: it lies between the golden values decided one
    way and those decided the other.
    """
    if golden.all() or not golden.any():
        return None
    finite = np.isfinite(target)
    for sign in (1.0, -1.0):
        low, high = (
            float(np.nanmax((sign * values)[~golden])),
            float(np.nanmin((sign * values)[golden])),
        )
        if not low < high:
            continue
        if steps:
            least, most = (
                float(side + direction * _tie_width(np.float64(side), dtype, steps))
                for side, direction in ((low, -1.0), (high, 1.0))
            )
            return np.asarray(
                (decided & (sign * target < least)) | (~decided & (sign * target > most))
            )
        # One constant has to lie between all that were decided one way and all that were decided
        # the other, golden or not.
        least = max(low, float((sign * target)[finite & ~decided].max(initial=low)))
        most = min(high, float((sign * target)[finite & decided].min(initial=high)))
        wrong = (decided & (sign * target <= low)) | (~decided & (sign * target >= high))
        return np.asarray(wrong if least < most else wrong | (decided != golden))
    return None


def _wrong_step(
    name: str, source: AlignedPair, output: AlignedPair, steps: float
) -> Optional[Array]:
    """Casts and roundings: the integer next to the value, in the direction that golden data
    show.
    """
    values, target = _numbers(source.golden), _numbers(source.target)
    golden, decided = _numbers(output.golden), _numbers(output.target)
    if values.shape != golden.shape or np.asarray(source.golden).dtype.kind in "iub":
        return None
    steps_tried: Sequence[Callable[[Array], Array]] = _WAYS.get(name, _STEPS)
    if np.asarray(output.golden).dtype.kind == "b":
        steps_tried = [lambda x: (x != 0).astype(np.float64)]
    fits = [float((step(values) == golden).mean()) for step in steps_tried]
    if max(fits) < _AGREE:
        return None
    fuzz = _tie_width(target, source.dtype, steps)
    # Golden values that are nearly whole fit several ways.
    likely = [step for step, fit in zip(steps_tried, fits) if fit == max(fits)]
    candidates = [
        ~((decided >= step(target - fuzz)) & (decided <= step(target + fuzz))) for step in likely
    ]
    return min(candidates, key=lambda wrong: int(wrong.sum()))


def near_ties(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> bool:
    """Return whether decisions that are others than golden ones follow exactly from the device's
    inputs, and these are off by rounding there.

    Golden decisions follow from golden inputs there, too. An input is off by something where the
    decision is another, and by no more than normally distributed errors may be: d·√(2·ln(n/p))
    times the root mean square of its row, and two steps of its type. The row is that along which is
    chosen, else the last axis; d is its relative distance or the whole input's, the default limit
    at most; p = 10⁻⁶, n the number of elements. A step (a cast to integers) is to the next number;
    of many decisions a quarter are others at most. Parameters as for :func:`repeat_decisions`.
    """
    name = op_type.lower()
    wrong = _wrong_decisions(name, inputs, output, 0.0)
    if wrong is None or wrong.any():
        return False
    golden, target = _numbers(output.golden), _numbers(output.target)
    differs = golden != target
    count = _newly_chosen(inputs[0], output) if name in ORDER else int(differs.sum())
    golden_wrong = _wrong_decisions(
        name,
        [replace(pair, target=pair.golden) for pair in inputs],
        replace(output, target=output.golden),
        0.0,
    )
    if (
        count > max(_FEW, MOST_NEAR_TIES * differs.size)
        or golden_wrong is None
        or golden_wrong[differs].any()
    ):
        return False
    with np.errstate(all="ignore"):
        if name in ARG | ORDER:
            near = _near_order(name, inputs[0], output)
        else:
            off, allowed = zip(
                *[
                    _error_and_allowance(pair, _row_axis(pair.golden))
                    for pair in inputs[: 2 if name in COMPARE else 1]
                ]
            )
            shape = np.broadcast(*off, np.empty(())).shape
            near = np.all(
                [np.broadcast_to(error <= most, shape) for error, most in zip(off, allowed)], axis=0
            )
            near &= np.any([np.broadcast_to(error > 0, shape) for error in off], axis=0)
            near = near.reshape(differs.shape) & (
                (np.abs(golden - target) <= 1) if name in STEP else True
            )
    return bool(near[differs].all())


def _newly_chosen(source: AlignedPair, output: AlignedPair) -> int:
    """Return how many chosen indices are not among those that golden data chose there: one that is
    new moves all behind it.
    """
    axis_and_sign = _order_of("topk", source, output)
    assert axis_and_sign is not None
    rows = [
        np.moveaxis(np.asarray(side), axis_and_sign[0], -1).reshape(
            -1, np.shape(side)[axis_and_sign[0]]
        )
        for side in (output.golden, output.target)
    ]
    golden, target = (
        side.astype(np.int64)
        + np.arange(len(side))[:, None] * source.golden.shape[axis_and_sign[0]]
        for side in rows
    )
    return int((~np.isin(target, golden)).sum())


def _near_order(name: str, source: AlignedPair, output: AlignedPair) -> Array:
    axis_and_sign = _order_of(name, source, output)
    assert axis_and_sign is not None
    axis = axis_and_sign[0]
    error, allowed = _error_and_allowance(source, axis)
    size = error.shape[axis]
    shape = list(error.shape)
    shape[axis] = np.size(output.golden) // max(1, error.size // size)
    near = np.broadcast_to((error > 0).any(axis=axis, keepdims=True), shape)
    for side in (output.golden, output.target):
        # One that is outside follows from nothing, which was looked at before.
        at = np.clip(np.asarray(side).reshape(shape).astype(np.int64), 0, size - 1)
        near = near & (np.take_along_axis(error, at, axis) <= np.take_along_axis(allowed, at, axis))
    return near.reshape(np.shape(output.golden))


def _error_and_allowance(pair: AlignedPair, axis: Optional[int]) -> Tuple[Array, Array]:
    """Return by how much each element differs from golden data, and by how much it may; masked
    elements count for nothing else.
    """
    golden, target = _numbers(pair.golden), _numbers(pair.target)
    error = np.abs(target - golden)
    usable = np.isfinite(golden) & np.isfinite(target) & (golden > _MASK)
    squares, errors = (np.where(usable, values * values, 0.0) for values in (golden, error))
    rows = squares.sum(axis=axis, keepdims=True)
    distance = np.sqrt(
        np.maximum(errors.sum(axis=axis, keepdims=True) / rows, errors.sum() / squares.sum())
    )
    most = np.minimum(distance, LARGEST_ERROR.get(pair.dtype, _USUAL_ERROR)) * math.sqrt(
        2.0 * math.log(max(1, golden.size) / _CHANCE)
    )
    rows = np.sqrt(rows / np.maximum(usable.sum(axis=axis, keepdims=True), 1))
    return error, most * rows + _NEAR * ulp(golden, pair.dtype)


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
