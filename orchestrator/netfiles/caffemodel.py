"""A .caffemodel's weights (names and shapes without reading them, or as arrays) and mean files (.binaryproto).

Source of the field numbers: caffe.proto (NetParameter, LayerParameter, V1LayerParameter, BlobProto, BlobShape).
"""

from __future__ import annotations

import functools
import mmap
import operator
import os
from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ..errors import FormatError, require_file
from ..filesystem.inputs import open_input
from ..protowire import BYTES, FIXED32, VARINT, fields_of, read_varints
from ..protowire import Buffer as AnyBuffer

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_LAYER, _V1_LAYER = 100, 2
Shape = Tuple[int, ...]
if TYPE_CHECKING:
    # Loaded only where arrays are made: shapes are asked for by commands that need no numpy.
    import numpy as np

Buffer = Union[bytes, mmap.mmap]


class _Blob(NamedTuple):
    """A BlobProto's shape and the spans of its float data."""

    shape: Shape
    spans: List[Tuple[int, int]]

    def array(self, data: Buffer) -> np.ndarray:
        """Return its values, float32."""
        import numpy as np

        packed = b"".join(data[first:last] for first, last in self.spans)
        if len(packed) % 4:
            raise FormatError("a blob with %d bytes of float32 data" % len(packed))
        values = np.frombuffer(packed, dtype="<f4")
        if values.size != functools.reduce(operator.mul, self.shape, 1):
            raise FormatError("a blob of shape %s with %d values" % (list(self.shape), values.size))
        return values.astype(np.float32).reshape(self.shape)


def weight_shapes(path: str) -> Optional[Dict[str, List[Shape]]]:
    """Return ``{layer name: shapes of its weight blobs}`` of a .caffemodel; None for HDF5 weights.

    Raises
    ------
    MissingPath
        There is no such file.
    FormatError
        It is not a .caffemodel.
    """
    require_file(path, "WEIGHTS")
    if not os.path.getsize(path):
        return {}
    with open_input(path) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(HDF5_MAGIC)] == HDF5_MAGIC:
            return None
        return {name: [blob.shape for blob in blobs] for name, blobs in _layers(data, path)}


def read_weights(path: str) -> Dict[str, List[np.ndarray]]:
    """Return ``{layer name: [blob, …]}`` of a .caffemodel, float32 arrays in the blobs' own shapes.

    Raises
    ------
    FormatError
        It is not a .caffemodel.
    """
    require_file(path, "WEIGHTS")
    with open_input(path) as stream:
        data = stream.read()
    try:
        return {name: [blob.array(data) for blob in blobs] for name, blobs in _layers(data, path)}
    except FormatError as error:
        raise error if error.path else FormatError("not a .caffemodel (%s)" % error.message, path) from error


def _layers(data: Buffer, path: str) -> Iterator[Tuple[str, List[_Blob]]]:
    """Yield every layer that has weights; of layers of one name the first counts, as in Caffe."""
    seen = set()
    try:
        for number, wire, first, last in fields_of(data, 0, len(data)):
            if wire == BYTES and number in (_LAYER, _V1_LAYER):
                name, blobs = _layer(data, first, last, number == _V1_LAYER)
                if blobs and name not in seen:
                    seen.add(name)
                    yield name, blobs
    except FormatError as error:
        raise FormatError("not a .caffemodel (%s)" % error.message, path, hint="give the binary weights of the net") from error


def _layer(data: Buffer, start: int, end: int, is_v1: bool) -> Tuple[str, List[_Blob]]:
    name_field, blob_field = (4, 6) if is_v1 else (1, 7)
    name, blobs = "", []
    for number, wire, first, last in fields_of(data, start, end):
        if wire == BYTES and number == name_field:
            name = bytes(data[first:last]).decode("utf-8", "surrogateescape")
        elif wire == BYTES and number == blob_field:
            blobs.append(_blob(data, first, last))
    return name, blobs


def blob_shape(data: AnyBuffer, start: int, end: int) -> Shape:
    """Return the shape of the BlobProto from byte ``start`` to ``end``; raises FormatError where there is none."""
    return _blob(data, start, end).shape


def _blob(data: AnyBuffer, start: int, end: int) -> _Blob:
    old = [0, 0, 0, 0]
    shape: Optional[List[int]] = None
    spans: List[Tuple[int, int]] = []
    for number, wire, first, last in fields_of(data, start, end):
        if number in (1, 2, 3, 4) and wire == VARINT:
            old[number - 1] = first
        elif number == 7 and wire == BYTES:
            shape = _dims(data, first, last)
        elif number == 5 and wire in (BYTES, FIXED32):
            spans.append((first, last))
    return _Blob(tuple(old if shape is None else shape), spans)


def _dims(data: AnyBuffer, start: int, end: int) -> List[int]:
    dims: List[int] = []
    for number, wire, first, last in fields_of(data, start, end):
        if number == 1 and wire == VARINT:
            dims.append(first)
        elif number == 1 and wire == BYTES:
            dims += read_varints(data, first, last)
    return dims


def read_mean(path: str) -> np.ndarray:
    """Return the float32 array of a mean file (.binaryproto), shaped (channels, height, width).

    Raises
    ------
    FormatError
        The file is not a BlobProto with as many values as its shape says.
    """
    require_file(path, "mean file")
    with open_input(path) as stream:
        data = stream.read()
    try:
        blob = _blob(data, 0, len(data))
        blob = blob._replace(shape=tuple(dim for dim in blob.shape if dim))
        mean = blob.array(data)
    except FormatError as error:
        raise FormatError("not a .binaryproto (%s)" % error.message, path) from error
    if not blob.spans:
        raise FormatError("a mean of shape %s without values" % list(blob.shape), path)
    return mean.reshape(mean.shape[-3:]) if mean.ndim > 3 and mean.shape[0] == 1 else mean
