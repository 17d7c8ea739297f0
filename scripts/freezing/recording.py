"""A pytest plugin: keeps the inputs and the words of each command that the tests run.

    FROZEN_RECORDING=DIR FROZEN_CASES=NAME.json python -m pytest -p freezing.recording tests/…

A folder below pytest's temporary one, with all commands that were run on it in this order, is one
case: ``DIR/inputs/CASE/STEP/`` holds the files that are new or other since the step before,
``DIR/NAME.json`` the words. What a command wrote itself is no input of the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(CHECKOUT, "tests", "data")
COMMANDS = (
    "compare",
    "compare-op",
    "replay",
    "cure",
    "diff",
    "report",
    "convert",
    "inspect",
    "submodel",
)
VARYING = ("test_file_names_that_are_too_long_are_hashed_with_a_mapping",)
"""Tests of names that are hashes of the present time."""
MOST_BYTES = 8 << 20
"""Inputs of a case."""

sys.path.insert(0, os.path.join(CHECKOUT, "tests", "helpers"))


class Recorder:
    """Cases by the folder that they are about."""

    def __init__(self, out):
        self.out = out
        self.basetemp = None
        self.test = ""
        self.cases = {}
        self.states = {}
        self.closed = set()
        self.depth = 0
        self.left_out = []

    def holds(self, path):
        """Whether a path is below pytest's folder."""
        return os.path.abspath(path).startswith(str(self.basetemp) + os.sep)

    def around(self, words, cwd, run):
        """Record a command, run it, and note what is there then."""
        if self.depth or self.basetemp is None or self.test.endswith(VARYING):
            return run()
        root = self._root(words, cwd)
        self.depth += 1
        try:
            if root is not None and root not in self.closed:
                self._record(root, words, cwd)
            return run()
        finally:
            self.depth -= 1
            if root is not None:
                self.states[root] = state(root)

    def _root(self, words, cwd):
        """The one folder below pytest's that a command is about."""
        roots = set()
        for text in [os.path.abspath(str(cwd)), *words]:
            for piece in text.split(self.basetemp + os.sep)[1:]:
                roots.add(os.path.join(self.basetemp, piece.split(os.sep)[0].split(":")[0]))
        return roots.pop() if len(roots) == 1 else None

    def _record(self, root, words, cwd):
        case = self.cases.get(root)
        before, now = self.states.get(root, {}), state(root)
        fresh = [path for path, stamp in now.items() if before.get(path) != stamp]
        size = sum(os.lstat(os.path.join(root, path)).st_size for path in fresh)
        foreign = any(".sqlite" in path for path in fresh)
        if (
            foreign
            or size > MOST_BYTES
            or not all(self._can_be_copied(root, path) for path in fresh)
        ):
            self.closed.add(root)
            self.left_out.append((self.test, words))
            return
        if case is None:
            case = self.cases[root] = {
                "name": self._new_name(),
                "steps": [],
            }
        step = {"run": [self._placed(word, root) for word in words]}
        folder = os.path.join(self.out, "inputs", case["name"], str(len(case["steps"])))
        if fresh:
            step["files"] = os.path.relpath(folder, self.out)
        for path in fresh:
            copy(
                os.path.join(root, path),
                os.path.join(folder, path),
                lambda text: self._placed(text, root),
            )
        gone = sorted(path for path in before if path not in now)
        if gone:
            step["gone"] = gone
        inside = os.path.abspath(str(cwd))
        step["in"] = (
            os.path.relpath(inside, root) if inside.startswith(self.basetemp + os.sep) else "."
        )
        case["steps"].append(step)

    def _new_name(self):
        """The test's, numbered where it has several folders."""
        name, known = "tests/" + short(self.test), {case["name"] for case in self.cases.values()}
        numbers = ("%s-%d" % (name, number) for number in range(2, len(known) + 3))
        return name if name not in known else next(one for one in numbers if one not in known)

    @staticmethod
    def _can_be_copied(root, path):
        whole = os.path.join(root, path)
        return os.path.isfile(whole) and not os.path.islink(whole) and os.access(whole, os.R_OK)

    @staticmethod
    def _placed(text, root):
        return text.replace(root, "{root}").replace(DATA, "{data}")

    def write(self):
        """Write the cases."""
        with open(
            os.path.join(self.out, os.environ["FROZEN_CASES"]), "w", encoding="utf-8"
        ) as stream:
            json.dump(list(self.cases.values()), stream, indent=1)


def short(test):
    """A test's name that a file may have."""
    name = test.rpartition("tests/")[2].replace(".py::", "-").replace("/", "-")
    return "".join(letter if letter.isalnum() or letter in "-_" else "." for letter in name)[:100]


def state(root):
    """Size and time of each file below a folder."""
    there = {}
    for base, _, names in os.walk(root):
        for name in names:
            path = os.path.join(base, name)
            status = os.lstat(path)
            there[os.path.relpath(path, root)] = (status.st_size, status.st_mtime_ns)
    return there


def copy(source, target, placed):
    """Copy a file with its times; places in a json become placeholders."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target)
    if source.endswith(".json"):
        with open(source, encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read()
        if placed(text) != text:
            with open(target, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(placed(text))
            shutil.copystat(source, target)


def words_of(options):
    """The command line that means the same as options of compare_folders; None: there is none."""
    plain = type(options)(options.target, options.golden, options.out)
    if options.limits != plain.limits and not options.exact:
        return None
    if options.plan is not None or options.outputs is not None or options.metric_arguments:
        return None
    words = [
        "goldwatch",
        "compare",
        options.target,
        options.golden,
        "-o",
        options.out,
        "--jobs",
        "1",
    ]
    for name, option in (
        ("model", "-f"),
        ("time", "--time"),
        ("quantisation", "--quant-json"),
        ("unfused", "--unfused-om"),
        ("custom", "--custom"),
        ("original", "--original"),
    ):
        if getattr(options, name) is not None:
            words += [option, str(getattr(options, name))]
    for name in ("overflow", "mapping", "allow_missing", "strict", "check_addresses", "exact"):
        if getattr(options, name):
            words.append("--" + name.replace("_", "-"))
    for name in ("golden_steps", "recompute", "max_elements"):
        if getattr(options, name) != getattr(plain, name) and not (
            options.exact and name == "recompute"
        ):
            words += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    if options.metrics != plain.metrics and not options.exact:
        words += ["--metrics", ",".join(options.metrics)]
    if options.op_range:
        words += ["--range", ",".join(str(number) for number in options.op_range)]
    if options.select:
        words += ["--select", ",".join("%d-%d" % span for span in options.select)]
    return words


RECORDER = Recorder(os.environ["FROZEN_RECORDING"])


def wrap():
    """Let the tests' own functions record."""
    import in_process

    from goldwatch.run.compare_folders import compare_folders

    run_here = in_process.run_here

    def recorded_run(words, cwd="."):
        texts = [str(word) for word in words]
        plain = texts[2:] if texts[:2] == [sys.executable, "-m"] else texts
        if len(plain) < 2 or plain[0] != "goldwatch" or plain[1] not in COMMANDS:
            return run_here(words, cwd)
        return RECORDER.around(plain, cwd, lambda: run_here(words, cwd))

    def recorded_compare(options, jobs=1, force=False, *more, **named):
        words = words_of(options)
        if words is None or not RECORDER.holds(options.out):
            return compare_folders(options, jobs, force, *more, **named)
        words += ["--force"] * force
        return RECORDER.around(
            words, ".", lambda: compare_folders(options, jobs, force, *more, **named)
        )

    in_process.run_here = recorded_run
    sys.modules[compare_folders.__module__].compare_folders = recorded_compare


wrap()


def pytest_runtest_setup(item):
    """Note whose commands come now."""
    RECORDER.test = item.nodeid
    RECORDER.basetemp = str(item.config._tmp_path_factory.getbasetemp())


def pytest_sessionfinish():
    """Write what was recorded."""
    RECORDER.write()
    print("recorded %d cases, left out %d" % (len(RECORDER.cases), len(RECORDER.left_out)))
