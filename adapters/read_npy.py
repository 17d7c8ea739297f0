"""Reads npy and npz files of the user: the header is checked before any value is read.

Source of the format: numpy.lib.format, whose own reader parses the header; versions 1.0 to 3.0.
"""

from __future__ import annotations

import lzma
import struct
import tokenize
import warnings
import zipfile
import zlib
from typing import IO, Callable, Optional, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import FormatError, InputError
from ..base.naming import printable

# What numpy raises for files that are cut, damaged, encrypted, or claim a size beyond memory; a
# header is parsed as Python.
LOAD_ERRORS = (
    *(
        ValueError,
        OSError,
        EOFError,
        MemoryError,
        RuntimeError,
        KeyError,
        TypeError,
        OverflowError,
        SyntaxError,
        # Python 3.13's tokenizer, of a NUL among the text.
        SystemError,
    ),
    *(tokenize.TokenError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)
# Messages of Python's tokenizer or of a codec, which numpy's parser of headers raises.
_UNREADABLE_HEADER = (
    tokenize.TokenError,
    SyntaxError,
    UnicodeError,
    struct.error,
    KeyError,
    TypeError,
)
Check = Callable[[Tuple[int, ...], np.dtype], None]
_BLOCK_BYTES = 1 << 24
_NO_NPY = "not an npy file of numbers: "


def error_text(error: BaseException) -> str:
    """Return numpy's message without its advice to load pickles."""
    if "allow_pickle" in str(error) or "pickle" in str(error):
        return "it holds Python objects, or is no numpy file at all; pickles are never loaded"
    if isinstance(error, _UNREADABLE_HEADER) or "parse header" in str(error):
        return "its header is damaged"
    if isinstance(error, MemoryError):
        return "its header tells of more values than fit into memory"
    return str(error) or type(error).__name__


def read_npy(stream: IO[bytes], path: str, size_bytes: int, check: Check) -> np.ndarray:
    """Return the array of an npy stream; objects are never loaded.

    Parameters
    ----------
    size_bytes
        Of the whole stream, as its container tells.
    check
        Called with the header's shape and dtype before anything is allocated; raises to refuse.

    Raises
    ------
    FormatError
        It is damaged, cut off, or holds no numbers.
    """
    try:
        with warnings.catch_warnings():
            # numpy warns of headers that Python 2 wrote ("6L"), and reads them.
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(stream)
    except LOAD_ERRORS as error:
        raise FormatError(_NO_NPY + error_text(error), path) from error
    if dtype.hasobject:
        raise FormatError(
            _NO_NPY + "it holds Python objects; pickles are never loaded",
            path,
            "save it as an array of numbers, str or bytes, not of objects",
        )
    check(shape, dtype)
    need, there = dtype.itemsize * element_count(shape), size_bytes - stream.tell()
    if need > there:
        raise FormatError(
            _NO_NPY
            + "%s of shape %s needs %d bytes, %d are there" % (dtype, list(shape), need, there),
            path,
        )
    data = bytearray(need)
    done = 0
    while done < need:
        try:
            block = stream.read(min(need - done, _BLOCK_BYTES))
        except LOAD_ERRORS as error:
            raise FormatError(_NO_NPY + error_text(error), path) from error
        if not block:
            raise FormatError(_NO_NPY + "it ends after %d of %d bytes" % (done, need), path)
        data[done : done + len(block)] = block
        done += len(block)
    array: np.ndarray = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array


def read_npz(path: str, key: str, check: Check, hint: Optional[str] = None) -> np.ndarray:
    """Return an array of an npz file; parameters and raises as :func:`read_npy`.

    Parameters
    ----------
    hint
        What to do where it has no such key.

    Raises
    ------
    InputError
        It has no such key.
    """
    try:
        archive = zipfile.ZipFile(path)
    except LOAD_ERRORS as error:
        raise FormatError("not an npz file: %s" % error_text(error), path) from error
    with archive:
        if key + ".npy" not in archive.namelist():
            keys = ", ".join(
                printable(name[: -len(".npy")] if name.endswith(".npy") else name)
                for name in archive.namelist()
            )
            raise InputError(
                "%s: no key %s; it has %s" % (printable(path), printable(key), keys or "none"),
                hint=hint,
            )
        member = archive.getinfo(key + ".npy")
        try:
            with archive.open(member) as stream:
                return read_npy(stream, "%s, key %s" % (path, key), member.file_size, check)
        except InputError:
            raise
        except LOAD_ERRORS as error:
            raise FormatError("key %s: %s" % (printable(key), error_text(error)), path) from error
