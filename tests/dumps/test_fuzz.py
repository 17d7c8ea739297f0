"""Damaged and random bytes raise only goldwatch's errors, with memory in proportion to the file."""

from __future__ import annotations

import os
import struct
import tempfile
import tracemalloc
from typing import Any, Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from goldwatch.base.errors import GoldwatchError
from goldwatch.dumps import DumpFile, TensorData, open_npy, probe
from goldwatch.dumps.write import dump_parts
from goldwatch.proto import load_messages

FUZZ = settings(
    max_examples=int(os.environ.get("GOLDWATCH_FUZZ_EXAMPLES", "150")), deadline=None, database=None
)
WORD = st.integers(0, 2**64 - 1)

load_messages()


def sample(version: int) -> bytes:
    inputs = [
        TensorData(np.arange(8, dtype=np.float16), address=3),
        TensorData(b"abcd", 28, shape=(2, 4)),
    ]
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    outputs = [
        TensorData(array, original_shape=(3, 2), original_name="op"),
        TensorData(b"xy", 13, shape=(2,)),
    ]
    return b"".join(
        bytes(part) for part in dump_parts(inputs, outputs, [b"buffer"], [b"space"], version, "op")
    )


def npy(order: str) -> bytes:
    with tempfile.TemporaryFile() as stream:
        np.save(stream, np.asarray(np.arange(12, dtype=">f4").reshape(3, 4), order=order))
        stream.seek(0)
        return stream.read()


SAMPLES = [sample(1), sample(2)]
NPY = [npy("C"), npy("F")]


@st.composite
def mutated(draw: Any, samples: Any) -> bytes:
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        piece = draw(st.binary(max_size=6))
        cut = draw(st.integers(0, 6))
        data[place : place + cut] = piece
    return bytes(data)


def use(path: str) -> None:
    """Do everything with a dump file that a reader does."""
    probe(path)
    dump = DumpFile.open(path)
    for kind, tensors in (("input", dump.inputs), ("output", dump.outputs)):
        for info in tensors:
            try:
                dump.tensor(kind, info.index).array()
            except GoldwatchError:
                pass
    for kind, regions in (("buffer", dump.buffers), ("space", dump.spaces)):
        for region in regions:
            source = dump.source(kind, region.index)
            source.read(0, source.nbytes)


def check(data: bytes, name: str, reader: Callable[[str], Any]) -> None:
    handle, path = tempfile.mkstemp(suffix=name)
    try:
        os.write(handle, data)
        os.close(handle)
        tracemalloc.start()
        try:
            reader(path)
        except GoldwatchError as error:
            assert error.message
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 2_000_000 + 100 * len(data)
    finally:
        os.unlink(path)


@FUZZ
@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=200).map(lambda data: struct.pack("<Q", len(data) // 2) + data),
    )
)
def test_random_bytes_raise_only_goldwatch_errors(data: bytes) -> None:
    check(data, "dump", use)


@FUZZ
@given(mutated(SAMPLES))
def test_mutated_dumps_raise_only_goldwatch_errors(data: bytes) -> None:
    check(data, "dump", use)


@FUZZ
@given(
    st.lists(st.tuples(st.integers(0, 255), WORD, st.lists(WORD, max_size=4)), max_size=4),
    st.binary(max_size=64),
)
def test_any_header_values_raise_only_goldwatch_errors(tensors: Any, payload: bytes) -> None:
    header = load_messages().DumpData(version="2.0")
    for code, size, dims in tensors:
        header.output.add(
            data_type=code % 45, format=code, size=size % 65 if code % 2 else size
        ).shape.dim.extend(dims)
    message = header.SerializeToString()
    check(struct.pack("<Q", len(message)) + message + payload, "dump", use)
    check(message + payload, "dump", use)


@FUZZ
@given(
    st.one_of(
        mutated(NPY),
        st.binary(max_size=200),
        st.binary(max_size=100).map(lambda data: b"\x93NUMPY\x01\x00\x50\x00" + data),
    )
)
def test_mutated_npy_files_raise_only_goldwatch_errors(data: bytes) -> None:
    def read(path: str) -> None:
        probe(path)
        open_npy(path).array()

    check(data, ".npy", read)
