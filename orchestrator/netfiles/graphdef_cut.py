"""Cuts nodes out of a frozen graph: nodes copied byte for byte, placeholders added, versions and
library kept.
"""

from __future__ import annotations

from typing import BinaryIO, Collection, List, Mapping, Sequence, Tuple

from ..base.errors import InputError
from ..base.naming import printable
from ..base.protowire import BYTES, Fields, field, text, varint
from .graphdef import GraphFile, GraphNode
from .protobuf_file import Piece, Span, WireFile, size_of
from .tf_op_outputs import DTYPES

Shape = Tuple[int, ...]
_NUMBERS = {name: number for number, name in DTYPES.items()}
_LOC = "loc:@"
_ENTRY = Fields(key=text(1))


def placeholder(name: str, dtype: str, shape: Shape) -> bytes:
    """Return a NodeDef of type Placeholder; ``dtype`` as in
    :data:`goldwatch.netfiles.tf_op_outputs.DTYPES`.
    """
    dims = b"".join(field(2, field(1, dim)) for dim in shape)
    attrs = (
        ("dtype", field(6, _NUMBERS[dtype])),
        ("shape", varint(7 << 3 | BYTES) + varint(len(dims)) + dims),
    )
    body = field(1, name.encode("utf-8", "surrogateescape")) + field(2, b"Placeholder")
    return body + b"".join(
        field(5, field(1, key.encode("ascii")) + field(2, value)) for key, value in attrs
    )


def write_graph(
    graph: GraphFile,
    nodes: Sequence[int],
    placeholders: Sequence[Tuple[str, str, Shape]],
    renamed: Mapping[str, str],
    dropped_controls: Collection[Tuple[str, str]],
    dropped_colocations: Collection[Tuple[str, str]],
    stream: BinaryIO,
) -> None:
    """Write a GraphDef that consists of some nodes.

    Parameters
    ----------
    nodes
        Numbers of the nodes that stay, in the file's order.
    placeholders
        The new inputs, each ``(name, dtype, shape)``; they come first.
    renamed
        The inputs (as written, ``name:k``) that are to be read from a placeholder of another name.
    dropped_controls, dropped_colocations
        ``(node, other)``: edges ``^other`` and ``_class`` entries ``loc:@other`` to remove.

    Raises
    ------
    InputError
        A placeholder's name is one of a node that stays.
    """
    names = {graph.nodes[number].name for number in nodes}
    touched = {node for node, _ in dropped_controls} | {node for node, _ in dropped_colocations}
    controls, colocations = set(dropped_controls), set(dropped_colocations)
    for name, dtype, shape in placeholders:
        if name in names:
            raise InputError("the new input %s has the name of a node that stays" % printable(name))
        stream.write(field(1, placeholder(name, dtype, shape)))
    with graph.open() as file:
        spans: List[Span] = []
        for number in nodes:
            node = graph.nodes[number]
            if node.name not in touched and not renamed.keys() & set(node.inputs):
                spans.append((node.record.start, node.record.last))
                continue
            file.copy(spans, stream)
            spans = []
            _write_edited(graph, file, node, renamed, controls, colocations, stream)
        file.copy(spans + graph.others, stream)


def _write_edited(
    graph: GraphFile,
    file: WireFile,
    node: GraphNode,
    renamed: Mapping[str, str],
    controls: Collection[Tuple[str, str]],
    colocations: Collection[Tuple[str, str]],
    stream: BinaryIO,
) -> None:
    """Write one node with other inputs or fewer; its attributes but ``_class`` stay byte for
    byte.
    """
    pieces: List[Piece] = []
    for number, wire, start, first, last in file.inside(node.record.first, node.record.last):
        if number == 3 and wire == BYTES:
            name = file.text(first, last)
            if not (name.startswith("^") and (node.name, name[1:]) in controls):
                pieces.append(field(3, renamed.get(name, name).encode("utf-8", "surrogateescape")))
        elif (number, wire) == (5, BYTES) and file.read(_ENTRY, first, last).key == "_class":
            dropped = {_LOC + other for name, other in colocations if name == node.name}
            listed = graph.attr(file, node, "_class").list
            value = b"".join(
                field(2, entry.encode("utf-8", "surrogateescape"))
                for entry in ([] if listed is None else listed.strings)
                if entry not in dropped
            )
            if value:
                pieces.append(field(5, field(1, b"_class") + field(2, field(1, value))))
        else:
            pieces.append((start, last))
    file.write([varint(1 << 3 | BYTES) + varint(size_of(pieces)), *pieces], stream)
