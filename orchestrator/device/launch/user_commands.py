"""Commands that the user gives: whether the program is there, one run to its end, and the one that
makes golden data.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from typing import Callable, Sequence

from ...base.errors import InputError, ProgramFailed, UsageError
from ...base.pool import own_python
from .program import Program


def run_to_the_end(words: Sequence[str], log: str, say: Callable[[str], None]) -> None:
    """Run a program whose output goes into ``log`` alone; Ctrl-C ends it with all that it started.

    Raises
    ------
    ProgramFailed
        It failed.
    """
    with os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb") as nowhere:
        program = Program(words, log, nowhere.fileno(), nowhere.fileno(), say=say)
        program.start()
        try:
            while not program.ended():
                time.sleep(0.05)
        except BaseException:
            program.kill()
            raise
        finally:
            program.close()
    failure = program.failure()
    if failure:
        code = program.document()["exit_code"]
        raise ProgramFailed(failure, -1 if code is None else int(code))


def run_golden_command(command: str, say: Callable[[str], None], output: int) -> None:
    """Run the command that makes the golden data: ``golden caffe dump …`` as goldwatch's own,
    anything else by the shell.

    Parameters
    ----------
    output
        Descriptor for what it prints.

    Raises
    ------
    ProgramFailed
        It failed.
    """
    say("making golden data: %s" % command)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError("the command for golden data: %s" % error) from error
    if not words:
        raise UsageError("the command for golden data is empty")
    is_ours = words[0] == "golden"
    arguments = (
        own_python("from goldwatch.__main__ import main; main()", *words)
        if is_ours
        else ["/bin/sh", "-c", command]
    )
    code = subprocess.call(arguments, stdout=output)
    if code:
        how = "exit code %d" % code if code > 0 else "signal %d" % -code
        raise ProgramFailed(
            "the command for golden data failed with %s: %s" % (how, command),
            code,
            hint="run it by itself first",
        )


def require_program(words: Sequence[str]) -> None:
    """Raise InputError when the program cannot be found or run, before anything is written."""
    if not words:
        raise UsageError("no program is given", hint="goldwatch run … -- PROGRAM ARGS…")
    if shutil.which(words[0]) is None:
        what = (
            "is not a program that this user may run"
            if os.path.exists(words[0])
            else "was not found"
        )
        raise InputError(
            "%s %s" % (words[0], what),
            hint="name a program after --, with its path if it is not in PATH",
        )
