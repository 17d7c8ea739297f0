"""The statistics from one pass over the elements of a pair: both sides, histograms of the error,
and where its squares are.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from ...metrics.patterns.element_errors import Errors
from ...metrics.patterns.squared_error_by_index import SquaredErrorByIndex, reals
from ...tensors.dtypes import DType
from ...tensors.golden_order_windows import Window
from ...tensors.type_precision import ulp
from ..inspect.tensor_statistics import largest_magnitudes

Array = Any

_DECADES = 400
_OCTAVES = 1100
_NEAR_EDGE = 1e-9


class SideStatistics:
    """Range, moments and special values of one side; means and squares are merged as Chan, Golub
    and LeVeque (1983) do.
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.count = self.finite = self.nan = self.inf = self.zeros = self.saturated = 0
        self.mean = self.squares = 0.0
        self.least: Any = None
        self.greatest: Any = None

    def update(self, values: Array, wide: Array) -> None:
        """Add elements, as decoded and as float64 (real and imaginary parts of complex ones as
        two).
        """
        self.count += wide.size
        self.zeros += wide.size - int(np.count_nonzero(wide))
        if values.dtype.kind == "c":
            values = wide
        if values.dtype.kind == "f" and not math.isfinite(float(wide.sum())):
            nan = int(np.count_nonzero(np.isnan(wide)))
            good = np.isfinite(wide)
            self.nan += nan
            self.inf += wide.size - int(np.count_nonzero(good)) - nan
            self._range(wide[~np.isnan(wide)])
            values = wide = wide[good]
        else:
            self._range(wide if values.dtype.kind == "f" else values)
        if not wide.size:
            return
        low, high = largest_magnitudes(self.dtype, values.dtype)
        if float(wide.max()) >= high or float(wide.min()) <= low:
            self.saturated += (
                int(np.count_nonzero((values >= high) | (values <= low)))
                if self.dtype.kind != "b"
                else 0
            )
        self._moments(wide)

    def _range(self, values: Array) -> None:
        if values.size:
            least, greatest = (number + 0 for number in (values.min().item(), values.max().item()))
            self.least = least if self.least is None else min(self.least, least)
            self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def _moments(self, values: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            away = values - mean
            shift, total = mean - self.mean, self.finite + values.size
            self.squares += (
                float(np.square(away, out=away).sum())
                + shift * shift * self.finite * values.size / total
            )
            self.mean += shift * values.size / total
        self.finite = total

    def document(self) -> Dict[str, Any]:
        """Return the statistics by name; None for those without elements."""
        known = self.finite > 0
        return {
            "count": self.count,
            "min": self.least,
            "max": self.greatest,
            "mean": self.mean if known else None,
            "std": math.sqrt(self.squares / self.finite) if known else None,
            "zeros": self.zeros,
            "nan": self.nan,
            "inf": self.inf,
            "saturated": self.saturated,
        }


class Histogram:
    """Counts of signed numbers in bins that grow by a factor in both directions from the middle
    one.

    The bins are ``[edge, next edge)``, the last one closed, as numpy's. Numbers that are not finite
    are not counted.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._half = _DECADES if base == 10 else _OCTAVES
        self._counts = np.zeros((2, 2 * self._half), np.int64)
        self._zeros = 0

    def update(self, values: Array) -> None:
        """Add float64 numbers."""
        size = np.abs(values)
        usual = (size > 0) & np.isfinite(size)
        if not usual.all():
            self._zeros += int(np.count_nonzero(size == 0))
            values, size = values[usual], size[usual]
        negative = values < 0
        # [-100, -10) holds -100 and not -10.
        power = self._power(size, negative)
        both = np.bincount(
            power + self._half + negative * (2 * self._half), minlength=4 * self._half
        )
        self._counts += both.reshape(2, -1)

    def _power(self, size: Array, negative: Array) -> Array:
        """Return the largest power of the base that is not above each number, of negative ones the
        largest that is below.
        """
        if self._base == 2:
            fraction, exponent = np.frexp(size)
            return exponent.astype(np.int64) - 1 - (negative & (fraction == 0.5))
        exact = np.log10(size)
        power = np.floor(exact).astype(np.int64)
        # Only near an edge the logarithm's rounding matters, and to which side an edge belongs.
        near = np.flatnonzero(np.abs(exact - np.rint(exact)) < _NEAR_EDGE)
        if near.size:
            power[near] = self._power_at_edge(
                size[near], np.rint(exact[near]).astype(np.int64), negative[near]
            )
        return power

    def _power_at_edge(self, size: Array, edge: Array, negative: Array) -> Array:
        value = self._edge(edge)
        return edge - ((size < value) | (negative & (size == value)))

    def _edge(self, power: Array) -> Array:
        table = _TENS if self._base == 10 else _TWOS
        edges: Array = table[power + len(table) // 2]
        return edges

    def bound(self) -> float:
        """Return a number that no counted one's magnitude is above; 0 where all are 0."""
        used = np.flatnonzero(self._counts.any(axis=0))
        return float(self._edge(used[-1:] + 1 - self._half)[0]) if used.size else 0.0

    def document(self, least: Optional[int] = None) -> Dict[str, List[Any]]:
        """Return ``{"edges", "counts"}``; what is smaller than the base to the power ``least``
        belongs to the middle bin.
        """
        used = np.flatnonzero(self._counts.any(axis=0))
        if not used.size:
            return {"edges": [-1.0, 1.0], "counts": [self._zeros]}
        low, high = int(used[0]), int(used[-1]) + 1
        if least is not None:
            low = min(max(low, least + self._half), high)
        middle = self._zeros + int(self._counts[:, :low].sum())
        positive = [float(edge) for edge in self._edge(np.arange(low, high + 1) - self._half)]
        edges = [-edge for edge in reversed(positive)] + positive
        counts = [
            *self._counts[1, low:high][::-1].tolist(),
            middle,
            *self._counts[0, low:high].tolist(),
        ]
        return {"edges": edges, "counts": [int(count) for count in counts]}


_TENS = np.array(
    [
        0.0 if power < -323 else float("1e%d" % power) if power <= 308 else math.inf
        for power in range(-402, 403)
    ]
)
_TWOS = np.array(
    [math.ldexp(1.0, power) if power <= 1023 else math.inf for power in range(-1102, 1103)]
)


class Measures:
    """All that the pass collects.

    Parameters
    ----------
    target, golden
        Element types.
    sizes
        Of the axes.
    largest_error
        The largest absolute error, or an estimate of its magnitude.
    """

    def __init__(
        self, target: DType, golden: DType, sizes: Sequence[int], largest_error: float
    ) -> None:
        self.dtype = target
        self.target, self.golden = SideStatistics(target), SideStatistics(golden)
        self.errors, self.ulps = Histogram(10), Histogram(2)
        usable = math.isfinite(largest_error) and largest_error > 0
        self.shares = SquaredErrorByIndex(
            sizes, 2.0 ** math.floor(math.log2(largest_error)) if usable else 1.0
        )

    def update(self, window: Window, errors: Errors) -> None:
        """Add a window."""
        x, y = window.x.reshape(-1), window.y.reshape(-1)
        with np.errstate(all="ignore"):
            x64, y64 = reals(x), reals(y)
            self.target.update(x, x64)
            self.golden.update(y, y64)
            self.errors.update(errors.signed)
            size = y64 if y.dtype.kind != "c" else np.abs(y).astype(np.float64)
            mine = x64 if x.dtype.kind != "c" else np.abs(x).astype(np.float64)
            step = ulp(size, self.dtype.name)
            self.ulps.update(errors.signed if self.dtype.kind in "iub" else errors.signed / step)
            self.shares.update(window.ranges, errors.signed, size, mine)
