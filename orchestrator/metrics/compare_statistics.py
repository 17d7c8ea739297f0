"""Compares a tensor of which only statistics were dumped with its golden counterpart."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple

from ..base.errors import NotComparable
from ..dumps.folder_listing import look_at
from ..dumps.golden_set import GoldenEntry, open_golden
from ..dumps.statistics_csv import Statistics
from ..dumps.tensor_statistics import (
    NOT_FINITE,
    StatisticsSource,
    TensorStatistics,
    differences,
    remarkable_values,
    statistics_as_golden,
    statistics_of,
)
from ..tensors.geometry import Geometry
from ..tensors.tensor import Tensor
from ..tensors.type_precision import rounding_of
from .overwriting_and_cancellation import CANCELS, may_cancel
from .pair_alignment import geometry_of
from .pair_task import PairTask, Settings
from .rounding_slack import rounding_slack
from .row import BY_STATISTICS, PASS, Row


# One row, whose columns depend on the same statistics of both sides.
def compare_statistics(task: PairTask, golden: Tensor, settings: Settings) -> Row:
    """Return the row of a pair; raises NotComparable and FormatError with the reason why there can
    be none.
    """
    source = task.target.source
    target = (
        source.statistics
        if isinstance(source, StatisticsSource)
        else _computed_statistics(task.target)
    )
    geometry, notes = _geometry(task, golden, target)
    shape = golden.shape if geometry is None else geometry.shape
    golden_known = _golden_known(task, golden)
    counted = target.elements if target.elements is not None else task.target.count
    if counted < golden_known.elements:
        text = "golden differs in size: the statistics are of %d elements, golden %s has %d"
        raise NotComparable(text % (counted, list(golden.shape), golden_known.elements))
    padded = counted - golden_known.elements
    if padded:
        notes = (
            *notes,
            "%d of %d elements are the device's padding, taken as 0" % (padded, counted),
        )
    slack = _slack(task, golden, golden_known)
    values: Dict[str, Any] = differences(target, golden_known, slack, padded)
    floats = task.target.dtype.kind == "f" or golden.dtype.kind == "f"
    if len(values) == 1 and not values[NOT_FINITE] and golden_known.elements:
        raise NotComparable("the statistics do not tell its mean, norm or range")
    values["StandardDeviation"] = {
        "target": _spread(target, golden_known.elements, padded),
        "golden": _spread_of(golden_known),
    }
    dtype = task.limited_as or task.target.dtype.name
    row = task.row.but(
        target_dtype=task.target.dtype.name,
        golden_dtype=golden.dtype.name,
        shape=shape,
        metrics=values,
        nan=None
        if target.nan is None or not golden_known.counted
        else {"target": target.nan, "golden": golden_known.nan},
        inf=None
        if target.infinite is None or not golden_known.counted
        else {"target": target.infinite, "golden": golden_known.infinite},
        overflow=_overflow(task.target, target) if settings.overflow else None,
        verdict=PASS,
        reason="; ".join(
            filter(
                None,
                [*_inconsistencies(task.target, target, golden_known), task.row.reason, *notes],
            )
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
        statistics = statistics_as_golden(golden.source.statistics, golden.count)
        if statistics is None:
            raise NotComparable("golden: its statistics do not tell its mean, norm or range")
        return statistics
    return _read(task.golden, look_at(task.golden.path), task.limited_as or task.target.dtype.name)


@lru_cache(maxsize=64)
def _read(entry: GoldenEntry, stamp: Any, dtype: str) -> TensorStatistics:
    """Return the statistics of a golden tensor; the pairs of one come after another."""
    return statistics_of(open_golden(entry)[0], dtype)


def _computed_statistics(tensor: Tensor) -> Statistics:
    """Return the statistics of a target that has its elements, where golden data are statistics."""
    statistics = statistics_of(tensor)
    return Statistics(
        tensor.dtype.name, tensor.format, tensor.shape, None, statistics.elements, statistics.max,
        statistics.min, statistics.mean, statistics.norm, statistics.nan,
        statistics.infinite, 0,
    )  # fmt: skip


def _slack(task: PairTask, golden: Tensor, golden_known: TensorStatistics) -> float:
    """Return how far rounding alone may move an element: as of tensors, the inputs' too where the
    op cancels them.
    """
    target = task.target
    slack = rounding_slack(task.limited_as or target.dtype.name, golden.dtype.name).distance
    if (
        not task.beside
        or task.row.kind != "output"
        or not may_cancel(task.row.op_type)
        or not golden_known.elements
    ):
        return slack
    largest, bits = 0.0, rounding_of(target.dtype.name).fraction_bits
    for tensor in task.beside:
        if isinstance(tensor.source, StatisticsSource) and tensor.dtype.kind == "f":
            statistics = statistics_as_golden(tensor.source.statistics, tensor.count)
            if statistics is not None and statistics.elements and math.isfinite(statistics.norm):
                largest = max(largest, statistics.norm / math.sqrt(statistics.elements))
            bits = min(bits, rounding_of(tensor.dtype.name).fraction_bits)
    rms = golden_known.norm / math.sqrt(golden_known.elements)
    return max(slack, math.ldexp(largest, -bits)) if rms * CANCELS < largest < math.inf else slack


def _spread(statistics: Statistics, count: int, padded: int) -> Dict[str, Optional[float]]:
    mean, std = statistics.mean, None
    if mean is not None:
        mean *= (count + padded) / max(count, 1)
        if statistics.norm is not None and count:
            std = math.sqrt(max(statistics.norm**2 / count - mean**2, 0.0))
    return {"mean": _finite(mean), "std": _finite(std)}


def _spread_of(statistics: TensorStatistics) -> Dict[str, Optional[float]]:
    std = None
    if statistics.mean is not None and not statistics.bound:
        count = max(statistics.elements - statistics.nan - statistics.infinite, 1)
        std = math.sqrt(max(statistics.norm**2 / count - statistics.mean**2, 0.0))
    return {"mean": _finite(statistics.mean), "std": _finite(std)}


def _finite(value: Optional[float]) -> Any:
    return math.nan if value is None else value


def _inconsistencies(
    tensor: Tensor, statistics: Statistics, golden_known: TensorStatistics
) -> List[str]:
    """Return what is remarkable about a device's values where golden data have none of it, as
    phrases.
    """
    texts = remarkable_values(
        statistics, tensor.dtype.name, of_constant=golden_known.max == golden_known.min
    )
    return ["the device has " + ", ".join(texts.values())] if texts else []


def _overflow(tensor: Tensor, statistics: Statistics) -> Optional[bool]:
    if tensor.dtype.kind != "f":
        return None
    largest = rounding_of(tensor.dtype.name).largest
    ends = [abs(value) for value in (statistics.max, statistics.min) if value is not None]
    return bool(statistics.nan or statistics.infinite) or any(not value < largest for value in ends)
