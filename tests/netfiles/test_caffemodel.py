"""Mean files, intact and damaged."""

from __future__ import annotations

import struct

import pytest

from goldwatch.base.errors import FormatError
from goldwatch.netfiles.caffemodel import read_mean, read_weights


def field(number, data):
    """A length-delimited protobuf field of up to 127 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data


def mean(values, dims):
    return field(5, values) + field(7, field(1, bytes(dims)))


def test_a_mean_file_is_read_in_its_shape(tmp_path):
    (tmp_path / "mean").write_bytes(mean(struct.pack("<6f", *range(6)), [1, 3, 1, 2]))
    assert read_mean(str(tmp_path / "mean")).tolist() == [[[0, 1]], [[2, 3]], [[4, 5]]]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (mean(b"123456", [1]), "6 bytes of float32"),
        (mean(bytes(8), [3]), "with 2 values"),
        (b"\xff" * 9, "not a .binaryproto"),
    ],
)
def test_a_damaged_mean_file_is_refused(tmp_path, data, text):
    (tmp_path / "mean").write_bytes(data)
    with pytest.raises(FormatError, match=text):
        read_mean(str(tmp_path / "mean"))


def test_weights_with_broken_float_data_are_refused(tmp_path):
    layer = field(1, b"conv1") + field(7, field(5, b"123456") + field(7, field(1, bytes([1]))))
    (tmp_path / "net.caffemodel").write_bytes(
        bytes([100 << 3 & 0x7F | 0x80 | 2, 100 >> 4, len(layer)]) + layer
    )
    with pytest.raises(FormatError, match="6 bytes of float32"):
        read_weights(str(tmp_path / "net.caffemodel"))
