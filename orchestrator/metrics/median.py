"""The median of some numbers."""

from __future__ import annotations

import numpy as np


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
