"""Writes the weights of some layers as a .caffemodel: records copied byte for byte; HDF5 weights
are converted first.

Source of the field numbers: caffe.proto (NetParameter, LayerParameter, V1LayerParameter).
"""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO, Collection, Dict, List, NamedTuple, Tuple

from ..base.errors import FormatError
from ..base.protowire import BYTES
from .caffemodel import HDF5_MAGIC, LAYERS, blob_shape, hdf5_weights, of_oldest_form, write_weights
from .protobuf_file import Record, WireFile

_HINT = "give the binary weights of the net (.caffemodel)"
Shape = Tuple[int, ...]


class LayerRecord(NamedTuple):
    """A layer's record in the file: its name, the shapes of its blobs, and its position, tag
    included."""

    name: str
    shapes: List[Shape]
    start: int
    end: int


class CaffeModel:
    """The records of a .caffemodel without the weights.

    Attributes
    ----------
    path
        The file.
    layers
        The records of layers, in order; a name may come twice.
    others
        ``(start, end)`` of all other top-level fields.

    Raises
    ------
    MissingPath
        There is no such file.
    FormatError
        It is empty, cut short, a Git LFS pointer, or holds no layer at all.
    EnvironmentProblem
        It is HDF5, and there is no h5py.
    """

    def __init__(self, path: str) -> None:
        self.path = self._file = path
        self.layers: List[LayerRecord] = []
        self.others: List[Tuple[int, int]] = []
        with WireFile(path, "WEIGHTS", _HINT) as file:
            if file.begins(HDF5_MAGIC):
                # The temporary file exists as long as this object.
                self._folder = tempfile.TemporaryDirectory(prefix="goldwatch-weights-")
                self._file = os.path.join(self._folder.name, "w.caffemodel")
                write_weights(self._file, ((name, "", blobs) for name, blobs in hdf5_weights(path)))
        with WireFile(self._file, "WEIGHTS", _HINT) as file:
            for record in file.records():
                if record.wire == BYTES and record.number in LAYERS:
                    self.layers.append(_layer(file, record))
                else:
                    self.others.append((record.start, record.last))
        if not self.layers:
            raise FormatError("no layer in it: not a .caffemodel", path, hint=_HINT)

    @property
    def shapes(self) -> Dict[str, List[Shape]]:
        """The shapes of the blobs by layer name, for layers that have any; of several records of
        one name the first is used, as in Caffe.
        """
        shapes: Dict[str, List[Shape]] = {}
        for layer in self.layers:
            if layer.shapes:
                shapes.setdefault(layer.name, layer.shapes)
        return shapes

    def write(self, names: Collection[str], stream: BinaryIO) -> int:
        """Write the records of the layers of these names, and all other fields, byte for byte in
        the file's order.

        Returns
        -------
        int
            Number of layers written.
        """
        spans = [(layer.start, layer.end) for layer in self.layers if layer.name in names]
        with WireFile(self._file, "WEIGHTS", _HINT) as file:
            file.copy(sorted(spans + self.others), stream)
        return len(spans)


def _layer(file: WireFile, record: Record) -> LayerRecord:
    layer = of_oldest_form(file.read(LAYERS[record.number], record.first, record.last))
    return LayerRecord(layer.name, [*map(blob_shape, layer.blobs)], record.start, record.last)
