"""The store's files: locks, file systems, full disks, kills and links."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import types

import pytest
from stores import INPUTS, connect_reader

import goldwatch.store.database as database
import goldwatch.store.store as store_module
from goldwatch.base import mounts
from goldwatch.base.errors import EnvironmentProblem, MissingPath
from goldwatch.store.store import RunStore


def test_a_finished_store_can_be_read_in_a_read_only_folder(out, make_row, monkeypatch):
    with RunStore.begin(out, INPUTS) as store:
        store.put(make_row(0))
    real = database._tried

    def tried(name, uri):
        if "immutable" not in name:
            raise sqlite3.OperationalError("unable to open database file")
        return real(name, uri)

    monkeypatch.setattr(database, "_tried", tried)
    with RunStore.open(out) as store:
        assert len(list(store.rows())) == 1


def test_a_second_writer_is_refused_and_the_first_is_named(store, out):
    with pytest.raises(EnvironmentProblem) as caught:
        RunStore.begin(out, INPUTS)
    assert "pid %d on host " % os.getpid() in caught.value.message and caught.value.exit_code == 4
    store.close()
    RunStore.begin(out, INPUTS).close()


def test_a_forked_child_neither_keeps_the_lock_nor_damages_the_store(out, make_row):
    store = RunStore.begin(out, INPUTS)
    store.put(make_row(0))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        store.close()
        with RunStore.begin(out, INPUTS) as again:
            assert len(again.rows()) == 1
    finally:
        os.close(write_end)
        os.close(read_end)
        os.waitpid(child, 0)


def test_file_systems_without_locks_are_noted(out, monkeypatch):
    def flock(fd, flags):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with RunStore.begin(out, INPUTS) as store:
        (note,) = store.notes
        assert "No locks available" in note and store.events.all("note")[0].text == note


@pytest.mark.parametrize("kind", ["network", "refused"])
def test_a_rollback_journal_is_used_with_a_note_where_wal_cannot_work(
    out, make_row, monkeypatch, kind
):
    if kind == "network":
        monkeypatch.setattr(database, "file_system", lambda folder: "nfs4")
    else:
        monkeypatch.setattr(
            database, "_try_wal", lambda connection: "WAL was tried and failed (locking protocol)"
        )
    with RunStore.begin(out, INPUTS) as store:
        assert store.connection.journal_mode == "delete"
        assert [event.text for event in store.events.all("note")] == store.notes and len(
            store.notes
        ) == 1
        store.put(make_row(0))
        for row in store.rows():
            store.put(row)
        with connect_reader(out) as connection:
            assert connection.execute("SELECT count(*) FROM row").fetchone() == (1,)


def test_a_full_disk_is_reported_and_storing_goes_on_afterwards(store, make_row):
    store.put(make_row(0))
    pages = store.query("PRAGMA page_count")[0][0]
    store.connection.raw.execute("PRAGMA max_page_count = %d" % (pages + 4))
    with pytest.raises(EnvironmentProblem) as caught:
        store.put_all(make_row(number) for number in range(1, 4000))
    assert (
        "disk is full" in caught.value.message
        and "free space" in caught.value.hint
        and caught.value.exit_code == 4
    )
    assert len(store.rows()) == 1
    store.connection.raw.execute("PRAGMA max_page_count = 1000000")
    store.put_all(make_row(number) for number in range(1, 400))
    assert len(store.rows()) == 400


def test_an_empty_file_becomes_a_store(out):
    os.makedirs(out)
    open(out + "/run.sqlite", "wb").close()
    with RunStore.begin(out, INPUTS) as store:
        assert not store.continued


def test_out_that_is_a_file_or_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingPath, match="is not a folder"):
        RunStore.begin(str(tmp_path / "file"), INPUTS)
    for bad in (tmp_path / "file" / "below", "/proc/none/here"):
        with pytest.raises(EnvironmentProblem) as caught:
            RunStore.begin(str(bad), INPUTS)
        assert caught.value.exit_code == 4
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        RunStore.begin("/proc/self", INPUTS)
    with pytest.raises(MissingPath, match=r"no run\.sqlite"):
        RunStore.open(str(tmp_path))


def test_temporary_files_of_a_killed_writer_are_removed(out):
    os.makedirs(out)
    open(out + "/.goldwatch-1-result.json.tmp", "w").close()
    open(out + "/mine.tmp", "w").close()
    RunStore.begin(out, INPUTS).close()
    assert sorted(os.listdir(out)) == ["mine.tmp", "run.lock", "run.sqlite"]


WRITER = """
import sys
from goldwatch.metrics.row import Row
from goldwatch.store.store import RunStore
store = RunStore.begin(sys.argv[1], {"x": 1})
batch = 0
while True:
    store.put_all(Row(index=number, op="op%d" % number, op_type="T", tensor="op%d" % number, kind="op", verdict="pass") for number in range(batch * 10, batch * 10 + 10))
    batch += 1
    print(batch, flush=True)
"""  # noqa: E501


@pytest.mark.parametrize("batches", [1, 7, 40])
def test_a_killed_writer_leaves_whole_batches_and_no_lock(out, batches):
    process = subprocess.Popen([sys.executable, "-c", WRITER, out], stdout=subprocess.PIPE)
    for _ in range(batches):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    seen = process.stdout.read().split()
    process.stdout.close()
    committed = int(seen[-1]) if seen and seen[-1].isdigit() else batches
    with RunStore.begin(out, {"x": 1}) as store:
        assert store.continued
        assert store.query("PRAGMA integrity_check") == [("ok",)]
        indices = [row.index for row in store.rows()]
        assert len(indices) % 10 == 0 and len(indices) >= 10 * min(committed, batches)
        assert indices == list(range(len(indices)))


@pytest.mark.parametrize("name", ["run.lock", "run.sqlite", "run.sqlite-wal", "run.sqlite-journal"])
@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_links_inside_out_are_refused(out, name, make):
    os.makedirs(out)
    victim = os.path.join(os.path.dirname(out), "victim")
    open(victim, "w").close()
    make(victim, os.path.join(out, name))
    for force in (False, True):
        with pytest.raises(EnvironmentProblem) as caught:
            RunStore.begin(out, INPUTS, force)
        assert name in caught.value.message and "link" in caught.value.message
    assert os.path.getsize(victim) == 0 and os.path.exists(victim)


def test_row_ids_of_an_earlier_store_are_not_used_again(out, make_row, monkeypatch):
    monkeypatch.setattr(store_module, "microseconds", lambda: 1795385815619471)
    with RunStore.begin(out, INPUTS) as store:
        store.put(make_row(0))
        assert store.table_order().ids[0] == store.get("void") + 1 == 1795385815619472
    # Discarded, with a clock that was set back.
    monkeypatch.setattr(store_module, "microseconds", lambda: 5)
    with RunStore.begin(out, {"target": "other"}, force=True) as store:
        store.put(make_row(0))
        assert store.table_order().ids[0] == store.get("void") + 1 == 1795385815619473
    monkeypatch.undo()
    assert store_module.microseconds() < 2**53


@pytest.mark.parametrize("text", ["disk I/O error", "unable to open database file"])
@pytest.mark.parametrize(
    "left, files, full", [(20000, 5, True), (1 << 30, 0, True), (1 << 30, 5, False)]
)
def test_a_full_disk_is_recognised_in_sqlites_messages(
    tmp_path, monkeypatch, text, left, files, full
):
    """It says so where its journal finds no room, or no file can be made any more."""
    monkeypatch.setattr(
        mounts.os,
        "statvfs",
        lambda path: types.SimpleNamespace(f_bavail=left, f_frsize=1, f_files=9, f_favail=files),
    )
    error = database.translate(sqlite3.OperationalError(text), str(tmp_path / "run.sqlite"))
    assert ("the disk is full" in error.message) is full and error.exit_code == 4
