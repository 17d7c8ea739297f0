"""Parses a Python command line: ``python [OPTIONS] SCRIPT ARGS…``, ``-m MODULE``, ``-c CODE`` or
``-``."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Tuple

from ..base.errors import GoldwatchError, MissingPath, UsageError, require_file
from ..base.naming import printable
from ..kinds import kind as kinds
from ..kinds.files import kind_of_file

FILE, MODULE, CODE, STDIN = "file", "module", "code", "stdin"

#: The command that makes golden data of a model, where that is no script's.
_OF_MODELS = {
    kinds.ONNX: "goldwatch golden onnx dump %s makes its golden data",
    kinds.PROTOTXT: "goldwatch golden caffe dump %s WEIGHTS makes its golden data",
    kinds.GRAPH_DEF: "`pb=%s` runs a frozen graph without a script",
}
_PYTHON_WORD = re.compile(r"python(\d+(\.\d+)?)?[a-z]?\Z")
_PLAIN_FLAGS = "bBdEiIOqsSuvx"
_VALUE_FLAGS = "WX"


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
    given = _kind_of(first)
    if given in _OF_MODELS:
        raise UsageError(
            "%s is %s, no script" % (printable(first), kinds.WORDS[given]),
            hint=_OF_MODELS[given] % printable(first),
        )
    hint = (
        "behind -- stands: python script.py ARGUMENTS; of a launcher (bash train.sh), the python "
        "command that it starts in the end"
    )
    raise UsageError("%s is no Python" % printable(first), hint=hint)


def _kind_of(path: str) -> str:
    """Return what a file is; empty where there is none."""
    try:
        return kind_of_file(path).name if os.path.isfile(path) else ""
    except (GoldwatchError, OSError):
        return ""
