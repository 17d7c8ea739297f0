"""``goldwatch doctor``."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Optional

import click

from ..base.errors import EXIT_BAD_INPUT, EXIT_PASS, UsageError
from ..base.wording import plural, size_text
from ..tools.doctor import diagnose
from .command import command, format_option, verbosity_options
from .printing import print_json, put, put_line, say
from .progress import ProgressBar

Document = Dict[str, Any]


@command(bare=True)
@click.argument("path", default=".", metavar="[PATH]")
@click.option(
    "--report",
    is_flag=True,
    help="Print it as a block to paste into an issue, your home folder as ~.",
)
@format_option
@verbosity_options
def doctor(path: str, report: bool, output_format: str, quiet: bool) -> int:
    """Check this installation and this machine; PATH is where dumps are, or
    will be.

    It checks packages and extras, Pythons with Caffe, TensorFlow or onnxruntime, the kernel that
    computes, the toolkit, memory and limits, the locale, the file system of PATH, its free
    space, and inotify's limits against the folders below it. It changes nothing.

    Exit code: 0 goldwatch works here, even with warnings or missing extras; 4 a package that it
    needs does not work, or PATH does not exist.

    Example: goldwatch doctor /data/dump
    """
    if report and output_format == "json":
        raise UsageError("--report and --format json are two forms", hint="leave one of them out")
    bar = ProgressBar("folders", quiet)

    def begin(what: str) -> None:
        bar.clear()
        say("looking at " + what, quiet)

    with bar:
        document = diagnose(path, lambda count: bar.update(count, 0), begin)
    if report:
        home = os.path.expanduser("~").rstrip("/")
        put("```text")
        for line in _lines(document):
            put((line + "\n").replace(home + "/", "~/").replace(home + "\n", "~").rstrip("\n"))
        put("```")
    elif output_format == "json":
        print_json(document)
    else:
        for line in _lines(document):
            put_line(line)
    return EXIT_PASS if document["usable"] else EXIT_BAD_INPUT


def _lines(document: Document) -> Iterator[str]:
    """Yield titles with what is known below each, indented, and then the problems."""
    python, memory, locale = document["python"], document["memory"], document["locale"]
    yield "goldwatch %s" % document["goldwatch"]
    yield "  Python %s: %s" % (python["version"], python["path"] or "it does not know its path")
    yield "  " + document["system"]
    yield "  " + ", ".join(map(_package, document["packages"]))
    yield "extras"
    for extra in document["extras"]:
        packages = ", ".join(map(_package, extra["packages"]))
        yield "  %-6s %s: %s" % (extra["name"], packages, extra["brings"])
    yield "frameworks, in %s" % plural(document["pythons"], "Python")
    for one in document["frameworks"]:
        yield "  %s: %s (Python %s)" % (_package(one), one["python"], one["python_version"])
    if not document["frameworks"]:
        yield "  no Caffe, no TensorFlow, no onnxruntime"
    yield "computing"
    kernel = document["kernel"]
    yield "  " + (kernel["about"] or "no kernel: %s" % (kernel["problem"] or "see below"))
    toolkit = document["toolkit"]
    yield "  toolkit: %s" % (
        "none" if toolkit is None else "%(path)s, version %(version)s" % toolkit
    )
    limit = memory["limit_bytes"]
    yield "  %s; memory %s free of %s%s; open files %s" % (
        plural(document["processors"], "processor"),
        _size(memory["free_bytes"]),
        _size(memory["total_bytes"]),
        "" if limit is None else ", %s by the control group" % _size(limit),
        _count(document["open_files"]),
    )
    yield "PATH %s" % document["place"]["path"]
    yield from _place(document["place"], document["inotify_watches"])
    yield "locale"
    chosen = " ".join("%s=%s" % pair for pair in sorted(locale["variables"].items()))
    words = (chosen or "no variables", locale["encoding"], locale["file_names"])
    yield "  %s; texts %s, names of files %s" % words
    for one in document["findings"]:
        yield "%s: %s [%s]" % (one["severity"].upper(), one["message"], one["rule"])
        yield "  do: %s" % one["fix"]
    if not document["usable"]:
        yield "goldwatch does not work here"
    elif not document["findings"]:
        yield "nothing is wrong"


def _package(entry: Document) -> str:
    if entry["version"] is None:
        return "no %s" % entry["name"]
    words = (entry["name"], entry["version"], "BROKEN" if entry["problem"] else "")
    return " ".join(word for word in words if word)


def _place(place: Document, watches: Optional[int]) -> Iterator[str]:
    yield "  %s, mounted at %s%s; watched by %s; results with %s" % (
        place["file_system"] or "file system unknown",
        place["mount_point"] or "?",
        "" if place["writable"] else ", not to be written by this user",
        {"inotify": "inotify", "listing": "listing it"}[place["watched_by"]],
        "WAL" if place["wal"] else "a rollback journal",
    )
    yield "  free: %s of %s; folders below: %d, of which inotify watches at most %s" % (
        _size(place["free_bytes"]),
        _size(place["total_bytes"]),
        place["folders"],
        _count(watches),
    )


def _count(number: Optional[int]) -> str:
    return "unknown" if number is None else "%d" % number


def _size(size_bytes: Optional[int]) -> str:
    return "unknown" if size_bytes is None else size_text(size_bytes)
