"""An ONNX model with additions, as bytes: messages one behind the other are one message, so nothing
is parsed and no weight copied.

Source: protobuf's encoding guide (merging of repeated and embedded fields); onnx.proto for the
field numbers.
"""

from __future__ import annotations

import io
from typing import Collection, Dict, List, Mapping, Sequence, Tuple, Union

from ...base.protowire import BYTES, field, varint
from ...netfiles.onnx_model import OnnxGraph, OnnxNode
from ...netfiles.onnx_value_headers import OnnxTensor, OnnxValue
from ...netfiles.protobuf_file import Span, WireFile

_GRAPH = 7


def with_additions(
    file: WireFile,
    additions: bytes,
    without: Collection[OnnxNode] = (),
    without_values: Collection[Union[OnnxValue, OnnxTensor]] = (),
) -> bytes:
    """Return the model's bytes.

    Parameters
    ----------
    additions
        Fields of a GraphProto, to stand behind its own.
    without
        Nodes of the main graph that are left out.
    without_values
        Outputs and initializers of the main graph that are left out.
    """
    out = io.BytesIO()
    gaps = [(node.record.start, node.record.last) for node in without]
    for value in without_values:
        first, last = value.span
        gaps.append((first - 1 - len(varint(last - first)), last))
    gaps.sort()
    for record in file.records():
        if record.number != _GRAPH or record.wire != BYTES:
            file.copy([(record.start, record.last)], out)
            continue
        for first, last in _between(record.first, record.last, gaps):
            out.write(varint(_GRAPH << 3 | BYTES) + varint(last - first))
            file.copy([(first, last)], out)
    out.write(field(_GRAPH, additions))
    return out.getvalue()


def _between(first: int, last: int, gaps: Sequence[Span]) -> List[Span]:
    spans = []
    for start, stop in gaps:
        if first <= start < last:
            spans.append((first, start))
            first = stop
    return [*spans, (first, last)]


def encoded(text: str) -> bytes:
    """Return a name as it stands in the file."""
    return text.encode("utf-8", "surrogateescape")


def output_of(name: str) -> bytes:
    """Return a graph output without a type: the framework infers it."""
    return field(12, field(1, encoded(name)))


def input_of(name: str, dtype: int, shape: Sequence[int]) -> bytes:
    """Return a graph input."""
    dims = b"".join(field(1, field(1, dim)) for dim in shape)
    return field(11, field(1, encoded(name)) + field(2, field(1, field(1, dtype) + field(2, dims))))


def initializer_of(name: str, dtype: int, shape: Sequence[int], raw: bytes) -> bytes:
    """Return an initializer."""
    return field(
        5,
        b"".join(field(1, dim) for dim in shape)
        + field(2, dtype)
        + field(8, encoded(name))
        + field(9, raw),
    )


def node_of(op_type: str, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """Return a node of ONNX's own domain without attributes."""
    body = b"".join(field(1, encoded(name)) for name in inputs) + b"".join(
        field(2, encoded(name)) for name in outputs
    )
    return field(1, body + field(4, op_type.encode("ascii")))


def cast_of(source: str, target: str, dtype: int) -> bytes:
    """Return a Cast of a value to a type."""
    to = field(1, b"to") + field(3, dtype) + field(20, 2)
    names = field(1, encoded(source)) + field(2, encoded(target))
    return field(1, names + field(4, b"Cast") + field(5, to))


def with_inputs(file: WireFile, node: OnnxNode, inputs: Sequence[str]) -> bytes:
    """Return a node that reads other values."""
    body = b"".join(field(1, encoded(name)) for name in inputs)
    return field(1, body + _rest(file, (node.record.first, node.record.last), (1,)))


def inlined(
    file: WireFile, body: OnnxGraph, prefix: str, around: Mapping[str, str]
) -> Tuple[bytes, Dict[str, str]]:
    """Return the nodes and initializers of a body as fields of the main graph, and the new names of
    the values that it can read.

    Parameters
    ----------
    prefix
        What the new names begin with.
    around
        The new names of the values of the bodies around it.
    """
    renamed = dict(around)
    renamed.update({name: prefix + name for node in body.nodes for name in node.outputs if name})
    renamed.update(
        {name: prefix + name for name in (*body.initializers, *body.sparse_initializers)}
    )
    fields = [field(1, _node(file, node, renamed, prefix)) for node in body.nodes]
    for name, tensor in body.initializers.items():
        fields.append(field(5, _rest(file, tensor.span, (8,)) + field(8, encoded(renamed[name]))))
    return b"".join(fields), renamed


def _rest(file: WireFile, span: Span, left_out: Collection[int]) -> bytes:
    """Return the fields of a message except those of some numbers."""
    out = io.BytesIO()
    file.copy(file.without(span, left_out), out)
    return out.getvalue()


def _node(file: WireFile, node: OnnxNode, renamed: Mapping[str, str], prefix: str) -> bytes:
    out = b"".join(field(1, encoded(renamed.get(name, name))) for name in node.inputs)
    out += b"".join(field(2, encoded(renamed.get(name, name))) for name in node.outputs)
    if node.name:
        out += field(3, encoded(prefix + node.name))
    out += _rest(file, (node.record.first, node.record.last), (1, 2, 3, 5))
    for name, span in node.attrs.items():
        graph = node.graphs.get(name)
        attr = (
            file.window.piece(*span)
            if graph is None
            else _rest(file, span, (6,)) + field(6, _within(file, graph, renamed, prefix))
        )
        out += field(5, attr)
    return out


def _within(file: WireFile, graph: OnnxGraph, renamed: Mapping[str, str], prefix: str) -> bytes:
    """Return a graph within a node: what it takes from outside has new names, what it makes itself
    keeps its own.
    """
    inner_names = {name for node in graph.nodes for name in node.outputs} | {
        value.name for value in graph.inputs
    }
    inner_names |= set(graph.initializers) | set(graph.sparse_initializers)
    outer = {name: new for name, new in renamed.items() if name not in inner_names}
    out = b"".join(field(1, _node(file, node, outer, prefix)) for node in graph.nodes)
    for tensor in graph.initializers.values():
        out += field(5, file.window.piece(*tensor.span))
    for span in graph.sparse_initializers.values():
        out += field(15, file.window.piece(*span))
    out += b"".join(field(11, file.window.piece(*value.span)) for value in graph.inputs)
    for value in graph.outputs:
        out += field(
            12, field(1, encoded(outer.get(value.name, value.name))) + _rest(file, value.span, (1,))
        )
    out += b"".join(
        field(13, file.window.piece(*value.span)) for value in graph.value_info.values()
    )
    rest = io.BytesIO()
    file.copy(graph.others, rest)
    return out + rest.getvalue()
