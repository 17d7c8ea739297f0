"""``goldwatch doctor``."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional

import click

from ..doctor import diagnose
from ..errors import EXIT_BAD_INPUT, EXIT_PASS
from ..text.wording import plural, size_text
from .command import command, format_option, verbosity_options
from .common import print_json, put, put_line, say
from .progress import ProgressBar

Document = Dict[str, Any]

_FRAMEWORKS = {"caffe": "Caffe", "tensorflow": "TensorFlow", "onnxruntime": "onnxruntime"}
_FEATURES = {"sse4_2": "SSE4.2", "avx512f": "AVX-512", "asimd": "NEON", "asimdhp": "NEON float16"}


@command(bare=True)
@click.argument("path", default=".", metavar="[PATH]")
@format_option
@verbosity_options
def doctor(path: str, output_format: str, quiet: bool) -> int:
    """Tell what of this installation and this machine may be wrong; PATH is where dumps are, or
    will be.

    Looked at: packages and extras, Pythons with Caffe or TensorFlow, the kernel that computes,
    processor, memory and limits, the locale, the file system of PATH, its room, and inotify's
    limits against the folders below it. Nothing is changed.

    Exit code: 0 goldwatch works here, warnings or not, whatever is absent; 4 a package that it
    needs does not work, or PATH does not exist.

    Example: goldwatch doctor /data/dump
    """
    bar = ProgressBar("folders", quiet)

    def begin(what: str) -> None:
        bar.clear()
        say("looking at " + what, quiet)

    with bar:
        document = diagnose(path, lambda count: bar.update(count, 0), begin)
    if output_format == "json":
        print_json(document)
    else:
        for title, lines in _groups(document).items():
            put(title)
            for line in lines:
                put_line("  " + line)
        for line in _findings(document):
            put_line(line)
    return EXIT_PASS if document["usable"] else EXIT_BAD_INPUT


def _groups(document: Document) -> Dict[str, List[str]]:
    """Return the lines below each title."""
    machine = "%(system)s %(release)s, %(machine)s" % document + (
        ", %s" % document["libc"] if document["libc"] else ""
    )
    return {
        "goldwatch %s" % document["goldwatch"]: [
            "Python %s: %s"
            % (
                document["python"]["version"],
                document["python"]["path"] or "it does not know its own path",
            ),
            machine,
            ", ".join(_package(entry) for entry in document["packages"]),
        ],
        "extras": [
            "%-6s %s: %s" % (extra["name"], _extra(extra), extra["brings"])
            for extra in document["extras"]
        ],
        "frameworks, in " + plural(document["pythons"], "Python"): list(_frameworks(document)),
        "computing": list(_computing(document)),
        "PATH %s" % document["place"]["path"]: list(_place(document["place"], document["inotify"])),
        "locale": [_locale(document["locale"])],
    }


def _package(entry: Document) -> str:
    return "%s %s" % (
        entry["name"],
        "MISSING"
        if entry["version"] is None
        else "BROKEN"
        if entry["problem"]
        else entry["version"],
    )


def _extra(extra: Document) -> str:
    there = [_package(entry) for entry in extra["packages"] if entry["version"] is not None]
    absent = [entry["name"] for entry in extra["packages"] if entry["version"] is None]
    return ", ".join(there + ["no %s" % name for name in absent])


def _frameworks(document: Document) -> Iterator[str]:
    for one in document["frameworks"]:
        words = [_FRAMEWORKS[one["name"]], one["version"], "BROKEN" if one["problem"] else ""]
        yield "%s: %s (Python %s)" % (
            " ".join(word for word in words if word),
            one["python"],
            one["python_version"],
        )
    found = {one["name"] for one in document["frameworks"]}
    absent = [title for name, title in _FRAMEWORKS.items() if name not in found]
    if absent:
        yield "no %s" % ", no ".join(absent)


def _computing(document: Document) -> Iterator[str]:
    processor, memory, limits = document["processor"], document["memory"], document["limits"]
    yield document["kernel"]["about"] or "no kernel: %s" % (
        document["kernel"]["problem"] or "it cannot be asked"
    )
    features = " ".join(_FEATURES.get(name, name.upper()) for name in processor["features"])
    yield "%s%s, %s%s" % (
        plural(processor["usable"], "processor"),
        ""
        if processor["allowed"] is None
        else " (%.3g by the control group)" % processor["allowed"],
        processor["name"] or document["machine"],
        ": " + features if features else "",
    )
    yield "memory %s free of %s%s; shared memory %s" % (
        _size(memory["free_bytes"]),
        _size(memory["total_bytes"]),
        ""
        if memory["limit_bytes"] is None
        else ", %s by the control group" % _size(memory["limit_bytes"]),
        _size(document["folders"]["shared_memory_free_bytes"]),
    )
    yield "open files %s; temporary files in %s" % (
        _count(limits["open_files"]),
        document["folders"]["temporary"] or "no folder",
    )


def _place(place: Document, watches: Document) -> Iterator[str]:
    yield "%s, mounted at %s%s; watched by %s; results with %s" % (
        place["file_system"] or "file system unknown",
        place["mount_point"] or "?",
        "" if place["writable"] else ", not to be written by this user",
        {"inotify": "inotify", "listing": "listing it"}[place["watched_by"]],
        "WAL" if place["wal"] else "a rollback journal",
    )
    inodes = "" if place["free_inodes"] is None else ", %s files" % _count(place["free_inodes"])
    yield "free: %s of %s%s" % (_size(place["free_bytes"]), _size(place["total_bytes"]), inodes)
    unlisted = (
        ", %d not to be listed" % place["folders_not_listed"] if place["folders_not_listed"] else ""
    )
    yield "folders below: %d%s" % (place["folders"], unlisted)
    for what in ("watches", "instances"):
        used = watches[what + "_in_use"]
        known = "" if used is None else ", %d known to be in use" % used
        yield "inotify %s: at most %s of a user%s" % (
            what,
            _count(watches["max_user_" + what]),
            known,
        )


def _locale(words: Document) -> str:
    chosen = " ".join("%s=%s" % pair for pair in sorted(words["variables"].items()))
    return "%s; texts %s, names of files %s" % (
        chosen or "no variables",
        words["encoding"],
        words["file_names"],
    )


def _findings(document: Document) -> Iterator[str]:
    for one in document["findings"]:
        yield "%s: %s [%s]" % (one["severity"].upper(), one["message"], one["rule"])
        yield "  do: %s" % one["fix"]
    if not document["usable"]:
        yield "goldwatch does not work here"
    elif not document["findings"]:
        yield "nothing is wrong"


def _count(number: Optional[int]) -> str:
    return "unknown" if number is None else "%d" % number


def _size(size_bytes: Optional[int]) -> str:
    return "unknown" if size_bytes is None else size_text(size_bytes)
