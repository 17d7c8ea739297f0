from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from goldwatch.base.errors import FormatError, InputError, MissingPath, TruncatedFile
from goldwatch.dumps.file_source import MAX_OPEN_FILES, FileSource


def write(path: Any, data: bytes) -> str:
    with open(str(path), "wb") as stream:
        stream.write(data)
    return str(path)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_source_reads_only_within_its_window(tmp_path: Any) -> None:
    source = FileSource(write(tmp_path / "file", bytes(range(200))), 10, 100)
    assert source.nbytes == 100
    assert source.read(0, 100).tolist() == list(range(10, 110))
    assert source.read(99, 1).tolist() == [109]
    assert source.read(100, 0).size == 0
    for offset, nbytes in ((-1, 1), (0, 101), (100, 1), (0, -1)):
        with pytest.raises(FormatError):
            source.read(offset, nbytes)


def test_a_file_source_is_pickled_and_opened_when_first_read(tmp_path: Any) -> None:
    source = FileSource(str(tmp_path / "later"), 1, 2)
    copy = pickle.loads(pickle.dumps(source))
    write(tmp_path / "later", b"abc")
    assert source.read(0, 2).tobytes() == copy.read(0, 2).tobytes() == b"bc"
    assert pickle.loads(pickle.dumps(copy)).read(1, 1).tobytes() == b"c"
    source.close()
    assert source.read(0, 1).tobytes() == b"b"


def test_a_file_that_shrinks_is_reported_with_both_sizes(tmp_path: Any) -> None:
    path = write(tmp_path / "file", b"x" * 1000)
    source = FileSource(path, 100, 900)
    source.read(0, 900)
    os.truncate(path, 500)
    assert source.read(0, 400).size == 400
    with pytest.raises(TruncatedFile) as caught:
        source.read(0, 900)
    assert (caught.value.expected_bytes, caught.value.actual_bytes) == (1000, 500)


def test_a_file_that_is_gone_is_reported(tmp_path: Any) -> None:
    with pytest.raises(MissingPath):
        FileSource(str(tmp_path / "absent"), 0, 1).read(0, 1)


def test_a_read_error_of_the_system_is_an_input_error(tmp_path: Any) -> None:
    # The kernel refuses to read a process's memory at address 0.
    source = FileSource("/proc/self/mem", 0, 10)
    with pytest.raises(InputError):
        source.read(0, 10)


def test_many_sources_of_a_file_keep_few_files_open(tmp_path: Any) -> None:
    path = write(tmp_path / "file", bytes(range(256)))
    before = open_files()
    sources = [FileSource(path, offset, 1) for offset in range(200)]
    assert [int(source.read(0, 1)[0]) for source in sources + sources] == list(range(200)) * 2
    assert open_files() <= before + MAX_OPEN_FILES
    del sources
    assert open_files() <= before


def test_threads_may_share_sources(tmp_path: Any) -> None:
    path = write(tmp_path / "file", bytes(range(256)) * 64)
    sources = [FileSource(path, 256 * number, 256) for number in range(40)]

    def check(number: int) -> bool:
        return sources[number % 40].read(0, 256).tolist() == list(range(256))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(2000)))


MEMORY = """
import resource, sys
from goldwatch.dumps import DumpFile, open_npy
path = sys.argv[1]
tensor = open_npy(path) if path.endswith(".npy") else DumpFile.open(path).tensor("output", 0)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
total = 0
for start in range(0, tensor.count, 1 << 20):
    total += int(tensor.elements(start, min(start + (1 << 20), tensor.count)).sum())
print(total, tensor.count, peak() - before)
"""


@pytest.mark.parametrize("kind", ["version 1", "version 2", "npy", "Fortran npy"])
def test_reading_a_tensor_in_windows_needs_little_memory(tmp_path: Any, kind: str) -> None:
    count = 64 * 1024 * 1024
    if kind.endswith("npy"):
        path = str(tmp_path / "x.npy")
        array = np.lib.format.open_memmap(
            path, "w+", np.uint8, (1024, count // 1024), kind.startswith("Fortran")
        )
        array[:] = 1
        del array
    else:
        from goldwatch.dumps import write_dump

        path = str(tmp_path / "dump")
        write_dump(path, [], [np.ones(count, np.uint8)], version=int(kind[-1]))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=True,
    )
    total, found, grown_kib = (int(word) for word in done.stdout.split())
    assert total == found == count
    limit_mib = 40 if kind.startswith("Fortran") else 12
    assert grown_kib < limit_mib * 1024
