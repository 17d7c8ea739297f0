"""Sums of squares per slice of a tensor: an error in one channel of a thousand must not hide in the
whole tensor's sums.

A slice is all elements with one index along an axis of the golden. Blocks come with their place in
the golden, so each block adds its sums to the slices that it touches: no copy of the tensor, a few
per cent of the kernel's time.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from .pair_sums import common_unit, ldexp
from .slice_squares import SliceAxis, Tables, Where, add_squares


def median(values: np.ndarray) -> float:
    """Return the median of all elements, as ``numpy.median`` does: the mean of the two in the
    middle where their number is even.

    numpy's own imports ``numpy.ma`` when it is first called, and takes ten times as long for the
    few numbers that it is asked about here.

    Parameters
    ----------
    values
        Floats, of any shape; NaN where there are none, or any of them is NaN.
    """
    if not values.size:
        return float("nan")
    middle = values.size // 2
    # NaN comes last.
    parted = np.partition(values, (max(0, middle - 1), middle, values.size - 1), axis=None)
    if parted[-1] != parted[-1]:
        return float("nan")
    return float(np.mean(parted[middle - 1 + values.size % 2 : middle + 1]))


MOST_SLICES = 1 << 18
"""Axes that are longer than this are not sliced: the sums of their slices would grow into a copy of
the tensor.
"""

MASK = -5000.0
"""Values at or below this on both sides may be a mask (attention scores get -1e4 and less where a
token must not look).
"""

_REST = 8.0
"""They are one when every other golden element is smaller than a mask's least magnitude by this
factor at least; chosen, no trial.
"""


def slice_axes(
    shape: Sequence[int],
    channel: Optional[int] = None,
    order: str = "C",
    by_own_size: bool = False,
) -> Tuple[SliceAxis, ...]:
    """Return the axes along which a golden of this shape is sliced: the channel axis, or all that
    are longer than 1.

    Parameters
    ----------
    channel
        Number of the channel axis; None where there is none. One of size 1 counts as none.
    order
        ``C`` or ``F``: how the golden is stored.
    by_own_size
        As of :class:`goldwatch.metrics.slice_squares.SliceAxis`.
    """
    axis_numbers = range(len(shape)) if channel is None or shape[channel] == 1 else (channel,)
    axes, inner = [], 1
    for axis in range(len(shape)) if order == "F" else reversed(range(len(shape))):
        if axis in axis_numbers and 1 < shape[axis] <= MOST_SLICES:
            axes.append(SliceAxis(axis, shape[axis], inner, by_own_size))
        inner *= shape[axis]
    return tuple(sorted(axes))


def borders(axes: Sequence[SliceAxis]) -> frozenset[int]:
    """Return the golden strides at which blocks must not merge axes
    (:func:`goldwatch.tensors.aligned_blocks.placed_blocks`).
    """
    return frozenset(stride for axis in axes for stride in (axis.inner, axis.inner * axis.size))


MUCH_LARGER = 4.0
"""Along an axis ``by_own_size``, slices of more than so many times the ‖y‖ of a slice do not hide
its errors (docs/design/verdict.md).
"""

_LEAST_SCORE = 1e-3
"""Root mean square up to which values are those of what is not there: thresholds of scores begin at
0.001 (evaluation of detectors on COCO). Slices of smaller ones are measured as if they were so
large: healthy networks have rows of 1e-7 beside others of 0.9, which are off by several times
themselves (docs/design/verdict.md).
"""

_LEAST_OF_OWN_SIZE = 16
"""Slices of fewer elements are not measured by their own size: a single value near 0, as of a class
that is not there, is off by itself."""

LEFT_TO_CHANCE = 0.1
"""Chance is asked about distances beyond this only: all default limits are."""

_TIE = 1.0 - 1e-12
"""Of slices that are off by the same but for the rounding of sums the first is named, whoever sums
in which order.
"""

_SMALL_SLICE = 64
"""Slices of more elements than this are as far off as the whole tensor; in smaller ones chance has
a say; chosen, no trial.
"""

_ENOUGH_SLICES = 8
"""Slices of at least the mean norm that it takes to know how far off they usually are; chosen, no
trial.
"""

BY_CHANCE = (
    ", but the worst of so many small slices is so far off by chance where the others are as far "
    "off as here"
)
"""What has to be said where that explains a missed limit."""

_ABOUT = 1.0 - 1e-9
"""Slices of one norm have that of their mean, but for rounding."""

_CHANCE = 1e-6
"""How often the worst of all slices of a tensor may be further off than chance is taken to
explain.
"""


@dataclass(frozen=True)
class WorstSlice:
    """The largest relative distance of any slice, the golden's axis and the index along it.

    Attributes
    ----------
    beyond_chance
        The largest distance along an axis where chance does not explain it (:func:`_by_chance`):
        ``distance`` where slices are large or few, 0 where it explains all.
    times_smaller
        How many times larger the ‖y‖ of the largest slice along the axis is, where slices were
        measured by their own size; else 1.
    """

    distance: float
    axis: int
    index: int
    beyond_chance: float
    times_smaller: float = 1.0


class _Side:
    """Sums of squares per slice of one vector, in units of ``2**(2*unit)``."""

    __slots__ = ("unit", "empty", "sums")

    def __init__(self, axes: Sequence[SliceAxis]) -> None:
        self.unit = 0
        self.empty = True
        self.sums = [np.zeros(axis.size) for axis in axes]

    def rescale(self, unit: int) -> None:
        if unit != self.unit:
            for sums in self.sums:
                np.ldexp(sums, 2 * (self.unit - unit), out=sums)
            self.unit = unit

    def merge(self, other: _Side) -> None:
        if other.empty:
            return
        unit = common_unit(self.unit, other.unit, self.empty, other.empty)
        self.rescale(unit)
        shift = 2 * (other.unit - unit)
        for mine, theirs in zip(self.sums, other.sums):
            mine += np.ldexp(theirs, shift) if shift else theirs
        self.empty = False

    def plus(self, other: _Side) -> _Side:
        both = _Side(())
        both.sums = [np.zeros(sums.size) for sums in self.sums]
        both.merge(self)
        both.merge(other)
        return both

    def __getstate__(self) -> List[Any]:
        # Shares of a huge tensor travel between processes: only the slices that they touched.
        touched = []
        for sums in self.sums:
            used = np.flatnonzero(sums)
            low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
            touched.append((sums.size, low, sums[low:high].copy()))
        return [self.unit, self.empty, touched]

    def __setstate__(self, state: List[Any]) -> None:
        self.unit, self.empty, touched = state
        self.sums = []
        for size, low, part in touched:
            sums = np.zeros(size)
            sums[low : low + part.size] = part
            self.sums.append(sums)


class SliceSums:
    """Sums of squares of the golden and of the difference, per slice of each axis; picklable,
    mergeable.

    Elements that may be a mask are collected apart, because only the whole tensor tells whether
    they are one.
    """

    def __init__(self, axes: Sequence[SliceAxis]) -> None:
        self.axes = tuple(axes)
        self._y, self._d = _Side(axes), _Side(axes)
        self._masked: Optional[Tuple[_Side, _Side]] = None
        self._left_out: Optional[_Side] = None
        self._rest_high = 0.0
        self._mask_low = math.inf

    def add(
        self,
        y: np.ndarray,
        d: Optional[np.ndarray],
        y_span: Tuple[float, float],
        where: Where,
        tables: Tuple[Optional[Tables], Optional[Tables]] = (None, None),
    ) -> None:
        """Add one block of ordinary numbers.

        Parameters
        ----------
        y, d
            Golden and difference (the sign does not matter), contiguous float64 of one size in the
            block's C order; None: no difference. Empty where they are not needed beside ``tables``.
        y_span
            Smallest and largest value of ``y``.
        tables
            The sums that :func:`goldwatch.metrics.slice_squares.needs_of` asks for, of the golden
            and of the difference; None without.
        """
        self._rest_high = max(self._rest_high, -y_span[0], y_span[1])
        if d is not None:
            self._add(self._d, d, where, 0, tables[1])
        if y_span != (0.0, 0.0):
            self._add(self._y, y, where, 0, tables[0])

    def may_mask(self, x_low: float, y_low: float, y_high: float) -> bool:
        """Tell whether a block with these extremes may hold a mask: it goes to
        :meth:`add_careful`.
        """
        return y_low <= MASK and x_low <= MASK and y_high * _REST <= -MASK

    def add_careful(
        self,
        x: np.ndarray,
        y: np.ndarray,
        d: np.ndarray,
        units: Tuple[int, int],
        where: Where,
        good: Optional[np.ndarray] = None,
    ) -> None:
        """Add one block of any finite numbers, those that may be a mask apart.

        Parameters
        ----------
        x, y, d
            Target, golden and difference as float64, not finite elements as 0.
        units
            Binary exponents by which ``y`` and ``d`` are divided before they are squared; 0 for
            ordinary numbers.
        good
            Which elements are finite on both sides; None: all.
        """
        if good is not None:
            if self._left_out is None:
                self._left_out = _Side(self.axes)
            self._add(self._left_out, (~good).astype(np.float64), where, 0)
        scaled = [np.ldexp(values, -unit) for values, unit in zip((y, d), units)]
        low = y <= MASK
        masked = low & (x <= MASK)
        if not low.all():
            self._rest_high = max(
                self._rest_high, float(np.max(np.absolute(y), where=~low, initial=0.0))
            )
        if masked.any():
            self._mask_low = min(self._mask_low, -float(np.max(y, where=masked, initial=-math.inf)))
            if self._masked is None:
                self._masked = (_Side(self.axes), _Side(self.axes))
            for side, values, unit in zip(self._masked, scaled, units):
                self._add(side, values * masked, where, unit)
                values *= ~masked
        for side, values, unit in zip((self._y, self._d), scaled, units):
            self._add(side, values, where, unit)

    def _add(
        self,
        side: _Side,
        values: np.ndarray,
        where: Where,
        unit: int,
        tables: Optional[Tables] = None,
    ) -> None:
        if unit or side.unit:
            if tables is None and not values.any():
                return
            fresh = _Side(self.axes)
            fresh.unit, fresh.empty = unit, False
            add_squares(fresh.sums, self.axes, values, where, tables)
            side.merge(fresh)
        else:
            side.empty = False
            add_squares(side.sums, self.axes, values, where, tables)

    def merge(self, other: SliceSums) -> None:
        """Add the sums of other elements of the same tensor."""
        self._y.merge(other._y)
        self._d.merge(other._d)
        if other._masked is not None:
            if self._masked is None:
                self._masked = (_Side(self.axes), _Side(self.axes))
            for mine, theirs in zip(self._masked, other._masked):
                mine.merge(theirs)
        if other._left_out is not None:
            if self._left_out is None:
                self._left_out = _Side(self.axes)
            self._left_out.merge(other._left_out)
        self._rest_high = max(self._rest_high, other._rest_high)
        self._mask_low = min(self._mask_low, other._mask_low)

    def worst(
        self, count: int, masks: bool = False, slack: float = 0.0, sampled: bool = False
    ) -> Optional[WorstSlice]:
        """Return the slice with the largest distance (of several the first), None without axes.

        The distance of a slice is ‖x − y‖ over the larger of ‖y‖ and the arithmetic mean of all
        slices' ‖y‖ (along an axis ``by_own_size``: of those that are not much larger); infinite
        where that is 0 and x differs. Slices of which every element is masked or not finite do not
        count.

        Parameters
        ----------
        count
            How many elements were added, without those that are masked or not finite.
        masks
            What may be a mask is one, whatever else is there.
        slack
            How far rounding alone may move each element: so much, as a norm, is taken off ‖x − y‖.
        sampled
            The blocks were a sample: slices of zeros may not have been met at all, and do not
            count.
        """
        y, d = self._y, self._d
        hiding = [] if self._left_out is None else [self._left_out]
        if self._masked is not None:
            if self._are_masks(masks):
                hiding.append(self._masked[0])
            else:
                y, d = y.plus(self._masked[0]), d.plus(self._masked[1])
        worst_so_far: Optional[Tuple[float, int, int]] = None
        beyond, times_smaller = 0.0, 1.0
        for number, (axis, yy, dd) in enumerate(zip(self.axes, y.sums, d.sums)):
            norms = np.sqrt(yy)
            counted = norms.size - (
                _hidden(norms, [side.sums[number] for side in hiding]) if hiding else 0
            )
            if sampled:
                counted = int(np.count_nonzero(norms))
            floor = float(np.add.reduce(norms)) / max(1, counted)
            distances = np.sqrt(dd)
            if slack:
                each = count / (max(1, counted) if sampled else norms.size)
                distances = np.maximum(
                    distances - math.ldexp(slack * math.sqrt(each), -d.unit), 0.0
                )
            elements = count / max(1, counted)
            floors: Any = floor
            if axis.by_own_size and elements >= _LEAST_OF_OWN_SIZE:
                least = ldexp(_LEAST_SCORE * math.sqrt(elements), -y.unit)
                floors = _floors_by_own_size(norms, floor, least)
            if floor > 0.0:
                distances /= np.maximum(norms, floors)
            else:
                distances[distances > 0.0] = math.inf
            largest = distances.max()
            index = int((distances >= largest * _TIE).argmax())
            distance = ldexp(float(largest), d.unit - y.unit)
            candidates = (
                LEFT_TO_CHANCE < distance < math.inf and elements <= _SMALL_SLICE and not sampled
            )
            if not candidates or largest > _by_chance(
                distances[norms >= floors * _ABOUT], elements
            ):
                beyond = max(beyond, distance)
            if worst_so_far is None or distance * _TIE > worst_so_far[0]:
                worst_so_far = distance, axis.axis, index
                own = axis.by_own_size and norms[index] > 0.0
                times_smaller = float(norms.max() / norms[index]) if own else 1.0
        return None if worst_so_far is None else WorstSlice(*worst_so_far, beyond, times_smaller)

    def _are_masks(self, masks: bool) -> bool:
        return masks or 0.0 < self._rest_high * _REST <= self._mask_low

    def unmasked_distance(self, masks: bool = False) -> Optional[float]:
        """Return ‖x − y‖ / ‖y‖ of all elements that are no mask; None where nothing is masked, or
        nothing else is there.
        """
        if self._masked is None or not self._are_masks(masks) or not self._y.sums:
            return None
        norm, off = (math.sqrt(float(np.add.reduce(side.sums[0]))) for side in (self._y, self._d))
        return math.ldexp(off / norm, self._d.unit - self._y.unit) if norm > 0.0 else None


def worst_slices(
    axes: Sequence[SliceAxis], y: Sequence[np.ndarray], d: Sequence[np.ndarray], count: int
) -> Any:
    """Return :meth:`SliceSums.worst` of n tensors of ordinary numbers, none of them all zero:
    distance, axis and index, [n]; None without axes.

    Parameters
    ----------
    y, d
        For each axis the sums of squares of its slices, [n, slices], of the golden and of the
        difference.
    count
        How many elements each tensor has.
    """
    worst: Any = None
    for axis, yy, dd in zip(axes, y, d):
        norms = np.sqrt(yy)
        floor = np.add.reduce(norms, axis=1)[:, None] / axis.size
        floors, elements = floor, count / axis.size
        if axis.by_own_size and elements >= _LEAST_OF_OWN_SIZE:
            least = _LEAST_SCORE * math.sqrt(elements)
            floors = np.array(
                [_floors_by_own_size(*each, least) for each in zip(norms, floor[:, 0].tolist())]
            )
        distances = np.sqrt(dd) / np.maximum(norms, floors)
        largest = distances.max(axis=1)
        index = (distances >= largest[:, None] * _TIE).argmax(axis=1)
        if worst is None:
            worst = largest, np.full(index.size, axis.axis), index
        else:
            found = largest * _TIE > worst[0]
            news = largest, axis.axis, index
            worst = tuple(np.where(found, new, old) for new, old in zip(news, worst))
    return worst


def _floors_by_own_size(norms: np.ndarray, floor: float, least: float) -> np.ndarray:
    """Return for each slice the mean ‖y‖ of all slices of at most :data:`MUCH_LARGER` times its
    own, of one of zeros the median of the others; none below ``least`` or above ``floor``.
    """
    ordered = np.sort(norms[norms > 0.0])
    if not ordered.size:
        return np.zeros(norms.size)
    counts = np.searchsorted(ordered, norms * MUCH_LARGER, "right")
    means = np.cumsum(ordered)[counts - 1] / np.maximum(counts, 1)
    means = np.where(norms > 0.0, means, ordered[ordered.size // 2])
    return np.minimum(np.maximum(means, least), floor)


def _hidden(norms: np.ndarray, hiding: Sequence[np.ndarray]) -> int:
    """Return how many slices have elements that hide behind a mask, and no other."""
    hidden = np.zeros(norms.size, np.bool_)
    for sums in hiding:
        hidden |= sums > 0.0
    return int(np.count_nonzero(hidden & (norms == 0.0)))


def _by_chance(distances: np.ndarray, elements: float) -> float:
    """Return how far off the worst slice may be where errors are normally distributed; 0 where
    slices are few.

    A slice of m elements with errors of deviation s is off by at most s·(√m + √(2·ln(n/p))) in all
    but a share p of tensors of n slices (Laurent and Massart 2000, lemma 1). s follows from the
    median: that of the sum of squares is s²·m·(1 − 2/(9·m))³ (Wilson, Hilferty).

    Parameters
    ----------
    distances
        Of the n slices of at least the mean norm: that of smaller ones is measured against the
        mean, and smaller.
    elements
        m, of each slice.
    """
    if distances.size < _ENOUGH_SLICES or elements < 1.0:
        return 0.0
    deviation = median(distances) / math.sqrt(elements * (1.0 - 2.0 / (9.0 * elements)) ** 3)
    return deviation * (math.sqrt(elements) + math.sqrt(2.0 * math.log(distances.size / _CHANCE)))
