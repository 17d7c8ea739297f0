"""Runs a script in this process as ``python script.py …`` would: same argv, ``__main__``, search
path and working folder.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import List, Sequence

from ..base.safe_reading import open_input
from .python_command_line import CODE, FILE, MODULE, STDIN

# The new __main__ must outlive the script: threads and exit handlers use its globals.
_main_modules: List[ModuleType] = []


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
        # As Python does: the path of __main__ is absolute from 3.9 on.
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
