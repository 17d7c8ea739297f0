"""Routes of the files of a run, those in its folder byte for byte and the reports made on demand,
and of the page with the difference of two runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import subprocess
import sys
import tempfile
from typing import Any, AsyncIterator, BinaryIO, Dict, List, Mapping, Optional, Sequence, Tuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..base.errors import GoldwatchError
from ..base.safe_reading import open_input
from ..reports.csv_tables import STEP_OP_FILE, is_table
from ..reports.pages.service import difference_navigation
from ..reports.report_formats import REPORT_FORMATS
from ..reports.result_json import RESULT_FILE
from ..store.store_reader import StoreReader, signature
from .answers import Problem, disk_full, json_answer
from .job_request import REPORT_NAME
from .runs import Run, Runs

_TYPES = {each.ending: each.media_type for each in REPORT_FORMATS.values()}
_WINDOW_BYTES = 1 << 18
_POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"&]+)">')
_NAME = re.compile(r"[^!#$&+.\w^`|~-]", re.A)

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
                # No request waits for it any more.
                if self._reports.get(key) is report:
                    del self._reports[key]
                task = report.task
                if not task.cancel() and not task.cancelled() and task.exception() is None:
                    task.result().close()

    async def _make(self, run: Run, name: str, report: _Report) -> BinaryIO:
        # A semaphore belongs to the event loop in which it is created.
        self._turn = self._turn or asyncio.Semaphore(_AT_ONCE)
        async with self._turn:
            report.store = await run_in_threadpool(signature, run.path)
            return await make_report(run, name)


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
    # By its words: report has no form of errors for programs, since a file is what it is asked for,
    # and exit code 4 is not that of a full disk alone.
    if ": the disk is full" in messages:
        return disk_full()
    match = re.match(r"goldwatch: (.+)\n(?:  hint: (.+)\n)?\Z", messages)
    return (
        Problem(409, match.group(1), match.group(2))
        if match
        else Problem(409, "the report could not be made", "ask again")
    )


class DiffRoutes:
    """Serves the page that shows two runs side by side."""

    def __init__(self, runs: Runs, prefix: str) -> None:
        self.runs = runs
        self.prefix = prefix
        self._turn: Optional[asyncio.Semaphore] = None

    async def page(self, request: Request) -> Response:
        """Answer the page that ``goldwatch diff BEFORE AFTER`` writes; one at a time is made."""
        before, after = [
            await run_in_threadpool(self.runs.find, request.path_params[name])
            for name in ("before", "after")
        ]
        if before.path == after.path:
            raise Problem(400, "both are the same run", "choose two runs")
        # A semaphore belongs to the event loop in which it is created.
        self._turn = self._turn or asyncio.Semaphore(1)
        async with self._turn:
            stream = await make_page(["diff", before.path, after.path, "--html"], "diff.html")
        with stream:
            text = (await run_in_threadpool(stream.read)).decode("utf-8")
        text = text.replace(
            "</header>", difference_navigation(self.prefix, before.id, after.id) + "</header>", 1
        )
        # The page's own policy names its one script and one style sheet; nothing else may run.
        policy = _POLICY.search(text)
        assert policy is not None
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": policy.group(1) + "; frame-ancestors 'none'",
        }
        return Response(text, headers=headers)


class FileRoutes:
    """Serves the files of runs."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._reports = Reports()

    def list(self, request: Request) -> Response:
        """Answer ``{"files": [{"name", …}]}``."""
        return json_answer({"files": _files(self.runs.find(request.path_params["run"]))})

    async def one(self, request: Request) -> Response:
        """Answer a file as a download."""
        run = await run_in_threadpool(self.runs.find, request.path_params["run"])
        name = request.path_params["name"]
        files = await run_in_threadpool(_files, run)
        file = next((file for file in files if file["name"] == name), None)
        if file is None:
            raise Problem(
                404, "the run has no such file", "GET /api/v1/runs/{run}/files lists them"
            )
        if file["size"] is None:
            try:
                stream = await self._reports.ask(run, name)
            except asyncio.CancelledError:
                # An answer is cancelled only when the server ends.
                raise Problem(
                    503, "the service ends", "ask again", headers={"Connection": "close"}
                ) from None
        else:
            stream = await run_in_threadpool(_opened, run, name)
        size = os.fstat(stream.fileno()).st_size
        headers = {
            "Content-Type": _TYPES.get(os.path.splitext(name)[1], "application/octet-stream"),
            "Content-Length": str(size),
            "Content-Disposition": 'attachment; filename="%s"' % _NAME.sub("_", name),
        }
        return StreamingResponse(_pieces(stream, size), headers=headers)


def _files(run: Run) -> List[Dict[str, Any]]:
    """Return the files of a run that can be downloaded: only names found in its folder, never those
    of a request.
    """
    names: List[str] = [RESULT_FILE]
    try:
        with StoreReader(run.path) as store:
            tables = store.fact("result_files")
            names += [STEP_OP_FILE] * store.has_hosts
        names += (
            [name for name in tables if isinstance(name, str) and is_table(name)]
            if isinstance(tables, list)
            else []
        )
    except GoldwatchError:
        # Files of a run whose store is damaged can still be downloaded.
        pass
    with os.scandir(run.path) as entries:
        names += sorted(
            entry.name
            for entry in entries
            if REPORT_NAME.match(entry.name) and entry.name not in MADE
        )
    files = []
    for name in dict.fromkeys(names):
        try:
            status = os.lstat(os.path.join(run.path, name))
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            files.append({"name": name, "size": status.st_size})
    # A run that goes on, or was killed, has no result.json yet.
    there = {file["name"] for file in files}
    return files + [{"name": name, "size": None} for name in MADE if name not in there]


def _opened(run: Run, name: str) -> BinaryIO:
    try:
        # Open the folder first: a link that has replaced it since the run was found is not
        # followed.
        folder = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.path.realpath("/proc/self/fd/%d" % folder) != run.path:
                raise FileNotFoundError
            fd = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
            )
        finally:
            os.close(folder)
    except OSError:
        raise Problem(404, "the run has no such file") from None
    stream = os.fdopen(fd, "rb")
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        stream.close()
        raise Problem(404, "the run has no such file")
    return stream


async def _pieces(stream: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """Yield ``size`` bytes of a file and close it; if it has shrunk meanwhile the connection is
    closed.
    """
    try:
        for start in range(0, size, _WINDOW_BYTES):
            piece = await run_in_threadpool(
                os.pread, stream.fileno(), min(size - start, _WINDOW_BYTES), start
            )
            if not piece:
                return
            yield piece
    finally:
        stream.close()
