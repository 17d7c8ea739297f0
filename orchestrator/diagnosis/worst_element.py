"""The element where two arrays differ most, in words."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

import numpy as np

from ..metrics.differing_masks import masked_apart
from ..tensors.dtypes import plain_floats

_PIECE = 1 << 20


def worst_element(target: np.ndarray, golden: np.ndarray, masked: bool = False) -> Optional[str]:
    """Return in words where two arrays differ most: the first place where only one is NaN or that
    Inf, else the largest difference.

    Parameters
    ----------
    target, golden
        Of real or complex numbers, the same size, any shape; read in pieces of 1 Mi elements in the
        order of the indices.
    masked
        Pass over elements that are masked on both sides by different numbers.

    Returns
    -------
    str or None
        Its index in the golden and both values; None where nothing differs.
    """
    worst, worst_at = 0.0, -1
    for first, x, y in _pieces(target, golden):
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(x - y)
        finite = np.isfinite(x) & np.isfinite(y)
        counted = ~masked_apart(x, y) if masked else np.ones(x.size, np.bool_)
        nonfinite = np.flatnonzero(counted & ~finite & (x != y) & ~(np.isnan(x) & np.isnan(y)))
        if nonfinite.size:
            return "the first NaN or Inf that differs is at " + _both_values(
                target, golden, first + int(nonfinite[0])
            )
        distance[~(finite & counted)] = 0
        index = int(distance.argmax()) if distance.size else 0
        if distance.size and distance[index] > worst:
            worst, worst_at = float(distance[index]), first + index
    return (
        None
        if worst_at < 0
        else "the largest difference is at " + _both_values(target, golden, worst_at)
    )


def _pieces(target: np.ndarray, golden: np.ndarray) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
    for first in range(0, golden.size, _PIECE):
        yield (
            first,
            _wide(target.flat[first : first + _PIECE]),
            _wide(golden.flat[first : first + _PIECE]),
        )


def _wide(values: np.ndarray) -> np.ndarray:
    values = plain_floats(values)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _both_values(target: np.ndarray, golden: np.ndarray, at: int) -> str:
    index = [int(number) for number in np.unravel_index(at, golden.shape)]
    return "%s: target %s, golden %s" % (index, target.flat[at], golden.flat[at])
