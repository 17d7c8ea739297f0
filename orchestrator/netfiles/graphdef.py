"""Reads a frozen TensorFlow graph (.pb) in place: nodes with inputs and attributes, without the
values of constants.

Source of the field numbers: graph.proto, node_def.proto, attr_value.proto, tensor_shape.proto,
function.proto, op_def.proto.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..base.errors import FormatError, InputError, MissingPath
from ..base.protowire import BYTES, VARINT, Fields, each, floating, integer, message, text, unsigned
from ..base.protowire import span as span_of
from .protobuf_file import Record, Span, WireFile
from .tf_op_outputs import DTYPES, OP_DEF, OpOutputs, outputs_of_signature

_NODE, _LIBRARY, _VERSIONS = 1, 2, 4
_HINT = "give a frozen graph (.pb): freeze_graph makes one"
_SAVED = (
    "freeze it first (freeze_graph, or convert_variables_to_constants on its session), and give "
    "the frozen .pb"
)
_TEXT = "write it once in binary form: tf.io.write_graph(graph_def, folder, name, as_text=False)"
_LOC = "loc:@"
_NODE_DEF = Fields(
    name=text(1),
    op=text(2),
    inputs=each(text(3)),
    attrs=each(message(5, Fields(key=text(1), value=span_of(2)))),
)
_LIBRARY_DEF = Fields(functions=each(message(1, Fields(signature=message(1, OP_DEF)))))
SHAPE = Fields(dims=each(message(2, Fields(size=integer(1)))), unknown_rank=unsigned(3))
"""TensorShapeProto."""
TENSOR = Fields(dtype=unsigned(1), shape=message(2, SHAPE), content=span_of(4))
"""TensorProto without the lists of values."""
_FUNCTION = Fields(name=text(1))
_VALUES = {
    "strings": each(text(2)),
    "integers": each(integer(3)),
    "floats": each(floating(4)),
    "booleans": each(unsigned(5)),
    "types": each(unsigned(6)),
    "shapes": each(message(7, SHAPE)),
    "tensors": each(span_of(8)),
}
ATTR_VALUE = Fields(
    list=message(1, Fields(functions=each(message(9, _FUNCTION)), **_VALUES)),
    function=message(10, _FUNCTION),
    placeholder=text(9, None),
    **_VALUES,
)
"""AttrValue; what may stand in its list stands in lists."""


class GraphNode:
    """One NodeDef.

    Attributes
    ----------
    name, op
        Its name and type.
    inputs
        As written: ``name``, ``name:k``, or ``^name`` for a control edge.
    attrs
        Position of each attribute's AttrValue.
    record
        Position of the whole node.
    """

    __slots__ = ("name", "op", "inputs", "attrs", "record")

    def __init__(self, record: Record) -> None:
        self.name = self.op = ""
        self.inputs: List[str] = []
        self.attrs: Dict[str, Span] = {}
        self.record = record


class GraphFile:
    """A frozen GraphDef.

    Attributes
    ----------
    nodes
        In the file's order.
    others
        Other top-level fields: versions and library.
    functions
        The outputs of each function of the library.

    Raises
    ------
    MissingPath
        There is no such file.
    InputError, FormatError
        It is a SavedModel, a text graph, an ONNX model, cut short, or no GraphDef.
    """

    def __init__(self, path: str) -> None:
        if os.path.isdir(path):
            if os.path.isfile(os.path.join(path, "saved_model.pb")):
                raise InputError("a SavedModel, which holds variables", _SAVED, path)
            raise MissingPath("MODEL: %s is a folder" % path, hint=_HINT)
        self.path = path
        self.nodes: List[GraphNode] = []
        self.others: List[Span] = []
        self.functions: Dict[str, OpOutputs] = {}
        with WireFile(path, "MODEL", _HINT) as file:
            if file.window.piece(0, 5).lstrip()[:4] in (b"node", b"vers", b"libr"):
                raise FormatError(
                    "a graph in text form (.pbtxt), which is not cut", self.path, hint=_TEXT
                )
            for record in file.records():
                if record.number == _NODE and record.wire == BYTES:
                    self.nodes.append(_node(file, record))
                    continue
                if record.number == 1 and record.wire == VARINT:
                    if os.path.basename(self.path) == "saved_model.pb":
                        raise InputError(
                            "%s: a SavedModel, which holds variables" % self.path, hint=_SAVED
                        )
                    from ..kinds.files import kind_of_file
                    from ..kinds.kind import SAVED_MODEL

                    what = kind_of_file(self.path)
                    raise InputError(
                        "%s: not a frozen graph, but %s" % (self.path, what.words),
                        hint=_SAVED if what.name == SAVED_MODEL else _HINT,
                    )
                if record.number == 100:
                    raise InputError(
                        "%s: weights of Caffe, not a model" % self.path,
                        hint="give the .prototxt here",
                    )
                if record.number not in (_NODE, _LIBRARY, 3, _VERSIONS, 5):
                    raise FormatError(
                        "byte %d: field %d is not one of a GraphDef"
                        % (record.start, record.number),
                        self.path,
                        hint=_HINT,
                    )
                self.others.append((record.start, record.last))
                if record.number == _LIBRARY and record.wire == BYTES:
                    library = file.read(_LIBRARY_DEF, record.first, record.last)
                    signatures = (
                        function.signature
                        for function in library.functions
                        if function.signature is not None
                    )
                    self.functions.update(map(outputs_of_signature, signatures))
        if not self.nodes:
            raise FormatError("no node in it: not a frozen graph", path, hint=_HINT)

    def attr(self, file: WireFile, node: GraphNode, name: str) -> Any:
        """Return an attribute of a node, read by :data:`ATTR_VALUE`."""
        return file.read(ATTR_VALUE, *node.attrs.get(name, (0, 0)))

    def attr_type(self, file: WireFile, node: GraphNode, name: str) -> Optional[int]:
        """Return a type attribute's number (DataType), or None."""
        return next(iter(self.attr(file, node, name).types), None)

    def attr_int(self, file: WireFile, node: GraphNode, name: str) -> Optional[int]:
        """Return an integer attribute, or None."""
        return next(iter(self.attr(file, node, name).integers), None)

    def attr_types(self, file: WireFile, node: GraphNode, name: str) -> Optional[List[int]]:
        """Return a list of types, or None."""
        listed = self.attr(file, node, name).list
        return None if listed is None else list(listed.types)

    def shape(self, file: WireFile, node: GraphNode) -> Optional[Tuple[int, ...]]:
        """Return the attribute ``shape`` with -1 for unknown dims; None where there is none, or of
        unknown rank.
        """
        return next(map(shape_of, self.attr(file, node, "shape").shapes), None)

    def colocations(self, file: WireFile, node: GraphNode) -> List[str]:
        """Return the names of the nodes that this one is colocated with (``_class`` entries
        ``loc:@name``)."""
        listed = self.attr(file, node, "_class").list
        entries = [] if listed is None else listed.strings
        return [entry[len(_LOC) :] for entry in entries if entry.startswith(_LOC)]

    def open(self) -> WireFile:
        """Open the file again; for :meth:`attr_type` and the others, and for copying."""
        return WireFile(self.path, "MODEL", _HINT)


def _node(file: WireFile, record: Record) -> GraphNode:
    node, read = GraphNode(record), file.read(_NODE_DEF, record.first, record.last)
    node.name, node.op, node.inputs = read.name, read.op, read.inputs
    node.attrs = {entry.key: entry.value or (0, 0) for entry in read.attrs}
    return node


def shape_of(shape: Any) -> Optional[Tuple[int, ...]]:
    """Return a TensorShapeProto read by :data:`SHAPE`, -1 for an unknown dim; None where there is
    none, or of unknown rank.
    """
    return None if shape is None or shape.unknown_rank else tuple(dim.size for dim in shape.dims)


def attr_values(values: Any, of_tensor: Callable[[Span], Any]) -> List[Any]:
    """Return the values of an AttrValue or of its list, read by :data:`ATTR_VALUE`: str, int,
    float, bool, names of types, shapes as tuples (None: unknown), tensors as ``of_tensor`` returns
    them; functions are left out.
    """
    return [
        *values.strings,
        *values.integers,
        *values.floats,
        *map(bool, values.booleans),
        *(DTYPES.get(number % 100, "type %d" % number) for number in values.types),
        *map(shape_of, values.shapes),
        *map(of_tensor, values.tensors),
    ]
