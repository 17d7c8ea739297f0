"""Reports made on demand: one at a time, and each once for all who wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from typing import Any, BinaryIO, Dict, List, Mapping, Optional, Sequence, Tuple

from starlette.concurrency import run_in_threadpool

from ..filesystem.safe_reading import open_input
from ..reports.report_formats import REPORT_FORMATS
from ..store.store_reader import signature
from .answers import Problem, disk_full
from .runs import Run

MADE: Mapping[str, str] = {
    each.served_as: name for name, each in REPORT_FORMATS.items() if each.served_as
}
"""What is made from the store when it is asked for, with the name of its format."""

_AT_ONCE = 1


class _Report:
    """A report that is being made.

    Attributes
    ----------
    store
        The signature of the run's store when it was begun; None: it has not begun.
    waiting
        How many requests wait for it.
    """

    def __init__(self) -> None:
        self.store: Any = None
        self.waiting = 0
        self.task: Optional["asyncio.Task[BinaryIO]"] = None


class Reports:
    """Makes reports."""

    def __init__(self) -> None:
        self._turn: Optional[asyncio.Semaphore] = None
        self._reports: Dict[Tuple[str, str], _Report] = {}

    @property
    def pending(self) -> List[_Report]:
        """The reports that are being made."""
        return list(self._reports.values())

    async def ask(self, run: Run, name: str) -> BinaryIO:
        """Return a report as an open file whose position is shared; one that is being made is used
        if the store has not changed.

        Raises
        ------
        Problem
            The command refuses.
        """
        key = (run.path, name)
        store = await run_in_threadpool(signature, run.path)
        report = self._reports.get(key)
        if report is None or report.task is None or report.store not in (None, store):
            report = self._reports[key] = _Report()
            report.task = asyncio.get_running_loop().create_task(self._make(run, name, report))
        report.waiting += 1
        try:
            return os.fdopen(os.dup((await asyncio.shield(report.task)).fileno()), "rb")
        finally:
            report.waiting -= 1
            if not report.waiting:
                self._drop(key, report, report.task)

    async def _make(self, run: Run, name: str, report: _Report) -> BinaryIO:
        # A semaphore belongs to the event loop in which it is created.
        self._turn = self._turn or asyncio.Semaphore(_AT_ONCE)
        async with self._turn:
            report.store = await run_in_threadpool(signature, run.path)
            return await make_report(run, name)

    def _drop(self, key: Tuple[str, str], report: _Report, task: "asyncio.Task[BinaryIO]") -> None:
        """Discard a report that no request waits for any more."""
        if self._reports.get(key) is report:
            del self._reports[key]
        if not task.cancel() and not task.cancelled() and task.exception() is None:
            task.result().close()


async def make_report(run: Run, name: str) -> BinaryIO:
    """Return a report as an open file that has been unlinked."""
    return await make_page(["report", run.path, "--" + MADE[name]], name)


async def make_page(words: Sequence[str], name: str) -> BinaryIO:
    """Return the file that a command writes to the path in its last word, open and unlinked.

    The command itself makes it, in a process of its own: that of a large run takes seconds and much
    memory, which must not slow down other requests.
    """
    with tempfile.TemporaryDirectory(prefix="goldwatch-") as folder:
        path = os.path.join(folder, name)
        # An empty current folder, because modules are looked for there first.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "goldwatch", *words, path, "-q",
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            _, messages = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
            raise
        if not os.path.isfile(path):
            raise _refusal(messages.decode("utf-8", "replace"))
        return open_input(path)


def _refusal(messages: str) -> Problem:
    """Return the command's error as a refusal; an internal error is not shown."""
    if ": the disk is full" in messages:
        return disk_full()
    match = re.match(r"goldwatch: (.+)\n(?:  hint: (.+)\n)?\Z", messages)
    return (
        Problem(409, match.group(1), match.group(2))
        if match
        else Problem(409, "the report could not be made", "ask again")
    )
