"""Finds shape, type and recorded values of the inputs of a cut, each with its source."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import numpy as np

from ...base.element_types import element_count
from ...base.errors import GoldwatchError, InputError, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ...dumps.dump_file import TensorInfo
from ...dumps.golden_set import GoldenEntry, GoldenSet
from ...dumps.npy import open_npy
from ...model.op_node import OpNode
from ...netfiles.onnx_ranks import fitted_to_dims
from ...tensors.dtypes import Array
from ...tensors.storage_layouts import layout_of, plain_shape
from .cut_definition import Cut, CutInput, Shape
from .device_ops import DeviceOps
from .dumps_by_op import DumpsByOp, input_that_came_in, recorded_array, recorded_shape
from .node_graph import Value
from .read_original import Output

if TYPE_CHECKING:
    from ...dumps.slices import AnyDump

TARGET, GOLDEN, USER = "target", "golden", "user"
_INTEGERS = "iub"
_WIDER = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}
T = TypeVar("T")


class UnknownShape(InputError):
    """The shape of an input is unknown (exit code 4)."""

    kind = "unknown_shape"


@dataclass(frozen=True)
class Border:
    """One input of a cut with shape, type and values.

    Attributes
    ----------
    entry
        The input.
    shape, shape_source
        Its original shape, and the source of that.
    dtype
        As numpy calls it.
    array
        The recorded values in that shape and type; None if there are none.
    origin
        ``target``, ``golden`` or ``user``; None without values.
    source_file
        The file of the values; None without.
    """

    entry: CutInput
    shape: Shape
    shape_source: str
    dtype: str
    array: Optional[Array] = None
    origin: Optional[str] = None
    source_file: Optional[str] = None


@dataclass(frozen=True)
class _Recorded:
    """A tensor in a dump file that holds the value of a border, the layout of the original, and its
    shape where the border has another.
    """

    file: AnyDump
    info: TensorInfo
    layout: Optional[str]
    other_shape: Optional[Shape] = None


class Borders:
    """Looks up borders in all sources: golden data, the om json, the dumps, user input, the model.

    Parameters
    ----------
    own_shapes
        Shapes that the model gives to its inputs.
    ops, dumps, golden
        None where not given.
    files, shapes
        By name of the new input, blob, tensor or producer: a ``.npy`` file with the values, a
        shape.
    default_dtype
        The type of inputs that neither the original nor a recording declares as integer; empty:
        none.
    dims
        The model's shape of a tensor, as far as known: a device may hold it with more axes of size
        1.
    """

    def __init__(
        self,
        own_shapes: Mapping[Value, Shape],
        ops: Optional[DeviceOps],
        dumps: Optional[DumpsByOp],
        golden: Optional[GoldenSet],
        files: Mapping[str, str],
        shapes: Mapping[str, Shape],
        default_dtype: str,
        dims: Callable[[str], Optional[Sequence[Optional[int]]]] = lambda tensor: None,
    ) -> None:
        self._dims = dims
        self._default_dtype = default_dtype
        self._shapes_in_original = own_shapes
        self._ops = ops
        self._dumps = dumps
        self._golden = golden
        self._files = files
        self._shapes = shapes
        self._opened: Dict[str, Optional[AnyDump]] = {}

    def of(self, cut: Cut, prefer: str) -> List[Border]:
        """Return the borders of a cut, in the order of its inputs.

        Parameters
        ----------
        prefer
            ``target`` or ``golden``: whose values to use if both have them.

        Raises
        ------
        UsageError
            A file or shape is given for something that is not an input.
        InputError
            The shape or type of an input is unknown, or two sources disagree about it; a file
            cannot be read.
        """
        self._refuse_unknown_names(cut)
        return [self._border(entry, prefer) for entry in cut.inputs]

    def dtype_and_shape_of(
        self, tensor: str, value: Value, op: str, dtype: str
    ) -> Tuple[str, Optional[Shape]]:
        """Return type (empty: unknown) and shape (None: unknown) of a value of the model that is
        not an input.
        """
        entry = CutInput(tensor, tensor, op, value[1], value, "", (), dtype)
        golden = self._golden_tensor(entry)
        known_dtype = (
            "" if golden is None or self._golden is None else self._golden.tensor(golden).dtype.name
        )
        return dtype or known_dtype, next(
            (shape for shape, _ in self._known_shapes(entry, [])), None
        )

    def _refuse_unknown_names(self, cut: Cut) -> None:
        known = {name for entry in cut.inputs for name in _names(entry)}
        for name in [*self._files, *self._shapes]:
            if name not in known:
                inputs = ", ".join(
                    "%s (%s)" % (printable(entry.name), printable(entry.tensor))
                    for entry in cut.inputs
                )
                raise UsageError(
                    "%s is no input of this cut" % printable(name),
                    hint="its inputs are: %s" % (inputs or "none"),
                )

    def _border(self, entry: CutInput, prefer: str) -> Border:
        recorded = list(self._recorded(entry))
        shape, source = self._shape(entry, recorded)
        golden = self._golden_tensor(entry)
        dtype = self._dtype(entry, recorded)
        own_file = _entry_of(self._files, entry)
        ways = [
            (USER, own_file is not None),
            (TARGET, bool(recorded)),
            (GOLDEN, golden is not None),
        ]
        if prefer == GOLDEN:
            ways = [ways[0], ways[2], ways[1]]
        origin = next((name for name, there in ways if there), None)
        array: Optional[Array] = None
        file: Optional[str] = None
        if origin == USER:
            assert own_file is not None
            file, array = own_file, _of_shape(open_npy(own_file).array(), shape, own_file)
        elif origin == TARGET:
            held = [
                each
                for each, source in self._stated_shapes(entry, recorded)
                if source in ("om", "dump")
            ]
            as_held = next(
                (each for each in held if fitted_to_dims(each, self._dims(entry.tensor)) == shape),
                shape,
            )
            file, array = (
                recorded[0].file.path,
                self._target_array(entry, recorded[0], as_held, shape),
            )
        elif origin == GOLDEN and golden is not None and self._golden is not None:
            file, array = (
                golden.path,
                _of_shape(self._golden.tensor(golden).array(), shape, golden.path),
            )
        return Border(
            entry,
            shape,
            source,
            dtype,
            None if array is None else _as_dtype(array, dtype),
            origin,
            file,
        )

    def _target_array(
        self, entry: CutInput, recorded: _Recorded, as_held: Shape, shape: Shape
    ) -> Array:
        try:
            array = recorded_array(
                recorded.file.tensor(recorded.info.kind, recorded.info.index),
                recorded.other_shape or as_held,
                recorded.layout,
            )
            if array.size != element_count(shape):
                raise InputError(
                    "%d elements are recorded, the shape %s has %d"
                    % (array.size, list(shape), element_count(shape))
                )
            return array.reshape(shape)
        except GoldwatchError as error:
            where = "%s: %s %d, which holds %s" % (
                recorded.file.path,
                recorded.info.kind,
                recorded.info.index,
                printable(entry.tensor),
            )
            message = "%s: %s" % (where, error.message)
            raise InputError(
                message, hint="is it the dump of this model? golden data can give the input instead"
            ) from error

    def _recorded(self, entry: CutInput) -> Iterator[_Recorded]:
        """Yield the tensors of the dump that hold an input's value, best first: inputs of its
        readers, then the output of its producer.
        """
        if self._dumps is None:
            return
        if self._ops is None:
            for reader, place in entry.readers:
                yield from self._in_file(reader, None, "input", place)
            yield from self._in_file(entry.producer, None, "output", entry.output_index)
            return
        value = (entry.producer, entry.output_index)
        for each in dict.fromkeys([value, self._ops.held_value(value)]):
            for op, index in self._takers(entry, each):
                yield from self._in_file(op.name, op, "input", index, each != value)
            for op, index in self._ops.makers(each):
                yield from self._in_file(op.name, op, "output", index, each != value)

    def _takers(self, entry: CutInput, value: Output) -> Iterator[Tuple[OpNode, int]]:
        """Yield the inputs with which the readers of an input read a value."""
        if self._ops is not None:
            for number in [
                number
                for reader, _ in entry.readers
                for number in self._ops.original.numbers(reader)
            ]:
                yield from self._ops.takers(number, value)

    def _in_file(
        self, name: str, op: Optional[OpNode], kind: str, index: int, other: bool = False
    ) -> Iterator[_Recorded]:
        """Yield a tensor of the file of the op of this name, where it is there and usable."""
        assert self._dumps is not None
        if name not in self._opened:
            self._opened[name] = self._dumps.dump(name, "" if op is None else op.type)[0]
        file = self._opened[name]
        if file is None:
            return
        if kind == "input":
            info = input_that_came_in(file, op, index)
        else:
            info = (
                file.outputs[index]
                if index < len(file.outputs) and file.outputs[index].problem is None
                else None
            )
        if info is None:
            return
        descs = [] if op is None else op.input_descs if kind == "input" else op.output_descs
        desc = descs[index] if index < len(descs) else None
        layout = None if desc is None else desc.origin_format
        shape = None if desc is None or not other else desc.origin_shape or recorded_shape(info)
        if shape is not None or not other:
            yield _Recorded(file, info, layout, shape)

    def _golden_tensor(self, entry: CutInput) -> Optional[GoldenEntry]:
        return (
            None if self._golden is None else self._golden.find(entry.producer, entry.output_index)
        )

    def _shape(self, entry: CutInput, recorded: List[_Recorded]) -> Tuple[Shape, str]:
        known = list(self._known_shapes(entry, recorded))
        if not known:
            blocked = next((record.info for record in recorded if record.other_shape is None), None)
            device = "" if blocked is None else ("; the device's shape %s %s alone is not "
                "enough, it counts padding") % (
                blocked.format, list(blocked.shape))  # fmt: skip
            raise UnknownShape(
                "the shape of input %s (%s) is unknown%s"
                % (printable(entry.name), printable(entry.tensor), device),
                hint="golden data, the om json or a dump tell it, or you do (%s)"
                % self._example(entry, recorded),
            )
        shape, source = known[0]
        for other, where in known[1:]:
            if other != shape:
                message = "the shape of input %s (%s): %s says %s, %s says %s"
                raise InputError(
                    message
                    % (
                        printable(entry.name),
                        printable(entry.tensor),
                        source,
                        list(shape),
                        where,
                        list(other),
                    ),
                    hint="they are of different runs or models: give those that belong together",
                )
        return shape, source

    def _example(self, entry: CutInput, recorded: List[_Recorded]) -> str:
        """Return ``NAME=SHAPE`` for a hint: as the device has it (perhaps padded) where it has as
        many axes, else of that many axes.
        """
        value = (entry.producer, entry.output_index)
        descs = (
            []
            if self._ops is None
            else [
                op.input_descs[index]
                for op, index in self._takers(entry, self._ops.held_value(value))
            ]
        )
        shapes = [
            desc.origin_shape or plain_shape(desc.layout or "ND", desc.shape) for desc in descs
        ]
        shapes += [plain_shape(each.info.format, each.info.shape) for each in recorded]
        dims = self._dims(entry.tensor)
        fitting = [
            shape
            for shape in shapes
            if shape and min(shape) >= 0 and (dims is None or len(shape) == len(dims))
        ]
        shape = fitting[0] if fitting else [dim or 1 for dim in dims or (1, 64, 56, 56)]
        return "%s=%s" % (printable(entry.tensor), ",".join(map(str, shape)))

    def _known_shapes(
        self, entry: CutInput, recorded: List[_Recorded]
    ) -> Iterator[Tuple[Shape, str]]:
        """Yield every known shape; the model's own only if there is no other, or for an unchanged
        input."""
        any_known = False
        for shape, source in self._stated_shapes(entry, recorded):
            any_known = True
            yield fitted_to_dims([int(dim) for dim in shape], self._dims(entry.tensor)), source
        if entry.value in self._shapes_in_original and (entry.unchanged or not any_known):
            yield self._shapes_in_original[entry.value], "model"

    def _stated_shapes(
        self, entry: CutInput, recorded: List[_Recorded]
    ) -> Iterator[Tuple[Shape, str]]:
        user_shape = _entry_of(self._shapes, entry)
        if user_shape is not None:
            yield user_shape, USER
        own_file = _entry_of(self._files, entry)
        if own_file is not None:
            yield open_npy(own_file).shape, own_file
        golden = self._golden_tensor(entry)
        if golden is not None and self._golden is not None:
            yield self._golden.tensor(golden).shape, "golden"
        if self._ops is not None:
            for op, index in self._ops.makers((entry.producer, entry.output_index)):
                desc = op.output_descs[index]
                shape = desc.origin_shape
                layout = layout_of(desc.layout, desc.shape)
                if (
                    shape is None
                    and layout is not None
                    and not layout.blocks
                    and desc.origin_format in (None, desc.layout)
                ):
                    shape = desc.shape
                if shape is not None and min(shape, default=0) >= 0:
                    yield shape, "om"
                    break
        for each in recorded:
            shape = recorded_shape(each.info)
            if shape is not None and each.other_shape is None:
                yield shape, "dump"
                break

    def _dtype(self, entry: CutInput, recorded: List[_Recorded]) -> str:
        """Return an input's type: as the original defines it, which golden data must agree with;
        else as it was recorded or given.
        """
        golden = self._golden_tensor(entry)
        dtype = (
            "" if golden is None or self._golden is None else self._golden.tensor(golden).dtype.name
        )
        if entry.dtype:
            if dtype and _is_numpy(entry.dtype) and dtype != entry.dtype:
                message = "the type of input %s (%s): the model says %s, golden %s"
                text = message % (
                    printable(entry.name),
                    printable(entry.tensor),
                    entry.dtype,
                    dtype,
                )
                raise InputError(text, hint="is the golden data of this model?")
            return entry.dtype
        if self._default_dtype:
            # Caffe computes in float32; a device may hold labels and indices as integers.
            names = [
                name for name in [dtype] + [each.info.dtype.name for each in recorded[:1]] if name
            ]
            return next(
                (name for name in names if _is_numpy(name) and np.dtype(name).kind in _INTEGERS),
                self._default_dtype,
            )
        own_file = _entry_of(self._files, entry)
        if not dtype and own_file is not None:
            dtype = open_npy(own_file).dtype.name
        if not dtype:
            message = (
                "the type of input %s is unknown: no table knows what an op like that of %s gives "
                "out"
            )
            hint = "golden data tell it, or a file of its values that you give"
            raise InputError(
                message % (printable(entry.name), printable(entry.producer)), hint=hint
            )
        return dtype


def _names(entry: CutInput) -> Tuple[str, ...]:
    return (
        (entry.name, entry.tensor, entry.producer)
        if not entry.output_index
        else (entry.name, entry.tensor)
    )


def _entry_of(table: Mapping[str, T], entry: CutInput) -> Optional[T]:
    return next((table[name] for name in _names(entry) if name in table), None)


def _is_numpy(name: str) -> bool:
    try:
        return np.dtype(name).kind in "fiubc"
    except TypeError:
        return False


def _of_shape(array: Array, shape: Shape, path: str) -> Array:
    if array.shape != shape:
        message = "%s has the shape %s, the input %s"
        raise InputError(
            message % (path, list(array.shape), list(shape)),
            hint="is it of another model or batch?",
        )
    return array


def _as_dtype(array: Array, dtype: str) -> Array:
    """Return values in a type; of types that numpy does not have in one that holds each exactly:
    int8 of int4, float32 of bfloat16.
    """
    return np.ascontiguousarray(
        array, np.dtype(dtype) if _is_numpy(dtype) else _WIDER.get(dtype, "float32")
    ).reshape(array.shape)
