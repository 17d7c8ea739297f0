"""The own error of an operator's output: how far it is from what float32 makes of the operator's
inputs.

All errors are relative Euclidean distances.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from ...judging.diagnosis.own_error.normal_error import least_rounding
from ...judging.diagnosis.row_digest import Observation
from ...operators import Value
from ...recomputing.beside_golden import MASK
from ...recomputing.output_error import own_error
from ...recomputing.piece import rounded
from ...recomputing.recomputed_output import OutputBesideGolden
from ...tensors.type_precision import ROUNDING
from .choosing_ops import UNBOUNDED

Array = Any

NARROW = ("float16", "bfloat16")
"""Types from which an operator can be raised to float32."""


class OutputErrors(NamedTuple):
    """The errors of one output.

    Attributes
    ----------
    beside
        The output with what was computed again; None where it could not be.
    own
        Its own error.
    rounding
        What of it one rounding to a narrow type makes.
    inherited
        What the inputs' errors make of it; NaN where it is not known.
    distance
        From golden data.
    norm, elements
        Its Euclidean norm, and its size.
    spoiled
        What comes in makes it NaN or larger than its type holds, so that it tells nothing.
    not_finite
        What comes in makes NaN or Inf of it where golden data hold numbers.
    """

    beside: Optional[OutputBesideGolden]
    own: float
    rounding: float
    inherited: float
    distance: float
    norm: float
    elements: int
    spoiled: bool
    not_finite: bool = False


def output_errors(
    row: Observation,
    beside: Optional[OutputBesideGolden],
    narrow: str,
    incoming: Sequence[float],
    is_replay: bool,
) -> OutputErrors:
    """Return the errors of an output.

    Parameters
    ----------
    row
        What was compared.
    beside
        The output with what was computed again, where it could be.
    narrow
        The type of :data:`NARROW` that it would be rounded to.
    incoming
        The distances of what its operator reads; NaN where they are not known.
    is_replay
        Golden data are those of the operator by itself.
    """
    came = math.sqrt(sum(min(one, UNBOUNDED) ** 2 for one in incoming if one == one))
    if beside is None:
        return _estimated(row, narrow, came)
    exact, golden = beside.exact, beside.golden
    truth = golden if golden is not None and not is_replay else exact
    rounding = relative_distance(rounded(truth, narrow), truth, narrow)
    norm = float(np.linalg.norm(np.where(np.isfinite(truth), truth, 0.0).astype(np.float64)))
    if golden is not None and _is_spoiled(exact, golden, rounding, beside.dtype):
        return OutputErrors(
            beside, rounding, rounding, math.nan, UNBOUNDED, norm, exact.size, spoiled=True,
            not_finite=_leaves_numbers(exact, golden),
        )  # fmt: skip
    own = relative_distance(beside.actual, exact, beside.dtype)
    inherited = math.nan if golden is None else finite_distance(exact, golden)
    if is_replay:
        distance = min(math.sqrt(own**2 + came**2), UNBOUNDED)
    elif golden is None:
        distance = _bounded(row.distance)
    elif (np.isfinite(golden) & ~np.isfinite(beside.actual)).any():
        distance = UNBOUNDED
    else:
        distance = min(finite_distance(beside.actual, golden), UNBOUNDED)
    return OutputErrors(beside, own, rounding, inherited, distance, norm, exact.size, spoiled=False)


def input_errors(distance: float) -> OutputErrors:
    """Return the errors of an input of the network; what is off by a rounding is float32 where who
    reads it is raised.
    """
    distance = _bounded(distance)
    rounds = distance <= 2.0 * ROUNDING["bfloat16"].half_unit
    own, rounding = (0.0, distance) if rounds else (distance, 0.0)
    return OutputErrors(None, own, rounding, 0.0, distance, 0.0, 0, spoiled=False)


def _estimated(row: Observation, narrow: str, came: float) -> OutputErrors:
    """Return the errors of an output that could not be computed again: what the inputs' do not
    explain is its own.
    """
    distance = _bounded(row.distance)
    inherited = min(came, distance)
    # Below the least step of the type all may be lost.
    subnormal = least_rounding(narrow) / row.rms if row.rms > 0 else 0.0
    rounding = _bounded(math.hypot(ROUNDING[narrow].half_unit / math.sqrt(3.0), subnormal))
    own = math.sqrt(max(distance**2 - inherited**2, rounding**2))
    spoiled = distance >= UNBOUNDED and came >= UNBOUNDED
    return OutputErrors(None, own, rounding, inherited, distance, 0.0, 0, spoiled)


def _bounded(distance: float) -> float:
    return distance if math.isfinite(distance) else UNBOUNDED


def relative_distance(actual: Array, expected: Array, dtype: str) -> float:
    """Return the relative distance; UNBOUNDED where values are Inf or NaN on one side, but for
    masks.
    """
    distance = own_error(np.asarray(actual), Value(expected), dtype)
    return (
        UNBOUNDED
        if distance.not_finite
        else min(distance.distance if distance.distance == distance.distance else 0.0, UNBOUNDED)
    )


def finite_distance(actual: Array, expected: Array) -> float:
    """Return the relative distance over what is finite in both, and no mask."""
    x, y = (np.asarray(side, np.float64) for side in (actual, expected))
    both = np.isfinite(x) & (np.abs(y) < MASK)
    off, size = float(np.linalg.norm(x[both] - y[both])), float(np.linalg.norm(y[both]))
    return off / size if size > 0 else (0.0 if off == 0 else UNBOUNDED)


def _leaves_numbers(exact: Array, golden: Array) -> bool:
    return bool((np.isfinite(golden) & ~np.isfinite(exact)).any())


def _is_spoiled(exact: Array, golden: Array, rounding: float, dtype: str) -> bool:
    """Tell whether what comes in makes an output that golden data do not: NaN, or values beyond the
    type where golden ones are not.
    """
    if _leaves_numbers(exact, golden):
        return True
    largest = ROUNDING[dtype].largest if dtype in NARROW else math.inf
    return rounding < UNBOUNDED and float(np.abs(exact).max(initial=0.0)) > largest >= float(
        np.abs(golden).max(initial=0.0)
    )
