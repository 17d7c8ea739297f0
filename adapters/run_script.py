"""Runs a script in this process as ``python script.py …`` would: same argv, ``__main__``, search
path and working folder.
"""

from __future__ import annotations

import builtins
import os
import re
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import List, Optional, Sequence, Tuple

from ..errors import MissingPath, UsageError, require_file
from ..filesystem.safe_reading import open_input
from ..naming import printable

FILE, MODULE, CODE, STDIN = "file", "module", "code", "stdin"

_PYTHON_WORD = re.compile(r"python(\d+(\.\d+)?)?[a-z]?\Z")
_PLAIN_FLAGS = "bBdEiIOqsSuvx"
_VALUE_FLAGS = "WX"
# The new __main__ must outlive the script: threads and exit handlers use its globals.
_main_modules: List[ModuleType] = []


def parse_python_words(words: Sequence[str]) -> Tuple[List[str], str, str, List[str]]:
    """Parse the words after ``python``.

    Returns
    -------
    options : list of str
        The interpreter's own options (``-u``, ``-W error`` …).
    kind : str
        ``file``, ``module`` (-m), ``code`` (-c) or ``stdin`` (-).
    target : str
        The path, the module's name or the code.
    arguments : list of str
        The script's own.

    Raises
    ------
    UsageError
        There is no script, or an option is not known.
    """
    rest = list(words)
    options: List[str] = []
    while rest:
        word = rest.pop(0)
        if word == "-":
            return options, STDIN, "-", rest
        if word == "--check-hash-based-pycs" and rest:
            options += [word, rest.pop(0)]
        elif not word.startswith("-"):
            return options, FILE, word, rest
        elif word.startswith("--"):
            raise UsageError("%s is no option of python that can be used here" % word)
        else:
            flags = _short_flags(word, rest, options)
            if flags is not None:
                return options, flags[0], flags[1], rest
    raise UsageError("no script in `words`", hint="give `words=python script.py ARGUMENTS`")


def _short_flags(word: str, rest: List[str], options: List[str]) -> Optional[Tuple[str, str]]:
    for position, flag in enumerate(word[1:], 1):
        if flag in _PLAIN_FLAGS:
            options.append("-" + flag)
            continue
        if flag not in _VALUE_FLAGS + "cm":
            raise UsageError("python has no option -%s" % flag)
        value = word[position + 1 :]
        if not value:
            if not rest:
                raise UsageError("python's option -%s needs a value" % flag)
            value = rest.pop(0)
        if flag in "cm":
            return (CODE if flag == "c" else MODULE), value
        options += ["-" + flag, value]
        return None
    return None


def script_of(words: Sequence[str]) -> Tuple[Optional[str], List[str], str, str, List[str]]:
    """Return the word ``python`` and the result of :func:`parse_python_words` for the rest, if
    there is such a script.

    Parameters
    ----------
    words
        ``python [OPTIONS] SCRIPT ARGS…``, or a .py file and its arguments.

    Raises
    ------
    UsageError, MissingPath
        They are no Python script, or it is not there.
    """
    word, rest = _python_word(words)
    options, kind, target, arguments = parse_python_words(rest)
    if kind == FILE:
        if not os.path.exists(target):
            raise MissingPath(
                "script %s does not exist" % printable(target),
                hint="it is read from the current folder",
            )
        if not os.path.isdir(target):
            require_file(target, "script")
    return word, options, kind, target, arguments


def _python_word(words: Sequence[str]) -> Tuple[Optional[str], List[str]]:
    """Return the word ``python`` (None where the script's name comes first) and the following
    words.
    """
    if not words:
        raise UsageError("no script in `words`", hint="give `words=python script.py ARGUMENTS`")
    first = words[0]
    if _PYTHON_WORD.match(os.path.basename(first)):
        return first, list(words[1:])
    if first.endswith((".py", ".pyc", ".pyz")):
        return None, list(words)
    hint = (
        "behind -- stands: python script.py ARGUMENTS; of a launcher (bash train.sh), the python "
        "command that it starts in the end"
    )
    raise UsageError("%s is no Python" % printable(first), hint=hint)


def run_as_main(kind: str, target: str, arguments: Sequence[str]) -> None:
    """Run the script; what it raises, ``SystemExit`` included, is raised here."""
    module = ModuleType("__main__")
    _main_modules.append(module)
    vars(module).update(
        __builtins__=builtins, __spec__=None, __loader__=None, __package__=None, __cached__=None
    )
    sys.modules["__main__"] = module
    if kind == MODULE:
        sys.path.insert(0, os.getcwd())
        sys.argv = ["-m"] + list(arguments)
        runpy._run_module_as_main(target)  # type: ignore[attr-defined]
        return
    if kind == FILE and (os.path.isdir(target) or not _is_source(target)):
        sys.argv = [target] + list(arguments)
        runpy.run_path(target, run_name="__main__")
        return
    if kind == FILE:
        with open_input(target) as stream:
            source = stream.read()
        vars(module)["__file__"] = os.path.abspath(target) if sys.version_info >= (3, 9) else target
        vars(module)["__loader__"] = SourceFileLoader("__main__", target)
        sys.path.insert(0, os.path.dirname(os.path.realpath(target)))
        code = compile(source, target, "exec", dont_inherit=True)
    else:
        sys.path.insert(0, "")
        text = sys.stdin.buffer.read() if kind == STDIN else target
        code = compile(text, "<stdin>" if kind == STDIN else "<string>", "exec", dont_inherit=True)
    sys.argv = [target if kind != CODE else "-c"] + list(arguments)
    exec(code, vars(module))


def _is_source(path: str) -> bool:
    """Tell a source file from a zip or a .pyc: those contain bytes that no source may contain."""
    with open_input(path) as stream:
        start = stream.read(512)
    return not start.startswith(b"PK\x03\x04") and b"\x00" not in start
