"""Compares one pair of tensors in detail: metrics, verdict, findings, files."""

from __future__ import annotations

import itertools
import math
import os
import re
from dataclasses import replace
from itertools import permutations
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ...base.atomic_writing import write_atomically
from ...base.element_types import element_count
from ...base.errors import GoldwatchError
from ...base.fast_dataclasses import dataclass
from ...base.naming import shortened_file_name
from ...base.wording import of_two_dumps
from ...dumps.golden_set import GoldenEntry
from ...metrics.compare_pair import compare_pair
from ...metrics.pair_alignment import converted, geometry_of, open_counterpart
from ...metrics.pair_task import PairTask, Settings
from ...metrics.patterns import Finding
from ...metrics.patterns.element_errors import errors_of
from ...metrics.patterns.masked_on_both_sides import Masks
from ...metrics.patterns.one_pass_findings import Evidence
from ...metrics.patterns.squared_error_by_index import reals
from ...metrics.row import FAIL, METRICS, PASS, Row
from ...metrics.worst_slice import MASK
from ...reports.row_json import row_document
from ...store.json_numbers import plain_tree
from ...tensors.geometry import Geometry
from ...tensors.golden_order_windows import ordered_windows
from ...tensors.storage_layouts import Layout, layout_of, plain_letters
from ...tensors.tensor import Tensor
from .better_golden import Probe, best_other
from .element_files import Elements, Written, write_bad, write_chosen, write_elements
from .element_statistics import Measures

MOST = 10000


class Top:
    """Keeps the ``n`` elements of the largest keys.

    Parameters
    ----------
    n
        How many, at most :data:`MOST`.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.positions: Array = np.zeros(0, np.int64)
        self.x: Optional[Array] = None
        self.y: Optional[Array] = None
        self._keys: Optional[Array] = None

    def update(self, start: int, keys: Array, x: Array, y: Array) -> None:
        """Add elements ``start`` and following.

        Parameters
        ----------
        keys
            float64 or uint64; NaN is not ranked.
        """
        if keys.dtype.kind == "f":
            larger = ~np.isnan(keys)
        else:
            larger = np.ones(keys.shape, np.bool_)
        if self._keys is not None and self._keys.size == self.n:
            # A later element must be larger to come before one that is kept.
            larger &= keys > self._keys[-1]
        chosen = np.flatnonzero(larger)
        if chosen.size > 2 * self.n:
            least = np.partition(keys[chosen], chosen.size - self.n)[chosen.size - self.n]
            above, equal = chosen[keys[chosen] > least], chosen[keys[chosen] == least]
            chosen = np.concatenate([above, equal[: self.n - above.size]])
        if not chosen.size:
            return
        parts = [(keys[chosen], start + chosen, x[chosen], y[chosen])]
        if self._keys is not None:
            parts.insert(0, (self._keys, self.positions, self.x, self.y))
        columns = [np.concatenate(column) for column in zip(*parts)]
        falling = -columns[0] if columns[0].dtype.kind == "f" else ~columns[0]
        order = np.lexsort((columns[1], falling))[: self.n]
        self._keys, self.positions, self.x, self.y = (column[order] for column in columns)


Array = Any

# Of the squared error, what another order must explain; chosen, no trial.
_CLAIMED = 0.9
_WINDOW_ELEMENTS = 1 << 20
_MOST_AXES = 5


def reordered(
    probe: Probe, golden: Tensor, sizes: Sequence[int], letters: Sequence[str]
) -> Optional[Finding]:
    """Return the order of the golden's axes in which the target holds its values, or None.

    The golden is read once, window by window.
    """
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    if not 2 <= len(axes) <= _MOST_AXES or golden.order != "C" or golden.dtype.kind == "c":
        return None
    places = np.concatenate([np.arange(low, high) for low, high in probe.runs])
    orders = list(permutations(axes))
    orders_moved = np.stack([_moved(places, sizes, order) for order in orders])
    needed, back = np.unique(orders_moved, return_inverse=True)
    values = _gather(golden, needed)[back.reshape(orders_moved.shape)]
    x = probe.target
    good = np.isfinite(x) & np.isfinite(values).all(axis=0)
    with np.errstate(over="ignore"):
        left = np.square(x[good] - values[:, good]).sum(axis=1)
    # The first order is the one that was compared.
    if not good.any() or not left[0] > 0:
        return None
    best = int(np.argmin(left[1:])) + 1
    share = 1.0 - float(left[best] / left[0])
    if not share >= _CLAIMED:
        return None
    order = _with_short_axes(orders[best], sizes)
    now = "".join(letters[axis] for axis in order)
    sentence = ("the target holds the golden's values with axes %s in the order %s (tried "
        "at %d places)") % (
        "".join(letters), now, len(places),
    )  # fmt: skip
    return Finding("axis-swap", share, sentence, {"order": order})


def _moved(places: Array, sizes: Sequence[int], order: Sequence[int]) -> Array:
    """Return where the golden has what stands at ``places`` of its transposed self."""
    strides = [element_count(sizes[axis + 1 :]) for axis in range(len(sizes))]
    rest, moved = places, np.zeros_like(places)
    for axis in reversed(order):
        rest, at = np.divmod(rest, sizes[axis])
        moved += at * strides[axis]
    return moved


def _with_short_axes(order: Tuple[int, ...], sizes: Sequence[int]) -> List[int]:
    """Return the order with the axes of size 1 where they were."""
    longer = iter(order)
    return [axis if size == 1 else next(longer) for axis, size in enumerate(sizes)]


def _gather(golden: Tensor, needed: Array) -> Array:
    """Return the elements at some places, which ascend, as float64."""
    gathered = np.empty(needed.size)
    for start in range(0, golden.count, _WINDOW_ELEMENTS):
        stop = min(start + _WINDOW_ELEMENTS, golden.count)
        low, high = np.searchsorted(needed, [start, stop])
        if low < high:
            gathered[low:high] = reals(golden.elements(start, stop)[needed[low:high] - start])
    return gathered


ALL, BAD, NONE = "all", "bad", "none"
DEFAULT_TOP = 20
_LEAST_ULP = -1
_LONGEST_TAIL = "_output_00000_absolute_error_topn.csv"
"""As long as what is put behind an op's name."""

WriteMany = Callable[[List[Tuple[Any, ...]]], List[Written]]


@dataclass(frozen=True)
class DetailSettings:
    """What is written of each tensor.

    Attributes
    ----------
    out
        The folder, which is there.
    rows
        ``all`` elements, ``bad`` ones (off by more than the rounding of the target's type), or
        ``none``.
    max_rows
        Rows of one element file at most.
    top
        How many of the largest errors are listed.
    compare
        The metrics and limits.
    """

    out: str
    rows: str = ALL
    max_rows: int = 1000000
    top: int = DEFAULT_TOP
    compare: Settings = Settings()


class TensorDetail(NamedTuple):
    """The result for one tensor.

    Attributes
    ----------
    row
        As the result table would have it.
    document
        Its entry in detail.json.
    files
        What was written, relative to OUT.
    """

    row: Row
    document: Dict[str, Any]
    files: Tuple[str, ...]


@dataclass
class _Pass:
    """What one pass over the elements collects."""

    measures: Measures
    evidence: Evidence
    probe: Probe
    absolute: Top
    relative: Top
    least: List[float]
    greatest: List[float]
    masks: Masks

    def update(self, window: Any) -> None:
        x, y = window.x.reshape(-1), window.y.reshape(-1)
        window = self.masks.without(window)
        errors = errors_of(window.x.reshape(-1), window.y.reshape(-1))
        self.measures.update(window, errors)
        self.evidence.update(window, errors)
        self.probe.update(window.start, x)
        keys = errors.absolute
        if keys.dtype.kind == "f":
            # What is NaN on one side only is the worst of all.
            keys = np.where(np.isnan(keys), np.inf, keys)
        self.absolute.update(window.start, keys, x, y)
        self.relative.update(
            window.start,
            np.where((y == 0) | ~np.isnan(errors.relative), errors.relative, np.inf),
            x,
            y,
        )
        for number, values in enumerate((errors.absolute, errors.relative)):
            known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
            if known.size:
                self.least[number] = min(self.least[number], known.min().item())
                self.greatest[number] = max(self.greatest[number], known.max().item())


def detail_of(
    task: PairTask, others: Iterable[GoldenEntry], settings: DetailSettings, write_many: WriteMany
) -> TensorDetail:
    """Compare a pair, classify its error, and write its files.

    Parameters
    ----------
    others
        Golden tensors, one of which may be the right one.
    write_many
        Calls :func:`goldwatch.tools.detail.element_files.write_elements` with each of several lists
        of arguments.
    """
    row = compare_pair(task, settings.compare)
    if row.verdict not in (PASS, FAIL):
        return not_compared(row)
    golden, _ = open_counterpart(task)
    task = converted(task, golden, settings.compare.conversions)
    geometry = geometry_of(task, golden)
    letters = axis_letters(task, golden, geometry)
    if not geometry.sizes:
        # A scalar is one element along one axis.
        geometry = replace(
            geometry, layout=Layout("ND", (("0", ""),), (1,)), letters=("0",), sizes=(1,)
        )
        letters = ("0",)
    if not geometry.count:
        # Its other dims may be larger than the memory, and there is nothing to measure along them.
        geometry = replace(geometry, sizes=(0,) * len(geometry.sizes))
    first_pass = _collect(task, golden, geometry, letters, row, settings)
    elements = Elements(task.target, golden, geometry, letters, first_pass.masks)
    golden_key = task.golden.path, task.golden.io, task.golden.index
    rest = (entry for entry in others if (entry.path, entry.io, entry.index) != golden_key)
    findings = _findings(first_pass, golden, elements, rest, row) if geometry.count else []
    if task.golden.kind == "npu" and task.golden.io == row.kind:
        findings = [replace(one, sentence=of_two_dumps(one.sentence, [row.op])) for one in findings]
    stem = "%s_%s_%d" % (_file_name_of(row), row.kind, row.tensor_index or 0)
    files = _write(elements, first_pass, stem, row, settings, write_many)
    document = _document(row, first_pass, findings, elements)
    document["files"] = list(files)
    return TensorDetail(row, document, files)


def _file_name_of(row: Row) -> str:
    """Return an op's name as files have it, a slice's with its context and thread."""
    tail = row.tensor.split(":%s:%d" % (row.kind, row.tensor_index or 0), 1)[-1]
    # Letters of all scripts stay: names of as many Chinese characters would be one name.
    name = re.sub(r"[^\w-]", "_", row.op + tail)
    return shortened_file_name(name, _LONGEST_TAIL)[: -len(_LONGEST_TAIL)]


def not_compared(row: Row) -> TensorDetail:
    """Return the detail of a tensor that cannot be compared."""
    empty: Dict[str, Any] = {
        "histogram": None,
        "signed_ulp_histogram": None,
        "target": None,
        "golden": None,
        "where": {},
        "findings": [],
    }
    document = {**_head(row), **empty, "files": []}
    return TensorDetail(row, document, ())


def axis_letters(task: PairTask, golden: Tensor, geometry: Geometry) -> Tuple[str, ...]:
    """Return the names of the golden's axes: the letters of its layout, ``0``, ``1`` … where it has
    none.
    """
    letters = geometry.letters
    if task.as_stored:
        # The names of a device layout's stored axes (``N C1 H W C0``) where each is one.
        layout = layout_of(golden.format, golden.shape)
        if layout is None or len(layout.axes) != len(letters) or layout.name == "FRACTAL_NZ":
            return letters
        return tuple(letter + part for letter, part in layout.axes)
    if letters and not letters[0].isdigit():
        return letters
    for name in (golden.format, task.origin_format):
        plain = plain_letters(name, len(letters)) if name is not None else None
        if plain and not plain[0].isdigit():
            return tuple(plain)
    return letters


def _collect(
    task: PairTask,
    golden: Tensor,
    geometry: Geometry,
    letters: Tuple[str, ...],
    row: Row,
    settings: DetailSettings,
) -> _Pass:
    first = _passed(task, golden, geometry, letters, row, settings, Masks())
    masks = Masks()
    for window in (
        ordered_windows(task.target, golden, geometry) if _may_mask(first.measures) else ()
    ):
        masks.update(window.x.reshape(-1), window.y.reshape(-1))
    if not masks.there:
        return first
    first_pass = _passed(task, golden, geometry, letters, row, settings, masks)
    first_pass.measures.target, first_pass.measures.golden = (
        first.measures.target,
        first.measures.golden,
    )
    return first_pass


def _may_mask(measures: Measures) -> bool:
    return all(
        side.least is not None and side.least <= MASK for side in (measures.target, measures.golden)
    )


def _passed(
    task: PairTask,
    golden: Tensor,
    geometry: Geometry,
    letters: Tuple[str, ...],
    row: Row,
    settings: DetailSettings,
    masks: Masks,
) -> _Pass:
    largest = float(row.metrics.get("MaxAbsoluteError", math.nan))
    result = _Pass(
        Measures(task.target.dtype, golden.dtype, geometry.sizes, largest),
        Evidence(task.target.dtype.name, geometry, letters),
        Probe(geometry.count),
        Top(settings.top),
        Top(settings.top),
        [math.inf, math.inf],
        [-math.inf, -math.inf],
        masks,
    )
    for window in ordered_windows(task.target, golden, geometry):
        result.update(window)
    return result


def _findings(
    first_pass: _Pass, golden: Tensor, elements: Elements, others: Iterable[GoldenEntry], row: Row
) -> List[Finding]:
    shares = first_pass.measures.shares
    more: List[Optional[Finding]] = []
    if first_pass.evidence.bad:
        total = shares.total * shares.unit**2

        def explained(tensor: Tensor) -> Optional[float]:
            # How much of the squared error is gone against another golden tensor; None where it
            # cannot be read.
            rest = 0.0
            try:
                for window in ordered_windows(elements.target, elements.golden, elements.geometry):
                    x, y = (
                        window.x.reshape(-1),
                        tensor.elements(window.start, window.start + window.x.size),
                    )
                    with np.errstate(all="ignore"):
                        square = np.square(errors_of(x, y).signed)
                    rest += float(
                        square[
                            np.isfinite(square) & ~elements.masks.of(x, window.y.reshape(-1))
                        ].sum()
                    )
            except (GoldwatchError, OSError):
                return None
            return max(0.0, 1.0 - rest / total) if total > 0 and math.isfinite(rest) else None

        more.append(best_other(others, first_pass.probe, golden, explained))
        if first_pass.evidence.even is not None:
            more.append(
                reordered(first_pass.probe, golden, elements.geometry.sizes, elements.letters)
            )
    distance = float(row.metrics.get("RelativeEuclideanDistance", math.nan))
    besides = [finding for finding in more if finding is not None]
    return first_pass.evidence.findings(shares, distance, besides, first_pass.measures.ulps.bound())


def _write(
    elements: Elements,
    first_pass: _Pass,
    stem: str,
    row: Row,
    settings: DetailSettings,
    write_many: WriteMany,
) -> Tuple[str, ...]:
    base = os.path.join(settings.out, stem)
    written = [base + "_summary.txt"]
    write_atomically(
        written[0], _summary(elements, first_pass, row).encode("utf-8", "backslashreplace")
    )
    for name, top in (("absolute", first_pass.absolute), ("relative", first_pass.relative)):
        path = "%s_%s_error_topn.csv" % (base, name)
        write_chosen(elements, path, top.positions, top.x, top.y)
        written.append(path)
    paths = ("%s_%d.csv" % (base, number) for number in itertools.count())
    if settings.rows == ALL:
        count = elements.geometry.count
        starts = range(0, max(count, 1), settings.max_rows)
        calls = [
            (write_elements, elements, next(paths), start, min(start + settings.max_rows, count))
            for start in starts
        ]
        written += [file.path for file in write_many(calls)]
    elif settings.rows == BAD:
        written += [file.path for file in write_bad(elements, paths, settings.max_rows)]
    # Those of an earlier run behind the last one of this.
    for path in itertools.takewhile(os.path.isfile, paths):
        os.unlink(path)
    return tuple(os.path.basename(path) for path in written)


def _summary(elements: Elements, first_pass: _Pass, row: Row) -> str:
    letters = elements.letters
    name = "".join(letters) if letters and not letters[0].isdigit() else "ND"
    lines = [
        ("TotalCount", str(elements.geometry.count)),
        ("LeftOp", row.op),
        ("RightOp", row.golden if row.golden != "*" else row.op),
        ("Format", name),
    ]
    for number, what in enumerate(("Absolute", "Relative")):
        lines.append(("Min%sError" % what, _short(first_pass.least[number])))
        lines.append(("Max%sError" % what, _short(first_pass.greatest[number])))
    return "".join("%s: %s\n" % line for line in lines)


def _short(value: Any) -> str:
    """Return a number exactly when it is whole; NaN where no element has such an error."""
    if isinstance(value, int):
        return str(value)
    return "%.9g" % value if math.isfinite(value) else "NaN"


def _head(row: Row) -> Dict[str, Any]:
    document = row_document(row, METRICS)
    names = (
        "tensor",
        "verdict",
        "reason",
        "shape",
        "target_dtype",
        "golden_dtype",
        "target_file",
        "golden_file",
        "metrics",
        "nan",
        "inf",
    )
    return {name: document[name] for name in names}


def _document(
    row: Row, first_pass: _Pass, findings: Sequence[Finding], elements: Elements
) -> Dict[str, Any]:
    measures = first_pass.measures
    document = _head(row)
    document.update(
        axes=list(elements.letters),
        count=element_count(elements.geometry.sizes),
        bad=first_pass.evidence.bad,
        histogram=measures.errors.document(),
        signed_ulp_histogram=measures.ulps.document(_LEAST_ULP),
        target=plain_tree(measures.target.document()),
        golden=plain_tree(measures.golden.document()),
        where=first_pass.evidence.where(measures.shares),
        findings=[finding_document(finding) for finding in findings],
    )
    return document


def finding_document(finding: Finding) -> Dict[str, Any]:
    """Return a finding as detail.json has it."""
    detail = plain_tree(finding.detail)
    return {
        "kind": finding.kind,
        "share": round(min(1.0, max(0.0, finding.share)), 6),
        "detail": detail,
        "sentence": finding.sentence,
    }
