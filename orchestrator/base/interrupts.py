"""Ctrl-C that is never lost."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

from .errors import EXIT_INTERRUPTED

_AGAIN_S = 0.01
_raised: List[int] = []
_terminated: List[int] = []
_over = False

_DROPPING = (
    *(("__del__", ""), ("remove", "weakref"), ("_remove", "_weakrefset"), ("__call__", "weakref")),
    *(("cb", "importlib"), ("remove", "importlib"), ("_lock_unlock_module", "importlib")),
    ("register", "abc"),
)
"""Functions, with a part of their file's name, that are called at the end of an object's life, or
where C code imports a module again.

What is raised in importlib's last one while an extension module asks for numpy, numpy's
``import_array`` prints with a traceback. Cython registers its generators with collections.abc
where an extension module is imported (seen with numpy 1.21 on Python 3.7), and drops what is raised
there.
"""


def handle_interrupts() -> None:
    """Raise KeyboardInterrupt at SIGINT, as Python does, but never where Python would drop it.

    What is raised at the end of an object's life (``__del__``, a weak reference's callback) is
    printed as "Exception ignored in" and forgotten. The import system ends each module's lock so
    (``_get_module_lock.<locals>.cb`` of importlib/_bootstrap.py, from 3.12 on also
    ``KeyedRef.remove``), thousands of times, so one Ctrl-C in a hundred at the start of a program
    was lost. There the signal is sent again a moment later.
    A handler installed by other code stays.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _interrupt)


def exit_code_of(work: Callable[[], Any]) -> Any:
    """Call what a program does, and return its exit code; no Ctrl-C after its end can print a
    traceback or change the code.

    For the main thread of a program that ends with the code. What ``work`` returns is the code, or
    what it calls :func:`sys.exit` with, or 130 where KeyboardInterrupt leaves it. The moment of the
    end is one assignment, which the handler of :func:`handle_interrupts` looks at first; an
    interrupt before it, but behind the work, is caught and the assignment done again. While Python
    itself ends, Ctrl-C is ignored; but it ends the process where the work was interrupted, and
    where Python must wait for threads that go on.
    """
    global _over
    codes: List[Any] = []
    while True:
        try:
            if not codes:
                codes.append(_code_of(work))
            _over = True
            break
        except KeyboardInterrupt:
            codes.append(EXIT_INTERRUPTED)
    code = codes[0]
    if signal.getsignal(signal.SIGINT) is _interrupt:
        main = threading.main_thread()
        goes_on = code == EXIT_INTERRUPTED or any(
            not thread.daemon for thread in threading.enumerate() if thread is not main
        )
        with interrupts_blocked():
            signal.signal(signal.SIGINT, signal.SIG_DFL if goes_on else signal.SIG_IGN)
    # Python ends `python -m` by SIGINT, whatever the code, where KeyboardInterrupt left the last
    # text executed, such as a dataclass's.
    exec("")
    return code


def _code_of(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except SystemExit as error:
        return error.code


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT until the end of a block; threads and processes started in it never get one. For
    the main thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer a Ctrl-C in a block until after it, with any number of threads. For short blocks that
    close something.

    Has no effect outside the main thread, where Python raises none.
    """
    # The module of C: Python's own makes an exception for each handler, and with it cycles that
    # hold what is on the stack.
    before = _signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: List[int] = []
    _signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        _signal.signal(signal.SIGINT, before)
        # No name for the frame: it would hold itself, and all that is on the stack, till the next
        # collection.
        if came and not postpone_signal(signal.SIGINT, sys._getframe()):
            before(signal.SIGINT, sys._getframe())


def handle_termination() -> None:
    """Raise SystemExit at SIGTERM, but never where Python would drop it (see
    :func:`handle_interrupts`)."""
    signal.signal(signal.SIGTERM, _terminate)


@contextlib.contextmanager
def terminations_interrupt() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt in a block, as Ctrl-C does: what the block is
    at ends in order, and says so. Has no effect outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = (signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, _interrupt)) for number in ending]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


class InterruptState(NamedTuple):
    """The exception that is being handled, and how many interrupts have been raised so far."""

    handled: Optional[BaseException] = None
    interrupts: int = 0


_START = InterruptState()


def interrupt_state() -> InterruptState:
    """Return the state before which :func:`caused_by_interrupt` ignores interrupts: the caller may
    be in an ``except KeyboardInterrupt`` block.
    """
    return InterruptState(sys.exc_info()[1], len(_raised))


def caused_by_interrupt(error: Optional[BaseException], entered: InterruptState = _START) -> bool:
    """Return whether an error is a KeyboardInterrupt or was caused by one, or whether one was
    raised before.

    Extension modules make an ImportError without a cause of one that comes while they import numpy.
    What was raised before ``entered`` has nothing to do with it.
    """
    if len(_raised) > entered.interrupts and error is not None:
        return True
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
        if error is entered.handled:
            return False
    return error is not None


def _interrupt(number: int, frame: Optional[FrameType]) -> None:
    if _over:
        return
    if not postpone_signal(number, frame):
        _raised.append(number)
        raise KeyboardInterrupt


def _terminate(number: int, frame: Optional[FrameType]) -> None:
    if not postpone_signal(number, frame):
        _terminated.append(number)
        raise SystemExit(128 + number)


def terminated() -> bool:
    """Return whether SystemExit was raised at SIGTERM, even if an extension module turned it into
    an ImportError.
    """
    return bool(_terminated)


def postpone_signal(number: int, frame: Optional[FrameType]) -> bool:
    """Send a signal again a moment later if Python would drop an exception raised now; returns
    whether that is so.
    """
    dropped = False
    while frame is not None and not dropped:
        code, frame = frame.f_code, frame.f_back
        dropped = any(code.co_name == name and part in code.co_filename for name, part in _DROPPING)
    if dropped:
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    return dropped


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number
