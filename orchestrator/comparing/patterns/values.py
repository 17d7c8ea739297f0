"""Patterns of values: whatever stands where, x is a function of y."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from .finding import CLAIMED, Difference, Finding, claimed

Array = Any

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895314e38, "float32": 3.4028235e38, "int8": 127.0, "uint8": 255.0, "int16": 32767.0}
_MANTISSA = {"float16": (10, -24), "bfloat16": (7, -133), "float32": (23, -149), "float64": (52, -1074)}


def ulp(values: Array, dtype: str) -> Array:
    """Return the distance of a type's numbers at each value; 0 for types that do not round.

    Parameters
    ----------
    values
        float64 array.
    dtype
        As in the DataType column.
    """
    if dtype not in _MANTISSA:
        return np.zeros_like(values)
    bits, least = _MANTISSA[dtype]
    _, exponent = np.frexp(values)
    return np.ldexp(1.0, np.maximum(exponent - 1 - bits, least))


def healthy(x: Array, y: Array, dtype: str) -> Optional[Finding]:
    """Return a finding where every element is its golden one, rounded to the target's type (at most one unit in the last place off)."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    with np.errstate(invalid="ignore"):
        right = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= ulp(y, dtype))
        if dtype in _LARGEST:
            right |= np.isinf(x) & (np.abs(y) > _LARGEST[dtype]) & (np.sign(x) == np.sign(y))
    if not right.all():
        return None
    return Finding("healthy", 1.0, "every element is its golden one within the rounding of %s" % dtype)


def scale(d: Difference) -> Optional[Finding]:
    """x = a·y; a near −1 is a flipped sign."""
    if not d.yy:
        return None
    factor = float((d.x * d.y).sum()) / d.yy
    if factor < 0:
        flipped = claimed("sign-flip", d.share(d.left(-d.y), 0), "the signs are flipped: target is -1 x golden", factor=-1.0)
        if flipped is not None:
            return flipped
    share = d.share(d.left(factor * d.y))
    return claimed("scale", share, "the target is the golden x %.5g" % factor, factor=factor)


def offset(d: Difference) -> Optional[Finding]:
    """x = y + b."""
    if not d.count:
        return None
    shift = float(d.e.sum()) / d.count
    share = d.share(d.left(d.y + shift))
    return claimed("offset", share, "the target is the golden %+.6g" % (shift * d.unit), offset=shift * d.unit)


def by_index(d: Difference, axis: int, letter: str) -> List[Finding]:
    """x = a[c]·y, x = y + b[c], or both, with one number for each index of an axis."""
    size = d.x.shape[axis]
    others = tuple(index for index in range(d.x.ndim) if index != axis)
    if size < 2 or d.count < 4 * size:
        return []
    count = np.maximum(d.kept.sum(axis=others, keepdims=True), 1)
    found = []
    yy = (d.y * d.y).sum(axis=others, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where(yy > 0, (d.x * d.y).sum(axis=others, keepdims=True) / yy, 1.0)
    shifts = d.e.sum(axis=others, keepdims=True) / count
    found.append(claimed("scale", d.share(d.left(factors * d.y), size), _factors(factors, letter), axis=letter))
    found.append(claimed("offset", d.share(d.left(d.y + shifts), size), _offsets(shifts * d.unit, letter), axis=letter))
    if not any(found):
        mean = d.y.sum(axis=others, keepdims=True) / count
        centred = np.where(d.kept, d.y - mean, 0.0)
        spread = (centred * centred).sum(axis=others, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            slopes = np.where(spread > 0, (d.e * centred).sum(axis=others, keepdims=True) / spread, 0.0)
        sentence = _factors(1.0 + slopes, letter) + ", and an offset for each"
        found.append(claimed("scale", d.share(d.left(d.y + slopes * centred + shifts), 2 * size), sentence, axis=letter))
    return [finding for finding in found if finding is not None]


def _factors(factors: Array, letter: str) -> str:
    return "each index of axis %s has a factor of its own, from %.6g to %.6g" % (letter, float(factors.min()), float(factors.max()))


def _offsets(shifts: Array, letter: str) -> str:
    return "each index of axis %s has an offset of its own, from %.4g to %.4g" % (letter, float(shifts.min()), float(shifts.max()))


def saturation(d: Difference, dtype: str) -> Optional[Finding]:
    """x = y, cut off at a highest and a lowest value at which several elements stand."""
    low, high = _stop(-d.x, -d.y), _stop(d.x, d.y)
    if low is None and high is None:
        return None
    lowest, highest = -np.inf if low is None else -low, np.inf if high is None else high
    share = d.share(d.left(np.clip(d.y, lowest, highest)))
    at = [value * d.unit for value in (lowest, highest) if np.isfinite(value)]
    limit = _LARGEST.get(dtype)
    known = limit is not None and any(abs(abs(value) - limit) <= 0.01 * limit for value in at)
    where = " and ".join("%.6g" % value for value in at)
    return claimed("saturation", share, "values are cut off at %s%s" % (where, ", the limit of %s" % dtype if known else ""), at=at)


def _stop(x: Array, y: Array) -> Optional[float]:
    """Return the highest value where several elements stand at it that should be higher."""
    top = float(x.max(initial=0.0))
    if top <= 0:
        return None
    at = x >= top * (1 - 2.0**-10)
    over = at & (y > top * (1 + 2.0**-9))
    return top if over.sum() >= 3 and over.sum() >= 0.5 * at.sum() else None


def flush_to_zero(d: Difference) -> Optional[Finding]:
    """x = y, small values 0."""
    gone = (d.x == 0) & (d.y != 0) & d.kept
    if gone.sum() < 2:
        return None
    most = float(np.quantile(np.abs(d.y[gone]), 0.99))
    small = (np.abs(d.y) <= most) & (d.y != 0) & d.kept
    if gone.sum() < 0.9 * small.sum() or gone.sum() == int(((d.y != 0) & d.kept).sum()):
        return None
    share = d.share(d.left(np.where(gone, 0.0, d.y)))
    return claimed(
        "flush-to-zero", share, "%d values of a magnitude up to %.4g became 0" % (gone.sum(), most * d.unit), below=most * d.unit
    )


def coarser_type(d: Difference, dtype: str) -> Optional[Finding]:
    """x has the few values of a coarser type, and errors of its size."""
    values = d.x[d.kept]
    if values.size < 64 or not np.any(values):
        return None
    step, name = _steps(values, dtype)
    if step is None:
        return None
    off = np.abs(d.e[d.kept])
    # Errors that came in with the inputs add to half a step.
    room = 0.51 * step + 3 * float(np.median(off))
    share = float((off[off <= room] ** 2).sum()) / d.total if d.total else 0.0
    big_enough = float(np.sqrt((off**2).mean())) >= 0.03 * float(np.mean(step))
    return claimed("coarser-type", share, "the target has only the values of %s" % name, type=name) if big_enough else None


def _steps(values: Array, dtype: str) -> Tuple[Any, str]:
    """Return the distance of the values that x can take, and the coarser type's name; (None, "") where x is as fine as its type."""
    distinct = np.unique(values)
    if len(distinct) <= 256 and values.size >= 4 * len(distinct) and len(distinct) > 8:
        steps = np.diff(distinct)
        step = float(np.median(steps[steps <= 1.5 * steps.min() + 1e-300]))
        off = np.abs(distinct / step - np.round(distinct / step))
        if np.abs(distinct).max() / step <= 256 and (off < 0.2).mean() > CLAIMED:
            return step, "an 8-bit integer with a scale of %.6g" % step
    if dtype in ("float32", "float16"):
        coarse = ulp(values, "bfloat16")
        on_grid = values == np.round(values / coarse) * coarse
        if on_grid.mean() > 0.999:
            return coarse, "bfloat16"
    return None, ""
