"""What a run left, in a form that two runs can be compared in."""

from __future__ import annotations

import hashlib
import os
import re

LEFT_OUT = re.compile(r"(\.sqlite(-\w+)?|\.lock|\.html|\.npz)\Z")
"""A store's own form and pages are not frozen here; an npz holds the time."""
MOST = 400_000
"""Characters of a file that are kept; of a longer one the lines' number and hash are."""

VARYING = (
    # (what, what takes its place, why it differs between two runs of the same program)
    (r"{work}/\d{4}", "{root}", "each case runs in a folder of its own"),
    (r"{work}", "{work}", "which is below a temporary one"),
    (r"{data}", "{data}", "where the frozen inputs are"),
    (r"{installed}", "{installed}", "where goldwatch is installed"),
    (r"{python}", "{python}", "the Python that runs it, which commands to type name"),
    (
        r"((?:result|mapping)_)20[2-9]\d{11}(?=\.csv)",
        r"\1{time}",
        "tables are named for their start",
    ),
    (
        r"\b1(?:7[89]|[89]\d)\d{13}\b",
        "{microseconds}",
        "what is made in the run is named for that time; times of the frozen inputs are before",
    ),
    (
        r"(\"(?:started|finished|created|updated|written|at|time|ended)\": \")20[2-9]\d-[^\"]*",
        r"\1{time}",
        "when it ran",
    ),
    (
        r"20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
        "{time}",
        "when it ran, and when files were made",
    ),
    (r"(timestamp=\")[^\"]*", r"\1{time}", "when it ran, in JUnit XML"),
    (r"(\btime=\")[\d.]+", r"\1{seconds}", "durations in JUnit XML"),
    (r"(hostname=\"|\"host(?:name)?\": \")[^\"]+", r"\1{host}", "the machine's name"),
    (r"(\"(?:\w*_s|seconds|elapsed|duration)\": )[\d.e+-]+", r"\1{seconds}", "durations"),
    (r"\b(?:in|after) \d+(?:\.\d+)? (?:s|ms|seconds)\b", "in {seconds}", "durations in sentences"),
    (r"\.goldwatch-\d+-[0-9a-f]+\.tmp", "{temporary}", "names of temporary files are random"),
    (r"\bpid \d+", "pid {pid}", "numbers of processes"),
    (r"(\"pid\": )\d+", r"\1{pid}", "numbers of processes"),
)


CONTROLS = re.compile("[\0-\x08\x0e-\x1f]")
"""What no text holds."""
CUT = re.compile(r"(dump_result_)(20\d\d(?:_\d\d){5})")
"""Cuts of a model are named for their time; of several in a run the first is called 1."""
WHILE_WATCHING = re.compile(r"(done|pass|fail|FAIL|not_compared|expected_absent|gone|again) ")
"""What a watch says of each file that comes: how often and when depends on when it looks."""


class Normaliser:
    """Puts placeholders for what differs between two runs of one program, by the tables above."""

    def __init__(self, work, data, python, installed):
        places = {"work": work, "data": data, "python": python, "installed": installed}
        self._rules = []
        for pattern, instead, _ in VARYING:
            for name, place in places.items():
                pattern = pattern.replace("{%s}" % name, re.escape(place))
            self._rules.append((re.compile(pattern), instead))

    def text(self, text):
        for pattern, instead in self._rules:
            text = pattern.sub(instead, text)
        return text

    @staticmethod
    def watched(stderr):
        """What a watch said on stderr but for the files' own lines."""
        return "".join(line for line in stderr.splitlines(True) if not WHILE_WATCHING.match(line))

    @staticmethod
    def case(came):
        """Number the cuts in all texts of a case and their names."""
        times = sorted(
            {found[1] for item in came.items() for text in item for found in CUT.findall(text)}
        )
        if not times:
            return came

        def numbered(text):
            return CUT.sub(lambda found: "%s{%d}" % (found[1], times.index(found[2]) + 1), text)

        return {numbered(name): numbered(text) for name, text in came.items()}


def state(root):
    """Size and time of each file below a folder; the time of a store's copy is no matter."""
    there = {}
    for base, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(base, name)
            status = os.lstat(path)
            there[os.path.relpath(path, root)] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return there


def collect(root, before, normal):
    """The files that are new or other since ``before``: name -> text; and which are gone."""
    now = state(root)
    kept = {}
    for path, stamp in now.items():
        if before.get(path) == stamp or LEFT_OUT.search(path):
            continue
        with open(os.path.join(root, path), "rb") as stream:
            data = stream.read()
        name = normal.text(path)
        kept[name] = described(data, normal)
    gone = [normal.text(path) for path in before if path not in now and not LEFT_OUT.search(path)]
    # Within a second a table of the run before has the name of the new one.
    return kept, [path for path in gone if "{time}" not in path]


def described(data, normal):
    """A text as it is, of other bytes the hash."""
    try:
        text = data.decode("utf-8")
    except ValueError:
        text = "\0"
    # A small message of protobuf may decode as well.
    if CONTROLS.search(text):
        return "%d bytes, sha256 %s\n" % (len(data), hashlib.sha256(data).hexdigest())
    return bounded(normal.text(text))


def bounded(text):
    if len(text) <= MOST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    head = text[: MOST // 10]
    return "%s\n… %d lines in all, sha256 %s\n" % (head, text.count("\n"), digest)
