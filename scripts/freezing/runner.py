"""Runs commands of the goldwatch of this Python, each in a fork of a process that has imported it.

One line of JSON on stdin is one command: words, folder, files for stdout and stderr, patience in
seconds; its exit code is the answer, a line on stdout. What a start of its own would do besides is
to import, which is the same for all.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback

LAZY = (
    "goldwatch.__main__",
    "goldwatch.adapters.",
    "goldwatch.cluster",
    "goldwatch.doctor",  # where it stood in builds before
    "goldwatch.tools.doctor",
    "goldwatch.service",
    "goldwatch.testing",
)
"""Imported by those who need them: they bring packages that start threads, or run at once."""


def preload():
    """Import the command line and what it uses."""
    import goldwatch

    for found in pkgutil.walk_packages(goldwatch.__path__, "goldwatch."):
        if not found.name.startswith(LAZY):
            try:
                importlib.import_module(found.name)
            except ImportError:
                pass
    # Threads do not live through a fork; a lock that one holds would stay held.
    assert len(os.listdir("/proc/self/task")) == 1
    gc.collect()
    gc.freeze()


def run(task):
    """Be the command, and never return."""
    os.setsid()
    os.chdir(task["in"])
    for number, path in ((1, task["stdout"]), (2, task["stderr"])):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.argv = list(task["words"])
    code = 1
    try:
        importlib.import_module("goldwatch.__main__").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 120
        os._exit(code)


def wait(child, patience):
    """The exit code of a child, or how it ended otherwise."""
    end = time.monotonic() + patience
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return (
                os.WEXITSTATUS(status)
                if os.WIFEXITED(status)
                else "signal %d" % os.WTERMSIG(status)
            )
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "no end in %d s" % patience
        time.sleep(0.005)


def main():
    # Its command's stdout is another.
    answers = os.fdopen(os.dup(1), "w")
    preload()
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            answers = None
            run(task)
        print(json.dumps(wait(child, task["patience"])), file=answers, flush=True)


if __name__ == "__main__":
    main()
