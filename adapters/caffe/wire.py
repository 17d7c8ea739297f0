"""Protobuf's wire format, as much as is needed: which layers of a .caffemodel have weights and of what shape, and mean files.

Source of the field numbers: caffe.proto (NetParameter, LayerParameter, V1LayerParameter, BlobProto, BlobShape).
"""

from __future__ import annotations

import mmap
import os
from typing import Dict, List, Optional, Tuple, Union

import numpy as np

from ...errors import FormatError, require_file
from ...protowire import fields_of, read_varints

Buffer = Union[bytes, mmap.mmap]
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_LAYER, _V1_LAYER = 100, 2


def weight_shapes(path: str) -> Optional[Dict[str, List[Tuple[int, ...]]]]:
    """Return ``{layer name: shapes of its weight blobs}`` of a .caffemodel; None for HDF5 weights.

    Raises
    ------
    MissingPath
        There is no such file.
    FormatError
        It is not a .caffemodel.
    """
    require_file(path, "WEIGHTS")
    out: Dict[str, List[Tuple[int, ...]]] = {}
    size = os.path.getsize(path)
    if not size:
        return out
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(HDF5_MAGIC)] == HDF5_MAGIC:
            return None
        try:
            for number, wire, first, last in fields_of(data, 0, size):
                if wire == 2 and number in (_LAYER, _V1_LAYER):
                    name, shapes = _layer(data, first, last, number == _V1_LAYER)
                    if shapes:
                        out.setdefault(name, shapes)
        except FormatError as error:
            raise FormatError("not a .caffemodel (%s)" % error.message, path, hint="give the binary weights of the net") from error
    return out


def _layer(data: Buffer, start: int, end: int, is_v1: bool) -> Tuple[str, List[Tuple[int, ...]]]:
    name_field, blob_field = (4, 6) if is_v1 else (1, 7)
    name, shapes = "", []
    for number, wire, first, last in fields_of(data, start, end):
        if wire == 2 and number == name_field:
            name = bytes(data[first:last]).decode("utf-8", "surrogateescape")
        elif wire == 2 and number == blob_field:
            shapes.append(_blob(data, first, last)[0])
    return name, shapes


def _blob(data: Buffer, start: int, end: int) -> Tuple[Tuple[int, ...], List[Tuple[int, int]]]:
    """Return a BlobProto's shape and the spans of its float data."""
    old = [0, 0, 0, 0]
    shape: Optional[List[int]] = None
    spans: List[Tuple[int, int]] = []
    for number, wire, first, last in fields_of(data, start, end):
        if number in (1, 2, 3, 4) and wire == 0:
            old[number - 1] = first
        elif number == 7 and wire == 2:
            shape = _dims(data, first, last)
        elif number == 5 and wire in (2, 5):
            spans.append((first, last))
    return tuple(old if shape is None else shape), spans


def _dims(data: Buffer, start: int, end: int) -> List[int]:
    dims: List[int] = []
    for number, wire, first, last in fields_of(data, start, end):
        if number == 1 and wire == 0:
            dims.append(first)
        elif number == 1 and wire == 2:
            dims.extend(read_varints(data, first, last))
    return dims


def read_mean(path: str) -> np.ndarray:
    """Return the float32 array of a mean file (.binaryproto), shaped (channels, height, width).

    Raises
    ------
    FormatError
        The file is not a BlobProto with as many values as its shape says.
    """
    require_file(path, "mean file")
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        shape, spans = _blob(data, 0, len(data))
    except FormatError as error:
        raise FormatError("not a .binaryproto (%s)" % error.message, path) from error
    values = np.frombuffer(b"".join(data[first:last] for first, last in spans), dtype="<f4")
    dims = tuple(dim for dim in shape if dim)
    if values.size == 0 or int(np.prod(dims)) != values.size:
        raise FormatError("a mean of shape %s with %d values" % (list(shape), values.size), path)
    return values.reshape(dims[-3:] if len(dims) >= 3 else dims)
