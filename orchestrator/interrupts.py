"""Ctrl-C that is never lost."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Optional

_AGAIN_S = 0.01


def heed_interrupts() -> None:
    """Raise KeyboardInterrupt at SIGINT, as Python does, but never where Python would drop it.

    The import system ends the life of each module's lock in a weak reference's callback (``_get_module_lock.<locals>.cb`` of
    importlib/_bootstrap.py); what is raised in it is printed as "Exception ignored in" and forgotten. Imports run thousands of them, so one
    Ctrl-C in a hundred at the start of a program was lost. There the signal is sent again a moment later. A handler that somebody else has
    installed stays.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def heed_termination() -> None:
    """Raise SystemExit at SIGTERM, but never where Python would drop it, as :func:`heed_interrupts` tells."""
    signal.signal(signal.SIGTERM, _terminate)


def _interrupt(number: int, frame: Optional[FrameType]) -> None:
    if not _put_off(number, frame):
        raise KeyboardInterrupt


def _terminate(number: int, frame: Optional[FrameType]) -> None:
    if not _put_off(number, frame):
        raise SystemExit(128 + number)


def _put_off(number: int, frame: Optional[FrameType]) -> bool:
    """Have a signal sent again a moment later if what is raised now would be dropped; tell whether that is so."""
    dropped = frame is not None and frame.f_code.co_name == "cb" and "importlib" in frame.f_code.co_filename
    if dropped:
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    return dropped
