"""A watch with full disks, exhausted limits and jumping clocks."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from goldwatch.base.errors import EnvironmentProblem, UsageError
from goldwatch.base.naming import mapping_line
from goldwatch.base.option_fields import parse_size
from goldwatch.dumps.place import NOWHERE
from goldwatch.run import inotify, whole_run
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.golden_files import Goldens
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions
from goldwatch.run.watched_folders import Mailbox, Monitor, Root
from goldwatch.store.store import RunStore


def make_watch(net, **more):
    options = ComparisonOptions(net.target, net.golden, net.out, net.model_path)
    return Watch(options, WatchOptions(until_idle_s=0.5), **more)


def test_a_full_disk_under_the_store_can_be_continued_later(net) -> None:
    """SQLite itself says that the disk is full once the store may not grow."""
    net.write_golden()
    net.put(net.files())
    done = 0
    with pytest.raises(EnvironmentProblem, match="disk is full"), make_watch(net) as running:
        for turn in running.turns():
            if done < 8 <= done + len(turn.rows):
                pages = running.store.query("PRAGMA page_count")[0][0]
                running.store.query("PRAGMA max_page_count = %d" % pages)
                for step in range(1, 12):
                    net.put(net.files(step=step))
            done += len(turn.rows)
    stored = net.query("SELECT key, id FROM row WHERE verdict = 'pass'")
    assert 8 <= len(stored) < 96
    with make_watch(net) as running:
        running.follow()
        assert running.finish().exit_code == 0
    assert net.rows() == net.compare_rows()
    assert set(stored) <= set(net.query("SELECT key, id FROM row"))


def test_a_full_disk_under_the_tables_is_reported_and_made_up_for(net, monkeypatch) -> None:
    net.write_golden()
    net.put(net.files())
    said = []

    def full(*_, **__):
        raise EnvironmentProblem("the disk is full")

    write = whole_run.TableFiles.write
    monkeypatch.setattr(whole_run.TableFiles, "write", full)
    with make_watch(net, say=said.append) as running:
        running.watch = WatchOptions(until_idle_s=2.0)
        running.follow()
        assert any("disk is full" in text for text in said)
        monkeypatch.setattr(whole_run.TableFiles, "write", write)
        assert running.finish().exit_code == 0
    assert len(net.tables()) == 1


@pytest.mark.parametrize(
    "number, limit", [(errno.EMFILE, "max_user_instances"), (errno.ENOSPC, "max_user_watches")]
)
def test_where_inotify_is_exhausted_folders_are_listed(net, monkeypatch, number, limit) -> None:
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(inotify.Inotify, "add", refuse)
    net.write_golden()
    os.makedirs(net.target)
    said = []
    with make_watch(net, say=said.append) as running:
        running.watch = WatchOptions(until_idle_s=2.5)
        turns = running.turns()
        next(turns)
        net.put(net.files())
        for _ in turns:
            pass
        assert running.finish().exit_code == 0
    assert any(limit in text for text in said)
    assert net.rows() == net.compare_rows()


def test_folders_on_network_file_systems_are_listed(net, monkeypatch) -> None:
    monkeypatch.setattr("goldwatch.run.watched_folders.file_system", lambda path: "nfs4")
    said, mailbox = [], Mailbox()
    monitor = Monitor(None, said.append)
    root = Root("TARGET", net.golden, mailbox)
    monitor.add(root)
    monitor.start()
    try:
        list(monitor.tick())
        while monitor.listing:
            list(monitor.tick())
        assert root.polled and "nfs4" in said[0]
        net.write_golden("data")
        net.until(lambda: list(monitor.tick()) or len(mailbox))
    finally:
        monitor.stop()
    assert mailbox.take(5) == [net.golden_path("data")]


def test_wall_clock_jumps_do_not_matter(net, monkeypatch) -> None:
    net.write_golden()
    clock = [1e9]

    def jumping() -> float:
        clock[0] = -clock[0] / 2 if len(clock) % 2 else clock[0] + 1e6
        return abs(clock[0])

    net.put(net.files())
    monkeypatch.setattr(time, "time", jumping)
    for path in net.files():
        os.utime(path, (4e9, 4e9))
    with make_watch(net) as running:
        running.follow()
        assert running.finish().exit_code == 0


def test_mailbox_keeps_each_path_once_and_in_order() -> None:
    mailbox = Mailbox()
    for number in range(100000):
        mailbox.put("/target/%d" % (number % 1000))
    assert len(mailbox) == 1000
    assert (
        mailbox.take(2) == ["/target/0", "/target/1"]
        and len(mailbox) == 998
        and mailbox.filled.is_set()
    )


def test_sizes_with_units_are_parsed() -> None:
    assert [parse_size(text) for text in ("5", "2k", "1.5M", "3GiB", "1TB")] == [
        5,
        2048,
        3 * 2**19,
        3 * 2**30,
        2**40,
    ]
    for text in ("", "x", "-1", "5X", "1e9"):
        with pytest.raises(UsageError):
            parse_size(text)


def test_a_golden_file_is_used_when_it_is_complete(net, tmp_path) -> None:
    net.write_golden("data")
    path = net.golden_path("data")
    with open(path, "rb") as stream:
        data = stream.read()
    with RunStore.begin(str(tmp_path / "store"), {}) as store:
        goldens = Goldens(net.golden, "one", store, net.target)
        for size in (0, 5, 90, len(data) - 1):
            with open(path, "wb") as stream:
                stream.write(data[:size])
            goldens.look(path)
            assert len(goldens.of(NOWHERE)) == 0
        with open(path, "wb") as stream:
            stream.write(data)
        assert goldens.look(path) and len(goldens.of(NOWHERE)) == 1
        assert not goldens.look(path) and not goldens.changed
        os.unlink(path)
        assert goldens.look(path) and len(goldens.of(NOWHERE)) == 0 and goldens.changed


def test_parked_golden_files_are_used_when_their_manifest_arrives(net, tmp_path) -> None:
    os.makedirs(net.golden, exist_ok=True)
    tensors, lines = [], ""
    for number, name in enumerate(("a/b", "a.b"), 1):
        file = "%d.npy" % number
        np.save(os.path.join(net.golden, file), np.float32([number]))
        lines += mapping_line(file, "a_b-parked-%d.0.160000000000000%d.npy" % (number, number))
        tensors.append({"file": file, "original_name": name, "output_index": 0})
    with RunStore.begin(str(tmp_path / "store"), {}) as store:
        goldens = Goldens(net.golden, "auto", store, net.target)
        for name, text in (
            ("mapping.csv", lines),
            ("manifest.json", json.dumps({"tensors": tensors})),
        ):
            with open(os.path.join(net.golden, name), "w") as stream:
                stream.write(text)
            for file in ("1.npy", "2.npy", name):
                goldens.look(os.path.join(net.golden, file))
            entry = goldens.of(NOWHERE).find("a/b", 0)
            assert (entry is not None) == (name == "manifest.json")
        assert entry.rel == "1.npy" and not goldens.look(os.path.join(net.golden, "manifest.json"))


def test_a_watch_killed_again_and_again_gives_the_undisturbed_rows(tmp_path) -> None:
    """A short form of scripts/crash_test."""
    script = os.path.join(os.path.dirname(__file__), "..", "..", "..", "scripts", "crash_test")
    words = [
        sys.executable,
        script,
        "--kills",
        "8",
        "--per-round",
        "8",
        "--seed",
        "3",
        "--mean",
        "0.4",
    ]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    assert "as undisturbed" in done.stdout
