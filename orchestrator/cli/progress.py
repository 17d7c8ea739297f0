"""Progress on stderr: one live line on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Optional, Type

from .printing import columns_of, is_terminal, say, say_note, show_status

_EVERY_S, _EVERY_S_ELSEWHERE = 0.1, 10.0
_WIDTH, _LEAST_WIDTH = 30, 5
_COLUMNS = 80


class Pace:
    """Decides when progress is shown.

    Parameters
    ----------
    quiet
        Never show it.

    Attributes
    ----------
    terminal
        Whether stderr is a terminal, whose last line can be replaced.
    """

    def __init__(self, quiet: bool) -> None:
        self.terminal = is_terminal(sys.stderr)
        self._quiet = quiet
        self._every_s = _EVERY_S if self.terminal else _EVERY_S_ELSEWHERE
        # Work of less than ten seconds need not be logged.
        self._next_at = time.monotonic() + (0.0 if self.terminal else self._every_s)

    def is_due(self, at_once: bool = False) -> bool:
        """Tell whether to show something now, and count it as shown; ``at_once``: on a terminal in
        any case.
        """
        now = time.monotonic()
        if self._quiet or (now < self._next_at and not (at_once and self.terminal)):
            return False
        self._next_at = now + self._every_s
        return True


class ProgressBar:
    """Shows progress; on a terminal the line disappears when the work ends.

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
        self._pace = Pace(quiet)
        self._has_line = False

    def update(self, done: int, total: int, at_once: bool = False) -> None:
        """Show that ``done`` of ``total`` steps are done; a total of 0 is an unknown one."""
        if not self._pace.is_due(at_once):
            return
        if self._pace.terminal:
            show_status(bar_text(self.what, done, total))
            self._has_line = True
        else:
            say(counts_text(self.what, done, total))

    def show(self, what: str, done: int, total: int) -> None:
        """Show the progress of one of several works; a change of the work is shown at once."""
        is_other = what != self.what
        self.what = what
        self.update(done, total, at_once=is_other)

    def say(self, note: str) -> None:
        """Print a note or warning now, above the line."""
        self.clear()
        say_note(note, self._quiet)

    def clear(self) -> None:
        """Remove the line."""
        if self._has_line:
            show_status("")
            self._has_line = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.clear()


def counts_text(what: str, done: int, total: int) -> str:
    """Return the line that a log gets."""
    if total:
        return "%s: %d of %d (%d %%)" % (what, done, total, 100 * done // total)
    return "%s: %d so far" % (what, done) if done else what + " ..."


def bar_text(what: str, done: int, total: int) -> str:
    """Return the line that a terminal gets, as wide as the terminal of stderr."""
    if not total:
        return counts_text(what, done, total)
    counts = "%d/%d" % (done, total)
    room = (columns_of(sys.stderr) or _COLUMNS) - len("%s [] %d/%d " % (what, total, total))
    if room < _LEAST_WIDTH:
        return "%s %s" % (counts, what)
    width = min(_WIDTH, room)
    filled = width * done // total
    return "%s [%s%s] %s" % (what, "#" * filled, "." * (width - filled), counts)
