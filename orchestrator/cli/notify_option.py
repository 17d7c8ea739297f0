"""``--notify``: posts the first final divergence and the end of a run to a URL."""

from __future__ import annotations

import os
import secrets
from types import TracebackType
from typing import Any, Callable, Optional, Type

from ..base.errors import EXIT_INTERRUPTED, GoldwatchError
from ..base.interrupts import caused_by_interrupt
from ..base.url_notifier import DIVERGENCE, END, Notifier, check_url, notification
from ..metrics.row import Row
from ..run.divergence_hook import divergence_fields
from ..run.result import RunResult
from ..store.json_numbers import plain_tree


class Notify:
    """Posts the events of one run, or does nothing without a URL: a context manager that is left at
    the end of the run.

    Parameters
    ----------
    say
        Called with a sentence when something could not be posted.
    """

    def __init__(
        self, url: Optional[str], command: str, out: str, say: Callable[[str], None]
    ) -> None:
        if url is not None:
            check_url(url)
        self._notifier = None if url is None else Notifier(url, say)
        self._command = command
        self._out = os.path.abspath(out)
        self._name = secrets.token_hex(8)
        self._ended = False
        self._pid = os.getpid()

    @property
    def on_divergence(self) -> Optional[Callable[[Row], None]]:
        """What posts the first failing row that is final; None without a URL."""
        if self._notifier is None:
            return None
        return lambda row: self._send(DIVERGENCE, **divergence_fields(self._out, row))

    def end(self, result: RunResult, exit_code: Optional[int] = None) -> None:
        """Post the result of the run; ``exit_code`` where it is not that of the result."""
        code = result.exit_code if exit_code is None else exit_code
        text = "%s: %s: %s" % (os.path.basename(self._out), result.summary.verdict, result.sentence)
        self._send(
            END,
            text,
            verdict=result.summary.verdict,
            exit_code=code,
            summary=plain_tree(result.summary.document()),
        )
        self._ended = True

    def _send(self, event: str, text: str, **more: Any) -> None:
        if self._notifier is not None:
            self._notifier.send(
                notification(event, self._name, self._command, text, out=self._out, **more)
            )

    def __enter__(self) -> Notify:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # A process forked from this one also comes here.
        if self._notifier is None or self._pid != os.getpid():
            return
        if error is not None and not self._ended:
            interrupted = caused_by_interrupt(error) or not isinstance(error, Exception)
            code = (
                EXIT_INTERRUPTED
                if interrupted
                else error.exit_code
                if isinstance(error, GoldwatchError)
                else None
            )
            reason = "interrupted" if interrupted else str(error) or type(error).__name__
            self._send(
                END, "%s: no verdict: %s" % (os.path.basename(self._out), reason), exit_code=code
            )
        self._notifier.close()
