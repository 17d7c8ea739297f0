"""The descriptor set against dump_data.proto's text and against the field table of the format."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Tuple

import pytest

import goldwatch.proto
from goldwatch.proto import load_messages

FIELDS = {
    "DumpData": "1 version string, 2 dump_time uint64, 3 output OpOutput*, 4 input OpInput*, 5 "
    "buffer "
    "OpBuffer*, 6 op_name string, "
    "7 attr OpAttr*, 8 space Workspace*",
    "OpOutput": "1 data_type OutputDataType, 2 format OutputFormat, 3 shape Shape, 4 original_op "
    "OriginalOp, 5 data bytes, 6 size uint64, "
    "7 original_shape Shape, 8 sub_format int32, 9 address uint64, 10 dim_range DimRange*, 11 "
    "offset uint64",
    "OpInput": "1 data_type OutputDataType, 2 format OutputFormat, 3 shape Shape, 4 data "
    "bytes, 5 size "
    "uint64, 6 original_shape Shape, "
    "7 sub_format int32, 8 address uint64, 9 offset uint64",
    "OriginalOp": "1 name string, 2 output_index uint32, 3 data_type OutputDataType, 4 format "
    "OutputFormat",
    "Shape": "1 dim uint64*",
    "DimRange": "1 dim_start uint64, 2 dim_end uint64",
    "OpBuffer": "1 buffer_type BufferType, 2 data bytes, 3 size uint64",
    "OpAttr": "1 name string, 2 value string",
    "Workspace": "1 type SpaceType, 2 data bytes, 3 size uint64",
}
DATA_TYPES = (
    "UNDEFINED FLOAT FLOAT16 INT8 UINT8 INT16 UINT16 INT32 INT64 UINT32 UINT64 BOOL DOUBLE "
    "STRING DUAL_SUB_INT8 DUAL_SUB_UINT8 COMPLEX64 "
    "COMPLEX128 QINT8 QINT16 QINT32 QUINT8 QUINT16 RESOURCE STRING_REF DUAL VARIANT BF16 INT4 "
    "UINT1 INT2 UINT2 COMPLEX32 HIFLOAT8 "
    "FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT6_E3M2 FLOAT6_E2M3 FLOAT4_E2M1 FLOAT4_E1M2"
).split()
FORMATS = (
    "NCHW NHWC ND NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 FSR_NCHW FRACTAL_DECONV C1HWNC0 "
    "FRACTAL_DECONV_TRANSPOSE "
    "FRACTAL_DECONV_SP_STRIDE_TRANS NC1HWC0_C04 FRACTAL_Z_C04 CHWN DECONV_SP_STRIDE8_TRANS "
    "HWCN NC1KHKWHWC0 BN_WEIGHT FILTER_HWCK "
    "LOOKUP_LOOKUPS LOOKUP_KEYS LOOKUP_VALUE LOOKUP_OUTPUT LOOKUP_HITS C1HWNCoC0 MD NDHWC "
    "FRACTAL_ZZ FRACTAL_NZ NCDHW DHWCN NDC1HWC0 "
    "FRACTAL_Z_3D CN NC DHWNC FRACTAL_Z_3D_TRANSPOSE FRACTAL_ZN_LSTM FRACTAL_Z_G RESERVED ALL "
    "NULL ND_RNN_BIAS FRACTAL_ZN_RNN YUV YUV_A "
    "NCL FRACTAL_Z_WINO C1HWC0"
).split()


def descriptor_fields(descriptor: Any) -> List[Tuple[int, str, str]]:
    names = {9: "string", 12: "bytes", 4: "uint64", 5: "int32", 13: "uint32"}
    found = []
    for field in descriptor.fields:
        kind = names.get(field.type)
        if kind is None:
            kind = (field.message_type or field.enum_type).name
        repeated = field.is_repeated if hasattr(type(field), "is_repeated") else field.label == 3
        found.append((field.number, field.name, kind + ("*" if repeated else "")))
    return sorted(found)


def table_fields(text: str) -> List[Tuple[int, str, str]]:
    return sorted(
        (int(number), name, kind)
        for number, name, kind in (entry.split() for entry in text.split(", "))
    )


def proto_text() -> str:
    with open(
        os.path.join(os.path.dirname(goldwatch.proto.__file__), "dump_data.proto"), encoding="ascii"
    ) as stream:
        return re.sub(r"//[^\n]*", "", stream.read())


def proto_messages(text: str) -> Dict[str, List[Tuple[int, str, str]]]:
    found: Dict[str, List[Tuple[int, str, str]]] = {}
    for name, body in re.findall(r"\nmessage (\w+) \{(.*?)\n\}", text, re.S):
        body = re.sub(r"enum \w+ \{.*?\}", "", body, flags=re.S)
        fields = re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body)
        found[name] = sorted(
            (int(number), field, kind + ("*" if repeated else ""))
            for repeated, kind, field, number in fields
        )
    return found


def proto_enum(text: str, name: str) -> Dict[str, int]:
    body = re.search(r"\nenum %s \{(.*?)\n\}" % name, text, re.S)
    assert body is not None
    return {value: int(number) for value, number in re.findall(r"(\w+) = (\d+);", body.group(1))}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_message_fields_are_those_of_the_format(name: str) -> None:
    expected = table_fields(FIELDS[name])
    assert descriptor_fields(getattr(load_messages(), name).DESCRIPTOR) == expected
    assert proto_messages(proto_text())[name] == expected


def test_no_message_is_missing_or_extra() -> None:
    assert set(proto_messages(proto_text())) == set(FIELDS)


@pytest.mark.parametrize(
    "enum, expected",
    [
        ("OutputDataType", {"DT_" + name: code for code, name in enumerate(DATA_TYPES)}),
        (
            "OutputFormat",
            {"FORMAT_" + name: code for code, name in list(enumerate(FORMATS)) + [(255, "MAX")]},
        ),
    ],
)
def test_enum_codes_are_those_of_the_format(enum: str, expected: Dict[str, int]) -> None:
    descriptor = getattr(load_messages(), enum)
    assert {name: value.number for name, value in descriptor.values_by_name.items()} == expected
    assert proto_enum(proto_text(), enum) == expected


def test_unknown_type_and_format_codes_survive_serialising() -> None:
    messages = load_messages()
    header = messages.DumpData()
    header.output.add(data_type=77, format=250)
    copy = messages.DumpData.FromString(header.SerializeToString())
    assert (copy.output[0].data_type, copy.output[0].format) == (77, 250)


def test_messages_are_loaded_once_into_a_private_pool() -> None:
    from google.protobuf import descriptor_pool

    assert load_messages() is load_messages()
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("toolkit.dumpdata.Workspace")
