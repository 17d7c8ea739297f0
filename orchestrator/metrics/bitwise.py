"""Two tensors bit for bit: which elements differ, by how many steps of their type, and whether
these lie in blocks.

Equal bytes are equal tensors, whatever they hold: the two are read side by side, and nothing is
decoded before a byte differs. That reads each byte once; a digest of each would read as much and
then prove less.

A step (ulp) is from one number of a type to the next one: 1 of an integer, the last place of a
float; the two zeros are one number, and infinity is the one behind the largest. NaN is no number:
such pairs are counted, and in no distance.

Elements are neighbours where they lie side by side in memory, and a stretch is as many of them as
differ without a gap. k differing elements of n that chance had spread would make k·(n − k + 1)/n
stretches (Wald and Wolfowitz, "On a test whether two samples are from the same population", 1940).
They lie in blocks where they make half of that or less, or fill half or more of the smallest box
around them, which is half of the tensor or less; of fewer than :data:`LEAST_DESCRIBED` elements
nothing is said.
"""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import NotComparable
from ..base.wording import plural
from ..tensors.dtypes import Array, DType, decode, dtype_by_numpy
from ..tensors.geometry import is_stored_alike
from ..tensors.storage_layouts import OUTER, layout_of
from ..tensors.tensor import Tensor
from .pair_task import PairTask
from .reads_past_page_cache import evicting_reads
from .row import COUNT, DIFFERENT, EXACT_LIMIT, FAIL, FIRST, PASS, STRETCHES, ULPS, Row

# Fewer elements are told one by one, not as a block or scattered; chosen, no trial.
LEAST_DESCRIBED = 8

# A whole number of elements of every type, in the cache, and small enough that the memory of the
# last piece is taken again.
_PIECE_BYTES = 3 << 16
_BYTE = dtype_by_numpy(np.uint8)


class Bits:
    """Counts and places of the differing elements of two tensors that are stored alike.

    Parameters
    ----------
    dtype, shape
        Of both, as stored.

    Attributes
    ----------
    dtype
        As given.
    count, total
        Elements that differ, and all.
    first
        Number of the first that differs in C order of ``shape``, and both values; None where none
        does.
    ulps
        The largest distance in steps; None where no pair of two numbers differs.
    nans
        Of how many that differ one side at least is NaN.
    stretches
        How many they make.
    box
        (first, behind the last) index along each axis.
    """

    def __init__(self, dtype: DType, shape: Sequence[int]) -> None:
        self.dtype, self._shape = dtype, tuple(shape)
        self.total, self.count, self.stretches, self.nans = element_count(shape), 0, 0, 0
        self.first: Optional[Tuple[int, str, str]] = None
        self.ulps: Optional[int] = None
        self.box: List[Tuple[int, int]] = []
        self._last = -2

    def add(self, x: Array, y: Array, start: int) -> None:
        """Add a piece of both tensors: uint8 arrays of whole elements, some of which differ; the
        first element is number ``start``.
        """
        count = min(self.total - start, x.size * 8 // self.dtype.bits)
        mine, theirs = (_codes(side, self.dtype, count) for side in (x, y))
        places = np.flatnonzero((mine != theirs).any(axis=1))
        if not places.size:
            return  # bits behind the last packed element
        pairs = [decode(side, self.dtype, count)[places] for side in (x, y)]
        if self.first is None:
            texts = [_shown(side[0]) for side in pairs]
            if texts[0] == texts[1]:
                texts = [
                    "%s (%s)" % (text, _in_hex(side[places[0]]))
                    for text, side in zip(texts, (mine, theirs))
                ]
            self.first = start + int(places[0]), texts[0], texts[1]
        self.count += int(places.size)
        self._measure(mine[places], theirs[places], *pairs)
        places += start
        self.stretches += int((np.diff(places) > 1).sum()) + (int(places[0]) != self._last + 1)
        self._last = int(places[-1])
        spans = (
            [
                (int(axis.min()), int(axis.max()) + 1)
                for axis in np.unravel_index(places, self._shape)
            ]
            if self._shape
            else []
        )
        before = self.box or spans
        self.box = [(min(one[0], two[0]), max(one[1], two[1])) for one, two in zip(before, spans)]

    def _measure(self, mine: Array, theirs: Array, x: Array, y: Array) -> None:
        numbers = np.ones(len(x), bool)
        if x.dtype.kind in "fc":
            numbers = ~(np.isnan(x) | np.isnan(y))
            self.nans += int((~numbers).sum())
        first, second = (
            _ranks(mine[numbers], x[numbers], self.dtype),
            _ranks(theirs[numbers], y[numbers], self.dtype),
        )
        if first.size:
            largest = int(np.where(first > second, first - second, second - first).max())
            self.ulps = max(largest, self.ulps or 0)

    @property
    def expected(self) -> float:
        """How many stretches chance would make."""
        return self.count * (self.total - self.count + 1) / self.total

    @property
    def in_blocks(self) -> Optional[bool]:
        """Whether the differing elements lie in blocks, as this module defines it; None where that
        cannot be told.
        """
        if self.count < LEAST_DESCRIBED or self.count == self.total:
            return None
        size = element_count([stop - start for start, stop in self.box])
        return 2 * self.stretches <= self.expected or (
            2 * size <= self.total and 2 * self.count >= size
        )


def _codes(raw: Array, dtype: DType, count: int) -> Array:
    """Return the elements' bits, [element, part]: a complex number has two parts."""
    if dtype.bits < 8:
        return (
            decode(raw, dtype, count)
            .view("u%d" % decode(raw[:1], dtype, 1).itemsize)
            .reshape(count, 1)
        )
    parts = 2 if dtype.kind == "c" else 1
    order = ">" if (dtype.storage or "").startswith(">") else "<"
    return raw.view("%su%d" % (order, dtype.bits // 8 // parts))[: count * parts].reshape(
        count, parts
    )


def _ranks(codes: Array, values: Array, dtype: DType) -> Array:
    """Return numbers (uint64) of which the next one is that of the type's next number; no value may
    be NaN.
    """
    if dtype.kind not in "fc":
        whole = values.astype(np.int64 if values.dtype.kind != "u" else np.uint64).view(np.uint64)
        return whole.reshape(-1) ^ np.uint64(0 if values.dtype.kind == "u" else 1 << 63)
    if dtype.bits <= 8:
        every = decode(np.arange(256, dtype=np.uint8), dtype, 256 * 8 // dtype.bits)
        return np.searchsorted(np.unique(every[~np.isnan(every)]), values).astype(np.uint64)
    bits = codes.dtype.itemsize * 8
    half = np.uint64(1 << (bits - 1))
    wide = codes.astype(np.uint64).reshape(-1)
    size = wide & np.uint64((1 << (bits - 1)) - 1)
    return np.where(wide & half != 0, half - size, half + size)


def _shown(value: np.generic) -> str:
    if isinstance(value, np.floating):
        return ("%.17g" if value.dtype.itemsize > 4 else "%.9g") % value
    return str(value)


def _in_hex(parts: Array) -> str:
    """Return an element's bits: two NaN, or two values that are both true, look alike without."""
    return " ".join("0x%0*x" % (2 * parts.dtype.itemsize, int(part)) for part in parts)


def compare_bits(task: PairTask, golden: Tensor, address: Optional[int]) -> Row:
    """Return the row of a pair: ``pass`` where both tensors have the same bytes, else ``fail``.

    Parameters
    ----------
    golden, address
        The golden tensor, and its device address.

    Raises
    ------
    NotComparable
        They are not stored alike, so that their bytes say nothing.
    GoldwatchError
        A file cannot be read.
    """
    target = task.target
    _require_alike(target, golden)
    types = {
        "target_dtype": target.dtype.name,
        "golden_dtype": golden.dtype.name,
        "golden_address": address,
        "shape": target.shape,
    }
    row = task.row.but(decided_by=EXACT_LIMIT, **types)
    passed, golden = evicting_reads(task, golden, last=True)
    bits = _compared(passed.target, golden)
    if not bits.count:
        return row.but(verdict=PASS, metrics=_EQUAL)
    text = sentence(bits, target)
    return row.but(
        verdict=FAIL,
        metrics=_metrics(bits),
        reason="; ".join(filter(None, (text, task.row.reason))),
    )


def _require_alike(target: Tensor, golden: Tensor) -> None:
    sides = [
        (side.dtype.name, side.dtype.storage, side.order, side.source.nbytes)
        for side in (target, golden)
    ]
    if sides[0] == sides[1] and is_stored_alike(target, golden):
        return
    descriptions = [
        "%s %s %s" % (side.dtype.name, side.format, list(side.shape)) for side in (target, golden)
    ]
    why = (
        "the bytes, or the axes, are in another order"
        if descriptions[0] == descriptions[1]
        else "%s against %s" % tuple(descriptions)
    )
    raise NotComparable("not stored alike, so that bytes cannot be compared: %s" % why)


def _compared(target: Tensor, golden: Tensor) -> Bits:
    x, y = target.source, golden.source
    shape = target.shape if target.order == "C" else target.shape[::-1]
    # Of a type that is not decoded bytes are all that can be told apart.
    bits = Bits(target.dtype, shape) if target.dtype.decodable else Bits(_BYTE, (x.nbytes,))
    for start in range(0, x.nbytes, _PIECE_BYTES):
        size = min(_PIECE_BYTES, x.nbytes - start)
        mine, theirs = x.read(start, size), y.read(start, size)
        if not _equal(mine, theirs):
            bits.add(mine, theirs, start * 8 // bits.dtype.bits)
    return bits


def _equal(x: Array, y: Array) -> bool:
    # Eight bytes at a time, several times as fast.
    whole = x.size & ~7
    same = np.array_equal(x[:whole].view(np.uint64), y[:whole].view(np.uint64))
    return same and bool((x[whole:] == y[whole:]).all())


_EQUAL: Mapping[str, float] = {DIFFERENT: 0.0, COUNT: 0.0, ULPS: 0.0, STRETCHES: 0.0}


def _metrics(bits: Bits) -> Mapping[str, float]:
    assert bits.first is not None
    ulps = float("nan") if bits.ulps is None else float(bits.ulps)
    share = bits.count / bits.total
    return {
        DIFFERENT: share,
        COUNT: float(bits.count),
        FIRST: float(bits.first[0]),
        ULPS: ulps,
        STRETCHES: float(bits.stretches),
    }


def sentence(bits: Bits, target: Tensor) -> str:
    """Return how many elements differ, where the first is and by how much, and whether they lie in
    blocks.
    """
    assert bits.first is not None
    place, mine, theirs = bits.first
    what, where = (
        ("elements", _place(place, target))
        if target.dtype.decodable
        else ("bytes", "byte %d" % place)
    )
    parts = [
        "%d of %d %s differ, the first at %s: %s for %s"
        % (bits.count, bits.total, what, where, mine, theirs)
    ]
    if bits.ulps and target.dtype.decodable:
        parts.append(
            "by at most %s" % (plural(bits.ulps, "ulp") if target.dtype.kind in "fc" else bits.ulps)
        )
    elif bits.ulps == 0 and target.dtype.kind in "fc":
        parts.append("only signs of zeros")
    if bits.nans:
        parts.append("%d with a NaN" % bits.nans)
    if bits.count == bits.total > 1:
        parts.append("all over the tensor")
    elif bits.in_blocks is not None:
        within = ", ".join(
            "%d:%d" % span for span in (bits.box if target.order == "C" else bits.box[::-1])
        )
        how = "in blocks" if bits.in_blocks else "scattered"
        parts.append(
            "%s: %d stretches (chance: %.0f) within [%s]"
            % (how, bits.stretches, bits.expected, within)
        )
    return ", ".join(parts)


def _place(number: int, target: Tensor) -> str:
    """Return an element's index in the stored shape, and in the original one where a device's
    layout hides it.
    """
    shape = target.shape if target.order == "C" else target.shape[::-1]
    index = [int(axis) for axis in np.unravel_index(number, shape)] if shape else []
    stored = str(index if target.order == "C" else index[::-1])
    original = _original_place(number, target)
    return stored if original is None else "%s (%s)" % (original, "%s %s" % (target.format, stored))


def _original_place(number: int, target: Tensor) -> Optional[str]:
    layout = layout_of(
        target.format,
        target.shape,
        max(1, target.sub_format) if target.format == "FRACTAL_Z" else 1,
    )
    if layout is None or not layout.blocks or layout.groups > 1 or target.original_shape is None:
        return None
    dims = next(iter(layout.fits(target.original_shape, layout.letters, target.shape, False)), None)
    if dims is None:
        return None
    blocks = dict(layout.blocks)
    index_by_letter = dict.fromkeys(dims, 0)
    for (letter, part), at in zip(layout.axes, np.unravel_index(number, layout.axis_sizes(dims))):
        index_by_letter[letter] += int(at) * (blocks[letter] if part == OUTER else 1)
    if any(index_by_letter[letter] >= dims[letter] for letter in dims):
        return "padding"
    return str([index_by_letter[letter] for letter in layout.letters])
