"""Signals while a child lives: noted, not raised, so that none unwinds this process between the
child's birth and its end.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from types import TracebackType
from typing import Any, Dict, Iterator, List, Optional, Type

from ...base.errors import Interrupted

# SIGINT first: once it is noted, nothing interrupts the installation of the others.
HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Block SIGINT for processes started inside, until :func:`hear`: a Python that is still
    starting would answer it with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear() -> None:
    """Undo :func:`deaf`; a SIGINT that came meanwhile raises KeyboardInterrupt now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


class NotedSignals:
    """Notes SIGINT, SIGTERM and SIGHUP in :attr:`received` while it is entered; those that are
    ignored stay ignored.

    Only the main thread can ask for that, and only the main thread is ever interrupted: elsewhere
    nothing changes.
    """

    def __init__(self) -> None:
        self.received: List[int] = []
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> NotedSignals:
        if threading.current_thread() is threading.main_thread():
            for number in HEEDED:
                before = signal.getsignal(number)
                if before not in (None, signal.SIG_IGN):
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, _: Any) -> None:
        self.received.append(number)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        for number in reversed(HEEDED):
            if number in self._before:
                signal.signal(number, self._before[number])

    def pass_on(self) -> None:
        """Do what the first noted signal would have done: raise Interrupted for SIGINT, leave for
        the others (or call their handler).
        """
        if not self.received:
            return
        number = self.received[0]
        if number == signal.SIGINT:
            raise Interrupted("interrupted")
        handler = self._before[number]
        if callable(handler):
            handler(number, None)
        sys.exit(128 + number)
