"""What chance makes of an output of few values: it may come out near 0, and its relative distance
large.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

_ASYMPTOTIC = 8.0


@lru_cache(maxsize=1024)
def scatter(count: int) -> float:
    """Return the standard deviation of ln(d) that chance alone makes in an output of few elements.

    d is the norm of an error over the norm of values. Where both are sums of products of either
    sign, ln‖·‖ of ``count`` elements has a variance of ψ′(count / 2) / 4, ψ′ the trigamma function:
    a single value may well come out near 0, and its error with it.
    """
    at, made = max(count, 1) / 2.0, 0.0
    while at < _ASYMPTOTIC:
        made, at = made + 1.0 / at**2, at + 1.0
    return math.sqrt((made + 1.0 / at + 0.5 / at**2 + 1.0 / (6.0 * at**3)) / 2.0)


def independent(values: np.ndarray) -> int:
    """Return how many independent normal numbers would be as many values as a tensor's, of which
    some may be near 0, or rows alike.

    Participation ratios, tr(K)² / tr(K²), of the rows' products and of the columns' sums of
    squares; of n normal numbers in one row the second is about n / 3, in many rows n.
    """
    rows = np.asarray(values, np.float64).reshape(len(values) if values.ndim > 1 else 1, -1)
    rows = np.where(np.isfinite(rows), rows, 0.0)
    largest = float(np.abs(rows).max(initial=0.0))
    if not largest:
        return 1
    # The ratios are the same in any unit; in this one no square leaves the range.
    rows /= largest
    products, squares = rows @ rows.T, (rows**2).sum(axis=0)
    ratio = np.trace(products) ** 2 / (products**2).sum() * squares.sum() ** 2 / (squares**2).sum()
    return max(1, round(float(ratio) * (1.0 + 2.0 / len(rows))))
