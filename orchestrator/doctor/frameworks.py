"""The frameworks on this machine, and in which Python each is."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from ..adapters.pythons import in_environments, on_path
from . import installed
from .children import SILENT, Question, ask, own_python

MOST_PYTHONS = 64
_LIMIT_S = 20.0
_EACH_S = 10.0
_TENSORFLOW = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "intel-tensorflow",
    "tensorflow-aarch64",
    "tensorflow-rocm",
)
# Nothing is imported but what finds modules.
_LOOK = """
import importlib.util, runpy
tell({
    "version": "%%d.%%d.%%d" %% sys.version_info[:3],
    "prefix": sys.prefix,
    "packages": runpy.run_path(%r)["installed"](),
    "caffe": importlib.util.find_spec("caffe") is not None,
})
"""
_CAFFE = "import caffe; caffe.Net; tell(str(getattr(caffe, '__version__', '')))"


class Python(NamedTuple):
    """A Python that was looked into.

    Attributes
    ----------
    packages
        The versions of what is installed in it, by name.
    caffe
        It has a module of that name.
    """

    path: str
    version: str
    packages: Dict[str, str]
    caffe: bool


class Framework(NamedTuple):
    """A framework: ``caffe``, ``tensorflow`` or ``onnxruntime``, its version, where it is, and why
    it cannot be imported (or empty).
    """

    name: str
    version: str
    python: Python
    problem: str


def all_pythons() -> Tuple[List[Python], List[str]]:
    """Return this Python, those on PATH, of pyenv and of conda, each environment once; and the
    paths of those that do not answer.
    """
    paths = list(_candidates())[:MOST_PYTHONS]
    code = _LOOK % (os.path.abspath(installed.__file__),)
    found: Dict[str, Python] = {}
    silent: List[str] = []
    for path, answer in zip(
        paths, ask([Question(path, code) for path in paths], _LIMIT_S, _EACH_S)
    ):
        value: Any = answer.value
        if answer.problem.startswith(SILENT):
            silent.append(path)
        if isinstance(value, dict):
            found.setdefault(
                os.path.realpath(value["prefix"]),
                Python(path, value["version"], value["packages"], value["caffe"]),
            )
    return list(found.values()), silent


def _candidates() -> Iterator[str]:
    """Yield paths of Pythons; of a folder's names for one file the first."""
    seen = set()
    own = own_python()
    for path in (*([own] if own else []), *on_path(), *in_environments()):
        key = os.path.dirname(os.path.abspath(path)), os.path.realpath(path)
        if key not in seen:
            seen.add(key)
            yield os.path.abspath(path)


def frameworks(pythons: List[Python]) -> List[Framework]:
    """Return the frameworks that these Pythons have; Caffe is imported, which tells whether its
    libraries are there.
    """
    with_caffe = [python for python in pythons if python.caffe]
    answers = ask([Question(python.path, _CAFFE) for python in with_caffe], _LIMIT_S)
    found = [
        Framework("caffe", answer.value or "", python, answer.problem)
        for python, answer in zip(with_caffe, answers)
    ]
    for python in pythons:
        for name, packages in (
            ("tensorflow", _TENSORFLOW),
            ("onnxruntime", ("onnxruntime", "onnxruntime-gpu")),
        ):
            versions = [
                python.packages[package] for package in packages if package in python.packages
            ]
            found += [Framework(name, version, python, "") for version in versions[:1]]
    return found
