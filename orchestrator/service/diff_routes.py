"""The page of two runs' difference, made when it is asked for."""

from __future__ import annotations

import asyncio
import re
from typing import List, Optional

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..pages.service import difference_navigation
from .answers import Problem
from .making import make_page
from .runs import Runs

_FORMAT = "html"
_POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"&]+)">')


class DiffRoutes:
    """Answers who wants to see two runs side by side."""

    def __init__(self, runs: Runs, prefix: str) -> None:
        self.runs = runs
        self.prefix = prefix
        self._turn: Optional[asyncio.Semaphore] = None

    def routes(self) -> List[Route]:
        """Return the routes."""
        return [Route("/diff/{before}/{after}", self.page, methods=["GET"])]

    async def page(self, request: Request) -> Response:
        """Answer the page that ``goldwatch diff BEFORE AFTER`` writes; one is made at a time."""
        before, after = [
            await run_in_threadpool(self.runs.find, request.path_params[name])
            for name in ("before", "after")
        ]
        if before.path == after.path:
            raise Problem(400, "both are the same run", "choose two runs")
        # A semaphore belongs to the loop that runs when it is made.
        self._turn = self._turn or asyncio.Semaphore(1)
        async with self._turn:
            stream = await make_page(["diff", before.path, after.path, "--" + _FORMAT], "diff.html")
        with stream:
            text = (await run_in_threadpool(stream.read)).decode("utf-8")
        text = text.replace(
            "</header>", difference_navigation(self.prefix, before.id, after.id) + "</header>", 1
        )
        # The page names its one script and its one style sheet itself; nothing else may run.
        policy = _POLICY.search(text)
        assert policy is not None
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": policy.group(1) + "; frame-ancestors 'none'",
        }
        return Response(text, headers=headers)
