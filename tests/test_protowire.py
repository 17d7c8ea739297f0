"""Protobuf's wire format against protobuf itself."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base import protowire
from goldwatch.base.errors import FormatError
from goldwatch.base.protowire import field
from goldwatch.proto import load_messages


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_written_as_protobuf_writes_it_and_read_back(value) -> None:
    written = load_messages().DumpData(dump_time=value).SerializeToString()
    assert written == (protowire.field(2, value) if value else b"")
    data = b"x" + protowire.varint(value) + b"y"
    assert protowire.read_varint(data, 1, len(data)) == (value, len(data) - 1)


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=5),
    st.text("abc", max_size=200),
    st.integers(1, 2**63),
)
def test_fields_are_found_as_protobuf_wrote_them(dims, name, size) -> None:
    message = load_messages().DumpData(op_name=name)
    message.output.add(size=size).shape.dim.extend(dims)
    data = message.SerializeToString()
    top = {
        number: data[first:last]
        for number, _, first, last in protowire.fields_of(data, 0, len(data))
    }
    assert top.get(6, b"") == name.encode()
    inner = {
        number: (first, last)
        for number, _, first, last in protowire.fields_of(top[3], 0, len(top[3]))
    }
    assert inner[6][0] == size
    shape = top[3][slice(*inner[3])]
    found = [
        list(protowire.read_varints(shape, first, last))
        for _, _, first, last in protowire.fields_of(shape, 0, len(shape))
    ]
    assert (found[0] if found else []) == dims


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00\x01", "byte 0: not a protobuf field"),
        (b"\x0b", "wire type 3 is not used"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "longer than 64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "longer than 64 bits"),
    ],
)
def test_bytes_that_are_no_protobuf_message_are_refused(data, expected) -> None:
    with pytest.raises(FormatError, match=expected):
        list(protowire.fields_of(data, 0, len(data)))


@pytest.mark.parametrize(
    ("data", "needed"),
    [(b"\x12\x05ab", 7), (b"\x09ab", 9), (b"\x0d", 5), (b"\x08\xff", 3), (b"\x92", 2)],
)
def test_a_truncated_message_says_how_many_bytes_it_needs(data, needed) -> None:
    with pytest.raises(protowire.CutShort) as caught:
        list(protowire.fields_of(data, 0, len(data)))
    assert caught.value.needed == needed


def test_a_message_is_read_by_a_table_of_its_fields(tmp_path):
    inner = protowire.Fields(key=protowire.text(1), size=protowire.integer(2))
    table = protowire.Fields(
        numbers=protowire.each(protowire.integer(1)),
        name=protowire.text(2),
        place=protowire.span(3),
        entries=protowire.each(protowire.message(4, inner)),
        absent=protowire.message(5, inner),
        ratio=protowire.floating(6),
        ratios=protowire.each(protowire.floating(7)),
    )
    entry = field(1, b"k\xff") + field(2, (1 << 64) - 2)
    parts = [
        *(field(1, 3), field(1, b"\x05\x07"), field(2, b"first"), field(2, b"last")),
        *(field(9, b"unknown"), field(2, 1), field(3, b"abc"), field(4, entry), field(4, b"")),
        *(b"\x35" + struct.pack("<f", 0.5), field(7, struct.pack("<2f", 1.0, 2.0))),
    ]
    data = b"".join(parts)
    (tmp_path / "m").write_bytes(b"before" + data)
    with open(str(tmp_path / "m"), "rb") as stream:
        window = protowire.Window(stream.fileno(), "m")
        for source, start in ((data, 0), (window, 6)):
            found = protowire.read(source, start, start + len(data), table)
            assert (found.numbers, found.name, found.absent) == ([3, 5, 7], "last", None)
            assert protowire.piece(source, *found.place) == b"abc"
            assert [(each.key, each.size) for each in found.entries] == [("k\udcff", -2), ("", 0)]
            assert (found.ratio, found.ratios) == (0.5, [1.0, 2.0])
            with pytest.raises(protowire.CutShort):
                protowire.read(source, start, start + len(data) - 1, table)
