"""What of the facts is wrong, and what to do about it."""

from __future__ import annotations

import codecs
from typing import Any, Callable, Dict, Iterator, List, Tuple

from ..text.wording import size_text
from .packages import file_of

Document = Dict[str, Any]
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
