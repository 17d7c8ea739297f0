"""The Kullback-Leibler divergence: a second pass, because its scaling needs the smallest and
largest value of the whole.

With p and q scaled but not normalised, P and Q their sums, it is ``sum(p*ln(p/q))/P + ln(Q/P)``.
Where P and Q are about equal that cancels, but not ``G/P + (log1p(w) - w)`` with ``w = Q/P - 1``,
``G = sum(q*((1+t)*ln(1+t) - t))``, ``t = p/q - 1``: no term is negative. With numpy G is collected
as ``sum(p*ln(p/q)) - sum(q*t)``; the second sum is P - Q as well. The compiled kernel sums its
terms: for small t by their series.
"""

from __future__ import annotations

import math
from typing import Tuple

import numpy as np

from .compiled.binding import Scaling, Terms
from .compiled.choice import compiled_kernel
from .exact_sums import Split, finite_part
from .numpy_kernel import BLOCK, KL_FLOOR, Workspace, dot, load, workspace
from .pair_sums import Number, PairSums

# Whole numbers up to this are exact in float64.
_WIDE = 2**53
# Of a range between these the reciprocal is a normal float64 as well; beyond, exact sums are
# taken.
_SMALL, _BIG = 1e-290, 1e290


class _Side:
    """How one tensor's values become p: ``max((v - low) / range, floor)``, or 1 where all values
    are equal.
    """

    def __init__(self, low: Number, high: Number) -> None:
        self.low = low
        self.constant = low == high
        # A range beyond float64 is halved twice, on both sides of the division.
        self.scale = 1.0 if self.constant or math.isfinite(float(high) - float(low)) else 0.25
        if isinstance(low, int) and isinstance(high, int):
            self.range = float(high - low)
        else:
            self.range = high * self.scale - low * self.scale
        self.plain = (
            max(abs(low), abs(high)) <= _WIDE
            if isinstance(low, int)
            else self.constant or _SMALL < self.range < _BIG
        )
        self.factor = 0.0 if self.constant else (1.0 / self.range if self.plain else math.nan)

    @property
    def scaling(self) -> Tuple[float, float, float]:
        """low, factor and floor where :attr:`plain`: p is ``max((v - low) * factor, floor)``."""
        return float(self.low), self.factor, 1.0 if self.constant else KL_FLOOR

    def exact(self, values: np.ndarray) -> np.ndarray:
        if self.constant:
            return np.ones(values.size)
        if self.scale != 1.0:
            above = values.astype(np.float64) * self.scale - self.low * self.scale
        else:
            above = Split(values).minus_number(self.low)
        p: np.ndarray = np.maximum(above / self.range, KL_FLOOR)
        return p


class DivergenceSums:
    """Mergeable sums of the second pass.

    Parameters
    ----------
    first
        The first pass's sums over the whole tensor: they hold the smallest and largest values.
    """

    def __init__(self, first: PairSums) -> None:
        self.n = 0
        self.p = self.q = 0.0
        self.difference = 0.0
        self.g = 0.0
        self.p_log = 0.0
        self._x = _Side(first.x_low, first.x_high)
        self._y = _Side(first.y_low, first.y_high)

    @property
    def plain(self) -> bool:
        """Whether finite blocks can take the fast way."""
        return self._x.plain and self._y.plain

    def add_fast(self, x: np.ndarray, y: np.ndarray, work: Workspace) -> None:
        """Add one piece of at most BLOCK finite numbers (real dtypes)."""
        self.n += x.size
        self._add(*terms_of(x, y, self._x.scaling + self._y.scaling, work))

    def _add(self, p: float, q: float, difference: float, g: float, p_log: float) -> None:
        self.p += p
        self.q += q
        self.difference += difference
        self.g += g
        self.p_log += p_log

    def add_exact(self, x: np.ndarray, y: np.ndarray) -> None:
        """Add one piece of 1-D real numbers, which may hold NaN and Inf."""
        for start in range(0, x.size, BLOCK):
            xf, yf, _ = finite_part(x[start : start + BLOCK], y[start : start + BLOCK])
            p, q = self._x.exact(xf), self._y.exact(yf)
            self.n += xf.size
            ratio = p / q
            difference, p_log = dot(q, ratio - 1.0), dot(p, np.log(ratio))
            self._add(
                float(np.add.reduce(p)),
                float(np.add.reduce(q)),
                difference,
                p_log - difference,
                p_log,
            )

    def add(self, other: DivergenceSums) -> None:
        """Add the sums of other elements of the same tensors."""
        self.n += other.n
        self._add(other.p, other.q, other.difference, other.g, other.p_log)

    def value(self) -> float:
        """Return the divergence (never negative), NaN when there was no element."""
        if not self.n:
            return math.nan
        return divergence_of(Terms(self.p, self.q, self.difference, self.g, self.p_log))


def terms_of(x: np.ndarray, y: np.ndarray, scaling: Scaling, work: Workspace) -> Terms:
    """Return the sums of the divergence's terms over at most BLOCK finite numbers (real dtypes).

    ``scaling``: as for :meth:`goldwatch.metrics.compiled.binding.CompiledKernel.divergence`.
    """
    n, kernel = x.size, compiled_kernel()
    terms = None if kernel is None else kernel.divergence(x, y, scaling)
    if terms is not None:
        return terms
    p, q, t = work.x[:n], work.y[:n], work.d[:n]
    for (low, factor, floor), values, out in ((scaling[:3], x, p), (scaling[3:], y, q)):
        np.subtract(load(values, out, work.bits), low, out=out)
        np.multiply(out, factor, out=out)
        np.maximum(out, floor, out=out)
    np.divide(p, q, out=t)
    p_log, total_q = dot(p, np.log(t, out=work.a[:n])), float(np.add.reduce(q))
    # q*(p/q - 1) rather than p - q: the rounding of p/q then cancels against that in the logarithm.
    difference = dot(q, np.subtract(t, 1.0, out=t))
    return Terms(float(np.add.reduce(p)), total_q, difference, p_log - difference, p_log)


def divergence_of(terms: Terms) -> float:
    """Return the divergence of the terms of a whole tensor, never negative."""
    w = -terms.difference / terms.p
    if abs(w) > 0.5:
        return max(0.0, terms.p_log / terms.p + math.log(terms.q / terms.p))
    return max(0.0, terms.g / terms.p + (math.log1p(w) - w))


def divergences_of_each(
    x: np.ndarray, y: np.ndarray, sums: PairSums, wanted: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """Return the divergence of each of n small pairs, and whether plain scaling does for it.

    Parameters
    ----------
    x, y
        Target and golden elements, [n, ...].
    sums
        Of the first pass: arrays, [n].
    wanted
        Bool, [n]: the pairs without anything that is not finite.
    """
    spans, scalings = [], []
    for low, high in ((sums.x_low, sums.x_high), (sums.y_low, sums.y_high)):
        constant, span = np.equal(low, high), np.subtract(high, low)
        spans.append((constant, constant | ((span > _SMALL) & (span < _BIG))))
        factors = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, span))
        scalings += [low, factors, np.where(constant, 1.0, KL_FLOOR)]
    plain = spans[0][1] & spans[1][1]
    known = np.equal(sums.max_ad, 0.0) | (spans[0][0] & spans[1][0])
    work, values = workspace(), np.zeros(len(x))
    table = np.stack(scalings, axis=1).tolist()
    for at in np.flatnonzero(wanted & plain & ~known).tolist():
        values[at] = divergence_of(terms_of(x[at], y[at], tuple(table[at]), work))
    return values, plain | known


def known_divergence(first: PairSums) -> Tuple[bool, float]:
    """Tell whether the first pass alone decides the divergence, and its value then."""
    if not first.n:
        return True, math.nan
    identical = first.max_ad == 0.0
    constant = first.x_low == first.x_high and first.y_low == first.y_high
    return (True, 0.0) if identical or constant else (False, math.nan)
