"""The hook at the first failing row that is final: a command runs, or a URL is notified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..judging.diagnosis.row_digest import execution_key
from ..metrics.row import FAIL, Row
from ..model.row_plan import OUTPUT
from ..reports.row_json import row_document
from ..store.store import RunStore

ROW_VARIABLE = "GOLDWATCH_ROW"
_FLAG, _TOLD = "on_divergence", "divergence_told"
# The kernel refuses longer ones (MAX_ARG_STRLEN is 128 KiB).
_LONGEST_VARIABLE = 120000
_WAIT_S = 10.0


class DivergenceHook:
    """Runs ``command`` with the first failing row, and posts it, once per OUT.

    The first is that of an output, in the order of execution, of the rows that it is told of before
    it acts; an input's, where no output fails.

    Parameters
    ----------
    command
        For the shell; None: nothing is run.
    say
        Takes sentences for the user.
    post
        Called with the row, which is committed; None: nobody is to be told of it.
    """

    def __init__(
        self,
        command: Optional[str],
        store: RunStore,
        say: Callable[[str], None],
        post: Optional[Callable[[Row], None]] = None,
    ) -> None:
        self.command = command
        self.post = post
        self.store = store
        self.say = say
        self.row: Optional[Row] = None
        self._acted = False
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._thread: Optional[threading.Thread] = None

    def see(self, row: Row) -> None:
        """Consider a row that was stored and is final."""
        if row.verdict == FAIL and not self._acted:
            self.row = row if self.row is None else min(self.row, row, key=_order)

    @property
    def acted(self) -> bool:
        """Whether the first failing row is known for good."""
        return self._acted

    def tick(self) -> None:
        """Start the command and post the row, if it is time."""
        row = self.row
        self._acted = row is not None
        if row is None or self.command is None or not self._first_time(_FLAG, row):
            self._report()
        else:
            self._start(self.command, row)
        if row is not None and self.post is not None and self._first_time(_TOLD, row):
            self.post(row)

    def _first_time(self, flag: str, row: Row) -> bool:
        """Set a flag in OUT; tell whether it was not set before."""
        if self.store.get(flag) is not None:
            return False
        self.store.set(flag, {"op": row.op, "tensor": row.tensor})
        return True

    def _start(self, command: str, row: Row) -> None:
        text = json.dumps({**row_document(row), "final": True}, ensure_ascii=True, allow_nan=False)
        environment = dict(os.environ)
        if len(text) <= _LONGEST_VARIABLE:
            environment[ROW_VARIABLE] = text
        else:
            self.say(
                "the first failing row is too long for %s: the command gets it on stdin only"
                % ROW_VARIABLE
            )
        try:
            self._process = subprocess.Popen(
                command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno(),
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self.say("the command for the first failing row could not be started: %s" % error)
            return
        self._thread = threading.Thread(
            target=_feed, args=(self._process, text.encode()), daemon=True
        )
        self._thread.start()

    def _report(self) -> None:
        process = self._process
        if process is not None and process.poll() is not None:
            self._process = None
            if process.returncode:
                what = (
                    "exit code %d" % process.returncode
                    if process.returncode > 0
                    else "signal %d" % -process.returncode
                )
                self.say(
                    "the command for the first failing row failed with %s; the verdict does "
                    "not depend on it" % what
                )

    def pids(self) -> List[int]:
        """Return the command's process id while it runs."""
        process = self._process
        return [] if process is None else [process.pid]

    def close(self) -> None:
        """Wait a while for the command."""
        if self._process is None:
            return
        try:
            self._process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            self.say(
                "the command for the first failing row is still running (pid %d)"
                % self._process.pid
            )
            self._process = None
        self._report()


def divergence_fields(out: str, row: Row) -> Dict[str, Any]:
    """Return what a notification of the first divergence of a run in OUT says of its row."""
    place = row.place.label()
    name = os.fsencode(os.path.basename(out)).decode("utf-8", "backslashreplace")
    return {
        "text": "%s: first divergence: %s%s" % (name, row.tensor, " (%s)" % place if place else ""),
        "verdict": FAIL,
        "row": {**row_document(row), "final": True},
    }


def _order(row: Row) -> Tuple[bool, Tuple[Any, ...]]:
    return row.kind != OUTPUT, execution_key(row)


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(data)
        process.stdin.close()
    except OSError:
        # A command that does not read its input is no failure.
        pass
