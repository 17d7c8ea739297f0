"""npy files, read in windows and never unpickled.

Format: NEP 1 and numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import os
import pickletools
import re
import time
from functools import lru_cache
from typing import Any, Dict, List, Match, Optional, Tuple

import numpy as np

from ..base.errors import FormatError, TruncatedFile
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import open_regular, read_at
from ..tensors.dtypes import DType, dtype_by_code, dtype_by_numpy
from ..tensors.tensor import Tensor
from .file_source import START_BYTES, source_of
from .folder_listing import Signature, look_at

_DIM = "(?:0|[1-9][0-9]{0,18})"
_USUAL = re.compile(
    r"\{'descr': '(?P<descr>[<>|=][a-zA-Z?][0-9]{1,6})', 'fortran_order': (?P<order>True|False), "
    rf"'shape': \((?P<shape>|{_DIM},|{_DIM}(?:, {_DIM})+)\),? ?\}} *\n\Z"
)
_TOKEN = re.compile(
    r"[ "
    r"\t\r\n\f]*(?:[ub]?(?P<text>'[^'\\\n]*'|\"[^\"\\\n]*\")|(?P<number>-?(?:0+|[1-9][0-9]{0,24}))[Ll]?(?![\w.])"
    r"|(?P<word>True|False|None)(?!\w)|(?P<mark>[][(){},:])|(?P<end>\Z))"
)
_WORDS = {"True": True, "False": False, "None": None}
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_MAX_DEPTH = 8
_DESCR = re.compile(r"[<>|=]?[a-zA-Z?][0-9]{0,9}(\[[0-9A-Za-z]{1,9}\])?\Z")
_TEXT_KINDS = "aSU"


def parse_header(text: str) -> Tuple[Any, bool, Tuple[int, ...]]:
    """Return ``descr`` (of plain elements a numpy type string), ``fortran_order`` and ``shape`` of
    a header's text.

    Raises
    ------
    ValueError
        It is not such a literal; the message says what it is instead.
    """
    usual = _USUAL.match(text)
    if usual is not None:
        shape = tuple(int(dim) for dim in usual.group("shape").split(",") if dim)
        return usual.group("descr"), usual.group("order") == "True", shape
    tokens = _Tokens(text)
    header = tokens.value(0)
    tokens.expect_end()
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("expected a dict of descr, fortran_order and shape")
    order, shape = header["fortran_order"], header["shape"]
    if not isinstance(order, bool):
        raise ValueError("fortran_order is not True or False")
    if not isinstance(shape, tuple) or not all(
        isinstance(dim, int) and not isinstance(dim, bool) for dim in shape
    ):
        raise ValueError("shape is not a tuple of whole numbers")
    return header["descr"], order, shape


@lru_cache(maxsize=256)
def element_dtype(descr: str) -> Any:
    """Return the numpy dtype of a type string; None for text.

    Raises
    ------
    ValueError
        It is not a type string.
    """
    if _DESCR.match(descr) is None:
        raise ValueError("%r is no element type" % descr[:50])
    if descr.lstrip("<>|=")[0] in _TEXT_KINDS:
        return None
    try:
        return np.dtype(descr)
    except TypeError:
        raise ValueError("%r is no element type" % descr) from None


class _Tokens:
    """Reads one literal of strings, whole numbers, True, False, None, tuples, lists and dicts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._token = self._next()

    def _next(self) -> Match[str]:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            raise ValueError(
                "it cannot be read from %s on" % ascii(self._text[self._at : self._at + 30].strip())
            )
        self._at = token.end()
        return token

    def _take(self) -> Match[str]:
        token = self._token
        self._token = self._next()
        return token

    def _next_is(self, mark: str) -> bool:
        return self._token.group("mark") == mark

    def value(self, depth: int) -> Any:
        """Return the value that begins here."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested deeper than %d" % _MAX_DEPTH)
        token = self._take()
        if token.lastgroup == "text":
            return token.group("text")[1:-1]
        if token.lastgroup == "number":
            return int(token.group("number"))
        if token.lastgroup == "word":
            return _WORDS[token.group("word")]
        mark = token.group("mark")
        if mark == "{":
            return self._dict(depth)
        if mark is not None and mark in _CLOSERS:
            return self._items(_CLOSERS[mark], depth)
        raise ValueError("a value is missing before byte %d" % token.end())

    def _items(self, closer: str, depth: int) -> Any:
        items: List[Any] = []
        comma: Optional[bool] = None
        while not self._next_is(closer):
            items.append(self.value(depth + 1))
            comma = self._comma(closer)
        self._take()
        if closer == "]":
            return items
        # "(3)" is the number, "(3,)" the tuple.
        return items[0] if len(items) == 1 and not comma else tuple(items)

    def _dict(self, depth: int) -> Dict[str, Any]:
        items: Dict[str, Any] = {}
        while not self._next_is("}"):
            key = self.value(depth + 1)
            if not isinstance(key, str) or not self._next_is(":"):
                raise ValueError("expected a name and a colon before byte %d" % self._token.start())
            self._take()
            items[key] = self.value(depth + 1)
            self._comma("}")
        self._take()
        return items

    def _comma(self, closer: str) -> bool:
        if self._next_is(","):
            self._take()
            return True
        if not self._next_is(closer):
            raise ValueError("expected %s before byte %d" % (closer, self._token.end()))
        return False

    def expect_end(self) -> None:
        """Raise ValueError unless nothing follows."""
        if self._token.lastgroup != "end":
            raise ValueError("something follows behind byte %d" % self._token.start())


MAX_HEADER_BYTES = 10000
MAX_RANK = 32
MAX_ELEMENTS = 2**63 - 1
_MAGIC = b"\x93NUMPY"
_BFLOAT16_CODE = 27
_SMALL_BYTES = 1024
"""The elements of a file of this size are kept in memory, whatever its header has."""
_YOUNG_NS = 1000000000
_KINDS = "fiubc"
_MINDSPORE_BFLOAT16 = ("<E2", "E2")
#: numpy pickles an array of one None in some 150 bytes.
_MAX_NONE_BYTES = 1 << 16
_NONES = re.compile(r"NEW(?:FALSE|TRUE) EMPTY_LIST (?:MARK )?(?:NONE )+APPENDS? TUPLE BUILD STOP\Z")
_NO_TENSOR_HINT = "TorchAir's FX dump writes such a file for an argument that is no tensor"


class NoTensor(FormatError):
    """A whole npy file that holds no tensor, such as None."""


@dataclass
class NpyHeader:
    """The header of an npy file, or what is wrong with it.

    Attributes
    ----------
    data_offset, data_bytes
        Where the elements begin, and how many bytes they take; None when the header could not be
        read.
    actual_bytes
        The file's size.
    start
        Its first bytes.
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
    start: bytes = b""
    error: Optional[FormatError] = None


def open_npy(path: str) -> Tensor:
    """Return the array of an npy file as a tensor of layout ``ND``; its elements stay in the file.

    A Fortran-ordered file gives a tensor of that order, a big-endian one decodes as any other.
    Two-byte void elements (``|V2``, so tfdbg and numpy write bfloat16) are bfloat16, and so are
    those of MindSpore 2.10 (``<E2``, which numpy itself cannot read).

    Raises
    ------
    MissingPath
        The file does not exist, is not a regular file or cannot be read.
    TruncatedFile
        It is shorter than its header says.
    FormatError
        It is not an npy file, holds pickled objects, records or text, or is longer than its header
        says.
    """
    header = load_npy_header(path)
    if header.error is not None:
        raise header.error
    assert header.dtype is not None and header.data_bytes is not None
    source = source_of(path, header.start, header.data_offset, header.data_bytes)
    # With one dim longer than 1 both orders are the same.
    fortran = header.fortran_order and sum(dim > 1 for dim in header.shape) > 1
    return Tensor(header.dtype, header.shape, "ND", source, order="F" if fortran else "C")


def open_npy_once(path: str) -> Tensor:
    """Return :func:`open_npy` of a file; a small one, which a training compares with the dumps of
    each device and step, is read once as long as it stays as it is.
    """
    look = look_at(path)
    # Of what was written a moment ago the time may be that of another content, too. The time of
    # the last change of its status, which nobody can set.
    if look is None or look.size_bytes > _SMALL_BYTES or time.time_ns() - look.ctime_ns < _YOUNG_NS:
        return open_npy(path)
    return _open_small(path, look)


@lru_cache(maxsize=4096)
def _open_small(path: str, _look: Signature) -> Tensor:
    return open_npy(path)


def load_npy_header(path: str) -> NpyHeader:
    """Read and check the header of an npy file; damage is reported in :attr:`NpyHeader.error`.

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
    start = header.start = read_at(descriptor, 0, min(size, START_BYTES), path)
    if start[:6] != _MAGIC[: len(start)]:
        from ..kinds.wrong_kind_advice import not_a_dump

        advice = not_a_dump(path)
        words = "it begins with %r" % start[:6] if advice is None else advice.words
        raise FormatError(
            "not an npy file: %s" % words,
            path,
            hint=advice.hint if advice else "golden files are written with numpy.save",
        )
    if len(start) < 12:
        what = "the file is empty" if not start else "the npy file ends inside its header"
        raise TruncatedFile(
            "%s: expected at least 12 bytes, got %d" % (what, len(start)), path, 12, len(start)
        )
    major = start[6]
    if major not in (1, 2, 3) or start[7] != 0:
        raise FormatError(
            "npy version %d.%d is not known (1.0 to 3.0 are)" % (major, start[7]), path
        )
    begin = 10 if major == 1 else 12
    length = int.from_bytes(start[8:begin], "little")
    if length > MAX_HEADER_BYTES:
        raise FormatError(
            "an npy header of %d bytes, at most %d are read" % (length, MAX_HEADER_BYTES), path
        )
    header.data_offset = begin + length
    if header.data_offset > size:
        message = "the npy file ends inside its header: expected at least %d bytes, got %d" % (
            header.data_offset,
            size,
        )
        raise TruncatedFile(message, path, header.data_offset, size)
    text = (
        start[begin : header.data_offset]
        if header.data_offset <= len(start)
        else read_at(descriptor, begin, length, path)
    )
    try:
        header.dtype, header.itemsize, header.fortran_order, header.shape = _parsed_header(
            text, major
        )
    except FormatError as error:
        length = min(size - header.data_offset, _MAX_NONE_BYTES)
        none = _no_tensor(text, read_at(descriptor, header.data_offset, length, path))
        if none is not None:
            # Whole, and nothing to compare.
            header.data_bytes = size - header.data_offset
            raise NoTensor(none, path, hint=_NO_TENSOR_HINT) from None
        raise FormatError(error.message, path, hint=error.hint) from None
    except ValueError as error:
        raise FormatError("the npy header cannot be understood: %s" % error, path) from None
    _check_size(header, path)


def _no_tensor(text: bytes, data: bytes) -> Optional[str]:
    """Return what an array without numbers is, if TorchAir's FX dump writes it so for an argument
    (np.array(None), np.array(str([None, tensor]))); else None. Nothing is unpickled.
    """
    descr, _, shape = parse_header(text.decode("latin-1"))
    if isinstance(descr, str) and descr[:2] == "<U" and shape == ():
        return "no tensor (text, which stands for an argument that is no tensor)"
    if descr != "|O":
        return None
    try:
        names = [code.name for code, _, _ in pickletools.genops(data)]
    except ValueError:
        return None
    kept = [name for name in names if name != "MEMOIZE" and not name.endswith("PUT")]
    # The state of an array ends with its order (True: Fortran's) and the list of its elements.
    return "no tensor (None)" if _NONES.search(" ".join(kept)) else None


@lru_cache(maxsize=512)
def _parsed_header(text: bytes, major: int) -> Tuple[DType, int, bool, Tuple[int, ...]]:
    """Return (element type, item size, Fortran order, shape) of a header; cached, for many tensors
    have the same.
    """
    descr, fortran_order, shape = parse_header(text.decode("utf-8" if major == 3 else "latin-1"))
    return (*_element_type(descr), fortran_order, _checked_shape(shape))


def _element_type(descr: Any) -> Tuple[DType, int]:
    if not isinstance(descr, str):
        raise FormatError(
            "the array holds records (%s), expected one number per element" % str(descr)[:200]
        )
    if descr in _MINDSPORE_BFLOAT16:
        return dtype_by_code(_BFLOAT16_CODE), 2
    dtype = element_dtype(descr)
    if dtype is not None and dtype.hasobject:
        raise FormatError(
            "the array holds pickled Python objects, which are never loaded (they can run code)",
            hint="save it again as a plain array, such as numpy.save(path, "
            "array.astype('float32'))",
        )
    if dtype is not None and dtype.kind == "V" and dtype.itemsize == 2:
        return dtype_by_code(_BFLOAT16_CODE), 2
    if dtype is None or dtype.kind not in _KINDS or not dtype_by_numpy(dtype).decodable:
        known = dtype is not None and dtype.kind == "V" and dtype.names is None
        # How numpy writes types of other packages, such as ml_dtypes' 8-bit floats.
        wider = (
            " (is it a type that numpy does not know, such as float8? save array.astype('float32'))"
            if known
            else ""
        )
        raise FormatError(
            "elements of type %s cannot be compared, expected numbers%s" % (descr, wider)
        )
    return dtype_by_numpy(dtype), dtype.itemsize


def _checked_shape(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    if len(shape) > MAX_RANK:
        raise FormatError("an array of %d dims, at most %d can be read" % (len(shape), MAX_RANK))
    if any(dim < 0 for dim in shape):
        raise FormatError("the shape %s has negative dims" % (list(shape),))
    return tuple(shape)


def _check_size(header: NpyHeader, path: str) -> None:
    count = 1
    for dim in header.shape:
        count *= dim
    if count > MAX_ELEMENTS:
        raise FormatError("the product of its dims %s overflows" % (list(header.shape),), path)
    header.data_bytes = count * header.itemsize
    expected = header.data_offset + header.data_bytes
    if header.actual_bytes < expected:
        message = "the npy file is cut short: expected %d bytes, got %d" % (
            expected,
            header.actual_bytes,
        )
        raise TruncatedFile(message, path, expected, header.actual_bytes)
    if header.actual_bytes > expected:
        raise FormatError(
            "the npy file is longer than its header says: expected %d bytes, got %d"
            % (expected, header.actual_bytes),
            path,
        )
