"""Statistics of a tensor that is there whole, as a device would make them, and how far two tensors'
statistics are apart.
"""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional

import numpy as np

from ..errors import FormatError, NotComparable
from ..tensors.dtypes import Array, require_decodable
from ..tensors.rounding import ROUNDING, rounding_of
from ..tensors.tensor import Tensor
from .statistics_csv import Statistics

LEAST, MEAN, NORM, RANGE, NOT_FINITE = (
    "LeastDistance",
    "MeanDifference",
    "NormDifference",
    "RangeDifference",
    "NotFiniteDifference",
)
MEASURES = (LEAST, MEAN, NORM, RANGE, NOT_FINITE)
"""What is measured of two tensors' statistics."""

ALL_ZERO, CONSTANT = "nothing but 0", "one value throughout"

_WINDOW = 1 << 18
_PRINTED = 5e-6
"""Six digits are printed: a number may be off by so much of itself."""


class StatisticsSource:
    """Stands for the bytes of a tensor of which only statistics were dumped: a ByteSource that
    cannot be read.

    Its size is that of nothing much, so that nobody takes a share of it.
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
        How many there are.
    max, min
        Of what is not NaN; None where there is nothing.
    mean, norm
        Of the finite elements; 0 where there are none. A mean that a table does not tell is None.
    nan, infinite
        How many elements are so.
    masks
        How many are so far below 0 that the device's type may have no number for them.
    bound
        The norm is not told, but the largest that it may be.
    counted
        NaN and Inf were counted; else ``nan`` says only whether there is any.
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
        The type that each element is rounded to before (to nearest, ties to even; what is beyond
        its range becomes its largest number): float16 or bfloat16; any other rounds nothing.

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
                odd = ~np.isfinite(values)
                if odd.any():
                    numbers = values[~np.isnan(values)]
                    nan += values.size - numbers.size
                    infinite += int(np.isinf(numbers).sum())
                    high, low = (
                        max(high, numbers.max(initial=high)),
                        min(low, numbers.min(initial=low)),
                    )
                    values = values[~odd]
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
    """Return finite floats as the type has them."""
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


def known_of(statistics: Statistics, elements: int) -> Optional[TensorStatistics]:
    """Return a device's statistics as those of a golden tensor; None where they lack mean, norm and
    range.

    ``elements``: how many there are, where the table does not count them.
    """
    count = elements if statistics.elements is None else statistics.elements
    ends = (statistics.max, statistics.min, statistics.mean)
    numbers = [abs(value) for value in ends if value is not None and math.isfinite(value)]
    norm = statistics.norm
    bound = norm is None or not math.isfinite(norm)
    if norm is None or bound:
        if not numbers:
            return None
        # No tensor of this range has a larger one.
        norm = max(numbers) * math.sqrt(count)
    mean = statistics.mean if statistics.mean is None or math.isfinite(statistics.mean) else None
    counted = statistics.nan is not None and statistics.infinite is not None
    nan = statistics.nan if counted else int(_holds_nan(statistics))
    return TensorStatistics(
        count, statistics.max, statistics.min, mean, norm, nan or 0, statistics.infinite or 0,
        bound=bound, counted=counted
    )  # fmt: skip


def _holds_nan(statistics: Statistics) -> bool:
    """Tell whether a tensor has NaN, also where nobody counted them."""
    ends = (statistics.max, statistics.min, statistics.norm)
    return bool(statistics.nan) or any(value is not None and math.isnan(value) for value in ends)


def differences(
    target: Statistics, golden: TensorStatistics, slack: float = 0.0, padded: int = 0
) -> Dict[str, float]:
    """Return how far a target's statistics are from golden data's: :data:`MEASURES`, those that its
    statistics tell.

    LeastDistance
        No two tensors with these statistics have a smaller RelativeEuclideanDistance. With n
        elements, means m and standard deviations s, ‖x − y‖² ≥ n·(Δm)² + n·(Δs)², ‖x − y‖ ≥ |‖x‖ −
        ‖y‖|, and ‖x − y‖ ≥ |Δmax| and |Δmin|.
    MeanDifference
        |Δmean| beside the golden root mean square.
    NormDifference
        |Δ‖·‖| beside the golden norm.
    RangeDifference
        The larger of |Δmax| and |Δmin| beside the golden's largest magnitude.
    NotFiniteDifference
        The share of elements that are NaN, or infinite, on one side more than on the other. Where
        it is not 0 nothing else is measured.

    Parameters
    ----------
    slack
        How far rounding alone may move each element, absolute.
    padded
        How many elements of the target are padding, taken as 0.
    """
    count = max(golden.elements, 1)
    if target.nan is not None and golden.counted:
        odd = abs(target.nan - golden.nan)
    else:
        odd = int(_holds_nan(target) != bool(golden.nan))
    if target.infinite is not None and golden.counted:
        # A device of a smaller range may have made infinities of masks.
        odd += max(
            target.infinite - golden.infinite - golden.masks,
            golden.infinite - target.infinite - golden.masks,
            0,
        )
    differences = {NOT_FINITE: odd / count}
    if odd or not golden.elements:
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
    end = _ends(target, golden, padded, slack)
    if end is not None:
        differences[RANGE] = _relative(end, max(abs(golden.max or 0.0), abs(golden.min or 0.0)))
        errors.append(end)
    # A bound without both ends of the range is none.
    unbounded = golden.bound and None in (golden.max, golden.min)
    if errors and not padded and not unbounded:
        differences[LEAST] = _relative(max(errors), golden.norm)
    return differences


def _ends(
    target: Statistics, golden: TensorStatistics, padded: int, slack: float
) -> Optional[float]:
    """Return the larger of the differences of the two ends of the range; None where neither is
    known.
    """
    ends = []
    for mine, theirs, pick in ((target.max, golden.max, max), (target.min, golden.min, min)):
        if mine is None or theirs is None or math.isnan(mine):
            continue
        off = 0.0 if mine == theirs else abs(mine - (pick(theirs, 0.0) if padded else theirs))
        if math.isinf(off) and golden.masks and mine <= 0:
            continue
        ends.append(max(off - _PRINTED * abs(mine) - slack, 0.0) if math.isfinite(off) else off)
    return max(ends) if ends else None


def _relative(off: float, scale: float) -> float:
    return off / scale if scale else (math.inf if off else 0.0)


def odd_in(statistics: Statistics, dtype: str) -> List[str]:
    """Return what is remarkable in a tensor's own statistics, worst first, as phrases; ``dtype`` as
    in the DataType column.

    NaN, Inf, the largest number of a float type (65504 of float16), nothing but 0, one value
    throughout.
    """
    ends = [value for value in (statistics.max, statistics.min) if value is not None]
    nan = statistics.nan or (1 if any(map(math.isnan, ends)) else 0)
    infinite = statistics.infinite or (1 if any(map(math.isinf, ends)) else 0)
    parts = ["%s NaN" % (statistics.nan or "some")] if nan else []
    parts += ["%s Inf" % (statistics.infinite or "some")] if infinite else []
    if dtype in ROUNDING and any(abs(value) == ROUNDING[dtype].largest for value in ends):
        parts.append("%.6g, the largest number of %s" % (max(ends, key=abs), dtype))
    if len(ends) == 2 and ends[0] == ends[1] and not infinite and (statistics.elements or 2) > 1:
        parts.append(CONSTANT + ", %.6g" % ends[0] if ends[0] else ALL_ZERO)
    return parts
