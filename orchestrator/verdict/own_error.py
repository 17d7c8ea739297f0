"""How much of an operator's error is its own: estimated from its inputs, its rounding, and what the other operators of the network do.

Of every operator's output the distance d (relative to the golden's norm) is compared with what its inputs and its rounding explain:

    expected² = g²·(Σ d_in² + r²) + n²

r is the rounding of the output's type, ulp/√12. How an operator passes errors on (g) and what it adds itself (n) are fitted, robustly, per
type of operator over this very network: a healthy network decides what is normal. z = ln(d / expected) in units of the type's own spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

SUSPECT_SCORE = 4.5
"""Scores above this make a suspect: 1.5 times the measured score of healthy operators (docs/verdict.md)."""

SMALLEST_SPREAD = 0.15
SMALLEST_SLICE_SPREAD = 0.2
RARE_SPREAD = 0.4
ENOUGH = 4
"""Operators of a type from which on the type is judged by itself."""

_MOST_FITTED = 400
_DEAR_NOISE = 0.01
_LEAST_ROUNDING = 1e-7
_GAINS = np.exp(np.linspace(math.log(0.05), math.log(20.0), 41))
_NOISES = np.concatenate([[0.0], np.exp(np.linspace(math.log(1e-7), math.log(0.5), 47))])
_MANTISSA_BITS = {
    "float64": 52, "float32": 23, "float16": 10, "bfloat16": 7, "hifloat8": 3, "float8_e4m3fn": 3, "float8_e5m2": 2,
    "complex64": 23, "complex32": 10, "complex128": 52,
}  # fmt: skip


def rounding(dtype: str) -> float:
    """Return the root mean square of a type's relative rounding error, ulp/√12; 0 for types that do not round."""
    bits = _MANTISSA_BITS.get(dtype)
    return 0.0 if bits is None else 2.0**-bits / math.sqrt(12.0)


class Measured(NamedTuple):
    """One output of one operator: its type of operator, its distance, its inputs' joined distance and its rounding."""

    op: str
    op_type: str
    distance: float
    inputs: float
    rounding: float


@dataclass(frozen=True)
class Normal:
    """What is normal for a type of operator in this network.

    Attributes
    ----------
    gain, noise
        g and n of the formula.
    spread
        Of ln(d / expected), as a standard deviation.
    ops
        The number of operators it was fitted to.
    rare
        Fitted over all types, because there are too few of this one.
    """

    gain: float
    noise: float
    spread: float
    ops: int
    rare: bool = False

    def expected(self, inputs: float, rounded: float) -> float:
        """Return the distance that inputs and rounding explain."""
        return math.sqrt(self.gain**2 * (inputs**2 + rounded**2) + self.noise**2)

    def score(self, distance: float, inputs: float, rounded: float) -> float:
        """Return ln(distance / expected) in units of the spread; 0 for no distance."""
        expected = self.expected(inputs, rounded)
        if distance <= 0 or math.isnan(distance) or math.isinf(expected):
            return 0.0
        if expected == 0 or math.isinf(distance):
            return math.inf
        return math.log(distance / expected) / self.spread


def fit(measured: Sequence[Measured], smallest: float = SMALLEST_SPREAD) -> Dict[str, Normal]:
    """Return what is normal for each type; ``""`` holds what is normal over all, for types of fewer than four operators.

    Parameters
    ----------
    smallest
        A type's spread is taken to be at least this.
    """
    usable = [entry for entry in measured if 0 < entry.distance < math.inf and entry.inputs < math.inf]
    by_type: Dict[str, List[Measured]] = {}
    for entry in usable:
        by_type.setdefault(entry.op_type, []).append(entry)
    over_all = _fit(usable, _GAINS[_GAINS >= 0.999], RARE_SPREAD, rare=True)
    found = {"": over_all}
    for name, entries in by_type.items():
        found[name] = _fit(entries, _GAINS, smallest) if len({entry.op for entry in entries}) >= ENOUGH else over_all
    return found


def _fit(entries: Sequence[Measured], gains: np.ndarray, smallest: float, rare: bool = False) -> Normal:
    """Fit g and n by the smallest sum of absolute deviations of ln(d / expected): operators that are wrong do not pull."""
    ops = len({entry.op for entry in entries})
    if not entries:
        return Normal(1.0, 0.0, smallest, 0, rare)
    step = -(-len(entries) // _MOST_FITTED)
    table = np.array([(entry.distance, entry.inputs, entry.rounding) for entry in entries[::step]])
    logs, carried = np.log(table[:, 0]), table[:, 1] ** 2 + table[:, 2] ** 2
    cost, at = math.inf, (1.0, 0.0)
    # Where every operator's inputs are about alike, g and n explain each other: an operator is rather taken to pass errors on.
    dear = _DEAR_NOISE * np.log1p(_NOISES / max(float(np.median(table[:, 2])), _LEAST_ROUNDING))
    for gain in gains:
        with np.errstate(divide="ignore"):
            off = np.abs(logs - 0.5 * np.log(gain**2 * carried + _NOISES[:, None] ** 2))
        costs = off.mean(axis=1) + 0.01 * abs(math.log(gain)) + dear
        best = int(np.argmin(costs))
        if costs[best] < cost:
            cost, at = float(costs[best]), (float(gain), float(_NOISES[best]))
    return Normal(at[0], at[1], _spread(logs, carried, at, smallest), ops, rare)


def _spread(logs: np.ndarray, carried: np.ndarray, at: Tuple[float, float], smallest: float) -> float:
    off = logs - 0.5 * np.log(at[0] ** 2 * carried + at[1] ** 2)
    return max(smallest, 1.4826 * float(np.median(np.abs(off - np.median(off)))))
