"""Patterns of values: whatever stands where, x is a function of y."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

import numpy as np

from ...tensors.type_precision import ROUNDING, rounding_of, ulp
from ..worst_slice import median
from .aligned_pair import PARTS
from .difference import Difference, by_chance, helps_most
from .finding import Finding, claimed

Array = Any

_LARGEST = {
    "int8": 127.0,
    "uint8": 255.0,
    "int16": 32767.0,
    **{dtype: kind.largest for dtype, kind in ROUNDING.items()},
}
# A type of 8 bits has 256 values; of fewer than 12 different ones many lattices fit. Root mean
# square off the lattice, in steps: of values without one 0.29. 12 and 0.06 are chosen, no trial
# of each alone.
_LEVELS = 256
_LEAST_LEVELS = 12
_OFF_LATTICE = 0.06
_COARSER = {
    "float16": ("bfloat16",),
    "float32": ("bfloat16", "float16"),
    "float64": ("bfloat16", "float16", "float32"),
}
# A smaller factor is none: the values have nothing to do with the golden ones; chosen, no trial.
_LEAST_FACTOR = 1e-3
# How much coarser than the type's own steps a lattice is, and how many elements must be able to
# show it; chosen, no trial.
_FINER, _TELLING = 4, 64
# Of their squares about the mean, what elements between the bounds of a saturation are off at most.
# Of 12,400 products with other weights (constant, cut, of another sign, drawn) 83 look cut off, and
# are off by 0.65 at least; outputs that are cut off beside errors that are known, or none, by less
# than 0.005 (9 of 2,942 of them are not told any more: few elements are left).
_KEPT = 0.1
# Relative distance of a target from a fit beyond which it is told as "about" that: 20 times the
# rounding of float16, less than half a step of 8 bits in most tensors; chosen, no trial.
_INEXACT = 0.01
# Fewer elements in a row may be 0 for another reason; chosen, no trial.
_LEAST_LOST = 8
# Rows whose sums are 1 but for this are probabilities; chosen, no trial.
_SUM_OFF = 0.02


def within_rounding(x: Array, y: Array, dtype: str) -> Array:
    """Return which elements are their golden ones, rounded to the target's type: at most one unit
    in its last place off.

    Parameters
    ----------
    x, y
        Target and golden elements, any numeric types; whole numbers are compared exactly, complex
        ones by both parts. A whole number is a float that rounds to it.
    dtype
        The target's, as in the DataType column.
    """
    x, y = np.asarray(x), np.asarray(y)
    if "c" in (x.dtype.kind, y.dtype.kind):
        return within_rounding(x.real, y.real, dtype) & within_rounding(x.imag, y.imag, dtype)
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        return _equal_whole(x, y)
    whole = x.dtype.kind in "iu"
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        right = (x == y) | (np.abs(x - y) <= (0.5 if whole else ulp(y, dtype)))
        right |= np.isnan(x) & np.isnan(y)
        # Infinity where the golden is a number is no rounding: it is overflow.
        right &= np.isinf(x) == np.isinf(y)
    return right


def _equal_whole(x: Array, y: Array) -> Array:
    """Compare whole numbers; numpy would compare int64 with uint64 as floats."""
    if (
        "u" in (x.dtype.kind, y.dtype.kind)
        and "i" in (x.dtype.kind, y.dtype.kind)
        and 8 in (x.dtype.itemsize, y.dtype.itemsize)
    ):
        signed, unsigned = (x, y) if x.dtype.kind == "i" else (y, x)
        return (signed >= 0) & (
            signed.astype(np.int64).view(np.uint64) == unsigned.astype(np.uint64)
        )
    return np.equal(x, y)


def healthy(x: Array, y: Array, dtype: str) -> Optional[Finding]:
    """Return a finding where every element is its golden one, rounded to the target's type (at most
    one unit in the last place off).
    """
    if not within_rounding(x, y, dtype).all():
        return None
    return Finding(
        "healthy", 1.0, "every element is its golden one within the rounding of %s" % dtype
    )


def scale(d: Difference) -> Optional[Finding]:
    """x = a·y; a near −1 is a flipped sign."""
    if not d.yy:
        return None
    factor = float((d.x * d.y).sum()) / d.yy
    if factor < 0:
        flipped = claimed(
            "sign-flip",
            d.share(d.left(-d.y), 0),
            "the signs are flipped: target is -1 x golden",
            factor=-1.0,
        )
        if flipped is not None:
            return flipped
    # Values that have nothing to do with the golden ones have a factor of about 0: that is no
    # scale.
    if abs(factor) < _LEAST_FACTOR:
        return None
    rest = d.left_by_others(d.x - factor * d.y, d.y * d.y / d.yy)
    share = min(d.share(rest, 0, 1), d.share_of_target(rest))
    sentence = "the target is %sthe golden x %.5g" % (
        _about(d, d.left(factor * d.y), float((d.x * d.x).sum())),
        factor,
    )
    return claimed("scale", share, sentence, factor=factor)


def _about(d: Difference, left: float, squares: float) -> str:
    """Return "about " where more of the target is left than inputs and rounding explain.

    Parameters
    ----------
    left, squares
        Sums of squares: of what a fit leaves, and of the target.
    """
    return "about " if left - (d.total - d.own_error) > _INEXACT**2 * squares else ""


def offset(d: Difference) -> Optional[Finding]:
    """x = y + b."""
    if not d.count:
        return None
    shift = float(d.e.sum()) / d.count
    left = d.left(d.y + shift)
    sentence = "the target is %sthe golden %+.6g" % (
        _about(d, left, float((d.x * d.x).sum())),
        shift * d.unit,
    )
    return claimed("offset", d.share(left), sentence, offset=shift * d.unit)


def _has_two_values(d: Difference) -> bool:
    """Tell whether the golden elements are two numbers at most, of which a factor and an offset
    make any two others.
    """
    y = d.y[d.compared]
    least, most = y.min(initial=math.inf), y.max(initial=-math.inf)
    return bool(((y == least) | (y == most)).all())


def scale_and_offset(d: Difference) -> Optional[Finding]:
    """x = a·y + b, as of values that were quantised with a zero point."""
    if d.count < 4:
        return None
    mean = float(d.y.sum()) / d.count
    centred = np.where(d.compared, d.y - mean, 0.0)
    spread = float((centred * centred).sum())
    if not spread or _has_two_values(d):
        return None
    factor = float((d.x * centred).sum()) / spread
    shift = float(d.x.sum()) / d.count - factor * mean
    if abs(factor) < _LEAST_FACTOR:
        return None
    rest = d.left_by_others(d.x - factor * d.y - shift, 1.0 / d.count + centred * centred / spread)
    own_mean = float(d.x.sum()) / d.count
    share = min(d.share(rest, 0, 2), d.share_of_target(rest, own_mean))
    squares = float(np.square(np.where(d.compared, d.x - own_mean, 0.0)).sum())
    about = _about(d, d.left(factor * d.y + shift), squares)
    return claimed(
        "scale",
        share,
        "the target is %sthe golden x %.5g %+.6g" % (about, factor, shift * d.unit),
        factor=factor,
        offset=shift * d.unit,
    )


def softmax_scale(d: Difference) -> Optional[Finding]:
    """x = softmax(a·s) where y = softmax(s), along the last axis: the scores have a factor."""
    x, y = d.x * d.unit, d.y * d.unit
    if x.ndim < 1 or x.shape[-1] < 3 or x.min(initial=0.0) < 0 or y.min(initial=0.0) < 0:
        return None
    if any(np.abs(side.sum(axis=-1) - 1.0).max(initial=0.0) > _SUM_OFF for side in (x, y)):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        both = (x > 0) & (y > 0)
        logs = [np.where(both, np.log(side), 0.0) for side in (x, y)]
        weights = np.where(both, y, 0.0)
        weights = weights / weights.sum(axis=-1, keepdims=True)
        left, right = (side - (weights * side).sum(axis=-1, keepdims=True) for side in logs)
        spread = float(np.nansum(weights * right * right))
        factor = float(np.nansum(weights * left * right)) / spread if spread else 1.0
        raised = np.where(y > 0, y**factor, 0.0)
        explained = raised / raised.sum(axis=-1, keepdims=True)
    if not np.isfinite(explained).all():
        return None
    explained = explained / d.unit
    # One or two large probabilities meet by chance: the small ones must come nearer as well.
    if not helps_most(np.where(d.compared, d.x - explained, 0.0), d.e, d.noise):
        return None
    sentence = "the target is a softmax like the golden, of scores x %.5g" % factor
    # The sum of each row is given: its errors cancel, whatever they are.
    fitted = 1 + x.size // x.shape[-1]
    return claimed("scale", d.share(d.left(explained), 1, fitted), sentence, scores=factor)


def by_index(d: Difference, axis: int, letter: str) -> List[Finding]:
    """x = a[c]·y, x = y + b[c], or both, with one number for each index of an axis."""
    size = d.x.shape[axis]
    others = tuple(index for index in range(d.x.ndim) if index != axis)
    if size < 2 or d.count < 2 * size:
        return []
    count = np.maximum(d.compared.sum(axis=others, keepdims=True), 1)
    findings = []
    yy = (d.y * d.y).sum(axis=others, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where(yy > 0, (d.x * d.y).sum(axis=others, keepdims=True) / yy, 1.0)
        weights = np.where(yy > 0, d.y * d.y / yy, 0.0)
    shifts = d.e.sum(axis=others, keepdims=True) / count
    # Some indices of zeros have no factor.
    is_zero = ~np.any(np.where(d.compared, d.x, 0.0), axis=others, keepdims=True) & (yy > 0)
    if is_zero.any() and not is_zero.all():
        share = d.share(d.left(np.where(is_zero, 0.0, d.y)))
        zeros = np.flatnonzero(is_zero)
        sentence = "%d of %d indices of axis %s are 0 throughout, the first is %d" % (
            zeros.size, size, letter, zeros[0],
        )  # fmt: skip
        if zeros.size == 1:
            sentence = "index %d of axis %s (of %d) is 0 throughout" % (zeros[0], letter, size)
        found = claimed("region", share, sentence, axis=letter)
        if found is not None:
            return [found]
    own_mean = np.where(d.compared, d.x, 0.0).sum(axis=others, keepdims=True) / count
    # A target of zeros is no scale; nor do values that are alike in each index tell a factor.
    if np.abs(factors).max() >= _LEAST_FACTOR:
        rest = d.left_by_others(d.x - factors * d.y, weights)
        share = min(d.share(rest, 0, size), d.share_of_target(rest, own_mean))
        findings.append(claimed("scale", share, _factors(factors, letter), axis=letter))
    rest = d.left(d.y + shifts)
    share = min(d.share(rest, size), d.share_of_target(rest, own_mean))
    findings.append(claimed("offset", share, _offsets(shifts * d.unit, letter), axis=letter))
    if not any(findings) and not _has_two_values(d):
        mean = d.y.sum(axis=others, keepdims=True) / count
        centred = np.where(d.compared, d.y - mean, 0.0)
        spread = (centred * centred).sum(axis=others, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            slopes = np.where(
                spread > 0, (d.e * centred).sum(axis=others, keepdims=True) / spread, 0.0
            )
            weights = 1.0 / count + np.where(spread > 0, centred * centred / spread, 0.0)
        sentence = _factors(1.0 + slopes, letter) + ", and an offset for each"
        rest = d.left_by_others(d.e - slopes * centred - shifts, weights)
        share = min(d.share(rest, 0, 2 * size), d.share_of_target(rest, own_mean))
        if np.abs(1.0 + slopes).max() >= _LEAST_FACTOR:
            findings.append(claimed("scale", share, sentence, axis=letter))
    return [finding for finding in findings if finding is not None]


def _factors(factors: Array, letter: str) -> str:
    what = (
        "the real and the imaginary part have a factor of their own each"
        if letter == PARTS
        else "each index of axis %s has a factor of its own" % letter
    )
    return "%s, from %.6g to %.6g" % (what, float(factors.min()), float(factors.max()))


def _offsets(shifts: Array, letter: str) -> str:
    return "each index of axis %s has an offset of its own, from %.4g to %.4g" % (
        letter,
        float(shifts.min()),
        float(shifts.max()),
    )


def saturation(d: Difference, dtype: str) -> Optional[Finding]:
    """x = y, cut off at a highest and a lowest value at which several elements stand."""
    limit = _LARGEST.get(dtype)
    low, high = _stop(-d.x, -d.y, limit, d.unit), _stop(d.x, d.y, limit, d.unit)
    if low is None and high is None:
        return None
    lowest, highest = -np.inf if low is None else -low, np.inf if high is None else high
    share = d.share(d.left(np.clip(d.y, lowest, highest)))
    at = [value * d.unit for value in (lowest, highest) if np.isfinite(value)]
    near_limit = limit is not None and any(abs(abs(value) - limit) <= 0.01 * limit for value in at)
    between = d.compared & (d.y < highest) & (d.y > lowest)
    # Where all values are one, nothing shows that others would have been kept.
    if not near_limit and not (between.any() and _is_kept(d, between)):
        return None
    where = " and ".join("%.6g" % value for value in at)
    return claimed(
        "saturation",
        share,
        "values are cut off at %s%s" % (where, ", the limit of %s" % dtype if near_limit else ""),
        at=at,
        of_type=near_limit,
    )


def _is_kept(d: Difference, here: Array) -> bool:
    """Tell whether elements are the golden ones, but for what needs no explanation: of other
    values, the largest hold most of the error, and cutting them off explains that.
    """
    y = d.y[here]
    squares = float(np.square(y - y.mean()).sum())
    off = max(0.0, float(np.square(d.e[here]).sum()) - (d.total - d.own_error))
    left = off / squares if squares else 1.0
    return left <= _KEPT and not by_chance(left, y.size - 1)


def _stop(x: Array, y: Array, limit: Optional[float], unit: float) -> Optional[float]:
    """Return the highest value where several elements stand at it that should be higher; at the
    type's limit one is enough.
    """
    top = float(x.max(initial=0.0))
    if top <= 0:
        return None
    at = x >= top * (1 - 2.0**-10)
    over = at & (y > top * (1 + 2.0**-9))
    enough = 1 if limit is not None and abs(top * unit - limit) <= 0.01 * limit else 3
    return top if over.sum() >= enough and over.sum() >= 0.5 * at.sum() else None


def flush_to_zero(d: Difference) -> Optional[Finding]:
    """x = y, small values 0."""
    gone = (d.x == 0) & (d.y != 0) & d.compared
    if gone.sum() < 2:
        return None
    most = float(np.quantile(np.abs(d.y[gone]), 0.99))
    small = (np.abs(d.y) <= most) & (d.y != 0) & d.compared
    if gone.sum() < 0.9 * small.sum() or gone.sum() == int(((d.y != 0) & d.compared).sum()):
        return None
    share = d.share(d.left(np.where(gone, 0.0, d.y)))
    return claimed(
        "flush-to-zero",
        share,
        "%d values of a magnitude up to %.4g became 0" % (gone.sum(), most * d.unit),
        below=most * d.unit,
    )


def not_written(d: Difference) -> Optional[Finding]:
    """x = y, and 0 in all elements before the first or behind the last that is not, in the golden's
    order.
    """
    x, y = d.x.reshape(-1), d.y.reshape(-1)
    written = np.flatnonzero(x)
    if not written.size:
        return None
    parts = ((0, int(written[0])), (int(written[-1]) + 1, x.size))
    lost = [np.count_nonzero(y[first:end]) for first, end in parts]
    first, end = parts[int(lost[1] >= lost[0])]
    if max(lost) < _LEAST_LOST:
        return None
    gone = (np.arange(x.size) >= first) & (np.arange(x.size) < end)
    share = d.share(d.left(np.where(gone.reshape(d.y.shape), 0.0, d.y)))
    sentence = (
        "elements %d to %d of %d, counted in the golden's order, are 0 throughout: they were not "
        "computed, or not written" % (first, end - 1, x.size)
    )
    return claimed("region", share, sentence, unwritten=[first, end - 1])


def distinct_values(values: Array) -> Array:
    """Return the distinct ones of finite numbers of any shape, sorted."""
    # np.unique imports numpy's masked arrays first, which takes 10 ms.
    ordered = np.sort(values, axis=None)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)]]


def lattice_step(values: Array) -> Optional[float]:
    """Return the step of the at most 256 evenly spaced values that all of ``values`` are, but for a
    float16's rounding, or None.

    Parameters
    ----------
    values
        Finite numbers of any shape. An 8-bit integer with a scale and an offset, stored as float,
        is such a lattice; its ends lie on it.
    """
    values = np.reshape(values, -1)
    # A few elements tell of most tensors that they have too many values.
    if len(distinct_values(values[: 4 * _LEVELS])) > _LEVELS:
        return None
    distinct = distinct_values(values)
    if not _LEAST_LEVELS <= len(distinct) <= _LEVELS:
        return None
    distinct = distinct - distinct[0]
    steps = distinct[-1] / np.arange(len(distinct) - 1, _LEVELS)
    numbers = distinct / steps[:, None]
    off = np.sqrt(((numbers - np.round(numbers)) ** 2).mean(axis=1))
    return float(steps[int(np.argmax(off < _OFF_LATTICE))]) if (off < _OFF_LATTICE).any() else None


def coarser_type(d: Difference, dtype: str) -> Optional[Finding]:
    """x has the few values of a coarser type, and errors of its size."""
    values = d.x[d.compared] * d.unit
    if values.size < 64 or not np.any(values) or not rounding_of(dtype).step:
        return None
    step, kind, name = _steps(values, dtype)
    # Where the golden values are as coarse, that is no error.
    if step is None or _steps(d.y[d.compared] * d.unit, dtype)[1] == kind:
        return None
    step, off = step / d.unit, np.abs(d.e[d.compared])
    # Errors that came in with the inputs add to half a step; the zeros of an activation have none.
    usual = median(off[off > 0]) if off.any() else 0.0
    # A coarser float may also have been cut off, not rounded.
    room = (0.51 if np.ndim(step) == 0 else 1.01) * step + 3 * np.minimum(usual, step)
    beyond = float((off[off > room] ** 2).sum())
    share = min(1.0, (d.total - beyond) / d.own_error) if d.total else 0.0
    big_enough = float(np.sqrt((off**2).mean())) >= 0.03 * float(np.mean(step))
    return (
        claimed("coarser-type", share, "the target has only the values of %s" % name, type=name)
        if big_enough
        else None
    )


def _steps(values: Array, dtype: str) -> Tuple[Any, str, str]:
    """Return the distance of the values that there can be, the coarser type and its name in words;
    None first where they are as fine as their type.
    """
    type_step = ulp(values, dtype)
    step = lattice_step(values)
    if step is not None and step >= _FINER * float(type_step.max()):
        return step, "int8 %.2g" % step, "an 8-bit integer with a scale of %.6g" % step
    for coarser in _COARSER.get(dtype, ()):
        coarse = ulp(values, coarser)
        # Only where the type itself has values between them it shows that they are not used.
        telling = _FINER * type_step <= coarse
        with np.errstate(over="ignore"):
            on_grid = (values == np.round(values / coarse) * coarse) & (
                np.abs(values) <= _LARGEST[coarser]
            )
        if telling.sum() >= _TELLING and on_grid[telling].mean() > 0.999:
            return coarse, coarser, coarser
    return None, "", ""
