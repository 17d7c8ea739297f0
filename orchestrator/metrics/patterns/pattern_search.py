"""All patterns that explain the difference of two tensors, best first."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .aligned_pair import PARTS, AlignedPair
from .difference import Difference, by_chance, helps_most
from .finding import CLAIMED, KINDS, Finding, claimed
from .region_patterns import padding, region
from .value_patterns import (
    by_index,
    coarser_type,
    flush_to_zero,
    healthy,
    not_written,
    offset,
    saturation,
    scale,
    scale_and_offset,
    softmax_scale,
)

# Shifts by up to so many are all tried, and so many more that the correlation along the axis
# favours; chosen, no trial.
_FARTHEST, _LIKELY = 4, 3
# The cost of a search: elements that its correlation takes, channels, and comparisons of channel
# pairs times elements. Chosen by time, no trial.
_PROFILE_ELEMENTS = 1 << 16
_MOST_CHANNELS = 4096
_MOST_WORK = 1 << 28
# At most an eighth of the indices is a part, more is the whole; chosen, no trial.
_SMALL_PART = 8
_PLAINLY_WRONG = 0.01
"""Of the largest error, what shows between which indices a part lies: a rounding elsewhere is
smaller.
"""
# Of what x is, as squares: of unrelated values a shift leaves twice as much, of others that its
# numbers tell next to nothing.
_UNLIKE = 0.5


def moved(d: Difference, letters: Sequence[str]) -> List[Finding]:
    """Return what explains x as y with its elements elsewhere: axes exchanged or flipped, channels
    permuted, all or a part shifted.
    """
    candidates = [
        _swapped(d, letters),
        _flipped(d, letters),
        _permuted(d, letters),
        _shifted(d, letters),
    ]
    return [finding for finding in candidates if finding is not None] or _part_shifted(d, letters)


def _swapped(d: Difference, letters: Sequence[str]) -> Optional[Finding]:
    """Axes exchanged: equal sizes, or the same bytes read with the axes in another order."""
    rank = d.y.ndim
    if rank < 2 or rank > 5:
        return None
    best: Tuple[float, Any] = (0.0, None)
    for order in permutations(range(rank)):
        if _same_order(order, d.y.shape):
            continue
        # Written in another order of axes than it is read, one way or the other.
        back = np.argsort(order)
        for moved_there in (
            d.y.transpose(order).reshape(d.y.shape),
            d.y.reshape([d.y.shape[axis] for axis in order]).transpose(back),
        ):
            best = max(best, (d.share(d.left(moved_there), 0), order), key=lambda entry: entry[0])
    if best[1] is None:
        return None
    now = "".join(letters[index] for index in best[1])
    sentence = "the target holds the golden's values with axes %s in the order %s" % (
        "".join(letters),
        now,
    )
    return claimed("axis-swap", best[0], sentence, order=list(best[1]))


def _same_order(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Tell whether an order of axes only moves axes of size 1."""
    longer = [axis for axis in order if shape[axis] > 1]
    return longer == sorted(longer)


def _flipped(d: Difference, letters: Sequence[str]) -> Optional[Finding]:
    axes = [axis for axis, size in enumerate(d.y.shape) if size > 1]
    choices = [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else [])
    shares = [(d.share(d.left(np.flip(d.y, choice)), 0), choice) for choice in choices]
    if not shares:
        return None
    share, choice = max(shares, key=lambda entry: entry[0])
    names = ", ".join(letters[axis] for axis in choice)
    return claimed(
        "axis-flip", share, "the target runs backwards along axis %s" % names, axes=list(choice)
    )


def _permuted(d: Difference, letters: Sequence[str]) -> Optional[Finding]:
    """Channels exchanged: each of x's is nearest to another one of y's."""
    for axis in _channel_axes(d.y.shape):
        size = d.y.shape[axis]
        x, y = (np.moveaxis(side, axis, 0).reshape(size, -1) for side in (d.x, d.y))
        near = np.argmax(2.0 * (x @ y.T) - (y * y).sum(axis=1)[None, :], axis=1)
        other = [(index, int(source)) for index, source in enumerate(near) if index != source]
        # Channels that are alike (all zero, say) may choose any of them.
        if not other or len({source for _, source in other}) < 0.9 * len(other):
            continue
        rest, error = ((x - y[near]) ** 2).sum(axis=1), ((x - y) ** 2).sum(axis=1)
        moved_there = [index for index, _ in other]
        fits = float(rest[moved_there].sum()) <= (1.0 - CLAIMED) * float(error[moved_there].sum())
        share = d.share(float(rest.sum()), 0)
        if (
            share >= CLAIMED
            and fits
            and helps_most((x - y[near])[moved_there], (x - y)[moved_there], d.noise)
        ):
            return _permutation_finding(near.tolist(), other, letters[axis], share)
    return None


def _permutation_finding(
    near: Sequence[int], other: Sequence[Tuple[int, int]], axis: str, share: float
) -> Finding:
    """Say how the indices of an axis changed places.

    Parameters
    ----------
    near
        For each index of x the index of y whose values it holds.
    other
        Of these the pairs of different indices.
    """
    size = len(near)
    moved_there = [index for index, _ in other]
    rolled = _rolled(other)
    if rolled and len(other) < size:
        part = [moved_there[0], moved_there[-1]]
        sentence = "indices %d to %d of axis %s hold the golden's values shifted by %+d within them"
        within = "the target holds the golden's values shifted along it"
        return Finding(
            "shift",
            share,
            sentence % (*part, axis, rolled),
            {"axis": axis, "part": part, "within": within},
        )
    shown = ", ".join("%d holds %d" % pair for pair in other[:4]) + (" …" if len(other) > 4 else "")
    counted = (len(other), size, axis, shown)
    if len(other) <= size // _SMALL_PART and not {source for _, source in other} & set(moved_there):
        # What they hold still stands in its own place too.
        sentence = "%d of %d indices of axis %s hold the values of others: %s" % counted
        return Finding("region", share, sentence, {"axis": axis, "indices": moved_there})
    return Finding(
        "channel-permutation",
        share,
        "%d of %d indices of axis %s are exchanged: %s" % counted,
        {"axis": axis, "from": list(near)},
    )


def _rolled(other: Sequence[Tuple[int, int]]) -> int:
    """Return by how much some indices in a row go round among themselves; 0 where they do not, and
    for two, which are exchanged.
    """
    first, size = other[0][0], len(other)
    step = (first - other[0][1]) % size
    round_about = size > 2 and all(
        index == first + n and source == first + (n - step) % size
        for n, (index, source) in enumerate(other)
    )
    return (step if step <= size // 2 else step - size) if round_about else 0


def _channel_axes(shape: Sequence[int]) -> Iterator[int]:
    count = int(np.prod(shape))
    for axis in (1, len(shape) - 1, 0):
        if not 0 <= axis < len(shape) or (axis == len(shape) - 1 and axis == 1 and len(shape) > 2):
            continue
        size = shape[axis]
        if 2 <= size <= _MOST_CHANNELS and count >= 4 * size and size * count <= _MOST_WORK:
            yield axis


def _shifted(d: Difference, letters: Sequence[str]) -> Optional[Finding]:
    """Values shifted along one axis, or by one along the last two axes; what is shifted in from
    outside is not looked at.
    """
    best: Tuple[float, Any] = (0.0, None)
    for steps in _steps(d):
        here, there = _windows(steps, d.y.shape)
        error = float((d.e[here] ** 2).sum())
        if error < 0.2 * d.total or not error:
            continue
        rest = d.x[here] - d.y[there]
        left = float((rest * rest).sum())
        # Large golden values that a shift moves out of sight (a mask, say) are no evidence that
        # what is left is where it should be.
        if left > _UNLIKE * float((d.x[here] ** 2).sum()) or by_chance(
            left / error, float(np.count_nonzero(d.e[here]))
        ):
            continue
        own_error = max(error - (d.total - d.own_error) * error / d.total, 0.02 * error)
        # Values that go round come from both sides alike: the shorter way is told.
        best = max(
            best,
            (min(1.0, (error - left) / own_error), steps),
            key=lambda entry: (round(entry[0], 3), -sum(map(abs, entry[1] or ()))),
        )
    if best[1] is None:
        return None
    parts = [
        "%+d along axis %s" % (step, letters[axis]) for axis, step in enumerate(best[1]) if step
    ]
    sentence = "the target holds the golden's values shifted by %s" % " and ".join(parts)
    here, there = _windows(best[1], d.y.shape)
    if not helps_most(d.x[here] - d.y[there], d.e[here], d.noise):
        return None
    return claimed("shift", best[0], sentence, by=list(best[1]))


def _part_shifted(d: Difference, letters: Sequence[str]) -> List[Finding]:
    """What is wrong shifted by itself: the indices along one axis between which it lies, or
    elements in a row, whatever their axes.
    """
    wrong = np.abs(d.e) > max(d.noise, _PLAINLY_WRONG * float(np.abs(d.e).max(initial=0.0)))
    for axis, size in enumerate(wrong.shape):
        first, last = _ends(
            wrong.any(axis=tuple(other for other in range(wrong.ndim) if other != axis))
        )
        if last - first + 1 == size:
            continue
        at = (slice(None),) * axis + (slice(first, last + 1),)
        shifted = _shifted(Difference(d.x[at], d.y[at], d.background), letters)
        if shifted is not None:
            which = "index %d" % first if first == last else "indices %d to %d" % (first, last)
            sentence = "in %s of axis %s %s" % (which, letters[axis], shifted.sentence)
            detail = {"axis": letters[axis], "part": [first, last], "within": shifted.sentence}
            return [Finding("shift", shifted.share, sentence, detail)]
    first, last = _ends(wrong.reshape(-1))
    part = slice(first, last + 1)
    shifted = (
        _shifted(Difference(d.x.reshape(-1)[part], d.y.reshape(-1)[part], d.background), "0")
        if wrong.ndim > 1
        else None
    )
    if shifted is None:
        return []
    sentence = (
        "elements %d to %d of %d, counted in the golden's order, are the golden's shifted by %+d"
    )
    detail = {"part": [first, last], "elements": shifted.detail["by"][0]}
    return [
        Finding(
            "shift",
            shifted.share,
            sentence % (first, last, wrong.size, shifted.detail["by"][0]),
            detail,
        )
    ]


def _ends(wrong: Array) -> Tuple[int, int]:
    """Return the first and the last of the places that are wrong; at least one is."""
    places = np.flatnonzero(wrong)
    return int(places[0]), int(places[-1])


def _steps(d: Difference) -> Iterator[Tuple[int, ...]]:
    shape = d.y.shape
    rank = len(shape)
    for axis, size in enumerate(shape):
        near = [
            signed for step in range(1, min(_FARTHEST, size // 2) + 1) for signed in (step, -step)
        ]
        for step in dict.fromkeys(near + _likely_steps(d, axis)):
            yield tuple(step if index == axis else 0 for index in range(rank))
    if rank >= 2:
        for steps in product((-1, 1), (-1, 1)):
            if min(shape[-2:]) >= 3:
                yield (0,) * (rank - 2) + steps


def _likely_steps(d: Difference, axis: int) -> List[int]:
    """Return the steps along an axis at which the two sides correlate most, whatever their length;
    by the fast Fourier transform.
    """
    size = d.y.shape[axis]
    if size <= 2 * _FARTHEST:
        return []
    x, y = (_profiles(side, axis) for side in (d.x, d.y))
    alike = np.fft.irfft(
        (np.fft.rfft(x, axis=0) * np.conj(np.fft.rfft(y, axis=0))).sum(axis=1), size
    )
    steps = []
    for step in np.argsort(-alike)[:_LIKELY]:
        steps += [
            signed for signed in (int(step), int(step) - size) if 0 < abs(signed) <= 3 * size // 4
        ]
    return steps


def _profiles(side: Array, axis: int) -> Array:
    """Return lines along an axis, about their means; of many some that are spread evenly."""
    lines = np.moveaxis(side, axis, 0).reshape(side.shape[axis], -1)
    lines = lines[:, :: max(1, lines.size // _PROFILE_ELEMENTS)]
    return lines - lines.mean(axis=0)


def _windows(
    steps: Sequence[int], shape: Sequence[int]
) -> Tuple[Tuple[slice, ...], Tuple[slice, ...]]:
    """Return the places in the target, and those of the same values in the golden."""
    here = tuple(slice(max(step, 0), size + min(step, 0)) for step, size in zip(steps, shape))
    there = tuple(slice(max(-step, 0), size + min(-step, 0)) for step, size in zip(steps, shape))
    return here, there


Array = Any

_MOVES = ("axis-swap", "axis-flip", "channel-permutation")
_RECTIFIED = 0.05
"""So many of the elements at least are negative before a ReLU; chosen, no trial."""


def _is_constant(d: Difference, letters: Sequence[str]) -> bool:
    """Tell whether all golden elements are one number, real or complex."""
    parts = np.moveaxis(d.y, -1, 0) if letters[-1:] == (PARTS,) else [d.y]
    return not any(np.ptp(part) for part in parts)


def is_between_parts(finding: Finding, rank: int) -> bool:
    """Tell whether a pattern lies between the real and the imaginary parts, which stand along one
    more axis than the tensor's ``rank``.
    """
    detail = finding.detail
    steps, order = detail.get("by", ()), detail.get("order", ())
    return (
        detail.get("axis") == PARTS
        or any(steps[rank:])
        or rank in detail.get("axes", ())
        or list(order[rank:]) != list(range(rank, len(order)))
    )


def _of_both_parts(finding: Finding) -> Optional[Finding]:
    """Return a factor for each part of complex numbers as one about them; None for another
    finding.
    """
    if finding.kind != "scale" or finding.detail != {"axis": PARTS}:
        return None
    return Finding("scale", finding.share, finding.sentence)


def find_patterns(
    pair: AlignedPair, background: float = 0.0, others: Iterable[Tuple[str, Array]] = ()
) -> List[Finding]:
    """Return what explains the difference, best first; empty where nothing does.

    Errors within the rounding of the target's type are ``healthy`` and nothing else. Every other
    finding explains at least 90 % of the squared error beyond ``background``. Findings that explain
    the same to within 2 % are listed by how specific they are.

    Parameters
    ----------
    background
        Relative distance that needs no explanation: what the operator's inputs explain.
    others
        Names and values of golden tensors that may be the right ones, in the golden's shape.
    """
    x, y = pair.target, pair.golden
    well = healthy(x, y, pair.dtype)
    if well is not None:
        return [well]
    spoiled = _spoiled(x, y)
    d = Difference(x, y, background)
    if not d.total:
        return spoiled
    letters = pair.letters or tuple(str(axis) for axis in range(d.x.ndim))
    # A tensor that fits says more than that one side is the other's positive part.
    candidates: List[Optional[Finding]] = (
        [] if pair.sampled else [_other(d, name, values) for name, values in others]
    )
    candidates += [
        scale(d),
        offset(d),
        scale_and_offset(d),
        None if pair.sampled else softmax_scale(d),
        saturation(d, pair.dtype),
        flush_to_zero(d),
        coarser_type(d, pair.dtype),
        _rectified(d),
    ]
    regions: List[Finding] = []
    if not pair.sampled:
        regions = region(d, letters, pair.padded_axis)
        candidates += [padding(d, pair.padded_axis), *regions]
        candidates += moved(d, letters)
        for axis in _axes(d.x.shape):
            candidates += by_index(d, axis, letters[axis])
        candidates.append(not_written(d))
    found = [finding for finding in candidates if finding is not None]
    if pair.is_complex:
        each = [_of_both_parts(finding) for finding in found]
        found = [one for one in found if not is_between_parts(one, len(letters) - 1)]
        if not found and not _is_constant(d, letters):
            found = [one for one in each if one is not None]
    if any(one.kind in ("scale", "sign-flip") for one in found) and _is_constant(d, letters):
        # Of one value a factor and an offset say the same.
        found = [
            one for one in found if one.kind not in ("offset", "shift") and "axis" not in one.detail
        ]
    numbers = [one for one in found if one.kind in ("scale", "offset", "sign-flip")]
    # Of values that vary little within a channel one for each is as well what one factor is.
    by_one = max((one.share for one in numbers if "axis" not in one.detail), default=0.0)
    found = [
        one for one in found if one not in numbers or "axis" not in one.detail or one.share > by_one
    ]
    best = best_of_each(found)
    # A second axis is told as well: an error may sit in one row of one channel.
    has_region = any(finding in best for finding in regions)
    return spoiled + best + [finding for finding in regions if has_region and finding not in best]


def best_of_each(findings: Iterable[Finding]) -> List[Finding]:
    """Return findings, the best of each kind, best first; those that explain the same to within 2 %
    by how specific they are.
    """
    best: Dict[str, Finding] = {}
    for finding in _without_moves(sorted(findings, key=_rank)):
        best.setdefault(finding.kind, finding)
    return list(best.values())


def _rank(finding: Finding) -> Tuple[int, float, float]:
    """Sort by what is explained, in steps of 2 %, then by how specific the kind is."""
    # The more numbers were fitted, the later.
    wide = (
        0
        if finding.kind not in ("scale", "offset")
        else 2
        if "axis" in finding.detail
        else len(finding.detail) - 1
    )
    unnamed = finding.kind == "other-tensor" and not finding.detail["tensor"]
    return (
        -int(finding.share * 50 + 0.5),
        KINDS.index(finding.kind) + wide * len(KINDS) + 0.5 * unnamed,
        -finding.share,
    )


def _without_moves(findings: List[Finding]) -> List[Finding]:
    """Leave out exchanged axes and channels where a shift explains as much: it is one of them."""
    shift = max((finding.share for finding in findings if finding.kind == "shift"), default=-1.0)
    return [
        finding
        for finding in findings
        if finding.kind not in _MOVES or finding.share > shift + 0.02
    ]


def _axes(shape: Tuple[int, ...]) -> List[int]:
    """Return the axes that may hold channels."""
    return [] if len(shape) < 2 else list(dict.fromkeys([1, len(shape) - 1]))


def _spoiled(x: Array, y: Array) -> List[Finding]:
    """Return findings of NaN and Inf that stand on one side only."""
    findings = []
    for kind, test in (("nan", np.isnan), ("inf", np.isinf)):
        try:
            mine, theirs = test(x), test(y)
        except TypeError:
            continue
        differ = mine != theirs
        if kind == "inf" and np.asarray(x).dtype.kind != "c":
            differ |= mine & theirs & (x != y)
        count = int(differ.sum())
        if count:
            at = [int(part) for part in np.unravel_index(int(np.argmax(differ)), differ.shape)]
            word = "NaN" if kind == "nan" else "Inf"
            sentence = spoiled_sentence(
                word,
                count,
                differ.size,
                int((mine & ~theirs).sum()),
                int((mine & theirs & differ).sum()),
                at,
            )
            findings.append(Finding(kind, 1.0, sentence, {"count": count, "first": at}))
    return findings


def spoiled_sentence(
    word: str, count: int, size: int, mine: int, opposite: int, first: List[int]
) -> str:
    """Return the sentence on elements that are NaN or Inf on one side only, or infinities of
    opposite signs.
    """
    sides = (
        "on one side only (%d in the target)" % mine if count > opposite else "of opposite signs"
    )
    more = ", %d of them Inf of opposite signs" % opposite if count > opposite > 0 else ""
    return "%d of %d elements are %s %s%s, the first at %s" % (
        count,
        size,
        word,
        sides,
        more,
        first,
    )


def _rectified(d: Difference) -> Optional[Finding]:
    """x or y is the other one's positive part: the golden data are of before or after the
    activation.
    """
    if d.x.min(initial=0.0) >= 0 and (d.y < 0).mean() >= _RECTIFIED:
        share = d.share(d.left(np.maximum(d.y, 0.0)), 0)
        return claimed(
            "other-tensor",
            share,
            "the target is the golden's positive part: the golden data are of before a ReLU",
            tensor="",
            rectified="target",
        )
    if d.y.min(initial=0.0) >= 0 and (d.x < 0).mean() >= _RECTIFIED:
        rest = np.maximum(d.x, 0.0) - d.y
        share = d.share(float((rest * rest).sum()), 0)
        return claimed(
            "other-tensor",
            share,
            "the golden is the target's positive part: the golden data are of after a ReLU",
            tensor="",
            rectified="golden",
        )
    return None


def _other(d: Difference, name: str, values: Array) -> Optional[Finding]:
    values = np.asarray(values, np.float64)
    if values.shape != d.y.shape or not np.isfinite(values).all():
        return None
    with np.errstate(over="ignore"):
        values = values / d.unit
    return claimed(
        "other-tensor",
        d.share(d.left(values), 0),
        "the golden tensor of %s fits" % name,
        tensor=name,
    )
