"""Runs commands in this process, to save the start of a new one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile

from goldwatch.cli import goldwatch
from goldwatch.cli.error_handling import run_command
from goldwatch.testing.commands import program

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def run_here(words, cwd=".", environment=None, with_programs=False):
    """Run ``goldwatch …`` or ``python -m goldwatch.testing …`` in a folder; return what
    subprocess.run with pipes and texts returns. ``with_programs`` for a command that lets a program
    print: the streams are files then.
    """
    words = [str(word) for word in words]
    name = words[2] if words[:2] == [sys.executable, "-m"] else words[0]
    command, arguments = (
        (program if name.endswith(".testing") else goldwatch),
        words[words.index(name) + 1 :],
    )
    before, variables = os.getcwd(), dict(os.environ)
    streams = [_file() if with_programs else io.StringIO() for _ in range(2)]
    os.chdir(str(cwd))
    try:
        _set_environment(variables if environment is None else environment)
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            run_command(command, arguments)
    except SystemExit as end:
        out, err = (_text_of(stream) for stream in streams)
        assert "this is a fault of goldwatch" not in err + out, err
        return subprocess.CompletedProcess(words, end.code, out, err)
    finally:
        os.chdir(before)
        _set_environment(variables)


def _file():
    # Its reader outlives it: a command may put another stream into its place.
    file = tempfile.TemporaryFile("w", encoding="utf-8")  # noqa: SIM115
    file.reader = open(  # noqa: SIM115
        os.dup(file.fileno()), encoding="utf-8", errors="replace"
    )
    return file


def _text_of(stream):
    if isinstance(stream, io.StringIO):
        return stream.getvalue()
    with stream.reader as reader:
        reader.seek(0)
        return reader.read()


def _set_environment(variables):
    if dict(os.environ) != variables:
        os.environ.clear()
        os.environ.update(variables)


def make_dumps(folder):
    """Make a network of three ops and its dumps in a folder, as most pages of docs/ have them."""
    for words in (["make", ".", "--ops", "3"], ["serve", ".", "dump"]):
        done = run_here([sys.executable, "-m", "goldwatch.testing", *words], folder)
        assert done.returncode == 0, done.stderr
