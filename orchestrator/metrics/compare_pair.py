"""One target tensor and its golden counterpart become a row."""

from __future__ import annotations

import gc
import traceback
from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ..base.element_types import element_count
from ..base.errors import GoldwatchError, NotComparable
from ..base.safe_reading import prefetch
from ..dumps.file_source import START_BYTES
from ..dumps.golden_set import open_golden
from ..dumps.tensor_statistics import StatisticsSource
from ..tensors.dtypes import nbytes
from ..tensors.geometry import Geometry
from ..tensors.tensor import PIECE_BYTES, HeldBytes, Tensor
from .accumulator import DIVERGENCE, Accumulator, overflow
from .compare_blocks import KLPass, compare_blocks
from .metric_result import MetricResult, notes_on_shape
from .overwriting_and_cancellation import cancelling_slack, may_cancel, same_bytes
from .pair_alignment import (
    Part,
    axes_of,
    blocks_of,
    converted,
    geometry_of,
    open_counterpart,
    require_zero_padding,
    slack_of,
)
from .pair_sums import PairSums
from .pair_task import Measurement, PairTask, Settings
from .pairs_by_columns import LoadedPair, compare_together
from .rounding_slack import Slack
from .row import (
    CORRUPT,
    FAIL,
    NOT_COMPARED,
    NOTHING_FINITE,
    PASS,
    SAMPLED,
    WORST_SLICE,
    Row,
    columns_of,
)
from .slice_squares import SliceAxis
from .unchanged_files import file_states, unless_changed
from .worst_slice import borders

SPLIT_BYTES = 16 << 20
"""Target tensors of this size on are compared in shares."""

# A share takes some milliseconds, handing it over well below one.
_PART_BYTES = 8 << 20
_MOST_PARTS = 16

RARE_COLLECTIONS = (200000, 10, 10)
"""How often cycles of garbage are looked for, as gc's thresholds: rarely, what is held for each row
is walked each time. Chosen by time.
"""


def prepare_process() -> None:
    """Prepare a comparing process; called first: imports everything it needs, and makes garbage
    collection rare, since pairs and rows are never in a cycle.
    """
    gc.set_threshold(*RARE_COLLECTIONS)


def compare_pairs(
    tasks: Sequence[PairTask], settings: Settings, first: Optional[Row] = None
) -> List[Row]:
    """Compare pairs, one row each, in order; what cannot be compared becomes that row's reason.

    A task whose golden tensor and target bytes equal those of an earlier task in ``tasks`` takes
    its findings: an input those of the output that it was. Of two dumps the golden tensors are
    equal where their bytes are.

    Parameters
    ----------
    first
        The row of the first task, where that was compared already.
    """
    prefetch({task.golden.path for task in tasks} if len(tasks) > 1 else (), START_BYTES)
    if settings.exact:
        return [compare_pair(task, settings) for task in tasks]
    keys = list(zip(_readings(tasks, settings), map(_first_bytes, tasks)))
    firsts = dict(zip(reversed(keys), reversed(range(len(tasks)))))
    alone = [at for key, at in firsts.items() if at or first is None]
    together = compare_together([tasks[at] for at in alone], settings)
    known: Dict[int, Union[None, Row, LoadedPair]] = dict(zip(alone, together))
    if first is not None:
        known[0] = first
    rows: List[Row] = []
    done: Dict[Tuple[Any, ...], List[Tuple[PairTask, Row]]] = {}
    for at, (task, key) in enumerate(zip(tasks, keys)):
        alike = done.setdefault(key, [])
        twin = next(
            filter(
                None,
                (
                    _taken_over(task, other, row)
                    for other, row in alike
                    if not _judged_by_inputs(task, row)
                ),
            ),
            None,
        )
        if twin is not None:
            rows.append(in_its_memory(task, twin, settings))
            continue
        found = known.get(at)
        if isinstance(found, LoadedPair):
            row = compare_tensors(task, found.golden, found.address, settings, found)
        else:
            row = found or compare_pair(task, settings)
        if row.verdict in (PASS, FAIL):
            alike.append((task, row))
        rows.append(row)
    return rows


def _judged_by_inputs(task: PairTask, row: Row) -> bool:
    """Tell whether an output may pass by what its op was given, where another row of the same bytes
    fails, an input's.
    """
    return row.verdict == FAIL and bool(task.beside) and may_cancel(task.row.op_type)


def in_its_memory(task: PairTask, row: Row, settings: Settings) -> Row:
    """Return a row that was judged, but of an input that holds what the op wrote one that has no
    counterpart.
    """
    if settings.judge is None:
        return row
    return settings.judge.of_input(
        task.row,
        row,
        lambda: any(same_bytes(task.target.source, other.source) for other in task.beside),
    )


def compare_pair(task: PairTask, settings: Settings) -> Row:
    """Compare one pair.

    Returns
    -------
    Row
        ``pass`` or ``fail`` where the tensors could be compared, ``not_compared`` with the reason
        otherwise.
    """
    before = file_states(task)
    try:
        golden, address = open_counterpart(task, with_padding=settings.exact)
    except NotComparable as error:
        return _with_overflow(_refused(task, None, error.message, error.cause), task, settings)
    except GoldwatchError as error:
        return _refused(task, None, error.message, CORRUPT)
    except (OSError, MemoryError) as error:
        return _refused(task, None, "%s: %s" % (type(error).__name__, error), CORRUPT)
    return unless_changed(task, before, compare_tensors(task, golden, address, settings))


def compare_tensors(
    task: PairTask,
    golden: Tensor,
    address: Optional[int],
    settings: Settings,
    loaded: Optional[LoadedPair] = None,
) -> Row:
    """Compare a task's target with a golden tensor that is open, both read again where they are not
    ``loaded``; returns as :func:`compare_pair`.
    """
    try:
        if any(isinstance(side.source, StatisticsSource) for side in (task.target, golden)):
            if settings.exact:
                raise NotComparable(StatisticsSource.NO_ELEMENTS)
            from .compare_statistics import compare_statistics

            return compare_statistics(task, golden, settings)
        if settings.exact:
            from .bitwise import compare_bits

            return in_its_memory(task, compare_bits(task, golden, address), settings)
        converted_task = converted(task, golden, settings.conversions)
        if loaded is not None:
            geometry, result = loaded.form.geometry, loaded.measured(settings.metrics)
        else:
            geometry = geometry_of(converted_task, golden)
            require_zero_padding(converted_task, geometry)
            result = measure(converted_task, golden, geometry, settings)
        if settings.user_metrics or settings.agreement is not None:
            from .user_metrics import with_user_metrics

            result = with_user_metrics(converted_task, result, settings)
        return in_its_memory(
            task, row_of(converted_task, golden, address, geometry, result, settings), settings
        )
    except NotComparable as error:
        return _with_overflow(_refused(task, golden, error.message, error.cause), task, settings)
    except GoldwatchError as error:
        return _refused(task, golden, error.message, CORRUPT)
    except (OSError, MemoryError) as error:
        return _refused(task, golden, "%s: %s" % (type(error).__name__, error), CORRUPT)
    except Exception as error:  # A bug of ours costs one row, not the run; the row says so.
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = "internal error, please report it: %s: %s (%s, line %s)" % (
            type(error).__name__,
            error,
            where.name,
            where.lineno,
        )
        return _refused(task, golden, text, "internal")


def _with_overflow(row: Row, task: PairTask, settings: Settings) -> Row:
    """Return the row with the OverFlow column filled in, which needs no golden tensor."""
    return row.but(overflow=overflow_of(task.target)) if settings.overflow else row


def _refused(task: PairTask, golden: Optional[Tensor], reason: str, cause: str) -> Row:
    golden_dtype = task.row.golden_dtype if golden is None else golden.dtype.name
    return refuse(
        task.row.but(target_dtype=task.target.dtype.name, golden_dtype=golden_dtype), reason, cause
    )


def overflow_of(target: Tensor) -> Optional[bool]:
    """Tell whether a tensor overflows (:func:`goldwatch.metrics.accumulator.overflow`), padding
    included; it is read in windows.

    Returns
    -------
    None for integers and bool, and where the tensor cannot be read or decoded.
    """
    if target.dtype.kind not in ("f", "c"):
        return None
    step = max(1, PIECE_BYTES * 8 // max(1, target.dtype.bits))
    try:
        return any(
            overflow(target.elements(at, min(at + step, target.count)))
            for at in range(0, target.count, step)
        )
    except (GoldwatchError, OSError):
        return None


def refuse(row: Row, reason: str, cause: str) -> Row:
    """Return the row as not compared, for that reason."""
    return row.noted(reason, verdict=NOT_COMPARED, cause=cause)


def parts_of(task: PairTask, settings: Settings) -> int:
    """Return in how many shares a pair is compared: so many for its size, whoever works on them,
    because sums depend on their order.
    """
    if settings.exact or settings.conversions.targets(task.target.format):
        # The user's code takes a tensor as a whole, and equal bytes are compared as fast as they
        # are read.
        return 1
    size = task.nbytes
    if settings.max_elements:
        size = min(size, nbytes(task.target.dtype, settings.max_elements))
    return max(1, min(_MOST_PARTS, size // _PART_BYTES)) if size >= SPLIT_BYTES else 1


def measure(
    task: PairTask,
    golden: Tensor,
    geometry: Geometry,
    settings: Settings,
    slack: Optional[Slack] = None,
) -> MetricResult:
    """Compute the metrics of a pair, of a huge one share by share; without a ``slack``, with that
    of the two types.
    """
    parts = parts_of(task, settings) if slack is None else 1
    if parts == 1:
        axes, most = _axes(task, golden, geometry, settings), settings.max_elements
        # The second reading needs no slices, but of a sample it is the same.
        blocks = partial(blocks_of, task, golden, geometry, most=most, halves=True)
        once, again = (
            partial(blocks, borders(axes_of_pass)) for axes_of_pass in (axes, axes if most else ())
        )
        sampled = is_sampled(geometry, settings)
        return compare_blocks(
            once, settings.metrics, axes, slack or slack_of(task, golden), again, sampled
        )
    sums = sums_of(task, golden, geometry, settings, (0, parts))
    for number in range(1, parts):
        sums.merge(sums_of(task, golden, geometry, settings, (number, parts)))
    result = sums.result()
    if not result.needs_second_pass:
        return result
    second = divergence_of(task, golden, geometry, result, settings, (0, parts))
    for number in range(1, parts):
        second.merge(divergence_of(task, golden, geometry, result, settings, (number, parts)))
    return second.result()


def sums_of(
    task: PairTask, golden: Tensor, geometry: Geometry, settings: Settings, part: Part
) -> Accumulator:
    """Return the sums of one share of a pair."""
    axes = _axes(task, golden, geometry, settings)
    if not settings.max_elements:
        from .reads_past_page_cache import evicting_reads

        task, golden = evicting_reads(task, golden, last=DIVERGENCE not in settings.metrics)
    sums = Accumulator(
        settings.metrics, axes, slack_of(task, golden), is_sampled(geometry, settings)
    )
    for block in blocks_of(
        task, golden, geometry, borders(axes), part, settings.max_elements, halves=True
    ):
        sums.update(*block)
    return sums


def is_sampled(geometry: Geometry, settings: Settings) -> bool:
    """Tell whether only a sample of the elements is compared."""
    return 0 < settings.max_elements < element_count(geometry.shape)


def divergence_of(
    task: PairTask,
    golden: Tensor,
    geometry: Geometry,
    first: MetricResult,
    settings: Settings,
    part: Part,
) -> KLPass:
    """Return the second pass over one share of a pair; of a sample over the same elements as the
    first.
    """
    sums = KLPass(first)
    axis_borders = borders(_axes(task, golden, geometry, settings) if settings.max_elements else ())
    if not settings.max_elements:
        from .reads_past_page_cache import evicting_reads

        task, golden = evicting_reads(task, golden, last=True)
    for block in blocks_of(
        task, golden, geometry, axis_borders, part, settings.max_elements, halves=True
    ):
        sums.update(block.x, block.y)
    return sums


def _axes(
    task: PairTask, golden: Tensor, geometry: Geometry, settings: Settings
) -> Tuple[SliceAxis, ...]:
    return axes_of(task, golden, geometry) if WORST_SLICE in settings.metrics else ()


def row_of(
    task: PairTask,
    golden: Tensor,
    address: Optional[int],
    geometry: Geometry,
    result: MetricResult,
    settings: Settings,
) -> Row:
    """Return the finished row of a pair that could be compared."""
    notes = [*geometry.notes, *notes_on_shape(geometry.shape)]
    dtype = task.target.dtype.name
    count = element_count(geometry.shape) * (
        2 if "c" in (task.target.dtype.kind, golden.dtype.kind) else 1
    )
    sampled = result.count < count
    if sampled:
        notes.append("a sample: %d of %d elements were compared" % (result.count, count))
    row = task.row.but(
        target_dtype=dtype,
        golden_dtype=golden.dtype.name,
        golden_address=address,
        shape=geometry.shape,
        metrics=result.values,
        worst_slice=None
        if result.worst_slice is None
        else (result.worst_slice.axis, result.worst_slice.index),
        nan=result.nan,
        inf=result.inf,
        overflow=_overflow(task.target, result, sampled) if settings.overflow else None,
        verdict=result.outcome or PASS,
        warning=NOTHING_FINITE if result.nothing_finite else SAMPLED if sampled else "",
        cause="",
    )
    if settings.judge is None:
        return row.but(
            reason="; ".join(filter(None, [*result.reasons, row.reason, *result.notes, *notes]))
        )
    again = partial(_against_inputs, task, golden, geometry, result, settings)
    limited_as = task.limited_as or dtype
    return settings.judge(
        Measurement(row, result, limited_as, golden.order, slack_of(task, golden), notes, again)
    )


def _against_inputs(
    task: PairTask, golden: Tensor, geometry: Geometry, result: MetricResult, settings: Settings
) -> Optional[MetricResult]:
    """Measure as :attr:`Measurement.against_inputs` says."""
    slack = cancelling_slack(task.row.op_type, task.target, result.first or PairSums(), task.beside)
    again = measure(task, golden, geometry, settings, Slack(slack)) if slack is not None else None
    return again if again is not None and again.judged else None


def _overflow(target: Tensor, result: MetricResult, sampled: bool) -> Optional[bool]:
    """Return the OverFlow column's value; a float tensor without elements does not overflow, and a
    sample does not tell.
    """
    if target.dtype.name.startswith(("int", "uint")):
        return None  # They stand for the numbers that were compared.
    if sampled:
        return overflow_of(target)
    return False if not result.count and target.dtype.kind in ("f", "c") else result.overflow


_FINDINGS = tuple(column.name for column in columns_of(Row) if column.of_pair)


def _taken_over(task: PairTask, other: PairTask, row: Row) -> Optional[Row]:
    """Return the task's row with the findings of another that is read alike, where both have the
    same bytes.
    """
    if not same_bytes(task.target.source, other.target.source):
        return None
    columns = row.__dict__
    findings = {name: columns[name] for name in _FINDINGS}
    if task.as_stored:
        try:
            (golden, findings["golden_address"]), (theirs, _) = (
                open_golden(task.golden),
                open_golden(other.golden),
            )
        except (GoldwatchError, OSError):
            return None
        if _stored(golden) != _stored(theirs) or not same_bytes(golden.source, theirs.source):
            return None
    return task.row_with(findings)


def _readings(tasks: Sequence[PairTask], settings: Settings) -> List[int]:
    """Return a number for each task: equal ones where all is equal that decides the findings but
    the bytes.
    """
    numbers: Dict[Tuple[Any, ...], int] = {}
    of_planned: Dict[int, int] = {}
    readings = []
    for task in tasks:
        # What is planned once for all places has one form there.
        number = None if task.at is None else of_planned.get(id(task.planned))
        if number is None:
            number = numbers.setdefault(_reading(task, settings), len(numbers))
            if task.at is not None:
                of_planned[id(task.planned)] = number
        readings.append(number)
    return readings


def _reading(task: PairTask, settings: Settings) -> Tuple[Any, ...]:
    """Return all that decides a task's findings but the bytes: the golden tensor (of two dumps
    any), how both are read, and the limits.
    """
    planned = task.planned
    alike = settings.judge.alike(planned) if settings.judge is not None else ()
    golden = None if task.as_stored else (task.golden.path, task.golden.io, task.golden.index)
    return (
        golden,
        task.origin_format,
        task.origin_shape,
        task.as_stored,
        planned.reason,
        task.limited_as,
        task.final,
        alike,
        _stored(task.target),
    )


def _first_bytes(task: PairTask) -> bytes:
    """Return the first bytes of a task's target, which tell nearly all apart that differ; of a
    training many are read alike. Empty where they cannot be read: its row will say so.
    """
    source = task.target.source
    if isinstance(source, HeldBytes):
        return source.data
    try:
        return bytes(source.read(0, min(source.nbytes, START_BYTES)))
    except (OSError, GoldwatchError):
        return b""


def _stored(tensor: Tensor) -> Tuple[Any, ...]:
    """Return all that makes numbers of a tensor's bytes, and how many bytes there are."""
    elements = (tensor.dtype.name, tensor.dtype.storage, tensor.source.nbytes)
    return elements + (
        tensor.shape,
        tensor.format,
        tensor.sub_format,
        tensor.original_shape,
        tensor.order,
    )
