"""What Ctrl-C and forks do to the public Python API."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

import goldwatch
from goldwatch.engine.options import ComparisonOptions
from goldwatch.watching.monitor import Monitor
from goldwatch.watching.watch import Watch


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


@pytest.mark.parametrize("owner, name", [(ComparisonOptions, "graphs"), (Watch, "_set_up"), (Monitor, "start")])
def test_ctrl_c_while_a_watch_begins(paths, temporary, monkeypatch, owner, name):
    """As in the block: ``except Exception`` around a loop of watches must not go on with the next one, and no thread stays."""
    whole = getattr(owner, name)

    def then_interrupted(*arguments):
        whole(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)

    monkeypatch.setattr(owner, name, then_interrupted)
    threads = threading.enumerate()
    for out, told in ((None, "^interrupted$"), (temporary / "out", "^interrupted: 0 rows are stored in .*out$")):
        with pytest.raises(KeyboardInterrupt, match=told), goldwatch.watch(*paths, out=out, jobs=1, until_idle=0.2) as rows:
            list(rows)
        assert threading.enumerate() == threads
    gc.collect()
    assert set(os.listdir(str(temporary))) <= {"out"}


def test_a_monitor_that_never_started_is_stopped():
    Monitor(None, print, print).stop()
