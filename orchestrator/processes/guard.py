"""A process that stands above another's and, when that or its own parent ends, ends all that the
other has started.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import NoReturn, Optional

from ..system.proc_files import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, processes

_HEEDED = (signal.SIGTERM, signal.SIGCHLD)


def run_under_guard() -> None:
    """Continue in a child of this process, which guards it from now on; to be called where only one
    thread runs.

    The guard ends at SIGTERM (also the one that a process of :mod:`.pool` gets when its parent has
    ended, even by SIGKILL) and when the child has ended; then with the child's exit status or
    signal. Before it ends it kills all processes below it, also those that have left the child's
    session. The child leads a session of its own, SIGTERM ends it, and where the guard is killed
    the child is too; only then may what the child has started stay.
    """
    guard = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEEDED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child:
        _guard(child)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEEDED)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)


def _guard(child: int) -> NoReturn:
    status = None
    while status is None and signal.sigwait(_HEEDED) == signal.SIGCHLD:
        status = _reap(child)
    _end_all()
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # The child has left its core already.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # Some signals' handling cannot be changed.
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if status is not None else 1)


def _reap(child: int) -> Optional[int]:
    """Reap all ended children; return the status of ``child`` if it is among them."""
    child_status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == child:
                child_status = status
    return child_status


def _end_all() -> None:
    """Kill the children until there are none: the children of each that dies become ours."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid, process in processes().items():
                if process.parent == os.getpid():
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
