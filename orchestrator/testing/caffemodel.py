"""The weights of a .caffemodel, for networks that run on the stand-in of a device.

Source of the field numbers: Caffe's public caffe.proto (NetParameter.layer 100, LayerParameter.name 1 and blobs 7, BlobProto.data 5,
shape 7, BlobShape.dim 1).
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple, Union

import numpy as np

from ..errors import FormatError

Wire = Union[int, bytes]


def read_weights(path: str) -> Dict[str, List[Any]]:
    """Return ``{layer name: [blob, …]}``, float32 arrays in the blobs' own shapes.

    Raises
    ------
    FormatError
        The file is not a serialised NetParameter.
    OSError
        It cannot be read.
    """
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        layers = [_layer(value) for number, value in _fields(data) if number == 100 and isinstance(value, bytes)]
    except (IndexError, ValueError) as error:
        raise FormatError("not a caffemodel: %s" % error, path) from None
    return {name: blobs for name, blobs in layers if blobs}


def _layer(data: bytes) -> Tuple[str, List[Any]]:
    name, blobs = "", []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            name = value.decode("utf-8", "replace")
        elif number == 7 and isinstance(value, bytes):
            blobs.append(_blob(value))
    return name, blobs


def _blob(data: bytes) -> Any:
    values: List[bytes] = []
    shape: List[int] = []
    for number, value in _fields(data):
        if number == 5 and isinstance(value, bytes):
            values.append(value)
        elif number == 7 and isinstance(value, bytes):
            for inner, dims in _fields(value):
                if inner == 1:
                    shape += _packed(dims) if isinstance(dims, bytes) else [dims]
    array = np.frombuffer(b"".join(values), "<f4").astype(np.float32)
    return array.reshape(shape)


def _packed(data: bytes) -> List[int]:
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


def _fields(data: bytes) -> Iterator[Tuple[int, Wire]]:
    """Yield the fields of a message: number, and its integer or bytes (32-bit values as bytes too)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value: Wire
            value, at = _varint(data, at)
        else:
            if kind == 2:
                size, at = _varint(data, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise ValueError("wire type %d at byte %d" % (kind, at))
            if at + size > len(data):
                raise ValueError("a field at byte %d runs past the end" % at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number at byte %d is too long" % at)
