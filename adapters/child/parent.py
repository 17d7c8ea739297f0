"""The parent's side: starts a child Python in a group of its own, reads its messages, passes Ctrl-C
on, and waits for its end in every case.

A signal to this process is only noted (:class:`~.signals.NotedSignals`) and acted upon here, so
that no exception can come between the child's birth and the moment when somebody waits for it. The
child's group gets SIGINT once; when it has not ended ``INTERRUPT_S`` later, SIGTERM, and soon after
SIGKILL; a second Ctrl-C kills at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import field
from typing import Any, Callable, Dict, List, Sequence

from ...base.atomic_writing import create_new
from ...base.errors import EnvironmentProblem
from ...base.fast_dataclasses import dataclass
from ...base.safe_reading import open_input
from ..child_python import child_environment
from ..golden_folder import sweep
from .outcome import Outcome
from .signals import NotedSignals, deaf

# Where the child's output goes: to a log, to our own stdout and stderr, or all of it to our
# stderr.
LOG, OURS, STDERR = "log", "ours", "stderr"
INTERRUPT_S = 20.0
TERMINATE_S = 5.0

_TICK_S = 0.1
_ENDING_S = 0.001
_LOG_BYTES = 20000
_READ_BYTES = 65536
_CODE = (
    "import sys; sys.path[:] = [%r] + [p for p in sys.path if p]; from "
    "goldwatch.adapters.child.serve import main; main(%r, %d)"
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Task:
    """The task of a child.

    Attributes
    ----------
    python
        The interpreter.
    module
        Its function ``work(job, parent)`` does the work; see :mod:`.serve`.
    job
        Anything that JSON can hold.
    outs
        Golden folders that the child writes: incomplete files of a child that died are removed
        there.
    options
        Of the interpreter.
    environment
        Further environment variables.
    output
        ``LOG`` (and no standard input), ``OURS`` or ``STDERR``.
    """

    python: str
    module: str
    job: Dict[str, Any]
    outs: Sequence[str] = ()
    options: Sequence[str] = ()
    environment: Dict[str, str] = field(default_factory=dict)
    output: str = LOG


def run_child(task: Task, folder: str, progress: Progress = lambda done, total: None) -> Outcome:
    """Run one child to its end.

    Parameters
    ----------
    folder
        An existing folder for the task's file and the log.
    progress
        Called with the child's last ``progress`` message, a few times a second even when nothing
        new came, so that a bar can appear.

    Raises
    ------
    EnvironmentProblem
        The interpreter cannot be started.
    SystemExit
        SIGTERM or SIGHUP came; the child is ended first.
    """
    path, log = os.path.join(folder, "task.json"), os.path.join(folder, "log.txt")
    with os.fdopen(create_new(path), "w", encoding="utf-8") as stream:
        stream.write(json.dumps({"module": task.module, "job": task.job}))
    with NotedSignals() as signals, child_environment(task.environment) as environment:
        child = _Child(task, path, log, environment)
        try:
            child.listen(signals, progress)
        finally:
            returncode = child.end()
            for out in task.outs:
                sweep(out, child.pid)
    if signals.received and signals.received[0] != signal.SIGINT:
        signals.pass_on()
    return Outcome(returncode, child.messages, bool(signals.received), _tail(log))


class _Child:
    def __init__(self, task: Task, path: str, log: str, environment: Dict[str, str]) -> None:
        self.messages: Dict[str, Any] = {}
        self._rest = b""
        self._sent_signals: List[int] = []
        self._next_s = 0.0
        self._signals_handled = 0
        sys.stdout.flush()
        self._reading, writing = os.pipe()
        try:
            with os.fdopen(create_new(log), "wb") as output, deaf():
                package = environment["PYTHONPATH"].split(os.pathsep)[0]
                self._process = subprocess.Popen(
                    [task.python] + list(task.options) + ["-c", _CODE % (package, path, writing)],
                    env=environment,
                    stdin=subprocess.DEVNULL if task.output == LOG else None,
                    stdout=output.fileno()
                    if task.output == LOG
                    else 2
                    if task.output == STDERR
                    else None,
                    stderr=output.fileno() if task.output == LOG else None,
                    pass_fds=(writing,),
                    # A group of its own: Ctrl-C in the terminal comes to this process alone, and
                    # the whole group can be ended.
                    start_new_session=True,
                )
        except OSError as error:
            os.close(self._reading)
            raise EnvironmentProblem(
                "%s cannot be started: %s" % (task.python, error.strerror)
            ) from error
        finally:
            os.close(writing)
        self.pid = self._process.pid

    def listen(self, signals: NotedSignals, progress: Progress) -> None:
        """Read messages until the child has ended; programs that it left running may hold the pipe
        open longer.
        """
        open_ = True
        while True:
            # A child that has ended has written everything: one more reading gets it all.
            ended = self._ended()
            while open_ and select.select([self._reading], [], [], 0 if ended else _TICK_S)[0]:
                data = os.read(self._reading, _READ_BYTES)
                open_ = bool(data)
                self._take(data)
                if not ended:
                    break
            if ended:
                return
            if not open_:
                # The pipe is closed by the end of the child.
                time.sleep(_ENDING_S)
            self._pass_on(signals)
            if "progress" in self.messages and not signals.received:
                progress(*self.messages["progress"])

    def _ended(self) -> bool:
        # Not yet reaped, so that its number still names its group.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line.decode("ascii"))
            if "saved" in message:
                self.messages.setdefault("saved", []).append(message.pop("saved"))
            self.messages.update(message)

    def _pass_on(self, signals: NotedSignals) -> None:
        """Pass a noted signal on once, and insist later; a second one kills."""
        count, now_s = len(signals.received), time.monotonic()
        if count == 0 or signal.SIGKILL in self._sent_signals:
            return
        if not self._sent_signals:
            self._send(signal.SIGINT, now_s + INTERRUPT_S)
        elif count > self._signals_handled:
            self._send(signal.SIGKILL, now_s)
        elif now_s > self._next_s:
            self._send(
                signal.SIGKILL if signal.SIGTERM in self._sent_signals else signal.SIGTERM,
                now_s + TERMINATE_S,
            )
        self._signals_handled = count

    def _send(self, number: int, next_s: float) -> None:
        self._sent_signals.append(number)
        self._next_s = next_s
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self) -> int:
        """Return the exit code; a child that is still running (an error of ours) or was interrupted
        is killed with its whole group.
        """
        if self._sent_signals or not self._ended():
            self._send(signal.SIGKILL, 0.0)
        os.close(self._reading)
        return self._process.wait()


def _tail(path: str) -> str:
    with open_input(path) as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - _LOG_BYTES))
        return stream.read().decode("utf-8", "replace")
