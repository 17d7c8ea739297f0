"""The arrays of every batch, read in the child process: nothing of a file is in the process that
the user started.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, List, Sequence

import numpy as np

from ...errors import InputError
from ...filesystem.mounts import require_space
from ...filesystem.safe_reading import sha256_of_file
from ...naming import printable
from ...netfiles.caffe_net import Net
from ..file_headers import npy_header
from .images import Transform, transform_from, with_options
from .input_plan import Item, Shape, is_image
from .inputs import load_item, random_input
from .netinputs import NetInput, transform_of

Arrays = Dict[str, np.ndarray]


class Batches:
    """The inputs of all runs, loaded and judged before the first of them; several batches wait on
    disk, a single one in memory.

    Parameters
    ----------
    job
        ``prototxt``, ``seed``, ``image_options``, ``max_input_bytes``, ``folder`` and ``batches``.
    inputs
        The net's inputs.

    Raises
    ------
    InputError
        A file does not fit, or the batches differ in shape.

    Attributes
    ----------
    shapes
        Of each input blob.
    sums
        For each batch the SHA-256 of each input's file, or of the npy file that a random one would
        be.
    """

    def __init__(self, job: Dict[str, Any], net: Net, inputs: Sequence[NetInput]) -> None:
        self.shapes: Dict[str, Shape] = {}
        self.sums: List[Dict[str, str]] = []
        self._job = job
        self._net = net
        self._inputs = inputs
        self._file_arrays: Arrays = {}
        for number, batch in enumerate(job["batches"]):
            # JSON has no tuples.
            items = {
                blob: Item(name, path, dtype, tuple(shape))
                for blob, (name, path, dtype, shape) in batch["items"].items()
            }
            self.sums.append({})
            for position, entry in enumerate(inputs):
                self._add(number, position, entry, items)

    def _add(self, number: int, position: int, entry: NetInput, items: Dict[str, Item]) -> None:
        job, blob = self._job, entry.blob
        item = items.get(blob)
        if item is None and entry.optional:
            return
        if item is None:
            array = random_input(job["seed"], entry, position, job["max_input_bytes"])
            self.sums[-1][blob] = hashlib.sha256(npy_header(array) + array.tobytes()).hexdigest()
        else:
            # What else a transform_param says, such as a mean file that may be missing, is for
            # images.
            transform = self._transform(blob) if is_image(item.path) else Transform()
            # What a data layer's parameters tell is the shape of its pictures; other files tell
            # theirs.
            expected = () if entry.reader and not is_image(item.path) else entry.shape
            array = load_item(item, expected, transform, job["max_input_bytes"])
            if entry.shape and array.shape == entry.shape[1:]:
                array = array[None]
            self.sums[-1][blob] = sha256_of_file(item.path)
        if self.shapes.setdefault(blob, array.shape) != array.shape:
            message = "input %s: batches of shape %s and %s in one folder"
            raise InputError(
                message % (printable(blob), list(self.shapes[blob]), list(array.shape))
            )
        if len(job["batches"]) == 1:
            self._file_arrays[blob] = array
            return
        require_space(job["folder"], array.nbytes)
        np.save(self._path(number, position), array)

    def _transform(self, blob: str) -> Transform:
        folder = os.path.dirname(self._job["prototxt"])
        return with_options(
            transform_from(transform_of(self._net, blob), folder), *self._job["image_options"]
        )

    def _path(self, number: int, position: int) -> str:
        return os.path.join(self._job["folder"], "%d-%d.npy" % (number, position))

    def arrays(self, number: int) -> Arrays:
        """Return one batch's arrays by blob."""
        return self._file_arrays or {
            entry.blob: np.load(self._path(number, position))
            for position, entry in enumerate(self._inputs)
            if entry.blob in self.shapes
        }
