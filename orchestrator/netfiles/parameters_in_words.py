"""Parameters of layers, GraphDef nodes and ONNX nodes as text to display. Weights are shown by type
and shape.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterator, List, Sequence, Tuple

from .caffe_net import Layer
from .graphdef import ATTR_VALUE, TENSOR, attr_values, shape_of
from .onnx_model import ATTRIBUTE
from .onnx_types import type_name
from .onnx_value_headers import read_tensor
from .protobuf_file import Span, WireFile
from .protobuf_text import Message
from .tf_op_outputs import DTYPES

Parameters = List[Tuple[str, str]]

MOST_LETTERS = 300
_MOST_ENTRIES = 64
_NOT_PARAMETERS = frozenset(["name", "type", "bottom", "top"])


def shortened(text: str) -> str:
    """Return a value with at most 300 letters; what is left out is counted."""
    rest = len(text) - MOST_LETTERS
    return text if rest <= 0 else "%s … (%d letters more)" % (text[:MOST_LETTERS], rest)


def layer_parameters(layer: Layer) -> Parameters:
    """Return the fields of a layer of a prototxt, those of messages in it as ``message.field``, but
    for name, type, bottoms and tops.
    """
    return list(_fields(layer.message, "", _NOT_PARAMETERS))


def _fields(
    message: Message, prefix: str, without: FrozenSet[str] = frozenset()
) -> Iterator[Tuple[str, str]]:
    for field in message.fields:
        if field.name in without:
            continue
        texts = [value.text for value in field.values if value.message is None]
        if texts:
            yield prefix + field.name, shortened(", ".join(texts))
        for value in field.values:
            if value.message is not None:
                yield from _fields(value.message, "%s%s." % (prefix, field.name))


def graphdef_parameters(file: WireFile, attrs: Dict[str, Span]) -> Parameters:
    """Return the attributes of a GraphDef's node (attr_value.proto)."""

    def tensor_words(span: Span) -> str:
        tensor = file.read(TENSOR, *span)
        dtype = DTYPES.get(tensor.dtype, str(tensor.dtype))
        return "%s %s" % (dtype, _words(shape_of(tensor.shape) or ()))

    parameters = []
    for key, span in attrs.items():
        attr = file.read(ATTR_VALUE, *span)
        words = _listed(attr_values(attr, tensor_words))
        if attr.list is not None:
            words.append("[%s]" % ", ".join(_listed(attr_values(attr.list, tensor_words))))
        words += [] if attr.placeholder is None else [attr.placeholder]
        words += [] if attr.function is None else ["function " + attr.function.name]
        parameters.append((key, shortened(", ".join(words))))
    return parameters


def onnx_parameters(file: WireFile, attrs: Dict[str, Span]) -> Parameters:
    """Return the attributes of an ONNX node (AttributeProto)."""

    def tensor_words(span: Span) -> str:
        tensor = read_tensor(file, span)
        return "%s %s" % (type_name(tensor.dtype), _words(tensor.dims))

    parameters = []
    for key, span in attrs.items():
        attr = file.read(ATTRIBUTE, *span)
        singles = [attr.floating, attr.integer, attr.string]
        words = _listed([value for value in singles if value is not None])
        words += [] if attr.tensor is None else [tensor_words(attr.tensor)]
        words += [] if attr.graph is None else ["a graph"]
        entries = [*attr.floats, *attr.integers, *attr.strings, *map(tensor_words, attr.tensors)]
        entries += ["a graph"] * len(attr.graphs)
        words += ["[%s]" % ", ".join(_listed(entries))] if entries else []
        parameters.append((key, shortened(", ".join(words))))
    return parameters


def _listed(values: Sequence[Any]) -> List[str]:
    return [*map(_words, values[:_MOST_ENTRIES])] + ["…"] * (len(values) > _MOST_ENTRIES)


def _words(value: Any) -> str:
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "%.9g" % value
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "scalar"
    # Bytes that are no UTF-8 as escapes.
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
