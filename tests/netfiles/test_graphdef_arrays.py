"""Constants and attributes of frozen graphs, made of bytes as tensor.proto and attr_value.proto
say.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from wire_graph import node, strings, typed

from goldwatch.base.errors import FormatError
from goldwatch.base.protowire import field, varint
from goldwatch.netfiles.graphdef import GraphFile
from goldwatch.netfiles.graphdef_arrays import attributes_of

CODES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8,
    "int64": 9, "bool": 10, "uint16": 17,
    "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
FIELDS = {
    "float32": 5,
    "float64": 6,
    "complex64": 9,
    "complex128": 12,
    "int64": 10,
    "bool": 11,
    "float16": 13,
    "uint32": 16,
    "uint64": 17,
}


def attributes(path, **attrs):
    path.write_bytes(node("n", "Const", **attrs))
    graph = GraphFile(str(path))
    with graph.open() as file:
        return attributes_of(graph, file, graph.nodes[0])


def shape_of(shape):
    return b"".join(field(2, field(1, size)) for size in shape)


def constant(path, code, shape, body):
    return attributes(path, value=field(8, field(1, code) + field(2, shape_of(shape)) + body))[
        "value"
    ]


def values_of(dtype):
    values = np.random.RandomState(3).uniform(-100, 100, (2, 3, 4))
    if dtype.startswith("complex"):
        return (values + 2j * values[::-1]).astype(dtype)
    return (
        values > 0
        if dtype == "bool"
        else np.abs(values).astype(dtype)
        if dtype.startswith("u")
        else values.astype(dtype)
    )


@pytest.mark.parametrize("dtype", sorted(CODES))
def test_a_constant_stored_as_bytes_is_read(tmp_path, dtype):
    values = values_of(dtype)
    found = constant(tmp_path / "g.pb", CODES[dtype], values.shape, field(4, values.tobytes()))
    assert found.dtype == values.dtype and np.array_equal(found, values)


@pytest.mark.parametrize("dtype", sorted(CODES))
def test_a_constant_stored_as_numbers_is_read(tmp_path, dtype):
    values = values_of(dtype)
    number = FIELDS.get(dtype, 7)
    if number in (5, 6, 9, 12):
        body = field(number, values.tobytes())
    else:
        numbers = values.view(np.uint16) if dtype == "float16" else values
        body = field(
            number, b"".join(varint(int(each) & 0xFFFFFFFFFFFFFFFF) for each in numbers.reshape(-1))
        )
    found = constant(tmp_path / "g.pb", CODES[dtype], values.shape, body)
    assert found.dtype == values.dtype and np.array_equal(found, values)


@pytest.mark.parametrize(
    "body, expected",
    [(field(5, struct.pack("<2f", 1.0, 2.5)), [1.0, 2.5, 2.5, 2.5]), (b"", [0.0] * 4)],
)
def test_the_last_value_of_a_constant_fills_the_rest(tmp_path, body, expected):
    assert constant(tmp_path / "g.pb", 1, (4,), body).tolist() == expected


def test_a_bfloat16_constant_is_read_as_float32(tmp_path):
    bits = np.arange(0x3F00, 0x3F04, dtype=np.uint16)
    found = constant(tmp_path / "g.pb", 14, (4,), field(4, bits.tobytes()))
    assert found.dtype == np.float32 and np.array_equal(
        found.view(np.uint32), bits.astype(np.uint32) << 16
    )


def test_a_constant_of_strings_is_refused(tmp_path):
    with pytest.raises(FormatError, match="which numpy has not"):
        constant(tmp_path / "g.pb", 7, (1,), field(8, b"a"))


def test_a_constant_with_too_many_values_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"a constant of shape \[1\] with 2 values"):
        constant(tmp_path / "g.pb", 1, (1,), field(4, struct.pack("<2f", 1.0, 2.0)))


def test_graphdef_attributes_of_every_kind_are_read(tmp_path):
    real = varint(4 << 3 | 5) + struct.pack("<f", 0.5)
    found = attributes(
        tmp_path / "g.pb", T=typed(3), whole=field(3, (1 << 64) - 2), real=real, yes=field(5, 1),
        no=field(5, 0), word=field(2, b"SAME"),
        shape=field(7, shape_of((2, 3))), words=strings("a", "b"),
        ints=field(1, field(3, b"".join(map(varint, (1, 2, 300))))),
        reals=field(1, field(4, struct.pack("<2f", 0.5, 2.0))),
    )  # fmt: skip
    assert found == {
        "T": "int32", "whole": -2, "real": 0.5, "yes": True, "no": False, "word": "SAME",
        "shape": (2, 3), "words": ["a", "b"],
        "ints": [1, 2, 300], "reals": [0.5, 2.0],
    }  # fmt: skip
