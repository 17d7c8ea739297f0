"""The packages that goldwatch needs and those that its extras bring: whether each is there, and can
be imported.
"""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .children import Answer, Question, ask, own_python
from .installed import installed

_LIMIT_S = 30.0
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
"""  # noqa: E501
_KERNEL = """
from goldwatch.metrics.compiled.choice import about_kernel, instruction_sets
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
    needs
        Packages without which it cannot be imported either.
    """

    name: str
    module: str
    oldest: str = ""
    others: Tuple[str, ...] = ()
    needs: Tuple[str, ...] = ()


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
_TENSORFLOW = Package(
    "tensorflow", "tensorflow", "1.15", ("tensorflow-cpu", "tensorflow-gpu", "intel-tensorflow")
)
EXTRAS = (
    Extra(
        "caffe",
        "images as inputs of Caffe models, and OpenCV as a second backend for them",
        (Package("opencv-python-headless", "cv2", "4.5", _OPENCV, ("numpy",)),),
    ),
    Extra(
        "dask",
        "comparing on other machines",
        (Package("distributed", "distributed", "2022.2", (), ("click", "numpy")),),
    ),
    Extra(
        "fx",
        "golden data of PyTorch's compiled graphs; Python 3.8 and newer",
        (Package("torch", "torch", "2.1"),),
    ),
    Extra(
        "onnx",
        "golden data of ONNX models",
        (Package("onnxruntime", "onnxruntime", "1.14", ("onnxruntime-gpu",), ("numpy",)),),
    ),
    Extra(
        "serve",
        "goldwatch serve; Python 3.9 and newer",
        (Package("starlette", "starlette", "0.40"), Package("uvicorn", "uvicorn", "0.30")),
    ),
    Extra("tf", "golden data of TensorFlow models; Python 3.7 only", (_TENSORFLOW,)),
)
_SLOW = ("tensorflow", "torch")
"""Modules that take seconds to import: only whether they are installed is looked at."""


class State(NamedTuple):
    """What is known of a package here.

    Attributes
    ----------
    version
        None when it is not there, empty when it does not say.
    problem
        Why it cannot be imported, empty when it can or was not tried.
    file
        What is imported, None where that cannot be told.
    """

    package: Package
    version: Optional[str]
    problem: str
    file: Optional[str] = None


def states(packages: Sequence[Package], versions: Dict[str, str]) -> List[State]:
    """Return what is known of packages of the running Python, each imported in another process
    where it is there.

    Parameters
    ----------
    versions
        Those of the installed packages, by name.
    """
    listed = {entry: _listed(entry, versions) for entry in packages}
    there = [
        entry
        for entry in packages
        if listed[entry] is not None or _spec(entry.module.partition(".")[0]) is not None
    ]
    told = _imported([entry.module for entry in there if entry.module not in _SLOW])
    found = []
    for entry in packages:
        own, problem = told.get(entry.module, ("", ""))
        file = file_of(entry.module)
        version = listed[entry] if entry in there else None
        if entry in there and (problem or own) and _elsewhere(entry, file):
            version = own
        found.append(State(entry, version or own if entry in there else None, problem, file))
    return found


def _listed(package: Package, versions: Dict[str, str]) -> Optional[str]:
    return next(
        (versions[name] for name in (package.name, *package.others) if name in versions), None
    )


def _elsewhere(package: Package, file: Optional[str]) -> bool:
    """Tell whether a package's metadata is not in the folder that its module is imported from: it
    may be another copy's.
    """
    folder = search_folder(package.module, file)
    return folder is not None and _listed(package, installed([folder])) is None


def search_folder(module: str, file: Optional[str]) -> Optional[str]:
    """Return the folder of the search path that a module's file was found by; None without a
    file.
    """
    if file is None:
        return None
    folders = module.count(".") + (os.path.basename(file).partition(".")[0] == "__init__")
    for _ in range(folders + 1):
        file = os.path.dirname(file)
    return file


def file_of(module: str) -> Optional[str]:
    """Return the file that a module is imported from, found without importing it; None where that
    cannot be told.
    """
    whole, *parts = module.split(".")
    spec = _spec(whole)
    for part in parts:
        whole += "." + part
        spec = (
            PathFinder.find_spec(whole, spec.submodule_search_locations)
            if spec is not None
            else None
        )
    return (
        os.path.abspath(spec.origin)
        if spec is not None and spec.has_location and spec.origin
        else None
    )


def _spec(module: str) -> Optional[ModuleSpec]:
    """Return what would be imported of an outermost package's name: not all that is there has
    metadata.
    """
    try:
        return PathFinder.find_spec(module) or importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


def _imported(modules: Sequence[str]) -> Dict[str, Tuple[str, str]]:
    """Return (version, problem) of each module: all imported by one process, or each by its own
    where that one dies.
    """
    python = own_python()
    if python is None or not modules:
        return {}
    (answer,) = ask([Question(python, _IMPORT % (list(modules),), True)], _LIMIT_S)
    if answer.value is not None:
        return {name: (version, problem) for name, (version, problem) in answer.value.items()}
    if len(modules) == 1:
        return {modules[0]: ("", answer.problem or "it told nothing")}
    apart = ask([Question(python, _IMPORT % ([name],), True) for name in modules], _LIMIT_S)
    return {
        name: tuple(one.value[name]) if one.value else ("", one.problem or "it told nothing")
        for name, one in zip(modules, apart)
    }


def kernel() -> Dict[str, Any]:
    """Return what computes the metrics and why (``about``), its ``instruction_sets``, and a
    ``problem`` that ends each comparison.
    """
    python = own_python()
    (answer,) = (
        ask([Question(python, _KERNEL, True)], _LIMIT_S)
        if python is not None
        else (Answer(None, ""),)
    )
    told: Dict[str, Any] = answer.value or {
        "about": None,
        "instruction_sets": [],
        "problem": answer.problem or None,
    }
    return told
