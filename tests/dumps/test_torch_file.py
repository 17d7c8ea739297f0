"""Files of torch.save, read without PyTorch. Those of tests/data/torch_files are of PyTorch
2.14.1.
"""

from __future__ import annotations

import os
import random
import shutil
import zipfile

import numpy as np
import pytest

from goldwatch.base.errors import FormatError, GoldwatchError, TruncatedFile
from goldwatch.dumps.torch_file import open_torch

FILES = os.path.join(os.path.dirname(__file__), os.pardir, "data", "torch_files")
X = (np.arange(-6, 6, dtype=np.float32) / np.float32(3)).reshape(3, 4)
BFLOAT16 = [
    [-2, -1.6640625, -1.3359375, -1],
    [-0.66796875, -0.333984375, 0, 0.333984375],
    [0.66796875, 1, 1.3359375, 1.6640625],
]
FLOAT8 = [[-2, -1.625, -1.375, -1], [-0.6875, -0.34375, 0, 0.34375], [0.6875, 1, 1.375, 1.625]]


def path_of(name):
    return os.path.join(FILES, name + ".pt")


@pytest.mark.parametrize(
    "name, dtype, values",
    [
        ("float32", "float32", X),
        ("float16", "float16", X.astype(np.float16)),
        ("bfloat16", "bfloat16", np.array(BFLOAT16)),
        ("float8_e4m3fn", "float8_e4m3fn", np.array(FLOAT8)),
        ("int64", "int64", np.arange(12).reshape(3, 4) - 2**40),
        ("bool", "bool", X > 0),
        ("complex64", "complex64", X - 1j * X),
        ("uint16", "uint16", np.arange(12).reshape(3, 4)),
        ("transposed", "float32", X.T),
        ("view", "float32", X[1:, 2:]),
        ("scalar", "float32", np.array(3.5)),
        ("empty", "float32", np.zeros((0, 3))),
        ("parameter", "float32", X),
    ],
)
def test_a_tensor_is_read_as_pytorch_reads_it(name, dtype, values):
    (tensor,) = open_torch(path_of(name))
    assert tensor.dtype.name == dtype and tensor.shape == values.shape
    np.testing.assert_array_equal(tensor.array(), values)


def test_a_list_is_read_in_its_order():
    first, second = open_torch(path_of("list"))
    np.testing.assert_array_equal(first.array(), X)
    np.testing.assert_array_equal(second.array(), X + 1)


@pytest.mark.parametrize("name", ["conjugated", "dict"])
def test_what_is_not_tensors_as_they_are_stored_is_refused(name):
    with pytest.raises(FormatError, match="SETITEM in its data.pkl"):
        open_torch(path_of(name))


def rewritten(source, target, changes, compression=zipfile.ZIP_STORED):
    """Write an archive anew, with other bytes in some of its records."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for info in old.infolist():
            new.writestr(info.filename, changes.get(info.filename, old.read(info)))
    return str(target)


def test_no_function_of_a_pickle_is_called(tmp_path):
    evil = b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00true\x85Rq\x01."
    path = rewritten(path_of("float32"), tmp_path / "evil.pt", {"float32/data.pkl": evil})
    with pytest.raises(FormatError, match="not read as tensors of torch.save .system"):
        open_torch(path)


def test_a_shape_beyond_the_stored_elements_is_refused(tmp_path):
    with zipfile.ZipFile(path_of("float32")) as archive:
        pickle = archive.read("float32/data.pkl")
    larger = pickle.replace(b"K\x03K\x04\x86", b"K\x04K\x04\x86")
    assert larger != pickle
    path = rewritten(path_of("float32"), tmp_path / "larger.pt", {"float32/data.pkl": larger})
    with pytest.raises(FormatError, match="more elements than its storage has"):
        open_torch(path)


def test_other_archives_are_refused(tmp_path):
    path = rewritten(path_of("float32"), tmp_path / "packed.pt", {}, zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="compressed"):
        open_torch(path)
    big = rewritten(path_of("float32"), tmp_path / "big.pt", {"float32/byteorder": b"big"})
    with pytest.raises(FormatError, match="other byte order"):
        open_torch(big)
    with zipfile.ZipFile(str(tmp_path / "other.pt"), "w") as archive:
        archive.writestr("x/other", b"")
    with pytest.raises(FormatError, match="no data.pkl"):
        open_torch(str(tmp_path / "other.pt"))


def test_damaged_files_are_refused_or_read_but_end_in_no_other_error(tmp_path):
    names = sorted(name for name in os.listdir(FILES) if name.endswith(".pt"))
    chance = random.Random(7)
    refused = 0
    for number in range(400):
        with open(os.path.join(FILES, names[number % len(names)]), "rb") as stream:
            data = bytearray(stream.read())
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if number % 3 == 0:
            del data[chance.randrange(len(data)) :]
        path = tmp_path / "damaged.pt"
        path.write_bytes(bytes(data))
        try:
            for tensor in open_torch(str(path)):
                tensor.array()
        except GoldwatchError:
            refused += 1
    assert refused > 100


def test_a_nested_pickle_costs_no_time(tmp_path):
    """Sixty tuples, each of the one before twice: a text or hash of the last would never end."""
    bomb = b"\x80\x02)" + b"q\x00h\x00\x86" * 60
    for tail in (b".", b"h\x00R.", b"\x85Q."):
        changes = {"float32/data.pkl": bomb + tail}
        path = rewritten(path_of("float32"), tmp_path / "bomb.pt", changes)
        with pytest.raises((FormatError, TruncatedFile)):
            open_torch(path)


def test_a_file_that_went_away_is_missing(tmp_path):
    shutil.copy(path_of("float32"), str(tmp_path / "x.pt"))
    (tensor,) = open_torch(str(tmp_path / "x.pt"))
    os.unlink(str(tmp_path / "x.pt"))
    with pytest.raises(GoldwatchError):
        tensor.array()
