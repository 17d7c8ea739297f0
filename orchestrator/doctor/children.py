"""Questions to other Pythons, some at a time: whatever a package does when it is imported, it does
it there.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

_MARK = "goldwatch-doctor "
_LAST = 200
_LEAST_S = 0.1
"""So long is waited for each in any case: it may have answered already."""

SILENT = "no answer"


class Question(NamedTuple):
    """A program for a Python: it calls ``tell(value)`` with anything that JSON can hold.

    Attributes
    ----------
    python
        The interpreter's path.
    code
        The program.
    ours
        It finds the modules that we find.
    """

    python: str
    code: str
    ours: bool = False


class Answer(NamedTuple):
    """What came of a question.

    Attributes
    ----------
    value
        What was told, None when nothing was.
    problem
        Why nothing was told, in a line: how the process ended, and the last that it wrote. Empty
        when something was.
    """

    value: Any
    problem: str


def ask(
    questions: Sequence[Question], limit_s: float, each_s: Optional[float] = None, at_once: int = 4
) -> List[Answer]:
    """Return the answers in the order of the questions; no process is left behind.

    Parameters
    ----------
    limit_s
        So long all together may take, in seconds; what has not answered then is killed.
    each_s
        So long one may take; ``limit_s`` when left out.
    """
    end = time.monotonic() + limit_s
    own = limit_s if each_s is None else each_s
    started: List[Any] = []
    begun: List[float] = []
    answers: List[Answer] = []
    try:
        for number in range(len(questions)):
            while len(started) < min(len(questions), number + at_once):
                begun.append(time.monotonic())
                started.append(_started(questions[len(started)]))
            patience = min(end, begun[number] + own) - time.monotonic()
            answers.append(_answer(started[number], max(_LEAST_S, patience), own))
    finally:
        for process in started[len(answers) :]:
            if isinstance(process, subprocess.Popen):
                _kill(process)
    return answers


def _started(question: Question) -> Any:
    """Return the process, or in words why there is none."""
    # The current folder may hold a module of any name, json too.
    ours = [entry for entry in sys.path if isinstance(entry, str)]
    search = "%r" % ours if question.ours else "[entry for entry in sys.path if entry]"
    head = (
        "import sys; sys.path[:] = %s\nimport json\ndef tell(value): print(%r + "
        "json.dumps(value))\n" % (search, "\n" + _MARK)
    )
    try:
        return subprocess.Popen(
            [question.python, "-c", head + question.code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(),
        )
    except (OSError, ValueError) as error:
        return str(error)


def _environment() -> Dict[str, str]:
    """Return our environment less what binds a Python to our own installation; imports are silent,
    send nothing and keep nothing.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONHOME", "__PYVENV_LAUNCHER__", "PYTHONSTARTUP")
    }
    return dict(
        own, NO_COLOR="1", GLOG_minloglevel="2", TF_CPP_MIN_LOG_LEVEL="3", ORT_DISABLE_TELEMETRY="1"
    )


def _answer(process: Any, patience_s: float, limit_s: float) -> Answer:
    if not isinstance(process, subprocess.Popen):
        return Answer(None, process)
    try:
        out, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Answer(None, "%s within %g s" % (SILENT, limit_s))
    except BaseException:
        _kill(process)
        raise
    lines = out.decode("utf-8", "replace").splitlines()
    for line in lines:
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):
                return Answer(json.loads(line[len(_MARK) :]), "")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Answer(
        None, "; ".join(word for word in (_ending(process.returncode), said[-_LAST:]) if word)
    )


def _ending(status: int) -> str:
    """Return in words how a process ended that told nothing: an exception has words of its own."""
    if status >= 0:
        return "" if status == 1 else "exit code %d" % status
    try:
        return "killed by %s" % signal.Signals(-status).name
    except ValueError:
        return "killed by signal %d" % -status


def _kill(process: Any) -> None:
    """End a process and what it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.stdout.close()
    process.wait()


def own_python() -> Optional[str]:
    """Return the running Python's absolute path; None where it does not know itself."""
    return os.path.abspath(sys.executable) if sys.executable else None
