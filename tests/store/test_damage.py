"""Damaged and foreign stores, and stores of other versions."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys

import pytest

from goldwatch.base.errors import EnvironmentProblem, FormatError, GoldwatchError
from goldwatch.metrics.row import METRICS
from goldwatch.reports.csv_cells import Columns
from goldwatch.reports.csv_tables import TableFiles
from goldwatch.store.integrity import DamagedStore, ForeignStore, may_discard
from goldwatch.store.row_schema import COLUMNS, FIELDS
from goldwatch.store.row_sql import checksum, row_key
from goldwatch.store.store import RunStore

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INPUTS = {"target": "a", "golden": "b"}


@pytest.fixture
def path(out, make_row):
    """Return the path of a store of four rows, the second failing."""
    with RunStore.begin(out, INPUTS) as store:
        store.put_all(
            make_row(number, verdict="fail" if number == 1 else "pass") for number in range(4)
        )
        store.put_file("Conv2D.op0.1.2.3", 1, 2, "1:2:3")
        return store.path


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


SECOND = "id = (SELECT id FROM row ORDER BY id LIMIT 1 OFFSET 1)"
ITS_TENSOR = "id = (SELECT tensor_id FROM row_at_place WHERE %s)" % SECOND


def change(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def with_right_sums(path, statement):
    """Change rows and give them the checksums of what they say now, as somebody would who knows
    how.
    """
    change(path, statement)
    connection = sqlite3.connect(path, isolation_level=None)
    names = ", ".join('"%s"' % name for name in COLUMNS)
    for rowid, *values in connection.execute("SELECT id, %s FROM row" % names).fetchall():
        connection.execute(
            "UPDATE row_at_place SET sum = ? WHERE id = ?", (checksum(values), rowid)
        )
    connection.close()


def test_flipped_bits_in_a_store_never_turn_fail_into_pass():
    script = [
        sys.executable,
        os.path.join(ROOT, "scripts", "flip_bits"),
        "--sample",
        "400",
        "--jobs",
        "1",
        "--seed",
        "3",
    ]
    done = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert re.search(
        rb"400 of \d+ bits flipped[^:]*: \d+ as before, \d+ found again, \d+ refused", done.stdout
    )


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE row_at_place SET verdict = 'pass' WHERE verdict = 'fail'",
        "UPDATE row_at_place SET verdict = 'great' WHERE " + SECOND,
        'UPDATE tensor SET "group" = \'["op\' WHERE ' + ITS_TENSOR,
        "UPDATE row_at_place SET key = 'k' WHERE " + SECOND,
        "UPDATE row_at_place SET CosineSimilarity = 1 WHERE " + SECOND,
        "UPDATE tensor SET reason = CAST(x'ff' AS TEXT) WHERE " + ITS_TENSOR,
        "UPDATE row_at_place SET tensor_id = tensor_id + 1 WHERE " + SECOND,
        "UPDATE row_at_place SET sum = '' WHERE " + SECOND,
    ],
)
def test_a_changed_row_is_dropped_with_a_note(out, path, statement, make_row):
    change(path, statement)
    with RunStore.open(out) as store, pytest.raises(
        FormatError, match="damaged: a row is not as it was stored"
    ):
        list(store.rows())
    with RunStore.begin(out, INPUTS) as store:
        (note,) = store.notes
        assert "1 row (op0) dropped" in note and "compared again" in note
        assert [row.tensor_index for row in store.rows()] == [0, 2, 3]
        assert [event.op for event in store.events.all("damaged")] == ["op0"]
        store.put(make_row(1, verdict="fail"))
    with RunStore.begin(out, INPUTS) as store:
        assert store.notes == [] and len(store.rows(verdict="fail")) == 1


@pytest.mark.parametrize(
    "statement",
    ["UPDATE place SET step = '9'", "DELETE FROM place", "DELETE FROM tensor"],
)
def test_rows_whose_shared_columns_are_damaged_are_dropped_and_stored_again(
    out, statement, make_row
):
    rows = [make_row(number, step="3") for number in range(4)]
    with RunStore.begin(out, INPUTS) as store:
        store.put_all(rows)
        path = store.path
    change(path, statement)
    with RunStore.open(out) as store, pytest.raises(FormatError, match="damaged"):
        list(store.rows())
    with RunStore.begin(out, INPUTS) as store:
        assert "4 rows" in store.notes[0] and len(store.rows()) == 0
        store.put_all(rows)
    with RunStore.begin(out, INPUTS) as store:
        assert store.notes == [] and list(store.rows()) == rows


def test_a_damaged_line_of_shared_columns_is_not_used_again(out, path, make_row):
    # It has the checksum of what it was.
    change(path, "UPDATE tensor SET op_type = 'Other'", "UPDATE tensor SET sum = '' WHERE id = 1")
    with RunStore.begin(out, INPUTS) as store:
        assert "4 rows" in store.notes[0]
        store.put_all(make_row(number) for number in range(4))
        assert {row.op_type for row in store.rows()} == {make_row(0).op_type}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE row_at_place SET key = 'k' WHERE " + SECOND,
        "UPDATE row_at_place SET verdict = 'great' WHERE " + SECOND,
    ],
)
def test_a_row_that_contradicts_itself_is_dropped(out, path, statement):
    with_right_sums(path, statement)
    with RunStore.begin(out, INPUTS) as store:
        assert len(store.rows()) == 3 and "1 row" in store.notes[0]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tensor SET \"group\" = '[1, '",
        "UPDATE tensor SET \"group\" = '{}'",
        "UPDATE tensor SET shape = '[[1]]'",
        "UPDATE tensor SET shape = '%s'" % ("[" * 100000),
        "UPDATE row_at_place SET nan = '[]'",
        "UPDATE row_at_place SET user_metrics = '3'",
        "UPDATE row_at_place SET StandardDeviation = '{\"target\": 3}'",
        'UPDATE row_at_place SET StandardDeviation = \'{"target": {"mean": "x"}}\'',
        "UPDATE row_at_place SET address = 'many'",
    ],
)
def test_rows_that_goldwatch_cannot_have_written_are_refused(out, path, statement):
    with_right_sums(path, statement)
    with RunStore.open(out) as store, pytest.raises(FormatError, match="damaged") as caught:
        list(store.rows())
    assert caught.value.exit_code == 4 and path in caught.value.message


def test_damaged_notes_of_files_and_events_are_dropped(out, path):
    change(path, "UPDATE file SET state = '9:9:9'", "UPDATE event SET text = 'x'")
    with RunStore.open(out) as store:
        for look in (store.files, store.events.all):
            with pytest.raises(DamagedStore, match="damaged"):
                look()
    with RunStore.begin(out, INPUTS) as store:
        assert store.files() == {} and "2 notes of files and events dropped" in store.notes[0]


@pytest.mark.parametrize("key", ["inputs", "started", "version"])
def test_damaged_facts_of_the_run_are_refused(out, path, key):
    change(path, "UPDATE run SET value = '\"x\"' WHERE key = '%s'" % key)
    with pytest.raises(DamagedStore, match=key):
        RunStore.begin(out, INPUTS)
    with RunStore.open(out) as store, pytest.raises(DamagedStore):
        store.get(key)
    with RunStore.begin(out, INPUTS, force=True) as store:
        assert not store.continued and len(store.rows()) == 0


@pytest.mark.parametrize("value", ['"../../x"', '"2024"', "3", "[", "[" * 100000])
def test_a_damaged_start_time_is_refused(out, path, value):
    change(
        path,
        "UPDATE run SET value = '%s', sum = '%s' WHERE key = 'started'"
        % (value, checksum(["started", value])),
    )
    with RunStore.open(out) as store, pytest.raises(DamagedStore):
        store.started  # noqa: B018  it is looked at


def test_only_result_files_in_out_are_removed(out, path, tmp_path):
    stamp = "20240102030405"
    for name in ("victim.txt", "keep.csv", "result_%s.csv" % stamp, "result.json"):
        (tmp_path / name).write_text("mine")
        (tmp_path / "out" / name).write_text("mine")
    names = [
        "../victim.txt",
        "../result_%s.csv" % stamp,
        str(tmp_path / "victim.txt"),
        "keep.csv",
        "result.json",
        "run.sqlite",
        "..",
    ]
    names += ["", 3, None, "a\0_result_%s.csv" % stamp]
    for named in (names, {"a": 1}, "keep.csv", None):
        with RunStore.begin(out, INPUTS) as store:
            store.set(
                "result_files",
                [*named, "0_net_1_result_%s.csv" % stamp] if named is names else named,
            )
            (tmp_path / "out" / ("0_net_1_result_%s.csv" % stamp)).write_text("")
            TableFiles(store, Columns()).write()
        assert (tmp_path / "out" / ("0_net_1_result_%s.csv" % stamp)).exists() == (
            named is not names
        )
    for folder in (tmp_path, tmp_path / "out"):
        for name in ("victim.txt", "keep.csv", "result_%s.csv" % stamp, "result.json"):
            assert (folder / name).read_text() == "mine"


ADDED = [
    "CREATE TRIGGER t AFTER INSERT ON tensor BEGIN UPDATE row_at_place SET verdict = 'pass'; END",
    "CREATE VIEW v AS SELECT * FROM row",
    "CREATE TABLE other (x)",
    "CREATE INDEX i ON tensor (op)",
]


@pytest.mark.parametrize("statement", ADDED)
def test_a_store_with_foreign_tables_is_refused_and_never_discarded(out, path, statement):
    change(path, statement)
    before = read(path)
    for action in (
        lambda: RunStore.begin(out, INPUTS),
        lambda: RunStore.begin(out, INPUTS, force=True),
        lambda: RunStore.open(out),
    ):
        with pytest.raises(ForeignStore) as caught:
            action()
        assert statement.split()[2] in caught.value.message and caught.value.exit_code == 4
    assert read(path) == before


def test_another_programs_database_is_never_changed(out):
    os.makedirs(out)
    path = os.path.join(out, "run.sqlite")
    for statement in (
        "CREATE TABLE run (x)",
        "CREATE TABLE notes (text)",
        "PRAGMA application_id = 7",
    ):
        change(path, statement)
        before = read(path)
        for action in (
            lambda: RunStore.begin(out, INPUTS),
            lambda: RunStore.begin(out, INPUTS, force=True),
            lambda: RunStore.open(out),
        ):
            with pytest.raises(ForeignStore, match="another program"):
                action()
        assert read(path) == before
        # A damaged one is not ours either.
        with open(path, "wb") as stream:
            stream.write(before[:100] + b"\xff" * (len(before) - 100))
        with pytest.raises(GoldwatchError):
            RunStore.begin(out, INPUTS, force=True)
        os.unlink(path)


@pytest.mark.parametrize(
    "where", [(0, 16), (16, 68), (68, 72), (100, 2000), (4096, 8192), (8192, None)]
)
def test_a_damaged_store_is_refused_and_can_be_discarded_by_force(out, path, where):
    data = bytearray(read(path))
    end = len(data) if where[1] is None else where[1]
    data[where[0] : end] = b"\xa5" * (end - where[0])
    with open(path, "wb") as stream:
        stream.write(data)
    for action in (lambda: RunStore.begin(out, INPUTS), lambda: list(RunStore.open(out).rows())):
        with pytest.raises(GoldwatchError) as caught:
            action()
        assert path in caught.value.message and caught.value.exit_code == 4
    assert may_discard(path)
    with RunStore.begin(out, INPUTS, force=True) as store:
        assert not store.continued and len(store.rows()) == 0


@pytest.mark.parametrize("size", [10, 99, 1000, 4096, 9000])
def test_a_truncated_store_is_refused_and_can_be_discarded_by_force(out, path, size):
    os.truncate(path, size)
    with pytest.raises(GoldwatchError):
        RunStore.begin(out, INPUTS)
    if size > 99:
        RunStore.begin(out, INPUTS, force=True).close()


def test_a_text_file_called_run_sqlite_is_refused(out):
    os.makedirs(out)
    path = os.path.join(out, "run.sqlite")
    with open(path, "wb") as stream:
        stream.write(b"not a database at all, only text\n" * 40)
    for action in (lambda: RunStore.begin(out, INPUTS), lambda: RunStore.open(out)):
        with pytest.raises(DamagedStore, match="no SQLite file"):
            action()
    RunStore.begin(out, INPUTS, force=True).close()


@pytest.mark.parametrize("version", [2, 99])
def test_a_store_of_another_layout_is_refused(out, path, version):
    change(path, "PRAGMA user_version = %d" % version)
    for action in (lambda: RunStore.begin(out, INPUTS), lambda: RunStore.open(out)):
        with pytest.raises(FormatError, match="layout %d" % version):
            action()


def test_the_tables_columns_are_those_of_the_schema(out):
    with RunStore.begin(out, INPUTS) as store:
        names = [line[1] for line in store.query("PRAGMA table_info(row)")]
    assert sorted(names) == sorted(["id", "sum", *COLUMNS])
    assert set(FIELDS) | set(METRICS) <= set(names)


def test_a_store_that_cannot_be_written_is_reported(out, path, make_row, monkeypatch):
    with RunStore.begin(out, INPUTS) as store:
        store.connection.raw.execute("PRAGMA query_only = ON")
        with pytest.raises(EnvironmentProblem, match="readonly"):
            store.put(make_row(9))


def test_rows_of_other_places_or_files_have_other_keys(make_row):
    assert (
        row_key(make_row(0))
        != row_key(make_row(0, step="3"))
        != row_key(make_row(0, target_file="x"))
    )
