"""Runs commands in this process, to save the start of a new one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

from goldwatch.cli import goldwatch
from goldwatch.cli.printing import run_command
from goldwatch.testing.commands import program

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def run_here(words, cwd="."):
    """Run ``goldwatch …`` or ``python -m goldwatch.testing …`` in a folder; return what
    subprocess.run with pipes and texts returns.
    """
    words = [str(word) for word in words]
    name = words[2] if words[:2] == [sys.executable, "-m"] else words[0]
    command, arguments = (
        (program if name.endswith(".testing") else goldwatch),
        words[words.index(name) + 1 :],
    )
    before, out, err = os.getcwd(), io.StringIO(), io.StringIO()
    os.chdir(str(cwd))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run_command(command, arguments)
    except SystemExit as end:
        assert "this is a fault of goldwatch" not in err.getvalue() + out.getvalue(), err.getvalue()
        return subprocess.CompletedProcess(words, end.code, out.getvalue(), err.getvalue())
    finally:
        os.chdir(before)


def make_dumps(folder):
    """Make a network of three ops and its dumps in a folder, as most pages of docs/ have them."""
    for words in (["make", ".", "--ops", "3"], ["serve", ".", "dump"]):
        done = run_here([sys.executable, "-m", "goldwatch.testing", *words], folder)
        assert done.returncode == 0, done.stderr
