"""The child's side: does one task, reports to the parent by JSON lines on a pipe, and loses no
exception.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict

from ...base.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EnvironmentProblem, GoldwatchError
from ...base.interrupts import caused_by_interrupt, exit_code_of, handle_interrupts
from ...base.safe_reading import open_input
from .signals import hear

PROGRESS_INTERVAL_S = 0.1
RAISED = 70


class Parent:
    """The pipe to the parent; each message is ``{kind: content}``; of each kind the last one
    counts, of ``saved`` (a file) all.

    Parameters
    ----------
    descriptor
        The pipe's writing end. Programs that the child starts do not inherit it.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._last_s = 0.0

    def send(self, **messages: Any) -> None:
        """Send messages.

        Raises
        ------
        BrokenPipeError
            The parent is gone.
        """
        data = (json.dumps(messages) + "\n").encode("ascii")
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]

    def progress(self, done: int, total: int) -> None:
        """Send the progress, a few times a second at most."""
        now_s = time.monotonic()
        if done == total or now_s - self._last_s > PROGRESS_INTERVAL_S:
            self._last_s = now_s
            self.send(progress=[done, total])

    def send_error(self, error: GoldwatchError) -> None:
        """Send an error of goldwatch's own."""
        self.send(
            error={"class": type(error).__name__, "message": error.message, "hint": error.hint}
        )


def main(task_path: str, descriptor: int) -> None:
    """Do the task in ``task_path`` (JSON, as :func:`.parent.run_child` writes it) and exit."""
    handle_interrupts()
    parent = Parent(descriptor)
    with open_input(task_path) as stream:
        task: Dict[str, Any] = json.loads(stream.read().decode("utf-8"))
    sys.exit(exit_code_of(lambda: served(parent, lambda: _work(task, parent))))


def _work(task: Dict[str, Any], parent: Parent) -> Any:
    hear()
    try:
        module = importlib.import_module(task["module"])
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        hint = (
            "install numpy and the framework for it, or name the Python that has them with "
            "`python=PATH`"
        )
        raise EnvironmentProblem("%s cannot import numpy" % sys.executable, hint=hint) from error
    return module.work(task["job"], parent)


def served(parent: Parent, work: Callable[[], Any]) -> int:
    """Do the work and return the exit code; an exception is sent to the parent. SystemExit
    passes.
    """
    try:
        code = work()
    except GoldwatchError as error:
        parent.send_error(error)
        return error.exit_code
    except BrokenPipeError:
        # The parent is gone: stop.
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if caused_by_interrupt(error):
            return EXIT_INTERRUPTED
        if isinstance(error, OSError):
            parent.send(error=_os_error(error))
            return EXIT_BAD_INPUT
        parent.send(
            exception={
                "text": _text_of(error),
                "where": _where(error),
                "trace": traceback.format_exc(),
            }
        )
        return RAISED
    return int(code or 0)


def _os_error(error: OSError) -> Dict[str, Any]:
    where = "%s: " % os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    full = (
        "free some space, or choose another folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else None
    )
    return {
        "class": "EnvironmentProblem",
        "message": where + (error.strerror or str(error)),
        "hint": full,
    }


def _text_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        # Python's own form of it begins with the file; str() ends with file and line.
        return " ".join(("%s: %s" % (type(error).__name__, error)).split())
    return " ".join("".join(traceback.format_exception_only(type(error), error)).split())


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, SyntaxError):
        return ""
    last = frames[-1]
    return " (%s, line %d, in %s)" % (last.filename, last.lineno or 0, last.name)
