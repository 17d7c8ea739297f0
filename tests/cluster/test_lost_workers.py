"""Schedulers and workers that stop answering during a run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import distributed
import psutil
import pytest
from dask_clusters import running_process, url
from worker_faults import Blind, Forgets, Freezes, Gate, Leaves, Waits, version_after, worker_fault

from goldwatch.cluster import dispatch, requests_with_timeout

_SCHEDULER = """
import sys, distributed
if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""  # noqa: E501


def comparing(training, address, quiet=True, **pipes):
    """A run in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "goldwatch",
        "compare",
        "dump",
        "golden",
        "-f",
        "net.json",
        "-o",
        "there",
        "--cluster",
        address,
    ]
    pipes = dict({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}, **pipes)
    return running_process([*command, *(["-q"] if quiet else [])], cwd=training.folder, **pipes)


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler with a worker, in a process of its own."""
    script = tmp_path / "scheduler.py"
    script.write_text(_SCHEDULER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Its worker loads the faults.
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    with running_process([sys.executable, str(script)], env=environment, **pipes) as process:
        process.address = process.stdout.readline().strip()
        process.workers = [
            child
            for child in psutil.Process(process.pid).children()
            if "spawn_main" in " ".join(child.cmdline())
        ]
        yield process


@pytest.mark.parametrize("when", ["asking", "comparing"])
def test_a_scheduler_that_dies_is_reported_and_the_run_can_continue(
    training, scheduler, until, when
) -> None:
    with Gate(training.path("gate")) as gate:
        with distributed.Client(scheduler.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
            if when == "asking":
                client.run(version_after, gate)
            else:
                with worker_fault(client, Waits(gate)):
                    pass
        with comparing(training, scheduler.address) as process:
            until(gate.reached)
            scheduler.kill()
            stdout, stderr = process.communicate(timeout=120)
    first, second = stderr.splitlines()
    assert process.returncode == 4 and not stdout
    assert first == "goldwatch: %s: the Dask scheduler has gone away" % scheduler.address
    assert "the same command goes on" in second
    assert os.path.exists(training.path("there")) == (when == "comparing")
    assert training.compare("there").returncode == 1 and training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_scheduler_that_stops_answering_is_reported(training, scheduler, monkeypatch) -> None:
    # Long enough for a scheduler that only has no processor for a moment.
    monkeypatch.setattr(requests_with_timeout, "SILENCE_S", 12)
    with distributed.Client(scheduler.address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=120)
        with worker_fault(client, Freezes()):
            pass
    done = training.compare("there", "-q", "--cluster", scheduler.address)
    first, second = done.stderr.splitlines()
    assert done.returncode == 4 and not done.stdout
    assert first == "goldwatch: %s: the Dask scheduler answers no more" % scheduler.address
    assert "the same command goes on" in second
    assert training.compare("there").returncode == 1 and training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


@pytest.mark.parametrize("who", ["scheduler", "worker", "both"])
def test_ctrl_c_does_not_wait_for_a_hanging_scheduler_or_worker(
    training, scheduler, until, who
) -> None:
    (worker,) = scheduler.workers
    with Gate(training.path("gate")) as gate:
        with distributed.Client(scheduler.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
            with worker_fault(client, Waits(gate)):
                pass
        with comparing(training, scheduler.address, quiet=False) as process:
            until(gate.reached)
            for number in {
                "scheduler": [scheduler.pid],
                "worker": [worker.pid],
                "both": [worker.pid, scheduler.pid],
            }[who]:
                os.kill(number, signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in stderr, stderr
    # Whoever hangs has two seconds to take note, and it is said what these are for.
    assert (
        "stopping what the cluster does" in stderr and "the same command goes on" in stderr
    ), stderr


def test_a_hanging_worker_is_named(training, disposable_client, monkeypatch) -> None:
    monkeypatch.setattr(requests_with_timeout, "PATIENCE_S", 5)
    (worker, _) = disposable_client.nthreads()
    with Gate(training.path("gate")) as gate:
        disposable_client.run(version_after, gate, workers=[worker])
        done = training.compare("there", "--cluster", url(disposable_client))
    assert (
        done.returncode == 4 and "no answer for 5 s from worker %s\n" % worker in done.stderr
    ), done.stderr
    assert not os.path.exists(training.path("there"))


def test_a_cluster_without_workers_is_not_waited_for_endlessly(
    training, disposable_client, small_batches, monkeypatch
) -> None:
    monkeypatch.setattr(dispatch, "NOBODY_S", 2)
    with worker_fault(disposable_client, Leaves("0", "1")):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert (
        done.returncode == 4
        and "no worker is left: waiting" in done.stderr
        and "has been there for 2 s" in done.stderr
    ), done.stderr
    assert training.compare("there").returncode == 1 and training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_worker_that_gets_no_work_is_reported_at_once(training, disposable_client, until) -> None:
    said = training.path("said")
    with worker_fault(disposable_client, Blind("1", "golden")):
        pass
    with Gate(training.path("gate")) as gate, worker_fault(
        disposable_client, Waits(gate)
    ), contextlib.ExitStack() as stack:
        stream = stack.enter_context(open(said, "w"))
        process = stack.enter_context(comparing(training, url(disposable_client), stderr=stream))
        until(gate.reached)
        with open(said) as early:
            assert "does not see GOLDEN (golden): it gets no work" in early.read()
        gate.open()
        process.wait(timeout=120)
    with open(said) as late:
        assert late.read().count("it gets no work") == 1


def test_a_worker_that_dies_before_handing_over_its_rows_changes_no_result(
    training, disposable_client, small_batches, monkeypatch, until
) -> None:
    pids, result, dead = disposable_client.run(os.getpid), distributed.Future.result, []

    def late(future, timeout=None):
        if dead:
            return result(future, timeout)
        (holder,) = future.client.who_has([future])[future.key]
        dead.append(holder)
        os.kill(pids[holder], signal.SIGKILL)
        until(lambda: future.status != "finished")
        return result(future, 1e-3)

    monkeypatch.setattr(distributed.Future, "result", late)
    done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1 and dead, done.stderr
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_run_ends_when_no_worker_sees_the_files_any_more(
    training, disposable_client, small_batches
) -> None:
    with worker_fault(disposable_client, Forgets()):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert (
        done.returncode == 4 and "no worker is left that can compare: worker" in done.stderr
    ), done.stderr
    assert (
        "does not see GOLDEN" in done.stderr and "the same command goes on" in done.stderr
    ), done.stderr
