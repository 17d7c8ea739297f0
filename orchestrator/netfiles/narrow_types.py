"""Element types that numpy lacks: their bits as values that numpy can hold without loss, and back.

Source of the formats: ONNX's float8 and float4 pages, onnx.proto for float6; bfloat16 is the upper
half of a float32.
"""

from __future__ import annotations

import functools
from typing import Dict, NamedTuple, Optional

import numpy as np

from ..base.errors import InputError
from .onnx_types import BY_NAME

BFLOAT16 = "bfloat16"


class _Float(NamedTuple):
    """Bits of exponent and mantissa, bias, whether there is an infinity, whether the only NaN is
    minus zero (``uz``).
    """

    exponent: int
    mantissa: int
    bias: int
    infinity: bool = False
    uz: bool = False
    nan: bool = True


_FLOATS: Dict[str, _Float] = {
    "float8e4m3fn": _Float(4, 3, 7),
    "float8e4m3fnuz": _Float(4, 3, 8, uz=True),
    "float8e5m2": _Float(5, 2, 15, infinity=True),
    "float8e5m2fnuz": _Float(5, 2, 16, uz=True),
    "float4e2m1": _Float(2, 1, 1, nan=False),
    "float6e2m3": _Float(2, 3, 1, nan=False),
    "float6e3m2": _Float(3, 2, 3, nan=False),
}
# Bits and whether the upper half is negative.
_INTEGERS = {"int4": (4, True), "uint4": (4, False), "int2": (2, True), "uint2": (2, False)}
# Four elements of six bits lie in three bytes (onnx.proto, TensorProto.raw_data).
_GROUP_BYTES = {6: 3}


def is_narrow(name: str) -> bool:
    """Tell whether a type is one of those that are held as another."""
    return name == BFLOAT16 or name == "float8e8m0" or name in _FLOATS or name in _INTEGERS


def held_as(name: str) -> Optional[np.dtype]:
    """Return numpy's type that holds all values of an ONNX type (by name); None where there is
    none, as for strings.
    """
    if is_narrow(name):
        return np.dtype(
            ("int8" if _INTEGERS[name][1] else "uint8") if name in _INTEGERS else "float32"
        )
    entry = BY_NAME.get(name)
    return None if entry is None or entry.numpy is None else np.dtype(entry.numpy)


@functools.lru_cache(maxsize=None)
def _table(name: str) -> np.ndarray:
    """Return the value of each code of a type of at most eight bits."""
    codes = np.arange(1 << BY_NAME[name].bits, dtype=np.int64)
    if name in _INTEGERS:
        bits, is_signed = _INTEGERS[name]
        values = np.where(codes >> (bits - 1), codes - (1 << bits), codes) if is_signed else codes
        return values.astype(np.int8 if is_signed else np.uint8)
    if name == "float8e8m0":
        return np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127)).astype(np.float32)
    form = _FLOATS[name]
    mantissa = codes & ((1 << form.mantissa) - 1)
    exponent = (codes >> form.mantissa) & ((1 << form.exponent) - 1)
    sign = np.where(codes >> (form.mantissa + form.exponent), -1.0, 1.0)
    fraction = np.ldexp(mantissa.astype(np.float64), -form.mantissa)
    values = sign * np.where(
        exponent == 0,
        np.ldexp(fraction, 1 - form.bias),
        np.ldexp(1 + fraction, exponent - form.bias),
    )
    top = exponent == (1 << form.exponent) - 1
    if form.uz:
        values[codes == 1 << (form.mantissa + form.exponent)] = np.nan
    elif form.infinity:
        values[top] = np.where(mantissa[top] == 0, sign[top] * np.inf, np.nan)
    elif form.nan:
        values[top & (mantissa == (1 << form.mantissa) - 1)] = np.nan
    return values.astype(np.float32)


def decode(data: np.ndarray, name: str, elements: int) -> np.ndarray:
    """Return the values of a type that numpy lacks.

    Parameters
    ----------
    data
        The stored bytes, uint8; elements of less than a byte lie in it from the lowest bits on.
    """
    if name == BFLOAT16:
        upper: np.ndarray = data[: 2 * elements].view("<u2").astype(np.uint32) << np.uint32(16)
        return upper.view(np.float32)
    bits = BY_NAME[name].bits
    codes = data
    if bits < 8:
        width = _GROUP_BYTES.get(bits, 1)
        group = np.zeros(-(-data.size // width), np.uint32)
        for byte in range(width):
            part = data[byte::width]
            group[: part.size] |= part.astype(np.uint32) << np.uint32(8 * byte)
        shifts = np.arange(0, 8 * width, bits, dtype=np.uint32)
        codes = ((group[:, np.newaxis] >> shifts) & np.uint32((1 << bits) - 1)).reshape(-1)
    return values_of_codes(codes[:elements], name)


def values_of_codes(codes: np.ndarray, name: str) -> np.ndarray:
    """Return the values of a type of at most eight bits, of which each element is given as the
    number that its bits are.
    """
    values: np.ndarray = _table(name)[codes]
    return values


def encode(values: np.ndarray, name: str) -> bytes:
    """Return the stored bytes of values, rounded to the nearest that the type holds (bfloat16: ties
    to even).

    Raises
    ------
    InputError
        An integer is outside the type's range.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    if name == BFLOAT16:
        bits = flat.astype(np.float32).view(np.uint32)
        rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        upper_half = np.where(np.isnan(flat), bits | np.uint32(0x400000), rounded) >> np.uint32(16)
        return upper_half.astype("<u2").tobytes()
    codes = _nearest_codes(flat, name)
    width = BY_NAME[name].bits
    if width == 8:
        return codes.tobytes()
    group_bytes = _GROUP_BYTES.get(width, 1)
    per_group = 8 * group_bytes // width
    padded = np.zeros(-(-codes.size // per_group) * per_group, "<u4")
    padded[: codes.size] = codes
    shifts = np.arange(0, 8 * group_bytes, width, dtype="<u4")
    packed = np.bitwise_or.reduce(padded.reshape(-1, per_group) << shifts, axis=1)
    stored: np.ndarray = packed.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :group_bytes]
    return stored.reshape(-1)[: BY_NAME[name].nbytes(codes.size)].tobytes()


def _nearest_codes(flat: np.ndarray, name: str) -> np.ndarray:
    table = _table(name)
    if name in _INTEGERS:
        bits = _INTEGERS[name][0]
        if flat.size and not (table.min() <= flat.min() and flat.max() <= table.max()):
            raise InputError(
                "%s holds %d to %d, the values reach from %s to %s"
                % (name, table.min(), table.max(), flat.min(), flat.max())
            )
        return (flat.astype(np.int64) & ((1 << bits) - 1)).astype(np.uint8)
    finite = np.flatnonzero(np.isfinite(table))
    order = finite[np.argsort(table[finite].astype(np.float64), kind="stable")]
    middles = (table[order][1:].astype(np.float64) + table[order][:-1]) / 2
    codes = order[np.searchsorted(middles, flat.astype(np.float64))].astype(np.uint8)
    nans = np.flatnonzero(np.isnan(table))
    if nans.size:
        codes[np.isnan(flat)] = nans[0]
    for infinity in np.flatnonzero(np.isinf(table)):
        codes[flat == table[infinity]] = infinity
    return codes
