"""Reads a frozen TensorFlow graph (.pb) in place: nodes with inputs and attributes, without the
values of constants.

Source of the field numbers: graph.proto, node_def.proto, attr_value.proto, tensor_shape.proto,
function.proto, op_def.proto.
"""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from ..errors import FormatError, InputError, MissingPath
from ..protowire import BYTES, VARINT
from .protobuf_file import Record, Span, WireFile, numbers_of, signed
from .tf_op_outputs import OpOutputs, outputs_of_signature

_NODE, _LIBRARY, _VERSIONS = 1, 2, 4
_HINT = "give a frozen graph (.pb): freeze_graph makes one"
_SAVED = (
    "freeze it first (freeze_graph, or convert_variables_to_constants on its session), and give "
    "the frozen .pb"
)
_TEXT = "write it once in binary form: tf.io.write_graph(graph_def, folder, name, as_text=False)"
_LOC = "loc:@"


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
                raise InputError("%s: a SavedModel, which holds variables" % path, hint=_SAVED)
            raise MissingPath("MODEL: %s is a folder" % path, hint=_HINT)
        self.path = path
        self.nodes: List[GraphNode] = []
        self.others: List[Span] = []
        self.functions: Dict[str, OpOutputs] = {}
        with WireFile(path, "MODEL", _HINT) as file:
            self._refuse_others(file)
            for record in file.records():
                if record.number == _NODE and record.wire == BYTES:
                    self.nodes.append(_node(file, record))
                    continue
                self._refuse_record(record)
                self.others.append((record.start, record.last))
                if record.number == _LIBRARY and record.wire == BYTES:
                    self._read_library(file, record)
        if not self.nodes:
            raise FormatError("no node in it: not a frozen graph", path, hint=_HINT)

    def _refuse_others(self, file: WireFile) -> None:
        if file.window.piece(0, 5).lstrip()[:4] in (b"node", b"vers", b"libr"):
            raise FormatError(
                "a graph in text form (.pbtxt), which is not cut", self.path, hint=_TEXT
            )

    def _refuse_record(self, record: Record) -> None:
        if record.number == 1 and record.wire == VARINT:
            if os.path.basename(self.path) == "saved_model.pb":
                raise InputError("%s: a SavedModel, which holds variables" % self.path, hint=_SAVED)
            raise InputError(
                "%s: not a frozen graph; it looks like a SavedModel or an ONNX model" % self.path,
                hint=_SAVED,
            )
        if record.number == 100:
            raise InputError(
                "%s: weights of Caffe, not a model" % self.path, hint="give the .prototxt here"
            )
        if record.number not in (_NODE, _LIBRARY, 3, _VERSIONS, 5):
            raise FormatError(
                "byte %d: field %d is not one of a GraphDef" % (record.start, record.number),
                self.path,
                hint=_HINT,
            )

    def _read_library(self, file: WireFile, library: Record) -> None:
        for number, wire, first, last in file.inner(library):
            if number == 1 and wire == BYTES:
                for inner, kind, begin, end in file.inside(first, last):
                    if inner == 1 and kind == BYTES:
                        name, outputs = outputs_of_signature(file, begin, end)
                        self.functions[name] = outputs

    def attr_type(self, file: WireFile, node: GraphNode, name: str) -> Optional[int]:
        """Return a type attribute's number (DataType), or None."""
        return next(
            (
                first
                for number, wire, first, _ in self._attr(file, node, name)
                if (number, wire) == (6, VARINT)
            ),
            None,
        )

    def attr_int(self, file: WireFile, node: GraphNode, name: str) -> Optional[int]:
        """Return an integer attribute, or None."""
        return next(
            (
                first
                for number, wire, first, _ in self._attr(file, node, name)
                if (number, wire) == (3, VARINT)
            ),
            None,
        )

    def attr_types(self, file: WireFile, node: GraphNode, name: str) -> Optional[List[int]]:
        """Return a list of types, or None."""
        for number, wire, first, last in self._attr(file, node, name):
            if (number, wire) == (1, BYTES):
                return numbers_of(file, (first, last), 6)
        return None

    def attr_shape(self, file: WireFile, node: GraphNode, name: str) -> Optional[Tuple[int, ...]]:
        """Return a shape attribute with -1 for unknown dims; None where there is none, or of
        unknown rank.
        """
        for number, wire, first, last in self._attr(file, node, name):
            if (number, wire) == (7, BYTES):
                return shape_at(file, first, last)
        return None

    def colocations(self, file: WireFile, node: GraphNode) -> List[str]:
        """Return the names of the nodes that this one is colocated with (``_class`` entries
        ``loc:@name``)."""
        names = []
        for number, wire, first, last in self._attr(file, node, "_class"):
            if (number, wire) == (1, BYTES):
                entries = [
                    file.text(begin, end)
                    for inner, kind, begin, end in file.inside(first, last)
                    if (inner, kind) == (2, BYTES)
                ]
                names += [entry[len(_LOC) :] for entry in entries if entry.startswith(_LOC)]
        return names

    def _attr(self, file: WireFile, node: GraphNode, name: str) -> List[Tuple[int, int, int, int]]:
        span = node.attrs.get(name)
        return [] if span is None else list(file.inside(*span))

    def open(self) -> WireFile:
        """Open the file again; for :meth:`attr_type` and the others, and for copying."""
        return WireFile(self.path, "MODEL", _HINT)


def _node(file: WireFile, record: Record) -> GraphNode:
    node = GraphNode(record)
    for number, wire, first, last in file.inner(record):
        if wire != BYTES:
            continue
        if number == 1:
            node.name = file.text(first, last)
        elif number == 2:
            node.op = file.text(first, last)
        elif number == 3:
            node.inputs.append(file.text(first, last))
        elif number == 5:
            key, span = "", (first, first)
            for inner, kind, begin, end in file.inside(first, last):
                if kind == BYTES and inner == 1:
                    key = file.text(begin, end)
                elif kind == BYTES and inner == 2:
                    span = (begin, end)
            node.attrs[key] = span
    return node


def shape_at(file: WireFile, first: int, last: int) -> Optional[Tuple[int, ...]]:
    """Return the TensorShapeProto between two bytes, -1 for an unknown dim; None of unknown
    rank.
    """
    dims: List[int] = []
    for number, wire, begin, end in file.inside(first, last):
        if number == 3 and wire == VARINT and begin:
            return None
        if number == 2 and wire == BYTES:
            size = next(
                (
                    value
                    for inner, kind, value, _ in file.inside(begin, end)
                    if (inner, kind) == (1, VARINT)
                ),
                0,
            )
            dims.append(signed(size))
    return tuple(dims)
