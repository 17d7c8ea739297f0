"""Weights cut at record level keep their bytes; broken files are refused."""

from __future__ import annotations

import io
import sys

import fake_h5py
import numpy as np
import pytest
from wire_graph import layer

from goldwatch.base.errors import FormatError, InputError
from goldwatch.base.protowire import field
from goldwatch.netfiles.caffemodel import read_weights
from goldwatch.netfiles.caffemodel_cut import CaffeModel

HEAD, TAIL = field(1, b"net"), field(6, 1)


def blobs(count, value):
    return (bytes([value]) * 4 * count, [count])


def written(path, data, names):
    path.write_bytes(data)
    stream = io.BytesIO()
    count = CaffeModel(str(path)).write(names, stream)
    return count, stream.getvalue()


@pytest.mark.parametrize("number", [100, 2])
def test_cut_weights_hold_the_sources_bytes(tmp_path, number):
    records = {
        name: layer(name, blobs(3, 1), blobs(100, 2), number=number) for name in ("a", "b", "c")
    }
    data = HEAD + records["a"] + records["b"] + TAIL + records["c"]
    path = tmp_path / "w.caffemodel"
    assert written(path, data, {"a", "c"}) == (2, HEAD + records["a"] + TAIL + records["c"])
    assert written(path, data, {"b"}) == (1, HEAD + records["b"] + TAIL)
    assert written(path, data, set()) == (0, HEAD + TAIL)
    assert CaffeModel(str(path)).shapes["b"] == [(3,), (100,)]


def test_weights_of_v0_nets_are_cut_by_their_inner_layer(tmp_path):
    data = b"\0" * 24
    blob = b"".join(field(axis, size) for axis, size in ((1, 1), (2, 1), (3, 2), (4, 3))) + field(
        5, data
    )
    records = {
        name: field(2, field(1, field(1, name.encode()) + field(50, blob)) + field(2, b"x"))
        for name in "ab"
    }
    path = tmp_path / "w.caffemodel"
    assert written(path, HEAD + records["a"] + records["b"], {"b"}) == (1, HEAD + records["b"])
    assert CaffeModel(str(path)).shapes == {name: [(1, 1, 2, 3)] for name in "ab"}


def test_a_caffemodel_truncated_at_any_byte_is_refused_or_lacks_whole_layers(tmp_path):
    records = [layer("a", blobs(5, 1)), layer("b", blobs(40, 2))]
    data = HEAD + b"".join(records)
    edges = {len(HEAD) + len(records[0]), len(data)}
    path = tmp_path / "w.caffemodel"
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        if end in edges:
            assert [found.name for found in CaffeModel(str(path)).layers] == ["a", "b"][
                : 1 + (end == len(data))
            ]
            continue
        with pytest.raises(FormatError):
            CaffeModel(str(path))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the file is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a .caffemodel|no protobuf message|cut short"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "a pointer of Git LFS",
        ),
        (HEAD, "no layer in it"),
        (field(100, b"\x0a\x7fab"), "broken"),
    ],
)
def test_files_that_are_no_weights_are_refused(tmp_path, data, text):
    (tmp_path / "w").write_bytes(data)
    with pytest.raises(InputError, match=text):
        CaffeModel(str(tmp_path / "w"))


def test_hdf5_weights_are_cut(tmp_path, monkeypatch):
    arrays = {
        "a": [np.arange(6, dtype=np.float32).reshape(2, 3)],
        "a/b": [np.ones(4, np.float32), np.zeros((1, 2), np.float32)],
    }
    monkeypatch.setitem(sys.modules, "h5py", fake_h5py.module_of(arrays))
    path = fake_h5py.write(tmp_path / "w.h5")
    model = CaffeModel(path)
    assert model.path == path and model.shapes == {"a": [(2, 3)], "a/b": [(4,), (1, 2)]}
    with open(str(tmp_path / "cut.caffemodel"), "wb") as stream:
        assert model.write(["a/b"], stream) == 1
    found = read_weights(str(tmp_path / "cut.caffemodel"))
    assert list(found) == ["a/b"]
    for array, right in zip(found["a/b"], arrays["a/b"]):
        np.testing.assert_array_equal(array, right)
