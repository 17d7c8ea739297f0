"""npy files, read in windows and never unpickled.

Format: NEP 1 and numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import io
import os
import re
import struct
from dataclasses import dataclass
from typing import Any, Optional, Tuple

import numpy as np

from ..errors import FormatError, TruncatedFile
from ..filesystem import open_regular
from ..tensors.dtypes import DType, dtype_by_code, dtype_by_numpy
from ..tensors.tensor import ByteSource, Tensor
from .fortran import FortranSource
from .source import FileSource, read_at

MAX_HEADER_BYTES = 10000
MAX_RANK = 32
MAX_ELEMENTS = 2**63 - 1
_MAGIC = b"\x93NUMPY"
_BFLOAT16_CODE = 27
_KINDS = "fiubc"


@dataclass
class NpyHeader:
    """The header of an npy file, or what is wrong with it.

    Attributes
    ----------
    data_offset, data_bytes
        Where the elements begin, and how many bytes they take; None when the header could not be read.
    actual_bytes
        The file's size.
    error
        Why the file cannot be read; None when it can.
    """

    actual_bytes: int
    shape: Tuple[int, ...] = ()
    fortran_order: bool = False
    dtype: Optional[DType] = None
    itemsize: int = 0
    data_offset: int = 0
    data_bytes: Optional[int] = None
    error: Optional[FormatError] = None


def open_npy(path: str) -> Tensor:
    """Return the array of an npy file as a tensor of layout ``ND``; its elements stay in the file.

    Fortran-ordered files give their elements in C order, big-endian ones decode as any other. Two-byte void elements (``|V2``, so
    tfdbg and numpy write bfloat16) are bfloat16.

    Raises
    ------
    MissingPath
        The file does not exist, is not a regular file or cannot be read.
    TruncatedFile
        It is shorter than its header says.
    FormatError
        It is not an npy file, holds pickled objects, records or text, or is longer than its header says.
    """
    header = load_npy_header(path)
    if header.error is not None:
        raise header.error
    assert header.dtype is not None and header.data_bytes is not None
    source: ByteSource = FileSource(path, header.data_offset, header.data_bytes)
    if header.fortran_order and sum(dim > 1 for dim in header.shape) > 1:
        source = FortranSource(source, header.shape, header.itemsize)
    return Tensor(header.dtype, header.shape, "ND", source)


def load_npy_header(path: str) -> NpyHeader:
    """Read and judge the header of an npy file; a damaged file is told by :attr:`NpyHeader.error`.

    Raises
    ------
    MissingPath, InputError
        The file cannot be opened or read.
    """
    descriptor, size = open_regular(path)
    try:
        header = NpyHeader(size)
        try:
            _read_header(descriptor, size, path, header)
        except FormatError as error:
            header.error = error
        return header
    finally:
        os.close(descriptor)


def _read_header(descriptor: int, size: int, path: str, header: NpyHeader) -> None:
    start = read_at(descriptor, 0, 12, path)
    if start[:6] != _MAGIC[: len(start)]:
        raise FormatError("not an npy file: it begins with %r" % start[:6], path, hint="golden files are written with numpy.save")
    if len(start) < 12:
        what = "the file is empty" if not start else "the npy file ends inside its header"
        raise TruncatedFile("%s: expected at least 12 bytes, got %d" % (what, len(start)), path, 12, len(start))
    major = start[6]
    if major not in (1, 2, 3):
        raise FormatError("npy version %d.%d is not known (1.0 to 3.0 are)" % (major, start[7]), path)
    length_bytes = 2 if major == 1 else 4
    length = int.from_bytes(start[8 : 8 + length_bytes], "little")
    if length > MAX_HEADER_BYTES:
        raise FormatError("an npy header of %d bytes, at most %d are read" % (length, MAX_HEADER_BYTES), path)
    header.data_offset = 8 + length_bytes + length
    if header.data_offset > size:
        message = "the npy file ends inside its header: expected at least %d bytes, got %d" % (header.data_offset, size)
        raise TruncatedFile(message, path, header.data_offset, size)
    text = read_at(descriptor, 8 + length_bytes, length, path)
    shape, header.fortran_order, dtype = _parse(major, text, path)
    header.dtype, header.itemsize = _element_type(dtype, path), dtype.itemsize
    header.shape = _checked_shape(shape, path)
    _check_size(header, path)


def _parse(major: int, text: bytes, path: str) -> Tuple[Any, bool, Any]:
    """Return shape, Fortran order and numpy dtype of a header's text (a Python literal; numpy evaluates it without running anything)."""
    try:
        if major == 3:
            # Version 3 differs from 2 by UTF-8, which only field names of records need.
            text = text.decode("utf-8").encode("latin-1")
        if major == 1:
            return np.lib.format.read_array_header_1_0(io.BytesIO(struct.pack("<H", len(text)) + text))
        return np.lib.format.read_array_header_2_0(io.BytesIO(struct.pack("<I", len(text)) + text))
    except Exception as error:  # tokenizer, parser and dtype each raise their own
        # Without the addresses of objects, so that the same file always gives the same reason.
        cause = re.sub(r" at 0x[0-9a-f]+", "", (str(error).splitlines() or [""])[0][:200])
        raise FormatError("the npy header cannot be understood: %s" % cause, path) from None


def _element_type(dtype: Any, path: str) -> DType:
    if dtype.hasobject:
        raise FormatError(
            "the array holds pickled Python objects, which are never loaded (they can run code)",
            path,
            hint="save it again as a plain array, such as numpy.save(path, array.astype('float32'))",
        )
    if dtype.names is not None or dtype.subdtype is not None:
        raise FormatError("the array holds records (%s), expected one number per element" % str(dtype)[:200], path)
    if dtype.kind == "V" and dtype.itemsize == 2:
        return dtype_by_code(_BFLOAT16_CODE)
    known = dtype_by_numpy(dtype)
    if dtype.kind not in _KINDS or not known.decodable:
        raise FormatError("elements of type %s cannot be compared, expected numbers" % dtype, path)
    return known


def _checked_shape(shape: Any, path: str) -> Tuple[int, ...]:
    if len(shape) > MAX_RANK:
        raise FormatError("an array of %d dims, at most %d can be read" % (len(shape), MAX_RANK), path)
    if any(dim < 0 for dim in shape):
        raise FormatError("the shape %s has negative dims" % (list(shape),), path)
    return tuple(int(dim) for dim in shape)


def _check_size(header: NpyHeader, path: str) -> None:
    """Compare the header with the file's size; Python's integers do not overflow."""
    count = 1
    for dim in header.shape:
        count *= dim
    if count > MAX_ELEMENTS:
        raise FormatError("the product of its dims %s overflows" % (list(header.shape),), path)
    header.data_bytes = count * header.itemsize
    expected = header.data_offset + header.data_bytes
    if header.actual_bytes < expected:
        message = "the npy file is cut short: expected %d bytes, got %d" % (expected, header.actual_bytes)
        raise TruncatedFile(message, path, expected, header.actual_bytes)
    if header.actual_bytes > expected:
        raise FormatError("the npy file is longer than its header says: expected %d bytes, got %d" % (expected, header.actual_bytes), path)
