"""The table of element types against the enumeration of the containers and against numpy."""

from __future__ import annotations

import numpy as np

from goldwatch.base.element_types import BY_CODE, BY_GE_NAME, BY_NAME, ELEMENTS
from goldwatch.proto import load_messages


def test_type_codes_are_those_of_the_dump_format() -> None:
    field = load_messages().OpOutput.DESCRIPTOR.fields_by_name["data_type"]
    enumeration = {value.number: value.name for value in field.enum_type.values}
    assert {element.code: element.ge_name for element in ELEMENTS} == enumeration
    assert len(BY_CODE) == len(BY_GE_NAME) == len(ELEMENTS)


def test_each_type_name_has_numpys_size() -> None:
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
        "complex128"
    ).split():
        assert BY_NAME[name].bits == 8 * np.dtype(name).itemsize
        assert BY_NAME[name].ge_name == "DT_" + {"float32": "FLOAT", "float64": "DOUBLE"}.get(
            name, name.upper()
        )
    assert BY_NAME["bfloat16"].code == 27
