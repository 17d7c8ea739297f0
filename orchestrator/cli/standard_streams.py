"""Standard streams that may be closed or full: a failing stdout ends the command with an error, a
failing stderr is ignored.

A descriptor that is closed at the start would be given to the next file that is opened, and
messages would end up in it; so each of the three is occupied first.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any, Optional

from ..errors import EnvironmentProblem

_GONE = (errno.EPIPE, errno.EBADF, errno.EIO)


class OutputGone(EnvironmentProblem):
    """Nothing more can be printed on stdout (exit code 4)."""

    kind = "output"


class Output(io.TextIOWrapper):
    """stdout: a failing write raises :class:`OutputGone`, once; what is still buffered is
    discarded.

    Attributes
    ----------
    problem
        That error, for callers that swallowed it; None while all is well.
    """

    problem: Optional[OutputGone] = None

    def write(self, text: str) -> int:
        """Write text; raises OutputGone."""
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush; raises OutputGone."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if self.problem is not None:
            return
        why = "it was closed" if error.errno in _GONE else error.strerror or str(error)
        self.problem = OutputGone(
            "stdout: not everything could be printed: %s" % why,
            hint="files that the command writes are complete",
        )
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
        raise self.problem from error


class Messages(io.TextIOWrapper):
    """stderr: what cannot be written is lost silently."""

    def write(self, text: str) -> int:
        """Write text, if possible."""
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, if possible."""
        with contextlib.suppress(OSError):
            super().flush()


class _Closed(io.RawIOBase):
    """The raw stream of a descriptor that was closed when the command started."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def guard_streams() -> None:
    """Guard stdout and stderr of this process; streams that a test or a notebook put there are left
    alone.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() takes the lowest free descriptor: this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (it lives as long as the process)
    sys.stdout = _guarded(sys.stdout, 1, Output)
    sys.stderr = _guarded(sys.stderr, 2, Messages)


def _guarded(stream: Any, descriptor: int, kind: Any) -> Any:
    """Return the guarded stream; undecodable bytes, and characters that the locale cannot encode,
    print as escapes.
    """
    if stream is None:
        return kind(
            io.BufferedWriter(_Closed(descriptor)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
    if type(stream) is not io.TextIOWrapper:
        return stream
    encoding, lines, through = (
        stream.encoding,
        stream.line_buffering or descriptor == 2,
        getattr(stream, "write_through", False),
    )
    binary = stream.detach()
    if isinstance(binary, io.RawIOBase):
        # PYTHONUNBUFFERED, as in many containers: nobody would write what a pipe did not take at
        # once, nor see that it was closed.
        binary, lines = io.BufferedWriter(binary), True
    return kind(
        binary,
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=lines,
        write_through=through,
    )
