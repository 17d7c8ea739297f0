"""Where the error sits: few indices of an axis that hold nearly all of it."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .finding import Difference, Finding, claimed

Array = Any

_SMALL_PART = 8


def shares_by_index(d: Difference, axis: int) -> Array:
    """Return, for each index of an axis, its share of the squared error."""
    others = tuple(index for index in range(d.e.ndim) if index != axis)
    sums = (d.e * d.e).sum(axis=others)
    return sums / d.total if d.total else sums


def region(d: Difference, letters: Sequence[str], padded_axis: Optional[int] = None) -> List[Finding]:
    """Return the axes of which at most an eighth of the indices (of short axes one) hold nearly all of the error."""
    found = []
    for axis, size in enumerate(d.e.shape):
        if size < 4:
            continue
        most = max(1, size // _SMALL_PART)
        held = shares_by_index(d, axis)
        order = np.argsort(-held, kind="stable")
        # The other indices show what the error is like outside.
        outside = float(np.median(held))
        few = 1
        while few < most and _explained(d, held[order[:few]], outside) < 0.99:
            few += 1
        finding = _finding(d, axis, sorted(int(index) for index in order[:few]), held, outside, letters, padded_axis)
        if finding is not None:
            found.append(finding)
    return sorted(found, key=lambda finding: (len(finding.detail["indices"]), -finding.share))[:2]


def _explained(d: Difference, held: Array, outside: float) -> float:
    return min(1.0, float((held - outside).sum()) * d.total / d.own)


def _finding(
    d: Difference, axis: int, indices: List[int], held: Array, outside: float, letters: Sequence[str], padded_axis: Optional[int]
) -> Optional[Finding]:
    share = _explained(d, held[indices], outside)
    part = float(held[indices].sum())
    size = d.e.shape[axis]
    sentence = "%s of axis %s (of %d) hold%s %.3g %% of the squared error" % (
        _named(indices), letters[axis], size, "s" if len(indices) == 1 else "", 100 * part,
    )  # fmt: skip
    tail = indices == list(range(indices[0], size))
    padding = axis == padded_axis and tail and _zero(d, axis, indices)
    if padding:
        sentence += ": the device's padding"
    return claimed("region", share, sentence, axis=letters[axis], indices=indices, padding=padding)


def _named(indices: List[int]) -> str:
    runs: List[Tuple[int, int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    shown = ", ".join("%d" % a if a == b else "%d to %d" % (a, b) for a, b in runs[:5]) + (" …" if len(runs) > 5 else "")
    return ("index " if len(indices) == 1 else "indices ") + shown


def _zero(d: Difference, axis: int, indices: List[int]) -> bool:
    """Tell whether one side is zero there, as padding is."""
    return not np.take(d.y, indices, axis).any() or not np.take(d.x, indices, axis).any()
