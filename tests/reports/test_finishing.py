from __future__ import annotations

import csv
import errno
import json
import os
import random

import numpy as np
import pytest

import goldwatch.reports.rendered_rows as kept_rows
from goldwatch.diagnosis.summary import summarise
from goldwatch.errors import EnvironmentProblem
from goldwatch.judging.limits import Limits
from goldwatch.model.graph import load_model
from goldwatch.reports.csv_cells import Columns, cells, mapping_cells
from goldwatch.reports.finishing import ResultFiles, holds_all
from goldwatch.reports.rendered_rows import RenderedRowCache, Renderer
from goldwatch.store.network import GRAPHS, SUMMARY, network_document
from goldwatch.store.rowsql import RowReader, row_key, row_line
from goldwatch.store.store import RunStore
from goldwatch.testing.model import DeviceModel, DeviceOp, DeviceTensor


@pytest.fixture
def store(tmp_path, make_row):
    with RunStore.begin(str(tmp_path / "out"), {}) as store:
        places = [
            {"device": "0", "model": "m", "model_id": "1", "step": step, "time": "20240101000000"}
            for step in ("10", "9")
        ]
        store.put_all(
            make_row(number, verdict="fail" if number == 7 else "pass", **place)
            for place in places
            for number in range(300)
        )
        store.events.omit("x:output:0", "inner")
        yield store


def table(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))[1:]


def test_one_walk_feeds_every_file(store, monkeypatch):
    rows = list(store.rows("index"))
    read = []
    real = RowReader.row
    monkeypatch.setattr(RowReader, "row", lambda self, values: read.append(1) or real(self, values))
    with ResultFiles(store, Columns(), ("t", "g")) as files:
        summary = summarise(files.rows, 5, Limits(), whole=files.whole)
        assert (
            len(read) == len(rows) + 1
        ), "one walk judges and writes; of the first failing row the verdict wants all"
        paths = files.finish(summary, Limits())
    assert len(read) <= len(rows) + 100, "those around the first divergence are shown"
    names = [os.path.basename(path).rsplit("_", 1)[0] for path in paths[:-1]]
    assert names == ["0_m_9_result", "0_m_9_mapping", "0_m_10_result", "0_m_10_mapping"]
    for number, step in enumerate(("9", "10")):
        of_step = [row for row in rows if row.step == step]
        assert table(paths[2 * number]) == [cells(row, Columns()) for row in of_step]
        assert table(paths[2 * number + 1]) == [mapping_cells(row, "t", "g") for row in of_step]
    with open(paths[-1], encoding="ascii") as stream:
        document = json.load(stream)
    assert list(document) == ["summary", "limits", "rows", "omitted"]
    assert document["omitted"] == [{"tensor": "x:output:0", "reason": "inner"}]
    assert [row["tensor"] for row in document["rows"]] == [row.tensor for row in rows]
    assert document["summary"] == store.get(SUMMARY) and document["summary"]["failed"] == 2
    chosen = store.numbered(files.chosen.numbers)
    assert files.chosen.total == 600 and len(chosen) == 20
    assert [
        chosen[number].step for number in files.chosen.numbers if chosen[number].verdict == "fail"
    ] == ["9", "10"]
    assert sorted(os.listdir(os.path.dirname(store.path))) == sorted(
        [
            *map(os.path.basename, paths),
            "run.lock",
            "run.sqlite",
            "run.sqlite-shm",
            "run.sqlite-wal",
        ]
    )


def test_nobody_needs_to_walk(store):
    summary = summarise(store.rows(), 5, Limits())
    with ResultFiles(store, Columns()) as files:
        paths = files.finish(summary, Limits())
    assert len(paths) == 3 and len(table(paths[0])) == 300


def test_a_store_without_rows(tmp_path):
    with RunStore.begin(str(tmp_path), {}) as store, ResultFiles(store, Columns()) as files:
        paths = files.finish(summarise(files.rows, 0, Limits()), Limits())
        assert [os.path.basename(path) for path in paths] == [
            "result_%s.csv" % store.started,
            "result.json",
        ]
        assert table(paths[0]) == [] and len(files.rows) == 0


def test_a_walk_that_breaks_leaves_the_older_files(store):
    with ResultFiles(store, Columns()) as files:
        paths = files.finish(summarise(files.rows, 5, Limits(), whole=files.whole), Limits())
    before = [open(path).read() for path in paths]  # noqa: SIM115  closed by the collector
    store.set("x", 1)
    for error in (KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")):
        expected = EnvironmentProblem if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected), ResultFiles(store, Columns()) as files:
            for number, _ in enumerate(files.rows):
                if number == 400:
                    raise error
    assert [open(path).read() for path in paths] == before  # noqa: SIM115
    assert not [
        name for name in os.listdir(os.path.dirname(store.path)) if name.startswith(".goldwatch")
    ]


def test_a_full_disk_is_told(store, monkeypatch):
    def full(row, metrics):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept_rows, "row_text", full)
    with pytest.raises(EnvironmentProblem, match="the disk is full"), ResultFiles(
        store, Columns()
    ) as files:
        files.finish(summarise(files.rows, 5, Limits(), whole=files.whole), Limits())


def test_the_network_is_kept(tmp_path):
    model, data = DeviceModel("net"), np.zeros((1, 3, 4, 5), np.float16)
    model.add(DeviceOp("data", "Data", (), (DeviceTensor(data, "NCHW", "NCHW", "data"),)))
    model.add(
        DeviceOp(
            "conv",
            "Conv2D",
            (("data", 0),),
            (DeviceTensor(data, "NC1HWC0", "NCHW", "conv1"),),
            ("conv1", "relu1"),
        )
    )
    path = str(tmp_path / "net.json")
    model.write_json(path)
    graph = load_model(path)
    with RunStore.begin(str(tmp_path / "out"), {}) as store:
        store.set(GRAPHS, [network_document(graph)])
    os.unlink(path)
    os.rename(str(tmp_path / "out"), str(tmp_path / "moved"))
    with RunStore.open(str(tmp_path / "moved")) as store:
        (found,) = store.get(GRAPHS)
        ops = {op["name"]: op for op in found["ops"]}
    conv = ops["conv"]
    assert found["model"] == "net"
    assert (
        conv["inputs"] == [["data", 0]]
        and conv["originals"] == ["conv1", "relu1"]
        and conv["type"] == "Conv2D"
    )
    assert conv["output_descs"][0]["layout"] == "NC1HWC0" and conv["output_descs"][0]["shape"] == [
        1,
        1,
        4,
        5,
        16,
    ]
    assert (
        conv["output_descs"][0]["origin_layout"] == "NCHW"
        and conv["output_descs"][0]["origin"] == "conv1"
    )


def test_rows_that_were_rendered_when_they_were_stored_are_not_read_again(
    store, make_row, monkeypatch
):
    render, kept = Renderer(Columns()), RenderedRowCache(os.path.dirname(store.path))
    more = [
        make_row(number, op="more%d" % number, device="1", model="m", model_id="1", step="9")
        for number in range(50)
    ]
    store.table.put(
        map(row_line, more),
        lambda place, number, checksum: kept.keep(
            more[place], number, checksum, render(more[place])
        ),
    )
    # A row that is changed or removed after it was rendered is as the store has it.
    store.put_all([more[3].but(verdict="fail", reason="found again")])
    store.table.remove([row_key(more[7])], "gone")
    store.table.put(
        [row_line(more[5])], lambda place, number, checksum: pytest.fail("it was there as it is")
    )
    expected = [cells(row, Columns()) for row in store.rows("index", more[0].place)]
    read = []
    real = RowReader.row
    monkeypatch.setattr(RowReader, "row", lambda self, values: read.append(1) or real(self, values))
    with ResultFiles(store, Columns(), kept=kept) as files:
        summary = summarise(files.rows, 5, Limits(), whole=files.whole)
        assert (
            len(read) == 600 + 1 + 1
        ), "those of the fixture, the one that was changed, and the first failing one"
        paths = files.finish(summary, Limits())
    assert summary.rows == 649 and summary.failed == 3
    by_name = {os.path.basename(path).rsplit("_", 1)[0]: path for path in paths}
    assert len(expected) == 49 and table(by_name["1_m_9_result"]) == expected
    with open(paths[-1], encoding="ascii") as stream:
        assert [row["tensor"] for row in json.load(stream)["rows"]] == [
            row.tensor for row in store.rows("index")
        ]


def test_rows_rendered_for_other_tables_are_rendered_anew(store, make_row):
    kept = RenderedRowCache(os.path.dirname(store.path))
    row = make_row(0, op="more", device="1", overflow=True)
    store.table.put(
        [row_line(row)],
        lambda place, number, checksum: kept.keep(row, number, checksum, Renderer(Columns())(row)),
    )
    wanted = Columns(overflow=True)
    with ResultFiles(store, wanted, kept=kept) as files:
        paths = files.finish(summarise(files.rows, 5, Limits(), whole=files.whole), Limits())
    assert cells(row, wanted) in [line for path in paths[:-1] for line in table(path)]


def put_and_keep(store, rows):
    """Store rows, and keep them as an engine does."""
    render, kept = Renderer(Columns()), RenderedRowCache(os.path.dirname(store.path))
    store.table.put(
        map(row_line, rows),
        lambda place, number, checksum: kept.keep(
            rows[place], number, checksum, render(rows[place])
        ),
    )
    return kept, render


def finished_table(store, kept):
    with ResultFiles(store, Columns(), kept=kept) as files:
        paths = files.finish(summarise(files.rows, 5, Limits(), whole=files.whole), Limits())
    return [line for path in paths[:-1] for line in table(path)]


def as_table(rows):
    return [
        [cell.encode("utf-8", "backslashreplace").decode() for cell in cells(row, Columns())]
        for row in rows
    ]


def mixed_rows(make_row):
    """Rows of several places in no order, alike in most of what orders them."""
    names, places = (
        (None, "a", "a/b", "a b", "Ä", "z"),
        (("2", None), ("10", "0"), ("10", "1"), ("9", None)),
    )
    chosen = random.Random(3)
    rows = [
        make_row(
            7, index=index, op="%s%d" % (op, index), group=("x%d" % index, "y%d" % index),
            step=step, device=device,
            target_file=name, kind=kind, tensor_index=tensor_index,
            timestamp_us=chosen.choice((5, 40, 1700000001000000)),
        )
        for step, device in places for index in (0, 2, 300) for name in names for op in ("x", "y")
        for kind, tensor_index in (("input", 0), ("input", 10), ("output", 2), ("op", None))
    ]  # fmt: skip
    chosen.shuffle(rows)
    return rows


def test_rows_that_are_kept_are_put_in_the_order_of_the_table_without_the_store(
    tmp_path, make_row, monkeypatch
):
    monkeypatch.setattr(kept_rows, "_GATHERED_ROWS", 100)
    with RunStore.begin(str(tmp_path), {}) as store:
        kept, render = put_and_keep(store, mixed_rows(make_row))
        assert holds_all(kept, store)
        places = store.places(kept.places)
        assert places == store.places() and len(places) == 4
        numbers, sums = store.numbers(places)
        found = kept.in_order(places, render)
        assert [column.tolist() for column in found] == [
            kept.slots(numbers, sums, render).tolist(),
            numbers.tolist(),
            sums.tolist(),
        ]
        assert kept.in_order(places, Renderer(Columns(golden_address=True))) is None
        monkeypatch.setattr(store, "numbers", None)
        assert finished_table(store, kept) == as_table(store.rows("index"))


@pytest.mark.parametrize(
    "odd", [{"target_file": "\udcff"}, {"index": 1 << 70}, {"index": -1}, {"timestamp_us": 1 << 63}]
)
def test_rows_that_are_odd_are_ordered_by_the_store(tmp_path, make_row, odd):
    with RunStore.begin(str(tmp_path), {}) as store:
        kept, render = put_and_keep(store, [make_row(1), make_row(2, **odd), make_row(3)])
        assert holds_all(kept, store) and kept.in_order(store.places(), render) is None
        assert finished_table(store, kept) == as_table(store.rows())


def test_rows_that_changed_are_ordered_by_the_store(tmp_path, make_row):
    def replaced(store, rows):
        store.put(rows[2].but(verdict="fail"))

    def removed(store, rows):
        store.table.remove([row_key(rows[0])], "gone")
        store.put(make_row(9))

    def renumbered(store, rows):
        store.table.renumber({rows[0].place: {rows[0].op: 77}})

    def rolled_back(store, rows):
        with pytest.raises(ValueError, match="broken"), store.transaction():
            store.put(make_row(9))
            raise ValueError("broken")

    def added(store, rows):
        store.put(make_row(9))

    for change in (replaced, removed, renumbered, rolled_back, added):
        with RunStore.begin(str(tmp_path / change.__name__), {}) as store:
            rows = [make_row(number, op_sequence=None) for number in range(3)]
            kept, _ = put_and_keep(store, rows)
            assert holds_all(kept, store)
            change(store, rows)
            assert not holds_all(kept, store), change
            assert finished_table(store, kept) == as_table(store.rows())
