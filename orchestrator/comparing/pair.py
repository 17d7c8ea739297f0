"""One target tensor and its golden counterpart become a row."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Collection, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..dumps.golden import GoldenEntry, open_golden
from ..errors import FormatError, GoldwatchError, NotComparable, TypeNotComparable
from ..tensors.axes import plain_letters
from ..tensors.blocks import Block, padding_blocks, placed_blocks
from ..tensors.geometry import Geometry, match_layouts, match_stored
from ..tensors.tensor import Tensor
from .differences import sentence
from .kernel import BLOCK
from .metrics import Accumulator, KLPass, MetricResult, compare_blocks, overflow
from .row import CORRUPT, FAIL, METRICS, NOT_COMPARED, NOTHING_FINITE, PASS, WORST_SLICE, Row
from .slices import SliceAxis, borders, slice_axes

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object

SPLIT_BYTES = 16 << 20
"""Target tensors of this size on are compared in shares."""

_WINDOW_BYTES = 1 << 20
_PART_BYTES = 8 << 20
_MOST_PARTS = 16

Part = Tuple[int, int]


class Decision(Protocol):
    """What the limits say: :class:`goldwatch.verdict.judging.Judgement`."""

    @property
    def text(self) -> str:
        """What is outside its limit, as a phrase; empty when nothing is."""

    @property
    def decided_by(self) -> str:
        """The limits that decided."""


class Judge(Protocol):
    """Who knows the limits: :class:`goldwatch.verdict.judging.RowJudge`."""

    def __call__(self, row: Row, dtype: str, values: Mapping[str, Any], not_applicable: Collection[str]) -> Decision:
        """Judge a row's metrics; ``dtype`` is the target's."""

    def alike(self, row: Row) -> Tuple[Any, ...]:
        """Return equal values for rows of which equal findings are judged alike."""


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
        Who knows the limits; None: whatever can be compared passes.
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
        done[_reading(tasks[0], settings)] = [(tasks[0], first)]
    for task in tasks[len(rows) :]:
        alike = done.setdefault(_reading(task, settings), [])
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
    try:
        golden, address = open_golden(task.golden)
    except NotComparable as error:
        return _with_overflow(_refused(task, None, error.message, error.cause), task, settings)
    except GoldwatchError as error:
        return _refused(task, None, error.message, CORRUPT)
    except (OSError, MemoryError) as error:
        return _refused(task, None, "%s: %s" % (type(error).__name__, error), CORRUPT)
    return compare_tensors(task, golden, address, settings)


def compare_tensors(task: PairTask, golden: Tensor, address: Optional[int], settings: Settings) -> Row:
    """Compare a task's target with a golden tensor that is open; returns as :func:`compare_pair`."""
    try:
        geometry = geometry_of(task, golden)
        require_zero_padding(task, geometry)
        return row_of(task, golden, address, geometry, measure(task, golden, geometry, settings), settings)
    except NotComparable as error:
        return _with_overflow(_refused(task, golden, error.message, error.cause), task, settings)
    except GoldwatchError as error:
        return _refused(task, golden, error.message, CORRUPT)
    except (OSError, MemoryError) as error:
        return _refused(task, golden, "%s: %s" % (type(error).__name__, error), CORRUPT)
    except Exception as error:  # A bug of ours costs one row, not the run; the row says so.
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = "internal error, please report it: %s: %s (%s, line %s)" % (type(error).__name__, error, where.name, where.lineno)
        return _refused(task, golden, text, "internal")


def _with_overflow(row: Row, task: PairTask, settings: Settings) -> Row:
    """Return the row with the OverFlow column filled in, which needs no golden tensor."""
    return row.but(overflow=overflow_of(task.target)) if settings.overflow else row


def _refused(task: PairTask, golden: Optional[Tensor], reason: str, cause: str) -> Row:
    golden_dtype = task.row.golden_dtype if golden is None else golden.dtype.name
    return refuse(task.row.but(target_dtype=task.target.dtype.name, golden_dtype=golden_dtype), reason, cause)


def overflow_of(target: Tensor) -> Optional[bool]:
    """Tell whether a tensor overflows (:func:`goldwatch.comparing.metrics.overflow`), padding included; it is read in windows.

    Returns
    -------
    None for integers and bool, and where the tensor cannot be read or decoded.
    """
    if target.dtype.kind not in ("f", "c"):
        return None
    step = max(1, _WINDOW_BYTES * 8 // max(1, target.dtype.bits))
    try:
        return any(overflow(target.elements(at, min(at + step, target.count))) for at in range(0, target.count, step))
    except (GoldwatchError, OSError):
        return None


def refuse(row: Row, reason: str, cause: str) -> Row:
    """Return the row as not compared, for that reason."""
    return row.but(verdict=NOT_COMPARED, reason="; ".join(filter(None, (row.reason, reason))), cause=cause)


def parts_of(task: PairTask) -> int:
    """Return in how many shares a pair is compared: so many for its size, whoever works on them, because sums depend on their order."""
    return max(1, min(_MOST_PARTS, task.nbytes // _PART_BYTES)) if task.nbytes >= SPLIT_BYTES else 1


def measure(task: PairTask, golden: Tensor, geometry: Geometry, settings: Settings) -> MetricResult:
    """Compute the metrics of a pair, of a huge one share by share."""
    parts = parts_of(task)
    if parts == 1:
        axes = _axes(task, golden, geometry, settings)
        return compare_blocks(lambda: _blocks(task, golden, geometry, axes), settings.metrics, axes)
    sums = sums_of(task, golden, geometry, settings, (0, parts))
    for number in range(1, parts):
        sums.merge(sums_of(task, golden, geometry, settings, (number, parts)))
    result = sums.result()
    if not result.needs_second_pass:
        return result
    second = divergence_of(task, golden, geometry, result, (0, parts))
    for number in range(1, parts):
        second.merge(divergence_of(task, golden, geometry, result, (number, parts)))
    return second.result()


def sums_of(task: PairTask, golden: Tensor, geometry: Geometry, settings: Settings, part: Part) -> Accumulator:
    """Return the sums of one share of a pair."""
    axes = _axes(task, golden, geometry, settings)
    sums = Accumulator(settings.metrics, axes)
    for block in _blocks(task, golden, geometry, axes, part):
        sums.update(*block)
    return sums


def divergence_of(task: PairTask, golden: Tensor, geometry: Geometry, first: MetricResult, part: Part) -> KLPass:
    """Return the second pass over one share of a pair."""
    sums = KLPass(first)
    for block in _blocks(task, golden, geometry, (), part):
        sums.update(block.x, block.y)
    return sums


def _blocks(task: PairTask, golden: Tensor, geometry: Geometry, axes: Sequence[SliceAxis], part: Part = (0, 1)) -> Iterator[Block]:
    """Return the blocks of one share of a pair, small enough for the accumulators."""
    # Complex numbers count as two.
    most = BLOCK // 2 if "c" in (task.target.dtype.kind, golden.dtype.kind) else BLOCK
    return placed_blocks(task.target, golden, geometry, most, part, borders(axes))


def _axes(task: PairTask, golden: Tensor, geometry: Geometry, settings: Settings) -> Tuple[SliceAxis, ...]:
    return axes_of(task, golden, geometry) if WORST_SLICE in settings.metrics else ()


def axes_of(task: PairTask, golden: Tensor, geometry: Geometry) -> Tuple[SliceAxis, ...]:
    """Return the axes of the golden along which slices are told apart: its channel axis, else all that are longer than 1."""
    shape = geometry.shape
    if "C" in geometry.letters:
        # The golden may lack dims of size 1, so axes are counted by those that are longer.
        place = geometry.letters.index("C")
        if geometry.sizes[place] == 1:
            return slice_axes(shape, None, golden.order)
        before = sum(size != 1 for size in geometry.sizes[:place])
        return slice_axes(shape, [axis for axis, size in enumerate(shape) if size != 1][before], golden.order)
    name = golden.format if task.as_stored else task.origin_format
    letters = plain_letters(name or "ND", len(shape)) or ()
    return slice_axes(shape, letters.index("C") if "C" in letters else None, golden.order)


def require_zero_padding(task: PairTask, geometry: Geometry) -> None:
    """Make sure that what only the golden's shape tells to be padding is zero.

    Raises
    ------
    NotComparable
        It is not: the target is larger than the golden.
    """
    if geometry.padded is None or all(not block.any() for block in padding_blocks(task.target, geometry)):
        return
    sizes = zip(geometry.letters, geometry.sizes, geometry.padded)
    cut = ", ".join("%s %d of %d" % ("dim " * letter.isdigit() + letter, size, padded) for letter, size, padded in sizes if size < padded)
    raise NotComparable(
        "the target is larger than the golden: target %s %s, laid out %s, golden %s; what would have to be padding (%s) is not zero"
        % (task.target.format, list(task.target.shape), list(geometry.padded), list(geometry.shape), cut)
    )


def geometry_of(task: PairTask, golden: Tensor) -> Geometry:
    """Return how the task's target is brought to its golden's layout.

    Raises
    ------
    NotComparable
        Types (of two device dumps), layouts or shapes do not agree.
    """
    target = task.target
    if task.as_stored:
        text = "data types differ: target %s, golden %s" % (target.dtype.name, golden.dtype.name)
        if target.dtype.name == golden.dtype.name:
            return match_stored(target, golden)
        if not target.dtype.kind == golden.dtype.kind == "f":
            raise TypeNotComparable(text)
        geometry = match_stored(target, golden)
        return replace(geometry, notes=(*geometry.notes, text))
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
    dtype = task.target.dtype.name
    verdict, outside, decided_by = result.outcome, "", ""
    if verdict is None:
        verdict = PASS
        if settings.judge is not None:
            decision = settings.judge(row, dtype, result.values, result.not_applicable)
            verdict, outside, decided_by = FAIL if decision.text else PASS, decision.text, decision.decided_by
    places = _places(result, geometry, golden.order, decided_by if verdict == FAIL else "")
    reasons = [outside, *places, *result.reasons, row.reason, *result.notes, *notes]
    return row.but(
        target_dtype=dtype,
        golden_dtype=golden.dtype.name,
        golden_address=address,
        shape=geometry.shape,
        metrics=result.values,
        worst_slice=None if result.worst_slice is None else (result.worst_slice.axis, result.worst_slice.index),
        nan=result.nan,
        inf=result.inf,
        overflow=_overflow(task.target, result) if settings.overflow else None,
        verdict=verdict,
        reason="; ".join(filter(None, reasons)),
        decided_by=decided_by,
        warning=NOTHING_FINITE if result.nothing_finite else "",
        cause="",
    )


def _places(result: MetricResult, geometry: Geometry, order: str, missed: str) -> List[str]:
    """Return where the tensors differ, as phrases: the worst slice where its limit is missed, the elements of whole numbers."""
    found = []
    if result.worst_slice is not None and WORST_SLICE in missed:
        found.append("the worst slice is %d of axis %d" % (result.worst_slice.index, result.worst_slice.axis))
    if result.differing:
        found.append(sentence(result.differing, result.count, list(result.differences), geometry.shape, order))
    return found


def _overflow(target: Tensor, result: MetricResult) -> Optional[bool]:
    """Return the OverFlow column's value; a float tensor without elements does not overflow."""
    return False if not result.count and target.dtype.kind in ("f", "c") else result.overflow


_FINDINGS = (
    *("shape", "metrics", "worst_slice", "nan", "inf", "overflow", "verdict", "reason", "decided_by", "warning"),
    *("target_dtype", "golden_dtype", "golden_address", "cause"),
)


def _take_findings(row: Row, twin: Row) -> Row:
    return row.but(**{name: getattr(twin, name) for name in _FINDINGS})


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


def _reading(task: PairTask, settings: Settings) -> Tuple[Any, ...]:
    """Return all that decides a task's findings but the target's bytes: the golden tensor, how both are read, and the limits."""
    target = task.target
    alike = settings.judge.alike(task.row) if settings.judge is not None else ()
    stored = (target.dtype, target.shape, target.format, target.sub_format, target.original_shape, target.order, target.source.nbytes)
    return (task.golden, task.origin_format, task.origin_shape, task.as_stored, task.row.reason, alike) + stored
