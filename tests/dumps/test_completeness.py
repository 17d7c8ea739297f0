from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from goldwatch.base.errors import MissingPath
from goldwatch.dumps import probe
from goldwatch.dumps.completeness import Completeness
from goldwatch.dumps.write import dump_parts


def save(path: Any, data: bytes) -> str:
    with open(str(path), "wb") as stream:
        stream.write(data)
    return str(path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_growing_dump_is_short_until_it_is_complete(tmp_path: Any, version: int) -> None:
    data = b"".join(
        bytes(part) for part in dump_parts([b"abc"], [b"de"], [b"f"], [b"g"], version=version)
    )
    seen = []
    for length in range(len(data) + 3):
        found = probe(save(tmp_path / "dump", (data + b"++")[:length]))
        assert found.actual_bytes == length
        if not seen or seen[-1] != found.state:
            seen.append(found.state)
    if version == 2:
        assert seen == ["short", "complete", "long"]
        assert probe(save(tmp_path / "dump", data[:-1])) == Completeness(
            "short", len(data), len(data) - 1
        )
        assert probe(save(tmp_path / "dump", data[:4])).expected_bytes is None
    assert probe(save(tmp_path / "dump", data)) == Completeness("complete", len(data), len(data))


def test_a_file_without_a_dump_header_is_called_headerless(tmp_path: Any) -> None:
    assert probe(save(tmp_path / "dump", b"\x99" * 100)) == Completeness("headerless", None, 100)


def test_tensors_with_a_null_address_need_no_bytes_in_the_file(
    tmp_path: Any, container: Callable[..., bytes]
) -> None:
    outputs = [
        {"data_type": 4, "raw": b"ab", "dims": [2], "address": 5},
        {"data_type": 4, "raw": b"cd", "dims": [2]},
    ]
    size = len(container(*outputs))
    assert probe(save(tmp_path / "dump", container(*outputs, payload=b"ab"))) == Completeness(
        "short", size, size - 2, True
    )
    assert probe(save(tmp_path / "dump", container(*outputs))) == Completeness(
        "complete", size, size
    )


def test_a_growing_npy_file_is_short_until_it_is_complete(tmp_path: Any) -> None:
    path = str(tmp_path / "x.npy")
    np.save(path, np.arange(5, dtype=np.int32))
    with open(path, "rb") as stream:
        data = stream.read()
    for length in range(len(data)):
        found = probe(save(path, data[:length]))
        assert (found.state, found.actual_bytes) == ("short", length)
    assert found.expected_bytes == len(data)
    assert probe(save(path, data)) == Completeness("complete", len(data), len(data))
    assert probe(save(path, data + b"!")) == Completeness("long", len(data), len(data) + 1)
    assert probe(save(path, b"text of another kind")).state == "headerless"


@pytest.mark.parametrize("name", ["mapping.csv", "a.TXT", "manifest.json"])
def test_files_of_other_kinds_have_no_expected_size(tmp_path: Any, name: str) -> None:
    assert probe(save(tmp_path / name, b"12")) == Completeness("no_law", None, 2)


def test_a_missing_file_is_reported(tmp_path: Any) -> None:
    for name in ("dump", "x.npy", "x.csv"):
        with pytest.raises(MissingPath):
            probe(str(tmp_path / name))
