"""A run compared by a Dask cluster has the results of a local run, whatever happens to the
workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import warnings

import dask
import distributed
import pytest
from dask_clusters import running_cluster, running_process, url
from distributed.versions import VersionMismatchWarning
from in_process import run_here
from worker_faults import (
    Blind,
    DiesComparing,
    DiesPlanning,
    Gate,
    OtherVersion,
    Waits,
    shard_folders,
    version_of_another,
    worker_fault,
)

from goldwatch.cli.progress import ProgressBar
from goldwatch.cluster import checked_connection, comparers, scheduler_reachability
from goldwatch.cluster.address import ClusterAddress
from goldwatch.store.store import RunStore


@pytest.fixture
def reviving(disposable_client, monkeypatch):
    """Workers that end while they start, which Dask gives up, are replaced, as those of a cluster
    of our own are.
    """
    connection = checked_connection.Connection(
        disposable_client, lambda: disposable_client.cluster.scale(2), {}
    )
    monkeypatch.setattr(comparers, "connected", lambda address: contextlib.nullcontext(connection))


@pytest.mark.parametrize("target", ["dump", "flat", "one step"])
def test_a_cluster_writes_the_result_files_of_a_local_run(
    training, shared_client, small_batches, target
) -> None:
    target = {
        "dump": "dump",
        "flat": "flat",
        "one step": os.path.relpath(training.flat, training.folder),
    }[target]
    os.rename(training.flat, training.path("flat")) if target == "flat" else None
    here = training.compare("here", "--jobs", "2", target=target)
    there = training.compare("there", "--cluster", url(shared_client), target=target)
    assert here.returncode == there.returncode == (1 if target == "dump" else 3), there.stderr
    assert training.results("there") == training.results("here")
    assert there.stdout.replace("there", "here").splitlines()[-3:] == here.stdout.splitlines()[-3:]
    assert not any(shared_client.run(shard_folders).values())


def test_a_run_continues_with_and_without_a_cluster(training, shared_client, small_batches) -> None:
    assert training.compare("here").returncode == 1
    before = training.results("here")
    assert training.compare("here", "--cluster", url(shared_client)).returncode == 1
    assert training.results("here") == before
    with RunStore.open(training.path("here")) as store:
        assert not store.events.all("replaced") and not store.events.all("removed")
    # A file that has changed since is compared again, and its rows of before are gone.
    path = os.path.join(training.flat, "Relu.op1.1.0.1700000001000001")
    with open(path, "r+b") as stream:
        stream.truncate(40)
    assert training.compare("here", "--cluster", url(shared_client)).returncode == 1
    assert training.compare("again", "--jobs", "1").returncode == 1
    assert training.results("here") == training.results("again") != before
    assert training.compare("again").returncode == 1
    assert training.results("here") == training.results("again")


def test_a_killed_worker_changes_no_result(
    training, disposable_client, reviving, small_batches
) -> None:
    assert training.compare("here").returncode == 1
    with worker_fault(disposable_client, DiesComparing("op3", once=training.path("died"))):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1 and os.path.exists(training.path("died")), done.stderr
    assert training.results("there") == training.results("here")


def test_a_pair_that_kills_workers_is_compared_in_a_separate_process(
    training, disposable_client, reviving
) -> None:
    assert training.compare("here").returncode == 1
    with worker_fault(disposable_client, DiesComparing("op3")):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1, done.stderr
    assert training.results("there") == training.results("here")


def test_a_unit_that_kills_every_worker_gets_rows_that_say_so(
    training, disposable_client, reviving
) -> None:
    with worker_fault(disposable_client, DiesPlanning("/2/net/1/1/")):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1, done.stderr
    lost = [row for row in training.rows("there") if row["cause"] == "crashed"]
    assert {(row["device"], row["step"]) for row in lost} == {("2", "1")} and len(lost) == len(
        training.ops
    )
    assert all("died 4 times" in row["reason"] for row in lost)
    assert training.compare("here").returncode == 1
    others = [row for row in training.rows("here") if (row["device"], row["step"]) != ("2", "1")]
    assert [
        row for row in training.rows("there") if (row["device"], row["step"]) != ("2", "1")
    ] == others


def test_a_worker_that_does_not_see_the_files_is_named_and_gets_no_work(
    training, disposable_client, small_batches
) -> None:
    names = {
        str(entry["name"]): address
        for address, entry in disposable_client.scheduler_info()["workers"].items()
    }
    with worker_fault(disposable_client, Blind("1", "golden")):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert (
        done.returncode == 1 and "worker %s does not see GOLDEN" % names["1"] in done.stderr
    ), done.stderr
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_cluster_that_does_not_see_the_files_is_refused_before_out_is_created(
    training, disposable_client
) -> None:
    with worker_fault(disposable_client, Blind("0", "dump")):
        pass
    with worker_fault(disposable_client, Blind("1", "dump")):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert (
        done.returncode == 4
        and "no worker sees the files" in done.stderr
        and "TARGET" in done.stderr
    )
    assert not os.path.exists(training.path("there"))


def test_workers_with_another_goldwatch_are_refused_by_name(training, disposable_client) -> None:
    (worker, *_) = disposable_client.run(version_of_another, "0.0.1")
    done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 4 and "worker %s has goldwatch 0.0.1, this is" % worker in done.stderr
    assert not os.path.exists(training.path("there"))


def test_a_worker_with_another_goldwatch_gets_no_work(training, disposable_client) -> None:
    (worker, other) = disposable_client.nthreads()
    disposable_client.run(version_of_another, "0.0.1", workers=[worker])
    done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1, done.stderr
    assert (
        done.stderr.count("warning: worker %s has goldwatch 0.0.1, this is " % worker) == 1
        and "it gets no work" in done.stderr
    )
    assert other not in done.stderr
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_worker_that_gets_another_goldwatch_later_gets_no_more_work(
    training, disposable_client, small_batches
) -> None:
    """As one does that comes while the run goes on and is sent something before it is asked."""
    (worker, _) = disposable_client.nthreads()
    with worker_fault(disposable_client, OtherVersion(worker)):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1, done.stderr
    assert "warning: worker %s has goldwatch 0.0.1, not " % worker in done.stderr
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_a_killed_worker_is_reported(training, disposable_client, small_batches) -> None:
    workers = list(disposable_client.nthreads())
    with worker_fault(disposable_client, DiesComparing("op3", once=training.path("dead"))):
        done = training.compare("there", "--cluster", url(disposable_client))
    assert done.returncode == 1, done.stderr
    told = [
        worker
        for worker in workers
        if "warning: worker %s has gone (killed, or out of memory?)" % worker in done.stderr
    ]
    assert len(told) == 1, done.stderr
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_ctrl_c_on_a_cluster_run_keeps_its_rows_for_the_next_start(
    training, shared_client, small_batches, until
) -> None:
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
    ]
    with Gate(training.path("gate")) as gate, worker_fault(
        shared_client, Waits(gate)
    ), contextlib.ExitStack() as stack:
        process = stack.enter_context(
            running_process(
                [*command, url(shared_client)], cwd=training.folder, stderr=subprocess.PIPE
            )
        )
        until(gate.reached)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on" in stderr and "Traceback" not in stderr, stderr
    until(lambda: not any(shared_client.run(shard_folders).values()))
    assert training.compare("there", "--cluster", url(shared_client)).returncode == 1
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")


def test_cluster_local_starts_and_ends_its_own_workers(training, monkeypatch) -> None:
    assert training.compare("here").returncode == 1
    os.mkdir(training.path("temporary"))
    monkeypatch.setattr(tempfile, "tempdir", training.path("temporary"))
    before = os.listdir(training.folder)
    done = training.compare("there", "--cluster", "local:2")
    assert done.returncode == 1, done.stderr
    assert training.results("there") == training.results("here")
    # Nothing is left, neither in the temporary folder nor where the user stands.
    assert os.listdir(training.path("temporary")) == [] and {*os.listdir(training.folder)} == {
        *before,
        "there",
    }


def test_progress_is_shown_before_the_first_worker_answers(
    training, shared_client, monkeypatch
) -> None:
    shown = []
    monkeypatch.setattr(
        ProgressBar, "show", lambda bar, what, done, total: shown.append((what, done, total))
    )
    assert training.compare("there", "--cluster", url(shared_client)).returncode == 1
    first, *_, last = [steps for what, *steps in shown if what == "comparing in the cluster"]
    assert first == [0, last[1]] and last[0] == last[1] > 0


def test_dasks_warnings_about_versions_are_not_printed(shared_client, recwarn) -> None:
    with checked_connection.connected(ClusterAddress(url(shared_client))):
        warnings.warn(VersionMismatchWarning("numpy differs"), stacklevel=1)
    assert not [warning for warning in recwarn if warning.category is VersionMismatchWarning]


def test_an_address_where_no_scheduler_answers_is_refused(training, monkeypatch) -> None:
    monkeypatch.setattr(scheduler_reachability, "TIMEOUT_S", 1)
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        port = there.getsockname()[1]
    done = training.compare("there", "--cluster", "tcp://127.0.0.1:%d" % port)
    assert (
        done.returncode == 4
        and "no Dask scheduler answers" in done.stderr
        and not os.path.exists(training.path("there"))
    )


def test_cluster_options_that_do_not_fit_are_refused(training) -> None:
    assert "need --cluster" in training.compare("there", "--insecure").stderr
    done = training.compare("there", "--cluster", "tcp://10.0.0.1:1")
    assert done.returncode == 2 and "--insecure" in done.stderr
    (file,) = [name for name in os.listdir(training.flat) if ".op1." in name]
    words = [
        "goldwatch",
        "compare",
        os.path.join(training.flat, file),
        training.path("golden", "op1.0.1700000000000001.npy"),
        "-o",
        "out",
    ]
    assert run_here([*words, "--cluster", "local"], training.folder).returncode == 2


def test_a_cluster_is_reached_by_tls(training, tmp_path) -> None:
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    names = ["-subj", "/CN=goldwatch", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
    "-out", cert, "-days", "2", *names],
                   check=True, stderr=subprocess.DEVNULL)  # fmt: skip
    roles = ("client", "scheduler", "worker")
    files = {
        "tls_%s_%s" % (role, what): path
        for role in roles
        for what, path in (("cert", cert), ("key", key))
    }
    security = distributed.security.Security(tls_ca_file=cert, require_encryption=True, **files)
    with running_cluster(security=security, protocol="tls://") as client:
        assert url(client).startswith("tls://")
        done = training.compare(
            "there",
            "--cluster",
            url(client),
            "--tls-ca-file",
            cert,
            "--tls-cert",
            cert,
            "--tls-key",
            key,
        )
        assert done.returncode == 1, done.stderr
        for some in [(), ("--tls-ca-file", cert)]:
            refused = training.compare("other", "--cluster", url(client), *some)
            assert (
                refused.returncode == 2
                and "needs certificates" in refused.stderr
                and "--tls-key" in refused.stderr
            ), refused.stderr
        with dask.config.set(
            {"distributed.comm.tls.ca-file": cert, "distributed.comm.tls.client.cert": cert}
        ):
            done = training.compare(
                "configured", "--cluster", url(client), "--tls-cert", cert, "--tls-key", key
            )
            assert done.returncode == 1, done.stderr
        unfit = training.compare(
            "other",
            "--cluster",
            url(client),
            "--tls-ca-file",
            cert,
            "--tls-cert",
            training.path("net.json"),
        )
        assert (
            unfit.returncode == 2
            and "cannot be used" in unfit.stderr
            and not os.path.exists(training.path("other"))
        )
    assert training.compare("here").returncode == 1
    assert training.results("there") == training.results("here")
