"""Operators simple enough to be computed once more from the device's own inputs: their own error, without what came in."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional, Sequence

import numpy as np

from ..comparing.patterns import AlignedPair

Array = Any
Formula = Callable[..., Array]

_FITS = 1e-3
"""A formula is the operator's where golden data follow from golden data by it up to this relative distance."""


def _softmax(x: Array, axis: int) -> Array:
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


_ONE: Dict[str, Formula] = {
    "relu": lambda x: np.maximum(x, 0.0), "relu6": lambda x: np.clip(x, 0.0, 6.0), "abs": np.abs, "neg": np.negative, "exp": np.exp,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)), "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "square": np.square, "reciprocal": np.reciprocal, "log": np.log,
}  # fmt: skip
_TWO: Dict[str, Formula] = {
    "add": np.add, "addv2": np.add, "sub": np.subtract, "mul": np.multiply, "realdiv": np.divide, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
_ALONG: Dict[str, Formula] = {
    "reducemean": np.mean, "reducemeand": np.mean, "globalaveragepool": np.mean, "reducesum": np.sum, "reducesumd": np.sum,
    "reducemax": np.max, "reducemaxd": np.max, "reducemin": np.min, "reducemind": np.min,
}  # fmt: skip
_SOFTMAX = frozenset(("softmax", "softmaxv2"))
_MOST_RANGES = 12


def known(op_type: str) -> bool:
    """Tell whether operators of a type can be computed once more."""
    name = op_type.lower()
    return name in _ONE or name in _TWO or name in _ALONG or name in _SOFTMAX


def own_distance(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> Optional[float]:
    """Return the relative Euclidean distance of an output from what its operator makes of the device's own inputs.

    What the operator does (its axes) is learnt from golden data, from which it must follow.

    Parameters
    ----------
    inputs, output
        Whole tensors, not samples.

    Returns
    -------
    float or None
        None where the operator is none of those known here, or golden outputs do not follow from golden inputs.
    """
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    golden, made = (np.asarray(side, np.float64).reshape(-1) for side in (output.golden, output.target))
    goldens, targets = ([np.asarray(side, np.float64) for side in sides] for sides in zip(*[(pair.golden, pair.target) for pair in inputs]))
    with np.errstate(all="ignore"):
        for formula in _formulas(op_type.lower(), goldens, golden.size):
            try:
                right = formula(*goldens).reshape(-1)
            except ValueError:
                continue
            if right.shape == golden.shape and _distance(golden, right) <= _FITS:
                return _distance(made, formula(*targets).reshape(-1))
    return None


def _formulas(name: str, inputs: Sequence[Array], count: int) -> Iterator[Formula]:
    """Yield what an operator may compute: of reductions and softmax one for each axis that it may run along."""
    x = inputs[0]
    if name in _ONE and len(inputs) == 1:
        yield _ONE[name]
    elif name in _TWO and len(inputs) == 2:
        yield _TWO[name]
    elif name in _SOFTMAX:
        for axis in range(x.ndim - 1, -1, -1):
            yield lambda x, axis=axis: _softmax(x, axis)
    elif name in _ALONG:
        ranges = [tuple(range(first, last)) for last in range(x.ndim, 0, -1) for first in range(last)]
        for axes in [axes for axes in ranges if count * np.prod([x.shape[axis] for axis in axes]) == x.size][:_MOST_RANGES]:
            yield lambda x, axes=axes: _ALONG[name](x, axis=axes)


def _distance(x: Array, y: Array) -> float:
    """Return ‖x − y‖ / ‖y‖ over what is finite in both; NaN for a y of zeros."""
    kept = np.isfinite(x) & np.isfinite(y)
    norm = float(np.linalg.norm(y[kept]))
    return float(np.linalg.norm((x - y)[kept])) / norm if norm else float("nan")
