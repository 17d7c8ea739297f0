"""How a child process ended, and the error that follows for the user: its own error, its exception,
its crash, or the last lines of its log.
"""

from __future__ import annotations

import logging
import re
import signal
from typing import Any, Dict, List, Optional

from ...base import errors
from ...base.errors import EnvironmentProblem, GoldwatchError, InputError
from ...base.fast_dataclasses import dataclass
from ...base.interrupts import signal_name
from ...base.naming import printable

# glog's fatal lines: F, month and day, the time (glog/logging.cc); a Python traceback's lines begin
# with "  File".
_FATAL = re.compile(r"F\d{4}(?:\d{4})? \d\d:\d\d:\d\d")
# What protobuf says of a prototxt: line, column and field; glog's fatal line that follows does not.
_PARSE = "[libprotobuf ERROR"
_log = logging.getLogger(__name__)
_TRACEBACK = "Traceback (most recent call last):"
_LOG_LINES = 5
_FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+), in (?P<function>.+)')


@dataclass(frozen=True)
class Outcome:
    """How a child ended.

    Attributes
    ----------
    returncode
        Its exit code, negative for a signal.
    messages
        The last of each of its messages by kind, of ``saved`` a list of all; ``error`` and
        ``exception`` come from :mod:`.serve`, the others are the framework's own.
    interrupted
        Whether it was ended because this process was interrupted.
    log
        The end of what it wrote to stdout and stderr, where that was kept.
    """

    returncode: int
    messages: Dict[str, Any]
    interrupted: bool = False
    log: str = ""

    @property
    def died(self) -> bool:
        """Whether a signal ended it: nothing it reported is certain then."""
        return self.returncode < 0

    @property
    def own_error(self) -> Optional[GoldwatchError]:
        """The error that goldwatch's own part raised in the child, or None."""
        document = self.messages.get("error")
        if document is None:
            return None
        kind = getattr(errors, str(document["class"]), InputError)
        if kind not in (errors.UsageError, errors.EnvironmentProblem, errors.MissingPath):
            kind = InputError
        error: GoldwatchError = kind(document["message"], document["hint"])
        return error

    def problem(self, what: str, hint: str) -> GoldwatchError:
        """Return the error to raise when the child ended without a result.

        Parameters
        ----------
        what
            What ran in the child, such as ``caffe``.
        hint
            What to do, where the child's own message does not say it.
        """
        own_error = self.own_error
        if own_error is not None:
            return own_error
        raised = self.messages.get("exception")
        cause = log_cause(self.log)
        if raised is not None:
            _log.info("%s", raised["trace"])
            # C++ may have made it out of another exception, which Python printed then; a
            # SystemError only tells that it did.
            parts = (
                cause
                if cause and raised["text"].startswith("SystemError")
                else [raised["text"] + raised["where"]] + cause
            )
            return InputError("%s raised %s" % (what, printable(" / ".join(parts))), hint)
        last = [line.strip() for line in self.log.splitlines() if line.strip()][-_LOG_LINES:]
        last_words = printable(" / ".join(cause or last)) or "it said nothing"
        message = "%s ended (%s): %s" % (what, self.how, last_words)
        if self.returncode == -signal.SIGKILL:
            return EnvironmentProblem(
                message,
                "often the system kills for want of memory: free some, or use a smaller batch",
            )
        return InputError(message, hint)

    @property
    def how(self) -> str:
        """``exit code 3`` or ``killed by SIGSEGV``."""
        return (
            "killed by %s" % signal_name(-self.returncode)
            if self.died
            else "exit code %d" % self.returncode
        )


def log_cause(log: str) -> List[str]:
    """Return the lines of a log that tell why its process ended: glog's fatal ones, or the end of
    the last Python traceback.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    fatal = [
        line for line in lines if _FATAL.match(line) or "Check failed:" in line or _PARSE in line
    ]
    if fatal:
        return fatal[:_LOG_LINES]
    starts = [number for number, line in enumerate(lines) if line.strip() == _TRACEBACK]
    if starts:
        rest = lines[starts[-1] + 1 :]
        end = next((number for number, line in enumerate(rest) if not line.startswith(" ")), None)
        if end is not None:
            place = [_FRAME.match(line) for line in rest[:end]]
            last = next((match for match in reversed(place) if match is not None), None)
            where = (
                " (%s, line %s, in %s)"
                % (last.group("path"), last.group("line"), last.group("function"))
                if last
                else ""
            )
            return [rest[end].strip() + where]
    return []
