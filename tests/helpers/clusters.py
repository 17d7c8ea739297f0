"""Dask clusters on this machine."""

from __future__ import annotations

import contextlib
import logging

import distributed

TIME = "20260102030405"

@contextlib.contextmanager
def started(**options):
    options = dict({"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}, **options)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(distributed.LocalCluster(host="127.0.0.1", silence_logs=logging.CRITICAL, **options))
        client = stack.enter_context(distributed.Client(cluster, set_as_default=False, security=cluster.security))
        client.wait_for_workers(2)
        yield client


def url(client):
    return client.scheduler.address
