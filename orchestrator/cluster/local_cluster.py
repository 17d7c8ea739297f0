"""A Dask cluster of processes of this machine: started so that Ctrl-C can end it, and ended within
seconds, whoever hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import os
import shutil
import signal
import tempfile
from typing import Any, Iterator, Optional, Sequence, Set, Tuple

from ..errors import EnvironmentProblem
from ..filesystem.atomic_writing import create_new
from ..interrupts import handle_termination, interrupts_blocked
from .requests_with_timeout import CLOSING_S
from .scheduler_reachability import first_line

_PREFIX = "goldwatch-cluster-"
_MARK = ".goldwatch-scratch"
_HELD = {_MARK, "dask-scratch-space", "dask-worker-space"}
"""What lies in a folder of ours: any other is somebody's own, whatever it is called."""


@contextlib.contextmanager
def scratch_folder(parent: Optional[str]) -> Iterator[str]:
    """Yield a folder that is removed at the end; what killed processes of this user left there is
    removed before.

    Parameters
    ----------
    parent
        Where; None: the system's folder for temporary files.

    Raises
    ------
    OSError
        It cannot be made.
    """
    parent = os.path.abspath(parent or tempfile.gettempdir())
    _remove_left(parent)
    folder, lock = _made(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _made(parent: str) -> Tuple[str, Optional[int]]:
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        try:
            lock = _lock(folder)
            os.close(create_new(os.path.join(folder, _MARK)))
            return folder, lock
        except (BlockingIOError, FileNotFoundError):
            # Another one has taken it for left before it was locked, and removes it.
            continue
        except OSError:
            # The file system has no locks: it is not removed.
            return folder, None


def _lock(folder: str) -> int:
    """Return what holds a folder's lock, which the kernel gives back with its process; raises
    OSError where it cannot be had.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            raise FileNotFoundError(folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_left(parent: str) -> None:
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_ours(entry.path)


def _remove_ours(folder: str) -> None:
    """Remove a folder that a goldwatch of this user made, and that no process has locked."""
    lock = _lock(folder)
    try:
        names = set(os.listdir(folder))
        if os.fstat(lock).st_uid == os.geteuid() and _MARK in names and names <= _HELD:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


@contextlib.contextmanager
def own_cluster(workers: int, log_level: int) -> Iterator[Any]:
    """Yield ``distributed.LocalCluster``, once so many workers with a thread each are there; for
    the main thread.

    What the workers keep on disk lies in a folder of their own, in Dask's ``temporary-directory``
    or the system's, and goes with them; where this process is killed, when the next one begins.
    SIGTERM ends the block, so that all is removed then too.

    Raises
    ------
    EnvironmentProblem
        There is no such folder, or a process cannot be started.
    """
    dask: Any = importlib.import_module("dask")
    distributed: Any = importlib.import_module("distributed")
    with contextlib.ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        handle_termination()
        with _starting():
            folder = stack.enter_context(
                scratch_folder(dask.config.get("temporary-directory", None))
            )
            others = children_ids()
            # Dask opens a port for HTTP in any case.
            options = {
                "dashboard_address": "127.0.0.1:0",
                "silence_logs": log_level,
                "memory_limit": 0,
                "local_directory": folder,
            }
            # What ends two workers ends all. Workers are started by the cluster's own thread: none
            # gets a Ctrl-C.
            config = {"distributed.scheduler.allowed-failures": 1, "temporary-directory": folder}
            with interrupts_blocked(), dask.config.set(config):
                cluster = distributed.LocalCluster(n_workers=0, threads_per_worker=1, **options)
                stack.push(
                    lambda kind, error, trace: end_cluster(
                        cluster, others, at_once=kind is not None
                    )
                )
            cluster.scale(workers)
            cluster.sync(_ready, cluster)
        yield cluster


async def _ready(cluster: Any) -> None:
    await cluster


async def _closed(nannies: Sequence[Any]) -> None:
    await asyncio.gather(*(nanny.finished() for nanny in nannies))


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Report in one sentence why a cluster of our own cannot be started."""
    try:
        yield
    except Exception as error:
        reason: BaseException = error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        raise EnvironmentProblem(
            "local: a cluster cannot be started here: %s" % first_line(reason),
            hint="Dask keeps files in its temporary-directory (DASK_TEMPORARY_DIRECTORY), else in "
            "the system's; without Dask there is none",
        ) from None


def end_cluster(cluster: Any, others: Set[int], at_once: bool) -> None:
    """Close a cluster, and kill what hangs; at once: do not wait for what its workers are at.

    Parameters
    ----------
    others
        The ids of this process's children that are no workers.
    """
    # Where it hangs, Python's end does not wait for it a second time.
    cluster.shutdown_on_close = False
    try:
        if at_once:
            nannies = list(cluster.workers.values())
            for nanny in nannies:
                # Workers that end then are not restarted, nor are those that are starting.
                nanny.close_gracefully()
            _kill(others)
            with contextlib.suppress(Exception):
                # An old Dask would still write to a worker whose end it has not noticed.
                cluster.sync(_closed, nannies, callback_timeout=CLOSING_S)
        with contextlib.suppress(Exception):
            cluster.close(timeout=CLOSING_S if at_once else 2 * CLOSING_S)
    finally:
        _kill(others)


def _kill(others: Set[int]) -> None:
    """End the workers, and what they have started."""
    gone: Any = importlib.import_module("psutil").Error
    for worker in _children():
        if worker.pid not in others:
            with contextlib.suppress(gone):
                for process in [*worker.children(recursive=True), worker]:
                    process.kill()


def _children() -> Any:
    """Return this process's children, as psutil has them; Dask requires it."""
    return importlib.import_module("psutil").Process(os.getpid()).children()


def children_ids() -> Set[int]:
    """Return the ids of this process's children."""
    return {process.pid for process in _children()}
