"""Computes the statistics of a whole tensor as a device does, and measures how far two tensors'
statistics are apart.
"""

from __future__ import annotations

import math
from typing import Dict, NamedTuple, Optional

import numpy as np

from ..base.errors import FormatError, NotComparable
from ..tensors.dtypes import Array, require_decodable
from ..tensors.tensor import Tensor
from ..tensors.type_precision import ROUNDING, rounding_of
from .statistics_csv import Statistics

LEAST, MEAN, NORM, RANGE, NOT_FINITE = (
    "LeastDistance",
    "MeanDifference",
    "NormDifference",
    "RangeDifference",
    "NotFiniteDifference",
)
MEASURES = (LEAST, MEAN, NORM, RANGE, NOT_FINITE)
"""The metrics of two tensors' statistics."""


_WINDOW = 1 << 18
_PRINTED = 5e-6
"""Relative error of printed statistics, which have six digits."""


class StatisticsSource:
    """Byte source of a tensor of which only statistics were dumped: it cannot be read. Its size is
    tiny, so that the tensor is never split into shares.
    """

    nbytes = 1
    NO_ELEMENTS = "statistics were dumped in place of its elements: dump_data tensor dumps them"

    def __init__(self, statistics: Statistics, path: str) -> None:
        self.statistics = statistics
        self.path = path

    def read(self, offset: int, nbytes: int) -> Array:
        """Raise FormatError."""
        raise FormatError(self.NO_ELEMENTS, self.path)


class TensorStatistics(NamedTuple):
    """Statistics of a whole tensor.

    Attributes
    ----------
    elements
        Number of elements.
    max, min
        Over all elements but NaN; None if there are none.
    mean, norm
        Of the finite elements; 0 if there are none. The mean is None if the table has none.
    nan, infinite
        Number of such elements.
    masks
        Number of elements so far below 0 that the device's type may not represent them.
    bound
        Whether the norm is only an upper bound.
    counted
        Whether NaN and Inf were counted; else ``nan`` is only 0 or 1.
    """

    elements: int
    max: Optional[float]
    min: Optional[float]
    mean: Optional[float]
    norm: float
    nan: int
    infinite: int
    masks: int = 0
    bound: bool = False
    counted: bool = True


def statistics_of(tensor: Tensor, dtype: str = "") -> TensorStatistics:
    """Return a tensor's statistics, in float64, read in windows.

    Parameters
    ----------
    dtype
        The type to which each element is rounded first (to nearest, ties to even, clamped to its
        range): float16 or bfloat16; others do not round.

    Raises
    ------
    NotComparable
        Its elements are not decoded, or complex.
    FormatError
        The source holds fewer bytes than the elements need.
    """
    require_decodable(tensor.dtype)
    if tensor.dtype.kind == "c":
        raise NotComparable("statistics of complex numbers are not compared")
    largest = rounding_of(dtype).largest
    count = finite = nan = infinite = masks = 0
    total = squares = 0.0
    high, low = -math.inf, math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, tensor.count, _WINDOW):
            values = tensor.elements(start, min(start + _WINDOW, tensor.count))
            values = values.view(np.uint8) if values.dtype.kind == "b" else values
            count += values.size
            if values.dtype.kind == "f":
                not_finite = ~np.isfinite(values)
                if not_finite.any():
                    numbers = values[~np.isnan(values)]
                    nan += values.size - numbers.size
                    infinite += int(np.isinf(numbers).sum())
                    high, low = (
                        max(high, numbers.max(initial=high)),
                        min(low, numbers.min(initial=low)),
                    )
                    values = values[~not_finite]
                values = _rounded(values, dtype)
            wide = values.astype(np.float64)
            if wide.size:
                masks += int((wide <= -largest).sum())
                high, low = max(high, float(wide.max())), min(low, float(wide.min()))
                total += float(wide.sum())
                squares += float(np.dot(wide, wide))
                finite += wide.size
    known = count - nan
    return TensorStatistics(
        count, float(high) if known else None, float(low) if known else None,
        total / finite if finite else 0.0, math.sqrt(squares), nan,
        infinite, masks,
    )  # fmt: skip


def _rounded(values: Array, dtype: str) -> Array:
    if dtype == "float16" and values.dtype != np.float16:
        largest = ROUNDING[dtype].largest
        clipped: Array = np.clip(values, -largest, largest)
        return clipped.astype(np.float16)
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
            0xFFFF0000
        )
        near: Array = bits.view(np.float32)
        return np.where(np.isinf(near), values, near)
    return values


def statistics_as_golden(statistics: Statistics, elements: int) -> Optional[TensorStatistics]:
    """Convert a device's statistics to :class:`TensorStatistics`; None if mean, norm and range are
    missing. ``elements``: their number if the table lacks it.
    """
    count = elements if statistics.elements is None else statistics.elements
    ends = (statistics.max, statistics.min, statistics.mean)
    numbers = [abs(value) for value in ends if value is not None and math.isfinite(value)]
    norm = statistics.norm
    bound = norm is None or not math.isfinite(norm)
    if norm is None or bound:
        if not numbers:
            return None
        # An upper bound for any tensor of this range.
        norm = max(numbers) * math.sqrt(count)
    mean = statistics.mean if statistics.mean is None or math.isfinite(statistics.mean) else None
    counted = statistics.nan is not None and statistics.infinite is not None
    nan = statistics.nan if counted else int(_holds_nan(statistics))
    return TensorStatistics(
        count, statistics.max, statistics.min, mean, norm, nan or 0, statistics.infinite or 0,
        bound=bound, counted=counted
    )  # fmt: skip


def _holds_nan(statistics: Statistics) -> bool:
    """Return whether a tensor has NaN, even if they were not counted."""
    ends = (statistics.max, statistics.min, statistics.norm)
    return bool(statistics.nan) or any(value is not None and math.isnan(value) for value in ends)


def differences(
    target: Statistics, golden: TensorStatistics, slack: float = 0.0, padded: int = 0
) -> Dict[str, float]:
    """Return how far a target's statistics are from golden data's: those of :data:`MEASURES` that
    its statistics allow.

    LeastDistance
        No two tensors with these statistics have a smaller RelativeEuclideanDistance. With n
        elements, means m and standard deviations s, ‖x − y‖² ≥ n·(Δm)² + n·(Δs)², ‖x − y‖ ≥ |‖x‖ −
        ‖y‖|, and ‖x − y‖ ≥ |Δmax| and |Δmin|.
    MeanDifference
        |Δmean| relative to the golden root mean square.
    NormDifference
        |Δ‖·‖| relative to the golden norm.
    RangeDifference
        The larger of |Δmax| and |Δmin| relative to the golden's largest magnitude.
    NotFiniteDifference
        Difference between the shares of NaN or infinite elements. If it is not 0, nothing else is
        measured.

    Parameters
    ----------
    slack
        Largest absolute error of each element by rounding alone.
    padded
        Number of padding elements of the target, taken as 0.
    """
    count = max(golden.elements, 1)
    not_finite = _not_finite_difference(target, golden)
    differences = {NOT_FINITE: not_finite / count}
    if not_finite or not golden.elements:
        return differences
    scale = golden.norm / math.sqrt(count)
    errors = []
    mean, spread = target.mean, None
    finite = mean is not None and math.isfinite(mean) and not (target.nan or target.infinite)
    if finite and mean is not None and golden.mean is not None:
        mean *= (golden.elements + padded) / count
        off = max(abs(mean - golden.mean) - _PRINTED * abs(mean) - slack, 0.0)
        differences[MEAN] = _relative(off, scale)
        errors.append(off * math.sqrt(count))
    if (
        target.norm is not None
        and math.isfinite(target.norm)
        and not golden.bound
        and not (target.nan or target.infinite)
    ):
        off = max(
            abs(target.norm - golden.norm) - _PRINTED * target.norm - slack * math.sqrt(count), 0.0
        )
        differences[NORM] = _relative(off, golden.norm)
        errors.append(off)
        if finite and mean is not None and golden.mean is not None:
            spread = math.sqrt(max(target.norm**2 / count - mean**2, 0.0)) - math.sqrt(
                max(scale**2 - golden.mean**2, 0.0)
            )
            blur = 3 * _PRINTED * max(target.norm / math.sqrt(count), abs(mean))
            off = max(abs(spread) - blur - slack, 0.0)
            errors.append(
                math.sqrt(count)
                * math.hypot(off, max(abs(mean - golden.mean) - _PRINTED * abs(mean) - slack, 0.0))
            )
    end = _range_difference(target, golden, padded, slack)
    if end is not None:
        differences[RANGE] = _relative(end, max(abs(golden.max or 0.0), abs(golden.min or 0.0)))
        errors.append(end)
    # No bound without both ends of the range.
    unbounded = golden.bound and None in (golden.max, golden.min)
    if errors and not padded and not unbounded:
        differences[LEAST] = _relative(max(errors), golden.norm)
    return differences


def _not_finite_difference(target: Statistics, golden: TensorStatistics) -> int:
    """Return how many elements are NaN, or infinite, on one side only, as far as counted."""
    if target.nan is not None and golden.counted:
        difference = abs(target.nan - golden.nan)
    else:
        difference = int(_holds_nan(target) != bool(golden.nan))
    if target.infinite is not None and golden.counted:
        # A device type of a smaller range may have turned masks into infinities.
        difference += max(
            target.infinite - golden.infinite - golden.masks,
            golden.infinite - target.infinite - golden.masks,
            0,
        )
    return difference


def _range_difference(
    target: Statistics, golden: TensorStatistics, padded: int, slack: float
) -> Optional[float]:
    """Return the larger difference of the two ends of the range; None if neither is known."""
    ends = []
    for target_end, golden_end, pick in (
        (target.max, golden.max, max),
        (target.min, golden.min, min),
    ):
        if target_end is None or golden_end is None or math.isnan(target_end):
            continue
        off = (
            0.0
            if target_end == golden_end
            else abs(target_end - (pick(golden_end, 0.0) if padded else golden_end))
        )
        if math.isinf(off) and golden.masks and target_end <= 0:
            continue
        ends.append(
            max(off - _PRINTED * abs(target_end) - slack, 0.0) if math.isfinite(off) else off
        )
    return max(ends) if ends else None


def _relative(off: float, scale: float) -> float:
    return off / scale if scale else (math.inf if off else 0.0)


def remarkable_values(
    statistics: Statistics, dtype: str, of_constant: bool = False
) -> Dict[int, str]:
    """Return what is remarkable in a tensor's statistics as phrases by their rank, worst (0) first;
    ``dtype`` as in the DataType column. Of what golden data have as one value, that is nothing
    remarkable.

    NaN, Inf, the largest number of a float type (65504 of float16), all 0, all equal.
    """
    ends = [value for value in (statistics.max, statistics.min) if value is not None]
    nan = statistics.nan or (1 if any(map(math.isnan, ends)) else 0)
    infinite = statistics.infinite or (1 if any(map(math.isinf, ends)) else 0)
    parts = {0: "%s NaN" % (statistics.nan or "some")} if nan else {}
    if infinite:
        parts[1] = "%s Inf" % (statistics.infinite or "some")
    if dtype in ROUNDING and any(abs(value) == ROUNDING[dtype].largest for value in ends):
        parts[2] = "%.6g, the largest number of %s" % (max(ends, key=abs), dtype)
    several = (statistics.elements or 2) > 1 and not of_constant
    if len(ends) == 2 and ends[0] == ends[1] and not infinite and several:
        zero = not ends[0]
        parts[3 if zero else 4] = (
            "nothing but 0" if zero else "one value throughout, %.6g" % ends[0]
        )
    return parts
