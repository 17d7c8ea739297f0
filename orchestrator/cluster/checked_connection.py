"""A client of the cluster, once all that must be alike on its machines is alike."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import warnings
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from .. import __version__
from ..base.atomic_writing import create_new
from ..base.errors import EnvironmentProblem, GoldwatchError, UsageError
from ..base.interrupts import handle_termination, interrupts_blocked
from ..base.pool import default_jobs
from ..base.wording import listed
from .address import ClusterAddress, NoCertificates
from .requests_with_timeout import CLOSING_S, GONE, ask, is_there, run_each, threads_of
from .scheduler_reachability import TIMEOUT_S, first_line, no_answer, require_answer

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
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_ours(entry.path)
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


_SHOWN = 4
_MOST_SHOWN = 40
GOES_ON = "the same command goes on where this one stopped"
_PACKAGES = ("dask", "distributed")


class Connection(NamedTuple):
    """A client of the cluster.

    Attributes
    ----------
    client
        ``distributed.Client``.
    revive
        Starts workers of our own in place of those that Dask has given up; does nothing for
        others'.
    aside
        Workers with other versions, which get no work, each with a sentence.
    """

    client: Any
    revive: Callable[[], None]
    aside: Mapping[str, str]


@contextlib.contextmanager
def connected(address: ClusterAddress) -> Iterator[Connection]:
    """Yield a connection; a cluster of our own ends with it.

    Raises
    ------
    EnvironmentProblem
        Dask is not installed, nobody answers, there is no worker, or none has our versions; or the
        scheduler goes away meanwhile.
    UsageError
        Certificates are missing, or cannot be used.
    """
    try:
        importlib.import_module("dask")
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise EnvironmentProblem(
            "a cluster needs Dask: %s" % error, hint="pip install 'goldwatch[dask]'"
        ) from None
    quiet = _silence_loggers()
    security = _security(address)
    with contextlib.ExitStack() as stack:
        # Ctrl-C in the terminal is for us alone: we end the workers that we have started.
        # Multiprocessing's helper, which a lock starts, would let it through again.
        multiprocessing.get_context("spawn").Lock()
        where: Any = address.url
        workers = address.workers or default_jobs()
        if address.url is None:
            where = stack.enter_context(own_cluster(workers, quiet))
        else:
            require_answer(address, security)
        # So is its message about versions.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter(
            "ignore", importlib.import_module("distributed.versions").VersionMismatchWarning
        )
        with interrupts_blocked():
            try:
                client = distributed.Client(
                    where, timeout=TIMEOUT_S, set_as_default=False, security=security
                )
            except Exception as error:
                raise no_answer(address, error) from None
            stack.callback(_leave, client)
        try:
            aside = _require_alike(client)
            yield Connection(
                client, (lambda: None) if address.url else lambda: where.scale(workers), aside
            )
        except GoldwatchError:
            raise
        except GONE:
            if is_there(client):
                raise
            what = "answers no more" if client.status == "running" else "has gone away"
            raise EnvironmentProblem(
                "%s: the Dask scheduler %s" % (address.shown, what), hint=GOES_ON
            ) from None


def _silence_loggers() -> int:
    """Set the level of Dask's loggers, whose messages about dying workers and lost connections are
    replaced by ours; return it.
    """
    level = logging.getLogger("goldwatch").getEffectiveLevel()
    quiet = logging.CRITICAL if level > logging.DEBUG else logging.DEBUG
    for name in ["asyncio", "distributed", *logging.root.manager.loggerDict]:
        # Some of Dask's have a level of their own; asyncio tells of the tasks that Dask has
        # dropped.
        if name.split(".")[0] in ("asyncio", "distributed"):
            logging.getLogger(name).setLevel(quiet)
    return quiet


def _leave(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=CLOSING_S)


def _security(address: ClusterAddress) -> Any:
    if not address.encrypted:
        return None
    security: Any = importlib.import_module("distributed.security")
    files = {
        "tls_ca_file": address.tls_ca_file,
        "tls_client_cert": address.tls_cert,
        "tls_client_key": address.tls_key or address.tls_cert,
    }
    settings = security.Security(
        require_encryption=True, **{name: path for name, path in files.items() if path is not None}
    )
    try:
        complete = settings.get_connection_args("client")["ssl_context"] is not None
    except (OSError, ValueError) as error:
        raise UsageError(
            "%s: the certificates cannot be used: %s" % (address.shown, error)
        ) from None
    if not complete:
        raise NoCertificates(
            "%s needs certificates, and neither the command nor Dask's configuration has all"
            % address.shown,
            hint="give that of the authority, our own and its key",
        )
    return settings


def _require_alike(client: Any) -> Dict[str, str]:
    """Return the workers with other versions than ours, each with a sentence; refuse a cluster
    whose scheduler has, or where all have.
    """
    workers = list(threads_of(client))
    if not workers:
        raise EnvironmentProblem(
            "the Dask scheduler has no worker",
            hint="start dask worker on the machines that are to compare",
        )
    scheduler = ask(client, client.scheduler.versions, packages=[])
    different = differences(_ours(), {"the scheduler": scheduler})
    aside = {} if different else unlike(client, workers)
    if different or len(aside) == len(workers):
        raise EnvironmentProblem(
            "versions differ in the cluster: %s"
            % listed(different or list(aside.values()), _SHOWN, "; "),
            hint="Python's minor version, dask and goldwatch must be the same everywhere",
        )
    return aside


def unlike(client: Any, workers: Sequence[str]) -> Dict[str, str]:
    """Return which of some workers have other versions than ours, each with a sentence; of one that
    has gone meanwhile nothing is known.
    """

    worker_versions = {
        name: entry
        for name, entry in run_each(client, workers, _get_versions()).items()
        if not isinstance(entry, Exception)
    }
    phrases_of = {
        name: differences(_ours(), {"worker %s" % name: entry})
        for name, entry in worker_versions.items()
    }
    aside = {name: "; ".join(phrases) for name, phrases in phrases_of.items() if phrases}
    return {**aside, **_of_goldwatch(client, [name for name in workers if name not in aside])}


def _get_versions() -> Callable[[], Any]:
    """Return Dask's own function, which works on workers without goldwatch too."""
    get_versions: Callable[[], Any] = importlib.import_module("distributed.versions").get_versions
    return get_versions


def _ours() -> Any:
    return _get_versions()()


def differences(ours: Mapping[str, Any], sides: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """Return, a phrase each, where Python (its minor version) or Dask is another than ours.

    Parameters
    ----------
    ours, sides
        As ``Client.get_versions`` has them: ours, and those of others by name.
    """
    our_versions = _versions(ours)
    return [
        "%s has %s %s, this is %s" % (name, what, theirs or "none", mine)
        for name, entry in sides.items()
        for (what, mine), (_, theirs) in zip(our_versions, _versions(entry))
        if mine != theirs
    ]


def _versions(entry: Mapping[str, Any]) -> List[Tuple[str, str]]:
    python = (
        str(entry["host"].get("python", ""))
        if isinstance(entry["host"], dict)
        else str(dict(entry["host"]).get("python", ""))
    )
    packages = dict(entry["packages"])
    return [
        ("Python", _cut(".".join(python.split(".")[:2]))),
        *((name, _cut(packages.get(name) or "")) for name in _PACKAGES),
    ]


def _cut(version: Any) -> str:
    """Return a version as text for a message; others' may be anything."""
    return str(version)[:_MOST_SHOWN]


def _of_goldwatch(client: Any, workers: Sequence[str]) -> Dict[str, str]:
    reasons = {}
    for worker, theirs in run_each(client, workers, goldwatch_version).items():
        if isinstance(theirs, OSError):
            continue
        if isinstance(theirs, Exception):
            reasons[worker] = "worker %s has no goldwatch that can be used (%s)" % (
                worker,
                first_line(theirs),
            )
        elif theirs != __version__:
            reasons[worker] = "worker %s has goldwatch %s, this is %s" % (
                worker,
                _cut(theirs),
                __version__,
            )
    return reasons


def goldwatch_version() -> str:
    """Return goldwatch's version where it is called."""
    import goldwatch

    return str(goldwatch.__version__)
