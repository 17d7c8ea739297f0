"""How worker processes end."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from goldwatch.adapters.child_python import runs
from goldwatch.base.pool import Child, ProcessDied
from goldwatch.device.launch.user_commands import run_golden_command
from goldwatch.tools.doctor import packages

_SWALLOWS = """
import signal
open({!r}, "w").close()
try:
    while True:
        signal.pause()
except SystemExit:
    raise ImportError("of what was raised meanwhile")
"""
_HOLDS_A_LOCK = """
import sys, threading
sys.path[:] = {!r}
from goldwatch.base.child_loop import serve
held = threading.Thread(target=threading.Event().wait)
held.start()
serve({}, {}, {})
"""


class Refusing:
    """Cannot be unpickled."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ValueError("not today")


def test_a_message_that_cannot_be_unpickled_leaves_later_ones_intact():
    child = Child()
    try:
        with pytest.raises(ValueError, match="not today"):
            child.call((len, Refusing()))
        assert child.call((len, "next")) == 4
    finally:
        child.close()


def test_a_path_object_in_sys_path_is_skipped(monkeypatch):
    """As Python's own imports do."""
    monkeypatch.setattr(sys, "path", [pathlib.Path("modules"), *sys.path])
    child = Child()
    try:
        assert child.call((os.getpid,)) == child.pid
    finally:
        child.close()


@pytest.fixture
def strange_folder(tmp_path, monkeypatch):
    """The current folder has modules of names that Python itself uses, which say so when they are
    imported.
    """
    for name in ("json", "re", "struct", "enum", "pickle", "numpy", "goldwatch", "onnxruntime"):
        (tmp_path / (name + ".py")).write_text(
            "import os\nos.mkdir(%r)\nraise ImportError('strange')\n" % str(tmp_path / "imported")
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return tmp_path


def test_a_worker_imports_nothing_from_the_current_folder(strange_folder):
    child = Child()
    try:
        assert child.call((os.getpid,)) == child.pid
    finally:
        child.close()
    assert packages.states(("json", "onnxruntime"))[0]["problem"] is None
    assert packages._ask(sys.executable, ("json",)).states[0]["problem"] is None
    assert runs(sys.executable, "import json, re") is None
    with open(os.devnull, "wb") as nowhere:
        run_golden_command("golden --help", lambda text: None, nowhere.fileno())
    assert not (strange_folder / "imported").exists()


def test_a_sigterm_that_an_extension_swallowed_still_ends_the_worker(tmp_path, until):
    """Importing numpy's C part makes an ImportError of whatever is raised in it."""
    child = Child()
    child.call((os.getpid,))
    started = tmp_path / "started"
    ended = []

    def ask():
        try:
            child.call((exec, _SWALLOWS.format(str(started)), {}))
        except (ProcessDied, ImportError) as error:
            ended.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(started.exists)
    child.stop()
    until(lambda: child._process.poll() is not None)
    asking.join()
    assert child.close() == 0 and isinstance(ended[0], ProcessDied)


def test_a_process_without_calls_ends_without_waiting_for_threads(until):
    calls, ours = os.pipe()
    theirs, answers = os.pipe()
    code = _HOLDS_A_LOCK.format(sys.path, calls, answers, os.getpid())
    running = subprocess.Popen([sys.executable, "-c", code], pass_fds=[calls, answers])
    for descriptor in (calls, answers, ours, theirs):
        os.close(descriptor)
    until(lambda: running.poll() is not None)
    assert running.returncode == 0
