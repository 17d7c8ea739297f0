"""Functions that the user wrote, called in a Python of their own: whatever they do there costs that
call and nothing else.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import signal
import sys
import threading
import time
import traceback
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Callable, List, NoReturn, Optional, Set, Tuple

from .errors import NotComparable
from .system import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, processes

if TYPE_CHECKING:
    from .pool import Child

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


TIMEOUT_S = 60.0
"""So long one call may take, in seconds."""

_MOST_LETTERS = 300
# So long its end may take, with all that it started, in seconds.
_GRACE_S = 10.0
# A process that ends while it starts, as one that the system killed, is replaced so often.
_STARTS = 3
_local = threading.local()
# Of all threads; a set's add and discard are whole.
_pids: Set[int] = set()

Answer = Tuple[bool, Any]


def call_user(
    script: str, function: Callable[..., Answer], *arguments: Any, shown: bool = False
) -> Any:
    """Return what ``function(script, *arguments)`` finds in this thread's process for user code,
    which is started when it is not there.

    Parameters
    ----------
    script
        The user's file.
    function
        One of ours, which calls :func:`run_user` and returns as that does.
    shown
        What the user's code prints goes to stderr, else nowhere. The first call of a thread
        decides.

    Raises
    ------
    NotComparable
        The user's code raised, took longer than :data:`TIMEOUT_S` or ended its process, or there
        can be none; the message names ``script``.
    """
    # Most processes that compare never come here.
    from .pool import ProcessDied

    child = getattr(_local, "child", None) or _started(script, function, shown)
    late = threading.Event()
    timer = threading.Timer(TIMEOUT_S, _end, (child, late))
    timer.start()
    try:
        good, answer = child.call((function, script, *arguments))
    except ProcessDied:
        status = _drop()
        if late.is_set():
            raise NotComparable("%s did not end within %g s" % (script, TIMEOUT_S)) from None
        raise NotComparable("%s ended its process (%s)" % (script, _how(status))) from None
    except BaseException:
        # Half an answer may still be on its way.
        _drop()
        raise
    finally:
        timer.cancel()
        timer.join()
    if late.is_set():
        _drop()
    if not good:
        raise NotComparable("%s failed: %s" % (script, answer))
    return answer


def _started(script: str, function: Callable[..., Answer], shown: bool) -> Child:
    """Start this thread's process for user code; where it ends while it starts, which the user's
    code has no part in, another one.
    """
    from .pool import Child, ProcessDied

    for _ in range(_STARTS):
        try:
            _local.child = child = Child()
            _pids.add(child.pid)
            # Before anything is imported that starts threads.
            child.call((run_under_guard,))
            child.call((_begin, function, shown))
            return child
        except ProcessDied:
            status = _drop()
        except OSError as error:
            stop_user_code()
            raise NotComparable(
                "%s cannot be called, its process cannot be started: %s"
                % (script, error.strerror or error)
            ) from None
        except BaseException:
            stop_user_code()
            raise
    raise NotComparable(
        "%s was not called, its process ended %d times while it started (%s)"
        % (script, _STARTS, _how(status))
    )


def user_code_pids() -> List[int]:
    """Return the processes for user code that this one has started."""
    return sorted(_pids)


def _how(status: int) -> str:
    """Return how a process ended, from its exit status."""
    return "signal %d" % -status if status < 0 else "exit code %d" % status


def stop_user_code() -> None:
    """End this thread's process for user code, if there is one."""
    if getattr(_local, "child", None) is not None:
        _drop()


def _drop() -> int:
    """End the process and all that it started, as :func:`run_under_guard` tells; return its
    exit status, negative for a signal.
    """
    child, _local.child = _local.child, None
    _end(child, threading.Event())
    status = int(child.close())
    _pids.discard(child.pid)
    return status


def _end(child: Child, late: threading.Event) -> None:
    late.set()
    child.stop()
    child.wait(time.monotonic() + _GRACE_S)


def _begin(_: Callable[..., Answer], shown: bool) -> None:
    """Be called first in the process, with what is needed imported: what the user's code prints
    goes to stderr, or nowhere.
    """
    if shown:
        os.dup2(2, 1)
        return
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    os.close(null)


def run_user(
    script: str, name: str, *arguments: Any, taken: Callable[[Any], Any] = lambda answer: answer
) -> Answer:
    """Call a function of a user's file, in the process for it.

    Parameters
    ----------
    taken
        Makes of what it returned what is told: objects of the user's, whose own functions may raise
        too.

    Returns
    -------
    True and what ``taken`` made of what it returned, or False and what went wrong, in one line.
    """
    try:
        return True, taken(getattr(_module(script, os.stat(script).st_mtime_ns), name)(*arguments))
    except (
        BaseException
    ) as error:  # Also SystemExit: the user's code must not end the process quietly.
        return False, _error_text(error, script)
    finally:
        for stream in (sys.stdout, sys.stderr):
            # The user may have closed or replaced them, and the process may be ended before it
            # flushes them itself.
            with contextlib.suppress(Exception):
                stream.flush()


class _Loader(SourceFileLoader):
    """Compiles the file at each import: Python's cached bytecode is that of an earlier file where
    both are of one second and of one size.
    """

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


@lru_cache(maxsize=None)
def _module(script: str, changed_ns: int) -> Any:
    """Import a file, again when it has changed; modules it imports may be in its folder or the
    folder above.
    """
    folder = os.path.dirname(os.path.abspath(script))
    for place in (folder, os.path.dirname(folder)):
        if place not in sys.path:
            sys.path.append(place)
    name = "user_" + os.path.splitext(os.path.basename(script))[0]
    spec = importlib.util.spec_from_file_location(name, script, loader=_Loader(name, script))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _error_text(error: BaseException, script: str) -> str:
    """Return an error in one line, with the line of the user's file that it came from."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == script
    ]
    where = " (line %s)" % lines[-1] if lines else ""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return "%s%s%s" % (type(error).__name__, ": " + text[:_MOST_LETTERS] if text else "", where)
