"""The element types of ONNX: numbers, names, sizes, and numpy's type where it has one.

Source: TensorProto.DataType of onnx.proto.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional


class OnnxType(NamedTuple):
    """One element type.

    Attributes
    ----------
    code
        Its number in TensorProto.DataType.
    name
        numpy's name, or the specification's in lower case (``bfloat16``, ``float8e4m3fn``,
        ``int4``).
    bits
        Of one element in storage; 0 for strings.
    numpy
        numpy's type string; None where numpy has no such type.
    """

    code: int
    name: str
    bits: int
    numpy: Optional[str]

    def nbytes(self, elements: int) -> int:
        """Return the bytes of this many elements in storage; types of less than a byte are
        packed."""
        return (elements * self.bits + 7) // 8


TYPES: Dict[int, OnnxType] = {
    row[0]: OnnxType(*row)
    for row in (
        (1, "float32", 32, "<f4"),
        (2, "uint8", 8, "|u1"),
        (3, "int8", 8, "|i1"),
        (4, "uint16", 16, "<u2"),
        (5, "int16", 16, "<i2"),
        (6, "int32", 32, "<i4"),
        (7, "int64", 64, "<i8"),
        (8, "string", 0, None),
        (9, "bool", 8, "|b1"),
        (10, "float16", 16, "<f2"),
        (11, "float64", 64, "<f8"),
        (12, "uint32", 32, "<u4"),
        (13, "uint64", 64, "<u8"),
        (14, "complex64", 64, "<c8"),
        (15, "complex128", 128, "<c16"),
        (16, "bfloat16", 16, None),
        (17, "float8e4m3fn", 8, None),
        (18, "float8e4m3fnuz", 8, None),
        (19, "float8e5m2", 8, None),
        (20, "float8e5m2fnuz", 8, None),
        (21, "uint4", 4, None),
        (22, "int4", 4, None),
        (23, "float4e2m1", 4, None),
        (24, "float8e8m0", 8, None),
        (25, "uint2", 2, None),
        (26, "int2", 2, None),
        (27, "float6e2m3", 6, None),
        (28, "float6e3m2", 6, None),
    )
}
BY_NAME: Dict[str, OnnxType] = {entry.name: entry for entry in TYPES.values()}


def type_name(code: int) -> str:
    """Return a type's name, also for an unknown number."""
    return TYPES[code].name if code in TYPES else "type %d" % code
