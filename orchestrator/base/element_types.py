"""The element types of dump files and models: one table of their numbers, names and sizes.

Source: the OutputDataType enumeration of the vendor's dump_data message; GE calls the same types
``DT_`` and the enumerator.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Sequence, Tuple


class Element(NamedTuple):
    """One element type.

    Attributes
    ----------
    code
        OutputDataType number.
    enumerator
        Its name in that enumeration (``FLOAT16``).
    name
        As in the DataType column: numpy's name or ``bfloat16``, ``int4`` …; of types that are only
        read as another, that one's.
    bits
        Bits of one element in storage, 0 when it has no fixed size.
    kind
        ``f`` float, ``i`` signed, ``u`` unsigned, ``b`` bool, ``c`` complex, ``""`` when it cannot
        be decoded.
    storage
        numpy type string of one stored unit; None when it cannot be decoded.
    """

    code: int
    enumerator: str
    name: str
    bits: int
    kind: str
    storage: Optional[str]

    @property
    def ge_name(self) -> str:
        """The type's name in GE's graphs (``DT_FLOAT16``)."""
        return "DT_" + self.enumerator


ELEMENTS: Tuple[Element, ...] = tuple(
    Element(*row)
    for row in (
        (0, "UNDEFINED", "int8", 8, "i", "|i1"),
        (1, "FLOAT", "float32", 32, "f", "<f4"),
        (2, "FLOAT16", "float16", 16, "f", "<f2"),
        (3, "INT8", "int8", 8, "i", "|i1"),
        (4, "UINT8", "uint8", 8, "u", "|u1"),
        (5, "INT16", "int16", 16, "i", "<i2"),
        (6, "UINT16", "uint16", 16, "u", "<u2"),
        (7, "INT32", "int32", 32, "i", "<i4"),
        (8, "INT64", "int64", 64, "i", "<i8"),
        (9, "UINT32", "uint32", 32, "u", "<u4"),
        (10, "UINT64", "uint64", 64, "u", "<u8"),
        (11, "BOOL", "bool", 8, "b", "|u1"),
        (12, "DOUBLE", "float64", 64, "f", "<f8"),
        (13, "STRING", "string", 0, "", None),
        (14, "DUAL_SUB_INT8", "int8", 8, "i", "|i1"),
        (15, "DUAL_SUB_UINT8", "uint8", 8, "u", "|u1"),
        (16, "COMPLEX64", "complex64", 64, "c", "<c8"),
        (17, "COMPLEX128", "complex128", 128, "c", "<c16"),
        (18, "QINT8", "int8", 8, "i", "|i1"),
        (19, "QINT16", "int16", 16, "i", "<i2"),
        (20, "QINT32", "int32", 32, "i", "<i4"),
        (21, "QUINT8", "uint8", 8, "u", "|u1"),
        (22, "QUINT16", "uint16", 16, "u", "<u2"),
        (23, "RESOURCE", "int64", 64, "i", "<i8"),
        (24, "STRING_REF", "string_ref", 0, "", None),
        (25, "DUAL", "dual", 0, "", None),
        (26, "VARIANT", "variant", 0, "", None),
        (27, "BF16", "bfloat16", 16, "f", "<u2"),
        (28, "INT4", "int4", 4, "i", "|u1"),
        (29, "UINT1", "uint1", 1, "u", "|u1"),
        (30, "INT2", "int2", 2, "i", "|u1"),
        (31, "UINT2", "uint2", 2, "u", "|u1"),
        (32, "COMPLEX32", "complex32", 32, "c", "<f2"),
        (33, "HIFLOAT8", "hifloat8", 8, "f", "|u1"),
        (34, "FLOAT8_E5M2", "float8_e5m2", 8, "f", "|u1"),
        (35, "FLOAT8_E4M3FN", "float8_e4m3fn", 8, "f", "|u1"),
        (36, "FLOAT8_E8M0", "float8_e8m0fnu", 8, "f", "|u1"),
        (37, "FLOAT6_E3M2", "float6_e3m2fn", 6, "", None),
        (38, "FLOAT6_E2M3", "float6_e2m3fn", 6, "", None),
        (39, "FLOAT4_E2M1", "float4_e2m1fn", 4, "", None),
        (40, "FLOAT4_E1M2", "float4_e1m2fn", 4, "", None),
    )
)
UNDEFINED = 0
BY_CODE: Dict[int, Element] = {element.code: element for element in ELEMENTS}
# Of types that are read alike (QINT8 as int8) the plain one is meant by the name; the table has it
# first, but for UNDEFINED.
BY_NAME: Dict[str, Element] = {
    element.name: element for element in reversed(ELEMENTS) if element.code != UNDEFINED
}
BY_GE_NAME: Dict[str, Element] = {element.ge_name: element for element in ELEMENTS}


def element_count(shape: Sequence[int]) -> int:
    """Return the product of the sizes, 1 for a scalar; however many (a product of 64-bit integers
    would wrap around).
    """
    count = 1
    for size in shape:
        count *= size
    return count
