"""A cluster of this command's own: ended with all that it has started, whoever hangs and however it ends."""

from __future__ import annotations

import os
import signal
import sys

import psutil
import pytest
from clusters import running
from worker_faults import Gate

_WAITS = """
def compare(my_output, ground_truth, args):
    open(%r, "w").close()
    with open(%r):
        return 1.0, ""
"""


@pytest.mark.parametrize(("number", "frozen", "code"), [(signal.SIGINT, 0, 130), (signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)])
def test_nothing_is_left_of_it(training, until, number, frozen, code) -> None:
    os.mkdir(training.path("temporary"))
    os.makedirs(training.path("mine", "algorithm"))
    command = [sys.executable, "-m", "goldwatch", "compare", "dump", "golden", "-f", "net.json", "-o", "there", "--cluster", "local:2"]
    with Gate(training.path("gate")) as gate:
        with open(training.path("mine", "algorithm", "alg_waits.py"), "w") as stream:
            stream.write(_WAITS % (gate.path + ".waiting", gate.path))
        before = os.listdir(training.folder)
        environment = dict(os.environ, TMPDIR=training.path("temporary"))
        with running([*command, "--custom", "mine"], cwd=training.folder, env=environment, stderr=-1) as process:
            until(lambda: gate.reached() or process.poll() is not None, 240)
            every = psutil.Process(process.pid).children(recursive=True)
            workers = [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]
            assert len(workers) == 2
            for worker in workers[:frozen]:
                worker.suspend()
            process.send_signal(number)
            _, stderr = process.communicate(timeout=120)
        until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in every))
    assert process.returncode == code and "Traceback" not in stderr and "leaked" not in stderr, stderr
    assert ("the same command goes on" in stderr) == (code == 130), stderr
    assert os.listdir(training.path("temporary")) == []
    assert {*os.listdir(training.folder)} == {*before, "there", "gate.waiting"} - {"gate"}
