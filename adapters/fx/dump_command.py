"""``golden fx dump`` as a whole: check the request, find a Python that has PyTorch, run the script
there, and return the result.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional

from ...base.errors import EnvironmentProblem, Interrupted, UsageError
from ...base.fast_dataclasses import dataclass
from ...base.manifest import add_to_manifest
from ...base.naming import printable
from ...base.safe_reading import sha256_of_file
from ..child.parent import OURS, STDERR, Task, run_child
from ..child_python import resolve_python, runs
from ..python_command_line import CODE, FILE, script_of
from ..pythons import on_path
from .recorder import folder_of, fx_files, rank_here

_MODULE = "goldwatch.adapters.fx.child"
_HAS_TORCH = "import importlib.util; sys.exit(importlib.util.find_spec('torch') is None)"
_HINT = (
    "pip install torch (2.1 or newer; the CPU's is enough), or name the Python that has it with "
    "`python=PATH`"
)


@dataclass(frozen=True)
class FxJob:
    """A script to run.

    Attributes
    ----------
    out
        The golden folder.
    words
        ``python [OPTIONS] SCRIPT ARGS…``, or a .py file and its arguments.
    tokens
        Which calls of each compiled graph are kept, from 0; None: all.
    python
        The Python that has PyTorch, or None to find one.
    force
        Replace the FX files of an earlier run.
    own_stdout
        What the script prints goes to stderr.
    say
        Called with lines of progress.
    """

    out: str
    words: List[str]
    tokens: Optional[List[int]] = None
    python: Optional[str] = None
    force: bool = False
    own_stdout: bool = False
    say: Callable[[str], None] = lambda text: None


def run_fx(job: FxJob) -> Dict[str, Any]:
    """Run the script; return ``folder``, ``graphs``, ``calls``, ``kept``, ``files``, ``version``
    (PyTorch's) and ``python``.

    Raises
    ------
    UsageError
        The words are no Python script, or OUT holds FX files and ``force`` is not set.
    InputError
        The script raised, or compiled nothing.
    EnvironmentProblem
        No Python has PyTorch 2.1 or newer.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    word, options, kind, target, arguments = script_of(job.words)
    out = os.path.abspath(job.out)
    if os.path.lexists(out) and not os.path.isdir(out):
        raise UsageError(
            "%s is not a folder" % printable(out),
            hint="give a folder, existing or new, for the golden files",
        )
    rank = rank_here()
    # The others of several ranks write beside this one, and may have begun before.
    there = fx_files(out if rank[0] == 1 else folder_of(out, rank))
    if there and not job.force:
        raise UsageError(
            "%s already holds golden files (%d, such as %s)"
            % (printable(out), len(there), printable(os.path.relpath(there[0], out))),
            hint="choose an empty folder, or add `force` to replace them",
        )
    python = _find(job.python, word)
    document = {
        "kind": kind,
        "target": target,
        "arguments": arguments,
        "out": out,
        "tokens": job.tokens,
        "source": {"script": sha256_of_file(target)}
        if kind == FILE and os.path.isfile(target)
        else {},
        "extra": {"command": [printable(text) for text in job.words], "python": printable(python)},
    }
    job.say("running %s with %s" % ("-c" if kind == CODE else target, python))
    with tempfile.TemporaryDirectory(prefix="goldwatch-fx-") as scratch:
        outcome = run_child(
            Task(python, _MODULE, document, (), options, output=STDERR if job.own_stdout else OURS),
            scratch,
        )
    state: Dict[str, Any] = dict(outcome.messages.get("state") or {}, python=python)
    if outcome.interrupted:
        if not state.get("files"):
            raise Interrupted("interrupted; nothing was saved")
        raise Interrupted(
            "interrupted; %d golden files in %s are usable"
            % (state["files"], printable(state["folder"]))
        )
    if outcome.returncode != 0:
        raise outcome.problem("the script", "its own message stands above")
    add_to_manifest(state["folder"], complete=True)
    return state


def _find(requested: Optional[str], word: Optional[str]) -> str:
    """Return the Python that has PyTorch: the user's, else the one in front of the script, the
    running one, or the first on PATH.
    """
    if requested is not None:
        python = resolve_python(requested)
        if runs(python, _HAS_TORCH) is not None:
            raise EnvironmentProblem(
                "`python` %s has no PyTorch" % printable(requested), hint=_HINT
            )
        return python
    named = shutil.which(word) if word else None
    if word and named is None and os.sep in word:
        raise EnvironmentProblem(
            "%s is not a program that can be started" % printable(word),
            hint="name the Python that has PyTorch",
        )
    tried = [
        os.path.abspath(path) for path in dict.fromkeys([named, sys.executable, *on_path()]) if path
    ]
    for path in dict.fromkeys(tried):
        if runs(path, _HAS_TORCH) is None:
            return path
    raise EnvironmentProblem(
        "no Python with PyTorch was found; tried %s" % ", ".join(map(printable, tried)), hint=_HINT
    )
