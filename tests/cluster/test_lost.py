"""Schedulers and workers that are there when a run begins, and answer no more."""

from __future__ import annotations

import os
import subprocess
import sys

import distributed
import pytest
from clusters import url
from worker_faults import Gate, Hangs, Waits, planted, version_after

from goldwatch.cluster import asking, hanging, units
from goldwatch.cluster.hanging import LIMIT_S, Watchdog

_SCHEDULER = """
import sys, distributed
if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler with a worker, in a process of its own."""
    script = tmp_path / "scheduler.py"
    script.write_text(_SCHEDULER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "universal_newlines": True}
    # Its worker loads the faults.
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    with subprocess.Popen([sys.executable, str(script)], env=environment, **pipes) as process:
        process.address = process.stdout.readline().strip()
        yield process
        process.stdin.close()


@pytest.mark.parametrize("when", ["asking", "comparing"])
def test_a_scheduler_that_dies_is_one_sentence_and_the_run_goes_on(training, scheduler, until, when) -> None:
    gate = Gate(training.path("gate"))
    with distributed.Client(scheduler.address, set_as_default=False) as client:
        client.wait_for_workers(1)
        if when == "asking":
            client.run(version_after, gate)
        else:
            with planted(client, Waits(gate)):
                pass
    command = [sys.executable, "-m", "goldwatch", "compare", "dump", "golden", "-f", "net.json", "-o", "there", "-q"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
    process = subprocess.Popen([*command, "--cluster", scheduler.address], cwd=training.folder, **pipes)
    until(gate.reached)
    scheduler.kill()
    stdout, stderr = process.communicate(timeout=120)
    gate.open()
    first, second = stderr.splitlines()
    assert process.returncode == 4 and not stdout
    assert first == "goldwatch: %s: the Dask scheduler has gone away" % scheduler.address
    assert "the same command goes on" in second
    assert os.path.exists(training.path("there")) == (when == "comparing")
    assert training.compare("there").returncode == 1 and training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_worker_that_hangs_is_named(training, own_client, monkeypatch) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 1)
    gate = Gate(training.path("gate"))
    (worker, _) = own_client.nthreads()
    own_client.run(version_after, gate, workers=[worker])
    done = training.compare("there", "--cluster", url(own_client))
    gate.open()
    assert done.returncode == 4 and "no answer for 1 s from worker %s\n" % worker in done.stderr, done.stderr
    assert not os.path.exists(training.path("there"))


@pytest.fixture
def impatient(monkeypatch):
    """Small batches, and a worker that finishes none for three seconds hangs."""
    monkeypatch.setattr(units, "BATCH_S", 1e-3)
    monkeypatch.setattr(hanging, "LIMIT_S", 3.0)
    monkeypatch.setattr(hanging, "_TIMES_LONGEST", 0)


def test_what_a_hanging_worker_has_is_given_to_others(training, own_client, impatient) -> None:
    workers = list(own_client.nthreads())
    with planted(own_client, Hangs("op3", once=training.path("hangs"))):
        done = training.compare("there", "--cluster", url(own_client))
    assert done.returncode == 1 and os.path.exists(training.path("hangs")), done.stderr
    assert any("worker %s finished nothing for 3 s" % worker in done.stderr for worker in workers), done.stderr
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_what_hangs_on_every_worker_gets_rows_that_say_so(training, own_client, impatient) -> None:
    with planted(own_client, Hangs("/2/net/1/1/")):
        done = training.compare("there", "--cluster", url(own_client))
    assert done.returncode == 1, done.stderr
    lost = [row for row in training.rows("there") if row["cause"] == "crashed"]
    assert {(row["device"], row["step"]) for row in lost} == {("2", "1")} and len(lost) == len(training.ops)
    assert all("workers that compared it finished nothing for 3 s" in row["reason"] for row in lost)
    assert training.compare("here").returncode == 1
    others = [row for row in training.rows("here") if (row["device"], row["step"]) != ("2", "1")]
    assert [row for row in training.rows("there") if (row["device"], row["step"]) != ("2", "1")] == others


def test_a_worker_hangs_that_has_work_and_finishes_nothing_for_long() -> None:
    dog = Watchdog()
    assert dog.hanging({"a": ["x"], "b": [], "c": ["y"]}, 0.0) == []
    dog.hear("c", 1.0, 200.0)
    assert dog.hanging({"a": ["x"], "b": ["z"], "c": ["y"]}, LIMIT_S) == []
    assert dog.hanging({"a": ["x"], "b": ["z"], "c": ["y"]}, LIMIT_S + 1) == ["a"]
    # One that has had nothing meanwhile has its time anew; long batches make it longer for all.
    assert dog.hanging({"c": ["y"]}, LIMIT_S + 2) == [] and dog.hanging({"a": ["x"]}, 1000.0) == []
    dog.hear("b", 30.0, 1000.0)
    assert dog.limit_s == 600.0 and dog.hanging({"a": ["x"]}, 1590.0) == [] and dog.hanging({"a": ["x"]}, 1601.0) == ["a"]
