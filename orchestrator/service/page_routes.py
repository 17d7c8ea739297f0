"""The pages: shells that hold no data and so open from anywhere, their scripts and styles."""

from __future__ import annotations

from typing import Awaitable, Callable, List

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..pages.service import jobs_page, list_page, run_page, static_files
from .answers import Problem
from .guard import PAGE_POLICY

_PAGE = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": PAGE_POLICY}


def page_routes(prefix: str) -> List[Route]:
    """Return the routes of the pages of a service whose paths have a prefix."""

    def page(text: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return Response(text, headers=_PAGE)

        return answer

    return [
        Route("/", page(list_page(prefix)), methods=["GET"]),
        Route("/jobs", page(jobs_page(prefix)), methods=["GET"]),
        # Whether there is the run or not: its script asks.
        Route("/runs/{run}", page(run_page(prefix)), methods=["GET"]),
        Route("/static/{name}", _static, methods=["GET"]),
    ]


async def _static(request: Request) -> Response:
    """Answer a script or a style sheet."""
    kind, text = static_files().get(request.path_params["name"], ("", ""))
    if not kind:
        raise Problem(404, "there is no such file")
    return Response(text, headers={"Content-Type": kind, "Content-Security-Policy": PAGE_POLICY})
