"""A cluster started by the command: ended with all its processes, however the command ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import tempfile

import psutil
import pytest
from dask_clusters import running_process
from worker_faults import Gate

from goldwatch.cluster import checked_connection

_WAITS = """
def compare(my_output, ground_truth, args):
    open(%r, "w").close()
    with open(%r):
        return 1.0, ""
"""


@pytest.mark.parametrize(
    ("number", "frozen", "code"),
    [(signal.SIGINT, 0, 130), (signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 143)],
)
def test_a_local_cluster_leaves_no_processes_or_files(
    training, until, number, frozen, code
) -> None:
    os.mkdir(training.path("temporary"))
    os.makedirs(training.path("mine", "algorithm"))
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
        "local:2",
    ]
    with Gate(training.path("gate")) as gate:
        with open(training.path("mine", "algorithm", "alg_waits.py"), "w") as stream:
            stream.write(_WAITS % (gate.path + ".waiting", gate.path))
        before = os.listdir(training.folder)
        environment = dict(os.environ, TMPDIR=training.path("temporary"))
        with running_process(
            [*command, "--custom", "mine"], cwd=training.folder, env=environment, stderr=-1
        ) as process:
            until(lambda: gate.reached() or process.poll() is not None, 240)
            every = psutil.Process(process.pid).children(recursive=True)
            workers = [
                child
                for child in psutil.Process(process.pid).children()
                if "spawn_main" in " ".join(child.cmdline())
            ]
            assert len(workers) == 2
            for worker in workers[:frozen]:
                worker.suspend()
            process.send_signal(number)
            _, stderr = process.communicate(timeout=120)
        until(
            lambda: not any(
                child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in every
            )
        )
    assert (
        process.returncode == code and "Traceback" not in stderr and "leaked" not in stderr
    ), stderr
    assert ("the same command goes on" in stderr) == (code == 130), stderr
    assert os.listdir(training.path("temporary")) == []
    assert {*os.listdir(training.folder)} == {*before, "there", "gate.waiting"} - {"gate"}


def test_scratch_files_of_a_killed_local_cluster_are_removed_by_the_next(training, until) -> None:
    temporary = training.path("temporary")
    os.makedirs(training.path("mine", "algorithm"))
    os.mkdir(temporary)
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
        "local:2",
    ]
    options = {
        "cwd": training.folder,
        "env": dict(os.environ, TMPDIR=temporary),
        "stderr": -1,
        "stdout": -1,
    }
    with Gate(training.path("gate")) as gate:
        with open(training.path("mine", "algorithm", "alg_waits.py"), "w") as stream:
            stream.write(_WAITS % (gate.path + ".waiting", gate.path))
        with running_process([*command, "--custom", "mine"], **options) as process:
            until(lambda: gate.reached() or process.poll() is not None, 240)
            every = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.communicate()
            until(
                lambda: not any(
                    child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in every
                )
            )
    assert any(name.startswith("goldwatch-cluster-") for name in os.listdir(temporary))
    with running_process([*command, "--force"], **options) as process:
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == 1, stderr
    assert os.listdir(temporary) == []


def test_only_unlocked_scratch_folders_of_goldwatch_are_removed(tmp_path, monkeypatch) -> None:
    for name in ("left", "results", "unmarked"):
        (tmp_path / ("goldwatch-cluster-" + name) / "dask-scratch-space").mkdir(parents=True)
    for name in ("left", "results"):
        (tmp_path / ("goldwatch-cluster-" + name) / checked_connection._MARK).write_text("")
    (tmp_path / "goldwatch-cluster-results" / "result.json").write_text("{}")
    for name in ("goldwatch-cluster", "goldwatch-other"):
        (tmp_path / name / "below").mkdir(parents=True)
    (tmp_path / "goldwatch-cluster-file").write_text("")
    (tmp_path / "goldwatch-cluster-link").symlink_to("goldwatch-other")
    kept = set(os.listdir(str(tmp_path))) - {"goldwatch-cluster-left"}
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with checked_connection.scratch_folder(str(tmp_path)):
        assert (tmp_path / "goldwatch-cluster-left").exists()
    monkeypatch.undo()
    with checked_connection.scratch_folder(
        str(tmp_path)
    ) as first, checked_connection.scratch_folder(str(tmp_path)) as second:
        assert first != second and {*os.listdir(str(tmp_path))} == {
            *kept,
            os.path.basename(first),
            os.path.basename(second),
        }
    assert {*os.listdir(str(tmp_path))} == kept and (
        tmp_path / "goldwatch-other" / "below"
    ).exists()


def test_a_scratch_folder_removed_by_another_process_is_recreated(tmp_path, monkeypatch) -> None:
    make, made = tempfile.mkdtemp, []

    def removed_at_once(**options):
        made.append(make(**options))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_once)
    with checked_connection.scratch_folder(str(tmp_path)) as folder:
        assert folder == made[1] and os.listdir(str(tmp_path)) == [os.path.basename(folder)]
    assert os.listdir(str(tmp_path)) == []


def test_without_file_locks_no_scratch_folder_is_removed(tmp_path, monkeypatch) -> None:
    (tmp_path / "goldwatch-cluster-left").mkdir()

    def none(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with checked_connection.scratch_folder(str(tmp_path)) as folder:
        assert os.path.isdir(folder)
    assert os.listdir(str(tmp_path)) == ["goldwatch-cluster-left"]
