"""The careful path of the metrics: NaN and Inf, 64-bit integers, magnitudes near the ends of
float64.

Slow and allocating, block by block, only where :mod:`goldwatch.metrics.numpy_kernel` declined.
"""

from __future__ import annotations

import math
from typing import Optional, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from .numpy_kernel import RELATIVE_FLOOR, dot
from .pair_sums import Number, PairSums

# Numbers between these powers of 2 are squared and summed as they are: 2**800 leaves room for
# 2**222 of them below float64's largest, and 2**-800 is above its smallest normal number,
# 2**-1022.
_LOW_EXPONENT, _HIGH_EXPONENT = -400, 400


@dataclass
class NonFinite:
    """Counts of NaN and Inf on both sides, and whether their positions (and the signs of Inf)
    agree.

    Attributes
    ----------
    target_nan, target_inf, golden_nan, golden_inf
        Numbers of elements.
    target_minus_inf, golden_minus_inf
        How many of the infinities are negative.
    agree
        False when one position differs.
    inf_differs
        An Inf stands at a position that differs.
    """

    target_nan: int = 0
    target_inf: int = 0
    golden_nan: int = 0
    golden_inf: int = 0
    target_minus_inf: int = 0
    golden_minus_inf: int = 0
    agree: bool = True
    inf_differs: bool = False

    def add(self, other: NonFinite) -> None:
        """Add the counts of other elements."""
        self.target_nan += other.target_nan
        self.target_inf += other.target_inf
        self.golden_nan += other.golden_nan
        self.golden_inf += other.golden_inf
        self.target_minus_inf += other.target_minus_inf
        self.golden_minus_inf += other.golden_minus_inf
        self.agree = self.agree and other.agree
        self.inf_differs = self.inf_differs or other.inf_differs

    @property
    def total(self) -> int:
        """Sum of the counts of NaN and Inf on both sides."""
        return self.target_nan + self.target_inf + self.golden_nan + self.golden_inf

    def signs(self) -> str:
        """Return how many infinities have which sign on each side; empty where there is none."""
        texts = []
        for side, count, minus in (
            ("target", self.target_inf, self.target_minus_inf),
            ("golden", self.golden_inf, self.golden_minus_inf),
        ):
            parts = [
                "%d %s" % part for part in ((count - minus, "+Inf"), (minus, "-Inf")) if part[0]
            ]
            if parts:
                texts.append("%s %s" % (side, " and ".join(parts)))
        return ", ".join(texts)


def finite_part(x: np.ndarray, y: np.ndarray) -> Tuple[np.ndarray, np.ndarray, Optional[NonFinite]]:
    """Split off the positions where either side is NaN or Inf.

    Parameters
    ----------
    x, y
        1-D arrays of real dtypes.

    Returns
    -------
    The finite rest of both, and the counts (None when everything is finite).
    """
    good = np.ones(x.size, np.bool_)
    for a in (x, y):
        if a.dtype.kind == "f":
            good &= np.isfinite(a)
    if good.all():
        return x, y, None
    bad = ~good
    xb, yb = x[bad].astype(np.float64), y[bad].astype(np.float64)
    x_nan, y_nan, x_inf, y_inf = np.isnan(xb), np.isnan(yb), np.isinf(xb), np.isinf(yb)
    differs = ~((x_nan & y_nan) | (xb == yb))
    counts = NonFinite(
        target_nan=int(x_nan.sum()),
        target_inf=int(x_inf.sum()),
        golden_nan=int(y_nan.sum()),
        golden_inf=int(y_inf.sum()),
        target_minus_inf=int((xb == -math.inf).sum()),
        golden_minus_inf=int((yb == -math.inf).sum()),
        agree=not differs.any(),
        inf_differs=bool((differs & (x_inf | y_inf)).any()),
    )
    return x[good], y[good], counts


class Split:
    """Finite numbers as float64 plus, for 64-bit integers, the rest that float64 cannot hold."""

    def __init__(self, values: np.ndarray) -> None:
        self.high: np.ndarray = values.astype(np.float64)
        self.low: Optional[np.ndarray] = None
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
            # Both halves are exact in float64, and so is the difference of the upper half to the
            # rounded value.
            upper = (values >> values.dtype.type(32)).astype(np.float64) * 4294967296.0
            lower = (values & values.dtype.type(0xFFFFFFFF)).astype(np.float64)
            self.low = (upper - self.high) + lower

    def minus(self, other: Split) -> np.ndarray:
        """Return the elementwise difference, rounded once."""
        d: np.ndarray = self.high - other.high
        if self.low is not None:
            d += self.low if other.low is None else self.low - other.low
        elif other.low is not None:
            d -= other.low
        return d

    def minus_number(self, number: Number) -> np.ndarray:
        """Return the elements less one number, rounded once."""
        high = float(number)
        d: np.ndarray = self.high - high
        if self.low is not None:
            d += self.low - float(number - int(high))
        return d


def zero_filled(
    x: np.ndarray, y: np.ndarray
) -> Tuple[np.ndarray, np.ndarray, np.ndarray, Tuple[int, int], np.ndarray]:
    """Return a block as float64 with 0 where either side is NaN or Inf, and what
    :class:`goldwatch.metrics.worst_slice.SliceSums` needs of it.

    Parameters
    ----------
    x, y
        1-D arrays of real dtypes.

    Returns
    -------
    x, y and x - y (rounded once), the binary exponents of y and of the difference, and which
    elements are finite on both sides.
    """
    good = np.ones(x.size, np.bool_)
    for a in (x, y):
        if a.dtype.kind == "f":
            good &= np.isfinite(a)
    xs, ys = Split(np.where(good, x, x.dtype.type(0))), Split(np.where(good, y, y.dtype.type(0)))
    d = xs.minus(ys)
    return (
        xs.high,
        ys.high,
        d,
        (_unit(float(np.absolute(ys.high).max())), _unit(float(np.absolute(d).max()))),
        good,
    )


def _unit(magnitude: float) -> int:
    """Return the binary exponent by which values up to ``magnitude`` are divided before squaring; 0
    for ordinary ones.
    """
    if magnitude == 0.0 or not math.isfinite(magnitude):
        return 0
    exponent = math.frexp(magnitude)[1]
    return 0 if _LOW_EXPONENT < exponent < _HIGH_EXPONENT else exponent


def _spread(values: np.ndarray, split: Split, unit: int) -> Tuple[Number, float, float]:
    base: Number = values[0].item() if unit < _HIGH_EXPONENT else 0.0
    above = np.ldexp(split.minus_number(base), -unit)
    mean = float(np.add.reduce(above)) / above.size
    above -= mean
    return base, float(np.ldexp(mean, unit)), dot(above, above)


def exact_sums(x: np.ndarray, y: np.ndarray) -> PairSums:
    """Return the sums of one block of finite numbers of any real dtype, 1-D, at least one
    element.
    """
    sums = PairSums()
    sums.n = x.size
    xs, ys = Split(x), Split(y)
    sums.x_low, sums.x_high, sums.y_low, sums.y_high = (
        x.min().item(),
        x.max().item(),
        y.min().item(),
        y.max().item(),
    )
    sums.ex = _unit(float(max(abs(sums.x_low), abs(sums.x_high))))
    sums.ey = _unit(float(max(abs(sums.y_low), abs(sums.y_high))))
    sx, sy = np.ldexp(xs.high, -sums.ex), np.ldexp(ys.high, -sums.ey)
    sums.xx, sums.yy, sums.xy = dot(sx, sx), dot(sy, sy), dot(sx, sy)
    sums.x_base, sums.x_mean, sums.x_m2 = _spread(x, xs, sums.ex)
    sums.y_base, sums.y_mean, sums.y_m2 = _spread(y, ys, sums.ey)
    d = np.absolute(xs.minus(ys))
    sums.max_ad = float(d.max())
    sums.ed = _unit(sums.max_ad)
    sd = np.ldexp(d, -sums.ed)
    sums.dd, sums.ad = dot(sd, sd), float(np.add.reduce(sd))
    ay = np.absolute(ys.high)
    counted = ay > RELATIVE_FLOOR
    if counted.any():
        rel = d[counted] / ay[counted]
        sums.rel, sums.max_rel = float(np.add.reduce(rel)), float(rel.max())
    return sums
