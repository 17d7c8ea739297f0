"""Many small pairs of one form at once: their sums side by side, and the metrics and the judgement
as columns.

Pairs are of one form where element types, shapes and layouts are the same: how the two tensors are
laid side by side is then found once, and their elements are read together. A pair that does not
pass is measured and judged by itself from what was read (:mod:`.compare_pair`), and so is what
columns do not tell: NaN, Inf, masks, a side of zeros, whole numbers. Tensors of several blocks are
read by themselves. The sums are taken pair by pair: of 16 elements they take 2 % of the time of a
row.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ..base.errors import GoldwatchError
from ..base.fast_dataclasses import changed
from ..dumps.file_source import FileSource
from ..tensors.dtypes import Array, decode, nbytes
from ..tensors.geometry import Geometry
from ..tensors.tensor import HeldBytes, MemorySource, Tensor
from .accumulator import DIVERGENCE, HALF_MAX, are_ordinary, needed_parts
from .compare_blocks import compare_blocks
from .compiled.binding import KernelSums
from .compiled.choice import compiled_kernel
from .kullback_leibler import divergences_of_each
from .metric_result import SPREAD, MetricResult, notes_on_shape, spread_of, values_of
from .numpy_kernel import fast_sums, load, load_limit, workspace
from .pair_alignment import axes_of, blocks_of, geometry_of, open_counterpart, slack_of
from .pair_sums import PairSums
from .pair_task import PairTask, Settings
from .rounding_slack import Slack, is_next_to_nothing
from .row import DIFFERENT, PASS, WORST_SLICE, Row
from .slice_squares import (
    NO_NEEDS,
    SliceAxis,
    Where,
    add_squares,
    add_squares_of_each,
    needs_of,
)
from .unchanged_files import LEAST_BYTES
from .worst_slice import MASK, borders, worst_slices

_YY, _DD = map(KernelSums._fields.index, ("yy", "dd"))
_SOURCES = (HeldBytes, FileSource, MemorySource)
_MOST_FORMS = 4096
_NONE = {"target": 0, "golden": 0}


class _Side(NamedTuple):
    """Where the elements of a pair's only block lie among those of its tensor: the first, and the
    step along each axis.
    """

    first: int
    steps: Tuple[int, ...]


class Member(NamedTuple):
    """One of several pairs of one form: its number, and its golden tensor with its address."""

    number: int
    task: PairTask
    golden: Tensor
    address: Optional[int]


class Form(NamedTuple):
    """What pairs of one form have in common.

    Attributes
    ----------
    geometry, axes, slack
        How target and golden are laid side by side, along which axes slices are told apart, and
        what rounding alone may change.
    where
        Where the only block lies in the golden.
    sides
        Where its elements lie in target and golden.
    """

    geometry: Geometry
    axes: Tuple[SliceAxis, ...]
    slack: Slack
    where: Where
    sides: Tuple[_Side, _Side]


_forms: Dict[Tuple[Any, ...], Optional[Form]] = {}


class LoadedPair(NamedTuple):
    """A pair that columns do not tell to pass: its golden tensor with its address, its form, and
    the elements of its only block, of target and golden.
    """

    golden: Tensor
    address: Optional[int]
    form: Form
    x: np.ndarray
    y: np.ndarray

    def measured(self, metrics: Tuple[str, ...]) -> MetricResult:
        """Return its metrics."""
        axes = self.form.axes if WORST_SLICE in metrics else ()
        block = self.x, self.y, self.form.where.start, self.form.where.strides
        return compare_blocks(lambda: [block], metrics, axes, self.form.slack)


def compare_together(
    tasks: Sequence[PairTask], settings: Settings
) -> List[Union[None, Row, LoadedPair]]:
    """Return the rows of those pairs that pass by what columns tell, the elements of others of one
    block; None for any other.
    """
    rows: List[Union[None, Row, LoadedPair]] = [None] * len(tasks)
    if settings.exact or settings.user_metrics or settings.agreement is not None:
        return rows
    groups: Dict[Tuple[Any, ...], List[Member]] = {}
    for number, task in enumerate(tasks):
        target = task.target
        if (
            task.as_stored
            or task.golden.kind == "npu"
            or not 0 < target.source.nbytes < LEAST_BYTES
            or 0 < settings.max_elements < target.count
            or settings.conversions.targets(target.format)
        ):
            continue
        try:
            golden, address = open_counterpart(task)
        except (GoldwatchError, OSError, MemoryError):
            continue
        if _has_bytes(target) and _has_bytes(golden):
            key = _form_key(task, golden)
            groups.setdefault(key, []).append(Member(number, task, golden, address))
    for key, members in groups.items():
        if key not in _forms:
            if len(_forms) >= _MOST_FORMS:
                _forms.clear()
            _forms[key] = _form_of(members[0].task, members[0].golden)
        form = _forms[key]
        if form is None:
            continue
        shape = form.where.shape
        try:
            x = _elements([member.task.target for member in members], form.sides[0], shape)
            y = _elements([member.golden for member in members], form.sides[1], shape)
        except (GoldwatchError, OSError):
            continue
        if DIVERGENCE in settings.metrics:
            # As both passes over a single pair have it.
            x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        for at, (number, _, golden, address) in enumerate(members):
            rows[number] = LoadedPair(golden, address, form, x[at], y[at])
        if members[0].task.target.dtype.kind == members[0].golden.dtype.kind == "f":
            for number, row in _passing_rows(form, members, x, y, settings):
                rows[number] = row
    return rows


def _has_bytes(tensor: Tensor) -> bool:
    source = tensor.source
    return isinstance(source, _SOURCES) and source.nbytes >= nbytes(tensor.dtype, tensor.count)


def _form_key(task: PairTask, golden: Tensor) -> Tuple[Any, ...]:
    target = task.target
    return (
        target.dtype.name,
        target.dtype.storage,
        target.shape,
        target.format,
        target.sub_format,
        target.original_shape,
        golden.dtype.name,
        golden.dtype.storage,
        golden.shape,
        golden.format,
        golden.order,
        task.origin_format,
        task.origin_shape,
        task.reshaped,
        task.limited_as,
        task.final,
    )


def _form_of(task: PairTask, golden: Tensor) -> Optional[Form]:
    """Return the form of a pair; None where it has more than one block, or a block is no regular
    view of either tensor.
    """
    numbered = []
    for tensor in (task.target, golden):
        storage = np.dtype(tensor.dtype.storage or "V1")
        # Elements are numbered as bits of their own type.
        least = {"f": 16, "i": 8, "u": 8}.get(tensor.dtype.kind, 1 << 16)
        if tensor.dtype.bits < least or not storage.isnative:
            return None
        places = np.arange(tensor.count, dtype="u%d" % storage.itemsize)
        if tensor.count > 1 << 8 * min(storage.itemsize, 4) or not tensor.count:
            return None
        numbered.append(changed(tensor, source=MemorySource(places)))
    try:
        geometry = geometry_of(task, golden)
        axes = axes_of(task, golden, geometry)
        if geometry.padded is not None:
            return None
        blocks = blocks_of(
            changed(task, target=numbered[0]), numbered[1], geometry, borders(axes), halves=True
        )
        block, sides = next(blocks), []
        for tensor, values in zip(numbered, block[:2]):
            places = values.view("u%d" % values.itemsize) >> (
                8 * values.itemsize - tensor.dtype.bits
            )
            steps = tuple(step // values.itemsize for step in values.strides)
            first = int(places.reshape(-1)[0])
            regular: Array = np.full(values.shape, first, np.int64)
            for axis, step in enumerate(steps):
                shape = [-1 if number == axis else 1 for number in range(len(steps))]
                regular += np.arange(values.shape[axis]).reshape(shape) * step
            if not np.array_equal(places, regular):
                return None
            sides.append(_Side(first, steps))
        where = Where(block.x.shape, block.start, block.strides)
        if any(True for _ in blocks) or (axes and needs_of(axes, where).values):
            return None
    except GoldwatchError:
        return None
    return Form(geometry, axes, slack_of(task, golden), where, (sides[0], sides[1]))


def _passing_rows(
    form: Form, members: Sequence[Member], x: np.ndarray, y: np.ndarray, settings: Settings
) -> Iterator[Tuple[int, Row]]:
    """Yield the rows of those pairs of one form that pass, each with its number."""
    metrics = settings.metrics
    tasks = [member.task for member in members]
    axes = form.axes if WORST_SLICE in metrics else ()
    with np.errstate(all="ignore"):
        sums, good, squares = _sums_of_each(x, y, metrics, axes, form.where)
        # What may be a mask, what rounding near zero explains, and a side of zeros are looked at
        # one by one.
        good &= (sums.x_low > MASK) | (sums.y_low > MASK)
        good &= np.equal(sums.dd, 0.0) | is_next_to_nothing(
            form.slack.distance * math.sqrt(sums.n), np.sqrt(sums.yy)
        )
        good &= np.greater(sums.xx, 0.0) & np.greater(sums.yy, 0.0)
        values = values_of(sums)
        values[SPREAD] = list(map(spread_of, *(column.tolist() for column in values[SPREAD])))
        worst = worst_slices(axes, *squares, sums.n)
        values[WORST_SLICE] = values["RelativeEuclideanDistance"] if worst is None else worst[0]
        if DIVERGENCE in metrics:
            values[DIVERGENCE], plain = divergences_of_each(x, y, sums, good)
            good &= plain
    values[DIFFERENT] = np.full(len(tasks), math.nan)
    dtype = tasks[0].target.dtype
    judged = (
        [("", "")] * len(tasks)
        if settings.judge is None
        else settings.judge.passing(
            {name: values[name] for name in metrics if name != SPREAD},
            [task.planned for task in tasks],
            dtype.name,
            tasks[0].limited_as or dtype.name,
        )
    )
    large = np.maximum(-sums.x_low, sums.x_high) >= HALF_MAX
    overflow = (large if dtype.name == "float16" else np.zeros(len(tasks), np.bool_)).tolist()
    columns = [
        column if isinstance(column, list) else column.tolist()
        for column in (values[name] for name in metrics)
    ]
    slices: List[Any] = (
        [None] * len(tasks)
        if worst is None
        else [
            (axis, index) if distance > 0.0 else None
            for distance, axis, index in zip(*(column.tolist() for column in worst))
        ]
    )
    notes = [*form.geometry.notes, *notes_on_shape(form.geometry.shape)]
    for at in np.flatnonzero(good).tolist():
        passing = judged[at]
        if passing is None:
            continue
        number, task, golden, address = members[at]
        decided_by, remark = passing
        yield (
            number,
            task.row_with(
                {
                    "target_dtype": dtype.name,
                    "golden_dtype": golden.dtype.name,
                    "golden_address": address,
                    "shape": form.geometry.shape,
                    "metrics": dict(zip(metrics, [column[at] for column in columns])),
                    "worst_slice": slices[at],
                    "nan": _NONE,
                    "inf": _NONE,
                    "overflow": overflow[at] if settings.overflow else None,
                    "verdict": PASS,
                    "reason": "; ".join(filter(None, (task.planned.reason, *notes, remark))),
                    "decided_by": decided_by,
                    "warning": "",
                    "cause": "",
                }
            ),
        )


def _elements(tensors: Sequence[Tensor], side: _Side, shape: Tuple[int, ...]) -> Array:
    """Return the elements of tensors of one form, a block behind the other."""
    dtype, count = tensors[0].dtype, tensors[0].count
    size = nbytes(dtype, count)
    data = b"".join(
        [
            tensor.source.data[:size]
            if isinstance(tensor.source, HeldBytes)
            else tensor.source.read(0, size).tobytes()
            for tensor in tensors
        ]
    )
    halves = compiled_kernel() is not None
    flat = decode(np.frombuffer(data, np.uint8), dtype, count * len(tensors), halves=halves)
    steps = [step * flat.itemsize for step in (count, *side.steps)]
    return np.ndarray((len(tensors), *shape), flat.dtype, flat, side.first * flat.itemsize, steps)


Squares = Tuple[List[np.ndarray], List[np.ndarray]]


def _sums_of_each(
    x: np.ndarray,
    y: np.ndarray,
    metrics: Tuple[str, ...],
    axes: Tuple[SliceAxis, ...],
    where: Where,
) -> Tuple[Any, np.ndarray, Squares]:
    """Return the sums of n pairs, named as in :class:`goldwatch.metrics.pair_sums.PairSums`, as
    arrays; which of them are those of ordinary numbers, bool, [n]; and for each axis the sums of
    squares of its slices, [n, slices], of the golden and of the difference.
    """
    n, kernel = len(x), compiled_kernel()
    relative, spread = needed_parts(metrics)
    limits = load_limit(x.dtype), load_limit(y.dtype)
    y_squares, d_squares = ([np.zeros((n, axis.size)) for axis in axes] for _ in range(2))
    if kernel is None:
        table = _sums_by_numpy(x, y, relative, spread, axes, where, (y_squares, d_squares))
    else:
        needs = needs_of(axes, where) if axes else NO_NEEDS
        table, squares = kernel.sums_of_each(x, y, relative, spread, *needs[:3])
        for side, at, tables in zip((y_squares, d_squares), (_YY, _DD), squares):
            wholes = np.ascontiguousarray(table[:, at])
            add_squares_of_each(side, axes, where, *tables, wholes)
    sums: Any = PairSums()
    for name, column in zip(KernelSums._fields, np.ascontiguousarray(table.T)):
        setattr(sums, name, column)
    sums.n = x[0].size
    # As of one pair: the sums of equal elements are rounded; their mean and variance are not.
    same = sums.x_low == sums.x_high, sums.y_low == sums.y_high
    sums.x_base, sums.y_base = (
        np.where(constant, low, base)
        for constant, low, base in zip(same, (sums.x_low, sums.y_low), (sums.x_base, sums.y_base))
    )
    sums.x_mean, sums.x_m2, sums.y_mean, sums.y_m2 = (
        np.where(constant, 0.0, moment)
        for constant, moment in zip(
            (same[0], same[0], same[1], same[1]),
            (sums.x_mean, sums.x_m2, sums.y_mean, sums.y_m2),
        )
    )
    return sums, are_ordinary(sums, *limits), (y_squares, d_squares)


def _sums_by_numpy(
    x: np.ndarray,
    y: np.ndarray,
    relative: bool,
    spread: bool,
    axes: Tuple[SliceAxis, ...],
    where: Where,
    squares: Squares,
) -> np.ndarray:
    """Return the sums as the compiled kernel's, [n, len(KernelSums)], and add the squares."""
    work, limits = workspace(), (load_limit(x.dtype), load_limit(y.dtype))
    table = np.full((len(x), len(KernelSums._fields)), math.nan)
    for at in range(len(x)):

        def visit(y64: np.ndarray, d: Optional[np.ndarray], _: PairSums, at: int = at) -> None:
            for side, values in zip(squares, (y64, d)):
                if axes and values is not None:
                    add_squares([totals[at] for totals in side], axes, values, where)

        sides = load(x[at], work.x, work.bits), load(y[at], work.y, work.bits)
        sums = fast_sums(*sides, limits, work, relative, spread, visit)
        if sums is not None:
            table[at] = [getattr(sums, name) for name in KernelSums._fields]
    return table
