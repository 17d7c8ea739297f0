"""Files that change between the two reads of a large tensor: no row mixes both contents."""

from __future__ import annotations

import os

import numpy as np
import pytest

from goldwatch.dumps import TensorData, write_dump
from goldwatch.dumps.dump_file import DumpFile
from goldwatch.dumps.golden_set import GoldenSet
from goldwatch.dumps.slices import JoinedSource
from goldwatch.metrics import compare_blocks
from goldwatch.metrics import compare_pair as pair_module
from goldwatch.metrics.compare_pair import compare_pair
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import CHANGED, NOT_COMPARED, PASS, Row
from goldwatch.run import split_pair
from goldwatch.tensors.tensor import Tensor

VALUES = np.random.default_rng(5).standard_normal((64, 640)).astype(np.float32)


@pytest.fixture
def paths(tmp_path):
    golden = str(tmp_path / "op.0.1767323045000000.npy")
    np.save(golden, VALUES)
    target = str(tmp_path / "Add.op.1.2.1767323045000000")
    write_dump(target, [], [TensorData(VALUES + np.float32(1e-4))])
    return {"target": target, "golden": golden}


@pytest.fixture
def task(paths, monkeypatch):
    monkeypatch.setattr(compare_blocks, "_KEEP_BYTES", 1000)
    row = Row(
        index=0,
        op="op",
        op_type="Add",
        tensor="op:output:0",
        kind="output",
        verdict=PASS,
        target_file=paths["target"],
        reason="a note",
    )
    golden = GoldenSet(os.path.dirname(paths["golden"])).find("op", 0)
    return PairTask(row, DumpFile.open(paths["target"]).tensor("output", 0), golden)


def rewrite(path: str) -> None:
    """Change the last bytes in place: size and inode stay."""
    with open(path, "r+b") as stream:
        stream.seek(-4000, os.SEEK_END)
        stream.write(np.full(1000, 9, np.float32).tobytes())
    os.utime(path, ns=(1, 1))


def between_walks(monkeypatch, change) -> None:
    compare_blocks = pair_module.compare_blocks

    def interrupted(once, metrics, axes, slack, again, sampled):
        def second():
            change()
            return again()

        return compare_blocks(once, metrics, axes, slack, second, sampled)

    monkeypatch.setattr(pair_module, "compare_blocks", interrupted)


def assert_told(row: Row, path: str) -> None:
    assert (row.verdict, row.cause, row.metrics) == (NOT_COMPARED, CHANGED, {})
    assert (
        row.reason.startswith("a note; %s changed while it was compared" % path)
        and "compare again" in row.reason
    )
    assert (row.target_dtype, row.golden_dtype) == ("float32", "float32")


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_file_that_changes_between_two_reads_is_not_compared(
    paths, task, side, monkeypatch
) -> None:
    assert compare_pair(task, Settings()).verdict == PASS
    between_walks(monkeypatch, lambda: rewrite(paths[side]))
    assert_told(compare_pair(task, Settings()), paths[side])


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_file_that_changes_while_a_huge_pair_is_split_is_not_compared(
    paths, task, side, monkeypatch
) -> None:
    monkeypatch.setattr(pair_module, "SPLIT_BYTES", 1000)
    monkeypatch.setattr(pair_module, "_PART_BYTES", 80000)
    shares = split_pair.SplitPair(task, Settings())
    while shares.row is None:
        for result in [function(*arguments) for function, *arguments in shares.calls()]:
            shares.take(result)
        rewrite(paths[side])
    assert_told(shares.row, paths[side])


def test_each_file_of_a_sliced_tensor_is_watched_for_changes(
    paths, task, tmp_path, monkeypatch
) -> None:
    half = VALUES.nbytes // 2
    sources = []
    for number in (0, 1):
        path = str(tmp_path / ("Add.op.%d.2.1767323045000000" % (3 + number)))
        write_dump(
            path, [], [TensorData(VALUES[32 * number : 32 * number + 32] + np.float32(1e-4))]
        )
        sources.append(DumpFile.open(path).tensor("output", 0).source)
    joined = JoinedSource(1, half, [((0, 1), sources[0]), ((1, 2), sources[1])])
    task = task.__class__(
        task.row, Tensor(task.target.dtype, VALUES.shape, "ND", joined), task.golden
    )
    assert compare_pair(task, Settings()).verdict == PASS
    between_walks(monkeypatch, lambda: rewrite(sources[1].path))
    assert_told(compare_pair(task, Settings()), sources[1].path)


def test_a_file_deleted_between_two_reads_is_compared_as_it_was(paths, task, monkeypatch) -> None:
    between_walks(monkeypatch, lambda: os.remove(paths["target"]))
    row = compare_pair(task, Settings())
    assert row.verdict == PASS and row.metrics
