"""Reads the weights of a .caffemodel (only names and shapes, or arrays) and mean files
(.binaryproto).

Source of the field numbers: caffe.proto (NetParameter, LayerParameter, V1LayerParameter,
V0LayerParameter, BlobProto, BlobShape).
"""

from __future__ import annotations

import functools
import mmap
import operator
import os
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)

from ..base.atomic_writing import create_new
from ..base.errors import EnvironmentProblem, FormatError, require_file
from ..base.protowire import (
    BYTES,
    FIXED32,
    FIXED64,
    Fields,
    each,
    field,
    fields_of,
    fixed,
    message,
    read,
    text,
    unsigned,
    varint,
)
from ..base.safe_reading import open_input

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
Shape = Tuple[int, ...]
BLOB = Fields(
    num=unsigned(1),
    channels=unsigned(2),
    height=unsigned(3),
    width=unsigned(4),
    floats=fixed(5, FIXED32),
    shape=message(7, Fields(dims=each(unsigned(1)))),
    doubles=fixed(8, FIXED64),
)
"""BlobProto."""
_V0_LAYER = Fields(name=text(1), blobs=each(message(50, BLOB)))
LAYERS = {
    100: Fields(name=text(1), blobs=each(message(7, BLOB))),
    2: Fields(name=text(4), blobs=each(message(6, BLOB)), layer=message(1, _V0_LAYER)),
}
"""The layers of a NetParameter by field number: LayerParameter, V1LayerParameter."""
if TYPE_CHECKING:
    # Loaded only where arrays are made: shapes are asked for by commands that need no numpy.
    import numpy as np

Buffer = Union[bytes, mmap.mmap]


class _Blob(NamedTuple):
    """A BlobProto's shape and the spans of its data: float32, or float64 (``wide``) of a net of
    doubles.
    """

    shape: Shape
    spans: List[Tuple[int, int]]
    wide: bool = False

    def array(self, data: Buffer) -> np.ndarray:
        """Return its values, float32."""
        import numpy as np

        packed = b"".join(data[first:last] for first, last in self.spans)
        dtype = np.dtype("<f8" if self.wide else "<f4")
        if len(packed) % dtype.itemsize:
            raise FormatError("a blob with %d bytes of %s data" % (len(packed), dtype.name))
        values = np.frombuffer(packed, dtype=dtype)
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
    """Return ``{layer name: [blob, …]}`` of a .caffemodel or of Caffe's HDF5 weights, float32
    arrays in the blobs' own shapes.

    Raises
    ------
    FormatError
        It is neither.
    EnvironmentProblem
        It is HDF5, and there is no h5py.
    """
    require_file(path, "WEIGHTS")
    with open_input(path) as stream:
        data = stream.read()
    if data[: len(HDF5_MAGIC)] == HDF5_MAGIC:
        return dict(hdf5_weights(path))
    try:
        return {name: [blob.array(data) for blob in blobs] for name, blobs in _layers(data, path)}
    except FormatError as error:
        raise (
            error if error.path else FormatError("not a .caffemodel (%s)" % error.message, path)
        ) from error


class StoredWeights:
    """The weights of a .caffemodel, or of Caffe's HDF5 weights, by layer name; read on demand.

    Raises
    ------
    FormatError
        The file is neither.
    EnvironmentProblem
        It is HDF5, and there is no h5py.
    """

    def __init__(self, path: str) -> None:
        require_file(path, "WEIGHTS")
        self._path = path
        self._file = open_input(path)
        self._data: Buffer = b""
        self._blobs: Dict[str, List[_Blob]] = {}
        self._groups: Any = None
        if os.path.getsize(path):
            self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._data[: len(HDF5_MAGIC)] == HDF5_MAGIC:
            self._groups = _hdf5_groups(path)
        else:
            self._blobs = dict(_layers(self._data, path))

    def __call__(self, name: str) -> Optional[List[np.ndarray]]:
        """Return a layer's weights, float32; None where it has none."""
        if self._groups is not None:
            return _of_group(self._groups.get(name) if name else None)
        blobs = self._blobs.get(name)
        try:
            return None if blobs is None else [blob.array(self._data) for blob in blobs]
        except FormatError as error:
            raise FormatError("not a .caffemodel (%s)" % error.message, self._path) from error


def write_weights(path: str, layers: Iterable[Tuple[str, str, List[np.ndarray]]]) -> None:
    """Write ``(layer name, type, weights)`` as a .caffemodel (V2), a new file."""
    with os.fdopen(create_new(path), "wb") as stream:
        for name, kind, blobs in layers:
            body = field(1, name.encode("utf-8", "surrogateescape")) + field(2, kind.encode())
            for array in blobs:
                shape = field(7, field(1, b"".join(map(varint, array.shape))))
                body += field(7, shape + field(5, array.astype("<f4").tobytes()))
            stream.write(field(100, body))


def hdf5_weights(path: str) -> Iterator[Tuple[str, List[np.ndarray]]]:
    """Yield name and weights of each layer of Caffe's HDF5 weights; raises as
    :class:`StoredWeights`.
    """
    groups = _hdf5_groups(path)
    for name in _names_below(groups, ""):
        blobs = _of_group(groups.get(name))
        if blobs is not None:
            yield name, blobs


def _names_below(group: Any, name: str) -> Iterator[str]:
    """Yield the names of all groups in a group: a layer's name may have slashes, so that its group
    lies in others.
    """
    for key in group:
        if not hasattr(group[key], "dtype"):
            inner = name + "/" + key if name else key
            yield inner
            for below in _names_below(group[key], inner):
                yield below


def _hdf5_groups(path: str) -> Any:
    """Return the group of all layers' weights. Source: Net::CopyTrainedLayersFromHDF5 of BVLC
    Caffe.
    """
    try:
        import h5py
    except ImportError as error:
        hint = "pip install h5py, or save the weights as .caffemodel"
        raise EnvironmentProblem(
            "HDF5 weights, and h5py cannot be imported: %s" % error, hint, path
        ) from error
    try:
        return h5py.File(path, "r")["data"]
    except (OSError, KeyError) as error:
        raise FormatError("no HDF5 weights of Caffe: %s" % error, path) from error


def _of_group(group: Any) -> Optional[List[np.ndarray]]:
    import numpy as np

    # A layer's name may have slashes, so that another layer's group can lie in its own.
    numbers = sorted(
        int(key) for key in group or () if key.isdigit() and hasattr(group[key], "dtype")
    )
    for number in numbers:
        if group[str(number)].dtype.kind not in "fiu":
            raise FormatError(
                "%s/%d in it holds no numbers" % (group.name, number), group.file.filename
            )
    return [np.asarray(group[str(number)][()], np.float32) for number in numbers] or None


def _layers(data: Buffer, path: str) -> Iterator[Tuple[str, List[_Blob]]]:
    """Yield every layer that has weights; of several with one name only the first, as in Caffe."""
    names = set()
    try:
        for number, wire, first, last in fields_of(data, 0, len(data)):
            if wire == BYTES and number in LAYERS:
                layer = of_oldest_form(read(data, first, last, LAYERS[number]))
                if layer.blobs and layer.name not in names:
                    names.add(layer.name)
                    yield layer.name, [_blob(blob) for blob in layer.blobs]
    except FormatError as error:
        raise FormatError(
            "not a .caffemodel (%s)" % error.message,
            path,
            hint="give the binary weights of the net",
        ) from error


def of_oldest_form(layer: Any) -> Any:
    """Return the layer that one read by :data:`LAYERS` connects, in a net of the oldest form; else
    the layer itself.
    """
    return getattr(layer, "layer", None) or layer


def blob_shape(blob: Any) -> Shape:
    """Return the shape of a blob read by :data:`BLOB`; those of four numbers are older."""
    if blob.shape is not None:
        return tuple(blob.shape.dims)
    return (blob.num, blob.channels, blob.height, blob.width)


def _blob(blob: Any) -> _Blob:
    wide = bool(blob.doubles) and not blob.floats
    return _Blob(blob_shape(blob), blob.doubles if wide else blob.floats, wide)


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
        blob = _blob(read(data, 0, len(data), BLOB))
        blob = blob._replace(shape=tuple(dim for dim in blob.shape if dim))
        mean = blob.array(data)
    except FormatError as error:
        raise FormatError("not a .binaryproto (%s)" % error.message, path) from error
    if not blob.spans:
        raise FormatError("a mean of shape %s without values" % list(blob.shape), path)
    return mean.reshape(mean.shape[-3:]) if mean.ndim > 3 and mean.shape[0] == 1 else mean
