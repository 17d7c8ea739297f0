"""What Ctrl-C and forks do to the public Python API."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import goldwatch
from goldwatch import api
from goldwatch.base.pool import Child
from goldwatch.run.comparison_options import ComparisonOptions
from goldwatch.run.watch import Watch
from goldwatch.run.watched_folders import Monitor
from goldwatch.run.whole_run import Run
from goldwatch.run.workers import Workers
from goldwatch.store.store import RunStore
from goldwatch.store.store_connection import StoreConnection


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The dumps of a small network, and its golden data."""
    base = tmp_path_factory.mktemp("api")
    testing = [sys.executable, "-m", "goldwatch.testing"]
    subprocess.check_call(testing + ["make", "net", "--ops", "4", "--size", "4096"], cwd=str(base))
    subprocess.check_call(testing + ["serve", "net", "dump"], cwd=str(base))
    return base / "dump", base / "net" / "golden"


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of all temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "owner, name", [(ComparisonOptions, "graphs"), (Watch, "_set_up"), (Monitor, "start")]
)
def test_ctrl_c_while_a_watch_begins_is_raised_and_leaves_no_thread(
    paths, temporary, monkeypatch, owner, name
):
    """As in the block: ``except Exception`` around a loop of watches must not go on with the next
    one, and no thread stays.
    """
    whole = getattr(owner, name)

    def then_interrupted(*arguments):
        whole(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)

    monkeypatch.setattr(owner, name, then_interrupted)
    threads = threading.enumerate()
    for out, told in (
        (None, "^interrupted$"),
        (temporary / "out", "^interrupted: 0 rows are stored in .*out$"),
    ):
        with pytest.raises(KeyboardInterrupt, match=told), goldwatch.watch(
            *paths, out=out, jobs=1, until_idle=0.2
        ) as rows:
            list(rows)
        assert set(threading.enumerate()) <= set(threads)
    gc.collect()
    assert set(os.listdir(str(temporary))) <= {"out"}


def test_stopping_a_monitor_that_never_started_is_harmless():
    Monitor(None, print).stop()


def test_an_error_in_a_ctrl_c_handler_stays_that_error(paths, tmp_path):
    """What was handled when goldwatch was called did not cause it."""

    def progress(done, known):
        raise ValueError("mine")

    def watched():
        with goldwatch.watch(*paths, jobs=1) as rows:
            for _ in rows:
                raise ValueError("mine")

    def nothing():
        with goldwatch.watch(tmp_path, paths[1], jobs=1) as rows:
            rows.stop()
            list(rows)

    for call, told in (
        (lambda: goldwatch.compare(*paths, jobs=1, progress=progress), "mine"),
        (watched, "mine"),
        (nothing, "no dump"),
    ):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            with pytest.raises((ValueError, goldwatch.GoldwatchError), match=told):
                call()


def test_an_interrupt_raised_while_handling_another_stays_an_interrupt(paths):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        with pytest.raises(KeyboardInterrupt, match="^interrupted$"), goldwatch.watch(
            *paths, jobs=1
        ):
            raise error


def test_an_error_that_a_block_makes_of_an_interrupt_is_kept(paths):
    with pytest.raises(ValueError, match="mine"), goldwatch.watch(*paths, jobs=1) as rows:
        try:
            for _ in rows:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ValueError("mine")  # noqa: B904
    with pytest.raises(goldwatch.GoldwatchError, match="no dump"), goldwatch.watch(
        paths[1], paths[1], jobs=1
    ) as rows:
        rows.stop()
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            list(rows)


def test_an_interrupt_hidden_by_an_extension_module_is_raised_as_one(paths, monkeypatch):
    def turn(watch):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an error set") from error

    def graphs(options):
        turn(None)

    for owner, name, function in ((Watch, "_turn", turn), (ComparisonOptions, "graphs", graphs)):
        with monkeypatch.context() as patch, pytest.raises(
            KeyboardInterrupt, match="^interrupted$"
        ):
            patch.setattr(owner, name, function)
            with goldwatch.watch(*paths, jobs=1) as rows:
                list(rows)


FORKS = """
import multiprocessing, os, sys
import goldwatch
from goldwatch import api
from goldwatch.run.workers import Processes
from goldwatch.store.store_connection import StoreConnection
from goldwatch.run.watched_folders import Monitor

paths = sys.argv[1:]
ours = os.getpid()

def told(owner, name):
    end = getattr(owner, name)
    def told_end(*arguments, **more):
        if os.getpid() != ours:
            print("a fork calls", owner.__name__, name, flush=True)
        end(*arguments, **more)
    setattr(owner, name, told_end)

for owner, name in ((Processes, "close"), (StoreConnection, "close"), (Monitor, "stop")):
    told(owner, name)

def fork():
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def let_go():
    global result
    result = None

forked = []

def progress(done, known):
    if not forked:
        forked.append(fork())

result = goldwatch.compare(*paths, jobs=1)
fork()
print(len(list(result.rows())), flush=True)
process = multiprocessing.get_context("fork").Process(target=let_go)
process.start()
process.join()
print(len(list(result.rows())), flush=True)
result = goldwatch.compare(*paths, jobs=2, progress=progress)
print(len(list(result.rows())), flush=True)
with goldwatch.watch(*paths, jobs=2, until_idle=0.2) as rows:
    for number, row in enumerate(rows):
        if number == 0:
            fork()
print(len(list(rows.result.rows())), flush=True)
with goldwatch.watch(*paths, jobs=2, until_idle=0.2) as rows:
    fork()
    list(rows)
print(len(list(rows.result.rows())), flush=True)
"""


def test_a_forked_child_that_ends_deletes_nothing_of_its_parent(paths, temporary):
    """Neither the temporary folder of a result, nor the processes and threads of a comparison that
    goes on.
    """
    environment = dict(os.environ, TMPDIR=str(temporary), PYTHONWARNINGS="ignore")
    words = [sys.executable, "-c", FORKS, *map(str, paths)]
    done = subprocess.run(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120
    )
    assert (done.stdout.decode().split(), done.stderr.decode()) == (["8"] * 5, "")
    assert os.listdir(str(temporary)) == []


@pytest.fixture
def interrupted_before(monkeypatch):
    """Has Ctrl-C come when a function is called, once: ``interrupted_before(owner, name)``."""

    def patch(owner, name):
        whole, came = getattr(owner, name), []

        def interrupted(*arguments, **more):
            if not came:
                came.append(name)
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            return whole(*arguments, **more)

        monkeypatch.setattr(owner, name, interrupted)
        return came

    return patch


CLOSING = [
    (Monitor, "stop"),
    (Child, "close"),
    (ThreadPoolExecutor, "shutdown"),
    (Workers, "close"),
    (StoreConnection, "_leave_one_file"),
]


@pytest.mark.parametrize("left", ["early", "at the end", "by an error"])
@pytest.mark.parametrize("owner, name", CLOSING)
def test_ctrl_c_while_a_watch_is_left_leaves_nothing_behind(
    paths, temporary, interrupted_before, owner, name, left
):
    """No process, thread or folder stays, nor does OUT remain locked."""
    threads = threading.enumerate()
    out = temporary / "out"
    with pytest.raises(KeyboardInterrupt), goldwatch.watch(
        *paths, out=out, jobs=2, until_idle=0.2
    ) as rows:
        processes = rows._watch.own_pids
        for number, _ in enumerate(rows):
            if number == 3:
                came = interrupted_before(owner, name)
                if left == "by an error":
                    raise ValueError("mine")
                if left == "early":
                    break
    assert came and set(threading.enumerate()) <= set(threads)
    assert [pid for pid in processes() if is_there(pid)] == []
    RunStore.begin(str(out), rows._watch.run.inputs).close()


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("owner, name", CLOSING[2:])
def test_ctrl_c_while_a_comparison_ends_leaves_nothing_behind(
    paths, temporary, interrupted_before, owner, name
):
    threads = threading.enumerate()
    came = interrupted_before(owner, name)
    with pytest.raises(KeyboardInterrupt):
        goldwatch.compare(*paths, jobs=2)
    gc.collect()
    assert came and set(threading.enumerate()) <= set(threads) and os.listdir(str(temporary)) == []


@pytest.mark.parametrize("owner, name", [(Watch, "__init__"), (Run, "prepare_rows")])
def test_ctrl_c_leaves_no_temporary_folder(paths, temporary, interrupted_before, owner, name):
    """Before a watch begins, and while its store is made."""
    came = interrupted_before(owner, name)
    with pytest.raises(KeyboardInterrupt), goldwatch.watch(*paths, jobs=1):
        pass
    gc.collect()
    assert came and os.listdir(str(temporary)) == []


def test_a_temporary_folder_is_deleted_completely_despite_ctrl_c(temporary, interrupted_before):
    interrupted_before(shutil, "rmtree")
    with pytest.raises(KeyboardInterrupt):
        api._delete(str(temporary), os.getpid())
    assert not temporary.exists()


def test_an_interrupt_while_a_run_is_opened_unlocks_its_out_folder(
    paths, tmp_path, interrupted_before
):
    interrupted_before(Run, "prepare_rows")
    try:
        goldwatch.compare(*paths, out=tmp_path, jobs=1)
    except KeyboardInterrupt:
        assert goldwatch.compare(*paths, out=tmp_path, jobs=1).finished
    else:
        raise AssertionError("not interrupted")
