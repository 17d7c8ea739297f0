"""The values of the inputs of both sides: read from the user's files or random, and written as
golden data take them and as the device does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List, Sequence, Tuple

import numpy as np

from ...adapters.onnx.input_files import stems_of
from ...base.atomic_writing import atomic_writer
from ...base.element_types import BY_NAME, element_count
from ...base.errors import FormatError, InputError, MissingPath
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...base.notes import Note, note
from ...base.safe_reading import open_input
from ...tensors.geometry import moved_axes

if TYPE_CHECKING:
    from .input_pairs import InputPair

_LARGEST_HALF = 65504.0


def read_values(pair: InputPair) -> np.ndarray:
    """Return the values of a file: of an image the bytes as the device gets them, else an array in
    the model's shape.

    An npy has the model's shape, or the om's. A raw file is what the device gets, or has the
    model's type where that fits its size.

    Raises
    ------
    InputError
        It holds something else.
    """
    assert pair.file is not None
    where = "input %s: %s" % (printable(pair.model.name), printable(pair.file))
    if not os.path.isfile(pair.file):
        raise InputError(
            "%s: no such file" % where, hint="check the path; it is read from the current folder"
        )
    plain = pair.file.endswith(".npy")
    try:
        with open_input(pair.file) as stream:
            array = (
                np.load(stream, allow_pickle=False)
                if plain
                else np.frombuffer(stream.read(), np.uint8)
            )
    except MissingPath as error:
        raise InputError("%s %s" % (where, error.detail), error.hint) from None
    except (ValueError, EOFError) as error:
        raise FormatError("%s: no .npy file: %s" % (where, error)) from None
    except OSError as error:
        raise InputError("%s: %s" % (where, error.strerror)) from None
    if pair.image is not None:
        if array.dtype != np.uint8 or array.size != pair.device_bytes:
            raise InputError(
                "%s holds %s %s: the om takes an image there, %s: %d bytes of uint8"
                % (where, array.dtype, list(array.shape), pair.image, pair.device_bytes),
                hint="give the image's bytes as your program does; golden data get what the om's "
                "AIPP makes of them",
            )
        return np.asarray(array).reshape(-1)
    if not plain:
        return _of_raw(pair, array, where)
    if array.dtype.kind != _numpy(pair.model.dtype).kind and not {
        array.dtype.kind,
        _numpy(pair.model.dtype).kind,
    } <= set("iu"):
        raise InputError(
            "%s holds %s, the model reads %s" % (where, array.dtype, pair.model.dtype),
            hint="give a file of that type",
        )
    if array.shape == pair.om_shape and pair.order is not None and array.shape != pair.shape:
        array = _turned_back(array, pair.order)
    if tuple(array.shape) != pair.shape:
        raise InputError(
            "%s has the shape %s: the model's is %s" % (where, list(array.shape), list(pair.shape)),
            hint=_what_to_do(array.shape, pair.shape),
        )
    return np.asarray(array)


def _what_to_do(shape: Sequence[int], wanted: Sequence[int]) -> str:
    """Return what to do about an array in another shape than an input's."""
    order = moved_axes(shape, wanted)
    if order is not None:
        return "its channels are at another place: give array.transpose(%s)" % (
            ", ".join(map(str, order))
        )
    if element_count(shape) == element_count(wanted):
        return "it has as many elements: give array.reshape(%s), if they are in that order" % (
            ", ".join(map(str, wanted))
        )
    if shape and wanted and list(shape[1:]) == list(wanted[1:]) and shape[0] > wanted[0]:
        return (
            "it is a larger batch, of which one run takes array[:%d]; for the whole convert the "
            "model for it, or give --shapes where it is dynamic" % wanted[0]
        )
    return (
        "preprocess it to that shape; for the file's own convert the model with it "
        "(--input_shape), or give --shapes where the om is dynamic"
    )


def _of_raw(pair: InputPair, data: np.ndarray, where: str) -> np.ndarray:
    om, model = _numpy(pair.om.dtype), _numpy(pair.model.dtype)
    count = element_count(pair.shape)
    if data.size == count * om.itemsize:
        array = data.view(om).reshape(pair.om_shape)
        return array if pair.order is None else _turned_back(array, pair.order)
    if data.size == count * model.itemsize:
        return data.view(model).reshape(pair.shape)
    raise InputError(
        "%s has %d bytes: the om's input takes %d (%s %s), the model's %d (%s)"
        % (
            where,
            data.size,
            count * om.itemsize,
            om,
            list(pair.om_shape),
            count * model.itemsize,
            model,
        ),
        hint="a raw file is what the device gets, or has the model's type: convert the values "
        "(array.astype), or give an .npy, which tells its shape and type",
    )


def random_values(pair: InputPair, seed: int, number: int) -> np.ndarray:
    """Return values for an input without a file, the same for the same seed on every numpy.

    Standard normal floats; bytes of an image, 0 to 255, also of uint8 without AIPP; int8 of its
    whole range; of all other integers 0 and 1, which are as indices and as lengths within every
    bound.
    """
    state = np.random.RandomState([seed, number])
    if pair.image is not None:
        return state.randint(0, 256, pair.device_bytes).astype(np.uint8)
    dtype = _numpy(pair.model.dtype)
    if dtype.kind == "f":
        return np.asarray(state.standard_normal(pair.shape)).astype(dtype)
    first, last = {"uint8": (0, 256), "int8": (-128, 128)}.get(dtype.name, (0, 2))
    return np.asarray(state.randint(first, last, pair.shape)).astype(dtype)


@dataclass(frozen=True)
class WrittenInput:
    """The files of one input: ``golden`` (npy) and ``device`` (raw)."""

    name: str
    golden: str
    device: str


def input_files(pairs: Sequence[InputPair], folder: str) -> List[WrittenInput]:
    """Return where the inputs are written, in the om's order."""
    stems = stems_of([pair.model.name for pair in pairs])
    return [
        WrittenInput(
            pair.model.name,
            os.path.join(folder, stem + ".npy"),
            os.path.join(folder, stem + ".bin"),
        )
        for pair, stem in zip(pairs, stems.values())
    ]


def write_inputs(pairs: Sequence[InputPair], folder: str, seed: int) -> List[Note]:
    """Write the inputs of both sides; return what is to be said of them.

    Raises
    ------
    InputError
        A file cannot be used.
    """
    os.makedirs(folder, exist_ok=True)
    notes: List[Note] = []
    for number, (pair, files) in enumerate(zip(pairs, input_files(pairs, folder))):
        values = read_values(pair) if pair.file is not None else random_values(pair, seed, number)
        golden, device = _both_sides(pair, values, notes)
        with atomic_writer(files.golden) as stream:
            np.save(stream, golden, allow_pickle=False)
        with atomic_writer(files.device) as stream:
            stream.write(device.tobytes())
    return notes


def _both_sides(
    pair: InputPair, values: np.ndarray, notes: List[Note]
) -> Tuple[np.ndarray, np.ndarray]:
    """Return what golden data are made with, and what the device gets."""
    model = _numpy(pair.model.dtype)
    if pair.image is not None:
        made = np.stack([pair.image.make(image) for image in values.reshape(pair.images, -1)])
        # AIPP gives float16.
        made = made.astype(np.float16).astype(model)
        return (
            made if pair.order is None else np.ascontiguousarray(made.transpose(pair.order))
        ), values
    om = _numpy(pair.om.dtype)
    with np.errstate(over="ignore"):
        device = np.asarray(values).astype(om)
        golden = device.astype(model)
    if om.kind in "iu" and not np.array_equal(device, values):
        raise InputError(
            "input %s: it holds values that the om's %s cannot hold"
            % (printable(pair.model.name), om),
            hint="give values within its range",
        )
    if om.kind == "f":
        lost = int(np.count_nonzero(np.isinf(device) & np.isfinite(values)))
        if lost:
            notes.append(
                note("infinite-inputs", printable(pair.model.name), lost, om, _LARGEST_HALF)
            )
    turned = device if pair.order is None else np.ascontiguousarray(device.transpose(pair.order))
    return np.ascontiguousarray(golden), turned


def _turned_back(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    return np.asarray(array).transpose(np.argsort(axes))


def _numpy(dtype: str) -> "np.dtype[np.generic]":
    return np.dtype("bool" if dtype == "bool" else BY_NAME[dtype].storage)
