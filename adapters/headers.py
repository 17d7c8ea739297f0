"""What stands before a tensor's bytes in a file: the npy header, or the header of a dump container (.quant, .pb).

Source of the container's form: the vendor's dump_data.proto; 8 bytes little-endian length, a DumpData message, then the payload.
"""

from __future__ import annotations

import functools
import io
import struct
from typing import Tuple, Union

import numpy as np

from ..errors import InputError

CONTAINER_VERSION = "2.0"
_RESERVED_FORMAT = 40
_DATA_TYPES = {
    "float32": 1,
    "float16": 2,
    "int8": 3,
    "uint8": 4,
    "int16": 5,
    "uint16": 6,
    "int32": 7,
    "int64": 8,
    "uint32": 9,
    "uint64": 10,
    "bool": 11,
    "float64": 12,
    "complex64": 16,
    "complex128": 17,
}


def npy_header(array: np.ndarray) -> bytes:
    """Return the npy header (version 1.0) of a C-ordered array."""
    return _npy_header(array.dtype, array.shape)


@functools.lru_cache(maxsize=1024)
def _npy_header(dtype: np.dtype, shape: Tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    # numpy before 1.19 tokenizes every header it writes: half the time of a small tensor.
    np.lib.format.write_array_header_1_0(out, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return out.getvalue()


def container_header(array: np.ndarray, op_name: str, timestamp_us: int) -> bytes:
    """Return the length and message of a dump container with one output.

    Raises
    ------
    InputError
        The containers have no code for the array's dtype.
    """
    code = _DATA_TYPES.get(array.dtype.name)
    if code is None or array.dtype.byteorder == ">":
        raise InputError("%s: a container cannot hold %s" % (op_name, array.dtype))
    dims = b"".join(varint_bytes(dim) for dim in array.shape)
    output = _field(1, code) + _field(2, _RESERVED_FORMAT) + _field(3, _field(1, dims)) + _field(6, array.nbytes)
    message = _field(1, CONTAINER_VERSION.encode("ascii")) + _field(2, timestamp_us) + _field(3, output)
    message += _field(6, op_name.encode("ascii"))
    return struct.pack("<Q", len(message)) + message


def varint_bytes(value: int) -> bytes:
    """Return a protobuf varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: Union[int, bytes]) -> bytes:
    if isinstance(value, int):
        return varint_bytes(number << 3) + varint_bytes(value)
    return varint_bytes(number << 3 | 2) + varint_bytes(len(value)) + value
