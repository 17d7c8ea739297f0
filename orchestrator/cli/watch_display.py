"""What a watch shows while it runs: failing rows and its progress, like :mod:`.progress`."""

from __future__ import annotations

import contextlib
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Optional, Type

from ..base.naming import printable
from ..base.shortening import cut, shorten, shorten_within, width_of
from ..metrics.row import FAIL, Row
from ..run.watch_progress import WatchProgress
from .printing import columns_of, is_warning, marked, say, say_now, show_status
from .progress import Pace, bar_text, counts_text

if TYPE_CHECKING:
    from ..run.watch import Turn

_LEAST_NAME, _LEAST_BESIDE_OPS, _FEWEST_LETTERS = 24, 14, 6
_LOG_COLUMNS = 200
_MOST_FAILURES = 20
"""Failing rows that are told one by one on a terminal; the live line counts all."""
FINAL_ROWS_ONLY = "final rows only"
"""The context's object where another command runs this one, whose last lines tell what is wrong."""


class LiveDisplay:
    """Shows failing rows and the progress of a watch on stderr.

    Parameters
    ----------
    quiet
        Say nothing but warnings.
    final_rows_only
        Count failing rows that are provisional in the live line alone.
    """

    def __init__(self, quiet: bool, final_rows_only: bool = False) -> None:
        self.quiet = quiet
        self._final_rows_only = final_rows_only
        self._pace = Pace(quiet)
        self.terminal = self._pace.terminal
        self._line = False
        # Of a program whose output shows on the same terminal.
        self._unfinished = False
        # Re-entrant: what prints removes the live line first.
        self._lock = threading.RLock()
        self._last = (0.0, 0)
        self._rate = 0.0
        self._failures = 0
        self._logged = ""

    def __enter__(self) -> LiveDisplay:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the live line."""
        with self._lock:
            if self._line:
                show_status("")
                self._line = False

    @contextlib.contextmanager
    def beside(self, data: bytes) -> Iterator[None]:
        """Write a program's output to the terminal with the live line removed; it is shown again
        after a finished line only.
        """
        with self._lock:
            self.clear()
            yield
            self._unfinished = self.terminal and not data.endswith(b"\n")

    def say(self, text: str) -> None:
        """Print one sentence; with ``quiet`` only a warning."""
        if self.quiet and not is_warning(text):
            return
        with self._lock:
            self.clear()
            if self._unfinished:
                self._unfinished = False
                say("")
            say(marked(text))

    def show_turn(self, turn: Turn) -> None:
        """Show the result of one turn of a watch."""
        for row, final in turn.rows:
            self.on_row(row, final)
        if turn.progress is not None:
            self.on_progress(turn.progress)

    def on_row(self, row: Row, final: bool = True) -> None:
        """Print a failing row; on a terminal the first ones.

        Parameters
        ----------
        final
            Nothing that comes later can change it.
        """
        if row.verdict != FAIL or (self._final_rows_only and not final):
            return
        self._failures += 1
        if not self.terminal or self._failures <= _MOST_FAILURES:
            self.say(
                shorten_within(
                    printable(
                        "FAIL %s%s%s: %s"
                        % (row.tensor, _where(row), "" if final else " (provisional)", row.reason)
                    )
                )
            )
        elif self._failures == _MOST_FAILURES + 1:
            self.say("further failing rows are counted below; the table at the end has them")

    def on_progress(self, progress: WatchProgress) -> None:
        """Show the progress of a watch."""
        if not self._pace.is_due(at_once=True):
            return
        seconds, done = self._last
        if progress.seconds - seconds > 1.0:
            self._rate = (progress.bytes_done - done) / (progress.seconds - seconds) / 1e6
            self._last = (progress.seconds, progress.bytes_done)
        columns = columns_of(sys.stderr)
        width = _LOG_COLUMNS if columns is None else columns - 1
        self._show(progress_text(progress, self._rate, width))

    def on_stage(self, stage: str, done: int, total: int) -> None:
        """Show the progress of the work after the last comparison."""
        if self._pace.is_due(at_once=not done):
            self._show((bar_text if self.terminal else counts_text)(stage, done, total))

    def show(self, text: str) -> None:
        """Show any other progress, as ``text`` says it."""
        if self._pace.is_due(at_once=True):
            self._show(text)

    def _show(self, text: str) -> None:
        if not self.terminal:
            # Do not fill a log while nothing happens.
            if text != self._logged:
                self.say(text)
                self._logged = text
            return
        with self._lock:
            if not self._unfinished:
                show_status(text)
                self._line = True


def stop(work: Any, name: str) -> None:
    """Stop a watch or a merge at a signal, and say at once what will happen."""
    work.stop(name)
    say_now("%s: what has come is judged now; once more: stop at once (code 130)" % name)


def progress_text(progress: WatchProgress, megabytes_per_s: float, width: int) -> str:
    """Return the progress of a watch in at most ``width`` columns; a narrow terminal gets the most
    important parts only.
    """
    first = "" if progress.first is None else printable(progress.first.tensor)

    def room_beside(name: int) -> int:
        return width - (len("; first ") + min(name, width_of(first)) if first else 0)

    text, room = _head(progress, room_beside(_LEAST_BESIDE_OPS)), room_beside(_LEAST_NAME)
    rest = (
        "%d rows" % progress.rows, "%d waiting" % progress.waiting, "%d queued" % progress.queued,
        "%.1f MB/s" % megabytes_per_s,
    )  # fmt: skip
    for part in rest:
        if len(text) + len(", " + part) > room:
            break
        text += ", " + part
    if progress.first is not None:
        space = max(_FEWEST_LETTERS, width - len(text) - len("; first "))
        # Better a whole op name than a tensor name cut short.
        name = first if width_of(first) <= space else printable(progress.first.op)
        text += "; first " + shorten(name, space)
    return cut(text, width)


def _head(progress: WatchProgress, room: int) -> str:
    """Return how many rows failed and how many of the expected ops have arrived, in the longest
    form that fits.
    """
    if progress.ops is None:
        return _failed(progress)
    texts = [
        "%s, %d of %d ops" % (_failed(progress), *progress.ops),
        "%s, %d/%d ops" % (_failed(progress), *progress.ops),
        "%d failed, %d/%d ops" % (progress.failed, *progress.ops),
    ]
    return next((text for text in texts if len(text) <= room), _failed(progress))


def _failed(progress: WatchProgress) -> str:
    return "%d failed" % progress.failed + (
        " (%d provisional)" % progress.provisional if progress.provisional else ""
    )


def _where(row: Row) -> str:
    parts = (("host", row.host), ("device", row.device), ("step", row.step))
    known = ", ".join("%s %s" % part for part in parts if part[1] is not None)
    return " (%s)" % known if known else ""
