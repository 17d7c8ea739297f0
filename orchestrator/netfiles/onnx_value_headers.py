"""Reads the headers of tensors and values of an ONNX model in place.

Source of the field numbers: onnx.proto (TensorProto, SparseTensorProto, ValueInfoProto, TypeProto,
TensorShapeProto).
"""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from ..base.errors import FormatError
from ..base.protowire import Fields, each, integer, message, text, unsigned
from ..base.protowire import span as span_of
from .onnx_types import TYPES
from .protobuf_file import Span, WireFile

Dim = Union[int, str, None]
# What exporters call dims that they do not know (paddle2onnx, tf2onnx): two of them need not have
# one size.
_ANONYMOUS = re.compile(r"\s*(?:\?*|unk__[0-9]+)\s*\Z")
_EXTERNAL = 1
_TENSOR = Fields(
    dims=each(integer(1)),
    dtype=unsigned(2),
    name=text(8),
    raw=span_of(9),
    external=each(message(13, Fields(key=text(1), value=text(2)))),
    location=unsigned(14),
)
_SHAPE = Fields(dims=each(message(1, Fields(size=integer(1, None), name=text(2, None)))))
_TYPE = Fields(
    tensor=message(1, Fields(dtype=unsigned(1), shape=message(2, _SHAPE))),
    sequence=span_of(4),
    map=span_of(5),
    sparse_tensor=span_of(8),
    optional=span_of(9),
)
_KINDS = tuple(_TYPE.single)
_VALUE = Fields(name=text(1), type=message(2, _TYPE))


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
    tensor = file.read(_TENSOR, *span)
    if any(dim < 0 for dim in tensor.dims):
        raise FormatError(
            "tensor %s has a negative dim" % (tensor.name or "at byte %d" % span[0]), file.path
        )
    external = {entry.key: entry.value for entry in tensor.external}
    return OnnxTensor(
        tensor.name,
        tensor.dtype,
        tuple(tensor.dims),
        external if tensor.location == _EXTERNAL else None,
        tensor.raw,
        span,
    )


def read_value(file: WireFile, span: Span) -> OnnxValue:
    """Return the ValueInfoProto at ``span``; raises FormatError where there is none."""
    value = file.read(_VALUE, *span)
    kind = next((kind for kind in _KINDS if getattr(value.type, kind, None) is not None), "")
    if kind != "tensor":
        return OnnxValue(value.name, kind.replace("_", " "), 0, None, span)
    shape = value.type.tensor.shape
    return OnnxValue(
        value.name,
        kind,
        value.type.tensor.dtype,
        None if shape is None else tuple(_dim(dim) for dim in shape.dims),
        span,
    )


def _dim(dim: Any) -> Dim:
    # Exporters write -1 for a dim that they do not know.
    if dim.size is not None:
        return None if dim.size < 0 else int(dim.size)
    return None if dim.name is None or _ANONYMOUS.match(dim.name) else str(dim.name)
