"""Dask clusters on this machine."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import subprocess

import distributed
import psutil

from goldwatch.cluster import checked_connection

TIME = "20260102030405"


@contextlib.contextmanager
def running_cluster(**options):
    """Yield a client of a cluster whose processes are killed at the end, whatever they hang in."""
    # Multiprocessing's helper, which a lock starts, outlives the cluster.
    multiprocessing.get_context("spawn").Lock()
    others = checked_connection.children_ids()
    options = dict(
        {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"},
        **options,
    )
    with contextlib.ExitStack() as stack:
        cluster = distributed.LocalCluster(
            host="127.0.0.1", silence_logs=logging.CRITICAL, **options
        )
        stack.callback(checked_connection.end_cluster, cluster, others, at_once=True)
        client = stack.enter_context(
            distributed.Client(cluster, set_as_default=False, security=cluster.security)
        )
        client.wait_for_workers(2, timeout=120)
        yield client


def url(client):
    return client.scheduler.address


@contextlib.contextmanager
def running_process(words, **options):
    """Yield a process, which is killed, with all that it has started, where it has not ended with
    its block.
    """
    process = subprocess.Popen(words, universal_newlines=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.Error):
            for started_by_it in psutil.Process(process.pid).children(recursive=True):
                started_by_it.kill()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
