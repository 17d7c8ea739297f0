"""A pair larger than the page cache: which pages are dropped behind the reader, in a simulated
cache.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from goldwatch.dumps.dump_file import DumpFile
from goldwatch.dumps.golden_set import GoldenSet
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.metrics import reads_past_page_cache
from goldwatch.metrics.compare_pair import compare_pair
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import METRICS, PASS, Row
from goldwatch.tensors.layout_conversion import convert

PAGE = 4096
SHAPE = (16, 32, 50, 20)


class Cache:
    """The page cache of some files, of any size: what of them is read and dropped."""

    def __init__(self, monkeypatch) -> None:
        self.pages = set()
        self.fetched = self.most = self.drops = 0
        self._read, self._advise = os.preadv, os.posix_fadvise
        monkeypatch.setattr(os, "preadv", self.preadv)
        monkeypatch.setattr(os, "posix_fadvise", self.posix_fadvise)

    def preadv(self, descriptor, buffers, offset):
        got = self._read(descriptor, buffers, offset)
        touched = {
            (os.fstat(descriptor).st_ino, page)
            for page in range(offset // PAGE, -(-(offset + got) // PAGE))
        }
        self.fetched += len(touched - self.pages)
        self.pages |= touched
        self.most = max(self.most, len(self.pages))
        return got

    def posix_fadvise(self, descriptor, offset, nbytes, advice):
        if advice == os.POSIX_FADV_DONTNEED:
            assert nbytes > 0
            self.drops += 1
            self.pages -= {
                (os.fstat(descriptor).st_ino, page)
                for page in range(-(-offset // PAGE), (offset + nbytes) // PAGE)
            }
        else:
            self._advise(descriptor, offset, nbytes, advice)


@pytest.fixture(params=["NCHW", "NC1HWC0"])
def pair(request, tmp_path, monkeypatch) -> PairTask:
    """A target of 1 MB and a golden tensor of 2 MB, compared in shares."""
    golden = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    np.save(str(tmp_path / "op.0.1767323045000000.npy"), golden)
    stored = (golden * np.float32(1.001)).astype(np.float16)
    if request.param != "NCHW":
        stored = convert(stored, "NCHW", request.param, SHAPE)
    path = str(tmp_path / "Add.op.1.2.1767323045000000")
    write_dump(path, [], [TensorData(stored, format=request.param, original_shape=SHAPE)])
    monkeypatch.setattr("goldwatch.metrics.compare_pair.SPLIT_BYTES", 1000)
    monkeypatch.setattr("goldwatch.metrics.compare_pair._PART_BYTES", 200000)
    monkeypatch.setattr("goldwatch.tensors.aligned_blocks.SLAB_BYTES", 100000)
    monkeypatch.setattr(reads_past_page_cache, "_LEAST_BYTES", PAGE)
    row = Row(
        index=1,
        op="op",
        op_type="Add",
        tensor="op:output:0",
        kind="output",
        verdict=PASS,
        target_file=path,
    )
    return PairTask(
        row,
        DumpFile.open(path).tensor("output", 0),
        GoldenSet(str(tmp_path)).find("op", 0),
        "NCHW",
    )


def compared(pair, monkeypatch, room, metrics=METRICS):
    """Return the row, and what happened in the cache."""
    monkeypatch.setattr(reads_past_page_cache, "cache_room", lambda: room)
    with monkeypatch.context() as patched:
        cache = Cache(patched)
        return compare_pair(replace(pair), Settings(metrics=metrics)), cache


def test_a_pair_that_fits_into_the_page_cache_stays_there(pair, monkeypatch) -> None:
    total = 6 * np.prod(SHAPE)
    for room in (None, total):
        row, cache = compared(pair, monkeypatch, room)
        assert row.verdict == PASS and cache.drops == 0
        assert (
            cache.fetched == len(cache.pages) and total <= cache.fetched * PAGE <= total + 4 * PAGE
        )


def test_a_larger_pair_keeps_only_its_end_in_the_cache_for_the_second_read(
    pair, monkeypatch
) -> None:
    row, _ = compared(pair, monkeypatch, None)
    total = 6 * int(np.prod(SHAPE))
    for room in (0, total // 2, total - 1):
        found, cache = compared(pair, monkeypatch, room)
        assert found == row, "the same bits, whatever is dropped"
        # Pages that two reads or two shares have in common stay.
        slack = 40 * PAGE + 200000
        assert cache.fetched * PAGE == pytest.approx(2 * total - room / 2, abs=slack)
        assert cache.most * PAGE == pytest.approx(room / 2, abs=slack)
        assert len(cache.pages) <= 40


def test_a_pair_that_is_read_once_leaves_nothing_in_the_cache(pair, monkeypatch) -> None:
    total = 6 * int(np.prod(SHAPE))
    _, cache = compared(pair, monkeypatch, total // 2, ("CosineSimilarity",))
    assert (
        cache.fetched * PAGE == pytest.approx(total, abs=40 * PAGE)
        and cache.most * PAGE < 40 * PAGE + 200000
        and len(cache.pages) <= 40
    )


def test_without_posix_fadvise_the_row_is_the_same(pair, monkeypatch) -> None:
    row, _ = compared(pair, monkeypatch, None)
    monkeypatch.setattr(reads_past_page_cache, "cache_room", lambda: 1)

    def refuse(*arguments):
        raise OSError(errno.ENOSYS, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    assert compare_pair(pair, Settings()) == row
    monkeypatch.delattr(os, "posix_fadvise")
    assert compare_pair(pair, Settings()) == row
