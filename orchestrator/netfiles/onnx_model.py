"""Reads an ONNX model (.onnx) in place: graphs, nodes, values and headers of tensors; never the
weights.

Source of the field numbers: onnx.proto (ModelProto, FunctionProto, GraphProto, NodeProto,
AttributeProto).
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Optional, Tuple

from ..base.errors import FormatError, InputError, MissingPath
from ..base.protowire import BYTES, VARINT, Fields, each, floating, integer, text, unsigned
from ..base.protowire import span as span_of
from .onnx_value_headers import OnnxTensor, OnnxValue, read_tensor, read_value
from .protobuf_file import Record, Span, WireFile

HINT = "give an .onnx file: torch.onnx.export makes one"
_GRAPH, _OPSETS, _FUNCTIONS = 7, 8, 25
_MODEL_FIELDS = (1, 2, 3, 4, 5, 6, _GRAPH, _OPSETS, 14, 20, _FUNCTIONS, 26)
_OPSET = Fields(domain=text(1), version=unsigned(2))
_FUNCTION = Fields(name=text(1), domain=text(10))
_NODE = Fields(
    inputs=each(text(1)),
    outputs=each(text(2)),
    name=text(3),
    op_type=text(4),
    attrs=each(span_of(5)),
    domain=text(7),
)
_ATTRIBUTE_HEADER = Fields(name=text(1), tensor=span_of(5), graph=span_of(6))
ATTRIBUTE = Fields(
    name=text(1),
    floating=floating(2),
    integer=integer(3, None),
    string=text(4, None),
    tensor=span_of(5),
    graph=span_of(6),
    floats=each(floating(7)),
    integers=each(integer(8)),
    strings=each(text(9)),
    tensors=each(span_of(10)),
    graphs=each(span_of(11)),
    kind=unsigned(20, None),
)
"""AttributeProto with its values."""
_SPARSE = Fields(values=span_of(1))
_MAX_DEPTH = 32
_OTHERS = (
    (0, b"PK\x03\x04", "a zip file, such as the .pt of PyTorch"),
    (0, b"\x80\x02", "a pickle, such as an old .pt of PyTorch"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"IMOD", "an offline model (.om)"),
    (2, b"\0\0ORTM", "a model in onnxruntime's own format (.ort)"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"<", "a text file"),
    (0, b"{", "a JSON file"),
    (0, b"ir_version:", "a model in text form"),
)


class OnnxNode:
    """A NodeProto.

    Attributes
    ----------
    name, op_type, domain
        As written; nodes may have no name.
    inputs, outputs
        Names of values; empty for an omitted one.
    attrs
        Position of each AttributeProto.
    graphs, tensors
        Those attributes that hold a graph or a tensor.
    record
        Position of the whole node.
    """

    __slots__ = (
        "name",
        "op_type",
        "domain",
        "inputs",
        "outputs",
        "attrs",
        "graphs",
        "tensors",
        "record",
    )

    def __init__(self, record: Record) -> None:
        self.name = self.op_type = self.domain = ""
        self.inputs: List[str] = []
        self.outputs: List[str] = []
        self.attrs: Dict[str, Span] = {}
        self.graphs: Dict[str, OnnxGraph] = {}
        self.tensors: Dict[str, OnnxTensor] = {}
        self.record = record


class OnnxGraph:
    """A GraphProto.

    Attributes
    ----------
    nodes
        In the file's order.
    inputs, outputs, value_info
        As written; inputs that are also initializers among them.
    initializers
        By name.
    sparse_initializers
        Position of each SparseTensorProto, by name.
    others
        Positions of its other fields (name, doc_string, annotations), tags included.
    """

    __slots__ = (
        "nodes",
        "inputs",
        "outputs",
        "value_info",
        "initializers",
        "sparse_initializers",
        "others",
    )

    def __init__(self) -> None:
        self.nodes: List[OnnxNode] = []
        self.inputs: List[OnnxValue] = []
        self.outputs: List[OnnxValue] = []
        self.value_info: Dict[str, OnnxValue] = {}
        self.initializers: Dict[str, OnnxTensor] = {}
        self.sparse_initializers: Dict[str, Span] = {}
        self.others: List[Span] = []

    @property
    def data_inputs(self) -> List[OnnxValue]:
        """The inputs that must be fed: those that are not initializers."""
        return [
            value
            for value in self.inputs
            if value.name not in self.initializers and value.name not in self.sparse_initializers
        ]

    def walk(self) -> Iterator[OnnxGraph]:
        """Yield this graph and all graphs in its nodes' attributes."""
        yield self
        for node in self.nodes:
            for graph in node.graphs.values():
                yield from graph.walk()

    def tensors(self) -> Iterator[OnnxTensor]:
        """Yield all tensors of this graph and of those within."""
        for graph in self.walk():
            yield from graph.initializers.values()
            for node in graph.nodes:
                yield from node.tensors.values()


class OnnxModel:
    """A ModelProto.

    Attributes
    ----------
    path
        The file.
    ir_version
        As written.
    opsets
        Version by domain; ``ai.onnx`` is the empty domain.
    producer
        Name and version of the program that wrote it; may be empty.
    graph
        The main graph.
    functions
        The nodes of each local function, by (domain, name).
    others
        Positions of all top-level fields but the graph, tags included.

    Raises
    ------
    MissingPath
        There is no such file.
    FormatError, TruncatedFile
        It is something else, a pointer of Git LFS, empty, cut short, or has no graph.
    """

    def __init__(self, path: str) -> None:
        if os.path.isdir(path):
            raise MissingPath("MODEL: %s is a folder" % path, hint=HINT)
        self.path = path
        self.ir_version = 0
        self.opsets: Dict[str, int] = {}
        self.producer = ""
        self.graph = OnnxGraph()
        self.functions: Dict[Tuple[str, str], List[OnnxNode]] = {}
        self.others: List[Span] = []
        with self.open() as file:
            start = file.window.piece(0, 64)
            for offset, magic, kind in _OTHERS:
                if start[offset:].startswith(magic):
                    raise InputError("%s: not an ONNX model but %s" % (self.path, kind), hint=HINT)
            has_graph = False
            for record in file.records():
                if record.number not in _MODEL_FIELDS or (
                    record.number == 1 and record.wire != VARINT
                ):
                    raise FormatError(
                        "byte %d: field %d is not one of an ONNX model"
                        % (record.start, record.number),
                        path,
                        hint=HINT,
                    )
                if record.number == _GRAPH and record.wire == BYTES:
                    has_graph = True
                    _read_graph(file, record.first, record.last, self.graph, 0)
                    continue
                self.others.append((record.start, record.last))
                self._read(file, record)
        if not has_graph:
            raise FormatError("no graph in it: not an ONNX model", path, hint=HINT)

    def _read(self, file: WireFile, record: Record) -> None:
        if record.number == 1:
            self.ir_version = record.first
        elif record.wire != BYTES:
            return
        elif record.number in (2, 3):
            self.producer = " ".join((self.producer, file.text(record.first, record.last))).strip()
        elif record.number == _OPSETS:
            opset = file.read(_OPSET, record.first, record.last)
            self.opsets["" if opset.domain == "ai.onnx" else opset.domain] = opset.version
        elif record.number == _FUNCTIONS:
            function = file.read(_FUNCTION, record.first, record.last)
            self.functions[function.domain, function.name] = [
                _node(file, inner, 0)
                for inner in file.inside(record.first, record.last)
                if (inner.number, inner.wire) == (7, BYTES)
            ]

    def open(self) -> WireFile:
        """Open the file again; for :meth:`attr_int`, and for copying."""
        return WireFile(self.path, "MODEL", HINT)

    def attr_int(self, file: WireFile, node: OnnxNode, name: str) -> Optional[int]:
        """Return an integer attribute, or None."""
        span = node.attrs.get(name)
        return None if span is None else file.read(ATTRIBUTE, *span).integer


def _read_graph(file: WireFile, start: int, end: int, graph: OnnxGraph, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise FormatError("graphs within graphs, deeper than %d" % _MAX_DEPTH, file.path, hint=HINT)
    for record in file.inside(start, end):
        number, span = record.number, (record.first, record.last)
        if record.wire != BYTES:
            graph.others.append((record.start, record.last))
        elif number == 1:
            graph.nodes.append(_node(file, record, depth))
        elif number == 5:
            tensor = read_tensor(file, span)
            graph.initializers[tensor.name] = tensor
        elif number == 11:
            graph.inputs.append(read_value(file, span))
        elif number == 12:
            graph.outputs.append(read_value(file, span))
        elif number == 13:
            value = read_value(file, span)
            graph.value_info[value.name] = value
        elif number == 15:
            values = file.read(_SPARSE, *span).values
            name = "" if values is None else read_tensor(file, values).name
            graph.sparse_initializers[name] = span
        else:
            graph.others.append((record.start, record.last))


def _node(file: WireFile, record: Record, depth: int) -> OnnxNode:
    node = OnnxNode(record)
    read = file.read(_NODE, record.first, record.last)
    node.name, node.op_type, node.domain = read.name, read.op_type, read.domain
    node.inputs, node.outputs = read.inputs, read.outputs
    for span in read.attrs:
        attr = file.read(_ATTRIBUTE_HEADER, *span)
        node.attrs[attr.name] = span
        if attr.tensor is not None:
            node.tensors[attr.name] = read_tensor(file, attr.tensor)
        if attr.graph is not None:
            node.graphs[attr.name] = OnnxGraph()
            first, last = attr.graph
            _read_graph(file, first, last, node.graphs[attr.name], depth + 1)
    return node
