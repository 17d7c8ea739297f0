"""What of the facts is wrong, and what to do about it."""

from __future__ import annotations

import codecs
import os
from typing import Any, Dict, Iterator, Sequence

from ..text.wording import plural, size_text
from .combinations import NOTE, PROBLEM, WARNING, Finding
from .installed import number
from .packages import State, search_folder

Document = Dict[str, Any]

_LITTLE_MEMORY = 256 << 20
_FEW_FILES = 256
_LITTLE_SPACE = 10**9
_FEW_INODES = 10000
# TARGET and GOLDEN.
_INSTANCES = 2


def of_packages(
    needed: Sequence[State], optional: Sequence[State], kernel: Document
) -> Iterator[Finding]:
    """Yield what is wrong with packages: those that goldwatch needs must be there, of the others
    those that are there must work.
    """
    useless = {state.package.name for state in needed if state.problem or state.version is None}
    for state in (*needed, *optional):
        package, severity = state.package, PROBLEM if state in needed else WARNING
        name = package.name or package.module
        install = "pip install '%s%s'" % (name, ">=" + package.oldest if package.oldest else "")
        if not package.name:
            install = "use a Python that was built with its module sqlite3"
        if state.problem and not useless.isdisjoint(package.needs):
            continue
        if state.problem:
            place = " (%s)" % state.file if state.file else ""
            message = "%s%s cannot be imported: %s" % (
                " ".join([name, state.version or ""]).strip(),
                place,
                state.problem,
            )
            again = ("pip uninstall %s, then " % name if package.name else "") + install
            yield Finding(severity, "package-broken", message, _unshadowed(state) or again)
        elif state.version is None and state in needed:
            yield Finding(
                severity,
                "package-missing",
                "%s is not installed: goldwatch needs it" % name,
                install,
            )
        elif package.oldest and state.version and number(state.version) < number(package.oldest):
            yield Finding(
                WARNING,
                "package-old",
                "%s %s is older than goldwatch works with" % (name, state.version),
                install,
            )
    if kernel["problem"] and not useless:
        yield Finding(
            PROBLEM,
            "kernel",
            "nothing computes the metrics: %s" % kernel["problem"],
            "unset GOLDWATCH_KERNEL",
        )


def _unshadowed(state: State) -> str:
    """Return what to do about a file that comes before the installed package; empty where it is the
    installed package's.
    """
    folder = search_folder(state.package.module, state.file)
    listed = [
        os.path.abspath(entry)
        for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if entry
    ]
    if folder is None:
        return ""
    if folder in listed:
        return "take %s off PYTHONPATH, or unset PYTHONPATH" % folder
    installed = {"site-packages", "dist-packages"}.intersection(
        folder.split(os.sep)
    ) or not state.package.name
    return (
        ""
        if installed
        else "move %s away: it is imported instead of the installed package" % state.file
    )


def of_machine(document: Document) -> Iterator[Finding]:
    """Yield what is too little of the machine, or unusual."""
    memory, limits, folders = document["memory"], document["limits"], document["folders"]
    least = min(
        [size for size in (memory["free_bytes"], memory["limit_bytes"]) if size is not None],
        default=None,
    )
    if least is not None and least < _LITTLE_MEMORY:
        message = "%s of memory are little: a process that compares takes about 50 MiB" % size_text(
            least
        )
        yield Finding(WARNING, "memory", message, "use fewer jobs")
    space = limits["address_space_bytes"]
    if space is not None:
        message = (
            "the address space is limited to %s: frameworks reserve far more than they use"
            % size_text(space)
        )
        yield Finding(NOTE, "address-space", message, "ulimit -v unlimited")
    if limits["open_files"] is not None and limits["open_files"] < _FEW_FILES:
        message = "at most %d files may be open: too few for many processes" % limits["open_files"]
        yield Finding(WARNING, "open-files", message, "ulimit -n 1024")
    allowed, usable = document["processor"]["allowed"], document["processor"]["usable"]
    if allowed is not None and allowed < usable:
        message = "the control group allows %.3g of %d processors: more processes gain nothing" % (
            allowed,
            usable,
        )
        yield Finding(NOTE, "processor-quota", message, "use %d jobs" % max(1, round(allowed)))
    if folders["temporary"] is None:
        message = "no folder for temporary files can be written: golden data cannot be made"
        yield Finding(WARNING, "temporary-folder", message, "set TMPDIR to one that can")
    if folders["shared_memory_free_bytes"] is None:
        message = "/dev/shm cannot be written: frameworks that share memory between processes fail"
        yield Finding(NOTE, "shared-memory", message, "mount a tmpfs there")
    names = document["locale"]["file_names"]
    if codecs.lookup(names).name != "utf-8":
        message = (
            "names of files are read as %s: those with other letters are shown as escapes" % names
        )
        yield Finding(WARNING, "locale", message, "export LC_ALL=C.UTF-8")


def of_place(place: Document, inotify: Document) -> Iterator[Finding]:
    """Yield what dumps, results and watching lack in a folder."""
    path, kind = place["path"], place["file_system"]
    if not place["wal"]:
        message = (
            "results on %s (%s) are stored with a rollback journal, which is slower than WAL"
            % (place["mount_point"], kind)
        )
        yield Finding(NOTE, "no-wal", message, "put the results on a local disk")
    if not place["writable"]:
        yield Finding(
            NOTE, "read-only", "this user cannot write in %s" % path, "put the results elsewhere"
        )
    else:
        if place["free_bytes"] is not None and place["free_bytes"] < _LITTLE_SPACE:
            message = "only %s are free at %s" % (size_text(place["free_bytes"]), path)
            yield Finding(
                WARNING, "space", message, "free some; watching can keep the failed dumps only"
            )
        if place["free_inodes"] is not None and place["free_inodes"] < _FEW_INODES:
            message = "only %d more files fit on %s" % (place["free_inodes"], place["mount_point"])
            yield Finding(WARNING, "inodes", message, "remove some, or use another disk")
    if place["folders_not_listed"]:
        some = plural(place["folders_not_listed"], "folder")
        message = "%s at %s cannot be listed by this user: dumps there are not seen" % (some, path)
        yield Finding(WARNING, "not-listed", message, "check their permissions")
    if place["watched_by"] == "listing":
        message = (
            "%s is on %s, where the kernel does not tell of every change: watching lists it "
            "again and again" % (path, kind)
        )
        yield Finding(
            NOTE, "watch-lists", message, "have dumps that come fast written to a local disk"
        )
    else:
        yield from _of_inotify(place, inotify)


def _of_inotify(place: Document, inotify: Document) -> Iterator[Finding]:
    most, used, need = (
        inotify["max_user_watches"],
        inotify["watches_in_use"] or 0,
        place["folders"] + 1,
    )
    if most is not None and need > most - used:
        message = (
            "watching %s takes %d inotify watches, but %d of %d are free: it is listed again and "
            "again instead"
        )
        fix = "sudo sysctl fs.inotify.max_user_watches=%d" % (2 * (need + used))
        yield Finding(
            WARNING,
            "inotify-watches",
            message % (place["path"], need, max(0, most - used), most),
            fix,
        )
    most, used = inotify["max_user_instances"], inotify["instances_in_use"] or 0
    if most is not None and used + _INSTANCES > most:
        message = (
            "%d of %d inotify instances are in use, and watching takes %d: folders are listed "
            "again and again instead"
        )
        fix = "sudo sysctl fs.inotify.max_user_instances=%d" % (2 * most)
        yield Finding(WARNING, "inotify-instances", message % (used, most, _INSTANCES), fix)
