"""How much the relative distance of an output with few elements varies by chance."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

# From here on the series of the trigamma function below is right to 1e-6.
_ASYMPTOTIC = 8.0


@lru_cache(maxsize=1024)
def scatter(count: int) -> float:
    """Return the standard deviation of ln(d) by chance alone, for an output of ``count`` elements.

    d is ‖error‖ / ‖values‖. Where both are normally distributed, ln‖·‖ of ``count`` elements has
    the variance ψ′(count / 2) / 4, with the trigamma function ψ′.
    """
    half, variance = max(count, 1) / 2.0, 0.0
    while half < _ASYMPTOTIC:
        variance, half = variance + 1.0 / half**2, half + 1.0
    return math.sqrt((variance + 1.0 / half + 0.5 / half**2 + 1.0 / (6.0 * half**3)) / 2.0)


def independent_values(values: np.ndarray) -> int:
    """Return how many independent normal numbers a tensor's values are worth: fewer than its
    elements where most are near 0 or rows are alike.

    The product of two participation ratios tr(K)² / tr(K²): of the products of rows, and of the
    columns' sums of squares. Of n normal numbers in one row the second is about n / 3, in many
    rows n.
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
