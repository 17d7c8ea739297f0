"""Patterns of the difference of two tensors, and where it is, over all elements in one pass."""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional

import numpy as np

from ...tensors.geometry import Geometry
from ...tensors.golden_order_windows import ordered_windows
from ...tensors.tensor import Tensor
from ..worst_slice import MASK
from .element_errors import errors_of
from .finding import Finding
from .masked_on_both_sides import Masks
from .one_pass_findings import Evidence
from .squared_error_by_index import SquaredErrorByIndex, reals

Array = Any

MOST_WALKED = 1 << 26
"""Larger tensors are sampled: a pass takes some 0.2 µs an element, 12 s for so many."""


class Walked(NamedTuple):
    """What was found in all elements of a pair.

    Attributes
    ----------
    findings
        As :meth:`goldwatch.metrics.patterns.one_pass_findings.Evidence.findings` has them.
    constant
        Every element of the target is the same.
    """

    findings: List[Finding]
    constant: bool


def walk(
    target: Tensor, golden: Tensor, geometry: Geometry, distance: float, background: float = 0.0
) -> Optional[Walked]:
    """Look at every element of a pair; None where there are more than :data:`MOST_WALKED`.

    Parameters
    ----------
    geometry
        Of :func:`goldwatch.tensors.geometry.match_layouts` for these two.
    distance
        Their relative distance; NaN where there is none.
    background
        Relative distance that needs no explanation: what the operator's inputs explain.

    Raises
    ------
    GoldwatchError
        A tensor cannot be read.
    """
    if not 0 < geometry.count <= MOST_WALKED or not geometry.sizes:
        return None
    masks = Masks()
    walked, low, high, largest = _pass(target, golden, geometry, masks, 1.0)
    if max(low) <= MASK:
        for window in ordered_windows(target, golden, geometry):
            masks.update(window.x.reshape(-1), window.y.reshape(-1))
    unit = 2.0 ** math.floor(math.log2(largest)) if 0 < largest < math.inf else 1.0
    if masks.there or not 1e-60 < unit < 1e60:
        walked, _, _, _ = _pass(target, golden, geometry, masks, unit)
    evidence, shares = walked
    return Walked(evidence.findings(shares, distance, background=background), low[0] == high[0])


def _pass(target: Tensor, golden: Tensor, geometry: Geometry, masks: Masks, unit: float) -> Any:
    evidence, shares = (
        Evidence(target.dtype.name, geometry, geometry.letters),
        SquaredErrorByIndex(geometry.sizes, unit),
    )
    low, high, largest = [math.inf, math.inf], [-math.inf, -math.inf], 0.0
    for window in ordered_windows(target, golden, geometry):
        window = masks.without(window)
        x, y = window.x.reshape(-1), window.y.reshape(-1)
        errors = errors_of(x, y)
        evidence.update(window, errors)
        with np.errstate(all="ignore"):
            sides = [
                reals(side) if side.dtype.kind != "c" else np.abs(side).astype(np.float64)
                for side in (x, y)
            ]
            shares.update(window.ranges, errors.signed, sides[1], sides[0])
        for number, side in enumerate(sides):
            low[number] = min(low[number], float(np.fmin.reduce(side)))
            high[number] = max(high[number], float(np.fmax.reduce(side)))
        finite = np.abs(errors.signed[np.isfinite(errors.signed)])
        largest = max(largest, float(finite.max(initial=0.0)))
    return (evidence, shares), low, high, largest
