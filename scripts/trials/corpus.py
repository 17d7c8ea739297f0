"""Runs goldwatch over folders of other people's files and prints one table: command, outcome, how
many files, what was said.

Scripts and acl.json go through config check, prototxts through golden caffe deinplace, ONNX models
through golden onnx dump --random; models through graph, everything else through inspect. The files
are only read. Ends with 1 where a command ended with a traceback, a signal or not at all; Ctrl-C
ends it with the table so far.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

_SHOWN = 110
_HEAD_BYTES = 65536
_MODELS = (".prototxt", ".onnx", ".pb", ".pbtxt")
_FAULT = re.compile(
    r"^Traceback \(most recent call last\)|this is a fault of goldwatch", re.MULTILINE
)
BROKEN = ("traceback", "signal", "no end")


class Tried(NamedTuple):
    """One command that was run on one file."""

    command: str
    file: str
    outcome: str
    message: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this trial."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", nargs="+", metavar="DIR", help="folders, walked to the bottom")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="commands at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="for one command (default: %(default)s)",
    )
    parser.add_argument(
        "--onnx-python",
        metavar="PATH",
        help="the Python that has onnxruntime, for golden onnx dump",
    )
    parser.add_argument("--files", action="store_true", help="name the files of each row, too")


def main(given: argparse.Namespace) -> int:
    """Run the trial and print its table; return the exit code."""
    files = sorted(path for folder in given.folders for path in files_in(folder))
    if not files:
        sys.stderr.write("no file in %s\n" % ", ".join(given.folders))
        return 2
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(given.jobs) as pool:
        work = [
            (path, words, os.path.join(scratch, str(number)))
            for number, (path, words) in enumerate(
                (path, words) for path in files for words in commands_for(path, given.onnx_python)
            )
        ]
        running = [pool.submit(attempt, one, given.timeout) for one in work]
        tried = []
        try:
            for one in running:
                tried.append(one.result())
        except KeyboardInterrupt:
            for one in running:
                one.cancel()
            print("interrupted after %d of %d commands" % (len(tried), len(running)))
    for line in table(tried, len(files), given.files):
        print(line)
    return 1 if len(tried) < len(work) or any(one.outcome in BROKEN for one in tried) else 0


def files_in(folder: str) -> Iterator[str]:
    """Yield the regular files below a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def commands_for(path: str, onnx_python: Optional[str] = None) -> List[Tuple[str, ...]]:
    """Return the commands that fit a file: words behind ``goldwatch``; OUT stands for a place to
    write to.
    """
    ending = os.path.splitext(path)[1].lower()
    found: List[Tuple[str, ...]] = []
    if ending == ".py" or (ending == ".json" and _is_configuration(path)):
        return [("config", "check", path, "--elsewhere", "--format", "json")]
    if ending == ".prototxt":
        found.append(("golden", "caffe", "deinplace", path, "-o", "OUT"))
    if ending == ".onnx":
        python = () if onnx_python is None else ("--python", onnx_python)
        found.append(("golden", "onnx", "dump", path, "--random", "0", "-o", "OUT", *python))
    if ending in _MODELS or ending == ".json":
        found.append(("graph", path, "-o", "OUT"))
    return found + [("inspect", path)]


def _is_configuration(path: str) -> bool:
    """Tell whether a JSON file looks like a dump configuration rather than a model."""
    with open(path, "rb") as stream:
        head = stream.read(_HEAD_BYTES)
    return (
        re.search(rb'"(?:dump|enable_dump|dump_path)"\s*:', head) is not None
        and re.search(rb'"op"\s*:\s*\[', head) is None
    )


def attempt(work: Tuple[str, Tuple[str, ...], str], timeout_s: float) -> Tried:
    """Run one command; return what came of it."""
    path, words, out = work
    name = " ".join(word for word in words[: words.index(path)])
    arguments = [
        sys.executable,
        "-m",
        "goldwatch",
        *(out if word == "OUT" else word for word in words),
    ]
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Tried(name, path, "no end", "more than %g s" % timeout_s)
    said, errors = (data.decode("utf-8", "replace") for data in (done.stdout, done.stderr))
    if _FAULT.search(errors):
        lines = [line for line in errors.splitlines() if line.strip()]
        return Tried(
            name,
            path,
            "traceback",
            general([line for line in lines if "hint:" not in line][-1], path),
        )
    if done.returncode < 0:
        return Tried(name, path, "signal", "signal %d" % -done.returncode)
    message = (
        _rules(said)
        if name == "config check" and done.returncode in (0, 1)
        else _sentence(errors) or _sentence(said)
    )
    return Tried(name, path, "code %d" % done.returncode, general(message, path))


def _rules(text: str) -> str:
    """Return the rules of the worst findings of config check's JSON."""
    found: Dict[str, List[str]] = collections.OrderedDict(
        (severity, []) for severity in ("error", "warning", "note")
    )
    document: Any = json.loads(text)
    for finding in document["findings"]:
        found[finding["severity"]].append(finding["rule"])
    return next(
        (
            "%s: %s" % (severity, ", ".join(sorted(set(rules))))
            for severity, rules in found.items()
            if rules
        ),
        "clean",
    )


def _sentence(errors: str) -> str:
    """Return the error or problem that a command told, or its first warning; empty when it told
    neither.
    """
    lines = errors.splitlines()
    for start in ("goldwatch: ", "Error: ", "  PROBLEM: ", "warning: "):
        for line in lines:
            if line.startswith(start):
                return line[len(start) :] if start != "warning: " else line
    return ""


def general(message: str, path: str) -> str:
    """Return a message without what differs from file to file: paths, names in quotes, numbers."""
    text = message.replace(path, "FILE").replace(os.path.basename(path), "FILE")
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    text = re.sub(r"\d+", "N", text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def table(tried: Sequence[Tried], files: int, with_files: bool = False) -> List[str]:
    """Return the lines of the table, by command, what is broken first, then the most frequent."""
    groups: Dict[Tuple[str, str, str], List[str]] = {}
    for one in tried:
        groups.setdefault((one.command, one.outcome, one.message), []).append(one.file)
    lines = ["| command | outcome | files | message |", "|---|---|---|---|"]
    for (command, outcome, message), members in sorted(groups.items(), key=_order):
        lines.append(
            "| %s | %s | %d | %s |" % (command, outcome, len(members), message.replace("|", "\\|"))
        )
        lines += ["|  |  |  | %s |" % member for member in sorted(members)] if with_files else []
    counts = [
        "%d ended in a %s" % (sum(one.outcome == kind for one in tried), kind)
        for kind in BROKEN[:2]
    ]
    counts.append("%d did not end" % sum(one.outcome == BROKEN[2] for one in tried))
    return [*lines, "", "%d files, %d commands: %s" % (files, len(tried), ", ".join(counts))]


def _order(group: Any) -> Tuple[str, bool, int, str]:
    (command, outcome, message), members = group
    return command, outcome not in BROKEN, -len(members), message
