"""The fast inner loop of the metrics: one block of ordinary numbers, float64 throughout, no
allocation.

Blocks that hold NaN, Inf, 64-bit integers beyond 2**53 or magnitudes whose squares leave float64
are recognised from the sums themselves and handed back; :mod:`goldwatch.metrics.exact_sums` takes
them.
"""

from __future__ import annotations

import math
import threading
from typing import Callable, Iterator, List, Optional, Tuple

import numpy as np

from ..base.errors import NotComparable, TypeNotComparable
from ..tensors.dtypes import BFLOAT16, plain_floats
from .pair_sums import SAFE_BIG, SAFE_SMALL, PairSums

BLOCK = 65536
"""Elements per pass: few enough that the work arrays stay in cache, enough to hide the cost of the
calls.
"""

RELATIVE_FLOOR = 2.220446e-16
"""Golden elements up to this magnitude have no relative error (section 4 of the metric
definitions).
"""

KL_FLOOR = 1.1920929e-07
"""Smallest scaled value in the Kullback-Leibler divergence."""

CANCELLED = 1e-3
"""Where squared deviations are a smaller share of the squares, subtracting the mean's has eaten too
many of an older numpy's 14 digits.
"""

# OpenBLAS runs a dot product of more than 10,000 elements in several threads; here the processes
# are the parallelism.
DOT_MAX = 8192
_total, _least, _most = np.add.reduce, np.minimum.reduce, np.maximum.reduce
# Of a float16 moved up by 13 the sign and the 15 bits below it; float16's and float32's exponents
# are biased by 15 and 127, hence 2**112; the largest float16.
_HALF_MASK = np.array(0x8FFFE000, dtype=np.uint32).astype(np.int32)
_HALF_SCALE = np.float32(2.0**112)
_HALF_LIMIT = 65504.0
# 2**53 + 1 is rounded to 2**53.
_WIDE_LIMIT = 2.0**53 - 1.0


class Workspace(threading.local):
    """Arrays of one thread that every block reuses."""

    def __init__(self) -> None:
        self.x = np.empty(BLOCK)
        self.y = np.empty(BLOCK)
        self.d = np.empty(BLOCK)
        self.a = np.empty(BLOCK)
        self.bits = np.empty(BLOCK, np.int32)
        self.mask = np.empty(BLOCK, np.bool_)
        self.eps = np.full(BLOCK, RELATIVE_FLOOR)
        self.floor = np.full(BLOCK, KL_FLOOR)
        self.ones = np.ones(BLOCK)


_workspace: Optional[Workspace] = None


def workspace() -> Workspace:
    """Return this thread's work arrays (made at first use, not at import)."""
    global _workspace
    if _workspace is None:
        _workspace = Workspace()
    return _workspace


def as_reals(x: np.ndarray, y: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Return the pair as arrays of real numbers in native byte order.

    Complex becomes interleaved real and imaginary parts (a real partner gets zero imaginary parts),
    bool becomes 0 and 1.

    Raises
    ------
    NotComparable
        The shapes differ, or a dtype is not numeric.
    """
    if x.shape != y.shape:
        raise NotComparable(
            "the shapes differ: target %s, golden %s" % (list(x.shape), list(y.shape))
        )
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        return _interleaved(x), _interleaved(y)
    return _real(x), _real(y)


def _real(a: np.ndarray) -> np.ndarray:
    kind = a.dtype.kind
    if a.dtype == BFLOAT16:
        return a
    if kind == "b":
        return a.view(np.uint8)
    if kind not in "fiu":
        raise TypeNotComparable("values of dtype %s are not numbers that can be compared" % a.dtype)
    if not a.dtype.isnative:
        return a.astype(a.dtype.newbyteorder("="))
    return a


def _interleaved(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "c":
        a = _real(a)
        parts = np.zeros(a.shape + (2,), a.dtype)
        parts[..., 0] = a
        return parts.reshape(-1)
    native = np.ascontiguousarray(a, a.dtype.newbyteorder("=")).reshape(-1)
    real: np.ndarray = native.view(native.real.dtype)
    return real


def pieces(x: np.ndarray, y: np.ndarray) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Cut two equally shaped arrays into aligned pieces of at most BLOCK elements, without
    copying.
    """
    size = x.size
    if size <= BLOCK:
        if size:
            yield x, y
        return
    if x.ndim > 1:
        if x.flags.c_contiguous and y.flags.c_contiguous:
            x, y = x.reshape(-1), y.reshape(-1)
        elif x.flags.f_contiguous and y.flags.f_contiguous:
            x, y = x.T.reshape(-1), y.T.reshape(-1)
    length = x.shape[0]
    inner = size // length
    if inner > BLOCK:
        for i in range(length):
            for piece in pieces(x[i], y[i]):
                yield piece
        return
    parts = -(-length // (BLOCK // inner))
    step = -(-length // parts)
    for start in range(0, length, step):
        yield x[start : start + step], y[start : start + step]


def load(a: np.ndarray, out: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return a piece as contiguous 1-D float64, in ``out`` unless it is that already.

    float16 goes through integer shifts: a half's 15 low bits, moved up by 13, are a float32 that is
    too small by 2**112. So NaN and Inf of float16 come out as magnitudes of 65536 and more;
    :func:`load_limit` tells.
    """
    a = plain_floats(a)
    n = a.size
    code = a.dtype.char
    if code == "d" and a.flags.c_contiguous:
        flat: np.ndarray = a.reshape(-1)
        return flat
    out = out[:n]
    if code == "e":
        bits = bits[:n]
        np.copyto(bits.reshape(a.shape), a.view(np.int16))
        np.left_shift(bits, 13, out=bits)
        np.bitwise_and(bits, _HALF_MASK, out=bits)
        single = bits.view(np.float32)
        np.multiply(single, _HALF_SCALE, out=single)
        np.copyto(out, single)
    else:
        np.copyto(out.reshape(a.shape), a, casting="unsafe")
    return out


def load_limit(dtype: np.dtype) -> float:
    """Return the magnitude up to which :func:`load` is exact for this dtype."""
    if dtype.char == "e":
        return _HALF_LIMIT
    if dtype.kind in "iu" and dtype.itemsize == 8:
        return _WIDE_LIMIT
    return math.inf


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return the inner product of two contiguous float64 vectors as a Python float, in one
    thread.
    """
    n = a.size
    if n <= DOT_MAX:
        return float(a.dot(b))
    rows = -(-n // DOT_MAX)
    length = n // rows
    whole = rows * length
    if whole == n:
        products: List[float] = (
            np.matmul(a.reshape(rows, 1, length), b.reshape(rows, length, 1)).ravel().tolist()
        )
        return sum(products)
    return dot(a[:whole], b[:whole]) + float(a[whole:].dot(b[whole:]))


def _spread(
    values: np.ndarray, squares: float, low: float, high: float, scratch: np.ndarray
) -> Tuple[float, float, float]:
    """Return base, mean above it, and the sum of squared deviations."""
    n = values.size
    if low == high:
        return low, 0.0, 0.0
    total = float(_total(values))
    m2 = squares - total * total / n
    # A second look is one around one of the values.
    if m2 > CANCELLED * squares:
        return 0.0, total / n, m2
    base = float(values[0])
    np.subtract(values, base, out=scratch)
    mean = float(_total(scratch)) / n
    np.subtract(scratch, mean, out=scratch)
    return base, mean, dot(scratch, scratch)


Visit = Callable[[np.ndarray, Optional[np.ndarray], PairSums], None]


def fast_sums(
    x: np.ndarray,
    y: np.ndarray,
    limits: Tuple[float, float],
    work: Workspace,
    relative: bool = True,
    spread: bool = True,
    visit: Optional[Visit] = None,
) -> Optional[PairSums]:
    """Return the sums of one block, or None when it needs the exact path.

    Parameters
    ----------
    x, y
        Contiguous float64 vectors of one size, 1 to BLOCK; either may lie in ``work.x`` or
        ``work.y``, which are overwritten.
    limits
        Magnitudes of x and y beyond which the float64 values cannot be trusted
        (:func:`load_limit`).
    relative, spread
        Whether the relative errors, and means and variances, are wanted.
    visit
        Called once with ``y``, the magnitudes of ``x - y`` (None where all are 0) and the sums, for
        who needs more of the same arrays; ``work.d`` is free then. Not called where None is
        returned.
    """
    n = x.size
    xx, yy = dot(x, x), dot(y, y)
    sums = PairSums()
    sums.x_low, sums.x_high = x_low, x_high = float(_least(x)), float(_most(x))
    sums.y_low, sums.y_high = y_low, y_high = float(_least(y)), float(_most(y))
    if not (SAFE_SMALL < xx < SAFE_BIG or x_low == x_high == 0.0) or not (
        SAFE_SMALL < yy < SAFE_BIG or y_low == y_high == 0.0
    ):
        return None
    if max(-x_low, x_high) > limits[0] or max(-y_low, y_high) > limits[1]:
        return None
    sums.n, sums.xx, sums.yy = n, xx, yy
    if spread:
        sums.x_base, sums.x_mean, sums.x_m2 = _spread(x, xx, x_low, x_high, work.d[:n])
        sums.y_base, sums.y_mean, sums.y_m2 = _spread(y, yy, y_low, y_high, work.d[:n])
    xy = dot(x, y)
    # From here on in place, unless x and y are the caller's own: the fewer arrays, the more stays
    # in cache.
    d, a = work.x[:n], work.y[:n]
    np.subtract(x, y, out=d)
    dd = dot(d, d)
    np.absolute(d, out=d)
    max_ad = float(_most(d))
    if max_ad == 0.0:
        sums.xy = xy
        if visit is not None:
            visit(y, None, sums)
        return sums
    if not SAFE_SMALL < dd < SAFE_BIG:
        return None
    sums.xy, sums.dd, sums.max_ad, sums.ad = xy, dd, max_ad, float(_total(d))
    if visit is not None:
        visit(y, d, sums)
    if relative:
        np.absolute(y, out=a)
        if not _least(a) > RELATIVE_FLOOR:
            mask = work.mask[:n]
            np.greater(a, RELATIVE_FLOOR, out=mask)
            np.multiply(d, mask, out=d)
            np.maximum(a, work.eps[:n], out=a)
        np.divide(d, a, out=d)
        sums.rel, sums.max_rel = float(_total(d)), float(_most(d))
    return sums
