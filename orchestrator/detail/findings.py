"""Where the error of a pair sits and what it looks like, from what one pass over its elements collected."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..comparing.patterns import Finding, best_of_each, fewest, find_patterns, region_of, spoiled_sentence
from ..tensors.axes import INNER
from ..tensors.geometry import Geometry
from ..tensors.ordered import Window
from ..tensors.rounding import rounding_of
from .errors import Errors, is_bad
from .measures import Measures, SharesByIndex
from .sampling import PARTS, EvenSample, Sample, samples_of

Array = Any

SLOTS = "C0"
_PLACED = ("axis-swap", "axis-flip", "shift", "channel-permutation")
_ALIKE = 4.0
_FEW_ULPS = 8.0


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
        # How many, how many in the target, the first and the last place, how many infinities of opposite signs.
        self.spoiled = {"nan": [0, 0, -1, 0, 0], "inf": [0, 0, -1, 0, 0]}

    def update(self, window: Window, errors: Errors) -> Array:
        """Take a window; return which of its elements are off by more than rounding."""
        for sample in self.samples:
            sample.update(window)
        if self.even is not None:
            self.even.update(window)
        x, y = window.x.reshape(-1), window.y.reshape(-1)
        bad = is_bad(x, y, self.dtype)
        self.bad += int(np.count_nonzero(bad))
        if not np.isfinite(errors.signed).all():
            self._count_spoiled(window.start, x, y)
        return bad

    def _count_spoiled(self, start: int, x: Array, y: Array) -> None:
        for kind, test in (("nan", np.isnan), ("inf", np.isinf)):
            mine, theirs = test(x), test(y)
            opposite = mine & theirs & (x != y) if kind == "inf" and "c" not in (x.dtype.kind, y.dtype.kind) else np.zeros_like(mine)
            differ = (mine != theirs) | opposite
            found = self.spoiled[kind]
            places = np.flatnonzero(differ)
            if places.size:
                found[0] += places.size
                found[1] += int(np.count_nonzero(mine & ~theirs))
                found[4] += int(np.count_nonzero(opposite))
                found[2] = start + int(places[0]) if found[2] < 0 else found[2]
                found[3] = start + int(places[-1])

    def findings(self, measures: Measures, more: Sequence[Finding], distance: float) -> List[Finding]:
        """Return what explains the error, best first; ``healthy`` alone where every element is within rounding.

        Parameters
        ----------
        measures
            Of the same windows.
        more
            What was found besides: another golden tensor that fits, an order of axes.
        distance
            The relative distance of the two sides; NaN where there is none.
        """
        if not self.bad:
            return [Finding("healthy", 1.0, "every element is its golden one within the rounding of %s" % self.dtype)]
        shares = measures.shares
        noise = 2.0 ** -rounding_of(self.dtype).fraction_bits
        if distance <= noise and measures.ulps.bound() <= _FEW_ULPS:
            sentence = "random noise of %.3g times the rounding of %s" % (distance / noise, self.dtype)
            return [Finding("healthy", 1.0, sentence, {"distance": distance})]
        spoiled = [finding for finding in (self._spoiled("nan"), self._spoiled("inf")) if finding is not None]
        found = [finding for finding in self._patterns(shares) if finding.kind not in ("nan", "inf", "region", "healthy")]
        found = [finding for finding in found if not _of_parts(finding, len(self.letters))]
        regions = self._regions(shares)
        found += regions[:1] + list(more)
        if measures.target.zeros == measures.target.count:
            found.append(Finding("flush-to-zero", 1.0, "every element of the target is 0"))
        # A second axis is told as well: an error may sit in one row of one channel.
        return spoiled + best_of_each(found) + regions[1:]

    def _spoiled(self, kind: str) -> Optional[Finding]:
        count, mine, first, last, opposite = self.spoiled[kind]
        if not count:
            return None
        at = [int(part) for part in np.unravel_index(first, self.geometry.sizes or (1,))]
        word = "NaN" if kind == "nan" else "Inf"
        sentence = spoiled_sentence(word, count, self.geometry.count, mine, opposite, at)
        from_there_on = count == last - first + 1
        if from_there_on and count > 1:
            sentence += ", and from there on all" + ("" if last + 1 == self.geometry.count else " the %d that follow" % (count - 1))
        return Finding(kind, 1.0, sentence, {"count": count, "first": at, "without_gap": from_there_on})

    def _patterns(self, shares: SharesByIndex) -> List[Finding]:
        whole = self.samples[0].pair(self.dtype, self.letters)
        if self.even is None:
            return find_patterns(whole)
        found = find_patterns(self.even.pair(self.dtype, self.geometry.count))
        expected = _relative(float(shares.sums[0].sum()), float(shares.energy[0].sum()))
        for sample in self.samples:
            if _alike(sample, self.dtype, expected):
                placed = find_patterns(sample.pair(self.dtype, self.letters))
                found += [finding for finding in placed if finding.kind in _PLACED or "axis" in finding.detail]
        note = " (in samples of its %d elements)" % self.geometry.count
        return [Finding(each.kind, each.share, each.sentence + note, each.detail) for each in found]

    def _regions(self, shares: SharesByIndex) -> List[Finding]:
        found: List[Finding] = []
        for letter, held, energy, empty in self._axes(shares):
            finding = region_of(held, letter, 1.0, empty, energy, shares.elements, runs=letter == SLOTS)
            if finding is not None:
                found.append(finding)
        return fewest(found)

    def _axes(self, shares: SharesByIndex) -> List[Tuple[str, Array, Array, Any]]:
        """Return name, error share, energy share and emptiness of each axis, and of the slots of the device's blocks."""
        if not shares.total:
            return []
        axes: List[Tuple[str, Array, Array, Any]] = []
        for letter, sums, energy, mine in zip(self.letters, shares.sums, shares.energy, shares.target_energy):
            empty = (energy == 0) | (mine == 0) if letter == SLOTS else None
            axes.append((letter, sums / shares.total, _normed(energy), empty))
        held, there = slots(self.geometry, shares.sums), slots(self.geometry, shares.energy)
        if held is not None and there is not None:
            axes.append((SLOTS, held / shares.total, _normed(there), None))
        return axes

    def where(self, shares: SharesByIndex) -> Dict[str, List[float]]:
        """Return the share of the squared error by index along each axis, and by slot of the device's blocks."""
        total = shares.total or 1.0
        found = {letter: [float(part) for part in sums / total] for letter, sums in zip(self.letters, shares.sums)}
        held = slots(self.geometry, shares.sums)
        if held is not None:
            found[SLOTS] = [float(part) for part in held / total]
        return found


def slots(geometry: Geometry, sums: Sequence[Array]) -> Optional[Array]:
    """Return what lies in each slot of the blocks that the device's innermost axis is made of; None for a layout without."""
    axes = geometry.layout.axes
    if not axes or axes[-1][1] != INNER:
        return None
    letter = axes[-1][0]
    block = dict(geometry.layout.blocks)[letter]
    along = sums[geometry.letters.index(letter)]
    return np.bincount(np.arange(len(along)) % block, weights=along, minlength=block)


def _of_parts(finding: Finding, rank: int) -> bool:
    """Tell whether a pattern lies between the real and the imaginary parts, which :meth:`Sample.pair` puts along one more axis."""
    detail = finding.detail
    steps, order = detail.get("by", ()), detail.get("order", ())
    return detail.get("axis") == PARTS or any(steps[rank:]) or list(order[rank:]) != list(range(rank, len(order)))


def _normed(energy: Array) -> Array:
    total = float(energy.sum())
    return energy / total if total else energy


def _relative(errors: float, energy: float) -> float:
    return errors / energy if energy else float("inf") if errors else 0.0


def _alike(sample: Sample, dtype: str, expected: float) -> bool:
    """Tell whether a sample's relative error is the whole tensor's."""
    pair = sample.pair(dtype, ())
    x, y = np.asarray(pair.target, np.float64), np.asarray(pair.golden, np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    x, y = x[good], y[good]
    found = _relative(float(((x - y) ** 2).sum()), float((y * y).sum()))
    return expected / _ALIKE <= found <= expected * _ALIKE
