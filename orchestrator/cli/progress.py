"""A progress line on stderr for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Optional, Type

from .common import show_status

_SHOW_AFTER_S = 1.0
_EVERY_S = 0.1
_WIDTH = 30


class ProgressBar:
    """One line on stderr, on a terminal only and after one second only; gone when the work ends.

    Parameters
    ----------
    what
        The work, as one word.
    quiet
        Never show it.
    """

    def __init__(self, what: str, quiet: bool = False) -> None:
        self.what = what
        self.enabled = not quiet and sys.stderr.isatty()
        self._start = time.monotonic()
        self._shown_at = 0.0

    def update(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` steps are done."""
        now = time.monotonic()
        if not self.enabled or now - self._start < _SHOW_AFTER_S or now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        filled = _WIDTH * done // max(total, 1)
        show_status("%s [%s%s] %d/%d" % (self.what, "#" * filled, "." * (_WIDTH - filled), done, total))

    def show(self, what: str, done: int, total: int) -> None:
        """Show how far one of several works is."""
        self.what = what
        self.update(done, total)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._shown_at:
            show_status("")
