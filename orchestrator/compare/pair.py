"""One target tensor and its golden counterpart become a row."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..dumps.golden import GoldenEntry, open_golden
from ..errors import FormatError, GoldwatchError, NotComparable
from ..tensors.blocks import aligned_blocks
from ..tensors.geometry import Geometry, match_layouts, match_stored
from ..tensors.tensor import Tensor
from .kernel import BLOCK
from .metrics import MetricResult, compare_blocks
from .row import CORRUPT, DTYPE, FAIL, METRICS, NOT_COMPARED, PASS, SHAPE, Row

_WINDOW_BYTES = 1 << 20

Judge = Callable[[Mapping[str, Any], Collection[str]], str]


@dataclass(frozen=True)
class Settings:
    """What is computed for every pair; picklable.

    Attributes
    ----------
    metrics
        Names, the shown ones and those with limits.
    overflow
        Whether the OverFlow column is wanted.
    judge
        Given the metrics and the names that do not apply, what is outside its limit, as a phrase; empty when nothing is.
    """

    metrics: Tuple[str, ...] = METRICS
    overflow: bool = False
    judge: Optional[Judge] = None


@dataclass(frozen=True)
class PairTask:
    """A pair to compare; picklable, small.

    Attributes
    ----------
    row
        The row but for its findings.
    target
        The target tensor.
    golden
        Where the golden tensor is.
    origin_format, origin_shape
        The golden's layout and shape as the json says; None when it does not.
    as_stored
        Compare element by element as stored on the device, padding included (two dumps of one model).
    """

    row: Row
    target: Tensor
    golden: GoldenEntry
    origin_format: Optional[str] = None
    origin_shape: Optional[Tuple[int, ...]] = None
    as_stored: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the target tensor, as a measure of the work."""
        return self.target.source.nbytes


def compare_pairs(tasks: Sequence[PairTask], settings: Settings, first: Optional[Row] = None) -> List[Row]:
    """Compare pairs, one row each, in order; what cannot be compared becomes that row's reason.

    A task whose golden tensor and target bytes equal those of an earlier task in ``tasks`` takes its findings.

    Parameters
    ----------
    first
        The row of the first task, where that was compared already.
    """
    rows: List[Row] = []
    done: Dict[Tuple[Any, ...], List[Tuple[PairTask, Row]]] = {}
    if first is not None:
        rows.append(first)
        done[_reading(tasks[0])] = [(tasks[0], first)]
    for task in tasks[len(rows) :]:
        alike = done.setdefault(_reading(task), [])
        twin = next((row for other, row in alike if _same_bytes(task, other)), None)
        if twin is not None:
            rows.append(_take_findings(task.row, twin))
            continue
        row = compare_pair(task, settings)
        if row.verdict in (PASS, FAIL):
            alike.append((task, row))
        rows.append(row)
    return rows


def compare_pair(task: PairTask, settings: Settings) -> Row:
    """Compare one pair.

    Returns
    -------
    Row
        ``pass`` or ``fail`` where the tensors could be compared, ``not_compared`` with the reason otherwise.
    """
    row = replace(task.row, target_dtype=task.target.dtype.name)
    try:
        golden, address = open_golden(task.golden)
        row = replace(row, golden_dtype=golden.dtype.name, golden_address=address)
        geometry = geometry_of(task, golden)
        result = compare_blocks(lambda: aligned_blocks(task.target, golden, geometry, BLOCK), settings.metrics)
        return row_of(task, golden, address, geometry, result, settings)
    except NotComparable as error:
        return refuse(row, error.message, DTYPE if "type" in error.message and "shape" not in error.message else SHAPE)
    except GoldwatchError as error:
        return refuse(row, error.message, CORRUPT)
    except (OSError, MemoryError) as error:
        return refuse(row, "%s: %s" % (type(error).__name__, error), CORRUPT)
    except Exception as error:  # A bug of ours costs one row, not the run; the row says so.
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = "internal error, please report it: %s: %s (%s, line %s)" % (type(error).__name__, error, where.name, where.lineno)
        return refuse(row, text, "internal")


def refuse(row: Row, reason: str, cause: str) -> Row:
    """Return the row as not compared, for that reason."""
    return replace(row, verdict=NOT_COMPARED, reason="; ".join(filter(None, (row.reason, reason))), cause=cause)


def geometry_of(task: PairTask, golden: Tensor) -> Geometry:
    """Return how the task's target is brought to its golden's layout.

    Raises
    ------
    NotComparable
        Types (of two device dumps), layouts or shapes do not agree.
    """
    target = task.target
    if task.as_stored:
        if target.dtype.name != golden.dtype.name:
            raise NotComparable("data types differ: target %s, golden %s" % (target.dtype.name, golden.dtype.name))
        return match_stored(target, golden)
    golden_format = golden.format if golden.format not in ("ND", "RESERVED") else None
    return match_layouts(target, golden.shape, task.origin_format, task.origin_shape, golden_format)


def row_of(
    task: PairTask, golden: Tensor, address: Optional[int], geometry: Geometry, result: MetricResult, settings: Settings
) -> Row:
    """Return the finished row of a pair that could be compared."""
    row = task.row
    notes = list(geometry.notes)
    if all(size == 1 for size in geometry.shape):
        notes.append("the tensor is a scalar")
    verdict, outside = result.outcome, ""
    if verdict is None:
        outside = settings.judge(result.values, result.not_applicable) if settings.judge else ""
        verdict = FAIL if outside else PASS
    return replace(
        row,
        target_dtype=task.target.dtype.name,
        golden_dtype=golden.dtype.name,
        golden_address=address,
        shape=geometry.shape,
        metrics=result.values,
        nan=result.nan,
        inf=result.inf,
        overflow=_overflow(task.target, result) if settings.overflow else None,
        verdict=verdict,
        reason="; ".join(filter(None, [outside, *result.reasons, row.reason, *result.notes, *notes])),
        cause="",
    )


def _overflow(target: Tensor, result: MetricResult) -> Optional[bool]:
    """Return the OverFlow column's value; a float tensor without elements does not overflow."""
    return False if not result.count and target.dtype.kind in ("f", "c") else result.overflow


def _take_findings(row: Row, twin: Row) -> Row:
    names = ("shape", "metrics", "nan", "inf", "overflow", "verdict", "reason", "target_dtype", "golden_dtype", "golden_address", "cause")
    return replace(row, **{name: getattr(twin, name) for name in names})


def _same_bytes(task: PairTask, other: PairTask) -> bool:
    """Tell whether the target tensors of two tasks, which are read alike, hold the same bytes."""
    mine, theirs = task.target.source, other.target.source
    try:
        for start in range(0, mine.nbytes, _WINDOW_BYTES):
            size = min(_WINDOW_BYTES, mine.nbytes - start)
            if not np.array_equal(mine.read(start, size), theirs.read(start, size)):
                return False
    except (OSError, FormatError):
        return False
    return True


def _reading(task: PairTask) -> Tuple[Any, ...]:
    """Return all that decides a task's findings but the target's bytes: the golden tensor, and how both are read."""
    target = task.target
    stored = (target.dtype, target.shape, target.format, target.sub_format, target.original_shape, target.source.nbytes)
    return (task.golden, task.origin_format, task.origin_shape, task.as_stored, task.row.reason) + stored
