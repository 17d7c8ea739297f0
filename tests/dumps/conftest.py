from __future__ import annotations

import os
import struct
from typing import Any, Callable

import numpy as np
import pytest

from goldwatch.proto import load_messages

TIMESTAMP = 1600000000000000


@pytest.fixture
def container() -> Callable[..., bytes]:
    """Make the bytes of a version 2 file field by field, independent of goldwatch.dumps.write."""

    def make(*outputs: Any, payload: Any = None, **fields: Any) -> bytes:
        header = load_messages().DumpData(version="2.0", **fields)
        data = b""
        for entry in outputs:
            entry = dict(entry)
            raw = entry.pop("raw", b"")
            dims = entry.pop("dims", ())
            output = header.output.add(**entry)
            output.shape.dim.extend(dims)
            if "size" not in entry:
                output.size = len(raw)
            data += raw
        message = header.SerializeToString()
        return struct.pack("<Q", len(message)) + message + (data if payload is None else payload)

    return make


@pytest.fixture
def touch() -> Callable[[str], str]:
    def make(path: str) -> str:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb"):
            pass
        return path

    return make


@pytest.fixture
def rng() -> Any:
    return np.random.RandomState(7)
