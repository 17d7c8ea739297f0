"""The packages that goldwatch needs and those that its extras bring: whether each is there, and can be imported."""

from __future__ import annotations

import importlib.util
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .children import Answer, Question, ask, own_python

_LIMIT_S = 60.0
_IMPORT = """
import importlib
found = {}
for name in %r:
    try:
        module = importlib.import_module(name)
        found[name] = [str(getattr(module, "sqlite_version", getattr(module, "__version__", ""))), ""]
    except BaseException as error:
        found[name] = ["", "%%s: %%s" %% (type(error).__name__, " ".join(str(error).split())[:300])]
tell(found)
"""
_KERNEL = """
from goldwatch.comparing.compiled.choice import about_kernel, instruction_sets
from goldwatch.errors import GoldwatchError
try:
    tell({"about": about_kernel(), "instruction_sets": instruction_sets(), "problem": None})
except GoldwatchError as error:
    tell({"about": None, "instruction_sets": [], "problem": "%s: %s" % (error, error.hint)})
"""


class Package(NamedTuple):
    """A package.

    Attributes
    ----------
    name
        On the package index, lower case; empty for a part of Python itself.
    module
        What is imported.
    oldest
        The first version that goldwatch works with, empty for any.
    others
        Further packages that bring the module.
    """

    name: str
    module: str
    oldest: str = ""
    others: Tuple[str, ...] = ()


class Extra(NamedTuple):
    """An optional part of goldwatch: what it brings, and the packages that it needs."""

    name: str
    brings: str
    packages: Tuple[Package, ...]


NEEDED = (
    Package("numpy", "numpy", "1.17"),
    Package("protobuf", "google.protobuf", "3.20.2"),
    Package("jsonschema", "jsonschema", "4.0"),
    Package("watchdog", "watchdog.observers.api", "3.0"),
    Package("click", "click", "8.0"),
    Package("", "sqlite3"),
)
_OPENCV = ("opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless")
_TENSORFLOW = Package("tensorflow", "tensorflow", "1.15", ("tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow"))
EXTRAS = (
    Extra("caffe", "golden data of Caffe models by OpenCV, without Caffe", (Package("opencv-python-headless", "cv2", "4.5", _OPENCV),)),
    Extra("onnx", "golden data of ONNX models", (Package("onnxruntime", "onnxruntime", "1.14", ("onnxruntime-gpu",)),)),
    Extra(
        "serve",
        "goldwatch serve; Python 3.9 and newer",
        (Package("starlette", "starlette", "0.40"), Package("uvicorn", "uvicorn", "0.30")),
    ),
    Extra("tf", "golden data of TensorFlow models; Python 3.7 only", (_TENSORFLOW,)),
)
_SLOW = ("tensorflow",)
"""Modules that take seconds to import: only whether they are installed is looked at."""


class State(NamedTuple):
    """What is known of a package here.

    Attributes
    ----------
    version
        None when it is not there, empty when it does not say.
    problem
        Why it cannot be imported, empty when it can or was not tried.
    """

    package: Package
    version: Optional[str]
    problem: str


def states(packages: Sequence[Package], versions: Dict[str, str]) -> List[State]:
    """Return what is known of packages of the running Python, each imported in another process where it is there.

    Parameters
    ----------
    versions
        Those of the installed packages, by name.
    """
    there = {entry: _listed(entry, versions) for entry in packages}
    there.update({entry: "" for entry in packages if there[entry] is None and _found(entry.module)})
    told = _imported([entry.module for entry in packages if there[entry] is not None and entry.module not in _SLOW])
    found = []
    for entry, version in there.items():
        own, problem = told.get(entry.module, ("", ""))
        found.append(State(entry, version or own if version is not None else None, problem))
    return found


def _listed(package: Package, versions: Dict[str, str]) -> Optional[str]:
    return next((versions[name] for name in (package.name, *package.others) if name in versions), None)


def _found(module: str) -> bool:
    """Tell whether a module's outermost package could be imported: not all that is there has metadata."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _imported(modules: Sequence[str]) -> Dict[str, Tuple[str, str]]:
    """Return (version, problem) of each module: all imported by one process, or each by its own where that one dies."""
    python = own_python()
    if python is None or not modules:
        return {}
    (answer,) = ask([Question(python, _IMPORT % (list(modules),), True)], _LIMIT_S)
    if answer.value is not None:
        return {name: (version, problem) for name, (version, problem) in answer.value.items()}
    if len(modules) == 1:
        return {modules[0]: ("", answer.problem or "it told nothing")}
    apart = ask([Question(python, _IMPORT % ([name],), True) for name in modules], _LIMIT_S)
    return {name: tuple(one.value[name]) if one.value else ("", one.problem or "it told nothing") for name, one in zip(modules, apart)}


def kernel() -> Dict[str, Any]:
    """Return what computes the metrics and why (``about``), its ``instruction_sets``, and a ``problem`` that ends each comparison."""
    python = own_python()
    (answer,) = ask([Question(python, _KERNEL, True)], _LIMIT_S) if python is not None else (Answer(None, ""),)
    told: Dict[str, Any] = answer.value or {"about": None, "instruction_sets": [], "problem": answer.problem or None}
    return told
