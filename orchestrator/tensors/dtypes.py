"""Element types: codes of the dump container, names of the DataType column, and bytes to numpy.

Codes: the OutputDataType enumeration of the vendor's dump_data message. Types that numpy does not have are decoded by look-up tables:
bfloat16 and the 8-bit floats to float32, packed integers to (u)int8. Packing: int4, int2 and uint2 low bits first, uint1 highest bit first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

import numpy as np

from ..errors import FormatError, NotComparable

Array = np.ndarray  # any shape and element type

_NO_CODE = -1


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes
    ----------
    code
        OutputDataType number; -1 for a numpy type that the container does not know.
    name
        As in the DataType column: numpy's name or ``bfloat16``, ``int4`` …; ``unknown(77)`` for a code that is not in the table.
    bits
        Bits of one element in storage, 0 when not known.
    kind
        ``f`` float, ``i`` signed, ``u`` unsigned, ``b`` bool, ``c`` complex, ``""`` when the type cannot be decoded.
    storage
        numpy type string of one stored unit (``<u2`` for bfloat16, ``|u1`` for 8-bit floats and packed integers, ``<f2`` for the halves of
        a complex32); None when the type cannot be decoded.
    """

    code: int
    name: str
    bits: int
    kind: str
    storage: Optional[str]

    @property
    def decodable(self) -> bool:
        """Whether :func:`decode` can make numbers of it."""
        return self.storage is not None

    @property
    def enumerator(self) -> str:
        """The name in the OutputDataType enumeration (``FLOAT16``), or :attr:`name` for other types."""
        return _ENUMERATORS.get(self.code, self.name)


# code: (enumerator, name, bits, kind, storage)
_TABLE: Tuple[Tuple[int, str, str, int, str, Optional[str]], ...] = (
    (0, "UNDEFINED", "int8", 8, "i", "|i1"),
    (1, "FLOAT", "float32", 32, "f", "<f4"),
    (2, "FLOAT16", "float16", 16, "f", "<f2"),
    (3, "INT8", "int8", 8, "i", "|i1"),
    (4, "UINT8", "uint8", 8, "u", "|u1"),
    (5, "INT16", "int16", 16, "i", "<i2"),
    (6, "UINT16", "uint16", 16, "u", "<u2"),
    (7, "INT32", "int32", 32, "i", "<i4"),
    (8, "INT64", "int64", 64, "i", "<i8"),
    (9, "UINT32", "uint32", 32, "u", "<u4"),
    (10, "UINT64", "uint64", 64, "u", "<u8"),
    (11, "BOOL", "bool", 8, "b", "|u1"),
    (12, "DOUBLE", "float64", 64, "f", "<f8"),
    (13, "STRING", "string", 0, "", None),
    (14, "DUAL_SUB_INT8", "int8", 8, "i", "|i1"),
    (15, "DUAL_SUB_UINT8", "uint8", 8, "u", "|u1"),
    (16, "COMPLEX64", "complex64", 64, "c", "<c8"),
    (17, "COMPLEX128", "complex128", 128, "c", "<c16"),
    (18, "QINT8", "int8", 8, "i", "|i1"),
    (19, "QINT16", "int16", 16, "i", "<i2"),
    (20, "QINT32", "int32", 32, "i", "<i4"),
    (21, "QUINT8", "uint8", 8, "u", "|u1"),
    (22, "QUINT16", "uint16", 16, "u", "<u2"),
    (23, "RESOURCE", "int64", 64, "i", "<i8"),
    (24, "STRING_REF", "string_ref", 0, "", None),
    (25, "DUAL", "dual", 0, "", None),
    (26, "VARIANT", "variant", 0, "", None),
    (27, "BF16", "bfloat16", 16, "f", "<u2"),
    (28, "INT4", "int4", 4, "i", "|u1"),
    (29, "UINT1", "uint1", 1, "u", "|u1"),
    (30, "INT2", "int2", 2, "i", "|u1"),
    (31, "UINT2", "uint2", 2, "u", "|u1"),
    (32, "COMPLEX32", "complex32", 32, "c", "<f2"),
    (33, "HIFLOAT8", "hifloat8", 8, "f", "|u1"),
    (34, "FLOAT8_E5M2", "float8_e5m2", 8, "f", "|u1"),
    (35, "FLOAT8_E4M3FN", "float8_e4m3fn", 8, "f", "|u1"),
    (36, "FLOAT8_E8M0", "float8_e8m0fnu", 8, "f", "|u1"),
    (37, "FLOAT6_E3M2", "float6_e3m2fn", 6, "", None),
    (38, "FLOAT6_E2M3", "float6_e2m3fn", 6, "", None),
    (39, "FLOAT4_E2M1", "float4_e2m1fn", 4, "", None),
    (40, "FLOAT4_E1M2", "float4_e1m2fn", 4, "", None),
)
_ENUMERATORS: Dict[int, str] = {row[0]: row[1] for row in _TABLE}
_BY_CODE: Dict[int, DType] = {row[0]: DType(row[0], *row[2:]) for row in _TABLE}
# The first code of a numpy type is its own; the others (UNDEFINED, QINT8, RESOURCE …) are only read as it.
_NUMPY_CODES = dict(zip("f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16".split(), (2, 1, 12, 3, 5, 7, 8, 4, 6, 9, 10, 11, 16, 17)))


def dtype_by_code(code: int) -> DType:
    """Return the type of an OutputDataType number; never raises, a number out of the table gives a type that is not decodable."""
    return _BY_CODE.get(code) or DType(code, "unknown(%d)" % code, 0, "", None)


def dtype_by_numpy(dtype: Any) -> DType:
    """Return the type of a numpy dtype (any byte order); never raises for a dtype, text, object, void and long double are not decodable."""
    native = np.dtype(dtype)
    code = _NUMPY_CODES.get("%s%d" % (native.kind, native.itemsize))
    if code is None:
        return DType(_NO_CODE, native.name, 8 * native.itemsize, "", None)
    known = _BY_CODE[code]
    return known if code == 11 else DType(code, known.name, known.bits, known.kind, native.str)


def dtype_by_name(name: str) -> Optional[DType]:
    """Return the type whose DataType-column name or enumerator (any case) is ``name``, or None."""
    for code, dtype in _BY_CODE.items():
        if code and (dtype.name == name.lower() or _ENUMERATORS[code] == name.upper()):
            return dtype
    return None


def nbytes(dtype: DType, count: int) -> int:
    """Return the bytes that ``count`` elements take; packed types are rounded up to a whole byte. 0 when the size is not known."""
    return (count * dtype.bits + 7) // 8


def require_decodable(dtype: DType) -> None:
    """Raise NotComparable with the reason unless ``dtype`` can be decoded."""
    if dtype.decodable:
        return
    if dtype.code == _NO_CODE and not dtype.name.startswith("unknown("):
        raise NotComparable("elements of numpy type %s cannot be compared" % dtype.name)
    if dtype.code not in _BY_CODE:
        raise NotComparable("data type code %d is not known" % dtype.code, hint="goldwatch knows the codes 0 to %d" % max(_BY_CODE))
    raise NotComparable("data type %s (code %d) is not decoded" % (dtype.name, dtype.code))


def decode(raw: Array, dtype: DType, count: int, first: int = 0) -> Array:
    """Return elements ``first`` to ``first + count`` of ``raw`` as numbers.

    Parameters
    ----------
    raw
        One-dimensional, contiguous: bytes (uint8) or stored units (:attr:`DType.storage`).
    first
        Elements to skip; for packed types this may fall inside a byte.

    Returns
    -------
    ndarray
        One-dimensional. Types of numpy in native byte order are a view of ``raw``; bfloat16 and 8-bit floats are float32, int4 and int2
        int8, uint2 and uint1 uint8, complex32 complex64, bool bool (any byte but 0 is True).

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
        raise FormatError("%d elements of %s need %d bytes, got %d" % (first + count, dtype.name, nbytes(dtype, first + count), data.size))
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
        return bfloat16_to_float32(stored)
    if dtype.name == "complex32":
        return stored.astype(np.float32).view(np.complex64)
    return stored if stored.dtype.isnative else stored.astype(stored.dtype.newbyteorder("="))


def bfloat16_to_float32(bits: Array) -> Array:
    """Return the float32 values of bfloat16 bit patterns (uint16, any shape): the upper half of a float32."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


_tables: Dict[str, Array] = {}


def _table(name: str) -> Optional[Array]:
    """Return the 256-row table of a type that is decoded byte by byte, made when first used; None for other types."""
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
    """Return float32 values of all bytes of a sign-exponent-fraction float with subnormals, its special values not yet set."""
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
    """Return float32 values of all hifloat8 bytes: sign, a prefix that tells the exponent's width, exponent, fraction."""
    values = np.empty(256, np.float64)
    for code in range(128):
        values[code] = _hifloat8_magnitude(code)
    values[128:] = -values[:128]
    values[0x80] = np.nan
    values[0x6F], values[0xEF] = np.inf, -np.inf
    return values.astype(np.float32)


def _hifloat8_magnitude(code: int) -> float:
    """Return the value of the seven bits behind the sign."""
    widths = ((2, 3, 4), (2, 2, 3), (2, 1, 2), (3, 1, 1), (4, 1, 0))
    found = [(7 - bits, width) for bits, prefix, width in widths if code >> (7 - bits) == prefix]
    if not found:
        return float(np.ldexp(1.0, (code & 7) - 23)) if code & 7 else 0.0
    rest_bits, width = found[0]
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
