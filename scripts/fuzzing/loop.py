"""Runs cases in forked children with bounded memory and time, so that one that dies, hangs or fills
the memory is known by its seed.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
import os
import pkgutil
import random
import resource
import select
import shutil
import signal
import sys
import time
import traceback

BATCH = 100
MEMORY_BYTES = 2 << 30
#: Seconds of the processor, and of the clock, that one case may take; a healthy one takes
# hundredths.
CASE_CPU_S = 20
CASE_S = 300


class Hang(BaseException):
    """A case that takes too long; no handler of errors takes it for one of its own."""


def run_case(kind, seed, folder):
    """Run one case in ``folder``, which is made anew; return what is wrong, or None."""
    from .cases import KINDS

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    before = os.getcwd()
    os.chdir(folder)
    signal.setitimer(signal.ITIMER_VIRTUAL, CASE_CPU_S)
    signal.alarm(CASE_S)
    try:
        return KINDS[kind](random.Random("%s-%d" % (kind, seed)), command)
    except Hang as error:
        return "hangs: %s" % error
    except BaseException:
        return traceback.format_exc()[-3000:]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.alarm(0)
        os.chdir(before)


def command(words):
    """Run a command of goldwatch in this process; return its exit code and what it printed."""
    from goldwatch.cli import goldwatch
    from goldwatch.cli.error_handling import run_command

    with open("printed.txt", "wb+") as printed:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in kept:
                os.dup2(printed.fileno(), number)
            try:
                run_command(goldwatch, words)
            except SystemExit as error:
                code = error.code
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
        printed.seek(0)
        return code, printed.read(1 << 20).decode("utf-8", "replace")


def preload():
    """Import what the commands import, once, before anything is forked."""
    for package in (
        "cli",
        "config",
        "tools.convert",
        "tools.inspect",
        "netfiles",
        "run",
        "dumps",
        "model",
        "store",
        "reports",
        "metrics",
        "judging.diagnosis",
        "tensors",
    ):
        path = importlib.import_module("goldwatch." + package).__path__
        for module in pkgutil.iter_modules(path, "goldwatch.%s." % package):
            importlib.import_module(module.name)
    importlib.import_module("goldwatch.schemas.documents")
    importlib.import_module("jsonschema")


def worker(cases, folder, pipe):
    """Run a batch in this (forked) process; tell each case before and after it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, _too_long)
    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(pipe, "w") as out:
        for kind, seed in cases:
            out.write(json.dumps(["begin", kind, seed, None]) + "\n")
            out.flush()
            problem = run_case(kind, seed, folder)
            out.write(json.dumps(["end", kind, seed, problem]) + "\n")
            out.flush()
            if problem:
                return  # what a failed case leaves in the process is not to blame the next one


def _too_long(number, frame):
    raise Hang(
        "more than %d s of the processor or %d s in all, at %s:%d"
        % (CASE_CPU_S, CASE_S, frame.f_code.co_filename, frame.f_lineno)
    )


class Loop:
    """Runs ever new cases in ``jobs`` children at once.

    Parameters
    ----------
    kinds
        Names of kinds; they take turns.
    seed
        Where the seeds begin: case n of a kind has seed ``seed + n``.
    work
        Where cases are made; the input of each that fails is kept in ``work/failures/KIND-SEED``.
    """

    def __init__(self, kinds, seed, work, jobs):
        self.kinds, self.seed, self.work, self.jobs = kinds, seed, work, jobs
        self.done = 0
        self.counts = collections.Counter()
        self.failures = []
        self._next = 0
        self._running = {}

    def run(self, seconds=None, cases=None):
        """Run until the time is over or so many cases are done."""
        end = time.monotonic() + seconds if seconds is not None else float("inf")
        try:
            while True:
                more = time.monotonic() < end and (cases is None or self._next < cases)
                while more and len(self._running) < self.jobs:
                    self._start(BATCH if cases is None else min(BATCH, cases - self._next))
                    more = cases is None or self._next < cases
                if not self._running:
                    return
                self._wait()
        finally:
            for _, pid, _, _ in self._running.values():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _start(self, count):
        batch = [
            (self.kinds[n % len(self.kinds)], self.seed + n // len(self.kinds))
            for n in range(self._next, self._next + count)
        ]
        self._next += count
        self._fork(batch)

    def _fork(self, batch):
        reading, writing = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(reading)
                worker(batch, os.path.join(self.work, "case-%d" % os.getpid()), writing)
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        self._running[reading] = (os.fdopen(reading, "r"), pid, batch, [])

    def _wait(self):
        for descriptor in select.select(list(self._running), [], [], 1.0)[0]:
            stream, pid, batch, told = self._running[descriptor]
            line = stream.readline()
            if line:
                what, kind, seed, problem = json.loads(line)
                told.append((what, kind, seed))
                self.done += what == "end"
                self.counts[kind] += what == "end"
                if what == "end" and self.done % 10000 == 0:
                    print("%d cases, %d failed" % (self.done, len(self.failures)), flush=True)
                if problem:
                    self._failed(kind, seed, problem, pid)
                continue
            stream.close()
            del self._running[descriptor]
            status = os.waitpid(pid, 0)[1]
            if told and told[-1][0] == "begin":
                how = (
                    "signal %d" % (status & 127) if status & 127 else "exit code %d" % (status >> 8)
                )
                self._failed(told[-1][1], told[-1][2], "the process died: %s" % how, pid)
                self.done += 1
                self.counts[told[-1][1]] += 1
            shutil.rmtree(os.path.join(self.work, "case-%d" % pid), ignore_errors=True)
            left = batch[len({(kind, seed) for _, kind, seed in told}) :]
            if left:
                self._fork(left)

    def _failed(self, kind, seed, problem, pid):
        kept = os.path.join(self.work, "failures", "%s-%d" % (kind, seed))
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(os.path.join(self.work, "case-%d" % pid), kept, symlinks=True)
        self.failures.append((kind, seed, problem))
        print(
            "\nFAILED: scripts/fuzz --only %s --case %d\n    input: %s\n    %s"
            % (kind, seed, kept, problem.replace("\n", "\n    ")),
            flush=True,
        )
