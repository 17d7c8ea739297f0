"""Processes that compute for us: fresh Pythons, so that they hold nothing of ours and no fork
happens beside threads.

They are no processes of :mod:`multiprocessing`, which would run the user's ``__main__`` once more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, List, Optional, Set, Tuple

from .child_loop import receive, send

# Seconds that a process has to stop.
_GRACE_S = 5.0
_SEARCH = "import sys; n = int(sys.argv[1]) + 2; sys.path[:] = sys.argv[2:n]; del sys.argv[1:n]\n"
_SERVE = "from goldwatch.base.child_loop import serve; serve(*map(int, sys.argv[1:]))"


def own_python(code: str, *arguments: str) -> List[str]:
    """Return the command that runs a line of code in another Python like this one, with these
    arguments in ``sys.argv``.

    It looks for modules where this one does, from its first import on: the current folder may hold
    anybody's ``json.py``.
    """
    # Notebooks put path objects there too, which imports pass over.
    search = [entry for entry in sys.path if isinstance(entry, str)]
    return [sys.executable, "-c", _SEARCH + code, str(len(search)), *search, *arguments]


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) or 1


class ProcessDied(Exception):
    """The process ``pid`` ended in the middle of a call."""

    def __init__(self, pid: int) -> None:
        super().__init__("process %d ended" % pid)
        self.pid = pid


class Child:
    """A process that is starting; :meth:`call` waits until it has started.

    The thread that makes it must live as long as it is used: the kernel ends it with that thread.
    """

    def __init__(self) -> None:
        calls, ours = os.pipe()
        theirs, answers = os.pipe()
        self._calls, self._answers = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")
        words = own_python(_SERVE, str(calls), str(answers), str(os.getpid()))
        try:
            # A session of its own: Ctrl-C in the terminal comes to us alone.
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, pass_fds=[calls, answers], start_new_session=True
            )
        finally:
            os.close(calls)
            os.close(answers)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def call(self, function: Tuple[Any, ...]) -> Any:
        """Return what ``function[0](*function[1:])`` returns there, or raise what it raises;
        ProcessDied when the process ends.
        """
        data = pickle.dumps(function, pickle.HIGHEST_PROTOCOL)
        try:
            send(self._calls, data)
            answer = receive(self._answers)
        except (EOFError, OSError) as error:
            raise ProcessDied(self.pid) from error
        good, result = pickle.loads(answer)
        if not good:
            raise result
        return result

    def stop(self) -> None:
        """Make it end as soon as possible, and undo what is incomplete; may be called from any
        thread.
        """
        self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Wait until it has ended, which it has to before ``deadline`` (of :func:`time.monotonic`);
        may be called by any thread.
        """
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()

    def close(self) -> int:
        """End it and return its exit status, negative for a signal."""
        self._process.kill()
        status = self._process.wait()
        self._answers.close()
        with contextlib.suppress(OSError):  # Part of a call that it did not take.
            self._calls.close()
        return status


class Processes:
    """``jobs`` processes, with a thread for each that hands it one call after the other; one that
    dies is replaced at the next call.

    Attributes
    ----------
    jobs
        Their number.
    there
        Whether one of them has answered a call.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.there = False
        self._threads: Optional[ThreadPoolExecutor] = None
        self._local = threading.local()
        self._lock = threading.Lock()
        self._children: Set[Child] = set()
        self._closed = False

    def start(self, *function: Any, most: Optional[int] = None) -> None:
        """Start them, without waiting, each with a first call of ``function[0](*function[1:])``; a
        second time does nothing.

        Parameters
        ----------
        most
            Start no more than so many; :attr:`jobs` is their number then.
        """
        if self._threads is None:
            self.jobs = min(self.jobs, most or self.jobs)
            self._threads = ThreadPoolExecutor(self.jobs, "goldwatch-process")
            for _ in range(self.jobs):
                self.submit(*function)

    def submit(self, *function: Any) -> Future[Any]:
        """Schedule a call of ``function[0](*function[1:])`` in one of the processes that
        :meth:`start` has started.

        The future raises what the call raises, and ProcessDied when its process ends.
        """
        assert self._threads is not None
        return self._threads.submit(self._call, function)

    def pids(self) -> List[int]:
        """Return the process ids."""
        with self._lock:
            return sorted(child.pid for child in self._children)

    def close(self, now: bool = False) -> None:
        """End them, and no others, when their calls are done; ``now`` has them drop what they are
        doing.
        """
        with self._lock:
            self._closed = True
            children = list(self._children)
        # Outside of the lock: a thread whose process has died takes it to forget the process.
        if now:
            for child in children:
                child.stop()
            deadline = time.monotonic() + _GRACE_S
            for child in children:
                child.wait(deadline)
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        for child in children:
            child.close()

    def _call(self, function: Tuple[Any, ...]) -> Any:
        """Call a function in this thread's process; runs in a thread."""
        child: Optional[Child] = getattr(self._local, "child", None)
        if child is None:
            with self._lock:
                if self._closed:
                    raise CancelledError
                child = self._local.child = Child()
                self._children.add(child)
        try:
            result = child.call(function)
        except ProcessDied:
            self._local.child = None
            with self._lock:
                self._children.discard(child)
            child.close()
            raise
        self.there = True
        return result
