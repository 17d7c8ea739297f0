"""Routes of the files of a run, those in its folder byte for byte and the reports made on demand,
and of the page with the difference of two runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from typing import Any, AsyncIterator, BinaryIO, Dict, List, Optional

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..errors import GoldwatchError
from ..pages.service import difference_navigation
from ..reports.csv_tables import STEP_OP_FILE, is_table
from ..reports.report_formats import REPORT_FORMATS
from ..reports.result_json import RESULT_FILE
from ..store.store_reader import StoreReader
from .answers import Problem, json_answer
from .job_request import REPORT_NAME
from .reports_on_demand import MADE, Reports, make_page
from .runs import Run, Runs

_TYPES = {each.ending: each.media_type for each in REPORT_FORMATS.values()}
_WINDOW_BYTES = 1 << 18
_POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"&]+)">')
_NAME = re.compile(r"[^!#$&+.\w^`|~-]", re.A)


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

    async def list(self, request: Request) -> Response:
        """Answer ``{"files": [{"name", …}]}``."""
        run = await run_in_threadpool(self.runs.find, request.path_params["run"])
        return json_answer({"files": await run_in_threadpool(_files, run)})

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
