"""Which input of the model is which of the om, with the shapes and the file of each in one run."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import field
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ...base.element_types import BY_NAME, element_count
from ...base.errors import InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import nearest_names, printable
from ...base.notes import Note, note
from ...base.wording import listed
from ...model.om_interface import OmInput
from ...operators.aipp import Preprocessing
from .input_values import read_values
from .original_model import ModelInput, OriginalModel
from .shape_combinations import Shape

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


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


_CONVERT = (
    "the om runs that shape if the model is converted for it, with --input_shape=%s; this one runs "
    "%s"
)


@dataclass
class Paired:
    """All inputs of a run, in the om's order, and why some of them do not go together; of what is
    wrong, ``wrong_shapes`` are those that the user gave; ``hints`` says by it what to do.
    """

    pairs: List[InputPair] = field(default_factory=list)
    problems: List[str] = field(default_factory=list)
    wrong_shapes: List[str] = field(default_factory=list)
    notes: List[Note] = field(default_factory=list)
    hints: Dict[str, str] = field(default_factory=dict)


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
    couples = couple_inputs(original, om_inputs, files, done)
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


def couple_inputs(
    original: OriginalModel,
    om_inputs: Sequence[OmInput],
    files: Mapping[str, str],
    done: Paired,
) -> Optional[List[Tuple[ModelInput, OmInput]]]:
    """Return each input of the om with that of the model: by its name, by a file that the user
    gives to both names, else by type and shape where these leave no other; None, and a problem,
    where that is not known.
    """
    theirs = {each.name: each for each in original.inputs}
    known = {om.name: theirs[om.name] for om in om_inputs if om.name in theirs}
    rest = [each for each in original.inputs if each.name not in known]
    unknown = [om for om in om_inputs if om.name not in known]
    if rest and not unknown:
        done.problems.append(
            "the om has no input %s, which the model has: is it the om of this model?"
            % _listed([each.name for each in rest])
        )
        return None
    if len(rest) != len(unknown):
        done.problems.append(
            "the model's inputs are %s, the om's are %s: is it the om of this model?"
            % (_listed(list(theirs)), _listed([om.name for om in om_inputs]))
        )
        return None
    for om in unknown:
        same = [
            each
            for each in rest
            if om.name in files and _is_same_file(files.get(each.name), files[om.name])
        ]
        if len(same) == 1:
            known[om.name] = same[0]
            rest.remove(same[0])
    for om in [om for om in unknown if om.name not in known]:
        # A framework's own name may stand within the om's: serving_default_ids of ids.
        named = [each for each in rest if _is_word_of(each.name, om.name)]
        fitting = [each for each in rest if len(rest) == 1 or _may_be(original, each, om)]
        alike = [
            other
            for other in unknown
            if other.name not in known and fitting and _may_be(original, fitting[0], other)
        ]
        if len(named) == 1:
            known[om.name] = named[0]
            rest.remove(named[0])
        elif len(fitting) == 1 and (len(rest) == 1 or len(alike) == 1):
            known[om.name] = fitting[0]
            rest.remove(fitting[0])
            taken = printable(om.name), printable(fitting[0].name)
            done.notes.append(note("input-by-shape", *taken))
        else:
            done.problems.append(
                "the om's input %s (%s %s) %s, of the model's %s%s"
                % (
                    printable(om.name),
                    om.dtype,
                    list(om.shape),
                    "may be any" if fitting else "fits none",
                    _listed(
                        ["%s (%s)" % (each.name, shown_model(each)) for each in fitting or rest]
                    ),
                    "; give its file by both names: -i %s=FILE -i MODEL_INPUT=FILE"
                    % printable(om.name)
                    if fitting
                    else "",
                )
            )
    return None if done.problems else [(known[om.name], om) for om in om_inputs]


def _is_same_file(one: Optional[str], other: str) -> bool:
    return one is not None and os.path.realpath(one) == os.path.realpath(other)


def _is_word_of(one: str, other: str) -> bool:
    """Tell whether the one name stands in the other as a word: ``ids`` in ``serving_default_ids``,
    but ``a`` not in ``Placeholder``.
    """
    return any(
        re.search("(?<![A-Za-z0-9])%s(?![A-Za-z0-9])" % re.escape(part), whole) is not None
        for part, whole in ((one, other), (other, one))
        if part
    )


def _may_be(original: OriginalModel, model: ModelInput, om: OmInput) -> bool:
    """Return whether an input of the om has a type and shape that the model's may have."""
    done = Paired()
    shape = tuple(
        dim if dim >= 0 or model.shape is None or len(model.shape) != len(om.shape) else known or 1
        for dim, known in zip(om.shape, model.shape or om.shape)
    )
    return _pair(original, model, om, shape, done) is not None


def fitting_orders(shape: Shape, declared: Sequence[int]) -> List[Shape]:
    """Return a shape in those orders of its axes that fit the om's: as it is, NHWC for NCHW and the
    reverse.
    """
    orders = [shape]
    if len(shape) == 4:
        orders += [tuple(shape[axis] for axis in axes) for axes in (_TO_LAST, _TO_FIRST)]
    open_dims = [None if dim < 0 else dim for dim in declared]
    return [order for order in dict.fromkeys(orders) if _fits(order, open_dims)]


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
        problem = "%s; --shapes or its file gives it %s, which does not fit"
        done.wrong_shapes.append(problem % (declared, list(shape)))
        done.hints[done.wrong_shapes[-1]] = _CONVERT % (
            _shape_option(om.name, shape),
            list(om.shape),
        )
        return None
    if any(dim < 0 for dim in shape):
        done.problems.append(
            "%s: the om's shape %s is told when it runs: give an .npy of that shape with -i, or "
            '--shapes "%s:…"' % (where, list(om.shape), om.name)
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
            dims = [size if known is None else known for known, size in zip(model.shape, shape)]
            if len(model.shape) == len(shape):
                done.hints[done.problems[-1]] = "the model takes --input_shape=%s" % (
                    _shape_option(om.name, dims)
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
    try:
        read_values(pair)
    except InputError as error:
        done.problems.append(error.message)
        if error.hint:
            done.hints[error.message] = error.hint


def shown_model(value: ModelInput) -> str:
    """Return type and shape of a model's input, for people."""
    dims = (
        "of unknown rank"
        if value.shape is None
        else "[%s]" % ", ".join("?" if dim is None else str(dim) for dim in value.shape)
    )
    return "%s %s" % (value.dtype, dims)


def _shape_option(name: str, shape: Sequence[int]) -> str:
    """Return an input's shape as the value of atc's --input_shape."""
    return shlex.quote("%s:%s" % (name, ",".join(map(str, shape))))


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


def _listed(names: Sequence[str]) -> str:
    return listed([printable(name) for name in names], 6) or "none"
