"""Patterns of regions: few indices of an axis that hold nearly all of the error."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from ..worst_slice import median
from .difference import BY_CHANCE, Difference
from .finding import CLAIMED, Finding, claimed

Array = Any

# As in pattern_search: at most an eighth of the indices is a part; chosen, no trial.
_SMALL_PART = 8
# Of fewer indices along an axis no part is told, nor the two at its ends as a border; chosen, no
# trial.
_SHORTEST, _SHORTEST_WITH_BORDER = 4, 6
MORE_THAN_OTHERS = 16.0
"""By how much the relative squared error there is larger than elsewhere."""

# All but the rounding of a sum of shares in float64.
_ALL = 1.0 - 1e-9


def shares_by_index(d: Difference, axis: int) -> Array:
    """Return, for each index of an axis, its share of the squared error."""
    others = tuple(index for index in range(d.e.ndim) if index != axis)
    sums = (d.e * d.e).sum(axis=others)
    return sums / d.total if d.total else sums


def region(
    d: Difference, letters: Sequence[str], padded_axis: Optional[int] = None
) -> List[Finding]:
    """Return the axes of which at most an eighth of the indices (of short axes one) hold nearly all
    of the error.
    """
    findings = []
    fourth = float(np.square(d.y * d.y).sum())
    for axis, letter in enumerate(letters):
        others = tuple(index for index in range(d.y.ndim) if index != axis)
        energy = (d.y * d.y).sum(axis=others) / d.yy if d.yy else None
        empty = ~d.x.any(axis=others) | ~d.y.any(axis=others) if axis == padded_axis else None
        findings.append(
            region_of(
                shares_by_index(d, axis),
                letter,
                d.total / d.own_error,
                empty,
                energy,
                d.yy * d.yy / fourth if fourth else 0.0,
            )
        )
    return fewest([finding for finding in findings if finding is not None])


def padding(d: Difference, padded_axis: Optional[int]) -> Optional[Finding]:
    """Return a finding where the error sits in the device's padding: the last values of the last
    channel block, zero on one side.

    Parameters
    ----------
    padded_axis
        C0 of a tensor that is compared as stored, (N, C1, H, W, C0) or (N, D, C1, H, W, C0); None:
        there is no padding.
    """
    if padded_axis is None or d.y.ndim < 5:
        return None
    block = padded_axis - 3
    for side in (d.y, d.x):
        last = np.moveaxis(np.take(side, -1, block), -1, 0).reshape(side.shape[padded_axis], -1)
        used = np.flatnonzero(last.any(axis=1))
        first = int(used[-1]) + 1 if used.size else 0
        error = np.take(d.e, -1, block)[..., first:]
        share = float((error * error).sum()) / d.own_error if d.own_error else 0.0
        if first < side.shape[padded_axis] and share >= CLAIMED:
            at = (side.shape[block] - 1) * side.shape[padded_axis] + first
            sentence = (
                "channels from %d on hold the error: the device's padding, 0 on one side" % at
            )
            return Finding(
                "region", min(share, 1.0), sentence, {"axis": "C", "indices": [at], "padding": True}
            )
    return None


def fewest(findings: Sequence[Finding]) -> List[Finding]:
    """Return the two regions that name the fewest indices, of those that hold as much the first."""
    return sorted(
        findings, key=lambda finding: (len(finding.detail["indices"]), -round(finding.share, 2))
    )[:2]


def region_of(
    error_by_index: Array,
    letter: str,
    owned: float = 1.0,
    empty: Optional[Array] = None,
    energy: Optional[Array] = None,
    count: float = 0.0,
    runs: bool = False,
) -> Optional[Finding]:
    """Return the region along one axis, or None.

    Parameters
    ----------
    error_by_index
        Each index's share of the squared error.
    letter
        The axis's name.
    owned
        All of the squared error, as a multiple of what has to be explained.
    empty
        Of an axis whose last indices may be the device's padding: at which indices one side is
        zero. They may be more than an eighth.
    energy
        Each index's share of the golden's sum of squares; None: it does not matter.
    count
        The number of elements (of equal ones that would have the golden's sums of squares and of
        fourth powers): few of them may differ as much by chance; 0: that does not matter.
    runs
        The indices are the slots of the device's blocks: several in a row, up to half of them, are
        one place too.
    """
    size = len(error_by_index)
    if size < _SHORTEST:
        return None
    if runs and empty is None:
        run = _run(error_by_index, owned)
        if run is not None:
            outside = float(np.delete(error_by_index, run).mean())
            return _finding(
                error_by_index, run, outside, owned, letter, None, energy, count, what="slot"
            )
    most = max(1, size // _SMALL_PART)
    order = np.argsort(-error_by_index, kind="stable")
    # The other indices show what the error is like outside.
    outside = median(error_by_index)
    explained = np.cumsum(error_by_index[order[:most]] - outside) * owned
    few = int(np.argmax(explained >= 0.99)) + 1 if (explained >= 0.99).any() else most
    choices = [sorted(int(index) for index in order[:few])]
    if size >= _SHORTEST_WITH_BORDER:
        choices.append([0, size - 1])
    if empty is not None and empty[-1]:
        tail = size - int(np.argmin(empty[::-1])) if not empty.all() else size
        choices.append(list(range(tail, size)))
        outside = 0.0 if tail < size else outside
    findings = [
        _finding(error_by_index, indices, outside, owned, letter, empty, energy, count)
        for indices in choices
        if indices
    ]
    claims = [finding for finding in findings if finding is not None]
    # Few indices tell more than many, unless more explain clearly more.
    return max(
        claims,
        key=lambda finding: (int(finding.share * 20), -len(finding.detail["indices"])),
        default=None,
    )


def _run(error_by_index: Array, owned: float) -> Optional[List[int]]:
    """Return the fewest indices that hold 99 % of the error where they are in a row, more than an
    eighth and at most half; else None.
    """
    order = np.argsort(-error_by_index, kind="stable")
    needed = int(np.argmax(np.cumsum(error_by_index[order]) * owned >= 0.99)) + 1
    indices = sorted(int(index) for index in order[:needed])
    in_row = indices[-1] - indices[0] == needed - 1
    return (
        indices
        if in_row
        and max(1, len(error_by_index) // _SMALL_PART) < needed <= len(error_by_index) // 2
        else None
    )


def _explained(error_by_index: Array, outside: float, owned: float) -> float:
    return min(1.0, float((error_by_index - outside).sum()) * owned)


def _finding(
    error_by_index: Array,
    indices: List[int],
    outside: float,
    owned: float,
    letter: str,
    empty: Optional[Array],
    energy: Optional[Array],
    count: float,
    what: str = "index",
) -> Optional[Finding]:
    share = _explained(error_by_index[indices], outside, owned)
    if share < CLAIMED:
        return None
    part = float(error_by_index[indices].sum())
    # Where the values themselves are large, errors of any kind are.
    there = float(energy[indices].sum()) if energy is not None else 0.0
    if there >= _ALL or part * (1.0 - there) <= MORE_THAN_OTHERS * (1.0 - part) * there:
        return None
    size = len(error_by_index)
    if energy is not None and _by_chance(part, energy, indices, count / size) * size > BY_CHANCE:
        return None
    named = (
        _named(indices)
        if what == "index"
        else _named(indices).replace("indices", "slots").replace("index", "slot")
    )
    sentence = "%s of %s (of %d) hold%s %.3g %% of the squared error" % (
        named, letter if what == "slot" else "axis %s" % letter, size,
        "s" if len(indices) == 1 else "", 100 * part,
    )  # fmt: skip
    padding = (
        empty is not None
        and indices == list(range(indices[0], size))
        and bool(empty[indices].all())
    )
    if padding:
        sentence += ": the device's padding"
    elif indices == [0, size - 1]:
        sentence += ": the border"
    return claimed("region", share, sentence, axis=letter, indices=indices, padding=padding)


def _by_chance(part: float, energy: Array, indices: List[int], elements: float) -> float:
    """Return how often so large a part of the error would sit there by chance, see
    :func:`chance_of_part`.

    Parameters
    ----------
    part
        The part of the squared error.
    elements
        Of each index; indices of little energy count for less.
    """
    inside, outside = energy[indices], np.delete(energy, indices)
    there = float(inside.sum())
    if not elements or not 0.0 < there < 1.0:
        return 0.0
    n, m = (
        elements * float(side.sum()) ** 2 / float(np.square(side).sum())
        for side in (inside, outside)
    )
    return chance_of_part(part, there, n, m)


def chance_of_part(part: float, there: float, inside: float, outside: float) -> float:
    """Return how often so large a part of the error would sit in one place if it were noise in
    proportion to the values (Chernoff's bound for F).

    Parameters
    ----------
    part, there
        The place's part of the squared error, and of the golden's sum of squares.
    inside, outside
        Of how many elements of one size the squares of the place are, and those outside.
    """
    if part >= 1.0 or not 0.0 < there < 1.0:
        return 0.0
    ratio = part / (1.0 - part) * (1.0 - there) / there
    if ratio <= 1.0 or not outside:
        return 1.0
    both = inside + outside
    return float(
        np.exp(0.5 * (inside * np.log(ratio) + both * np.log(both / (inside * ratio + outside))))
    )


def _named(indices: List[int]) -> str:
    runs: List[List[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    shown = ", ".join("%d" % a if a == b else "%d to %d" % (a, b) for a, b in runs[:5]) + (
        " …" if len(runs) > 5 else ""
    )
    return ("index " if len(indices) == 1 else "indices ") + shown
