"""A progress line on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Optional, Type

from .common import columns_of, is_terminal, say_note, show_status

_EVERY_S = 0.1
_WIDTH, _LEAST_WIDTH = 30, 5
_COLUMNS = 80


class ProgressBar:
    """One line on stderr, on a terminal only; gone when the work ends.

    Parameters
    ----------
    what
        The work, as one word.
    quiet
        Never show it.
    """

    def __init__(self, what: str, quiet: bool = False) -> None:
        self.what = what
        self._quiet = quiet
        self.enabled = not quiet and is_terminal(sys.stderr)
        self._shown_at = 0.0

    def update(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` steps are done; that work goes on where the total is not
        known, 0.
        """
        now = time.monotonic()
        if not self.enabled or now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        show_status(bar_text(self.what, done, total))

    def show(self, what: str, done: int, total: int) -> None:
        """Show how far one of several works is; another one than before at once."""
        if what != self.what:
            self.what, self._shown_at = what, 0.0
        self.update(done, total)

    def say(self, note: str) -> None:
        """Print a note or warning now, above the line."""
        if self._shown_at:
            show_status("")
            self._shown_at = 0.0
        say_note(note, self._quiet)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._shown_at:
            show_status("")


def bar_text(what: str, done: int, total: int) -> str:
    """Return the line of a work of which so many of all steps are done, as wide as stderr's
    terminal takes.
    """
    if not total:
        return what + " ..."
    counts = "%d/%d" % (done, total)
    room = (columns_of(sys.stderr) or _COLUMNS) - len("%s [] %d/%d " % (what, total, total))
    if room < _LEAST_WIDTH:
        return "%s %s" % (counts, what)
    width = min(_WIDTH, room)
    filled = width * done // total
    return "%s [%s%s] %s" % (what, "#" * filled, "." * (width - filled), counts)
