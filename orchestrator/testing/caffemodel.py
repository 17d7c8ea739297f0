"""The weights of a .caffemodel, for networks that run on the stand-in of a device.

Source of the field numbers: Caffe's public caffe.proto (NetParameter.layer 100, LayerParameter.name 1 and blobs 7, BlobProto.data 5,
shape 7, BlobShape.dim 1).
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from ..errors import FormatError
from ..protowire import BYTES, VARINT, fields_of, read_varints


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
        fields = fields_of(data, 0, len(data))
        layers = [_layer(data, first, last) for number, wire, first, last in fields if number == 100 and wire == BYTES]
    except ValueError as error:  # FormatError too
        raise FormatError("not a caffemodel: %s" % error, path) from None
    return {name: blobs for name, blobs in layers if blobs}


def _layer(data: bytes, start: int, end: int) -> Tuple[str, List[Any]]:
    name, blobs = "", []
    for number, wire, first, last in fields_of(data, start, end):
        if number == 1 and wire == BYTES:
            name = data[first:last].decode("utf-8", "replace")
        elif number == 7 and wire == BYTES:
            blobs.append(_blob(data, first, last))
    return name, blobs


def _blob(data: bytes, start: int, end: int) -> Any:
    values: List[bytes] = []
    shape: List[int] = []
    for number, wire, first, last in fields_of(data, start, end):
        if number == 5 and wire != VARINT:
            values.append(data[first:last])
        elif number == 7 and wire == BYTES:
            for inner, packed, low, high in fields_of(data, first, last):
                if inner == 1:
                    shape += read_varints(data, low, high) if packed == BYTES else [low]
    array = np.frombuffer(b"".join(values), "<f4").astype(np.float32)
    return array.reshape(shape)
