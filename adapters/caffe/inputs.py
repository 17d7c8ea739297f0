"""The arrays that are set as a net's inputs: npy, npz, raw binary, images, folders of batches, or
random numbers.
"""

from __future__ import annotations

import os
import zipfile

import numpy as np

from ...element_types import element_count
from ...errors import FormatError, InputError, UsageError, require_file
from ...filesystem.safe_reading import open_input
from ...naming import printable
from ..read_npy import LOAD_ERRORS, Check, error_text, read_npy
from .images import Transform, load_image, require_room
from .input_plan import DEFAULT_LIMIT_BYTES, IMAGE_SUFFIXES, Item, Shape
from .netinputs import REGIONS, WHOLE, NetInput

_NPY = ".npy"
# Random regions lie in so many rows and columns of a feature map: few enough for most.
_REGION_CELLS = 12.0


def _open_npz(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except LOAD_ERRORS as error:
        raise FormatError("not an npz file: %s" % error_text(error), path) from error


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
    elif suffix == _NPY:
        with open_input(item.path) as stream:
            array = read_npy(stream, item.path, os.path.getsize(item.path), check)
    elif suffix == ".npz":
        array = _load_npz(item, check)
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


def _load_npz(item: Item, check: Check) -> np.ndarray:
    with _open_npz(item.path) as archive:
        names = archive.namelist()
        if item.blob + _NPY not in names:
            keys = ", ".join(
                printable(name[: -len(_NPY)] if name.endswith(_NPY) else name) for name in names
            )
            raise InputError(
                "%s: no key %s; it has %s" % (printable(item.path), printable(item.blob), keys)
            )
        try:
            member = archive.getinfo(item.blob + _NPY)
            with archive.open(member) as stream:
                return read_npy(
                    stream, "%s, key %s" % (item.path, item.blob), member.file_size, check
                )
        except InputError:
            raise
        except LOAD_ERRORS as error:
            raise FormatError(
                "key %s: %s" % (printable(item.blob), error_text(error)), item.path
            ) from error


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
