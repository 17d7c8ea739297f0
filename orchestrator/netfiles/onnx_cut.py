"""Cuts nodes out of an ONNX model: nodes, weights and functions copied byte for byte, inputs and
outputs added.

Source of the field numbers: onnx.proto.
"""

from __future__ import annotations

from typing import (
    BinaryIO,
    Callable,
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

from ..base.errors import TruncatedFile
from ..base.protowire import BYTES, field, read_varint, varint
from ..base.safe_reading import open_input
from .onnx_external_data import ExternalRange, external_range
from .onnx_model import OnnxGraph, OnnxModel, OnnxNode
from .onnx_types import BY_NAME
from .onnx_value_headers import OnnxTensor, OnnxValue, read_tensor, read_value
from .protobuf_file import Piece, Span, WireFile, size_of

_COPY_BYTES = 1 << 20
_PAGE = 4096
_TRAINING = 20
Dims = Tuple[Optional[int], ...]


class Border(NamedTuple):
    """An input or output of the cut: the value's name, its type (empty: unknown) and its shape
    (None: unknown; also for single dims).
    """

    name: str
    dtype: str
    shape: Optional[Dims]


def captured(node: OnnxNode) -> List[str]:
    """Return the values from outside that the graphs in a node's attributes read, each once."""
    names: Dict[str, None] = {}
    for graph in node.graphs.values():
        inner_names = (
            {value.name for value in graph.inputs}
            | set(graph.initializers)
            | set(graph.sparse_initializers)
        )
        inner_names |= {name for inner in graph.nodes for name in inner.outputs}
        read = [name for inner in graph.nodes for name in [*inner.inputs, *captured(inner)]] + [
            value.name for value in graph.outputs
        ]
        names.update((name, None) for name in read if name and name not in inner_names)
    return list(names)


class Rewriting:
    """Replaces messages of a cut: each method returns the pieces of a new message, or None to keep
    it."""

    def tensor(self, file: WireFile, tensor: OnnxTensor) -> Optional[List[Piece]]:
        """Return a new TensorProto, or None."""
        return None

    def attribute(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        """Return a new AttributeProto for one with neither graph nor tensor, or None."""
        return None

    def value(self, file: WireFile, value: OnnxValue) -> Optional[List[Piece]]:
        """Return another ValueInfoProto, of a body or of a value within the cut."""
        return None


class ExternalData(Rewriting):
    """Weights that lie beside the model go to a file beside the cut.

    Parameters
    ----------
    model_path
        The model.
    location
        What the new file is called.

    Attributes
    ----------
    nbytes
        How long the new file is; 0: there is none.
    """

    def __init__(self, model_path: str, location: str) -> None:
        self.nbytes = 0
        self._model_path, self._location = model_path, location
        self._ranges: List[Tuple[ExternalRange, int]] = []

    def tensor(self, file: WireFile, tensor: OnnxTensor) -> Optional[List[Piece]]:
        """Return a tensor that names its place in the new file; raises as
        :func:`~.onnx_external_data.external_range`.
        """
        if tensor.external is None:
            return None
        data_range = external_range(self._model_path, tensor)
        offset = -(-self.nbytes // _PAGE) * _PAGE if data_range.length >= _PAGE else self.nbytes
        self._ranges.append((data_range, offset))
        self.nbytes = offset + data_range.length
        entries = (
            ("location", self._location),
            ("offset", str(offset)),
            ("length", str(data_range.length)),
        )
        entries_bytes = b"".join(
            field(13, field(1, key.encode()) + field(2, value.encode())) for key, value in entries
        )
        return [*file.without(tensor.span, (13,)), entries_bytes]

    def write(self, stream: BinaryIO) -> None:
        """Write the new file; raises TruncatedFile where one of the model's has become shorter."""
        at = 0
        for data_range, offset in self._ranges:
            stream.write(bytes(offset - at))
            with open_input(data_range.path) as source:
                source.seek(data_range.offset)
                left = data_range.length
                while left:
                    piece = source.read(min(_COPY_BYTES, left))
                    if not piece:
                        end = data_range.offset + data_range.length
                        raise TruncatedFile(
                            "the file has become shorter while it was read",
                            data_range.path,
                            end,
                            end - left,
                        )
                    stream.write(piece)
                    left -= len(piece)
            at = offset + data_range.length


class OnnxCut:
    """A cut to be written.

    Parameters
    ----------
    model
        The whole model.
    nodes
        Number of each node of its main graph that stays, to the name that it is to have.
    inputs, outputs
        Of the cut; those that the model declares so stay byte for byte.
    rewriting
        What else becomes of its messages.
    renamed
        Values that nodes of the main graph read to what they are called in the cut; no body reads
        one of them.
    """

    def __init__(
        self,
        model: OnnxModel,
        nodes: Mapping[int, str],
        inputs: Sequence[Border],
        outputs: Sequence[Border],
        rewriting: Rewriting,
        renamed: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._model, self._rewriting, self._renamed = model, rewriting, renamed or {}
        with model.open() as file:
            self._pieces = self._graph(file, nodes, inputs, outputs)

    @property
    def model_bytes(self) -> int:
        """About how long the model is."""
        return size_of(self._pieces)

    def write(self, stream: BinaryIO) -> None:
        """Write the model."""
        with self._model.open() as file:
            tags = [(read_varint(file.window, *span)[0] >> 3, span) for span in self._model.others]
            file.copy([span for number, span in tags if number != _TRAINING], stream)
            file.write(self._pieces, stream)

    def _graph(
        self,
        file: WireFile,
        nodes: Mapping[int, str],
        inputs: Sequence[Border],
        outputs: Sequence[Border],
    ) -> List[Piece]:
        graph = self._model.graph
        named_nodes = [(graph.nodes[number], name) for number, name in sorted(nodes.items())]
        read = {name for node, _ in named_nodes for name in [*node.inputs, *captured(node)]}
        inner = {name for node, _ in named_nodes for name in node.outputs} - {
            border.name for border in outputs
        }
        pieces = [piece for node, name in named_nodes for piece in self._named(file, node, name)]
        pieces += self._weights(file, graph, read)
        for number, values in (
            (11, self._weight_inputs(graph, read)),
            (13, [v for v in graph.value_info.values() if v.name in inner]),
        ):
            for value in values:
                pieces += _field(number, self._rewriting.value(file, value) or [value.span])
        declared = {
            value.name: value
            for value in [*graph.inputs, *graph.value_info.values(), *graph.outputs]
        }
        for number, borders in ((11, inputs), (12, outputs)):
            for border in borders:
                pieces += _field(number, _value(border, declared.get(border.name)))
        return _field(7, [*graph.others, *pieces])

    def _weight_inputs(self, graph: OnnxGraph, read: Set[str]) -> List[OnnxValue]:
        """Return the inputs of the graph that are weights, too, as older models have them."""
        data = {value.name for value in graph.data_inputs}
        return [value for value in graph.inputs if value.name in read and value.name not in data]

    def _weights(self, file: WireFile, graph: OnnxGraph, read: Set[str]) -> Iterator[Piece]:
        for tensor in graph.initializers.values():
            if tensor.name in read:
                yield from _field(5, self._rewriting.tensor(file, tensor) or [tensor.span])
        for name, span in graph.sparse_initializers.items():
            if name in read:
                yield from _field(15, [span])

    def _named(self, file: WireFile, node: OnnxNode, name: str) -> List[Piece]:
        edited = _edited(
            file, (node.record.first, node.record.last), {1: self._read, 5: self._attribute}
        )
        if edited is None and node.name == name:
            return [(node.record.start, node.record.last)]
        body = [(node.record.first, node.record.last)] if edited is None else edited
        # Of a field that comes twice the last one counts.
        return _field(
            1,
            [
                *body,
                *([field(3, name.encode("utf-8", "surrogateescape"))] if node.name != name else []),
            ],
        )

    def _read(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        name = self._renamed.get(file.text(*span))
        return None if name is None else [name.encode("utf-8", "surrogateescape")]

    def _node(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        return _edited(file, span, {5: self._attribute})

    def _attribute(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        inner = _edited(
            file, span, {5: self._tensor, 6: self._body, 10: self._tensor, 11: self._body}
        )
        return self._rewriting.attribute(file, span) if inner is None else inner

    def _tensor(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        return self._rewriting.tensor(file, read_tensor(file, span))

    def _inner_value(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        return self._rewriting.value(file, read_value(file, span))

    def _body(self, file: WireFile, span: Span) -> Optional[List[Piece]]:
        values = dict.fromkeys((11, 12, 13), self._inner_value)
        return _edited(file, span, {1: self._node, 5: self._tensor, **values})


def _edited(
    file: WireFile,
    span: Span,
    editors: Mapping[int, Callable[[WireFile, Span], Optional[List[Piece]]]],
) -> Optional[List[Piece]]:
    """Return the message at ``span`` with some of its fields edited; None where all stay."""
    pieces: List[Piece] = []
    changed = False
    for number, wire, start, first, last in file.inside(*span):
        edited = (
            editors[number](file, (first, last)) if number in editors and wire == BYTES else None
        )
        pieces += [(start, last)] if edited is None else _field(number, edited)
        changed = changed or edited is not None
    return pieces if changed else None


def _field(number: int, pieces: Sequence[Piece]) -> List[Piece]:
    return [varint(number << 3 | BYTES) + varint(size_of(pieces)), *pieces]


def _value(border: Border, declared: Optional[OnnxValue]) -> List[Piece]:
    if (
        declared is not None
        and declared.kind == "tensor"
        and declared.dtype == _code(border.dtype)
        and _agrees(border.shape, declared)
    ):
        return [declared.span]
    body = field(1, border.name.encode("utf-8", "surrogateescape"))
    if not border.dtype:
        return [body]
    tensor = field(1, _code(border.dtype))
    if border.shape is not None:
        dims = b"".join(field(1, b"" if dim is None else field(1, dim)) for dim in border.shape)
        tensor += varint(2 << 3 | BYTES) + varint(len(dims)) + dims
    return [body + field(2, field(1, tensor))]


def _agrees(shape: Optional[Dims], declared: OnnxValue) -> bool:
    """Return whether a shape says no more than the model does."""
    is_known = shape is not None and (not shape or any(dim is not None for dim in shape))
    return shape == declared.sizes or (not is_known and declared.shape is not None)


def _code(dtype: str) -> int:
    return BY_NAME[dtype].code if dtype in BY_NAME else 0
