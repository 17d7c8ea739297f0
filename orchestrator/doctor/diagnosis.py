"""All that may explain why goldwatch does not work here, or slowly, as one document
(schemas/doctor.schema.json).
"""

from __future__ import annotations

import platform
from typing import Any, Callable, Dict, Iterable, Iterator, List

from .. import __version__
from ..system.memory import memory
from . import machine
from .children import own_python
from .combinations import NOTE, PROBLEM, WARNING, Finding, Setting, known_bad
from .findings import of_machine, of_packages, of_place
from .frameworks import Framework, Python, all_pythons, frameworks
from .installed import installed, number
from .packages import EXTRAS, NEEDED, Package, State, kernel, states
from .place import Tick, inotify, place

Document = Dict[str, Any]


def diagnose(
    path: str, tick: Tick = lambda count: None, begin: Callable[[str], None] = lambda what: None
) -> Document:
    """Return what is known of this installation, this machine and a folder, and what of it is
    wrong.

    What is merely absent is no finding. Packages are imported, and other Pythons asked, in other
    processes: none can do harm here.

    Parameters
    ----------
    path
        Where dumps are, or will be.
    tick
        Called with the number of folders found below it, now and then.
    begin
        Called with what is looked at next, in words, before each part that may take long: none
        takes more than about a minute.

    Raises
    ------
    MissingPath
        ``path`` does not exist.
    """
    begin("the folders below %s" % path)
    there = place(path, tick)
    versions = installed()
    begin("extras: %s" % _names(package for extra in EXTRAS for package in extra.packages))
    extras = {extra.name: states(extra.packages, versions) for extra in EXTRAS}
    begin("packages: %s" % _names(NEEDED))
    needed = states(NEEDED, versions)
    begin("other Pythons and their frameworks")
    pythons, silent = all_pythons()
    found = frameworks(pythons)
    begin("the kernel that computes, and this machine")
    document: Document = {
        "goldwatch": __version__,
        "python": {"version": platform.python_version(), "path": own_python()},
        **machine.system(),
        "packages": [_state(entry) for entry in needed],
        "extras": [
            {"name": extra.name, "brings": extra.brings,
            "there": all(_works(entry) for entry in extras[extra.name]),
             "packages": [_state(entry) for entry in extras[extra.name]]}
            for extra in EXTRAS
        ],
        "pythons": len(pythons),
        "frameworks": [_framework(entry) for entry in found],
        "kernel": kernel(),
        "processor": machine.processor(),
        "memory": memory(),
        "limits": machine.limits(),
        "folders": machine.folders(),
        "locale": machine.language(),
        "place": there,
        "inotify": inotify(),
    }  # fmt: skip
    features = tuple(document["processor"]["features"])
    findings = [
        *of_packages(
            needed, [entry for entries in extras.values() for entry in entries], document["kernel"]
        ),
        *known_bad(Setting(number(platform.python_version()), versions, features)),
        *_frameworks(found, pythons, features),
        *(
            Finding(
                NOTE,
                "python-silent",
                "%s does not answer: nothing is known of it" % path,
                "take it off PATH",
            )
            for path in silent
        ),
        *of_machine(document),
        *of_place(there, document["inotify"]),
    ]
    order = (PROBLEM, WARNING, NOTE)
    document["findings"] = [
        one._asdict() for one in sorted(findings, key=lambda one: order.index(one.severity))
    ]
    document["usable"] = all(one.severity != PROBLEM for one in findings)
    return document


def _names(packages: Iterable[Package]) -> str:
    return ", ".join(package.name or package.module for package in packages)


def _works(state: State) -> bool:
    return state.version is not None and not state.problem


def _state(state: State) -> Document:
    return {
        "name": state.package.name or state.package.module,
        "version": state.version,
        "problem": state.problem or None,
    }


def _framework(one: Framework) -> Document:
    return {
        "name": one.name,
        "version": one.version,
        "python": one.python.path,
        "python_version": one.python.version,
        "problem": one.problem or None,
    }


def _frameworks(found: List[Framework], pythons: List[Python], features: Any) -> Iterator[Finding]:
    for one in found:
        if one.problem:
            message = "Caffe is in %s but cannot be imported there: %s" % (
                one.python.path,
                one.problem,
            )
            yield Finding(
                WARNING,
                "framework-broken",
                message,
                "put its python folder on PYTHONPATH and its libraries on LD_LIBRARY_PATH",
            )
    for python in pythons:
        # The running one has been judged.
        if python.path != own_python() and any(one.python is python for one in found):
            found_there = known_bad(
                Setting(number(python.version), python.packages, features), python.path
            )
            yield from (
                one for one in found_there if one.rule.startswith(("onnxruntime-", "tensorflow-"))
            )
