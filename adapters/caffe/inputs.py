"""The arrays that are set as a net's inputs: npy, npz, raw binary, images, folders of batches, or
random numbers.

They are read in the child process: nothing of a file is in the process that the user started.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, List, Sequence

import numpy as np

from ...base.element_types import element_count
from ...base.errors import InputError, UsageError, require_file
from ...base.mounts import require_space
from ...base.naming import printable
from ...base.safe_reading import open_input, sha256_of_file
from ...netfiles.caffe_net import Net
from ..file_headers import npy_header
from ..read_npy import Check, read_npy, read_npz
from .images import Transform, load_image, require_room, transform_from, with_options
from .input_plan import DEFAULT_LIMIT_BYTES, IMAGE_SUFFIXES, Item, Shape, is_image
from .netinputs import REGIONS, WHOLE, NetInput, transform_of

# Random regions lie in so many rows and columns of a feature map: few enough for most.
_REGION_CELLS = 12.0


def load_item(
    item: Item, expected: Shape, transform: Transform, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> np.ndarray:
    """Return one input as a float32 array in C order whose shape fits the net's but for the batch
    size.

    Parameters
    ----------
    expected
        The input's shape in the prototxt; empty when it has none.
    limit_bytes
        An input that is larger in memory is refused: its dimensions are read before anything is
        unpacked.

    Raises
    ------
    InputError
        The file is not what it should be, or its shape does not fit.
    """
    require_file(item.path, "input %s" % item.blob)
    suffix = os.path.splitext(item.path)[1].lower()

    def check(shape: Shape, dtype: np.dtype) -> None:
        _fitting(shape, dtype, item, expected, limit_bytes)

    if item.dtype:
        array = _load_raw(item, check)
    elif suffix == ".npy":
        with open_input(item.path) as stream:
            array = read_npy(stream, item.path, os.path.getsize(item.path), check)
    elif suffix == ".npz":
        array = read_npz(item.path, item.blob, check)
    elif suffix in IMAGE_SUFFIXES:
        return load_image(item.path, expected, transform, limit_bytes)
    else:
        raise UsageError(
            "%s: dtype and shape of a raw file must be given" % printable(item.path),
            hint="`inputs=%s=%s:float32:%s`"
            % (
                printable(item.blob),
                printable(item.path),
                ",".join(map(str, expected)) or "1,3,224,224",
            ),
        )
    return np.asarray(
        array.reshape(_fitting(array.shape, array.dtype, item, expected, limit_bytes)),
        dtype=np.float32,
        order="C",
    )


def _load_raw(item: Item, check: Check) -> np.ndarray:
    dtype = np.dtype(item.dtype).newbyteorder("<")
    need = dtype.itemsize * element_count(item.shape)
    size = os.path.getsize(item.path)
    if size != need:
        message = "%s: %s of shape %s needs %d bytes, the file has %d"
        raise InputError(message % (printable(item.path), item.dtype, list(item.shape), need, size))
    check(item.shape, dtype)
    return np.fromfile(item.path, dtype=dtype).reshape(item.shape)


def _fitting(shape: Shape, dtype: np.dtype, item: Item, expected: Shape, limit_bytes: int) -> Shape:
    """Return the shape that an array gets, with the batch axis that it may lack.

    Raises
    ------
    InputError
        It does not fit, holds no real numbers or none at all, or is too large.
    """
    where = "%s: input %s" % (printable(item.path), printable(item.blob))
    if dtype.kind not in "biuf":
        raise InputError("%s holds %s, not real numbers" % (where, dtype))
    fitting = shape
    if expected and len(shape) == len(expected) - 1 and shape == tuple(expected[1:]):
        fitting = (1,) + shape
    if expected and (len(fitting) != len(expected) or fitting[1:] != tuple(expected[1:])):
        hint = "only the batch size may differ"
        raise InputError(
            "%s has the shape %s, the net expects %s" % (where, list(fitting), list(expected)),
            hint=hint,
        )
    elements = element_count(fitting)
    if elements < 1:
        raise InputError("%s is empty: shape %s" % (where, list(fitting)))
    require_room(
        item.path,
        "an array of shape %s" % list(fitting),
        elements * max(4, dtype.itemsize),
        limit_bytes,
    )
    return fitting


def random_input(
    seed: int, entry: NetInput, number: int, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> np.ndarray:
    """Return random float32 numbers for the ``number``-th input, as :attr:`NetInput.draw` tells;
    the same for the same seed on every numpy.

    Raises
    ------
    UsageError
        The prototxt does not tell the shape.
    """
    shape, (kind, most) = entry.shape, entry.draw
    if not shape:
        message = "input %s has no shape in the prototxt, so it cannot be filled at random"
        raise UsageError(
            message % entry.words, hint="give `inputs=%s=FILE`" % printable(entry.blob)
        )
    # Drawn in float64.
    require_room(
        "input " + entry.blob,
        "an array of shape %s" % list(shape),
        12 * element_count(shape),
        limit_bytes,
    )
    state = np.random.RandomState([seed, number])
    if kind == REGIONS and element_count(shape[1:]) == 5:
        rows = np.zeros((shape[0], 5))
        rows[:, 1:] = np.sort(
            state.uniform(0, _REGION_CELLS / (most or 1.0), (shape[0], 2, 2)), 1
        ).reshape(-1, 4)
        return np.asarray(rows.reshape(shape), np.float32)
    drawn = (
        state.standard_normal(shape) if kind != WHOLE else np.floor(state.uniform(0, most, shape))
    )
    return np.asarray(drawn, dtype=np.float32)


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
