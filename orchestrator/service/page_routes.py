"""The pages: shells that hold no data and so open from anywhere, their scripts and styles."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..pages.service import jobs_page, list_page, run_page, static_files
from .answers import Problem
from .guard import PAGE_POLICY

_PAGE = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": PAGE_POLICY}


async def _list(request: Request) -> Response:
    """Answer the page of all runs."""
    return Response(list_page(), headers=_PAGE)


async def _jobs(request: Request) -> Response:
    """Answer the page of all jobs."""
    return Response(jobs_page(), headers=_PAGE)


async def _run(request: Request) -> Response:
    """Answer the page of a run, whether there is one or not: its script asks."""
    return Response(run_page(), headers=_PAGE)


async def _static(request: Request) -> Response:
    """Answer a script or a style sheet."""
    kind, text = static_files().get(request.path_params["name"], ("", ""))
    if not kind:
        raise Problem(404, "there is no such file")
    return Response(text, headers={"Content-Type": kind, "Content-Security-Policy": PAGE_POLICY})


PAGE_ROUTES = [
    Route("/", _list, methods=["GET"]),
    Route("/jobs", _jobs, methods=["GET"]),
    Route("/runs/{run}", _run, methods=["GET"]),
    Route("/static/{name}", _static, methods=["GET"]),
]
