"""Dumps of nano devices, written here from the documented records."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from goldwatch.base.errors import FormatError, GoldwatchError, TruncatedFile
from goldwatch.cli import goldwatch
from goldwatch.dumps import DumpFile, probe
from goldwatch.dumps.nano_header import read_nano_header

MAGIC = 0x5A5A5A5A


def record(tag: int, value: bytes) -> bytes:
    return struct.pack("<II", tag, len(value)) + value


def dims(tag: int, shape: Any) -> bytes:
    return record(tag, struct.pack("<%dQ" % len(shape), *shape))


def described(dtype: int, layout: int, size: int, lists: bytes, original: bytes = b"") -> bytes:
    return (
        struct.pack("<iii", dtype, layout, 1)
        + original
        + struct.pack("<QQQI", 0x1000, 0, size, len(lists))
        + lists
    )


def nano(inputs: Any, outputs: Any, payload: bytes) -> bytes:
    header = struct.pack("<II", MAGIC, 1)
    for tag, tensors in ((4, inputs), (5, outputs)):
        if tensors:
            header += record(tag, struct.pack("<I", len(tensors)) + b"".join(tensors))
    return struct.pack("<Q", len(header)) + header + payload


X = np.arange(6, dtype=np.float16).reshape(2, 3)
Y = np.arange(4, dtype=np.int32)
SAMPLE = nano(
    [described(1, 2, 12, dims(0, (2, 3)))],
    [
        described(
            3,
            3,
            16,
            dims(0, (4,)) + dims(1, (1, 4)) + record(2, b"conv/y"),
            struct.pack("<iii", 1, 0, 0),
        )
    ],
    X.tobytes() + Y.tobytes(),
)


def save(tmp_path: Any, data: bytes) -> str:
    path = str(tmp_path / "Add.a.1.2.1600000000000000")
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def test_a_nano_dump_is_read_like_any_other(tmp_path: Any) -> None:
    path = save(tmp_path, SAMPLE)
    assert probe(path).state == "complete"
    dump = DumpFile.open(path)
    assert dump.header_version == "nano 1" and dump.inputs[0].address == 0x1000
    np.testing.assert_array_equal(dump.tensor("input", 0).array(), X)
    out = dump.tensor("output", 0)
    assert (out.dtype.name, out.format, out.original_shape) == ("int32", "NC1HWC0", (1, 4))
    np.testing.assert_array_equal(out.array(), Y)
    assert (dump.outputs[0].original_name, dump.outputs[0].original_index) == ("conv/y", 1)
    assert "of a nano device (nano 1)" in CliRunner().invoke(goldwatch, ["inspect", path]).output


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "float32"),
        (2, "int8"),
        (11, "float64"),
        (12, "bool"),
        (27, "bfloat16"),
        (5, "unknown(1005)"),
        (-1, "unknown(1999)"),
    ],
)
def test_type_codes_of_nano_dumps_are_those_of_ge(code: int, name: str, tmp_path: Any) -> None:
    data = nano([described(code, 2, 8, dims(0, (1,)))], [], bytes(8))
    assert DumpFile.open(save(tmp_path, data)).inputs[0].dtype.name == name


def test_every_truncation_of_a_nano_dump_is_a_goldwatch_error(tmp_path: Any) -> None:
    for length in range(len(SAMPLE)):
        with pytest.raises(FormatError):
            DumpFile.open(save(tmp_path, SAMPLE[:length]))
    with pytest.raises(TruncatedFile, match="expected %d bytes" % len(SAMPLE)):
        DumpFile.open(save(tmp_path, SAMPLE[:-1]))


def test_a_damaged_nano_header_is_reported_as_such(tmp_path: Any) -> None:
    data = bytearray(SAMPLE)
    data[20] = 0xFF
    with pytest.raises(
        FormatError,
        match="a dump of a nano device, whose header is damaged: byte [0-9]+ of the header",
    ):
        DumpFile.open(save(tmp_path, bytes(data)))


@given(st.integers(8, len(SAMPLE) - 29), st.binary(max_size=9), st.integers(0, 9))
def test_any_bytes_in_a_nano_header_raise_only_goldwatch_errors(
    at: int, piece: bytes, cut: int
) -> None:
    header = SAMPLE[8:-28]
    damaged = header[: at - 8] + piece + header[at - 8 + cut :]
    try:
        read_nano_header(damaged[:4].ljust(4) + damaged[4:])
    except GoldwatchError as error:
        assert error.message
