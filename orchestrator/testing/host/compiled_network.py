"""A network compiled and run as a device would: float16 storage, float32 inside of an op, layouts,
fused and inserted ops.
"""

from __future__ import annotations

from functools import partial
from typing import (
    Any,
    Collection,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from ...base.fast_dataclasses import dataclass
from ...operators import CannotCompute
from ...recomputing.recomputed_output import NotComputable
from ..device_model import DeviceModel, DeviceOp, DeviceTensor
from ..node_arithmetic import NodeArithmetic
from ..op_faults import KINDS, OpFault
from .aipp import Aipp
from .ir_types import (
    ACTIVATED,
    ACTIVATING,
    CONVOLUTIONS,
    FIVE,
    FRACTAL,
    KEEPS_FIVE,
    NORMALISING,
    SUMMING,
    VANISHING,
    VIEWS,
    ir_type,
)
from .original_network import OriginalNetwork, Value
from .precision_options import HALF, SINGLE, AtcError, Build

Array = Any
Source = Tuple[str, int]


@dataclass(frozen=True)
class Group:
    """Nodes that are one op on the device: a first one, and what is fused with it."""

    numbers: Tuple[int, ...]
    name: str
    type: str


class NetworkRun(NamedTuple):
    """A run: the ops with their tensors, and the outputs as the om hands them out, each with its
    name.
    """

    model: DeviceModel
    outputs: List[Tuple[str, Array]]


class CompiledNetwork:
    """Runs one network.

    Parameters
    ----------
    network, build
        What is run, and how it was compiled.
    name
        Of the model.
    op_faults
        Op or original name to what it computes wrong.
    halves
        The inputs that are given in float16.
    suffix
        Behind the name of every op: of a gear.
    aipps
        By input what makes it of images.
    arithmetic
        What computes its nodes.
    """

    def __init__(
        self,
        network: OriginalNetwork,
        build: Build,
        name: str,
        op_faults: Optional[Mapping[str, OpFault]] = None,
        halves: Sequence[str] = (),
        suffix: str = "",
        aipps: Optional[Mapping[str, Aipp]] = None,
        arithmetic: Optional[NodeArithmetic] = None,
    ) -> None:
        self.arithmetic = arithmetic or NodeArithmetic()
        self.network, self.build, self.name, self.suffix = network, build, name, suffix
        self._faults = dict(op_faults or {})
        self._halves = set(halves)
        self.aipps = dict(aipps or {})
        self.input_names = {entry.value: entry.name for entry in network.inputs}
        vanished: Dict[Value, Value] = {}
        for number in self.network.order:
            if self.network.type(number) in VANISHING and not self.network.is_constant(number):
                sources = self.network.original.graph.sources[number]
                if sources and sources[0][0] != -2:
                    vanished[number, 0] = sources[0]
        self._aliases = vanished
        self.groups = list(self._grouped())

    def input_dtype(self, name: str, dtype: str) -> str:
        """Return the type in which an input is given."""
        return HALF if name in self._halves and dtype == SINGLE else dtype

    def run(
        self, feeds: Mapping[str, Array], shapes: Optional[Mapping[str, Tuple[int, ...]]] = None
    ) -> NetworkRun:
        """Run it.

        Parameters
        ----------
        feeds
            By input, each of its shape; of images their bytes.
        shapes
            Of the inputs that are made of images.

        Raises
        ------
        AtcError
            An op is not supported.
        """
        return _Running(self, feeds, shapes or {}).ran()

    def base(self, value: Value) -> Value:
        """Return the value whose op is left of a value that vanished."""
        while value in self._aliases:
            value = self._aliases[value]
        return value

    def fault_of(self, group: Group) -> Optional[OpFault]:
        """Return what is wrong in an op."""
        names = [group.name] + [self.network.name(number) for number in group.numbers]
        return next((self._faults[name] for name in names if name in self._faults), None)

    def _grouped(self) -> Iterator[Group]:
        """Yield the ops in the order in which they run."""
        network, build = self.network, self.build
        taken: Set[int] = set()
        order = [
            number
            for number in network.order
            if not network.is_constant(number) and (number, 0) not in self._aliases
        ]
        readers = self._readers(order)
        kept = {self.base(value) for value in network.outputs}

        def only_reader(number: int, kinds: Collection[str]) -> Optional[int]:
            if (number, 0) in kept:
                return None
            reader = self._only_reader(number, readers)
            return (
                None
                if reader is None or reader in taken or network.type(reader) not in kinds
                else reader
            )

        groups = []
        for number in order:
            if number in taken:
                continue
            members, name = [number], network.name(number)
            kind = network.type(number)
            while build.fold and kind in CONVOLUTIONS:
                reader = only_reader(members[-1], NORMALISING)
                if reader is None:
                    break
                members.append(reader)
            last = (
                only_reader(members[-1], ACTIVATING) if build.fuse and kind in ACTIVATED else None
            )
            if last is not None:
                members.append(last)
                name += network.name(last)
            taken.update(members)
            groups.append(Group(tuple(members), name + self.suffix, ir_type(network.dialect, kind)))
        places = {number: place for place, number in enumerate(network.order)}
        yield from sorted(groups, key=lambda group: places[group.numbers[-1]])

    def _readers(self, order: Sequence[int]) -> Dict[Value, List[int]]:
        readers: Dict[Value, List[int]] = {}
        for number in order:
            for value in dict.fromkeys(self._data(number)):
                readers.setdefault(value, []).append(number)
        return readers

    def _only_reader(self, number: int, readers: Mapping[Value, Sequence[int]]) -> Optional[int]:
        """Return the only node that reads a node's first output, if that is the node's first input
        and all others are constants.
        """
        value = (number, 0)
        numbers = readers.get(value, ())
        if len(numbers) != 1:
            return None
        data = self._data(numbers[0])
        others = [
            other
            for other in data
            if other != value and other[0] != -2 and not self.network.is_constant(other[0])
        ]
        return numbers[0] if not others and data[0] == value else None

    def _data(self, number: int) -> List[Value]:
        """Return what a node reads, as values of the device."""
        return [self.base(value) for value in self.network.original.graph.sources[number]]


class _Running:
    """One run."""

    def __init__(
        self,
        compiled: CompiledNetwork,
        feeds: Mapping[str, Array],
        shapes: Mapping[str, Tuple[int, ...]],
    ) -> None:
        self.shapes = shapes
        self.compiled, self.network, self.build = compiled, compiled.network, compiled.build
        self.model = DeviceModel(compiled.name)
        self.feeds = feeds
        self.known: Dict[Value, Array] = {}
        self.home: Dict[Value, Source] = {}
        self.versions: Dict[Tuple[Value, str, str], Source] = {}
        self.constants: Dict[Value, Array] = {}
        self.inserted = 0

    def ran(self) -> NetworkRun:
        for place, entry in enumerate(self.network.inputs):
            if entry.name in self.compiled.aipps:
                self._add_image(entry, place)
                continue
            array = np.asarray(self.feeds[entry.name]).astype(
                self.compiled.input_dtype(entry.name, entry.dtype)
            )
            tensor = self._tensor(array, "ND", entry.name, 0)
            self.model.add(DeviceOp(entry.name, "Data", (), (tensor,), attributes={"index": place}))
            self.known[entry.value], self.home[entry.value] = array, (entry.name, 0)
        last = {group.numbers[-1]: group for group in self.compiled.groups}
        for number in self.network.order:
            if self.network.is_constant(number):
                self._fold(number)
            elif number in last:
                self._add(last[number])
        outputs, results = [], []
        for value in self.network.outputs:
            base = self.compiled.base(value)
            name = (
                "%s:%d" % (self.network.name(value[0]), value[1])
                if value[0] >= 0
                else self.compiled.input_names[value]
            )
            if base in self.constants:
                outputs.append((name, self.constants[base]))
                continue
            dtype = SINGLE if self.known[base].dtype.kind == "f" else str(self.known[base].dtype)
            source = self._obtain(base, "ND", dtype)
            outputs.append((name, self.model.output(*source).array))
            results.append(source)
        self.model.add(DeviceOp("Node_Output", "NetOutput", tuple(results), (), originals=()))
        return NetworkRun(self.model, outputs)

    def _add_image(self, entry: Any, place: int) -> None:
        """Add the Data of an image, and the Aipp that makes the input of it."""
        aipp, shape = self.compiled.aipps[entry.name], self.shapes[entry.name]
        data = np.asarray(self.feeds[entry.name], np.uint8).reshape(-1)
        image = aipp.image_shape(shape)
        # YUV420SP has fewer bytes than the shape that the om tells.
        kept = (
            data.reshape(image) if data.size == int(np.prod(image)) else np.zeros(image, np.uint8)
        )
        tensor = DeviceTensor(kept, "NHWC", "NHWC", entry.name)
        self.model.add(
            DeviceOp(
                entry.name,
                "Data",
                (),
                (tensor,),
                attributes={"index": place, "aipp": aipp.attribute()},
            )
        )
        made = _half(aipp.values(data, shape))
        name = "aipp_%d" % place
        self.model.add(
            DeviceOp(
                name,
                "Aipp",
                ((entry.name, 0),),
                (self._tensor(made, "NC1HWC0", entry.name, 0),),
                originals=(),
            )
        )
        self.known[entry.value], self.home[entry.value] = made, (name, 0)

    def _tensor(self, array: Array, layout: str, origin: Optional[str], index: int) -> DeviceTensor:
        original = "ND" if layout == "FRACTAL_NZ" else self.network.layout(array.ndim)
        return DeviceTensor(array, original if layout == "ND" else layout, original, origin, index)

    def _fold(self, number: int) -> None:
        """Compute what the compiler knows."""
        call = self._call(number)
        if call.constant is not None:
            self.constants[number, 0] = np.asarray(call.constant)
            return
        inputs = [self._value(argument) for argument in call.arguments]
        for index, value in enumerate(self._compute(call.node, inputs)):
            self.constants[number, index] = value

    def _made(
        self, group: Group, given: Mapping[Value, Array], reads: str, fault: Optional[OpFault]
    ) -> List[Array]:
        """Return what an op makes of its inputs, wrongly with a fault."""
        made, inside = [], dict(given)
        for number in group.numbers:
            call = self._call(number)
            inputs = [self._held(number, argument, inside, reads) for argument in call.arguments]
            node = call.node
            if fault is not None:
                node, inputs = fault.changed(node, inputs)
            made = self._compute(node, inputs)
            if fault is not None:
                made = fault.after(call.node, inputs, made, self._compute)
            inside.update({(number, index): array for index, array in enumerate(made)})
        return made if fault is None else fault.outputs(made)

    def _call(self, number: int) -> Any:
        try:
            return self.network.call(number)
        except NotComputable as error:
            raise AtcError(
                "E19010",
                "No parser is registered for Op [%s]. %s" % (self.network.name(number), error),
            ) from None

    def _compute(self, node: Any, inputs: Sequence[Any]) -> List[Array]:
        try:
            return self.compiled.arithmetic.compute(node, inputs)
        except CannotCompute as error:
            text = "No parser is registered for Op [%s, optype [%s]]. %s" % (
                node.name,
                node.type,
                error,
            )
            raise AtcError("E19010", text) from None

    def _value(self, argument: Any) -> Any:
        if argument is None or not isinstance(argument, tuple):
            return None if argument is None else np.asarray(argument)
        base = self.compiled.base(argument)
        return self.constants[base] if base in self.constants else self.known[base]

    def _add(self, group: Group) -> None:
        head = self._call(group.numbers[0])
        names = tuple(self.network.name(number) for number in group.numbers)
        kind = self._refined(group, head)
        reads, writes = self.build.types(
            kind, names, self.network.type(group.numbers[0]) in SUMMING
        )
        data = self._data(group)
        layout = self._layout(kind, data)
        sources, inside = [], {}
        for value in data:
            floating = self.known[value].dtype.kind == "f"
            here = "ND" if self.known[value].dtype.kind != "f" else layout
            if kind == "FullyConnection" and self.known[value].ndim == 4:
                here = self._home_layout(value)
            source = self._obtain(value, here, reads if floating else str(self.known[value].dtype))
            sources.append(source)
            inside[value] = self.model.output(*source).array
        fault = self.compiled.fault_of(group)
        if fault is not None and fault.kind == "coarse":
            # Undone where float32 or high precision is asked for.
            precise = writes != HALF or self.build.is_precise(kind, names)
            fault = None if precise else fault
        made = self._made(group, inside, reads, None)
        if fault is not None:
            right, made = made, self._made(group, inside, reads, fault)
            if all(
                _is_same(*map(partial(_stored, dtype=writes), pair)) for pair in zip(right, made)
            ):
                raise AtcError(
                    "E19999",
                    "the fault %s of the host changes nothing of %s (%s) with this input: %s"
                    % (fault.kind, group.name, kind, KINDS[fault.kind]),
                )
        consts = self._constants(group, reads) if not self._is_view(group) else []
        outputs = tuple(
            self._output(array, writes, layout, names[-1], index)
            for index, array in enumerate(made)
        )
        attributes = {"_no_task": True} if self._is_view(group) else {}
        self.model.add(
            DeviceOp(
                group.name, kind, tuple(sources + consts), outputs, names, attributes=attributes
            )
        )
        for index, tensor in enumerate(outputs):
            self.known[group.numbers[-1], index] = tensor.array
            self.home[group.numbers[-1], index] = (group.name, index)

    def _is_view(self, group: Group) -> bool:
        return self.network.type(group.numbers[0]) in VIEWS

    def _data(self, group: Group) -> List[Value]:
        """Return the values that come in from other ops, each once."""
        values: Dict[Value, None] = {}
        for number in group.numbers:
            for argument in self._call(number).arguments:
                base = self.compiled.base(argument) if isinstance(argument, tuple) else None
                if base is not None and base[0] not in group.numbers and base not in self.constants:
                    values[base] = None
        return list(values)

    def _held(self, number: int, argument: Any, inside: Mapping[Value, Array], dtype: str) -> Any:
        """Return an input of a node inside of an op; constants are rounded to the type that the op
        reads.
        """
        if isinstance(argument, tuple):
            base = self.compiled.base(argument)
            if base in inside:
                return inside[base]
        array = self._value(argument)
        if (
            array is None
            or array.dtype.kind != "f"
            or dtype != HALF
            or self.network.type(number) in NORMALISING
        ):
            return array
        return _half(array).astype(np.float32)

    def _constants(self, group: Group, dtype: str) -> List[Source]:
        """Add the constants that an op reads as tensors: those of floats that are more than one
        number.
        """
        number = group.numbers[0]
        sources: List[Source] = []
        for place, argument in enumerate(self._call(number).arguments):
            constant = (
                not isinstance(argument, tuple) or self.compiled.base(argument) in self.constants
            )
            array = self._value(argument) if argument is not None and constant else None
            if array is None or array.dtype.kind != "f" or array.size < 2:
                continue
            name = self.network.constant_name(number, place) + self.compiled.suffix
            if not any(op.name == name for op in self.model.ops):
                kept = (
                    _half(array)
                    if dtype == HALF and self.network.type(number) not in NORMALISING
                    else array.astype(np.float32)
                )
                self.model.add(DeviceOp(name, "Const", (), (self._tensor(kept, "ND", None, 0),)))
            sources.append((name, 0))
        return sources

    def _layout(self, kind: str, data: Sequence[Value]) -> str:
        arrays = [self.known[value] for value in data]
        if not arrays or any(array.dtype.kind != "f" for array in arrays):
            return "ND"
        if kind in FIVE:
            return "NC1HWC0" if all(array.ndim == 4 for array in arrays) else "ND"
        if kind in FRACTAL:
            return "FRACTAL_NZ" if all(array.ndim >= 2 for array in arrays) else "ND"
        if kind in KEEPS_FIVE and all(
            array.ndim == 4 and self._home_layout(value) == "NC1HWC0"
            for value, array in zip(data, arrays)
        ):
            return "NC1HWC0" if len({array.shape for array in arrays}) == 1 else "ND"
        return "ND"

    def _home_layout(self, value: Value) -> str:
        layout = self.model.output(*self.home[value]).format
        return layout if layout in ("NC1HWC0", "FRACTAL_NZ") else "ND"

    def _output(
        self, array: Array, dtype: str, layout: str, origin: str, index: int
    ) -> DeviceTensor:
        kept = _stored(array, dtype)
        fits = layout == "ND" or (
            kept.dtype.kind == "f" and (kept.ndim == 4 if layout == "NC1HWC0" else kept.ndim >= 2)
        )
        return self._tensor(kept, layout if fits else "ND", origin, index)

    def _obtain(self, value: Value, layout: str, dtype: str) -> Source:
        """Return where an op reads a value, with a TransData or a Cast before it where it is stored
        otherwise.
        """
        source = self.home[value]
        if str(self.model.output(*source).array.dtype) != dtype:
            source = self._version("Cast", value, source, self._home_layout(value), dtype)
        if self._layout_of(source) != layout:
            if self._layout_of(source) != "ND":
                source = self._version("TransData", value, source, "ND", dtype)
            if layout != "ND":
                source = self._version("TransData", value, source, layout, dtype)
        return source

    def _layout_of(self, source: Source) -> str:
        layout = self.model.output(*source).format
        return layout if layout in ("NC1HWC0", "FRACTAL_NZ") else "ND"

    def _version(self, kind: str, value: Value, source: Source, layout: str, dtype: str) -> Source:
        key = (value, layout, dtype)
        if key not in self.versions:
            held = self.model.output(*source)
            array = _half(held.array) if dtype == HALF else held.array.astype(dtype)
            tensor = self._tensor(array, layout, held.origin_name, held.origin_index)
            name = "trans_%s_%d%s" % (kind, self.inserted, self.compiled.suffix)
            self.inserted += 1
            self.model.add(DeviceOp(name, kind, (source,), (tensor,), originals=()))
            self.versions[key] = (name, 0)
        return self.versions[key]

    def _refined(self, group: Group, head: Any) -> str:
        """Return an op's type where that depends on more than the original's type."""
        kind, node = group.type, head.node
        shapes = [
            np.shape(self._value(argument)) for argument in head.arguments if argument is not None
        ]
        if kind == "Conv2D" and len(shapes[0]) == 4:
            groups = node.attributes.get("group", 1)
            return (
                "DepthwiseConv2D"
                if 1 < int(groups if not isinstance(groups, list) else groups[0]) == shapes[0][1]
                else kind
            )
        if node.type == "MatMul" and kind == "BatchMatMulV2":
            constant = (
                not isinstance(head.arguments[1], tuple)
                or self.compiled.base(head.arguments[1]) in self.constants
            )
            return "MatMulV2" if constant or len(shapes[0]) == 2 else kind
        if node.type == "Resize":
            mode = str(node.attributes.get("mode", "nearest"))
            return "ResizeNearestNeighborV2D" if mode == "nearest" else "ResizeBilinearV2D"
        return kind


def _stored(array: Array, dtype: str) -> Array:
    """Return values as an op that writes a type stores them."""
    if array.dtype.kind != "f":
        return array
    return _half(array) if dtype == HALF else array.astype(np.float32)


def _is_same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(
        np.all((one == other) | ((one != one) & (other != other)))
    )


def _half(array: Array) -> Array:
    with np.errstate(over="ignore"):
        return array.astype(np.float16)
