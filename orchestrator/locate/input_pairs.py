"""The inputs of both sides: which of the model is which of the om, and the same values for golden
data and for the device.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..adapters.onnx.input_files import stems_of
from ..element_types import BY_NAME, element_count
from ..errors import FormatError, InputError, UsageError
from ..filesystem.atomic_writing import atomic_writer
from ..filesystem.safe_reading import open_input
from ..model.offline_model import OmInput
from ..naming import nearest_names, printable
from ..operators.aipp import Preprocessing
from ..text.wording import listed
from .original_model import ModelInput, OriginalModel
from .shape_combinations import Shape

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class InputPair:
    """An input of the model and that of the om.

    Attributes
    ----------
    model, om
        The two.
    shape
        Of this run, as the model has it.
    om_shape
        The same as the om has it.
    order
        How the axes of the model's lie in the om's; None where they are the same.
    file
        The values that the user gives; None: random ones.
    image
        The preprocessing that the om begins with; None where it has none.
    notes
        What is converted, for the user.
    """

    model: ModelInput
    om: OmInput
    shape: Shape
    om_shape: Shape
    order: Optional[Tuple[int, ...]] = None
    file: Optional[str] = None
    image: Optional[Preprocessing] = None
    notes: Tuple[str, ...] = ()

    @property
    def device_bytes(self) -> int:
        """What the device's file must hold."""
        if self.image is not None:
            return self.images * self.image.image_bytes
        return element_count(self.om_shape) * BY_NAME[self.om.dtype].bits // 8

    @property
    def images(self) -> int:
        """How many images there are, where it is of images."""
        return self.shape[0] if len(self.shape) == 4 else 1


@dataclass
class Paired:
    """All inputs of a run, in the om's order, and why some of them do not go together; of what is
    wrong, ``wrong_shapes`` are those that the user gave.
    """

    pairs: List[InputPair] = field(default_factory=list)
    problems: List[str] = field(default_factory=list)
    wrong_shapes: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)


def named_files(texts: Sequence[str]) -> Dict[str, str]:
    """Return the files of ``NAME=FILE`` texts; a name may hold a ``=``, then the file begins behind
    the first one where something is.

    Raises
    ------
    UsageError
        One is of another form, or a name is given twice.
    """
    files: Dict[str, str] = {}
    for text in texts:
        places = [at for at, letter in enumerate(text) if letter == "=" and 0 < at < len(text) - 1]
        if not places:
            raise UsageError(
                "-i %s: expected NAME=FILE" % printable(text), hint="for example -i x=input.npy"
            )
        at = next((place for place in places if os.path.lexists(text[place + 1 :])), places[0])
        if text[:at] in files:
            raise UsageError("-i names %s twice" % printable(text[:at]))
        files[text[:at]] = text[at + 1 :]
    return files


def pair_inputs(
    original: OriginalModel,
    om_inputs: Sequence[OmInput],
    files: Mapping[str, str],
    shapes: Mapping[str, Shape],
) -> Paired:
    """Return which input of the model is which of the om, with the shapes of one run.

    Parameters
    ----------
    files
        By name of the model's input, or of the om's.
    shapes
        Those that the user tells, by either name, as the om has them.
    """
    done = Paired()
    couples = _couples(original, om_inputs, done)
    if couples is None:
        return done
    names = {name for model, om in couples for name in (model.name, om.name)}
    for option, named, wrong in (
        ("-i", list(files), done.problems),
        ("--shapes", list(shapes), done.wrong_shapes),
    ):
        for name in named:
            if name not in names:
                near = nearest_names(name, sorted(names))
                more = "; did you mean %s?" % printable(near[0]) if near else ""
                wrong.append(
                    "%s names %s, which is no input: they are %s%s"
                    % (option, printable(name), _listed(sorted(names)), more)
                )
    for model, om in couples:
        user_shape = shapes[om.name] if om.name in shapes else shapes.get(model.name)
        pair = _pair(original, model, om, user_shape, done)
        if pair is not None:
            file = files.get(model.name, files.get(om.name))
            pair = InputPair(**{**vars(pair), "file": file})
            done.pairs.append(pair)
            _check_file(pair, done)
    return done


def _couples(
    original: OriginalModel, om_inputs: Sequence[OmInput], done: Paired
) -> Optional[List[Tuple[ModelInput, OmInput]]]:
    theirs = {each.name: each for each in original.inputs}
    known = {om.name: theirs[om.name] for om in om_inputs if om.name in theirs}
    if len(known) == len(om_inputs):
        unused = [name for name in theirs if name not in known]
        if unused:
            done.problems.append(
                "the om has no input %s, which the model has: is it the om of this model?"
                % _listed(unused)
            )
            return None
        return [(known[om.name], om) for om in om_inputs]
    if len(theirs) != len(om_inputs):
        done.problems.append(
            "the model's inputs are %s, the om's are %s: is it the om of this model?"
            % (_listed(list(theirs)), _listed([om.name for om in om_inputs]))
        )
        return None
    rest = [each for each in original.inputs if each.name not in known]
    couples = []
    for om in om_inputs:
        model = known.get(om.name) or rest.pop(0)
        if om.name not in known:
            done.notes.append(
                "the om's input %s is taken for the model's %s, by its place"
                % (printable(om.name), printable(model.name))
            )
        couples.append((model, om))
    return couples


def _pair(
    original: OriginalModel,
    model: ModelInput,
    om: OmInput,
    user_shape: Optional[Shape],
    done: Paired,
) -> Optional[InputPair]:
    """Return the pair with its shapes; None, and a problem, where they do not go together."""
    where = "input %s" % printable(model.name)
    declared = "%s: the model has %s, the om %s %s" % (
        where,
        shown_model(model),
        om.dtype,
        list(om.shape),
    )
    if om.aipp:
        return _image_pair(original, model, om, user_shape, done)
    shape = tuple(om.shape if user_shape is None else user_shape)
    if user_shape is not None and not _fits(shape, [None if dim < 0 else dim for dim in om.shape]):
        done.wrong_shapes.append("%s; --shapes gives it %s" % (declared, list(shape)))
        return None
    if any(dim < 0 for dim in shape):
        done.problems.append(
            '%s: the om\'s shape %s is told when it runs: give --shapes "%s:…"'
            % (where, list(om.shape), om.name)
        )
        return None
    kinds = [BY_NAME[dtype].kind if dtype in BY_NAME else "?" for dtype in (model.dtype, om.dtype)]
    kinds = ["i" if kind == "u" else kind for kind in kinds]
    if (
        kinds[0] != kinds[1]
        or BY_NAME[om.dtype].storage is None
        or om.dtype == "bfloat16"
        or BY_NAME[om.dtype].bits < 8
    ):
        done.problems.append("%s: values of the one cannot be given to the other" % declared)
        return None
    notes = []
    order: Optional[Tuple[int, ...]] = None
    if model.shape is not None and not _fits(shape, model.shape):
        for axes, words in ((_TO_LAST, "NHWC for the om"), (_TO_FIRST, "NCHW for the om")):
            if len(shape) == 4 and _fits(_back(shape, axes), model.shape):
                order, notes = axes, [words]
                break
        else:
            done.problems.append(
                "%s: is it the om of this model, converted with another --input_shape?" % declared
            )
            return None
    if model.dtype != om.dtype:
        notes.append("%s for the om" % om.dtype)
    return InputPair(
        model, om, shape if order is None else _back(shape, order), shape, order, notes=tuple(notes)
    )


def _image_pair(
    original: OriginalModel,
    model: ModelInput,
    om: OmInput,
    user_shape: Optional[Shape],
    done: Paired,
) -> Optional[InputPair]:
    """Return the pair of an input that the om makes out of an image by itself."""
    where = "input %s" % printable(model.name)
    dims = list(model.shape or ())
    if user_shape is not None:
        dims = list(user_shape)
    if len(dims) == 4 and dims[0] is None:
        dims[0] = om.shape[0] if len(om.shape) == 4 and om.shape[0] > 0 else 1
    if len(dims) != 4 or any(dim is None or dim < 1 for dim in dims):
        done.problems.append(
            "%s: the om makes it of an image (AIPP), and the model does not tell its shape %s"
            % (where, shown_model(model))
        )
        return None
    shape = tuple(int(dim or 0) for dim in dims)
    last = original.channels_last and shape[3] in (1, 3) and shape[1] not in (1, 3)
    height, width, channels = shape[1:] if last else (shape[2], shape[3], shape[1])
    image = Preprocessing(om.aipp, height, width, channels)
    if image.unknown is not None or not image.image_bytes:
        done.problems.append(
            "%s: the om makes it of an image by %s: what golden data would need is not known; "
            "convert the model without "
            "insert_op_conf, or take the Aipp's own output from a dump (golden … -i %s=dump:FILE)"
            % (where, image.unknown or "an AIPP without a size", printable(model.name))
        )
        return None
    order = _TO_LAST if last else None
    notes = ("an image %s; golden data get what AIPP makes of it" % image,)
    return InputPair(model, om, shape, tuple(om.shape), order, image=image, notes=notes)


def _check_file(pair: InputPair, done: Paired) -> None:
    """Note as a problem what is wrong with the file of an input, as far as its size and header
    tell.
    """
    if pair.file is None:
        return
    where = "input %s: %s" % (printable(pair.model.name), printable(pair.file))
    try:
        array = read_values(pair)
    except (InputError, OSError) as error:
        done.problems.append(
            "%s" % error if str(error).startswith("input") else "%s: %s" % (where, error)
        )
        return
    del array


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
    except (ValueError, EOFError) as error:
        raise FormatError("%s: no .npy file: %s" % (where, error)) from None
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
            hint="a batch of another size is another run: convert the model for it, or give "
            "--shapes where it is dynamic",
        )
    return np.asarray(array)


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
        hint="a raw file is what the device gets, or has the model's type",
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


def write_inputs(pairs: Sequence[InputPair], folder: str, seed: int) -> List[str]:
    """Write the inputs of both sides; return what is to be said of them.

    Raises
    ------
    InputError
        A file cannot be used.
    """
    os.makedirs(folder, exist_ok=True)
    notes: List[str] = []
    for number, (pair, files) in enumerate(zip(pairs, input_files(pairs, folder))):
        values = read_values(pair) if pair.file is not None else random_values(pair, seed, number)
        golden, device = _both_sides(pair, values, notes)
        with atomic_writer(files.golden) as stream:
            np.save(stream, golden, allow_pickle=False)
        with atomic_writer(files.device) as stream:
            stream.write(device.tobytes())
    return notes


def _both_sides(
    pair: InputPair, values: np.ndarray, notes: List[str]
) -> Tuple[np.ndarray, np.ndarray]:
    """Return what golden data are made with, and what the device gets."""
    model = _numpy(pair.model.dtype)
    if pair.image is not None:
        made = np.stack([pair.image.make(image) for image in values.reshape(pair.images, -1)])
        # AIPP gives float16.
        made = made.astype(np.float16).astype(model)
        return (
            made if pair.order is None else np.ascontiguousarray(made.transpose(_TO_LAST))
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
                "warning: input %s: %d values are too large for %s (%g) and infinite on both sides"
                % (printable(pair.model.name), lost, om, _LARGEST_HALF)
            )
    turned = device if pair.order is None else np.ascontiguousarray(device.transpose(pair.order))
    return np.ascontiguousarray(golden), turned


def shown_model(value: ModelInput) -> str:
    """Return type and shape of a model's input, for people."""
    dims = (
        "of unknown rank"
        if value.shape is None
        else "[%s]" % ", ".join("?" if dim is None else str(dim) for dim in value.shape)
    )
    return "%s %s" % (value.dtype, dims)


def _fits(shape: Sequence[int], declared: Sequence[Optional[int]]) -> bool:
    return len(shape) == len(declared) and all(
        dim is None or dim == size for dim, size in zip(declared, shape)
    )


def _back(shape: Sequence[int], axes: Sequence[int]) -> Shape:
    """Return the shape that becomes ``shape`` when its axes are taken in this order."""
    shape_back = [0] * len(shape)
    for place, axis in enumerate(axes):
        shape_back[axis] = shape[place]
    return tuple(shape_back)


def _turned_back(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    return np.asarray(array).transpose(np.argsort(axes))


def _numpy(dtype: str) -> "np.dtype[np.generic]":
    return np.dtype("bool" if dtype == "bool" else BY_NAME[dtype].storage)


def _listed(names: Sequence[str]) -> str:
    return listed([printable(name) for name in names], 6) or "none"
