"""Converts many numbers to decimal text at once: a column of numbers becomes a matrix of bytes in
which zero bytes are ignored.

A Python loop (``csv.writer``) spends a microsecond and more on each number; here digits come from
tables and from arithmetic on whole arrays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, List

import numpy as np

Array = Any

_DIGITS = 9
_LEAST, _MOST = -330, 310
_INTEGER_DIGITS = 20
NAN, INFINITY = b"NaN", b"inf"
_NAMES = {b"nan": NAN, b"-nan": NAN, b"inf": INFINITY, b"-inf": b"-" + INFINITY, b"-0": b"0"}


def text_of(values: Array) -> Array:
    """Return one-dimensional numbers as text.

    Floats of up to 32 bits have nine significant digits (float16: five), float64 seventeen, so that
    each reads back as the same number of its type; integers are exact.

    Returns
    -------
    ndarray
        uint8, a row for each number; its text is what is left without the zero bytes.
    """
    kind = values.dtype.kind
    if kind == "f":
        if values.dtype.itemsize == 2:
            return _half_table()[np.ascontiguousarray(values).view(np.uint16)]
        return nine_digits(values) if values.dtype.itemsize == 4 else _seventeen_digits(values)
    if kind == "b":
        return integers(values.view(np.uint8))
    if kind in "iu":
        return integers(values)
    # Complex numbers and Python's own.
    return matrix_of([_repr_of(value) for value in values.tolist()])


def matrix_of(texts: List[Any]) -> Array:
    """Return texts as such a matrix."""
    joined = np.array(texts, dtype="S") if texts else np.zeros(0, "S1")
    return joined.view(np.uint8).reshape(len(texts), -1)


def _seventeen_digits(values: Array) -> Array:
    if not values.size:
        return matrix_of([])
    texts = ("%.17g\n" * values.size % tuple(values.tolist())).encode("ascii").split(b"\n")[:-1]
    if not np.isfinite(values).all():
        texts = [_NAMES.get(text, text) for text in texts]
    return matrix_of(texts)


def _repr_of(value: Any) -> bytes:
    if isinstance(value, complex):
        return (
            _repr_of(value.real)
            + (b"" if str(value.imag)[0] in "-+" else b"+")
            + _repr_of(value.imag)
            + b"j"
        )
    if value != value:
        return NAN
    if value in (float("inf"), float("-inf")):
        return INFINITY if value > 0 else b"-" + INFINITY
    text = repr(value)
    return (text[:-2] if text.endswith(".0") else text).encode("ascii")


@lru_cache(maxsize=None)
def _half_table() -> Array:
    """Return the text of every float16 by its bits: five significant digits tell them apart."""
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    texts = ("%.5g\n" * values.size % tuple(values.tolist())).encode("ascii").split(b"\n")[:-1]
    return matrix_of([_NAMES.get(text, text) for text in texts])


@lru_cache(maxsize=None)
def _four_digits() -> Array:
    """Return the four digits of 0 to 9999, as uint32 of four bytes each."""
    return np.array(["%04d" % number for number in range(10000)], "S4").view(np.uint32)


@lru_cache(maxsize=None)
def _trailing_zeros() -> Array:
    return np.array(
        [
            len(text) - len(text.rstrip("0"))
            for text in ("%04d" % number for number in range(10000))
        ],
        np.int8,
    )


def integers(values: Array) -> Array:
    """Return whole numbers as text, exactly."""
    if values.dtype.kind == "u":
        negative, magnitude = np.zeros(values.shape, np.bool_), values.astype(np.uint64)
    else:
        wide = values.astype(np.int64)
        negative = wide < 0
        # The most negative number's magnitude is right as well: two's complement.
        magnitude = np.where(negative, -wide, wide).view(np.uint64)
    top = int(magnitude.max(initial=np.uint64(0)))
    groups = -(-len(str(top)) // 4)
    out = np.empty((values.size, 1 + 4 * groups), np.uint8)
    out[:, 0] = np.where(negative, ord("-"), 0)
    narrow = np.uint32 if top < 1 << 32 else np.uint64
    rest, base = magnitude.astype(narrow), narrow(10000)
    four = _four_digits()
    for group in reversed(range(groups)):
        higher = rest // base
        out[:, 1 + 4 * group : 5 + 4 * group] = (
            four[(rest - higher * base).astype(np.int64)].view(np.uint8).reshape(-1, 4)
        )
        rest = higher
    width = 4 * groups
    lengths = np.ones(values.shape, np.int64)
    for digits in range(1, min(width, _INTEGER_DIGITS)):
        lengths += magnitude >= np.uint64(10**digits)
    out[:, 1:] &= _tail_masks(width)[lengths]
    return out


@lru_cache(maxsize=None)
def _tail_masks(width: int) -> Array:
    """Return, for each number of digits, a mask that keeps so many of the last bytes."""
    masks = np.zeros((width + 1, width), np.uint8)
    for digits in range(1, width + 1):
        masks[digits, width - digits :] = 0xFF
    return masks


def nine_digits(values: Array) -> Array:
    """Return floats with nine significant digits, without trailing zeros, as ``%.9g`` writes them.

    The digits come from one product in float64: each is right to within one in the ninth place,
    where float32 has a distance of at least six between its numbers.
    """
    wide = values.astype(np.float64)
    size = np.abs(wide)
    usual = (size > 0) & np.isfinite(size)
    size = np.where(usual, size, 1.0)
    exponent = np.floor(np.log10(size)).astype(np.int64)
    digits = np.rint(_scaled(size, exponent))
    high, low = digits >= 10.0**_DIGITS, digits < 10.0 ** (_DIGITS - 1)
    if high.any() or low.any():
        exponent += high
        exponent -= low
        digits = np.rint(_scaled(size, exponent))
    return _laid_out(wide, usual, exponent, digits.astype(np.int64))


def _scaled(size: Array, exponent: Array) -> Array:
    """Return the numbers with nine digits before the point; in two steps, for a power of ten may be
    beyond float64.
    """
    power = _DIGITS - 1 - exponent
    if exponent.size and int(exponent.min()) > -20 and int(exponent.max()) < 20:
        scaled: Array = size * _powers()[power + 400]
        return scaled
    half = power // 2
    return size * _powers()[half + 400] * _powers()[power - half + 400]


@lru_cache(maxsize=None)
def _powers() -> Array:
    return np.array(
        [float("1e%d" % number) if -308 <= number <= 308 else 1.0 for number in range(-400, 401)]
    )


def _laid_out(values: Array, usual: Array, exponent: Array, digits: Array) -> Array:
    """Return sign, prefix, digits with a place for the point behind each, and the exponent, put
    together from words of eight bytes.
    """
    first = digits // 100000000
    rest = (digits - first * 100000000).astype(np.uint32)
    upper32 = rest // np.uint32(10000)
    lower = (rest - upper32 * np.uint32(10000)).astype(np.int64)
    upper = upper32.astype(np.int64)
    zeros = _trailing_zeros()
    significant = np.where(
        lower != 0, 9 - zeros[lower], 5 - np.where(upper != 0, zeros[upper], 4)
    ).astype(np.int64)
    fixed = (exponent >= -4) & (exponent < _DIGITS)
    row = np.where(fixed, exponent + 4, _DIGITS + 4)
    point = np.where(fixed, exponent, 0)
    digit_count = np.maximum(significant, np.where(fixed, exponent + 1, 1))
    # Behind the last digit and in front of the first there is no point.
    point = np.where((point >= 0) & (significant > point + 1), point, 8)
    words = np.empty((values.size, 3 if fixed.all() else 4), np.uint64)
    words[:, 0] = _prefixes()[2 * row + (values < 0)] | _firsts()[first] | _points(0)[point]
    words[:, 1] = (_spread_digits()[upper] & _mask_of_kept(1)[digit_count]) | _points(1)[point]
    words[:, 2] = (_spread_digits()[lower] & _mask_of_kept(5)[digit_count]) | _points(5)[point]
    if words.shape[1] == 4:
        words[:, 3] = _exponents()[np.where(fixed, 0, exponent - _LEAST + 1)]
    out = words.view(np.uint8)
    if not usual.all():
        _mark_special(out, values)
    return out


def _mark_special(out: Array, values: Array) -> None:
    """Write zeros, NaN and infinities into their rows."""
    for text, chosen in (
        (b"0", values == 0),
        (NAN, np.isnan(values)),
        (INFINITY, values == np.inf),
        (b"-" + INFINITY, values == -np.inf),
    ):
        if chosen.any():
            line = np.zeros(out.shape[1], np.uint8)
            line[: len(text)] = np.frombuffer(text, np.uint8)
            out[chosen] = line


def _words(texts: List[bytes]) -> Array:
    """Return texts of up to eight bytes as one number each."""
    return np.array(texts, "S8").view(np.uint64)


@lru_cache(maxsize=None)
def _prefixes() -> Array:
    """Return sign and leading zeros, six bytes, by 2 × (exponent + 4) + negative; the last two are
    of numbers with an exponent.
    """
    texts = []
    for exponent in range(-4, _DIGITS + 1):
        zeros = b"0." + b"0" * (-exponent - 1) if exponent < 0 else b""
        texts += [zeros, b"-" + zeros]
    return _words(texts)


@lru_cache(maxsize=None)
def _firsts() -> Array:
    """Return the first digit as the seventh byte."""
    return _words([b"\0" * 6 + b"%d" % digit for digit in range(10)])


@lru_cache(maxsize=None)
def _spread_digits() -> Array:
    """Return the four digits of 0 to 9999, each with an empty byte behind it."""
    return _words(
        [b"\0".join(b"%c" % digit for digit in b"%04d" % number) for number in range(10000)]
    )


@lru_cache(maxsize=None)
def _points(first: int) -> Array:
    """Return the point, by the number of the digit that it stands behind, in the word that begins
    with digit ``first``.
    """
    if first == 0:
        return _words([b"\0" * 7 + b"."] + [b""] * 8)
    places = [number - first for number in range(9)]
    return _words(
        [
            b"\0" * (2 * place + 1) + b"." if 0 <= place < 4 and number < 8 else b""
            for number, place in enumerate(places)
        ]
    )


@lru_cache(maxsize=None)
def _mask_of_kept(first: int) -> Array:
    """Return a mask of the digits that are kept, by how many are, for the word that begins with
    digit ``first``.
    """
    return _words([b"\xff\0" * max(0, min(4, count - first)) for count in range(_DIGITS + 1)])


@lru_cache(maxsize=None)
def _exponents() -> Array:
    return _words([b""] + [b"e%+03d" % number for number in range(_LEAST, _MOST)])
