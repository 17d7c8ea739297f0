"""All patterns that explain the difference of two tensors, best first."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from .aligned_pair import AlignedPair
from .difference import Difference
from .finding import KINDS, Finding, claimed
from .moved_value_patterns import moved
from .region_patterns import padding, region
from .value_patterns import (
    by_index,
    coarser_type,
    flush_to_zero,
    healthy,
    offset,
    saturation,
    scale,
    scale_and_offset,
    softmax_scale,
)

Array = Any

_MOVES = ("axis-swap", "axis-flip", "channel-permutation")
_RECTIFIED = 0.05
"""So many of the elements at least are negative before a ReLU."""


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
    best = best_of_each([finding for finding in candidates if finding is not None])
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
        )
    if d.y.min(initial=0.0) >= 0 and (d.x < 0).mean() >= _RECTIFIED:
        rest = np.maximum(d.x, 0.0) - d.y
        share = d.share(float((rest * rest).sum()), 0)
        return claimed(
            "other-tensor",
            share,
            "the golden is the target's positive part: the golden data are of after a ReLU",
            tensor="",
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
