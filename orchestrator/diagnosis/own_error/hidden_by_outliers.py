"""Errors that a tensor's largest elements hide: the distance without them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...metrics.patterns import AlignedPair

ORDINARY = 0.9
"""The share of the elements, the smallest ones, that is compared."""

_RULE = 5.0
_LEAST_ELEMENTS = 256
_ELEMENTWISE = frozenset(
    """
    add addv2 addn biasadd bias mul muls eltwise scale gather gatherv2 gatherv2d embedding
    embeddinglookup cast concat concatd concatv2 concatv2d slice sliced stridedslice stridedsliced
    split splitd splitv splitvd
    """.split()
)


class Ordinary(NamedTuple):
    """A tensor without its largest elements.

    Attributes
    ----------
    distance
        The relative Euclidean distance of the rest; NaN where there is none.
    rms
        Root mean square of the rest of the golden elements.
    hidden
        The largest elements rule the tensor's norm, so that its own distance says nothing of the
        rest.
    """

    distance: float
    rms: float
    hidden: bool


def is_elementwise(op_type: str) -> bool:
    """Tell whether each element's error is of its own magnitude in operators of a type: they do not
    add up elements of different magnitudes.
    """
    return op_type.lower() in _ELEMENTWISE


def without_largest(pair: AlignedPair) -> Ordinary:
    """Compare the nine tenths of a tensor's elements that are smallest; those that are 0 or not
    finite are left out.
    """
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (pair.target, pair.golden))
    usable = np.isfinite(x) & np.isfinite(y) & (y != 0)
    x, y = x[usable], y[usable]
    if y.size < _LEAST_ELEMENTS:
        return Ordinary(math.nan, math.nan, False)
    size, place = np.abs(y), int(ORDINARY * y.size)
    small = size <= np.partition(size, place)[place]
    usual = _rms(y[small])
    return Ordinary(_rms((x - y)[small]) / usual, usual, _rms(y) > _RULE * usual)


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
