"""Cuts of an ONNX model: their nodes and values, and the file of the cut.

Nodes are called as GE's parser calls them; the model's inputs count as nodes of type ``Input``.
Besides the nodes between start and end a cut includes nodes that depend only on constants and
shapes, which the compiler folds: no device holds their values. The bodies of If, Loop and Scan
belong to their nodes and are not cut; what they read from outside the node reads, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import (
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from ...adapters.onnx.randomness import Randomness
from ...base.errors import InputError
from ...base.naming import free_name, printable
from ...netfiles.onnx_cut import Border, Dims, ExternalData, OnnxCut, captured
from ...netfiles.onnx_external_data import check_external
from ...netfiles.onnx_model import OnnxModel, OnnxNode
from ...netfiles.onnx_names import NamedGraph, name_nodes
from ...netfiles.onnx_output_types import BODY, OTHERS, output_types
from ...netfiles.onnx_ranks import Ranks
from ...netfiles.onnx_types import type_name
from ...netfiles.onnx_value_headers import Dim, OnnxValue
from ...netfiles.parameters_in_words import Parameters, onnx_parameters
from ...netfiles.protobuf_file import WireFile
from .cut_definition import (
    Cut,
    CutFile,
    CutInput,
    CutOutput,
    DeclaredType,
    NamedNodes,
    Shape,
    numbers_of,
    quantised,
)
from .node_graph import NodeGraph, Value, reached

DATA_FILE = "dump.onnx.data"
_INPUT = "Input"
_SHAPES = ("Shape", "Size")
_OWN = ("", "ai.onnx")
_CONSTANT_FIELDS = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}
_NOWHERE = -2


class OnnxOriginal(NamedNodes):
    """An ONNX model.

    Parameters
    ----------
    model
        The file.

    Attributes
    ----------
    kind
        ``onnx``.
    names, types
        Of each input, then of each node of the main graph, in the file's order.
    inner
        The names of nodes in the bodies of If (as the om has them) and of Loop and Scan to the node
        of the main graph that holds them.
    tensors
        For each node the names of its values; empty for an output that is left out.
    dtypes
        For each node the types of its values by their names in
        :data:`goldwatch.netfiles.onnx_types.TYPES`, empty if unknown.
    graph
        The data edges; what initializers give, and inputs that are left out, come from node -2.
    quantised
        The nodes whose values are integers, which only the device's graph has.

    Raises
    ------
    InputError, FormatError
        As :class:`goldwatch.netfiles.onnx_model.OnnxModel` and
        :func:`goldwatch.netfiles.onnx_names.name_nodes`; a node reads what is not there; external
        data is missing, cut short, or outside of the model's folder.
    """

    kind = "onnx"
    noun = "node"
    file_name = "dump.onnx"
    input_noun = "graph input"

    def __init__(self, model: OnnxModel) -> None:
        self.external = check_external(model)
        self.model, self.path, self.name = model, model.path, ""
        graph = model.graph
        named = name_nodes(model)
        self._first = len(graph.data_inputs)
        self.names = [value.name for value in graph.data_inputs] + named[0].names
        self.types = [_INPUT] * self._first + [node.op_type for node in graph.nodes]
        self.tensors = [[value.name] for value in graph.data_inputs] + [
            list(node.outputs) for node in graph.nodes
        ]
        self.input_fields: List[str] = []
        self._numbers = numbers_of(self.names)
        self.inner = self._inner(named[1:])
        self._makers = {
            name: (n, k)
            for n, tensors in enumerate(self.tensors)
            for k, name in enumerate(tensors)
            if name
        }
        self.graph = NodeGraph([[]] * self._first + [self._sources(node) for node in graph.nodes])
        self.quantised = quantised(self.graph, self.types)
        with model.open() as file:
            # What a run fed as a Dropout's mode is not in the model: taken as an om computes.
            modes = {value.name: np.zeros(1, np.bool_) for value in graph.data_inputs}
            randomness = Randomness(model, file, modes)
            self._in_training = {
                number
                for number, trains in enumerate(randomness.training(graph.nodes), self._first)
                if trains
            }
            self._random = {
                number
                for number, node in enumerate(graph.nodes, self._first)
                if randomness.draws(node)
            }
        self._constants = self._find_constants()
        self._pulled = self._constants
        self._declared = {
            value.name: value
            for value in [*graph.inputs, *graph.value_info.values(), *graph.outputs]
        }
        self.dtypes = self._find_dtypes()
        self._ranks: Optional[Dict[str, int]] = None

    @classmethod
    def read(cls, path: str) -> OnnxOriginal:
        """Read a model; raises as the class."""
        return cls(OnnxModel(path))

    def ends(self) -> List[Tuple[str, int]]:
        """Return the model's outputs, each with the node that makes it."""
        outputs = [value.name for value in self.model.graph.outputs]
        return [(name, self._makers[name][0]) for name in outputs if name in self._makers]

    def is_constant(self, number: int) -> bool:
        """Return whether a node depends on constants and on shapes only."""
        return number in self._constants

    def compute_on_device(self, computed: Set[int], is_dumped: Callable[[int], bool]) -> None:
        """Register the nodes that the device computes: cuts no longer include those that depend on
        shapes, nor those whose output was dumped, which need not be the model's (a weight that is
        dequantised there)."""
        shapes = (number for number, kind in enumerate(self.types) if kind in _SHAPES)
        there = self._constants & computed
        by_shapes = there & self.graph.descendants(shapes)
        dumped = {number for number in there - by_shapes if is_dumped(number)}
        self._pulled = self._constants - by_shapes - dumped

    def is_weight(self, name: str) -> bool:
        """Return whether a name in an om stands for an initializer: its own, behind which the
        parser puts a number.
        """
        weights = self.model.graph.initializers
        head, _, number = name.rpartition("_")
        return name in weights or (number.isdigit() and head in weights)

    def is_random(self, number: int) -> bool:
        """Return whether a node gives other values each time."""
        return number in self._random

    def is_in_training(self, number: int) -> bool:
        """Return whether a node computes as in training, which no om does."""
        return number in self._in_training

    def shapes(self) -> Dict[Value, Shape]:
        """Return the shapes that the model itself gives to its inputs and values, where all dims
        are known.
        """
        known = (
            (name, value.shape)
            for name, value in self._declared.items()
            if value.kind == "tensor" and value.shape is not None
        )
        static = (
            (name, tuple(dim for dim in shape if isinstance(dim, int)), shape)
            for name, shape in known
        )
        return {
            self._makers[name]: dims
            for name, dims, shape in static
            if len(dims) == len(shape) and name in self._makers
        }

    def value_shapes(self) -> Dict[Tuple[str, int], Shape]:
        """Return the shapes of values by their node's name and output, as the model tells them."""
        return {
            (self.names[number], index): shape for (number, index), shape in self.shapes().items()
        }

    def dims(self, tensor: str) -> Optional[Dims]:
        """Return the shape of a value as far as the model tells it, or the rules of its ops how
        many axes it has; None where neither does.

        An unknown dim is None.
        """
        if tensor in self._declared and self._declared[tensor].shape is not None:
            return self._declared[tensor].sizes
        if self._ranks is None:
            self._ranks = Ranks(self.model).known
        return (None,) * self._ranks[tensor] if tensor in self._ranks else None

    def declared(self) -> Dict[str, Tuple[Dim, ...]]:
        """As :meth:`.NamedNodes.declared`."""
        shapes = {name: value.shape for name, value in self._declared.items() if value.shape}
        shapes.update((name, tensor.dims) for name, tensor in self.model.graph.initializers.items())
        return shapes

    def unmade_name(self, number: int, place: int) -> str:
        """As :meth:`.NamedNodes.unmade_name`."""
        inputs = self.model.graph.nodes[number - self._first].inputs
        return inputs[place] if place < len(inputs) else ""

    def parameters(self) -> List[Parameters]:
        """Return the attributes of each node as text to display."""
        with self.model.open() as file:
            made = [onnx_parameters(file, node.attrs) for node in self.model.graph.nodes]
        return [[]] * self._first + made

    def cut(
        self,
        chosen: Iterable[int],
        starts: Collection[int] = (),
        ends: Optional[Collection[int]] = None,
    ) -> Cut:
        """Return the cut of these nodes and of what must come with them; parameters as of
        :meth:`CaffeOriginal.cut`.

        Raises
        ------
        InputError
            The border lies in a quantised stretch; a string, a sequence or another value that is no
            tensor crosses it.
        """
        chosen = set(chosen)
        inside = self._with_pulled(chosen)
        self._refuse_quantised(inside, ends)
        cut_inputs = [(number, 0) for number in sorted(inside) if number < self._first]
        inputs = [
            self._input(value, inside, starts)
            for value in [*cut_inputs, *self._crossing(inside)]
            if value[0] != _NOWHERE
        ]
        pulled = inside - chosen
        outputs, outside = self._outputs_of(inside, pulled, ends)
        outputs = tuple(output for output in outputs if output.tensor)
        for output in outputs:
            self._refuse_other(output.tensor, output.is_end)
        return Cut(
            tuple(sorted(inside)),
            tuple(sorted(pulled)),
            self._apart(inputs, inside),
            outputs,
            outside,
        )

    def refuse_read_in_bodies(self, cut: Cut) -> None:
        """Raise InputError where a body reads a value whose name in the cut is another one: bodies
        stay as they are.
        """
        renamed = {entry.tensor for entry in cut.inputs if entry.name != entry.tensor}
        for number in [number for number in cut.layers if number >= self._first] if renamed else []:
            for name in renamed.intersection(
                captured(self.model.graph.nodes[number - self._first])
            ):
                message = (
                    "%s comes in, a body of %s reads it, and a node that stays has the same name, "
                    "which atc refuses (E19009)"
                )
                text = message % (printable(name), printable(self.names[number]))
                raise InputError(text, hint="start before the node that makes it")

    def prepared(
        self, cut: Cut, inputs: Mapping[str, DeclaredType], ends: Mapping[str, DeclaredType]
    ) -> Tuple[OnnxCut, ExternalData]:
        """Return the model of a cut and the file of its external data, to be written.

        Parameters
        ----------
        inputs, ends
            Type and shape of its inputs, and of the values of its ends, by their names.
        """
        nodes = {
            number - self._first: self.names[number]
            for number in cut.layers
            if number >= self._first
        }
        borders = [Border(entry.name, *inputs[entry.name]) for entry in cut.inputs]
        data = ExternalData(self.model.path, DATA_FILE)
        outputs = [Border(name, *end) for name, end in ends.items()]
        renamed = {entry.tensor: entry.name for entry in cut.inputs if entry.name != entry.tensor}
        return OnnxCut(self.model, nodes, borders, outputs, data, renamed), data

    def files(
        self,
        cut: Cut,
        inputs: Mapping[str, Tuple[str, Shape]],
        ends: Mapping[str, DeclaredType],
    ) -> List[CutFile]:
        """Return the files of a cut: the model, and that of its external data."""
        made, data = self.prepared(cut, inputs, ends)
        files = [CutFile(self.file_name, made.model_bytes, made.write)]
        return files + ([CutFile(DATA_FILE, data.nbytes, data.write)] if data.nbytes else [])

    def ends_to_declare(self, cut: Cut) -> List[Tuple[CutOutput, int, str]]:
        """Return the ends of a cut, each with its node's number and its type."""
        ends = []
        for end in cut.outputs:
            if end.is_end:
                number = self.numbers(end.op)[0]
                ends.append((end, number, self.dtypes[number][end.output_index]))
        return ends

    def _apart(self, inputs: Sequence[CutInput], inside: Set[int]) -> Tuple[CutInput, ...]:
        """Return the inputs, renamed if a kept node has the same name: atc refuses duplicate
        names."""
        clashing = {entry.name for entry in inputs} & {
            self.names[number] for number in inside if number >= self._first
        }
        if not clashing:
            return tuple(inputs)
        taken = set(self._numbers) | set(self.inner)
        for graph in self.model.graph.walk():
            taken |= (
                {value.name for value in graph.inputs}
                | set(graph.initializers)
                | set(graph.sparse_initializers)
            )
            taken |= {name for node in graph.nodes for name in node.outputs}
        return tuple(
            replace(entry, name=free_name(entry.name, taken)) if entry.name in clashing else entry
            for entry in inputs
        )

    def _inner(self, bodies: Sequence[NamedGraph]) -> Dict[str, str]:
        owners: Dict[int, str] = {}
        sources: Dict[str, str] = {}
        for owner, node in zip(self.names[self._first :], self.model.graph.nodes):
            for body in [body for top in node.graphs.values() for body in top.walk()]:
                owners[id(body)] = owner
                sources.update(
                    (inner.name, owner)
                    for inner in body.nodes
                    if inner.name and inner.name not in self._numbers
                )
        sources.update((name, owners[id(named.graph)]) for named in bodies for name in named.names)
        return sources

    def _sources(self, node: OnnxNode) -> List[Value]:
        graph = self.model.graph
        sources: List[Value] = []
        for place, name in enumerate([*node.inputs, *captured(node)]):
            value = self._makers.get(name)
            if (
                value is None
                and name
                and name not in graph.initializers
                and name not in graph.sparse_initializers
            ):
                title = printable(node.name or node.op_type)
                raise InputError(
                    "%s: node %s reads %s, which is not there" % (self.path, title, printable(name))
                )
            sources.append(value or (_NOWHERE, place))
        return sources

    def _with_pulled(self, chosen: Set[int]) -> Set[int]:
        return reached(
            chosen,
            lambda number: (
                source for source, _ in self.graph.sources[number] if source in self._pulled
            ),
        )

    def _find_constants(self) -> Set[int]:
        constants: Set[int] = set()
        for number in self.graph.order():
            sources = self.graph.sources[number]
            if number >= self._first and self._is_pure(number):
                folded = all(source == _NOWHERE or source in constants for source, _ in sources)
                if self.types[number] in _SHAPES or (
                    folded and (sources or self.types[number] == "Constant")
                ):
                    constants.add(number)
        return constants

    def _is_pure(self, number: int) -> bool:
        node = self.model.graph.nodes[number - self._first]
        return node.domain in _OWN and not node.graphs and not self.is_random(number)

    def _find_dtypes(self) -> List[List[str]]:
        dtypes: List[List[str]] = [
            [_declared_type(self._declared[name]) for name in tensors]
            for tensors in self.tensors[: self._first]
        ]
        dtypes += [[] for _ in self.model.graph.nodes]
        with self.model.open() as file:
            for number in self.graph.order():
                if number >= self._first:
                    dtypes[number] = self._output_types(file, number, dtypes)
        return dtypes

    def _output_types(
        self, file: WireFile, number: int, known: Sequence[Sequence[str]]
    ) -> List[str]:
        node = self.model.graph.nodes[number - self._first]
        graph = self.model.graph

        def of_input(place: int) -> str:
            name = node.inputs[place] if place < len(node.inputs) else ""
            if name in graph.initializers:
                return type_name(graph.initializers[name].dtype)
            maker = self._makers.get(name)
            return known[maker[0]][maker[1]] if maker is not None else ""

        def of_attribute(name: str, output: int) -> str:
            if name == BODY:
                outputs = [
                    body.outputs[output + (node.op_type == "Loop") :]
                    for body in node.graphs.values()
                ]
                return next(
                    (
                        _declared_type(values[0])
                        for values in outputs
                        if values and _declared_type(values[0])
                    ),
                    "",
                )
            if name in node.tensors:
                return type_name(node.tensors[name].dtype)
            plain = (
                next((dtype for key, dtype in _CONSTANT_FIELDS.items() if key in node.attrs), "")
                if name == "value"
                else ""
            )
            code = self.model.attr_int(file, node, name)
            return plain or (type_name(code) if code else "")

        types = (
            output_types(node.op_type, len(node.outputs), of_input, of_attribute)
            if node.domain in _OWN
            else [""] * len(node.outputs)
        )
        declared = [
            _declared_type(self._declared[name]) if name in self._declared else ""
            for name in node.outputs
        ]
        return [declared_type or inferred for declared_type, inferred in zip(declared, types)]

    def _refuse_other(self, name: str, crosses: bool) -> None:
        number, index = self._makers[name]
        value = self._declared.get(name)
        kind = "" if value is None or value.kind in ("", "tensor") else value.kind
        kind = kind or (
            "string"
            if self.dtypes[number][index] == "string"
            else OTHERS.get(self.types[number], "")
        )
        if crosses and kind:
            what = ("an " if kind == "optional" else "a ") + kind
            raise InputError(
                "%s crosses the border and is %s, no tensor of numbers" % (printable(name), what),
                hint="start before it",
            )

    def _input(self, value: Value, inside: Set[int], starts: Collection[int]) -> CutInput:
        number, index = value
        name = self.tensors[number][index]
        self._refuse_other(name, True)
        readers = self._readers(value, inside)
        is_inside = number in inside
        kind = "start" if is_inside else self._kind(value, inside, starts)
        return CutInput(
            name,
            name,
            self.names[number],
            index,
            value,
            kind,
            readers,
            self.dtypes[number][index],
            is_inside,
        )


def _declared_type(value: OnnxValue) -> str:
    return type_name(value.dtype) if value.kind == "tensor" and value.dtype else ""
