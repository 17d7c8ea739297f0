"""Worker processes: huge pairs in shares, workers that die, equal tensors compared once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from goldwatch.base.pool import Child
from goldwatch.dumps.dump_file import DumpFile
from goldwatch.dumps.golden_set import GoldenSet
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.metrics.compare_pair import compare_pair, compare_pairs, prepare_process
from goldwatch.metrics.pair_task import PairTask, Settings
from goldwatch.metrics.row import NOT_COMPARED, PASS, Row
from goldwatch.run import split_pair, workers
from goldwatch.run.workers import Workers
from goldwatch.tensors.layout_conversion import convert


class Killer:
    """Ends the process that unpickles it; to ours it is a golden tensor."""

    path = "there is none"

    def __reduce__(self):
        return os._exit, (9,)


@pytest.fixture
def pairs(tmp_path):
    random = np.random.default_rng(3)
    tasks = []
    for number in range(6):
        golden = random.standard_normal((2, 20, 30, 40)).astype(np.float32)
        np.save(str(tmp_path / ("op%d.0.1767323045000000.npy" % number)), golden)
        stored = convert((golden + 0.01).astype(np.float16), "NCHW", "NC1HWC0", golden.shape)
        path = str(tmp_path / ("Add.op%d.1.2.1767323045000000" % number))
        write_dump(path, [], [TensorData(stored, format="NC1HWC0", original_shape=golden.shape)])
        tasks.append((path, number))
    goldens = GoldenSet(str(tmp_path))
    return [
        PairTask(
            Row(
                index=n,
                op="op%d" % n,
                op_type="Add",
                tensor="op%d:output:0" % n,
                kind="output",
                verdict=PASS,
                target_file=path,
            ),
            DumpFile.open(path).tensor("output", 0),
            goldens.find("op%d" % n, 0),
            "NCHW",
        )
        for path, n in tasks
    ]


@pytest.fixture
def start():
    """Make workers whose processes are there; they are closed at the end."""
    made = []

    def make(jobs=2, most=None):
        pool = Workers(jobs, Settings())
        made.append(pool)
        pool.start(most)
        pool._processes.submit(prepare_process).result(60)
        return pool

    yield make
    for pool in made:
        pool.close(now=True)


def run_all(pool, batches):
    rows = {}
    waiting = list(batches)
    while waiting or pool.in_flight:
        while waiting and not pool.full:
            pool.submit(waiting.pop(0))
        for tasks, found in pool.collect(30.0):
            assert len(tasks) == len(found)
            for row in found:
                assert row.tensor not in rows
                rows[row.tensor] = row
    pool.close()
    return rows


def assert_alike(row, other):
    assert (
        row.verdict == other.verdict
        and row.shape == other.shape
        and row.golden_dtype == other.golden_dtype
    )
    for name, value in other.metrics.items():
        if isinstance(value, dict):
            assert row.metrics[name]["target"] == pytest.approx(value["target"], rel=1e-9)
        else:
            assert row.metrics[name] == pytest.approx(value, rel=1e-9, abs=1e-15)


def split_early(monkeypatch) -> None:
    monkeypatch.setattr("goldwatch.metrics.compare_pair.SPLIT_BYTES", 1000)
    monkeypatch.setattr("goldwatch.metrics.compare_pair._PART_BYTES", 20000)
    monkeypatch.setattr("goldwatch.tensors.aligned_blocks.SMALL_BYTES", 1000)


def test_the_next_batch_of_a_worker_is_read_ahead(pairs, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        workers, "prefetch", lambda paths, nbytes, start=0: asked.append((*paths, nbytes, start))
    )
    with_workers = Workers(1, Settings(), apart=True)
    try:
        with_workers.submit(pairs[:1])
        source = pairs[0].target.source
        assert asked == [
            (source.path, source.nbytes, source.offset),
            (pairs[0].golden.path, 8 << 20, 0),
        ]
        ((_, (row,)),) = with_workers.collect()
    finally:
        with_workers.close()
    assert_alike(row, compare_pair(pairs[0], Settings()))


def test_a_huge_pair_compared_in_shares_gives_the_same_row(pairs, monkeypatch, start) -> None:
    split_early(monkeypatch)
    twin = replace(pairs[0], planned=replace(pairs[0].row, tensor="twin"))
    rows = run_all(start(), [[pairs[0], twin]] + [[task] for task in pairs[1:]])
    assert len(rows) == 7
    for task in pairs:
        assert_alike(rows[task.row.tensor], compare_pair(task, Settings()))
    assert_alike(rows["twin"], rows["op0:output:0"])


def test_shares_of_a_huge_pair_give_the_same_bits_in_any_order(pairs, monkeypatch) -> None:
    whole = compare_pair(pairs[0], Settings())
    split_early(monkeypatch)
    pair = split_pair.SplitPair(pairs[0], Settings())
    assert pair.parts > 2
    passes = 0
    while pair.row is None:
        # Whatever share is done first: the sums are merged in the same order.
        results = [function(*arguments) for function, *arguments in pair.calls()][::-1]
        passes += 1
        assert [pair.take(result) for result in results] == [False] * (pair.parts - 1) + [True]
    assert passes == 2
    assert_alike(pair.row, whole)
    # One process takes the same shares in the same order: the same bits.
    assert pair.row == compare_pair(pairs[0], Settings())


def test_a_huge_pair_that_cannot_be_compared_has_a_reason(
    pairs, tmp_path, monkeypatch, start
) -> None:
    split_early(monkeypatch)
    np.save(pairs[1].golden.path, np.zeros((3, 4), np.float32))
    (row,) = run_all(start(), [[pairs[1]]]).values()
    assert row.verdict == NOT_COMPARED and "[3, 4]" in row.reason


def test_work_goes_on_after_a_worker_was_killed(pairs, start) -> None:
    pool = start()
    for task in pairs[:4]:
        pool.submit([task])
    killed = pool.pids()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    rows = run_all(pool, [[task] for task in pairs[4:]])
    assert len(rows) == 6 and killed and set(pool.pids()) != set(killed)
    for task in pairs:
        assert_alike(rows[task.row.tensor], compare_pair(task, Settings()))


@pytest.mark.parametrize("limit", [1000, 1 << 40])
def test_a_pair_that_kills_its_worker_loses_only_its_own_row(
    pairs, monkeypatch, limit, start
) -> None:
    split_early(monkeypatch)
    monkeypatch.setattr("goldwatch.metrics.compare_pair.SPLIT_BYTES", limit)
    deadly = replace(pairs[2], golden=Killer())
    rows = run_all(start(), [[pairs[0], pairs[1]], [deadly], [pairs[3], pairs[4], pairs[5]]])
    assert {name for name, row in rows.items() if row.verdict == NOT_COMPARED} == {"op2:output:0"}
    assert rows["op2:output:0"].cause == "crashed" and "died" in rows["op2:output:0"].reason
    assert len(rows) == 6


def test_equal_tensors_are_compared_once(pairs, monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(
        "goldwatch.metrics.compare_pair.compare_pair",
        lambda task, settings: calls.append(task) or compare_pair(task, settings),
    )
    twin = replace(pairs[0], planned=replace(pairs[0].row, tensor="other:input:0", op="other"))
    other = replace(pairs[1], golden=pairs[0].golden)
    rows = compare_pairs([pairs[0], twin, other], Settings())
    assert len(calls) == 2
    assert (
        rows[1].metrics == rows[0].metrics
        and rows[1].op == "other"
        and rows[2].metrics != rows[0].metrics
    )


def test_only_our_worker_processes_are_ended(pairs, start) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pool = start()
    ours = pool.pids()
    pool.submit([pairs[0]])
    pool.close(now=True)
    assert ours and not any(os.path.exists("/proc/%d" % pid) for pid in ours)
    assert other.poll() is None
    other.communicate(b"\n")


def test_no_worker_is_forked_from_a_process_with_threads(pairs, start, monkeypatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    pool = start()
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
    assert len(run_all(pool, [[task] for task in pairs])) == 6


def test_little_work_starts_no_worker(pairs) -> None:
    pool = Workers(2, Settings())
    assert len(run_all(pool, [[task] for task in pairs])) == 6 and pool.pids() == []


def test_no_more_workers_start_than_allowed(pairs, start) -> None:
    pool = start(3, most=1)
    assert len(run_all(pool, [[task] for task in pairs])) == 6 and len(pool.pids()) == 1


def test_this_process_compares_too_when_fewer_workers_than_jobs_started(
    pairs, start, monkeypatch
) -> None:
    full, pool = start(2), start(2, most=1)
    assert pool.helped and not full.helped
    for number in range(3):
        assert not pool.full
        pool.submit([pairs[number]])
    assert pool.full
    pool.submit([pairs[3]], here=True)
    assert [finished.tasks for finished in pool._finished] == [[pairs[3]]]
    monkeypatch.setattr(workers, "_AT_ONCE_BYTES", 0)
    pool.submit([pairs[4]], here=True)
    assert len(pool._finished) == 1, "too big to keep this process from all else"
    assert set(run_all(pool, [])) == {task.row.tensor for task in pairs[:5]}


def test_a_worker_imports_no_more_than_it_needs() -> None:
    unwanted = (
        "google.protobuf",
        "concurrent",
        "multiprocessing",
        "logging",
        "sqlite3",
        "click",
        "goldwatch.model",
        "goldwatch.cli",
    )
    child = Child()
    try:
        child.call((prepare_process,))
        loaded = child.call((eval, "sorted(__import__('sys').modules)"))
    finally:
        child.close()
    assert "goldwatch.metrics.compare_pair" in loaded
    assert not [name for name in loaded if name.startswith(unwanted)]
