"""The scale and zero point by which values were quantised, as they show it themselves."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Tuple

import numpy as np

Array = Any

_DIGITS = range(1, 9)


def solved_quantiser(values: Array, quantised: Array) -> Optional[Tuple[float, int]]:
    """Return the one scale and zero point of a quantisation to whole numbers, the scale as short as
    they allow; None where no pair makes all of them.

    Each number q that is not cut off stands for values within half a scale of (q - zero point)
    times the scale: all of them together leave a narrow range of scales.
    """
    x, q = np.float64(values).reshape(-1), np.int64(quantised).reshape(-1)
    if quantised.dtype.kind not in "iu" or x.size != q.size or not np.isfinite(x).all():
        return None
    ends = np.iinfo(quantised.dtype)
    inside = (q > ends.min) & (q < ends.max)
    x, q = x[inside], q[inside]
    if x.size < 2 or not np.ptp(q):
        return None
    for zero in _zero_points(x, q):
        steps = np.abs(q - zero)
        far = steps > 0
        if np.any(np.sign(x[far]) != np.sign(q[far] - zero)) or not far.any():
            continue
        size = np.abs(x[far])
        least = float((size / (steps[far] + 0.5)).max())
        most = float((size / (steps[far] - 0.5)).min())
        near = np.abs(x[~far])
        least = max(least, 2.0 * float(near.max(initial=0.0)))
        if least > most:
            continue
        middle = (least + most) / 2.0
        for digits in _DIGITS:
            short = float("%.*g" % (digits, middle))
            if least <= short <= most:
                return short, zero
        return float(middle), zero
    return None


def _zero_points(x: Array, q: Array) -> Iterator[int]:
    """Yield what stands for 0, or may do so by the straight line through all."""
    at_zero = q[x == 0.0]
    if at_zero.size:
        yield int(at_zero[0])
        return
    slope, offset = np.polyfit(x, q, 1)
    if slope > 0:
        nearest = int(np.rint(offset))
        yield from (nearest, nearest - 1, nearest + 1)
