"""Findings about the error of a pair that one pass over its elements allows: from its sums and
samples.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ...base.element_types import element_count
from ...tensors.geometry import Geometry
from ...tensors.golden_order_windows import Window
from ...tensors.storage_layouts import INNER
from ...tensors.type_precision import rounding_of
from .aligned_pair import AlignedPair
from .difference import BY_CHANCE
from .element_errors import Errors, is_bad
from .finding import CLAIMED, Finding
from .pattern_search import best_of_each, find_patterns, is_between_parts, spoiled_sentence
from .region_patterns import MORE_THAN_OTHERS, chance_of_part, fewest, region_of
from .squared_error_by_index import SquaredErrorByIndex

# By their time.
FULL_ELEMENTS = 1 << 18
"""Larger tensors are sampled."""

_SAMPLE_ELEMENTS = 1 << 16
# An axis of more than twice so many indices is kept whole in a sample of its own; chosen, no
# trial.
_LEAST = 8


class Sample:
    """The elements at chosen indices of each axis.

    Parameters
    ----------
    indices
        Of each axis, ascending.
    """

    def __init__(self, indices: Sequence[Array]) -> None:
        self.indices = [np.asarray(entry) for entry in indices]
        self.shape = tuple(len(entry) for entry in self.indices)
        self._x: Any = None
        self._y: Any = None

    def update(self, window: Window) -> None:
        """Take a window's elements."""
        here, there = [], []
        for entry, (low, high) in zip(self.indices, window.ranges):
            first, last = np.searchsorted(entry, [low, high])
            if first == last:
                return
            here.append(slice(int(first), int(last)))
            there.append(entry[first:last] - low)
        if self._x is None:
            self._x, self._y = (
                np.zeros(self.shape, window.x.dtype),
                np.zeros(self.shape, window.y.dtype),
            )
        chosen = np.ix_(*there) if there else ()
        self._x[tuple(here)], self._y[tuple(here)] = window.x[chosen], window.y[chosen]

    def pair(self, dtype: str, letters: Tuple[str, ...], total: int = 0) -> AlignedPair:
        """Return the elements side by side."""
        return AlignedPair(self._x, self._y, dtype, letters, total or self._x.size)


class EvenSample:
    """Elements spread evenly over a tensor, without their places."""

    def __init__(self, count: int) -> None:
        # An odd step meets every index of axes whose sizes are powers of two.
        self._step = -(-count // FULL_ELEMENTS) | 1
        self._x: List[Array] = []
        self._y: List[Array] = []

    def update(self, window: Window) -> None:
        """Take a window's elements."""
        first = -window.start % self._step
        self._x.append(window.x.reshape(-1)[first :: self._step].copy())
        self._y.append(window.y.reshape(-1)[first :: self._step].copy())

    def pair(self, dtype: str, total: int) -> AlignedPair:
        """Return the elements side by side."""
        return AlignedPair(np.concatenate(self._x), np.concatenate(self._y), dtype, (), total)


def samples_of(sizes: Sequence[int]) -> List[Sample]:
    """Return the samples of a tensor: itself where it is small; else one that has both ends of
    every axis, alike for axes of one size, and one for each axis with all of its indices.
    """
    if element_count(sizes) <= FULL_ELEMENTS:
        return [Sample([np.arange(size) for size in sizes])]
    samples = [_shrunk(sizes, None)]
    samples += [
        _shrunk(sizes, axis)
        for axis, size in enumerate(sizes)
        if 2 * _LEAST < size <= _SAMPLE_ELEMENTS // 4
    ]
    return samples


def _shrunk(sizes: Sequence[int], selection: Any) -> Sample:
    """Return a sample of bounded size that keeps one axis whole (None: none), the longest axes cut
    first, equal ones alike.
    """
    lengths = list(sizes)
    while element_count(lengths) > _SAMPLE_ELEMENTS:
        longest = max(lengths[axis] for axis in range(len(lengths)) if axis != selection)
        if longest <= 1:
            break
        same = [
            axis for axis in range(len(lengths)) if lengths[axis] == longest and axis != selection
        ]
        for axis in same:
            lengths[axis] = max(1, longest // 2)
    return Sample([_ends(size, length) for size, length in zip(sizes, lengths)])


def _ends(size: int, length: int) -> Array:
    """Return so many indices from both ends: they run backwards to themselves."""
    if length >= size:
        return np.arange(size)
    half = max(1, length // 2)
    return np.concatenate([np.arange(half), np.arange(size - half, size)])


Array = Any

MOST_FEW = 256
"""So many elements at most are few; of a tensor, at most one in 1,024."""

SLOTS = "C0"
_PLACED = ("axis-swap", "axis-flip", "shift", "channel-permutation")
# How far (times) an error may be from the one that is expected of its kind; chosen, no trial.
_ALIKE = 4.0
# Noise of rounding is at most so many units of the last place anywhere; chosen, no trial.
_FEW_ULPS = 8.0
# What may be left of the squares of x + y where signs are flipped; chosen, no trial.
_FLIPPED = 0.01
# Along an axis more indices are no plain answer; so few elements are told one by one.
_FEW_INDICES, _FEWEST_ELEMENTS = 5, 2


class Evidence:
    """What the findings rest on.

    Parameters
    ----------
    dtype
        The target's element type as the DataType column names it.
    geometry
        How the target is brought to the golden's layout.
    letters
        The axes' names.
    """

    def __init__(self, dtype: str, geometry: Geometry, letters: Tuple[str, ...]) -> None:
        self.dtype = dtype
        self.geometry = geometry
        self.letters = letters
        self.samples = samples_of(geometry.sizes)
        self.even = EvenSample(geometry.count) if len(self.samples) > 1 else None
        self.bad = 0
        self.zero = True
        # Of the largest errors: their squares' roots, places, and the golden and target elements.
        self._few = np.zeros((4, 0))
        # How many, how many in the target, the first and the last place, how many infinities of
        # opposite signs.
        self.spoiled = {"nan": [0, 0, -1, 0, 0], "inf": [0, 0, -1, 0, 0]}

    def update(self, window: Window, errors: Errors) -> Array:
        """Take a window; return which of its elements are off by more than rounding."""
        for sample in self.samples:
            sample.update(window)
        if self.even is not None:
            self.even.update(window)
        x, y = window.x.reshape(-1), window.y.reshape(-1)
        self.zero = self.zero and not x.any()
        self._keep_largest(window.start, np.abs(errors.signed), x, y)
        bad = is_bad(x, y, self.dtype)
        self.bad += int(np.count_nonzero(bad))
        if not np.isfinite(errors.signed).all():
            self._count_spoiled(window.start, x, y)
        return bad

    def _keep_largest(self, start: int, size: Array, x: Array, y: Array) -> None:
        least = float(self._few[0].min()) if self._few.shape[1] >= MOST_FEW else 0.0
        with np.errstate(invalid="ignore"):
            places = np.flatnonzero((size > least) & (size < np.inf))
        if places.size > MOST_FEW:
            places = places[np.argpartition(-size[places], MOST_FEW - 1)[:MOST_FEW]]
        if places.size:
            sides = (np.real(side[places]).astype(np.float64) for side in (y, x))
            candidates = np.concatenate(
                [self._few, [size[places], (start + places).astype(np.float64), *sides]], axis=1
            )
            self._few = candidates[:, np.argsort(-candidates[0], kind="stable")[:MOST_FEW]]

    def _count_spoiled(self, start: int, x: Array, y: Array) -> None:
        for kind, test in (("nan", np.isnan), ("inf", np.isinf)):
            mine, theirs = test(x), test(y)
            opposite = (
                mine & theirs & (x != y)
                if kind == "inf" and "c" not in (x.dtype.kind, y.dtype.kind)
                else np.zeros_like(mine)
            )
            differ = (mine != theirs) | opposite
            counts = self.spoiled[kind]
            places = np.flatnonzero(differ)
            if places.size:
                counts[0] += places.size
                counts[1] += int(np.count_nonzero(mine & ~theirs))
                counts[4] += int(np.count_nonzero(opposite))
                counts[2] = start + int(places[0]) if counts[2] < 0 else counts[2]
                counts[3] = start + int(places[-1])

    def findings(
        self,
        shares: SquaredErrorByIndex,
        distance: float,
        more: Sequence[Finding] = (),
        ulps: float = math.inf,
        background: float = 0.0,
    ) -> List[Finding]:
        """Return what explains the error, best first; ``healthy`` alone where every element is
        within rounding.

        Parameters
        ----------
        shares
            Of the same windows.
        distance
            The relative distance of the two sides; NaN where there is none.
        more
            What was found besides: another golden tensor that fits, an order of axes.
        ulps
            No element is off by more of the type's steps.
        background
            Relative distance that needs no explanation: what the operator's inputs explain.
        """
        if not self.bad:
            return [
                Finding(
                    "healthy",
                    1.0,
                    "every element is its golden one within the rounding of %s" % self.dtype,
                )
            ]
        noise = 2.0 ** -rounding_of(self.dtype).fraction_bits
        if distance <= noise and ulps <= _FEW_ULPS:
            sentence = "random noise of %.3g times the rounding of %s" % (
                distance / noise,
                self.dtype,
            )
            return [Finding("healthy", 1.0, sentence, {"distance": distance})]
        spoiled = [
            finding
            for finding in (self._spoiled("nan"), self._spoiled("inf"))
            if finding is not None
        ]
        findings_found = [
            finding
            for finding in self._patterns(shares, background)
            if finding.kind not in ("nan", "inf", "region", "healthy")
        ]
        findings_found = [
            finding
            for finding in findings_found
            if not is_between_parts(finding, len(self.letters))
        ]
        regions = self._places(shares, background)
        findings_found += regions[:1] + list(more)
        if self.zero:
            findings_found.append(Finding("flush-to-zero", 1.0, "every element of the target is 0"))
        # A second axis is told as well: an error may sit in one row of one channel.
        return spoiled + best_of_each(findings_found) + regions[1:]

    def _spoiled(self, kind: str) -> Optional[Finding]:
        count, mine, first, last, opposite = self.spoiled[kind]
        if not count:
            return None
        at = [int(part) for part in np.unravel_index(first, self.geometry.sizes or (1,))]
        word = "NaN" if kind == "nan" else "Inf"
        sentence = spoiled_sentence(word, count, self.geometry.count, mine, opposite, at)
        from_there_on = count == last - first + 1
        if from_there_on and count > 1:
            sentence += ", and from there on all" + (
                "" if last + 1 == self.geometry.count else " the %d that follow" % (count - 1)
            )
        return Finding(
            kind, 1.0, sentence, {"count": count, "first": at, "without_gap": from_there_on}
        )

    def _patterns(self, shares: SquaredErrorByIndex, background: float) -> List[Finding]:
        if self.even is None:
            return find_patterns(self.samples[0].pair(self.dtype, self.letters), background)
        expected = _relative(float(shares.sums[0].sum()), float(shares.energy[0].sum()))
        even = self.even.pair(self.dtype, self.geometry.count)
        # What is wrong elsewhere tells nothing of what the sample shows.
        patterns = find_patterns(even, background) if _alike(even, expected) else []
        for sample in self.samples:
            placed_pair = sample.pair(self.dtype, self.letters)
            if _alike(placed_pair, expected):
                placed = find_patterns(placed_pair, background)
                patterns += [
                    _of_sample(finding)
                    for finding in placed
                    if finding.kind in _PLACED or "axis" in finding.detail
                ]
        # Elements that are counted in a sample are not those of the tensor.
        patterns = [finding for finding in patterns if "elements" not in finding.detail]
        note = " (in samples of its %d elements)" % self.geometry.count
        return [
            Finding(each.kind, each.share, each.sentence + note, each.detail) for each in patterns
        ]

    def _places(self, shares: SquaredErrorByIndex, background: float) -> List[Finding]:
        """Return the one or two findings that tell best where the error sits: along axes, or
        element by element.
        """
        regions, few = self._regions(shares, background), self._few_elements(shares, background)
        plain = (
            regions and max(len(finding.detail["indices"]) for finding in regions) <= _FEW_INDICES
        )
        return few if few and (few[0].detail["count"] <= _FEWEST_ELEMENTS or not plain) else regions

    def _few_elements(self, shares: SquaredErrorByIndex, background: float) -> List[Finding]:
        """Return a finding where few elements hold nearly all of the error, and more of it than of
        the values.
        """
        most = min(MOST_FEW, self.geometry.count // 1024)
        energy = float(shares.energy[0].sum()) if shares.total else 0.0
        squares = np.square(self._few[0, :most] / shares.unit)
        if not squares.size or not shares.total:
            return []
        owned = _owned(shares, background)
        error_share = np.cumsum(squares) / shares.total
        enough = np.flatnonzero(error_share * owned >= 0.99)
        count = int(enough[0]) + 1 if enough.size else len(error_share)
        golden = np.square(self._few[2, :count] / shares.unit)
        part, there = (
            float(error_share[count - 1]),
            float(golden.sum()) / energy if energy else 0.0,
        )
        share = min(1.0, part * owned)
        if share < CLAIMED or part * (1.0 - there) <= MORE_THAN_OTHERS * (1.0 - part) * there:
            return []
        others = shares.elements_without(golden)
        if there and others:
            alike = float(golden.sum()) ** 2 / float(np.square(golden).sum())
            if chance_of_part(part, there, alike, others) * self.geometry.count > BY_CHANCE:
                return []
        places = [
            [int(index) for index in np.unravel_index(int(at), self.geometry.sizes)]
            for at in np.sort(self._few[1, :count])
        ]
        shown = ", ".join(map(str, places[:3])) + (" …" if count > 3 else "")
        text = "%d of %d elements hold%s %.3g %% of the squared error, at %s" % (
            count, self.geometry.count, "s" if count == 1 else "", 100 * part, shown
        )  # fmt: skip
        y, x = self._few[2:, :count]
        if np.square(x + y).sum() <= _FLIPPED * np.square(y).sum():
            text += ": their signs are flipped"
        return [Finding("region", share, text, {"count": count, "positions": places[:MOST_FEW]})]

    def _regions(self, shares: SquaredErrorByIndex, background: float) -> List[Finding]:
        regions: List[Finding] = []
        owned = _owned(shares, background)
        for letter, error_by_slot, energy, empty in self._axes(shares):
            finding = region_of(
                error_by_slot, letter, owned, empty, energy, shares.elements, runs=letter == SLOTS
            )
            if finding is not None:
                regions.append(finding)
        return fewest(regions)

    def _axes(self, shares: SquaredErrorByIndex) -> List[Tuple[str, Array, Array, Any]]:
        """Return name, error share, energy share and emptiness of each axis, and of the slots of
        the device's blocks.
        """
        if not shares.total:
            return []
        axes: List[Tuple[str, Array, Array, Any]] = []
        for letter, sums, energy, mine in zip(
            self.letters, shares.sums, shares.energy, shares.target_energy
        ):
            empty = (energy == 0) | (mine == 0) if letter == SLOTS else None
            axes.append((letter, sums / shares.total, _normed(energy), empty))
        error_by_slot, there = (
            slots(self.geometry, shares.sums),
            slots(self.geometry, shares.energy),
        )
        if error_by_slot is not None and there is not None:
            axes.append((SLOTS, error_by_slot / shares.total, _normed(there), None))
        return axes

    def where(self, shares: SquaredErrorByIndex) -> Dict[str, List[float]]:
        """Return the share of the squared error by index along each axis, and by slot of the
        device's blocks.
        """
        total = shares.total or 1.0
        document = {
            letter: [float(part) for part in sums / total]
            for letter, sums in zip(self.letters, shares.sums)
        }
        error_by_slot = slots(self.geometry, shares.sums)
        if error_by_slot is not None:
            document[SLOTS] = [float(part) for part in error_by_slot / total]
        return document


def slots(geometry: Geometry, sums: Sequence[Array]) -> Optional[Array]:
    """Return what lies in each slot of the blocks that the device's innermost axis is made of; None
    for a layout without.
    """
    axes = geometry.layout.axes
    if not axes or axes[-1][1] != INNER:
        return None
    letter = axes[-1][0]
    block = dict(geometry.layout.blocks)[letter]
    along = sums[geometry.letters.index(letter)]
    return np.bincount(np.arange(len(along)) % block, weights=along, minlength=block)


def _of_sample(finding: Finding) -> Finding:
    """Return a finding of a sample as one of the tensor: the indices of a part are the sample's,
    and are not told.
    """
    if "part" not in finding.detail or "within" not in finding.detail:
        return finding
    detail = {"axis": finding.detail["axis"]}
    return Finding(
        finding.kind,
        finding.share,
        "in some indices of axis %s %s" % (detail["axis"], finding.detail["within"]),
        detail,
    )


def _normed(energy: Array) -> Array:
    total = float(energy.sum())
    return energy / total if total else energy


def _relative(errors: float, energy: float) -> float:
    return errors / energy if energy else float("inf") if errors else 0.0


def _owned(shares: SquaredErrorByIndex, background: float) -> float:
    """Return all of the squared error as a multiple of what has to be explained, see
    :class:`.difference.Difference`.
    """
    if not background or not shares.total:
        return 1.0
    explained = background**2 * float(shares.energy[0].sum())
    return shares.total / max(shares.total - explained, 0.02 * shares.total)


def _alike(pair: AlignedPair, expected: float) -> bool:
    """Tell whether a sample's relative error is the whole tensor's."""
    x, y = np.asarray(pair.target, np.float64), np.asarray(pair.golden, np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    x, y = x[good], y[good]
    distance = _relative(float(((x - y) ** 2).sum()), float((y * y).sum()))
    return expected / _ALIKE <= distance <= expected * _ALIKE
