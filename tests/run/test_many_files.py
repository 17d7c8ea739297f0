"""Hundreds of thousands of small dumps: memory per file, and pairs waiting."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from goldwatch import compare
from goldwatch.base.naming import parse_dump_name
from goldwatch.dumps.folder_listing import Signature
from goldwatch.dumps.golden_set import GoldenEntry
from goldwatch.dumps.write import TensorData, write_dump
from goldwatch.metrics.pair_task import PairTask
from goldwatch.metrics.row import PASS, Row
from goldwatch.run import compare_folders, pair_queue
from goldwatch.run.dump_catalogue import Catalogue, RowFiles
from goldwatch.run.engine import Engine
from goldwatch.run.pair_queue import PairQueue
from goldwatch.run.workers import Workers
from goldwatch.tensors.dtypes import dtype_by_name
from goldwatch.tensors.tensor import HeldBytes, Tensor

OPS, STEPS = 100, 40


def test_a_known_file_takes_a_fifth_of_a_kilobyte() -> None:
    paths = [
        "/lab/dump/20260102030405/0/net/1/%d/Conv2D.stage%d_conv.%d.0.%d" % (step, op, op,
        1700000000000000 + 1000 * step + op)
        for step in range(STEPS) for op in range(OPS)
    ]  # fmt: skip
    catalogue = Catalogue("/lab/dump")
    for path in paths[:OPS]:
        catalogue.meet(path)
    tracemalloc.start()
    try:
        for number, path in enumerate(paths[OPS:]):
            catalogue.meet(path)[0].change(
                Signature(
                    4096,
                    1700000000000000000 + number,
                    1 << 40 | number,
                    1700000000000000000 + number,
                )
            )
        # Which remembers some thousand names, however many there are.
        parse_dump_name.cache_clear()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / (len(paths) - OPS) < 205
    assert len(catalogue.files) == len(paths)
    assert [file.path for file in catalogue.files.each()] == list(catalogue.files) == paths


def test_files_of_rows_are_numbered_once_by_the_catalogue_or_beside_it(tmp_path) -> None:
    catalogue = Catalogue(str(tmp_path))
    names = ["0/net/1/1/Relu.a.1.1.5", "0/net/1/1/Relu.b.2.1.6"]
    files = [catalogue.meet(os.path.join(catalogue.root, name))[0] for name in names]
    known = RowFiles(catalogue)
    # A folder has rows too, and so has a file that the catalogue does not know.
    others = ["0/net/1/2", "elsewhere/Relu.c.1.1.1"]
    numbers = known.add([*names, *others])
    assert numbers[:2] == [file.number for file in files]
    assert len(set(numbers)) == 4 and max(numbers) < 1 << 31
    assert known.add(others[::-1]) == numbers[:1:-1] and known.add(names[1:]) == numbers[1:2]
    assert [known[number] for number in numbers] == [*names, *others]


def test_files_are_compared_op_by_op_some_places_after_the_others(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(compare_folders, "_PLACES", 2)
    catalogue = Catalogue(str(tmp_path))
    for step in "123":
        for op in "ba":
            catalogue.meet(os.path.join(catalogue.root, "0/net/1/%s/Relu.%s.1.1.5" % (step, op)))
    files = catalogue.files.each()
    order = compare_folders._op_by_op(files)
    assert [(files[at].op_name, files[at].place.step) for at in order] == [
        *[("b", "1"), ("b", "2"), ("a", "1"), ("a", "2")],
        *[("b", "3"), ("a", "3")],
    ]


def test_files_are_found_and_removed_by_path(tmp_path) -> None:
    catalogue = Catalogue(str(tmp_path))
    names = ["0/net/1/1/Relu.a.1.1.5", "0/net/1/1/Relu.b.2.1.6", "1/net/1/1/Relu.a.1.1.5"]
    paths = [os.path.join(catalogue.root, name) for name in names]
    files = [catalogue.meet(path)[0] for path in paths]
    assert [file.rel for file in files] == names and len(catalogue.files) == 3
    assert (
        catalogue.files[paths[1]] == files[1]
        and paths[1] + "x" not in catalogue.files
        and catalogue.files.get("/") is None
    )
    assert (
        catalogue.known_below(os.path.dirname(paths[0])) == paths[:2]
        and catalogue.known_below(catalogue.root + "/0") == paths[:2]
    )
    for _ in range(2):
        catalogue.forget(files[0])
    assert (
        list(catalogue.files) == paths[1:]
        and len(catalogue.files) == 2
        and catalogue.meet(paths[0])[0] != files[0]
    )


def task(golden, nbytes=8):
    row = Row(index=0, op="a", op_type="Relu", tensor="a:output:0", kind="output", verdict=PASS)
    target = Tensor(dtype_by_name("float32"), (nbytes // 4,), "ND", HeldBytes(b"\0" * nbytes))
    return PairTask(row, target, GoldenEntry(golden, golden, "a", 0, 1, "npy", "output"))


def test_pairs_of_one_golden_tensor_are_handed_out_in_batches() -> None:
    queue = PairQueue()
    for number in range(2 * pair_queue._BATCH_TASKS + 3):
        queue.put(task("shared"))
        queue.put(task("own%d" % number, 400))
        queue.ripen(1000)
    batches = []
    while queue.ripe:
        batches.append(queue.batch())
    assert [len(batch) for batch in batches] == [pair_queue._BATCH_TASKS] * 2
    assert {task.golden.path for batch in batches for task in batch} == {"shared"} and len(
        queue
    ) == len(own_left(queue)) + 3
    while queue.ripe:
        queue.batch()
    assert len(queue) == 0 and not queue.full


def own_left(queue):
    queue.ripen()
    return [key for key in queue._groups if key[0] != "shared"]


@pytest.fixture
def training(tmp_path):
    values = np.arange(4, dtype=np.float32)
    (tmp_path / "golden").mkdir()
    for op in "abc":
        np.save(str(tmp_path / "golden" / ("%s.0.1.npy" % op)), values)
    for step in range(40):
        folder = tmp_path / "dump" / "20260102030405" / "0" / "net" / "1" / str(step)
        folder.mkdir(parents=True)
        for number, op in enumerate("abc"):
            tensor = TensorData(values + step, format="ND", original_shape=(4,))
            write_dump(
                str(folder / ("Relu.%s.%d.0.%d" % (op, number, 100 + step))),
                [],
                [tensor],
                op_name=op,
            )
    return tmp_path


@pytest.mark.parametrize("jobs", [1, 2])
def test_few_pairs_wait_in_memory_however_many_files_there_are(training, monkeypatch, jobs) -> None:
    put, most = PairQueue.put, []

    def noted(self, task):
        put(self, task)
        most.append(len(self))

    monkeypatch.setattr(PairQueue, "put", noted)
    every = compare(
        str(training / "dump"), str(training / "golden"), out=str(training / "all"), jobs=jobs
    )
    monkeypatch.setattr(pair_queue, "_MOST_PAIRS", 10)
    monkeypatch.setattr(compare_folders, "_SLICE", 64)
    before = max(most)
    del most[:]
    few = compare(
        str(training / "dump"), str(training / "golden"), out=str(training / "few"), jobs=jobs
    )
    # A slice of files is planned before the queue is looked at.
    assert max(most) < 10 + 64 < before == 120
    assert few.summary == every.summary and [row.verdict for row in few.rows()] == [
        row.verdict for row in every.rows()
    ]


def test_pairs_beyond_the_workers_capacity_are_compared_in_this_process(
    training, monkeypatch
) -> None:
    compared, submit = [], Workers.submit

    def noted(self, tasks, here=False):
        if here:
            compared.append(len(tasks))
        submit(self, tasks, here)

    monkeypatch.setattr(Workers, "submit", noted)
    alone = compare(
        str(training / "dump"), str(training / "golden"), out=str(training / "alone"), jobs=1
    )
    assert not compared
    monkeypatch.setattr(compare_folders, "_FEW", 0)
    monkeypatch.setattr(pair_queue, "_BATCH_TASKS", 5)
    monkeypatch.setattr(Workers, "full", property(lambda self: self.in_flight > 0))
    helped = compare(
        str(training / "dump"), str(training / "golden"), out=str(training / "helped"), jobs=2
    )
    assert sum(compared) > 0
    assert [replace(row, metrics={}) for row in helped.rows()] == [
        replace(row, metrics={}) for row in alone.rows()
    ]
    assert [row.metrics for row in helped.rows()] == [row.metrics for row in alone.rows()]


def test_rows_are_rendered_in_the_process_that_compares_them(training, monkeypatch) -> None:
    put_rows = Engine.put_rows

    def refuse(engine, rows, file=None):
        assert not any(row.metrics for row in rows), "it came without its line"
        put_rows(engine, rows, file)

    monkeypatch.setattr(Engine, "put_rows", refuse)
    assert (
        compare(
            str(training / "dump"), str(training / "golden"), out=str(training / "out"), jobs=1
        ).summary.rows
        == 120
    )
