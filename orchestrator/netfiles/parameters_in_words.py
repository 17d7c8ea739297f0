"""Parameters of layers, GraphDef nodes and ONNX nodes as text to display. Weights are shown by type
and shape.
"""

from __future__ import annotations

import struct
from typing import Callable, Dict, FrozenSet, Iterator, List, Optional, Tuple

from ..protowire import BYTES, VARINT, read_varints
from .caffe_net import Layer
from .onnx_types import type_name
from .onnx_value_headers import read_tensor
from .protobuf_file import Span, WireFile, numbers_of, signed
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
    return [(key, shortened(", ".join(_tf_values(file, span)))) for key, span in attrs.items()]


def _tf_values(file: WireFile, span: Span) -> List[str]:
    values: List[str] = []
    for number, wire, first, last in file.inside(*span):
        if len(values) >= _MOST_ENTRIES:
            return [*values, "…"]
        if number == 1 and wire == BYTES:
            values += ["[%s]" % ", ".join(_tf_values(file, (first, last)))]
        elif number in (2, 9) and wire == BYTES:
            values.append(_text(file, first, last))
        elif number == 3:
            values += _integers(file, wire, first, last)
        elif number == 4:
            values += _floats(file, first, last)
        elif number == 5 and wire == VARINT:
            values.append("true" if first else "false")
        elif number == 6:
            values += [
                DTYPES.get(int(value) % 100, value) for value in _integers(file, wire, first, last)
            ]
        elif number == 7 and wire == BYTES:
            values.append(_tf_shape(file, first, last))
        elif number == 8 and wire == BYTES:
            values.append(_tf_tensor(file, first, last))
        elif number == 10 and wire == BYTES:
            values.append("function " + (_inner_text(file, (first, last), 1) or ""))
    return values


def _tf_tensor(file: WireFile, first: int, last: int) -> str:
    dtype, shape = "", "scalar"
    for number, wire, begin, end in file.inside(first, last):
        if number == 1 and wire == VARINT:
            dtype = DTYPES.get(begin, str(begin))
        elif number == 2 and wire == BYTES:
            shape = _tf_shape(file, begin, end)
    return "%s %s" % (dtype, shape)


def _tf_shape(file: WireFile, first: int, last: int) -> str:
    dims = []
    for number, wire, begin, end in file.inside(first, last):
        if number == 3 and wire == VARINT and begin:
            return "?"
        if number == 2 and wire == BYTES:
            sizes = [
                signed(value)
                for inner, kind, value, _ in file.inside(begin, end)
                if (inner, kind) == (1, VARINT)
            ]
            dims.append(str(sizes[0]) if sizes else "0")
    return ",".join(dims) or "scalar"


def onnx_parameters(file: WireFile, attrs: Dict[str, Span]) -> Parameters:
    """Return the attributes of an ONNX node (AttributeProto)."""
    return [(key, shortened(_onnx_value(file, span))) for key, span in attrs.items()]


def _onnx_value(file: WireFile, span: Span) -> str:
    singles: Dict[int, Callable[[int, int], str]] = {
        4: lambda first, last: _text(file, first, last),
        5: lambda first, last: _onnx_tensor(file, (first, last)),
        6: lambda first, last: "a graph",
    }
    values: List[str] = []
    listed = False
    for number, wire, first, last in file.inside(*span):
        if number == 3 and wire == VARINT:
            values.append(str(signed(first)))
        elif number in (2, 7):
            values += _floats(file, first, last)
        elif number in singles and wire == BYTES:
            values.append(singles[number](first, last))
        elif number in (9, 10, 11) and wire == BYTES:
            values.append(singles[number - 5](first, last))
        listed = listed or 7 <= number <= 11
    ints = numbers_of(file, span, 8)
    values += [str(value) for value in ints[:_MOST_ENTRIES]] + ["…"] * (len(ints) > _MOST_ENTRIES)
    return "[%s]" % ", ".join(values) if listed else ", ".join(values)


def _onnx_tensor(file: WireFile, span: Span) -> str:
    tensor = read_tensor(file, span)
    return "%s %s" % (type_name(tensor.dtype), ",".join(map(str, tensor.dims)) or "scalar")


def _integers(file: WireFile, wire: int, first: int, last: int) -> List[str]:
    """Return the varint that a field is, or those that are packed in it."""
    if wire == VARINT:
        return [str(signed(first))]
    integers = []
    for value in read_varints(file.window, first, last):
        integers.append(str(signed(value)))
        if len(integers) == _MOST_ENTRIES:
            return [*integers, "…"]
    return integers


def _floats(file: WireFile, first: int, last: int) -> List[str]:
    count = min((last - first) // 4, _MOST_ENTRIES)
    values = struct.unpack("<%df" % count, file.window.piece(first, first + 4 * count))
    return ["%.9g" % value for value in values] + ["…"] * ((last - first) // 4 > count)


def _text(file: WireFile, first: int, last: int) -> str:
    """Return a string's beginning; bytes that are no UTF-8 as escapes."""
    piece = file.window.piece(first, min(last, first + 4 * MOST_LETTERS))
    return piece.decode("utf-8", "backslashreplace")


def _inner_text(file: WireFile, span: Span, field_number: int) -> Optional[str]:
    return next(
        (
            _text(file, first, last)
            for number, wire, first, last in file.inside(*span)
            if (number, wire) == (field_number, BYTES)
        ),
        None,
    )
