"""Runs a case in a fresh copy of its inputs and returns what came of it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

from freezing.results import collect, state

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 300
REPORTING = ("compare", "replay", "watch", "run")
"""Commands whose JUnit XML and Markdown are wanted besides, where a case does not ask for them."""


def environment(work):
    """The environment of all commands: the same whoever starts them."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    temporary = os.path.join(work, "tmp")
    os.makedirs(temporary, exist_ok=True)
    return dict(
        kept,
        LANG="C.UTF-8",
        TZ="UTC",
        TMPDIR=temporary,
        OPENBLAS_NUM_THREADS="1",
        OMP_NUM_THREADS="1",
        PYTHONDONTWRITEBYTECODE="1",
    )


class Runner:
    """One process that forks the commands of one goldwatch, one after the other."""

    def __init__(self, python, work, frozen):
        self.python, self.work, self.frozen = python, work, frozen
        self.environment = environment(work)
        self._process = subprocess.Popen(
            [python, os.path.join(HERE, "runner.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
            env=self.environment,
            cwd=work,
        )

    def close(self):
        self._process.stdin.close()
        self._process.wait()

    def run(self, words, folder, streams):
        """Return the exit code, stdout and stderr of a command."""
        paths = {name: streams + "." + name for name in ("stdout", "stderr")}
        task = dict(paths, words=words, patience=PATIENCE_S)
        task["in"] = folder
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(
                "frozen_results: the runner ended; is goldwatch installed in %s?" % self.python
            )
        return [json.loads(answer), *(take(path) for path in paths.values())]

    def case(self, number, case, normal):
        """Return what a case came to: file name -> text."""
        root = os.path.join(self.work, "%04d" % number)
        os.makedirs(root)
        came = {}
        try:
            for step_number, step in enumerate(case["steps"]):
                self._step(root, case, step, "%02d/" % step_number, normal, came)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        return normal.case(came)

    def _step(self, root, case, step, prefix, normal, came):
        if "files" in step:
            bring(os.path.join(self.frozen, step["files"]), root, os.path.join(self.frozen, "data"))
        for path in step.get("gone", ()):
            if os.path.exists(os.path.join(root, path)):
                os.remove(os.path.join(root, path))
        folder = os.path.normpath(os.path.join(root, step.get("in", ".")))
        os.makedirs(folder, exist_ok=True)
        words = [self._word(word, root, folder) for word in step["run"]]
        words += reports(words, os.path.relpath(root, folder))
        before = state(root)
        streams = os.path.join(self.work, os.path.basename(root))
        if "arrive" in step:
            code, out, err = Watch(self, root, folder, words, step, streams).run()
            err = normal.watched(err)
            # What came is no result.
            before = dict(state(os.path.join(root, step["into"])), **before)
            came_in = step["into"] + os.sep
            kept, gone = collect(root, before, normal)
            kept = {path: text for path, text in kept.items() if not path.startswith(came_in)}
        elif "kill" in step:
            code, out, err = killed(self, folder, words, step, streams)
            kept, gone = collect(root, before, normal)
        else:
            code, out, err = self.run(words, folder, streams)
            kept, gone = collect(root, before, normal)
        came[prefix + "command"] = normal.text(" ".join(words)) + "\n"
        came[prefix + "exit"] = "%s\n" % code
        came[prefix + "stdout"] = normal.text(out)
        came[prefix + "stderr"] = normal.text(err)
        if gone:
            came[prefix + "gone"] = "\n".join(gone) + "\n"
        for path, text in kept.items():
            came[prefix + "files/" + path] = text

    def _word(self, word, root, folder):
        """A word with its places; the case's are relative: no message depends on their length."""
        near = os.path.relpath(root, folder)
        word = word.replace("{root}/", "" if near == "." else near + "/").replace("{root}", near)
        return word.replace("{data}", os.path.join(self.frozen, "data"))

    def start(self, words, folder, streams, mode="wb"):
        """Start a command as a user does, in a process (and a group) of its own."""
        with open(streams + ".stdout", mode) as out, open(streams + ".stderr", mode) as err:
            words = [self.python, "-m", "goldwatch", *words[1:]]
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=self.environment,
                start_new_session=True,
            )


class Watch:
    """A watcher, and files that arrive in pieces, in a shuffled order; where a case wants that it
    is killed in the middle and started again.
    """

    def __init__(self, runner, root, folder, words, step, streams):
        self.runner, self.root, self.folder, self.words = runner, root, folder, words
        self.step, self.streams = step, streams
        self.random = random.Random(step["seed"])

    def run(self):
        source = os.path.join(self.root, self.step["arrive"])
        target = os.path.join(self.root, self.step["into"])
        files = sorted(state(source))
        self.random.shuffle(files)
        process = self._start()
        for number, path in enumerate(files):
            if self.step.get("kill") and number == len(files) // 2:
                wait_until(lambda: rows(self.root) > 0, process)
                stop(process)
                process = self._start()
            self._write(os.path.join(source, path), os.path.join(target, path))
        if "expect-all" not in " ".join(self.words):
            settle(self.root, process)
            process.send_signal(signal.SIGINT)
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            stop(process)
            code = "no end"
        return [code, take(self.streams + ".stdout"), take(self.streams + ".stderr")]

    def _start(self):
        process = self.runner.start(self.words, self.folder, self.streams)
        wait_until(lambda: "watching " in look(self.streams + ".stderr"), process)
        return process

    def _write(self, source, target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as stream:
            data = stream.read()
        piece = max(1, len(data) // 3)
        for start in range(0, max(1, len(data)), piece):
            with open(target, "ab") as stream:
                stream.write(data[start : start + piece])
            time.sleep(0.002 * self.random.random())


def killed(runner, folder, words, step, streams):
    """A command killed in the middle, and the same once more; return what the second one said."""
    process = runner.start(words, folder, streams)
    wait_until(lambda: rows(folder) >= step["kill"] or process.poll() is not None, process)
    stop(process)
    return runner.run(words, folder, streams)


def rows(folder):
    """How many rows the store below a folder has by now; 0 while there is none.

    Where its tables have other names a store that is there is enough: results do not depend on when
    a command is killed.
    """
    path = os.path.join(folder, "out", "run.sqlite")
    if not os.path.exists(path):
        return 0
    try:
        connection = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=10)
        try:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if tables and "row" not in tables:
                return sys.maxsize
            return connection.execute("SELECT count(*) FROM row").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error:
        return 0


def settle(root, process):
    """Wait until nothing has been stored for a while."""
    wal = os.path.join(root, "out", "run.sqlite-wal")
    quiet, before = 0, None
    while quiet < 5 and process.poll() is None:
        now = os.stat(wal).st_mtime_ns if os.path.exists(wal) else None
        quiet = quiet + 1 if now == before else 0
        before = now
        time.sleep(0.1)


def wait_until(condition, process):
    end = time.monotonic() + PATIENCE_S
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def stop(process):
    """SIGKILL to a command and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    process.wait()


def bring(source, target, data):
    """Copy files with their times over what is there."""
    for base, _, names in os.walk(source):
        below = os.path.join(target, os.path.relpath(base, source))
        os.makedirs(below, exist_ok=True)
        for name in names:
            whole = os.path.join(below, name)
            shutil.copy2(os.path.join(base, name), whole)
            if name.endswith(".json"):
                place(whole, target, data)


def place(path, root, data):
    """Put a case's folder, and that of the tests' data, into the places of a json."""
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        text = stream.read()
    placed = text.replace("{root}", root).replace("{data}", data)
    if placed != text:
        status = os.stat(path)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(placed)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def reports(words, near):
    """Options that add the reports which a command does not write by itself."""
    if len(words) < 2 or words[1] not in REPORTING or "--" in words:
        return []
    more = []
    for option, name in (("--junit", "frozen.xml"), ("--markdown", "frozen.md")):
        if option not in words:
            more += [option, os.path.normpath(os.path.join(near, name))]
    return more


def look(path):
    with open(path, encoding="utf-8", errors="backslashreplace") as stream:
        return stream.read()


def take(path):
    text = look(path)
    os.remove(path)
    return text
