"""A tensor of which only statistics were dumped, and its golden counterpart: what statistics tell
of them becomes a row.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple

from ..dumps.golden import GoldenEntry, open_golden
from ..errors import NotComparable
from ..statistics_dumps.numbers import (
    ALL_ZERO,
    CONSTANT,
    NOT_FINITE,
    StatisticsSource,
    TensorStatistics,
    differences,
    known_of,
    odd_in,
    statistics_of,
)
from ..statistics_dumps.table import Statistics
from ..tensors.geometry import Geometry
from ..tensors.rounding import rounding_of
from ..tensors.tensor import Tensor
from .aligned import geometry_of
from .pair_task import PairTask, Settings
from .row import BY_STATISTICS, PASS, Row
from .same_dump import CANCELS, may_cancel
from .slack import rounding_slack


def told_by_statistics(task: PairTask, golden: Tensor) -> bool:
    """Tell whether either side of a pair has statistics in place of elements."""
    return isinstance(task.target.source, StatisticsSource) or isinstance(
        golden.source, StatisticsSource
    )


def compare_statistics(task: PairTask, golden: Tensor, settings: Settings) -> Row:
    """Return the row of a pair; raises NotComparable and FormatError with the reason why there can
    be none.
    """
    source = task.target.source
    target = source.statistics if isinstance(source, StatisticsSource) else _made(task.target)
    geometry, notes = _geometry(task, golden, target)
    shape = golden.shape if geometry is None else geometry.shape
    known = _golden_known(task, golden)
    counted = target.elements if target.elements is not None else task.target.count
    padded = max(counted - known.elements, 0)
    if counted < known.elements:
        text = "golden differs in size: the statistics are of %d elements, golden %s has %d"
        raise NotComparable(text % (counted, list(golden.shape), known.elements))
    if padded:
        notes = (
            *notes,
            "%d of %d elements are the device's padding, taken as 0" % (padded, counted),
        )
    slack = _slack(task, golden, known)
    values: Dict[str, Any] = differences(target, known, slack, padded)
    floats = task.target.dtype.kind == "f" or golden.dtype.kind == "f"
    if len(values) == 1 and not values[NOT_FINITE] and known.elements:
        raise NotComparable("the statistics do not tell its mean, norm or range")
    values["StandardDeviation"] = {
        "target": _spread(target, known.elements, padded),
        "golden": _spread_of(known),
    }
    dtype = task.limited_as or task.target.dtype.name
    row = task.row.but(
        target_dtype=task.target.dtype.name,
        golden_dtype=golden.dtype.name,
        shape=shape,
        metrics=values,
        nan=None
        if target.nan is None or not known.counted
        else {"target": target.nan, "golden": known.nan},
        inf=None
        if target.infinite is None or not known.counted
        else {"target": target.infinite, "golden": known.infinite},
        overflow=_overflow(task.target, target) if settings.overflow else None,
        verdict=PASS,
        reason="; ".join(
            filter(None, [*_odd(task.target, target, known), task.row.reason, *notes])
        ),
        warning=BY_STATISTICS,
        cause="",
    )
    return row if settings.judge is None else settings.judge.of_statistics(row, dtype, not floats)


def _geometry(
    task: PairTask, golden: Tensor, target: Statistics
) -> Tuple[Optional[Geometry], Tuple[str, ...]]:
    """Return how the shapes fit, which is no matter where the table does not tell the target's."""
    if target.shape is None:
        return None, ("the statistics do not tell its shape",)
    try:
        geometry = geometry_of(task, golden)
    except NotComparable:
        if target.format or isinstance(golden.source, StatisticsSource):
            raise
        text = "its shape %s is not golden's %s, and the statistics do not tell its layout"
        return None, (text % (list(target.shape), list(golden.shape)),)
    return geometry, geometry.notes


def _golden_known(task: PairTask, golden: Tensor) -> TensorStatistics:
    if isinstance(golden.source, StatisticsSource):
        found = known_of(golden.source.statistics, golden.count)
        if found is None:
            raise NotComparable("golden: its statistics do not tell its mean, norm or range")
        return found
    look = os.stat(task.golden.path) if os.path.exists(task.golden.path) else None
    stamp = None if look is None else (look.st_size, look.st_mtime_ns, look.st_ino)
    return _read(task.golden, stamp, task.limited_as or task.target.dtype.name)


@lru_cache(maxsize=64)
def _read(entry: GoldenEntry, stamp: Any, dtype: str) -> TensorStatistics:
    """Return the statistics of a golden tensor; the pairs of one come after another."""
    return statistics_of(open_golden(entry)[0], dtype)


def _made(tensor: Tensor) -> Statistics:
    """Return the statistics of a target that has its elements, where golden data are statistics."""
    known = statistics_of(tensor)
    return Statistics(
        tensor.dtype.name, tensor.format, tensor.shape, None, known.elements, known.max, known.min,
        known.mean, known.norm, known.nan,
        known.infinite, 0,
    )  # fmt: skip


def _slack(task: PairTask, golden: Tensor, known: TensorStatistics) -> float:
    """Return how far rounding alone may move an element: as of tensors, the inputs' too where the
    op cancels them.
    """
    target = task.target
    found = rounding_slack(task.limited_as or target.dtype.name, golden.dtype.name).distance
    if (
        not task.beside
        or task.row.kind != "output"
        or not may_cancel(task.row.op_type)
        or not known.elements
    ):
        return found
    largest, bits = 0.0, rounding_of(target.dtype.name).fraction_bits
    for tensor in task.beside:
        if isinstance(tensor.source, StatisticsSource) and tensor.dtype.kind == "f":
            told = known_of(tensor.source.statistics, tensor.count)
            if told is not None and told.elements and math.isfinite(told.norm):
                largest = max(largest, told.norm / math.sqrt(told.elements))
            bits = min(bits, rounding_of(tensor.dtype.name).fraction_bits)
    rms = known.norm / math.sqrt(known.elements)
    return max(found, math.ldexp(largest, -bits)) if rms * CANCELS < largest < math.inf else found


def _spread(told: Statistics, count: int, padded: int) -> Dict[str, Optional[float]]:
    mean, std = told.mean, None
    if mean is not None:
        mean *= (count + padded) / max(count, 1)
        if told.norm is not None and count:
            std = math.sqrt(max(told.norm**2 / count - mean**2, 0.0))
    return {"mean": _finite(mean), "std": _finite(std)}


def _spread_of(known: TensorStatistics) -> Dict[str, Optional[float]]:
    std = None
    if known.mean is not None and not known.bound:
        count = max(known.elements - known.nan - known.infinite, 1)
        std = math.sqrt(max(known.norm**2 / count - known.mean**2, 0.0))
    return {"mean": _finite(known.mean), "std": _finite(std)}


def _finite(value: Optional[float]) -> Any:
    return math.nan if value is None else value


def _odd(tensor: Tensor, told: Statistics, known: TensorStatistics) -> List[str]:
    """Return what is remarkable about a device's values where golden data have none of it, as
    phrases.
    """
    found = odd_in(told, tensor.dtype.name)
    if known.max == known.min:
        found = [text for text in found if not text.startswith((ALL_ZERO, CONSTANT))]
    return ["the device has " + ", ".join(found)] if found else []


def _overflow(tensor: Tensor, told: Statistics) -> Optional[bool]:
    if tensor.dtype.kind != "f":
        return None
    largest = rounding_of(tensor.dtype.name).largest
    ends = [abs(value) for value in (told.max, told.min) if value is not None]
    return bool(told.nan or told.infinite) or any(not value < largest for value in ends)
