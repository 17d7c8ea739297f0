"""Addresses where no usable scheduler answers: one sentence says so, soon."""

from __future__ import annotations

import os
import socket
import subprocess

import dask
import distributed
import pytest
from dask_clusters import running_cluster, url

from goldwatch.cluster import scheduler_reachability


def certificate(folder, name):
    key, cert = str(folder / (name + ".key")), str(folder / (name + ".pem"))
    names = ["-subj", "/CN=goldwatch", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
    "-out", cert, "-days", "2", *names],
                   check=True, stderr=subprocess.DEVNULL)  # fmt: skip
    return cert, key


def options_of(authority, cert, key):
    return ["--tls-ca-file", authority, "--tls-cert", cert, "--tls-key", key]


def refused(training, *options):
    """Return the two lines of an attempt that ends with 4 and leaves OUT alone."""
    done = training.compare("out", "-q", "--cluster", *options)
    assert (
        done.returncode == 4 and not done.stdout and not os.path.exists(training.path("out"))
    ), done.stderr
    said, hint = done.stderr.splitlines()
    return said + hint


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_server_that_accepts_but_never_answers_is_refused(
    training, tmp_path, monkeypatch, encrypted
) -> None:
    monkeypatch.setattr(scheduler_reachability, "TIMEOUT_S", 1)
    options = (
        options_of(*certificate(tmp_path, "ours")[:1], *certificate(tmp_path, "ours"))
        if encrypted
        else []
    )
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        there.listen()
        address = "%s://127.0.0.1:%d" % ("tls" if encrypted else "tcp", there.getsockname()[1])
        assert "accepts connections and says nothing for 1 s" in refused(
            training, address, *options
        )


def test_an_unknown_host_name_is_refused(training) -> None:
    assert "there is no such name" in refused(
        training, "tcp://nosuchhost.invalid:8786", "--insecure"
    )


def test_tls_settings_that_do_not_fit_are_refused(training, tmp_path, shared_client) -> None:
    ours, others = certificate(tmp_path, "ours"), certificate(tmp_path, "others")
    plain = url(shared_client).replace("tcp://", "tls://")
    assert "it does not speak TLS" in refused(training, plain, *options_of(ours[0], *ours))
    roles = ("client", "scheduler", "worker")
    files = {
        "tls_%s_%s" % (role, what): path
        for role in roles
        for what, path in zip(("cert", "key"), ours)
    }
    security = distributed.security.Security(tls_ca_file=ours[0], require_encryption=True, **files)
    with running_cluster(security=security, protocol="tls://") as client:
        said = refused(training, url(client).replace("tls://", "tcp://"))
        # An older Dask is silent there.
        assert ("it closes the connection" in said or "says nothing" in said) and "tls://" in said
        assert "not of the authority that we were told" in refused(
            training, url(client), *options_of(others[0], *ours)
        )
        assert "our certificate" in refused(training, url(client), *options_of(ours[0], *others))


def test_a_local_cluster_that_cannot_start_is_refused(training) -> None:
    with dask.config.set({"temporary-directory": "/proc/nope"}):
        assert "No such file or directory: '/proc/nope" in refused(training, "local:1")
