"""Tensors of a file that ``torch.save`` wrote: found without PyTorch, read in windows, never
unpickled.

Format: a zip archive whose records are stored as they are; ``data.pkl`` holds sizes and types and
names the record of each storage (``data/0``). Its pickle is interpreted here, and only as far as
tensors and lists of them need. Source: torch/serialization.py, torch/_utils.py
(``_rebuild_tensor_v2`` and ``_v3``) of PyTorch 1.6 to 2.14.
"""

from __future__ import annotations

import os
import pickletools
import struct
import zipfile
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import FormatError, TruncatedFile
from ..base.safe_reading import open_regular
from ..tensors.dtypes import dtype_by_name
from ..tensors.tensor import MemorySource, Tensor
from .file_source import FileSource

_MAX_PICKLE_BYTES = 1 << 16
_LOCAL_HEADER_BYTES = 30
_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128",
}  # fmt: skip
# What zipfile raises of damaged archives, and a pickle that is not that of tensors.
_DAMAGE = (
    zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, struct.error,
    LookupError, ValueError, TypeError, AttributeError, OverflowError,
)  # fmt: skip
_MARK = object()
_CONSTANTS: Dict[str, Callable[[], Any]] = {
    "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "NONE": lambda: None,
    "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "MARK": lambda: _MARK,
}  # fmt: skip


def open_torch(path: str) -> List[Tensor]:
    """Return the tensors of a file, those of a list in its order.

    The elements of a contiguous tensor stay in the file.

    Raises
    ------
    FormatError
        It is no archive of ``torch.save``, or holds something else than tensors.
    MissingPath
        It cannot be read.
    """
    descriptor, size = open_regular(path)
    with os.fdopen(descriptor, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                records = {name.partition("/")[2]: name for name in archive.namelist()}
                if "data.pkl" not in records:
                    raise FormatError("no archive of torch.save: it has no data.pkl", path)
                info = archive.getinfo(records["data.pkl"])
                if info.file_size > _MAX_PICKLE_BYTES or info.compress_type != zipfile.ZIP_STORED:
                    raise FormatError("more than a tensor, or compressed", path)
                order = archive.read(records["byteorder"]) if "byteorder" in records else b"little"
                if order != b"little":
                    raise FormatError("written on a machine of other byte order", path)
                told = _interpreted(archive.read(info))
                tensors = told if isinstance(told, list) else [told]
                if not all(isinstance(one, tuple) and one[:1] == ("tensor",) for one in tensors):
                    raise FormatError("it holds something else than tensors", path)
                places = {}
                for _, key, *_ in tensors:
                    if not isinstance(key, str):
                        raise ValueError("a storage without a name")
                    record = archive.getinfo(records["data/%s" % key])
                    stream.seek(record.header_offset)
                    header = stream.read(_LOCAL_HEADER_BYTES)
                    names = int.from_bytes(header[26:28], "little")
                    names += int.from_bytes(header[28:30], "little")
                    start = record.header_offset + _LOCAL_HEADER_BYTES + names
                    if record.compress_type != zipfile.ZIP_STORED:
                        raise FormatError("a compressed storage", path)
                    places[key] = start, record.file_size
        except _DAMAGE as error:
            stream.seek(0)
            head = stream.read(4)
            what = "not read as tensors of torch.save (%s)" % error
            if not head:
                what = "the file is empty"
            elif head == b"PK\x03\x04" and isinstance(error, zipfile.BadZipFile):
                what = "the archive is cut short or damaged: %d bytes, and %s" % (
                    size, "its list of records at the end is missing",
                )  # fmt: skip
            elif head[:1] == b"\x80":
                what = (
                    "torch.save wrote it in its form before PyTorch 1.6, a plain pickle: load "
                    "and save it again there"
                )
            raise FormatError(what, path) from None
    return [_tensor(path, size, *places[key], *rest) for _, key, *rest in tensors]


def _tensor(
    path: str,
    file_bytes: int,
    start: int,
    record_bytes: int,
    kind: str,
    offset: int,
    shape: Tuple[int, ...],
    strides: Tuple[int, ...],
) -> Tensor:
    """Return a tensor of a storage; raise FormatError where it reaches beyond."""
    dtype = dtype_by_name(kind) if isinstance(kind, str) else None
    if dtype is None or dtype.bits < 8:
        raise FormatError("a tensor of an element type that is not known", path)
    lists = isinstance(shape, tuple) and isinstance(strides, tuple) and len(shape) == len(strides)
    if not lists or not all(isinstance(n, int) and n >= 0 for n in (offset, *shape, *strides)):
        raise FormatError("a tensor without a list of sizes", path)
    itemsize, count = dtype.bits // 8, element_count(shape)
    last = sum((dim - 1) * stride for dim, stride in zip(shape, strides)) if count else -1
    if start + record_bytes > file_bytes:
        raise TruncatedFile("cut short", path, start + record_bytes, file_bytes)
    if max(offset + last + 1, count) * itemsize > record_bytes:
        raise FormatError("more elements than its storage has", path)
    source: Any = FileSource(path, start + offset * itemsize, count * itemsize)
    dense = [element_count(shape[place + 1 :]) for place in range(len(shape))]
    if count and any(dim > 1 and one != two for dim, one, two in zip(shape, strides, dense)):
        data = FileSource(path, start + offset * itemsize, (last + 1) * itemsize)
        flat = data.read(0, data.nbytes).view("u%d" % itemsize if itemsize < 16 else "c16")
        by_bytes = [stride * itemsize for stride in strides]
        source = MemorySource(np.lib.stride_tricks.as_strided(flat, shape, by_bytes))
    return Tensor(dtype, shape, "ND", source)


def _interpreted(data: bytes) -> Any:
    """Return what a pickle makes: tensors as ("tensor", storage, type, offset, shape, strides).

    Raises
    ------
    ValueError, KeyError, IndexError, TypeError
        It does more than the pickle of tensors.
    """
    stack: List[Any] = []
    memo: Dict[Any, Any] = {}
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name in ("PROTO", "FRAME"):
            pass
        elif name in ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"):
            stack.append(argument)
        elif name == "GLOBAL":
            stack.append(("global", str(argument).rpartition(" ")[2]))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("TUPLE", "APPENDS"):
            place = len(stack) - 1 - stack[::-1].index(_MARK)
            items = stack[place + 1 :]
            del stack[place:]
            if name == "TUPLE":
                stack.append(tuple(items))
            else:
                stack[-1].extend(items)
        elif name == "APPEND":
            stack[-2].append(stack.pop())
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[argument if argument is not None else len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "BINPERSID":
            _, (_, storage), key, _, _ = stack.pop()
            stack.append(
                ("storage", key, _STORAGES.get(storage if isinstance(storage, str) else "", ""))
            )
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_called(stack.pop()[1], arguments))
        elif name == "STOP":
            return stack.pop()
        else:
            raise ValueError("more than tensors: %s in its data.pkl" % name)
    raise ValueError("its data.pkl has no end")


def _called(name: str, arguments: Tuple[Any, ...]) -> Any:
    """Return what one of the functions makes that a pickle of tensors calls."""
    if name == "OrderedDict" and not arguments:
        return {}
    if name == "_rebuild_parameter":
        return arguments[0]
    if name not in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
        raise ValueError("it calls another function" if not isinstance(name, str) else name)
    (_, key, kind), offset, shape, strides = arguments[:4]
    if name.endswith("3"):
        kind = arguments[6][1]  # such as ("global", "float8_e4m3fn")
    return "tensor", key, kind, offset, shape, strides
