"""What the limits allow of the outputs of a network."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Sequence

import numpy as np

from ...judging.diagnosis.compare_arrays import compare_arrays
from ...judging.diagnosis.observed_ops import ObservedOp
from ...judging.diagnosis.row_digest import COSINE, DISTANCE, Observation
from ...judging.limits import Limit, Limits, Subject
from ...metrics.row import WORST_SLICE
from .choosing_ops import LINEAR, UNBOUNDED

Array = Any

_NO_LIMIT = 0.03
"""The distance that is allowed where no limit speaks of one."""


def allowed_distance(limits: Limits, op: ObservedOp, row: Observation, distance: float) -> float:
    """Return the distance up to which an output is within its limits, as far as these speak of the
    whole tensor or its slices.
    """
    bounds = [math.inf]
    for limit in limits.for_subject(Subject(row.dtype or "", op.type, op.name)):
        if limit.metric == DISTANCE:
            bounds.append(limit.value)
        elif limit.metric == COSINE and limit.value < 1.0:
            bounds.append(math.sqrt(2.0 * (1.0 - limit.value)))
        elif limit.metric == WORST_SLICE and row.slice_distance > 0 and 0 < distance <= LINEAR:
            bounds.append(limit.value * min(1.0, distance / row.slice_distance))
    best = min(bounds)
    return best if math.isfinite(best) and best > 0 else _NO_LIMIT


def worst_ratio(
    golden: Array, dtype: str, limits: Sequence[Limit], slices: bool, values: Array
) -> float:
    """Return how far values are from golden data in units of what is allowed of a type; values that
    it cannot hold are those of a raised operator, in float32.
    """
    values = np.asarray(values, np.float32).reshape(golden.shape)
    if dtype == "float16":
        with np.errstate(over="ignore", invalid="ignore"):
            half = values.astype(np.float16)
        if np.array_equal(half[values == values], values[values == values]):
            values = half
    limits = [limit for limit in limits if slices or limit.metric != WORST_SLICE]
    plain = Limits(tuple(replace(limit, selector="", pattern="") for limit in limits))
    comparison = compare_arrays(values, golden, limits=plain, metrics=[])
    ratios = [
        _ratio(limit, float(comparison.metrics.get(limit.metric, math.nan))) for limit in limits
    ]
    if comparison.inf is not None and comparison.nan is not None and not comparison.passed:
        odd = any(side["target"] > side["golden"] for side in (comparison.inf, comparison.nan))
        ratios.append(UNBOUNDED if odd else 0.0)
    return max([0.0 if comparison.passed else 1.0, *ratios])


def _ratio(limit: Limit, value: float) -> float:
    """Return a metric's value in units of its limit, as a distance; 0 where it was not measured."""
    if value != value:
        return 0.0
    if limit.wants_large:
        return (
            math.sqrt(max(1.0 - value, 0.0) / max(1.0 - limit.value, 1e-12))
            if limit.metric == COSINE
            else 0.0
        )
    return value / limit.value if limit.value > 0 else 0.0
