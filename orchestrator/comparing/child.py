"""One process that computes for us: a fresh Python, so that it holds nothing of ours and no fork happens beside threads.

It is no process of :mod:`multiprocessing`, which would run the user's ``__main__`` once more.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from typing import Any, Tuple

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3])\n"
    "from goldwatch.comparing.child import serve\nserve(int(sys.argv[1]), int(sys.argv[2]))"
)


class ProcessDied(Exception):
    """The process ended in the middle of a call."""


class Child:
    """A process that is starting; :meth:`call` waits until it has started.

    The thread that makes it must live as long as it is used: the kernel ends it with that thread.
    """

    def __init__(self) -> None:
        self._connection, other = Pipe()
        words = [sys.executable, "-c", _CODE, str(other.fileno()), str(os.getpid()), json.dumps(sys.path)]
        # A session of its own: Ctrl-C in the terminal comes to us alone.
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()], start_new_session=True)
        other.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def call(self, function: Tuple[Any, ...]) -> Any:
        """Return what ``function[0](*function[1:])`` returns there, or raise what it raises; ProcessDied when the process ends."""
        try:
            self._connection.send(function)
            good, result = self._connection.recv()
        except (EOFError, OSError) as error:
            raise ProcessDied("process %d ended" % self.pid) from error
        if not good:
            raise result
        return result

    def kill(self) -> None:
        """End it now; may be called by any thread."""
        self._process.kill()

    def close(self) -> None:
        """End it and take its exit status."""
        self._process.kill()
        self._process.wait()
        self._connection.close()


def serve(descriptor: int, parent: int) -> None:
    """Answer calls until the other side has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    _keep_freed_memory()
    connection = Connection(descriptor)
    while True:
        try:
            function, *arguments = connection.recv()
            answer = True, function(*arguments)
        except EOFError:
            return
        except Exception as error:
            answer = False, error
        try:
            connection.send(answer)
        except (OSError, EOFError):
            return
        except Exception as error:
            connection.send((False, RuntimeError("%s: %s" % (type(error).__name__, error))))


def _keep_freed_memory() -> None:
    """Let glibc keep a freed window for the next tensor: fresh memory costs a page fault for every 4 KiB, as much as the reading."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        mallopt(_M_TRIM_THRESHOLD, 64 * 1024 * 1024)
