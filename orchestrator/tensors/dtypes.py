"""Element types: bytes to numpy. Their codes and names: :mod:`goldwatch.base.element_types`.

Types that numpy does not have are decoded by look-up tables:
bfloat16 and the 8-bit floats to float32, packed integers to (u)int8. Packing: int4, int2 and uint2
low bits first, uint1 highest bit first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, Optional

import numpy as np

from ..base.element_types import BY_CODE, BY_GE_NAME, BY_NAME, ELEMENTS, UNDEFINED
from ..base.errors import FormatError, TypeNotComparable
from ..base.fast_dataclasses import dataclass

Array = np.ndarray  # any shape and element type

_NO_CODE = -1
_NUMPY_KINDS = "fiubc"


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes
    ----------
    code
        OutputDataType number; -1 for a numpy type that the container does not know.
    name
        As in the DataType column: numpy's name or ``bfloat16``, ``int4`` …; ``unknown(77)`` for a
        code that is not in the table.
    bits
        Bits of one element in storage, 0 when not known.
    kind
        ``f`` float, ``i`` signed, ``u`` unsigned, ``b`` bool, ``c`` complex, ``""`` when the type
        cannot be decoded.
    storage
        numpy type string of one stored unit (``<u2`` for bfloat16, ``|u1`` for 8-bit floats and
        packed integers, ``<f2`` for the halves of a complex32); None when the type cannot be
        decoded.
    """

    code: int
    name: str
    bits: int
    kind: str
    storage: Optional[str]

    @property
    def decodable(self) -> bool:
        """Whether :func:`decode` supports it."""
        return self.storage is not None

    @property
    def enumerator(self) -> str:
        """The name in the OutputDataType enumeration (``FLOAT16``), or :attr:`name` for other
        types.
        """
        return BY_CODE[self.code].enumerator if self.code in BY_CODE else self.name


_BY_CODE: Dict[int, DType] = {
    row.code: DType(row.code, row.name, row.bits, row.kind, row.storage) for row in ELEMENTS
}


def dtype_by_code(code: int) -> DType:
    """Return the type of an OutputDataType number; never raises: an unknown number gives a type
    that is not decodable."""
    return _BY_CODE.get(code) or DType(code, "unknown(%d)" % code, 0, "", None)


def dtype_by_numpy(dtype: Any) -> DType:
    """Return the type of a numpy dtype (any byte order); text, object, void and long double give a
    type that is not decodable.
    """
    return _of_native(np.dtype(dtype))


@lru_cache(maxsize=64)
def _of_native(native: Any) -> DType:
    # 2: another package's, some of which (ml_dtypes' float8_e5m2) call themselves floats of
    # numpy's.
    known = (
        BY_NAME.get(native.name) if native.kind in _NUMPY_KINDS and native.isbuiltin != 2 else None
    )
    if known is None:
        return DType(_NO_CODE, native.name, 8 * native.itemsize, "", None)
    return DType(
        known.code,
        known.name,
        known.bits,
        known.kind,
        known.storage if native.kind == "b" else native.str,
    )


def dtype_by_name(name: str) -> Optional[DType]:
    """Return the type whose DataType-column name or enumerator (any case) is ``name``, or None."""
    element = BY_NAME.get(name.lower()) or BY_GE_NAME.get("DT_" + name.upper())
    return _BY_CODE[element.code] if element is not None and element.code != UNDEFINED else None


def nbytes(dtype: DType, count: int) -> int:
    """Return the size in bytes of ``count`` elements; packed types are rounded up to a whole byte.
    0 if unknown.
    """
    return (count * dtype.bits + 7) // 8


def require_decodable(dtype: DType) -> None:
    """Raise NotComparable with the reason unless ``dtype`` can be decoded."""
    if dtype.decodable:
        return
    if dtype.code == _NO_CODE and not dtype.name.startswith("unknown("):
        saved = (
            ": did numpy save another package's float8? save array.astype('float32')"
            if dtype.name.startswith("void")
            else ""
        )
        raise TypeNotComparable(
            "elements of numpy type %s cannot be compared%s" % (dtype.name, saved)
        )
    if dtype.code not in _BY_CODE:
        raise TypeNotComparable(
            "data type code %d is not known" % dtype.code,
            hint="goldwatch knows the codes 0 to %d" % max(_BY_CODE),
        )
    raise TypeNotComparable("data type %s (code %d) is not decoded" % (dtype.name, dtype.code))


def decode(raw: Array, dtype: DType, count: int, first: int = 0, halves: bool = False) -> Array:
    """Return elements ``first`` to ``first + count`` of ``raw`` as numbers.

    Parameters
    ----------
    raw
        One-dimensional, contiguous: bytes (uint8) or stored units (:attr:`DType.storage`).
    first
        Elements to skip; may be inside a byte for packed types.
    halves
        Return bfloat16 as stored: :data:`BFLOAT16`.

    Returns
    -------
    ndarray
        One-dimensional. Types of numpy in native byte order are a view of ``raw``; bfloat16 and
        8-bit floats are float32, int4 and int2 int8, uint2 and uint1 uint8, complex32 complex64,
        bool bool (any byte but 0 is True).

    Raises
    ------
    NotComparable
        The type is not decoded.
    FormatError
        ``raw`` holds fewer elements.
    """
    require_decodable(dtype)
    data = raw if raw.dtype == np.uint8 else raw.view(np.uint8)
    if nbytes(dtype, first + count) > data.size:
        raise FormatError(
            "%d elements of %s need %d bytes, got %d"
            % (first + count, dtype.name, nbytes(dtype, first + count), data.size)
        )
    table = _table(dtype.name)
    if table is not None:
        per_byte = 8 // dtype.bits
        start, skip = divmod(first, per_byte)
        picked = data[start : nbytes(dtype, first + count)]
        elements: Array = table[picked]
        return elements if per_byte == 1 else elements.reshape(-1)[skip : skip + count]
    size = dtype.bits // 8
    window = data[first * size : (first + count) * size]
    if dtype.name == "bool":
        truth: Array = window != 0
        return truth
    stored: Array = window.view(np.dtype(dtype.storage))
    if dtype.name == "bfloat16":
        return (
            stored.view(BFLOAT16)
            if halves and stored.dtype.isnative
            else bfloat16_to_float32(stored)
        )
    if dtype.name == "complex32":
        return stored.astype(np.float32).view(np.complex64)
    return stored if stored.dtype.isnative else stored.astype(stored.dtype.newbyteorder("="))


BFLOAT16 = np.dtype("V2")
"""The two bytes of a bfloat16 in native byte order, for code that computes with the bits."""


def plain_floats(values: Array) -> Array:
    """Return elements of :data:`BFLOAT16` as float32, any others as they are."""
    return bfloat16_to_float32(values.view(np.uint16)) if values.dtype == BFLOAT16 else values


def bfloat16_to_float32(bits: Array) -> Array:
    """Return the float32 values of bfloat16 bit patterns (uint16, any shape): the upper half of a
    float32.
    """
    wide: Array = np.empty(bits.shape, np.uint32)
    # One call: numpy widens and shifts piece by piece in the cache.
    np.left_shift(bits, np.uint32(16), out=wide, dtype=np.uint32)
    return wide.view(np.float32)


_tables: Dict[str, Array] = {}


def _table(name: str) -> Optional[Array]:
    """Return the 256-row look-up table of a type that is decoded byte by byte, cached; None for
    other types.
    """
    if name not in _TABLE_MAKERS:
        return None
    table = _tables.get(name)
    if table is None:
        table = _tables[name] = _TABLE_MAKERS[name]()
        table.setflags(write=False)
    return table


def _bytes() -> Array:
    return np.arange(256, dtype=np.int64)


def _small_float(exponent_bits: int, fraction_bits: int, bias: int) -> Array:
    """Return float32 values of all bytes of a sign-exponent-fraction float with subnormals, its
    special values not yet set.
    """
    code = _bytes()
    exponent = (code >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << fraction_bits) - 1)) / float(1 << fraction_bits)
    normal = exponent > 0
    magnitude = np.ldexp(normal + fraction, np.where(normal, exponent, 1) - bias)
    signed: Array = np.where(code & 0x80, -magnitude, magnitude)
    return signed.astype(np.float32)


def _e5m2() -> Array:
    # The upper byte of a float16, infinities and NaNs included.
    return (_bytes().astype(np.uint16) << 8).astype(np.uint16).view(np.float16).astype(np.float32)


def _e4m3fn() -> Array:
    values = _small_float(4, 3, 7)
    values[[0x7F, 0xFF]] = np.nan
    return values


def _e8m0() -> Array:
    values: Array = np.ldexp(1.0, _bytes() - 127)
    values[0xFF] = np.nan
    return values.astype(np.float32)


def _hifloat8() -> Array:
    """Return float32 values of all hifloat8 bytes: sign, a prefix that gives the exponent's width,
    exponent, fraction.
    """
    values = np.empty(256, np.float64)
    for code in range(128):
        values[code] = _hifloat8_magnitude(code)
    values[128:] = -values[:128]
    values[0x80] = np.nan
    values[0x6F], values[0xEF] = np.inf, -np.inf
    return values.astype(np.float32)


def _hifloat8_magnitude(code: int) -> float:
    """Return the value of the seven bits after the sign."""
    widths = ((2, 3, 4), (2, 2, 3), (2, 1, 2), (3, 1, 1), (4, 1, 0))
    matches = [(7 - bits, width) for bits, prefix, width in widths if code >> (7 - bits) == prefix]
    if not matches:
        return float(np.ldexp(1.0, (code & 7) - 23)) if code & 7 else 0.0
    rest_bits, width = matches[0]
    exponent = 0
    fraction_bits = rest_bits - width
    if width:
        field = (code >> fraction_bits) & ((1 << width) - 1)
        negative, below = field >> (width - 1), field & ((1 << (width - 1)) - 1)
        exponent = (1 << (width - 1)) | below
        exponent = -exponent if negative else exponent
    fraction = code & ((1 << fraction_bits) - 1)
    return float(np.ldexp(1.0 + fraction / float(1 << fraction_bits), exponent))


def _packed(bits: int, signed: bool, low_first: bool) -> Array:
    """Return a (256, 8 // bits) table of the elements of each byte, as int8 or uint8."""
    shifts = np.arange(0, 8, bits)
    elements = (_bytes()[:, None] >> (shifts if low_first else shifts[::-1])) & ((1 << bits) - 1)
    if signed:
        elements = elements - ((elements >> (bits - 1)) << bits)
    return elements.astype(np.int8 if signed else np.uint8)


_TABLE_MAKERS: Dict[str, Any] = {
    "hifloat8": _hifloat8,
    "float8_e5m2": _e5m2,
    "float8_e4m3fn": _e4m3fn,
    "float8_e8m0fnu": _e8m0,
    "int4": lambda: _packed(4, True, True),
    "int2": lambda: _packed(2, True, True),
    "uint2": lambda: _packed(2, False, True),
    "uint1": lambda: _packed(1, False, False),
}
