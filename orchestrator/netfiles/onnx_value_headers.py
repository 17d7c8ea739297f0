"""Reads the headers of tensors and values of an ONNX model in place.

Source of the field numbers: onnx.proto (TensorProto, SparseTensorProto, ValueInfoProto, TypeProto,
TensorShapeProto).
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

from ..errors import FormatError
from ..protowire import BYTES, VARINT, read_varints
from .onnx_types import TYPES
from .protobuf_file import Span, WireFile, signed

Dim = Union[int, str, None]
# What exporters call dims that they do not know (paddle2onnx, tf2onnx): two of them need not have
# one size.
_ANONYMOUS = re.compile(r"\s*(?:\?*|unk__[0-9]+)\s*\Z")
_EXTERNAL = 1
_KINDS = {1: "tensor", 4: "sequence", 5: "map", 8: "sparse tensor", 9: "optional"}


class OnnxTensor(NamedTuple):
    """A TensorProto's header.

    Attributes
    ----------
    name
        Of an initializer; a tensor in an attribute has none.
    dtype
        Number of its element type (:data:`~.onnx_types.TYPES`).
    dims
        Its shape.
    external
        ``location``, ``offset``, ``length`` … as written if its data is in another file; else None.
    raw
        Position of its raw data in the file; None if it has none (external data, or a list of
        numbers).
    span
        Position of the TensorProto.
    """

    name: str
    dtype: int
    dims: Tuple[int, ...]
    external: Optional[Dict[str, str]]
    raw: Optional[Span]
    span: Span

    @property
    def elements(self) -> int:
        """Number of elements."""
        total = 1
        for dim in self.dims:
            total *= dim
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of its data in storage; 0 for strings and unknown types."""
        return TYPES[self.dtype].nbytes(self.elements) if self.dtype in TYPES else 0


class OnnxValue(NamedTuple):
    """A ValueInfoProto.

    Attributes
    ----------
    name
        Of the value.
    kind
        ``tensor``, ``sequence``, ``map``, ``sparse tensor`` or ``optional``; empty when it does not
        say.
    dtype
        Number of the element type; 0 when it does not say.
    shape
        Of each dim its size, its name, or None; None when the rank is unknown.
    span
        Position of the ValueInfoProto.
    """

    name: str
    kind: str
    dtype: int
    shape: Optional[Tuple[Dim, ...]]
    span: Span

    @property
    def sizes(self) -> Optional[Tuple[Optional[int], ...]]:
        """The shape with None for each unknown dim; None when the rank is unknown."""
        return (
            None
            if self.shape is None
            else tuple(dim if isinstance(dim, int) else None for dim in self.shape)
        )


def read_tensor(file: WireFile, span: Span) -> OnnxTensor:
    """Return the header of the TensorProto at ``span``; raises FormatError where there is none."""
    dims: List[int] = []
    name, dtype, raw = "", 0, None
    external: Dict[str, str] = {}
    is_external = False
    for number, wire, first, last in file.inside(*span):
        if number == 1 and wire == VARINT:
            dims.append(first)
        elif number == 1 and wire == BYTES:
            dims += read_varints(file.window, first, last)
        elif number == 2 and wire == VARINT:
            dtype = first
        elif number == 8 and wire == BYTES:
            name = file.text(first, last)
        elif number == 9 and wire == BYTES:
            raw = (first, last)
        elif number == 13 and wire == BYTES:
            entry = {
                inner: file.text(begin, end)
                for inner, kind, begin, end in file.inside(first, last)
                if kind == BYTES
            }
            external[entry.get(1, "")] = entry.get(2, "")
        elif number == 14 and wire == VARINT:
            is_external = first == _EXTERNAL
    if any(dim >> 63 for dim in dims):
        raise FormatError(
            "tensor %s has a negative dim" % (name or "at byte %d" % span[0]), file.path
        )
    return OnnxTensor(name, dtype, tuple(dims), external if is_external else None, raw, span)


def read_value(file: WireFile, span: Span) -> OnnxValue:
    """Return the ValueInfoProto at ``span``; raises FormatError where there is none."""
    name, kind, dtype = "", "", 0
    shape: Optional[Tuple[Dim, ...]] = None
    for number, wire, first, last in file.inside(*span):
        if number == 1 and wire == BYTES:
            name = file.text(first, last)
        elif number == 2 and wire == BYTES:
            for inner, form, begin, end in file.inside(first, last):
                if inner in _KINDS and form == BYTES:
                    kind = _KINDS[inner]
                    if kind == "tensor":
                        dtype, shape = _tensor_type(file, begin, end)
    return OnnxValue(name, kind, dtype, shape, span)


def _tensor_type(file: WireFile, start: int, end: int) -> Tuple[int, Optional[Tuple[Dim, ...]]]:
    dtype, shape = 0, None
    for number, wire, first, last in file.inside(start, end):
        if number == 1 and wire == VARINT:
            dtype = first
        elif number == 2 and wire == BYTES:
            shape = tuple(
                _dim(file, begin, stop)
                for inner, form, begin, stop in file.inside(first, last)
                if (inner, form) == (1, BYTES)
            )
    return dtype, shape


def _dim(file: WireFile, start: int, end: int) -> Dim:
    for number, wire, first, last in file.inside(start, end):
        if number == 1 and wire == VARINT:
            # Exporters write -1 for a dim that they do not know.
            return None if signed(first) < 0 else first
        if number == 2 and wire == BYTES:
            name = file.text(first, last)
            return None if _ANONYMOUS.match(name) else name
    return None
