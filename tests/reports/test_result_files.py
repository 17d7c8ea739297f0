from __future__ import annotations

import csv
import errno
import glob
import json
import os
import random

import numpy as np
import pytest
from tests.helpers.table_cells import cells_of

import goldwatch.reports.rendered_rows as rendered_rows
from goldwatch.base.errors import EnvironmentProblem
from goldwatch.judging.diagnosis.summary import summarise
from goldwatch.judging.limits import Limits
from goldwatch.model.read_model import load_model
from goldwatch.reports.csv_cells import Columns, mapping_cells
from goldwatch.reports.csv_tables import noted_tables
from goldwatch.reports.rendered_rows import RenderedRowCache, Renderer
from goldwatch.reports.result_files import ResultFiles
from goldwatch.store.row_sql import RowReader, row_key, row_line
from goldwatch.store.store import RunStore
from goldwatch.store.stored_networks import GRAPHS, SUMMARY, network_document
from goldwatch.testing.device_model import DeviceModel, DeviceOp, DeviceTensor


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


def finish(store, columns=None, ops=5, **made):
    """Write all result files; return their paths."""
    with ResultFiles(store, columns or Columns(), **made) as files:
        files.write_tables()
        summary = summarise(files.rows, ops, Limits(), whole=files.whole)
        return files.finish(summary, Limits())


def table(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))[1:]


def test_each_row_is_read_once_for_all_files(store, monkeypatch):
    rows = list(store.rows("index"))
    read = []
    real = RowReader.row
    monkeypatch.setattr(RowReader, "row", lambda self, values: read.append(1) or real(self, values))
    with ResultFiles(store, Columns(), ("t", "g")) as files:
        files.write_tables()
        assert len(read) == len(rows) + 2, "each once, and the first failing one of each place"
        summary = summarise(files.rows, 5, Limits(), whole=files.whole)
        assert len(read) == len(rows) + 3, "of the first failing row the verdict needs all"
        paths = files.finish(summary, Limits())
    assert len(read) <= len(rows) + 100, "those around the first divergence are shown"
    names = [os.path.basename(path).rsplit("_", 1)[0] for path in paths[:-1]]
    assert names == ["0_m_9_result", "0_m_9_mapping", "0_m_10_result", "0_m_10_mapping"]
    for number, step in enumerate(("9", "10")):
        of_step = [row for row in rows if row.step == step]
        assert table(paths[2 * number]) == [cells_of(row) for row in of_step]
        assert table(paths[2 * number + 1]) == [mapping_cells(row, "t", "g") for row in of_step]
    with open(paths[-1], encoding="ascii") as stream:
        document = json.load(stream)
    assert list(document) == ["summary", "limits", "rows", "omitted"]
    assert document["omitted"] == [{"tensor": "x:output:0", "reason": "inner"}]
    assert [row["tensor"] for row in document["rows"]] == [row.tensor for row in rows]
    assert document["summary"] == store.get(SUMMARY) and document["summary"]["failed"] == 2
    shown = [row for block in files.shown for row in block]
    failing = [row.step for row in shown if row.verdict == "fail"]
    assert failing == ["9"], "of several steps those of the first that diverges"
    assert [(one.place.step, one.first, dict(one.counts)) for one in files.places] == [
        (step, "op1:output:3", {"pass": 299, "fail": 1}) for step in ("9", "10")
    ]
    assert sorted(os.listdir(os.path.dirname(store.path))) == sorted(
        [
            *map(os.path.basename, paths),
            "run.lock",
            "run.sqlite",
            "run.sqlite-shm",
            "run.sqlite-wal",
        ]
    )


def test_a_store_without_rows_gives_empty_files(tmp_path):
    with RunStore.begin(str(tmp_path), {}) as store:
        paths = finish(store, ops=0)
        assert [os.path.basename(path) for path in paths] == [
            "result_%s.csv" % store.started,
            "result.json",
        ]
        assert table(paths[0]) == []


def test_files_that_cannot_be_written_leave_the_older_ones(store, monkeypatch):
    paths = finish(store)
    before = [open(path).read() for path in paths]  # noqa: SIM115  closed by the collector
    real = RenderedRowCache.lines
    for error in (KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")):

        def lines(cache, pages, error=error):
            texts = real(cache, pages)
            yield next(texts)
            raise error

        monkeypatch.setattr(RenderedRowCache, "lines", lines)
        expected = EnvironmentProblem if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            finish(store, Columns(overflow=True))
    # The first table was whole before.
    assert [open(path).read() for path in paths[1:]] == before[1:]  # noqa: SIM115
    assert not [
        name for name in os.listdir(os.path.dirname(store.path)) if name.startswith(".goldwatch")
    ]


def test_a_full_disk_is_reported_when_results_are_written(store, monkeypatch):
    def full(*texts):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RenderedRowCache, "write", full)
    with pytest.raises(EnvironmentProblem, match="the disk is full"):
        finish(store)


def test_the_network_is_stored_for_reports(tmp_path):
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


def put_and_keep(store, rows, columns=None):
    """Store rows, and keep them rendered as an engine does."""
    render = Renderer(columns or Columns())
    cache = RenderedRowCache(os.path.dirname(store.path))
    lines = list(map(row_line, rows))
    for number, line, row in zip(store.table.put(lines), lines, rows):
        cache.keep([number], [line[-1]], render([row]), render)
    return cache


def test_rows_rendered_when_stored_are_not_read_again(store, make_row, monkeypatch):
    more = [
        make_row(number, op="more%d" % number, device="1", model="m", model_id="1", step="9")
        for number in range(50)
    ]
    cache = put_and_keep(store, more)
    # A row that is changed or removed after it was rendered is as the store has it.
    store.put_all([more[3].but(verdict="fail", reason="found again")])
    store.table.remove([row_key(more[7])], "gone")
    assert store.table.put([row_line(more[5])]) == [None], "it was there as it is"
    expected = [cells_of(row) for row in store.rows("index", more[0].place)]
    read = []
    real = RowReader.row
    monkeypatch.setattr(RowReader, "row", lambda self, values: read.append(1) or real(self, values))
    with ResultFiles(store, Columns(), cache=cache) as files:
        files.write_tables()
        assert (
            len(read) == 600 + 1 + 3
        ), "those of the fixture, the one that was changed, and the first failing ones"
        summary = summarise(files.rows, 5, Limits(), whole=files.whole)
        paths = files.finish(summary, Limits())
    assert summary.rows == 649 and summary.failed == 3
    by_name = {os.path.basename(path).rsplit("_", 1)[0]: path for path in paths}
    assert len(expected) == 49 and table(by_name["1_m_9_result"]) == expected
    with open(paths[-1], encoding="ascii") as stream:
        assert [row["tensor"] for row in json.load(stream)["rows"]] == [
            row.tensor for row in store.rows("index")
        ]


def test_rows_rendered_with_other_columns_are_rendered_again(store, make_row):
    row = make_row(0, op="more", device="1", overflow=True)
    cache, columns = put_and_keep(store, [row]), Columns(overflow=True)
    paths = finish(store, columns, cache=cache)
    assert cells_of(row, columns) in [line for path in paths[:-1] for line in table(path)]


def as_table(rows):
    return [
        [cell.encode("utf-8", "backslashreplace").decode() for cell in cells_of(row)]
        for row in rows
    ]


def mixed_rows(make_row):
    """Rows of several places in no order, alike in most of what orders them."""
    names, places = (
        (None, "a", "a/b", "a b", "Ä", "z", "\udcff"),
        (("2", None), ("10", "0"), ("10", "1"), ("9", None)),
    )
    chosen = random.Random(3)
    rows = [
        make_row(
            7, index=index, op="%s%d" % (op, index), group=("x%d" % index, "y%d" % index),
            step=step, device=device,
            target_file=name, kind=kind, tensor_index=tensor_index,
            timestamp_us=chosen.choice((5, 40, 1700000001000000, 1 << 63)),
        )
        for step, device in places for index in (0, 2, 300) for name in names for op in ("x", "y")
        for kind, tensor_index in (("input", 0), ("input", 10), ("output", 2), ("op", None))
    ]  # fmt: skip
    chosen.shuffle(rows)
    return rows


def test_rows_are_written_in_table_order_whatever_order_they_arrived_in(
    tmp_path, make_row, monkeypatch
):
    monkeypatch.setattr(rendered_rows, "_GATHERED_ROWS", 100)
    with RunStore.begin(str(tmp_path), {}) as store:
        cache = put_and_keep(store, mixed_rows(make_row))
        expected = as_table(store.rows("index"))
        monkeypatch.setattr(store, "numbered", lambda numbers: {})
        with ResultFiles(store, Columns(), cache=cache) as files:
            files.write_tables()
        paths = sorted(glob.glob(str(tmp_path / "*result*.csv")))
        names = noted_tables(store)
    assert sorted(map(os.path.basename, paths)) == sorted(names) and len(names) == 4
    assert [line for name in names for line in table(str(tmp_path / name))] == expected
