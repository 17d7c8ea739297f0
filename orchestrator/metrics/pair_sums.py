"""Sums over aligned elements of two tensors, mergeable in any order.

Squares of float64 data may leave the range of float64, so the sums carry binary exponents; they are
0 for all ordinary data.
"""

from __future__ import annotations

import math
from typing import Any, List, Union

Number = Union[int, float]

# Sums of squares between these lost nothing to float64's ends, 2e-308 and 2e308, while they were
# added up; all others are added again, exactly. The margin is chosen.
SAFE_SMALL = 1e-250
SAFE_BIG = 1e250


def ldexp(value: float, exponent: int) -> float:
    """Return ``value * 2**exponent``, infinite instead of an OverflowError."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


class PairSums:
    """Sums over the finite elements of a target x and a golden y, d = x - y.

    Attributes
    ----------
    n
        Number of elements.
    ex, ey, ed
        Binary exponents: x, y and d entered the sums divided by ``2**ex``, ``2**ey`` and ``2**ed``.
    xx, yy, xy, dd, ad
        Sums of x², y², x·y, d² and abs(d), in those units.
    max_ad
        Largest abs(d), unscaled.
    rel, max_rel
        Sum and largest of abs(x/y - 1) over the elements with abs(y) > 2.220446e-16, unscaled.
    x_base, x_mean, x_m2, y_base, y_mean, y_m2
        The mean is ``base + mean`` (unscaled; two numbers, so that a small spread around a large
        mean keeps its digits); m2 is the sum of squared deviations from it, in units of
        ``2**(2*ex)`` or ``2**(2*ey)``.
    x_low, x_high, y_low, y_high
        Smallest and largest values; int for integer tensors, so that 64-bit integers are exact.
    """

    __slots__ = (
        "n", "ex", "ey", "ed", "xx", "yy", "xy", "dd", "ad", "max_ad", "rel", "max_rel",
        "x_base", "x_mean", "x_m2", "y_base", "y_mean", "y_m2", "x_low", "x_high", "y_low",
        "y_high",
    )  # fmt: skip

    def __init__(self) -> None:
        self.n = 0
        self.ex = self.ey = self.ed = 0
        self.xx = self.yy = self.xy = self.dd = self.ad = 0.0
        self.max_ad = self.rel = self.max_rel = 0.0
        self.x_base: Number = 0
        self.y_base: Number = 0
        self.x_mean = self.x_m2 = self.y_mean = self.y_m2 = 0.0
        self.x_low: Number = math.inf
        self.x_high: Number = -math.inf
        self.y_low: Number = math.inf
        self.y_high: Number = -math.inf

    def __getstate__(self) -> List[Any]:
        return [getattr(self, name) for name in self.__slots__]

    def __setstate__(self, state: List[Any]) -> None:
        for name, value in zip(self.__slots__, state):
            setattr(self, name, value)

    def _rescale(self, ex: int, ey: int, ed: int) -> None:
        """Express the sums in other units."""
        dx, dy, dd = self.ex - ex, self.ey - ey, self.ed - ed
        self.xx, self.x_m2 = ldexp(self.xx, 2 * dx), ldexp(self.x_m2, 2 * dx)
        self.yy, self.y_m2 = ldexp(self.yy, 2 * dy), ldexp(self.y_m2, 2 * dy)
        self.xy = ldexp(self.xy, dx + dy)
        self.dd, self.ad = ldexp(self.dd, 2 * dd), ldexp(self.ad, dd)
        self.ex, self.ey, self.ed = ex, ey, ed

    def plus(self, other: PairSums) -> PairSums:
        """Return the sums of both's elements."""
        both = PairSums()
        both.add(self)
        both.add(other)
        return both

    def add(self, other: PairSums) -> None:
        """Add the sums of other elements (Chan, Golub and LeVeque's update for the variances)."""
        if not other.n:
            return
        if not self.n:
            self.__setstate__(other.__getstate__())
            return
        if (self.ex, self.ey, self.ed) != (other.ex, other.ey, other.ed):
            part = PairSums()
            part.__setstate__(other.__getstate__())
            other = part
            units = [
                common_unit(a, b, p == 0.0, q == 0.0)
                for a, b, p, q in (
                    (self.ex, other.ex, self.xx, other.xx),
                    (self.ey, other.ey, self.yy, other.yy),
                    (self.ed, other.ed, self.dd, other.dd),
                )
            ]
            self._rescale(*units)
            other._rescale(*units)
        total = self.n + other.n
        share = other.n / total
        step = (other.x_base - self.x_base) + (other.x_mean - self.x_mean)
        self.x_mean += step * share
        if self.ex:
            step = ldexp(step, -self.ex)
        self.x_m2 += other.x_m2 + step * step * share * self.n
        step = (other.y_base - self.y_base) + (other.y_mean - self.y_mean)
        self.y_mean += step * share
        if self.ey:
            step = ldexp(step, -self.ey)
        self.y_m2 += other.y_m2 + step * step * share * self.n
        self.n = total
        self.xx += other.xx
        self.yy += other.yy
        self.xy += other.xy
        self.dd += other.dd
        self.ad += other.ad
        self.rel += other.rel
        self.max_ad = max(self.max_ad, other.max_ad)
        self.max_rel = max(self.max_rel, other.max_rel)
        self.x_low = min(self.x_low, other.x_low)
        self.x_high = max(self.x_high, other.x_high)
        self.y_low = min(self.y_low, other.y_low)
        self.y_high = max(self.y_high, other.y_high)


def common_unit(a: int, b: int, a_empty: bool, b_empty: bool) -> int:
    """Return the unit for a merged sum: the larger one, unless only the other side has anything to
    say.
    """
    if a_empty:
        return b
    if b_empty:
        return a
    return max(a, b)
