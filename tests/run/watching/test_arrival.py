"""Files that arrive in any order and form give the rows of compare."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest

from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watch_options import WatchOptions

STAMP = 1767323045000000


@pytest.mark.parametrize("poll", [(), ("--poll", "0.3")])
def test_chunks_arriving_interleaved_in_new_folders_give_the_rows_of_compare(
    net, watch, poll
) -> None:
    net.write_golden()
    watcher = watch(net, "--until-idle", "3", *poll).until_watching()
    files = {}
    for step in (0, 1, 10):
        for device in (0, 1):
            files.update(net.files(step, device))
    net.put(files, chunk=97)
    assert watcher.wait() == 0, watcher.stderr
    assert net.rows() == net.compare_rows()
    started = net.query("SELECT value FROM run WHERE key = 'started'")[0][0].strip('"')
    assert net.tables() == sorted(
        "%d_net_%d_result_%s.csv" % (device, step, started)
        for device in (0, 1)
        for step in (0, 1, 10)
    )
    assert net.query("SELECT count(*) FROM event WHERE kind IN ('replaced', 'removed')") == [(0,)]


@pytest.mark.parametrize("model", [True, False])
def test_files_from_before_the_start_are_compared_with_and_without_a_model(
    net, watch, model
) -> None:
    net.write_golden()
    files = net.files()
    early = dict(list(files.items())[::2])
    net.put(early)
    watcher = watch(net, "--until-idle", "3", model=model)
    net.until(lambda: net.count("verdict = 'pass'") >= 2)
    net.put(
        {path: data for path, data in reversed(list(files.items())) if path not in early}, chunk=50
    )
    assert watcher.wait() == 0, watcher.stderr
    assert net.rows() == net.compare_rows(model)


def test_a_target_holding_the_files_directly_is_watched(net, watch, watch_here) -> None:
    net.write_golden()
    files = net.files()
    folder = os.path.dirname(next(iter(files)))
    net.target = os.path.join(net.folder, "flat")
    watcher = watch(net, "--until-idle", "3").until_watching()
    net.put(
        {
            os.path.join(net.target, os.path.relpath(path, folder)): data
            for path, data in files.items()
        }
    )
    assert watcher.wait() == 0, watcher.stderr
    assert [name[:7] for name in net.tables()] == ["result_"]
    assert net.rows() == net.compare_rows()
    net.put(files)
    net.target, net.out = folder, net.out + "2"
    watcher = watch_here(net)
    assert watcher.returncode == 0, watcher.stderr
    assert [name[:7] for name in net.tables()] == ["result_"]


def test_golden_data_arriving_later_is_compared(net, watch) -> None:
    net.put(net.files())
    watcher = watch(net, "--until-idle", "3").until_watching()
    whole = os.path.join(net.folder, "scratch.npy")
    rests = {}
    for name, value in net.values.items():
        np.save(whole, value)
        with open(whole, "rb") as stream:
            data = stream.read()
        half = len(data) if name == "op1" else 300
        net.append(net.golden_path(name), data[:half])
        rests[name] = data[half:]
    # The first halves of those before it have been met, too.
    net.until(lambda: net.count("tensor = 'op1:output:0' AND verdict = 'pass'") == 1)
    assert net.count("verdict = 'pass' AND golden_file NOT LIKE 'op1.%'") == 0
    for name, rest in rests.items():
        net.append(net.golden_path(name), rest)
    assert watcher.wait() == 0, watcher.stderr
    assert net.rows() == net.compare_rows()


def test_golden_data_that_changes_is_compared_again(net, watch) -> None:
    net.write_golden()
    net.put(net.files())
    watcher = watch(net, "--until-idle", "3")
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    np.save(net.golden_path("op1"), net.values["op1"] + 3)
    net.until(lambda: net.count("verdict = 'fail'") == 2)
    np.save(net.golden_path("op1"), net.values["op1"])
    net.until(lambda: net.count("verdict = 'fail'") == 0 and net.count("verdict = 'pass'") == 8)
    size = os.path.getsize(net.golden_path("op2"))
    os.truncate(net.golden_path("op2"), size - 8)
    assert watcher.wait() == 3, watcher.stderr
    assert net.rows() == net.compare_rows()
    assert (
        str(size) in net.reasons()["op2:output:0"]
        and str(size - 8) in net.reasons()["op2:output:0"]
    )
    replaced = net.query("SELECT text FROM event WHERE kind = 'replaced' AND op = 'op1'")
    assert any("was pass" in text and "now fail" in text for (text,) in replaced)


def test_files_with_hash_names_wait_for_their_mapping_line(net, watch) -> None:
    net.write_golden()
    files = net.files()
    names = list(files)
    watcher = watch(net, "--until-idle", "3").until_watching()
    hashed = {}
    for number, path in enumerate(names):
        hashed[os.path.join(os.path.dirname(path), "1234567890%d" % number)] = files[path]
    net.put(hashed)
    net.watched_step(1)
    assert net.count("step = '0'") == 0
    mapping = os.path.join(os.path.dirname(names[0]), "mapping.csv")
    for number, rows in ((2, 2), (0, 4), (0, 4), (1, 6)):
        net.append(
            mapping, b"1234567890%d,%s\n" % (number, os.path.basename(names[number]).encode())
        )
        net.until(lambda: net.count("step = '0' AND verdict = 'pass'") == rows)  # noqa: B023
    assert watcher.wait() == 3, watcher.stderr
    assert net.rows() == net.compare_rows()
    assert "mapping.csv" in net.reasons()["12345678903"]


def test_short_long_and_headerless_files_are_judged_when_complete(net, watch) -> None:
    net.write_golden()
    files = net.files()
    paths = list(files)
    watcher = watch(net, "--until-idle", "3")
    size = len(files[paths[0]])
    net.append(paths[0], files[paths[0]][:-10])
    net.append(paths[1], files[paths[1]])
    net.until(lambda: net.count("op = 'op1' AND verdict = 'pass'") == 2)
    net.append(paths[1], files[paths[1]])
    net.until(lambda: net.count("op = 'op1' AND verdict = 'not_compared'") == 2)
    net.append(paths[2], files[paths[2]][200:])
    net.append(paths[3], files[paths[3]])
    assert net.count("op = 'op0'") == 0
    assert watcher.wait() == 3, watcher.stderr
    assert net.rows() == net.compare_rows()
    reasons = net.reasons()
    assert str(size) in reasons["op0:output:0"] and str(size - 10) in reasons["op0:output:0"]
    assert str(2 * len(files[paths[1]])) in reasons["op1:output:0"]
    assert any(
        "was pass" in text
        for (text,) in net.query("SELECT text FROM event WHERE kind = 'replaced' AND op = 'op1'")
    )


def test_recreated_files_are_compared_again(net, watch) -> None:
    net.write_golden()
    files = net.files()
    paths = list(files)
    watcher = watch(net, "--until-idle", "3")
    net.put(files)
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    os.unlink(paths[0])
    net.watched_step(1)
    net.append(paths[0], files[paths[0]][:100])
    net.watched_step(2)
    net.append(paths[0], files[paths[0]][100:])
    os.truncate(paths[1], 50)
    net.until(lambda: net.count("op = 'op0' AND verdict = 'pass' AND step = '0'") == 2)
    wrong = bytearray(files[paths[2]])
    wrong[-20:] = bytes(range(100, 120))
    with open(paths[2], "wb") as stream:
        stream.write(wrong)
    net.until(lambda: net.count("op = 'op2' AND verdict = 'fail'") == 1)
    assert watcher.wait() == 1, watcher.stderr
    assert net.rows() == net.compare_rows()


def test_the_latest_dump_of_an_op_counts(net, watch) -> None:
    net.write_golden()
    watcher = watch(net, "--until-idle", "3")
    first, second, third = (net.files(stamp=STAMP + 10**7 * number) for number in range(3))
    net.put(second)
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    net.put(third)
    net.put(first)
    net.until(
        lambda: net.count("verdict = 'pass' AND timestamp_us >= %d" % (STAMP + 2 * 10**7)) == 8
    )
    assert watcher.wait() == 0, watcher.stderr
    assert net.rows() == net.compare_rows()
    assert "later dump" in net.query("SELECT text FROM event WHERE kind = 'removed'")[0][0]


def test_a_folder_removed_and_recreated_is_watched(net, watch) -> None:
    net.write_golden()
    watcher = watch(net, "--until-idle", "3")
    net.put(net.files())
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    shutil.rmtree(net.target)
    net.put(net.files(step=3))
    net.until(lambda: net.count("verdict = 'pass' AND step = '3'") == 8)
    net.put(net.files())
    assert watcher.wait() == 0, watcher.stderr
    assert net.rows() == net.compare_rows()


def test_folders_moved_in_and_away_are_noticed(net, watch) -> None:
    net.write_golden()
    files = net.files()
    os.makedirs(net.target)
    watcher = watch(net, "--until-idle", "3").until_watching()
    aside = os.path.join(net.folder, "aside")
    for path, data in files.items():
        net.append(path.replace(net.target, aside), data)
    os.rename(
        os.path.join(aside, os.listdir(aside)[0]), os.path.join(net.target, os.listdir(aside)[0])
    )
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    step = os.path.dirname(next(iter(files)))
    os.rename(step, os.path.join(os.path.dirname(step), "5"))
    net.until(lambda: net.count("verdict = 'pass' AND step = '5'") == 8)
    assert watcher.wait() == 0, watcher.stderr
    assert net.rows() == net.compare_rows()


def test_restored_permissions_and_vanished_files_are_noticed(net, watch) -> None:
    net.write_golden()
    files = net.files()
    paths = list(files)
    watcher = watch(net, "--until-idle", "3", model=False)
    net.append(paths[0], files[paths[0]][:-3])
    net.put({path: files[path] for path in paths[2:]})
    net.until(lambda: net.count("verdict = 'pass'") == 2)
    os.unlink(paths[0])
    net.append(paths[1], files[paths[1]])
    os.chmod(paths[1], 0)
    other = net.files(step=1)
    net.put({path: other[path] for path in list(other)[2:]})
    net.until(lambda: net.count("verdict = 'pass' AND step = '1'") == 2)
    os.chmod(paths[1], 0o600)
    net.until(lambda: net.count("verdict = 'pass' AND step = '0'") == 3)
    assert watcher.wait() == 3, watcher.stderr
    assert "vanished" in net.reasons()["op0"] and net.verdicts()["op1:output:0"] == "pass"


@pytest.mark.parametrize("where", ["TARGET", "above", "dangling"])
def test_a_target_that_becomes_a_link_is_watched(net, watch, watch_here, where) -> None:
    """TARGET or a folder above it may become a link after the start; the next start, which finds
    the link, is of the same run.
    """
    net.write_golden()
    files, target = net.files(), net.target
    real = os.path.join(net.folder, "a-folder-of-a-longer-name", "dump")
    net.target = os.path.join(net.folder, "above", "dump") if where == "above" else target
    if where == "dangling":
        os.symlink(real, net.target)
    watcher = watch(net, "--until-idle", "3").until_watching()
    moved = {
        os.path.join(real, os.path.relpath(path, target)): data for path, data in files.items()
    }
    net.put(dict(list(moved.items())[::2]))
    if where == "above":
        os.symlink(os.path.dirname(real), os.path.dirname(net.target))
    elif where == "TARGET":
        os.symlink(real, net.target)
    net.until(lambda: net.count("verdict = 'pass'") >= 2)
    net.put(dict(list(moved.items())[1::2]))
    assert watcher.wait() == 0, watcher.stderr
    rows = net.rows()
    assert rows == net.compare_rows()
    assert watch_here(net).returncode == 0 and net.rows() == rows


def test_links_are_followed_and_each_file_counts_once(net, watch, watch_here) -> None:
    net.write_golden()
    real = net.target + "-real"
    os.makedirs(real)
    os.symlink(real, net.target)
    other = os.path.join(net.folder, "other")
    net.put(net.files())
    late = {path.replace(net.target, other): data for path, data in net.files(step=4).items()}
    net.put(dict(list(late.items())[:2]))
    os.symlink(other, os.path.join(real, "link"))
    os.symlink(real, os.path.join(real, "loop"))
    first = next(iter(net.files()))
    os.symlink(first, first + "9")
    watcher = watch(net, "--until-idle", "2")
    net.until(lambda: net.count("step = '4' AND verdict = 'pass'") == 4)
    net.put(dict(list(late.items())[2:]))
    assert watcher.wait() == 0, watcher.stderr
    assert (
        net.count("step = '4' AND verdict = 'pass'") == 8
        and net.count("step = '0'") == net.count("step = '4'") == 10
    )
    assert net.rows() == net.compare_rows()
    assert watch_here(net, "--keep", "none").returncode == 0
    assert [name for _, _, names in os.walk(real) for name in names] == [
        os.path.basename(first) + "9"
    ]
    assert len([name for _, _, names in os.walk(other) for name in names]) == 4


def test_lost_file_events_are_made_up_by_listing_again(net, watch) -> None:
    """The watcher is stopped while more changes come than the kernel keeps."""
    net.write_golden()
    watcher = watch(net, "--until-idle", "3")
    os.makedirs(net.target)
    net.put(net.files())
    net.until(lambda: net.count("verdict = 'pass'") == 8)
    with open("/proc/sys/fs/inotify/max_queued_events") as stream:
        limit = int(stream.read())
    watcher.signal(signal.SIGSTOP)
    folder = os.path.join(net.target, "other")
    os.makedirs(folder)
    names = [os.path.join(net.target, "x"), os.path.join(net.target, "y")]
    for number in range(limit + 100):
        net.append(names[number % 2], b"x")
    net.put(net.files(step=2))
    watcher.signal(signal.SIGCONT)
    assert watcher.wait() == 0, watcher.stderr
    assert "listed again" in watcher.stderr
    assert net.count("step = '2' AND verdict = 'pass'") == 8


def test_dumps_of_another_model_are_left_out_and_not_waited_for(
    net, turn, monkeypatch, at_end
) -> None:
    """They are not what is waited for, however long it is quiet."""
    monkeypatch.setattr("goldwatch.run.watch._QUIET_S", 0.0)
    net.write_golden()
    other = {
        path.replace("/net/", "/another/").replace(".op", ".foreign"): data
        for path, data in net.files().items()
    }
    net.put(other)
    options = ComparisonOptions(net.target, net.golden, net.out, net.model_path)
    with Watch(options, WatchOptions(expect_all=True)) as watch:
        turns = watch.turns()
        turn(turns, lambda: watch.arrivals.file_count == len(other) and not watch.engine.busy)
        assert not at_end(watch) and net.count() == 0
        net.put(net.files())
        for _ in turns:
            pass
        assert watch.finish().exit_code == 0
    assert net.rows() == net.compare_rows()
    assert {row["model"] for row in net.result()["rows"]} == {"net"}


def test_tables_are_kept_current_and_the_terminal_shows_progress(net) -> None:
    net.write_golden()
    master, slave = pty.openpty()
    process = subprocess.Popen(net.command("--until-idle", "2.5"), stdout=slave, stderr=slave)
    os.close(slave)
    shown = []

    def read() -> None:
        try:
            while True:
                shown.append(os.read(master, 65536))
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    net.put(dict(list(net.files().items())[:2]))
    net.until(lambda: len(net.tables()) == 1)
    with open(os.path.join(net.out, net.tables()[0])) as stream:
        assert len(stream.readlines()) == 5
    assert process.poll() is None
    net.put(dict(list(net.files().items())[2:]))
    assert process.wait(60) == 0
    reader.join()
    os.close(master)
    assert b"0 failed, 4 of 4 ops, 8 rows, 0 waiting, 0 queued, " in b"".join(shown)
