"""The packages that goldwatch needs, those of its extras, and the frameworks of other Pythons: each
is imported in another process, for whatever it does there it does no harm here.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from importlib.machinery import PathFinder
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...adapters.pythons import in_environments, on_path
from ...base.errors import EnvironmentProblem
from ...base.interrupts import signal_name

NEEDED = ("numpy", "google.protobuf", "jsonschema", "watchdog.observers.api", "click", "sqlite3")
EXTRAS = {
    "caffe": ("images as inputs of Caffe models", ["cv2"]),
    "dask": ("comparing on other machines", ["distributed"]),
    "fx": ("golden data of PyTorch's compiled graphs; Python 3.8 and newer", ["torch"]),
    "onnx": ("golden data of ONNX models", ["onnxruntime"]),
    "serve": ("goldwatch serve; Python 3.9 and newer", ["starlette", "uvicorn"]),
    "tf": ("golden data of TensorFlow models; Python 3.7 only", ["tensorflow"]),
}
"""Of each extra what it brings, and its modules."""
FRAMEWORKS = ("caffe", "tensorflow", "onnxruntime")
_NAMES = {
    "google.protobuf": ["protobuf"],
    "watchdog.observers.api": ["watchdog"],
    "cv2": ["opencv-python-headless", "opencv-python", "opencv-contrib-python"],
    "tensorflow": ["tensorflow", "tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow"],
    "onnxruntime": ["onnxruntime", "onnxruntime-gpu"],
}
"""Of modules the packages that bring them, where their names differ."""

_LIMIT_S = 60.0
_LONGEST = 300
_MARK = "goldwatch-doctor "
_QUIET = {"GLOG_minloglevel": "2", "TF_CPP_MIN_LOG_LEVEL": "3", "ORT_DISABLE_TELEMETRY": "1"}
_IMPORT = """
import sys; sys.path[:] = %r or [entry for entry in sys.path if entry]
import importlib, json
def tell(*values):
    print("\\n" + %r + json.dumps(values)); sys.stdout.flush()
def version(names):
    for name in names:
        try:
            if sys.version_info >= (3, 8):
                from importlib import metadata
                return metadata.version(name)
            import pkg_resources
            return pkg_resources.get_distribution(name).version
        except Exception: pass
    return ""
if sys.version_info < (3, 6): sys.exit()
tell("", "%%d.%%d.%%d" %% sys.version_info[:3], sys.prefix)
for module, names in %r if sys.prefix not in %r else ():
    tell(module, version(names), None)
    try:
        imported = importlib.import_module(module)
        own = getattr(imported, "sqlite_version", None) or getattr(imported, "__version__", "")
        tell(module, version(names) or str(own), "")
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and (module + ".").startswith("%%s." %% error.name):
            tell(module, None, "")
        else:
            tell(module, version(names), "%%s: %%s" %% (type(error).__name__, error))
"""  # noqa: E501

State = Dict[str, Optional[str]]
"""A package's ``name``, its ``version`` (None: it is not there; empty: it does not say), and the
``problem`` for which it cannot be imported (None: it can).
"""


class Python(NamedTuple):
    """A Python that answered: where it is, its version, its environment's folder, its packages."""

    path: str
    version: str
    prefix: str
    states: List[State]


def states(modules: Sequence[str]) -> List[State]:
    """Return what is known of modules of the running Python."""
    known: List[State] = []
    search = [entry for entry in sys.path if isinstance(entry, str)]
    while len(known) < len(modules):
        # Where one ends the process, the others are asked again.
        python = _ask(own_python(), modules[len(known) :], search)
        if python is None:
            raise EnvironmentProblem("Python does not start: %s" % (own_python() or "no path"))
        known += python.states
    return known


def all_pythons() -> List[Python]:
    """Return this Python, those on PATH, of pyenv and of conda, each environment once, with the
    frameworks that each has.
    """
    probed = set()
    pythons: List[Python] = []
    for path in (own_python(), *on_path(), *in_environments()):
        # Of a folder's names for one file the first.
        key = os.path.dirname(os.path.abspath(path)), os.path.realpath(path)
        if path and key not in probed:
            probed.add(key)
            prefixes = [python.prefix for python in pythons]
            python = _ask(os.path.abspath(path), FRAMEWORKS, skipped=prefixes)
            if python is not None and python.prefix not in prefixes:
                pythons.append(python)
    return pythons


def own_python() -> str:
    """Return the running Python's absolute path; empty where it does not know itself."""
    return os.path.abspath(sys.executable) if sys.executable else ""


def _ask(
    path: str, modules: Sequence[str], search: Sequence[str] = (), skipped: Sequence[str] = ()
) -> Optional[Python]:
    """Return what a Python says of modules, up to the first that ends it; None where it says
    nothing.

    Parameters
    ----------
    search
        Where it looks for them, in place of its own search path. The current folder, which may hold
        anything, is never on it.
    skipped
        Environments of which no module is asked.
    """
    named = [(module, _NAMES.get(module, [module])) for module in modules]
    text, ending = _output([path, "-c", _IMPORT % (list(search), _MARK, named, list(skipped))])
    answers: Dict[str, Tuple[Any, Any]] = {}
    for line in text.splitlines():
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):  # Half a line, of one that was killed.
                module, version, value = json.loads(line[len(_MARK) :])
                answers[module] = version, value
    if not answers:
        return None
    version, prefix = answers.pop("")
    known: List[State] = []
    for module, (its_version, problem) in answers.items():
        problem = " ".join((ending if problem is None else problem).split())[:_LONGEST]
        known.append({"name": name_of(module), "version": its_version, "problem": problem or None})
    return Python(path, version, prefix, known)


def _output(command: List[str]) -> Tuple[str, str]:
    """Return what a command writes, and how it ended; nothing that it started is left behind."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=dict(environment, **_QUIET),
        )
    except (OSError, ValueError) as error:
        return "", str(error)
    out, ending = b"", "no answer within %g s" % _LIMIT_S
    try:
        out = process.communicate(timeout=_LIMIT_S)[0]
        ending = "exit code %d" % process.returncode
        if process.returncode < 0:
            ending = "killed by %s" % signal_name(-process.returncode)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out = process.communicate()[0]
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    return out.decode("utf-8", "replace"), ending


def name_of(module: str) -> str:
    """Return the package that is to be installed for a module."""
    return _NAMES.get(module, [module])[0]


def file_of(name: str) -> Optional[str]:
    """Return the file that a package is imported from, without importing it; None where that cannot
    be told.
    """
    module = next((module for module in _NAMES if name_of(module) == name), name)
    with contextlib.suppress(ImportError, ValueError):
        spec = PathFinder.find_spec(module.partition(".")[0])
        if spec is not None and spec.has_location and spec.origin:
            return os.path.abspath(spec.origin)
    return None


def broken_package(error: BaseException) -> Optional[EnvironmentProblem]:
    """Return in a sentence which package that goldwatch needs cannot be imported, when ``error``
    came out of an import: a broken installation is no failing model; None otherwise.
    """
    lines = traceback.extract_tb(error.__traceback__)
    importing = any(line.name == "<module>" for line in lines)
    if not importing and not isinstance(error, (ImportError, SyntaxError)):
        return None
    for module in NEEDED:
        try:
            importlib.import_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            name, place = name_of(module), file_of(name_of(module))
            text = "%s: %s" % (type(problem).__name__, " ".join(str(problem).split())[:_LONGEST])
            return EnvironmentProblem(
                "%s cannot be imported%s: %s" % (name, " (%s)" % place if place else "", text),
                "goldwatch doctor tells more" if name != "click" else "install it again",
            )
    return None
