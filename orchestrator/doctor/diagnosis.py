"""All that may explain why goldwatch does not work here, or slowly, as one document (schemas/doctor.schema.json)."""

from __future__ import annotations

import codecs
import platform
from typing import Any, Dict, Iterator, List

from .. import __version__
from . import machine
from .combinations import NOTE, PROBLEM, WARNING, Finding, Setting, known_bad
from .frameworks import Framework, Python, all_pythons, frameworks
from .installed import installed, number
from .packages import EXTRAS, NEEDED, State, kernel, states
from .place import Tick, inotify, place

Document = Dict[str, Any]

_LITTLE_MEMORY = 256 << 20
_FEW_FILES = 256
_GB = 1e9


def diagnose(path: str, tick: Tick = lambda count: None) -> Document:
    """Return what is known of this installation, this machine and a folder, and what of it is wrong.

    What is merely absent is no finding. Packages are imported, and other Pythons asked, in other processes: none can do harm here.

    Parameters
    ----------
    path
        Where dumps are, or will be.
    tick
        Called with the number of folders found below it, now and then.

    Raises
    ------
    MissingPath
        ``path`` does not exist.
    """
    there = place(path, tick)
    versions = installed()
    extras = {extra.name: states(extra.packages, versions) for extra in EXTRAS}
    needed = states(NEEDED, versions)
    pythons = all_pythons()
    found = frameworks(pythons)
    document: Document = {
        "goldwatch": __version__,
        "python": {"version": platform.python_version(), "path": pythons[0].path if pythons else None},
        **machine.system(),
        "packages": [_state(entry) for entry in needed],
        "extras": [
            {"name": extra.name, "brings": extra.brings, "there": all(_works(entry) for entry in extras[extra.name]),
             "packages": [_state(entry) for entry in extras[extra.name]]}
            for extra in EXTRAS
        ],
        "pythons": len(pythons),
        "frameworks": [_framework(entry) for entry in found],
        "kernel": kernel(),
        "processor": machine.processor(),
        "memory": machine.memory(),
        "limits": machine.limits(),
        "folders": machine.folders(),
        "locale": machine.language(),
        "place": there,
        "inotify": inotify(),
    }  # fmt: skip
    features = tuple(document["processor"]["features"])
    findings = [
        *_packages(needed, [entry for entries in extras.values() for entry in entries], document["kernel"]),
        *known_bad(Setting(number(platform.python_version()), versions, features)),
        *_frameworks(found, pythons, features),
        *_machine(document),
        *_place(there, document["inotify"]),
    ]
    order = (PROBLEM, WARNING, NOTE)
    document["findings"] = [one._asdict() for one in sorted(findings, key=lambda one: order.index(one.severity))]
    document["usable"] = all(one.severity != PROBLEM for one in findings)
    return document


def _works(state: State) -> bool:
    return state.version is not None and not state.problem


def _state(state: State) -> Document:
    return {"name": state.package.name or state.package.module, "version": state.version, "problem": state.problem or None}


def _framework(one: Framework) -> Document:
    return {
        "name": one.name,
        "version": one.version,
        "python": one.python.path,
        "python_version": one.python.version,
        "problem": one.problem or None,
    }


def _packages(needed: List[State], optional: List[State], about: Document) -> Iterator[Finding]:
    for state in needed + optional:
        name, severity = state.package.name or state.package.module, PROBLEM if state in needed else WARNING
        install = "pip install '%s%s'" % (name, ">=" + state.package.oldest if state.package.oldest else "")
        if not state.package.name:
            install = "use a Python that was built with its sqlite3 module"
        if state.version is None:
            if state in needed:
                yield Finding(severity, "package-missing", "%s is not installed: goldwatch needs it" % name, install)
        elif state.problem:
            yield Finding(severity, "package-broken", "%s %s cannot be imported: %s" % (name, state.version, state.problem), install)
        elif state.package.oldest and state.version and number(state.version) < number(state.package.oldest):
            message = "%s %s is older than goldwatch works with (%s)" % (name, state.version, state.package.oldest)
            yield Finding(WARNING, "package-old", message, install)
    if about["problem"] and all(_works(state) for state in needed):
        yield Finding(PROBLEM, "kernel", "nothing computes the metrics: %s" % about["problem"], "unset GOLDWATCH_KERNEL")


def _frameworks(found: List[Framework], pythons: List[Python], features: Any) -> Iterator[Finding]:
    for one in found:
        if one.problem:
            message = "Caffe is in %s but cannot be imported there: %s" % (one.python.path, one.problem)
            yield Finding(WARNING, "framework-broken", message, "put its python folder on PYTHONPATH and its libraries on LD_LIBRARY_PATH")
    # The running Python, the first, has been judged.
    for python in pythons[1:]:
        if any(one.python is python for one in found):
            yield from known_bad(Setting(number(python.version), python.packages, features), python.path)


def _machine(document: Document) -> Iterator[Finding]:
    memory, limits, folders, words = (document[name] for name in ("memory", "limits", "folders", "locale"))
    least = min([size for size in (memory["free_bytes"], memory["limit_bytes"]) if size is not None], default=None)
    if least is not None and least < _LITTLE_MEMORY:
        yield Finding(WARNING, "memory", "%d MB of memory are little: a process that compares takes about 50" % (least >> 20), "use fewer jobs")
    if limits["address_space_bytes"] is not None:
        message = "the address space is limited to %d MB (ulimit -v): frameworks reserve far more than they use" % (limits["address_space_bytes"] >> 20)
        yield Finding(NOTE, "address-space", message, "ulimit -v unlimited")
    if limits["open_files"] is not None and limits["open_files"] < _FEW_FILES:
        yield Finding(WARNING, "open-files", "at most %d files may be open: too few for many processes" % limits["open_files"], "ulimit -n 1024")
    allowed, usable = document["processor"]["allowed"], document["processor"]["usable"]
    if allowed is not None and allowed < usable:
        message = "the control group allows %.3g of the %d processors: more processes than that gain nothing" % (allowed, usable)
        yield Finding(NOTE, "processor-quota", message, "use %d jobs" % max(1, round(allowed)))
    if folders["temporary"] is None:
        yield Finding(WARNING, "temporary-folder", "no folder for temporary files can be written: golden data cannot be made", "set TMPDIR to one")
    if folders["shared_memory_free_bytes"] is None:
        yield Finding(NOTE, "shared-memory", "/dev/shm cannot be written: frameworks that share memory between processes fail", "mount a tmpfs there")
    if codecs.lookup(words["file_names"]).name != "utf-8":
        message = "names of files are read as %s: those with other letters are shown as escapes" % words["file_names"]
        yield Finding(WARNING, "locale", message, "export LC_ALL=C.UTF-8")


def _place(there: Document, watches: Document) -> Iterator[Finding]:
    path, kind = there["path"], there["file_system"]
    if there["watched_by"] == "listing":
        message = "%s is on %s: the kernel does not tell what other hosts write there, so watching lists the folders again and again" % (path, kind)
        yield Finding(NOTE, "watch-lists", message, "watch a folder on a local disk where dumps arrive fast")
    if not there["wal"]:
        message = "results on %s (%s) are stored with a rollback journal, which is slower than WAL" % (there["mount_point"], kind)
        yield Finding(NOTE, "no-wal", message, "put the results on a local disk")
    if not there["writable"]:
        yield Finding(NOTE, "read-only", "this user cannot write in %s" % path, "put the results elsewhere")
    elif there["free_bytes"] is not None and there["free_bytes"] < _GB:
        yield Finding(WARNING, "space", "%d MB are free at %s" % (there["free_bytes"] // 10**6, path), "free some, or keep only the failed dumps")
    if there["free_inodes"] is not None and there["free_inodes"] < 10000 and there["writable"]:
        yield Finding(WARNING, "inodes", "%d more files fit on %s" % (there["free_inodes"], there["mount_point"]), "remove some, or use another disk")
    if there["folders_not_listed"]:
        message = "%d folders at %s cannot be listed by this user: their dumps are not seen" % (there["folders_not_listed"], path)
        yield Finding(WARNING, "not-listed", message, "check their permissions")
    most, used, need = watches["max_user_watches"], watches["watches_in_use"] or 0, there["folders"] + 1
    if there["watched_by"] == "inotify" and most is not None and need > most - used:
        message = "watching %s takes %d inotify watches, %d of %d are free: it would be listed again and again instead" % (path, need, max(0, most - used), most)
        yield Finding(WARNING, "inotify-watches", message, "sudo sysctl fs.inotify.max_user_watches=%d" % (2 * (need + used)))
    most, used = watches["max_user_instances"], watches["instances_in_use"] or 0
    if there["watched_by"] == "inotify" and most is not None and used + 2 > most:
        message = "%d of %d inotify instances are in use; watching takes two" % (used, most)
        yield Finding(WARNING, "inotify-instances", message, "sudo sysctl fs.inotify.max_user_instances=%d" % (2 * most + 2))
