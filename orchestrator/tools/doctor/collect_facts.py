"""All that may explain why goldwatch does not work here, or slowly, as one document
(schemas/doctor.schema.json).
"""

from __future__ import annotations

import codecs
import glob
import locale
import os
import platform
import resource
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ... import __version__
from ...base.errors import GoldwatchError, MissingPath
from ...base.mounts import NETWORK_FILE_SYSTEMS, mount_of, reports_all_changes
from ...base.pool import default_jobs
from ...base.system import memory, text_of
from ...base.wording import size_text
from ...device.launch.atc import find_atc
from .packages import EXTRAS, FRAMEWORKS, NEEDED, all_pythons, file_of, name_of, own_python, states

Row = Tuple[str, str, str, str]
"""Severity, rule, what it is and what comes of it, what to do."""

PROBLEM, WARNING, NOTE = "problem", "warning", "note"
_LITTLE_MEMORY = 256 << 20
_FEW_FILES = 256
_LITTLE_SPACE = 10**9
_UNKNOWN = 1 << 60

# Severity, rule, when, message and fix: over the names of `_values`.
CHECKS: Tuple[Tuple[str, str, Callable[[Document], bool], str, str], ...] = (
    (
        *(PROBLEM, "kernel", lambda v: v["kernel_problem"] is not None),
        "nothing computes the metrics: %(kernel_problem)s",
        "unset GOLDWATCH_KERNEL",
    ),
    (
        *(WARNING, "memory", lambda v: v["memory"] < _LITTLE_MEMORY),
        "%(memory_text)s of memory are little: a process that compares takes about 50 MiB",
        "use fewer jobs",
    ),
    (
        *(WARNING, "open-files", lambda v: (v["open_files"] or _UNKNOWN) < _FEW_FILES),
        "at most %(open_files)d files may be open: too few for many processes",
        "ulimit -n 1024",
    ),
    (
        *(WARNING, "locale", lambda v: codecs.lookup(v["file_names"]).name != "utf-8"),
        "names of files are read as %(file_names)s: those with other letters are shown as escapes",
        "export LC_ALL=C.UTF-8",
    ),
    (
        *(NOTE, "no-wal", lambda v: not v["wal"]),
        "results on %(mount_point)s (%(file_system)s) are stored with a rollback journal: slower",
        "put the results on a local disk",
    ),
    (
        *(NOTE, "read-only", lambda v: not v["writable"]),
        "this user cannot write in %(path)s",
        "put the results elsewhere",
    ),
    (
        *(WARNING, "space", lambda v: v["writable"] and v["free"] < _LITTLE_SPACE),
        "only %(free_text)s are free at %(path)s",
        "free some; watching can keep the failed dumps only",
    ),
    (
        *(WARNING, "not-listed", lambda v: v["folders_not_listed"] > 0),
        "%(path)s has folders that this user cannot list (%(folders_not_listed)d): dumps there are "
        "not seen",
        "check their permissions",
    ),
    (
        *(NOTE, "watch-lists", lambda v: v["watched_by"] == "listing"),
        "%(path)s is on %(file_system)s, where the kernel does not tell of every change: watching "
        "lists it again and again",
        "have dumps that come fast written to a local disk",
    ),
    (
        *(WARNING, "inotify-watches", lambda v: v["watches"] > v["watches_allowed"]),
        "watching %(path)s takes %(watches)d inotify watches, but a user has %(watches_allowed)d: "
        "it is listed again and again instead",
        "sudo sysctl fs.inotify.max_user_watches=%(watches_enough)d",
    ),
)


def findings_of(document: Document) -> List[Dict[str, str]]:
    """Return what is wrong, the worst first: severity, rule, message and fix of each."""
    values = _values(document)
    rows: List[Row] = list(_of_packages(document))
    for severity, rule, holds, message, fix in CHECKS:
        if holds(values):
            rows.append((severity, rule, message % values, fix % values))
    rows.sort(key=lambda row: (PROBLEM, WARNING, NOTE).index(row[0]))
    return [dict(zip(("severity", "rule", "message", "fix"), row)) for row in rows]


def _values(document: Document) -> Document:
    """Return the document's values under one name each, and what follows of them."""
    place, memory, most = document["place"], document["memory"], document["inotify_watches"]
    sizes = [size for size in (memory["free_bytes"], memory["limit_bytes"]) if size is not None]
    free = _UNKNOWN if place["free_bytes"] is None else place["free_bytes"]
    least, watches = min(sizes, default=_UNKNOWN), place["folders"] + 1
    return dict(
        {**place, **document["locale"], "open_files": document["open_files"]},
        kernel_problem=document["kernel"]["problem"],
        memory=least,
        memory_text=size_text(least),
        free=free,
        free_text=size_text(free),
        watches=0 if place["watched_by"] == "listing" else watches,
        watches_allowed=_UNKNOWN if most is None else most,
        watches_enough=2 * watches,
    )


def _of_packages(document: Document) -> Iterator[Row]:
    """Yield what is missing of the needed packages, and what cannot be imported of all."""
    needed = document["packages"]
    others = [one for extra in document["extras"] for one in extra["packages"]]
    others += [one for one in document["frameworks"] if one["python"] != document["python"]["path"]]
    if needed[0]["problem"]:
        # What a broken numpy breaks is not to blame.
        needed, others = needed[:1], []
    for one in (*needed, *others):
        severity, fix = PROBLEM if one in needed else WARNING, "pip install %s" % one["name"]
        if one in needed and one["version"] is None:
            message = "%s is not installed: goldwatch needs it" % one["name"]
            yield severity, "package-missing", message, fix
        elif one["problem"]:
            place = one.get("python") or file_of(one["name"])
            name = one["name"] + (" (%s)" % place if place else "")
            fix = "install it again, or take what is imported in its place off PYTHONPATH"
            rule = "framework-broken" if "python" in one else "package-broken"
            yield severity, rule, "%s cannot be imported: %s" % (name, one["problem"]), fix


_WATCHES = "proc/sys/fs/inotify/max_user_watches"
_EVERY = 1000

Tick = Callable[[int], None]


def place(path: str, tick: Tick = lambda count: None) -> Dict[str, Any]:
    """Return what ``doctor`` tells of a path (file system, space); of a file, of its folder.

    Parameters
    ----------
    tick
        Called with the number of folders found, now and then.

    Raises
    ------
    MissingPath
        It does not exist, or this user cannot get there.
    """
    try:
        os.stat(path)
        here = os.path.abspath(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise MissingPath(
            "PATH: %s: %s" % (path, why), hint="check the path; it is read from the current folder"
        ) from None
    folder = path if os.path.isdir(path) else os.path.dirname(here)
    mount = mount_of(folder)
    kind = mount.kind if mount is not None else ""
    room = os.statvfs(folder)
    visited = 0
    unlisted: List[OSError] = []
    for _ in os.walk(folder, onerror=unlisted.append) if folder == path else ():
        visited += 1
        if visited % _EVERY == 0:
            tick(visited)
    return {
        "path": here,
        "file_system": kind or None,
        "mount_point": None if mount is None else mount.point,
        "watched_by": "inotify" if reports_all_changes(kind) else "listing",
        "wal": kind not in NETWORK_FILE_SYSTEMS,
        "writable": os.access(folder, os.W_OK | os.X_OK),
        "free_bytes": room.f_bavail * room.f_frsize if room.f_blocks else None,
        "total_bytes": room.f_blocks * room.f_frsize or None,
        "folders": max(0, visited + len(unlisted) - 1),
        "folders_not_listed": len(unlisted),
    }


def most_watches(root: str = "/") -> Optional[int]:
    """Return how many folders inotify watches for one user (inotify(7)); None where that cannot be
    told. ``root`` is where proc is.
    """
    text = text_of(os.path.join(root, _WATCHES)).strip()
    return int(text) if text.isdigit() else None


_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING")

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
    EnvironmentProblem
        The running Python cannot be started once more.
    """
    begin("the folders below %s" % path)
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    document: Document = {
        "goldwatch": __version__,
        "python": {"version": platform.python_version(), "path": own_python()},
        "system": " ".join([platform.system(), platform.release(), platform.machine()]),
        "toolkit": _toolkit(),
        "processors": default_jobs(),
        "memory": memory(),
        "open_files": None if most_files == resource.RLIM_INFINITY else most_files,
        "locale": {
            "variables": {name: os.environ[name] for name in _LOCALE if os.environ.get(name)},
            "encoding": locale.getpreferredencoding(False),
            "file_names": sys.getfilesystemencoding(),
        },
        "place": place(path, tick),
        "inotify_watches": most_watches(),
    }
    begin("packages: %s" % ", ".join(map(name_of, NEEDED)))
    document["packages"] = states(NEEDED)
    begin(
        "extras: %s" % ", ".join(name_of(one) for _, modules in EXTRAS.values() for one in modules)
    )
    document["extras"] = [
        {"name": name, "brings": brings, "packages": states(modules)}
        for name, (brings, modules) in EXTRAS.items()
    ]
    begin("other Pythons and their frameworks")
    pythons = all_pythons()
    document["pythons"] = len(pythons)
    document["frameworks"] = [
        dict(state, python=python.path, python_version=python.version)
        for framework in FRAMEWORKS
        for python in pythons
        for state in python.states
        if state["name"] == framework and state["version"] is not None
    ]
    document["kernel"] = _kernel(document)
    document["findings"] = findings_of(document)
    document["usable"] = all(one["severity"] != PROBLEM for one in document["findings"])
    return document


def _toolkit() -> Optional[Dict[str, str]]:
    """Return where the vendor's toolkit is, and its version; None where no atc is found.

    Source: the vendor's installation guide, which has users look into this file.
    """
    atc = find_atc()
    if atc is None:
        return None
    folder, version = atc.toolkit or atc.path, ""
    for path in glob.glob(os.path.join(glob.escape(folder), "*", "ascend_toolkit_install.info")):
        named = dict(line.partition("=")[::2] for line in text_of(path).splitlines())
        version = named.get("version", "").strip()
    return {"path": folder, "version": version or "unknown"}


def _kernel(document: Document) -> Document:
    """Return what computes the metrics and why, or the problem for which nothing does; neither
    where a package is broken that it needs.
    """
    about = problem = None
    if all(one["version"] is not None and not one["problem"] for one in document["packages"]):
        from ...metrics.compiled.choice import about_kernel

        try:
            about = about_kernel()
        except GoldwatchError as error:
            problem = "%s: %s" % (error, error.hint)
    return {"about": about, "problem": problem}
