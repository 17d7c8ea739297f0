"""The application: routes behind their guard."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..errors import GoldwatchError
from ..filesystem.outputs import is_of_full_disk
from ..pages.service import problem_page
from ..run.reporting import Commands, no_commands
from .access import Access
from .answers import PAGE_HEADERS, Problem, disk_full, problem_of
from .endpoints import Endpoint, Rules
from .event_routes import EventRoutes
from .file_routes import DiffRoutes, FileRoutes
from .general_routes import GeneralRoutes
from .graph_routes import GraphRoutes
from .guard import Guard
from .job_routes import JobRoutes
from .job_runner import JobRunner
from .merge_routes import MergeRoutes
from .root_folders import Roots
from .routes import general_endpoints, job_endpoints, page_endpoints, run_endpoints
from .run_fields import Book
from .run_routes import RunRoutes
from .runs import Runs
from .shared_tail import Tails


class Service(NamedTuple):
    """The parts of a running service.

    Attributes
    ----------
    app
        The ASGI application.
    tails
        What its streams follow.
    endpoints
        All that it answers.
    """

    app: Any
    tails: Tails
    endpoints: List[Endpoint]


def make_service(
    roots: Roots,
    access: Access,
    foreman: Optional[JobRunner] = None,
    read_only: bool = False,
    commands: Commands = no_commands,
) -> Service:
    """Return the ASGI application of a service.

    Parameters
    ----------
    roots
        What is served.
    access
        Who may ask.
    foreman
        Runs jobs; None: there are none.
    read_only
        Whether nothing can be sent, but for the token of a browser.
    commands
        Makes the commands that look closer at the suspects of a run.
    """
    runs, book = Runs(roots), Book()
    if foreman is not None:
        # Who hears that a job is done finds its run at once.
        foreman.on_end = runs.look_again
    tails = Tails(book)
    general = GeneralRoutes(access, runs, book, foreman)
    endpoints = [
        *general_endpoints(general),
        *run_endpoints(
            RunRoutes(runs, book, commands),
            MergeRoutes(runs),
            EventRoutes(runs, tails, access),
            GraphRoutes(runs, book),
            FileRoutes(runs),
            DiffRoutes(runs, access.prefix),
        ),
        *job_endpoints(JobRoutes(foreman, runs, access.prefix), read_only),
        *page_endpoints(access.prefix),
    ]
    handlers: Any = {
        HTTPException: _refused,
        Problem: _problem,
        GoldwatchError: _problem,
        OSError: _of_a_disk,
        Exception: _mistake,
    }
    app = Starlette(routes=[one.route() for one in endpoints], exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.endpoints = endpoints
    guard = Guard(app, access, Rules(endpoints), read_only)
    general.guard = guard
    return Service(guard, tails, endpoints)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer what Starlette itself refuses: no such route, or not by this method."""
    status = getattr(error, "status_code", 500)
    message = {404: "there is nothing here", 405: "not by the method %s" % request.method}.get(
        status, "refused"
    )
    hint = "GET /api/v1/openapi.json tells what there is"
    return Problem(status, message, hint, headers=getattr(error, "headers", None)).answer()


async def _problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error) if isinstance(error, GoldwatchError) else cast(Problem, error)
    if not request.state.opened:
        return problem.answer()
    text = problem_page(problem.message, problem.hint, request.state.prefix)
    return Response(text, problem.status, {**PAGE_HEADERS, **problem.headers})


async def _of_a_disk(request: Request, error: Exception) -> Response:
    """Answer where there is no room for what an answer needs, such as a report that is made."""
    if not is_of_full_disk(cast(OSError, error)):
        raise error
    return disk_full().answer()


async def _mistake(request: Request, error: Exception) -> Response:
    """Answer when the service itself is wrong; the guard writes it to the log."""
    return Problem(500, "the service made a mistake", "its log says more").answer()
