"""The header of a golden file, before its elements: that of npy, or of a container (.quant, .pb).

Source of the container's form: the vendor's dump_data.proto; 8 bytes little-endian length, a
DumpData message, then the payload.
"""

from __future__ import annotations

import functools
import io
import struct
from typing import Tuple

import numpy as np

from ..base.element_types import BY_NAME
from ..base.errors import InputError
from ..base.protowire import field, varint

CONTAINER_VERSION = "2.0"
_RESERVED_FORMAT = 40


def npy_header(array: np.ndarray) -> bytes:
    """Return the npy header (version 1.0) of a C-ordered array."""
    return _npy_header(array.dtype, array.shape)


@functools.lru_cache(maxsize=1024)
def _npy_header(dtype: np.dtype, shape: Tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    # numpy before 1.19 tokenizes every header it writes: half the time of a small tensor.
    np.lib.format.write_array_header_1_0(
        out, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def container_header(array: np.ndarray, op_name: str, timestamp_us: int) -> bytes:
    """Return the length and message of a dump container with one output.

    Raises
    ------
    InputError
        The containers have no code for the array's dtype.
    """
    element = BY_NAME.get(array.dtype.name)
    if element is None or array.dtype.byteorder == ">":
        raise InputError("%s: a container cannot hold %s" % (op_name, array.dtype))
    dims = b"".join(varint(dim) for dim in array.shape)
    output = (
        field(1, element.code)
        + field(2, _RESERVED_FORMAT)
        + field(3, field(1, dims))
        + field(6, array.nbytes)
    )
    message = (
        field(1, CONTAINER_VERSION.encode("ascii")) + field(2, timestamp_us) + field(3, output)
    )
    message += field(6, op_name.encode("ascii"))
    return struct.pack("<Q", len(message)) + message
