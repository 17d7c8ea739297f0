"""Addresses of clusters, and those refused before anything is connected."""

from __future__ import annotations

import pytest

from goldwatch.base.errors import MissingPath, UsageError
from goldwatch.cluster.address import parse_cluster
from goldwatch.cluster.checked_connection import differences


@pytest.mark.parametrize(("text", "url", "workers"), [
    ("local", None, 0),
    ("local:3", None, 3),
    ("tcp://127.0.0.1:8786", "tcp://127.0.0.1:8786", 0),
    ("tcp://localhost:1", "tcp://localhost:1", 0),
    ("tcp://[::1]:65535", "tcp://[::1]:65535", 0),
    ("tls://lab-7.example:8786", "tls://lab-7.example:8786", 0),
])  # fmt: skip
def test_cluster_addresses_are_parsed(text, url, workers) -> None:
    found = parse_cluster(text)
    assert (found.url, found.workers, found.encrypted) == (url, workers, text.startswith("tls"))


@pytest.mark.parametrize("text", [
    "", "local:", "local:0", "local:x", "local:10000", "tcp://", "tcp://host", "tcp://127.0.0.1:0",
    "tcp://127.0.0.1:65536", "tcp://127.0.0.1:8786/x",
    "http://127.0.0.1:8786", "127.0.0.1:8786", "tls://user@host:1", "tls://a b:1", "tls://host:1\n",
])  # fmt: skip
def test_texts_that_are_no_cluster_address_are_refused(text) -> None:
    with pytest.raises(UsageError, match="is no cluster.* local:N with N from 1 to 9999"):
        parse_cluster(text)


@pytest.mark.parametrize(
    "text",
    [
        "tcp://user:secret@127.0.0.1:1",
        "user:se@secret@host:1",
        "tls://u:secret/x@h:1",
        "http://a\nsecret@h",
    ],
)
def test_a_password_in_a_cluster_address_is_not_printed(text) -> None:
    with pytest.raises(UsageError, match="is no cluster") as caught:
        parse_cluster(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "lab.example", "0.0.0.0", "[fe80::1]", "localhost.example", "127.0.0.1.example"],
)
def test_unencrypted_connections_to_other_machines_are_refused(host) -> None:
    with pytest.raises(UsageError, match="without encryption"):
        parse_cluster("tcp://%s:8786" % host)
    assert parse_cluster("tcp://%s:8786" % host, insecure=True).url
    assert parse_cluster("tls://%s:8786" % host).encrypted


def test_certificate_options_are_checked(tmp_path) -> None:
    path = str(tmp_path / "ca.pem")
    with pytest.raises(MissingPath, match="certificate authority"):
        parse_cluster("tls://host:1", tls_ca_file=path)
    with pytest.raises(UsageError, match="for tls"):
        parse_cluster("tcp://127.0.0.1:1", tls_ca_file=path)
    with pytest.raises(UsageError, match="a key is of a certificate"):
        parse_cluster("tls://host:1", tls_key=path)


def side(python="3.11.7.final.0", dask="2026.8.0", distributed="2026.8.0"):
    return {"host": {"python": python}, "packages": {"dask": dask, "distributed": distributed}}


def test_differing_versions_of_workers_are_named() -> None:
    assert differences(side(), {"a": side("3.11.2.final.0"), "b": side()}) == []
    assert differences(
        side(),
        {
            "worker x": side("3.13.0.final.0"),
            "the scheduler": side(dask="2024.8.0", distributed=None),
        },
    ) == [
        "worker x has Python 3.13, this is 3.11",
        "the scheduler has dask 2024.8.0, this is 2026.8.0",
        "the scheduler has distributed none, this is 2026.8.0",
    ]
    assert all(len(text) < 100 for text in differences(side(), {"worker x": side(dask="9" * 1000)}))
