"""Operators simple enough to be computed once more from the device's own inputs: their own error, without what came in."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...comparing.decisions import broadcast_size
from ...comparing.masks import MASKED
from ...comparing.patterns import AlignedPair
from .expected import rounding, sum_noise
from .normalising import NORMALISING, normalisations

Array = Any
Formula = Callable[..., Array]

_SLICES = 3.0
_FITS = 1e-3
"""A formula is the operator's where golden data follow from golden data by it up to this relative distance."""
_EQUAL = 1e-6
_APART, _NEARER = 0.05, 0.2
"""Golden data that do not fit each other are this far apart, and what fits instead is nearer by this factor."""


def _softmax(x: Array, axis: int) -> Array:
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def _erf(x: Array) -> Array:
    """Return the error function (Abramowitz and Stegun 7.1.26, off by 1.5e-7 at most)."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1.0 - series * np.exp(-x * x))


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


_GELU: Tuple[Formula, ...] = (
    lambda x: 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    lambda x: 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0))),
    lambda x: x * _sigmoid(1.702 * x),
)
_ONE: Dict[str, Tuple[Formula, ...]] = {
    "relu": (lambda x: np.maximum(x, 0.0),), "relu6": (lambda x: np.clip(x, 0.0, 6.0),), "abs": (np.abs,), "neg": (np.negative,),
    "exp": (np.exp,), "sigmoid": (_sigmoid,), "tanh": (np.tanh,), "sqrt": (np.sqrt,), "rsqrt": (lambda x: 1.0 / np.sqrt(x),),
    "square": (np.square,), "reciprocal": (np.reciprocal,), "log": (np.log,), "swish": (lambda x: x * _sigmoid(x),),
    "logicalnot": (lambda x: x == 0,), "gelu": _GELU, "fastgelu": _GELU, "geluv2": _GELU,
}  # fmt: skip
_TWO: Dict[str, Formula] = {
    "add": np.add, "addv2": np.add, "sub": np.subtract, "mul": np.multiply, "realdiv": np.divide, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "logicaland": np.logical_and, "logicalor": np.logical_or,
}  # fmt: skip
_ALONG: Dict[str, Formula] = {
    "reducemean": np.mean, "reducemeand": np.mean, "globalaveragepool": np.mean, "reducesum": np.sum, "reducesumd": np.sum,
    "reducemax": np.max, "reducemaxd": np.max, "reducemin": np.min, "reducemind": np.min,
}  # fmt: skip
_SOFTMAX = frozenset(("softmax", "softmaxv2"))
_MOVING = frozenset(
    "transpose transposed permute reshape squeeze squeezev2 unsqueeze unsqueezev2 expanddims expanddimsd flatten identity transdata".split()
)
_TAKING = frozenset("gather gatherv2 gatherv2d".split())
_TAKING_EACH = frozenset("gatherd gatherelements".split())
_TAKING_ND = frozenset(("gathernd",))
_CONCAT = frozenset("concat concatd concatv2 concatv2d".split())
_CAST = frozenset("cast castd todtype".split())
_HANDING_ON = _TAKING | _TAKING_EACH | _TAKING_ND | _CONCAT | _CAST
_EXACT = frozenset((*_TWO, *_MOVING, *_HANDING_ON, "relu", "relu6", "abs", "neg"))
_MOST_RANGES = 12
_MOST_AXES = 4


def known(op_type: str) -> bool:
    """Tell whether operators of a type can be computed once more."""
    name = op_type.lower()
    return any(name in names for names in (_ONE, _TWO, _ALONG, _SOFTMAX, _MOVING, _HANDING_ON, NORMALISING))


def normalises(op_type: str) -> bool:
    """Tell whether operators of a type divide by a root that has an epsilon in it."""
    return op_type.lower() in NORMALISING


def only_rounds(op_type: str) -> bool:
    """Tell whether an operator of a type that is known adds nothing but the rounding of its output."""
    return op_type.lower() in _EXACT


def only_moves(op_type: str) -> bool:
    """Tell whether an operator of a type only moves its one input."""
    return op_type.lower() in _MOVING


class OwnError(NamedTuple):
    """How far an output is from what its operator should make of the device's own inputs.

    Attributes
    ----------
    distance
        The relative Euclidean distance.
    slice_distance
        The largest of any slice along any axis: its norm over that of the slice, or of the mean slice where that is larger.
    factor
        The common factor of all elements, 1 where nothing is wrong.
    odd
        How many elements are finite where they should not be, or the reverse.
    """

    distance: float
    slice_distance: float
    factor: float = 1.0
    odd: int = 0

    def within(self, usual: float) -> bool:
        """Tell whether the output is right, where a right one may be off by so much."""
        return not self.odd and self.distance <= usual and self.slice_distance <= _SLICES * usual


def own_error(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> Optional[OwnError]:
    """Return the error that an operator adds to what comes in.

    What the operator does (its axes, a normalisation's scale and shift) is learnt from golden data, from which it must follow.

    Parameters
    ----------
    inputs, output
        Whole tensors, not samples.

    Returns
    -------
    OwnError or None
        None where the operator is none of those known here, or golden outputs do not follow from golden inputs.
    """
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    golden, made = (np.asarray(side, np.float64) for side in (output.golden, output.target))
    goldens, targets = ([np.asarray(side, np.float64) for side in sides] for sides in zip(*[(pair.golden, pair.target) for pair in inputs]))
    best, formula = _FITS, None
    with np.errstate(all="ignore"):
        for one in _formulas(op_type.lower(), goldens, golden):
            values = _values(one, goldens, golden)
            if values is None:
                continue
            off = math.inf if _odd(golden, values) else _distance(golden, values)
            if off <= best:
                best, formula = off, one
            if off <= _EQUAL:
                break
        computed = None if formula is None else _values(formula, targets, made)
        if computed is None:
            return None
        return OwnError(_distance(made, computed), _worst_slice(made, computed), _factor(made, computed), _odd(made, computed))


def usual_error(op_type: str, dtype: str, rms: float) -> float:
    """Return what a right operator's output may be off by: its rounding, and the noise of sums where it sums.

    Parameters
    ----------
    rms
        Root mean square of the golden output.
    """
    rounded = rounding(dtype, rms)
    return 2.0 * rounded if only_rounds(op_type) else math.hypot(rounded, sum_noise(dtype))


def follows(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> bool:
    """Tell whether an output is what its operator makes of the device's own inputs, but for rounding; parameters as :func:`own_error`."""
    own = own_error(op_type, inputs, output)
    if own is None:
        return False
    golden = np.asarray(output.golden, np.float64)
    finite = golden[np.isfinite(golden)]
    usual = usual_error(op_type, output.dtype, float(np.sqrt(np.mean(finite * finite))) if finite.size else math.nan)
    return own.within(usual)


def contradicts(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, doubted: int) -> bool:
    """Tell whether an operator that reads a golden tensor shows that this tensor is wrong, not the device's.

    Parameters
    ----------
    inputs, output
        Of the reader; whole tensors.
    doubted
        Which input: golden outputs follow from the device's tensor in its place, and not from the golden one.
    """
    return any(apart > _APART and near < _NEARER * apart for apart, near in _replaced(op_type, inputs, output, doubted))


def confirms(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, doubted: int) -> bool:
    """Tell whether an operator that reads a golden tensor shows that it is right; parameters as for :func:`contradicts`.

    Golden outputs follow from the golden tensor, and not from the device's in its place.
    """
    return any(apart <= _FITS and near > _APART for apart, near in _replaced(op_type, inputs, output, doubted))


def _replaced(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, doubted: int) -> Iterator[Tuple[float, float]]:
    """Yield, of each formula, how far golden outputs are from it with the golden inputs, and with the device's in place of the doubted."""
    if any(pair.sampled for pair in (*inputs, output)) or op_type.lower() not in (*_ONE, *_TWO):
        return
    golden = np.asarray(output.golden, np.float64)
    goldens = [np.asarray(pair.golden, np.float64) for pair in inputs]
    replaced = [np.asarray(pair.target, np.float64) if number == doubted else goldens[number] for number, pair in enumerate(inputs)]
    with np.errstate(all="ignore"):
        for formula in _formulas(op_type.lower(), goldens, golden):
            values = [_values(formula, sides, golden) for sides in (goldens, replaced)]
            if values[0] is not None and values[1] is not None:
                yield _distance(golden, values[0]), _distance(golden, values[1])


def _values(formula: Formula, inputs: Sequence[Array], output: Array) -> Optional[Array]:
    """Return what a formula makes of inputs, in the shape of the output; None where they do not fit it."""
    try:
        return np.asarray(formula(*inputs), np.float64).reshape(output.shape)
    except (ValueError, TypeError, IndexError, MemoryError):
        return None


def _formulas(name: str, inputs: Sequence[Array], output: Array) -> Iterator[Formula]:
    """Yield what an operator may compute: of reductions and softmax one for each axis that it may run along."""
    x, count = inputs[0], output.size
    if name in _ONE and len(inputs) == 1:
        yield from _ONE[name]
    elif name in _TWO and len(inputs) == 2:
        if broadcast_size(inputs) == count:
            yield _TWO[name]
    elif name in NORMALISING:
        yield from normalisations(name, x, output)
    elif name in _HANDING_ON and x.size:
        yield from _handing_on(name, inputs, output)
    # A second input, where there is one, tells axes or a shape.
    elif name in _SOFTMAX:
        for axis in range(x.ndim - 1, -1, -1):
            yield lambda x, *rest, axis=axis: _softmax(x, axis)
    elif name in _ALONG:
        ranges = [tuple(range(first, last)) for last in range(x.ndim, 0, -1) for first in range(last)]
        for axes in [axes for axes in ranges if count * np.prod([x.shape[axis] for axis in axes]) == x.size][:_MOST_RANGES]:
            yield lambda x, *rest, axes=axes: _ALONG[name](x, axis=axes)
    elif name in _MOVING and x.size == count:
        yield lambda x, *rest: x
        moved = [axis for axis in range(x.ndim) if x.shape[axis] > 1]
        for axes in permutations(range(len(moved))) if len(moved) <= _MOST_AXES else ():
            yield lambda x, *rest, axes=axes: x.squeeze().transpose(axes)


def _handing_on(name: str, inputs: Sequence[Array], output: Array) -> Iterator[Formula]:
    """Yield how elements of the inputs may become those of the output: of Gather and Concat one for each axis."""
    x, axes = inputs[0], range(inputs[0].ndim)
    if name in _CAST and len(inputs) == 1:
        yield lambda x: x
    elif name in _CONCAT and all(one.ndim == x.ndim for one in inputs) and sum(one.size for one in inputs) == output.size:
        for axis in axes:
            yield lambda *parts, axis=axis: np.concatenate(parts, axis)
    elif len(inputs) < 2:
        return
    elif name in _TAKING_ND and inputs[1].ndim and 0 < inputs[1].shape[-1] <= x.ndim:
        depth = inputs[1].shape[-1]
        if inputs[1].size // depth * int(np.prod(x.shape[depth:])) == output.size:
            yield lambda x, at, *rest: _taken(x, tuple(np.moveaxis(at, -1, 0)))
    elif name in _TAKING_EACH and inputs[1].ndim == x.ndim and inputs[1].size == output.size:
        for axis in axes:
            yield lambda x, at, *rest, axis=axis: _taken(x, _each(at, axis))
    elif name in _TAKING:
        for axis in axes:
            if x.shape[axis] and x.size // x.shape[axis] * inputs[1].size == output.size:
                yield lambda x, at, *rest, axis=axis: _taken(x, (*[slice(None)] * axis, at))


def _each(at: Array, axis: int) -> Tuple[Array, ...]:
    """Return the indices of elements of which that along an axis is given."""
    return tuple(at if number == axis else place for number, place in enumerate(np.indices(at.shape, sparse=True)))


def _taken(x: Array, at: Tuple[Any, ...]) -> Array:
    """Return elements by their indices (whole numbers, negative ones from the end), infinite where one is outside."""
    numbers = [one for one in at if not isinstance(one, slice)]
    sizes = [size for size, one in zip(x.shape, at) if not isinstance(one, slice)]
    outside = np.zeros((), bool)
    clipped = []
    for size, one in zip(sizes, numbers):
        outside = outside | ~((one >= -size) & (one < size))
        clipped.append(np.clip(np.nan_to_num(one), -size, size - 1).astype(np.int64))
    before: Tuple[Any, ...] = at[: len(at) - len(numbers)]
    found = np.array(x[(*before, *clipped)], np.float64)
    found[(*before, np.broadcast_to(outside, np.broadcast(*clipped, np.empty(())).shape))] = np.inf
    return found


def _odd(x: Array, y: Array) -> int:
    """Return how many elements are finite on one side only, or another infinity; where y is NaN nothing can be told.

    What overflows on one side, or is masked there, is large on the other.
    """
    with np.errstate(invalid="ignore"):
        alike = (x == y) | np.isnan(y) | (np.isfinite(x) & np.isfinite(y))
        large = (np.sign(x) == np.sign(y)) & (np.minimum(np.absolute(x), np.absolute(y)) >= -MASKED)
    return int(np.count_nonzero(~(alike | large)))


def _distance(x: Array, y: Array) -> float:
    """Return ‖x − y‖ / ‖y‖ over what is finite in both; for a y of zeros 0 where x is too, else NaN."""
    kept = np.isfinite(x) & np.isfinite(y)
    norm, off = (float(np.linalg.norm(values[kept])) for values in (y, x - y))
    return off / norm if norm else math.nan if off else 0.0


def _factor(x: Array, y: Array) -> float:
    """Return a, for which ‖x − a·y‖ is smallest; NaN for a y of zeros."""
    kept = np.isfinite(x) & np.isfinite(y)
    x, y = x[kept], y[kept]
    return float(x @ y) / float(y @ y) if y.any() else float("nan")


def _worst_slice(x: Array, y: Array) -> float:
    """Return the largest relative distance of any slice along any axis."""
    kept = np.isfinite(x) & np.isfinite(y)
    off, size = np.where(kept, x - y, 0.0) ** 2, np.where(kept, y, 0.0) ** 2
    worst = 0.0
    for axis in range(x.ndim):
        if 1 < x.shape[axis] < x.size:
            rest = tuple(other for other in range(x.ndim) if other != axis)
            norms = np.sqrt(size.sum(axis=rest))
            floor = np.maximum(norms, norms.mean())
            worst = max(worst, float((np.sqrt(off.sum(axis=rest)) / floor).max()) if floor.any() else 0.0)
    return worst
