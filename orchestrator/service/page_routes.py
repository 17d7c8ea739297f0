"""The pages: shells that hold no data and so open from anywhere, their scripts and styles."""

from __future__ import annotations

from typing import List

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..pages.service import jobs_page, list_page, run_page, static_files
from .answers import Problem
from .guard import PAGE_POLICY

_PAGE = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": PAGE_POLICY}


class PageRoutes:
    """Answers browsers."""

    def routes(self) -> List[Route]:
        """Return the routes."""
        return [
            Route("/", self.list, methods=["GET"]),
            Route("/jobs", self.jobs, methods=["GET"]),
            Route("/runs/{run}", self.run, methods=["GET"]),
            Route("/static/{name}", self.static, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Response:
        """Answer the page of all runs."""
        return Response(list_page(), headers=_PAGE)

    async def jobs(self, request: Request) -> Response:
        """Answer the page of all jobs."""
        return Response(jobs_page(), headers=_PAGE)

    async def run(self, request: Request) -> Response:
        """Answer the page of a run, whether there is one or not: its script asks."""
        return Response(run_page(), headers=_PAGE)

    async def static(self, request: Request) -> Response:
        """Answer a script or a style sheet."""
        kind, text = static_files().get(request.path_params["name"], ("", ""))
        if not kind:
            raise Problem(404, "there is no such file")
        return Response(text, headers={"Content-Type": kind, "Content-Security-Policy": PAGE_POLICY})
