"""A frozen TensorFlow graph as something to cut: which nodes and tensors a cut has, and the file of
the cut.

Besides the nodes between start and end a cut keeps what cannot become a placeholder: constants and
all that depends on constants only, and the inner nodes of while loops and conditionals back to the
values that enter them (:mod:`goldwatch.recomputing.submodel.tf_control_flow`). The rules were
checked against real TensorFlow, bit for bit.
"""

from __future__ import annotations

from typing import (
    BinaryIO,
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

from ...base.errors import InputError
from ...base.naming import free_name, printable
from ...netfiles.graphdef import GraphFile, GraphNode
from ...netfiles.graphdef_cut import write_graph
from ...netfiles.parameters_in_words import Parameters, graphdef_parameters
from ...netfiles.protobuf_file import WireFile
from ...netfiles.tf_op_outputs import DTYPES, OpOutputs, op_outputs, output_types
from .cut_definition import (
    Cut,
    CutInput,
    NamedNodes,
    Shape,
    numbers_of,
    quantised,
)
from .node_graph import NodeGraph, Value, reached
from .tf_control_flow import CONTROL_FLOW, Flow

INPUT_TYPES = frozenset(["Placeholder", "PlaceholderWithDefault", "PlaceholderV2"])
MODEL_INPUTS = INPUT_TYPES | {"Input"}
"""Types of input nodes of any framework; besides Caffe's data layers (``is_data``)."""
_VARIABLES = frozenset(
    [
        "Variable",
        "VariableV2",
        "VarHandleOp",
        "AutoReloadVariable",
        "Iterator",
        "IteratorV2",
        "OneShotIterator",
    ]
)
_NO_BORDER = frozenset(["resource", "variant", "string"])


class TfOriginal(NamedNodes):
    """A frozen graph.

    Attributes
    ----------
    kind
        ``tensorflow``.
    names, types
        Of each node, in the file's order.
    tensors
        For each node the names of its outputs, ``op:index``, as far as its definition tells how
        many it has.
    dtypes
        For each node the types of its outputs as :data:`goldwatch.netfiles.tf_op_outputs.DTYPES`
        calls them, empty if unknown.
    graph
        The data edges.
    quantised
        The nodes whose values are integers, which only the device's graph has.
    flow
        Loops and conditionals.

    Raises
    ------
    InputError, FormatError
        As :class:`goldwatch.netfiles.graphdef.GraphFile`; two nodes have one name, or one reads
        what is not there.
    """

    kind = "tensorflow"
    noun = "node"
    file_name = "dump.pb"
    input_noun = "Placeholder"

    def __init__(self, file: GraphFile) -> None:
        self.file = file
        self.path = file.path
        self.name = ""
        self.names = [node.name for node in file.nodes]
        self.types = [node.op for node in file.nodes]
        self._numbers = numbers_of(self.names)
        twice = next((name for name, numbers in self._numbers.items() if len(numbers) > 1), None)
        if twice is not None:
            raise InputError(
                "%s: two nodes are called %s; TensorFlow refuses such a graph"
                % (self.path, printable(twice))
            )
        self.input_fields: List[str] = []
        self.inner: Dict[str, str] = {}
        self.graph = NodeGraph([self._data_inputs(node) for node in file.nodes])
        self.controls = [
            [self._numbers[name[1:]][0] for name in node.inputs if self._is_control(node, name)]
            for node in file.nodes
        ]
        self.quantised = quantised(self.graph, self.types)
        self.flow = Flow(self.graph, self.controls, self.types)
        self._constants = self._find_constants()
        self.dtypes: List[List[str]] = []
        self._colocated: Dict[int, List[str]] = {}
        with file.open() as opened:
            for number, node in enumerate(file.nodes):
                self.dtypes.append(self._output_types(opened, node))
                if "_class" in node.attrs:
                    self._colocated[number] = file.colocations(opened, node)
        for values in self.graph.sources:
            for number, index in values:
                # An op that the table does not know has at least the outputs that are read.
                self.dtypes[number] += [""] * (index + 1 - len(self.dtypes[number]))
        self.tensors = [
            ["%s:%d" % (name, index) for index in range(len(self.dtypes[n]))]
            for n, name in enumerate(self.names)
        ]

    @classmethod
    def read(cls, path: str) -> TfOriginal:
        """Read a frozen graph; raises as the class."""
        return cls(GraphFile(path))

    def shapes(self) -> Dict[Value, Shape]:
        """Return the shapes that the graph itself gives to its inputs, where all dims are known."""
        shapes: Dict[Value, Shape] = {}
        with self.file.open() as opened:
            for number, node in enumerate(self.file.nodes):
                shape = self.file.shape(opened, node) if node.op in INPUT_TYPES else None
                if shape is not None and all(dim >= 0 for dim in shape):
                    shapes[number, 0] = shape
        return shapes

    def control_inputs(self, number: int) -> Sequence[int]:
        """As :meth:`.NamedNodes.control_inputs`."""
        return self.controls[number]

    def parameters(self) -> List[Parameters]:
        """Return the attributes of each node as text to display."""
        with self.file.open() as file:
            return [graphdef_parameters(file, node.attrs) for node in self.file.nodes]

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
            A start or end lies inside a loop or a conditional; a variable, an iterator or a
            quantised stretch is in the cut or at its border; a resource, variant or string crosses
            it.
        """
        chosen = set(chosen)
        for number in sorted(set(starts) | set(ends or ())):
            self._refuse_inside(number)
        inside = self._with_pulled(chosen)
        for number in sorted(inside):
            if self.types[number] in _VARIABLES:
                raise InputError(
                    "%s is a %s: this graph is not frozen"
                    % (printable(self.names[number]), self.types[number]),
                    hint="freeze it (freeze_graph), and give the frozen .pb",
                )
        self._refuse_quantised(inside, ends)
        inputs = self._unchanged_inputs(inside) + self._new_inputs(inside, starts)
        pulled = inside - chosen
        outputs, outside = self._outputs_of(inside, pulled, ends)
        names = {self.names[number] for number in inside}
        controls = tuple(
            (self.names[number], self.names[other])
            for number in sorted(inside)
            for other in self.controls[number]
            if other not in inside
        )
        colocations = tuple(
            (self.names[number], other)
            for number in sorted(inside)
            for other in self._colocated.get(number, ())
            if other not in names
        )
        return Cut(
            tuple(sorted(inside)),
            tuple(sorted(pulled)),
            tuple(inputs),
            outputs,
            outside,
            controls,
            colocations,
        )

    def write(self, cut: Cut, inputs: Mapping[str, Tuple[str, Shape]], stream: BinaryIO) -> None:
        """Write the frozen graph of a cut; parameters as of :meth:`files`."""
        new = [entry for entry in cut.inputs if not entry.unchanged]
        renamed = {entry.tensor: entry.name for entry in new if entry.output_index}
        placeholders = [(entry.name, *inputs[entry.name]) for entry in new]
        write_graph(
            self.file,
            cut.layers,
            placeholders,
            renamed,
            cut.dropped_controls,
            cut.dropped_colocations,
            stream,
        )

    def _is_control(self, node: GraphNode, name: str) -> bool:
        if not name.startswith("^"):
            return False
        if name[1:] not in self._numbers:
            raise InputError(
                "%s: node %s waits for %s, which is not there"
                % (self.path, printable(node.name), printable(name[1:]))
            )
        return True

    def _data_inputs(self, node: GraphNode) -> List[Value]:
        inputs = []
        for text in node.inputs:
            if text.startswith("^"):
                continue
            name, _, index = text.partition(":")
            numbers = self._numbers.get(name)
            if numbers is None or (index and not index.isdigit()):
                raise InputError(
                    "%s: node %s reads %s, which is not there"
                    % (self.path, printable(node.name), printable(text))
                )
            inputs.append((numbers[0], int(index or 0)))
        return inputs

    def _definition(self, op: str) -> Optional[OpOutputs]:
        return self.file.functions.get(op) or op_outputs(op)

    def _output_types(self, opened: WireFile, node: GraphNode) -> List[str]:
        definition = self._definition(node.op)
        if definition is None:
            return []
        file = self.file
        types = output_types(
            definition,
            lambda name: file.attr_type(opened, node, name),
            lambda name: file.attr_types(opened, node, name),
            lambda name: file.attr_int(opened, node, name),
        )
        return [DTYPES.get(number or 0, "") for number in types]

    def _refuse_inside(self, number: int) -> None:
        where = self.flow.inside(number)
        if where:
            raise InputError(
                "%s lies inside a %s; a cut cannot begin or end there"
                % (printable(self.names[number]), where),
                hint="choose a node before it, or its Exit or Merge behind it: the whole %s comes "
                "along" % where,
            )

    def _with_pulled(self, chosen: Set[int]) -> Set[int]:
        """Return the chosen nodes with all that must come with them."""

        def needed(number: int) -> List[int]:
            data = [
                source
                for source, _ in self.graph.sources[number]
                if self.is_constant(source) or self.flow.inside(source)
            ]
            return data + [
                source for source in self.controls[number] if self.flow.together(source, number)
            ]

        return reached(chosen, needed)

    def is_constant(self, number: int) -> bool:
        """Return whether a node depends on constants only and gives the same values each time:
        weights, axes, shapes.
        """
        return number in self._constants

    def _find_constants(self) -> Set[int]:
        constants = {number for number, kind in enumerate(self.types) if kind == "Const"}
        unknown = [sum(1 for _ in values) for values in self.graph.sources]
        waiting = sorted(constants)
        while waiting:
            for reader, _, _ in self.graph.readers[waiting.pop()]:
                unknown[reader] -= 1
                if unknown[reader] == 0 and self._is_pure(reader):
                    constants.add(reader)
                    waiting.append(reader)
        return constants

    def _is_pure(self, number: int) -> bool:
        kind = self.types[number]
        definition = self._definition(kind)
        if definition is None or definition.stateful or kind in CONTROL_FLOW or kind in INPUT_TYPES:
            return False
        return not kind.startswith("Random") and bool(definition.words)

    def _unchanged_inputs(self, inside: Set[int]) -> List[CutInput]:
        inputs = []
        for number in sorted(inside):
            if self.types[number] in INPUT_TYPES:
                name, dtype = self.names[number], self.dtypes[number][0]
                readers = self._readers((number, 0), inside)
                inputs.append(
                    CutInput(
                        name,
                        name + ":0",
                        name,
                        0,
                        (number, 0),
                        "start",
                        readers,
                        dtype,
                        unchanged=True,
                    )
                )
        return inputs

    def _new_inputs(self, inside: Set[int], starts: Collection[int]) -> List[CutInput]:
        taken = set(self.names)
        inputs = []
        for value in self._crossing(inside):
            number, index = value
            name = (
                self.names[number]
                if index == 0
                else free_name("%s_%d" % (self.names[number], index), taken)
            )
            tensor, dtype = self.tensors[number][index], self.dtypes[number][index]
            if self.types[number] in _VARIABLES or dtype in _NO_BORDER:
                what = (
                    "a %s, so this graph is not frozen" % self.types[number]
                    if self.types[number] in _VARIABLES
                    else "of type " + dtype
                )
                hint = (
                    "freeze it (freeze_graph)"
                    if self.types[number] in _VARIABLES
                    else "start before it"
                )
                raise InputError(
                    "%s crosses the border and is %s" % (printable(tensor), what), hint=hint
                )
            kind = self._kind(value, inside, starts)
            inputs.append(
                CutInput(
                    name,
                    tensor,
                    self.names[number],
                    index,
                    value,
                    kind,
                    self._readers(value, inside),
                    dtype,
                )
            )
        return inputs
