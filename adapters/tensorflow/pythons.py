"""Finds a Python that has TensorFlow: goldwatch itself may run on one that never will."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import List, Optional

from ...base.errors import EnvironmentProblem
from ...base.fast_dataclasses import dataclass
from ...base.naming import printable
from ..child_python import resolve_python
from ..pythons import in_environments, on_path

_PROBE_TIMEOUT_S = 60
PROTOBUF_HINT = (
    "TensorFlow 1.15 needs protobuf older than 3.21: pip install 'protobuf>=3.20.2,<3.21' in that "
    "environment"
)
_HINT = (
    "TensorFlow 1.15 exists for Python 3.7 only: python3.7 -m venv tf115 && tf115/bin/pip "
    "install 'tensorflow==1.15.*' "
    "'protobuf>=3.20.2,<3.21', then add `python=tf115/bin/python`"
)
# Looks for TensorFlow without importing it (that takes seconds) and without the current folder,
# which may hold a tensorflow.py.
_PROBE = """
import sys
sys.path[:] = [p for p in sys.path if p]
import importlib.util, json, os, re
spec = importlib.util.find_spec("tensorflow")
found = None
if spec is not None and spec.submodule_search_locations:
    found = ""
    for place in list(spec.submodule_search_locations):
        for name in os.listdir(os.path.dirname(place)):
            match = re.match(r"(?:tensorflow(?:[_-](?:cpu|gpu|intel|rocm|aarch64)[^-]*)?)-([0-9][^-]*)\\.(?:dist|egg)-info", name)
            found = match.group(1) if match else found
print("goldwatch-probe " + json.dumps([list(sys.version_info[:2]), found]))
"""  # noqa: E501


@dataclass(frozen=True)
class Python:
    """A Python and its TensorFlow.

    Attributes
    ----------
    path
        Of the interpreter.
    version
        Such as ``3.7``.
    tensorflow
        The version that is installed (empty: one of unknown version), or None.
    """

    path: str
    version: str
    tensorflow: Optional[str]

    def __str__(self) -> str:
        return "%s (Python %s, %s)" % (
            self.path,
            self.version,
            "TensorFlow %s" % self.tensorflow if self.tensorflow else "TensorFlow",
        )


def find_tensorflow_python(requested: Optional[str], word: Optional[str]) -> Python:
    """Return the Python to run TensorFlow in.

    Parameters
    ----------
    requested
        The user's ``--python`` (a path or a command): this one or none.
    word
        The word ``python`` in front of the script: it comes first, then the running Python, then
        every one on PATH, of pyenv (3.7) and of conda (3.7) that has TensorFlow 1.15.

    Raises
    ------
    EnvironmentProblem
        None of them has TensorFlow.
    UsageError
        ``requested`` is no program.
    """
    if requested is not None:
        python = probe(resolve_python(requested))
        if python is None or python.tensorflow is None:
            raise EnvironmentProblem(
                "`python` %s has no TensorFlow" % printable(requested), hint=_HINT
            )
        return python
    tried: List[str] = []
    named = shutil.which(word) if word else None
    if word and named is None and os.sep in word:
        raise EnvironmentProblem(
            "%s is not a program that can be started" % printable(word),
            hint="name the Python that has TensorFlow",
        )
    for path in [named, sys.executable]:
        python = _probe_once(path, tried)
        if python is not None and python.tensorflow is not None:
            return python
    for path in (*on_path("python3.7", "python3", "python"), *in_environments("python3.7")):
        python = _probe_once(path, tried)
        if (
            python is not None
            and python.tensorflow is not None
            and (not python.tensorflow or python.tensorflow.startswith("1.15"))
        ):
            return python
    raise EnvironmentProblem(
        "no Python with TensorFlow was found; tried %s" % ", ".join(tried), hint=_HINT
    )


def _probe_once(path: Optional[str], tried: List[str]) -> Optional[Python]:
    if not path or path in tried:
        return None
    tried.append(path)
    return probe(path)


def probe(path: str) -> Optional[Python]:
    """Return what Python this is and which TensorFlow it has, or None when it does not answer."""
    try:
        done = subprocess.run(
            [path, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            env={
                name: value
                for name, value in os.environ.items()
                if name not in ("PYTHONHOME", "__PYVENV_LAUNCHER__")
            },
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(
        r"^goldwatch-probe (.*)$", done.stdout.decode("utf-8", "replace"), re.MULTILINE
    )
    if match is None:
        return None
    version, tensorflow = json.loads(match.group(1))
    return Python(os.path.abspath(path), "%d.%d" % tuple(version), tensorflow)
