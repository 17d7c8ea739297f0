"""The application: all routes, and the guard before them."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..errors import GoldwatchError
from ..filesystem.atomic_writing import is_of_full_disk
from ..pages.service import problem_page
from ..run.write_report import Commands, no_commands
from .access import Access
from .answers import PAGE_HEADERS, Problem, disk_full, problem_of
from .endpoint import Endpoint, Rules
from .event_routes import EventRoutes
from .file_and_diff_routes import DiffRoutes, FileRoutes
from .graph_routes import GraphRoutes
from .guard import Guard
from .health_and_login_routes import HealthAndLoginRoutes
from .job_routes import JobRoutes
from .job_runner import JobRunner
from .merge_metrics_routes import MergeMetricsRoutes
from .root_folders import Roots
from .routes import (
    file_endpoints,
    general_endpoints,
    graph_endpoints,
    job_endpoints,
    live_endpoints,
    merge_endpoints,
    page_endpoints,
    run_endpoints,
    submitting_endpoints,
)
from .run_fields import RunStates
from .run_routes import RunRoutes
from .runs import Runs
from .shared_run_tail import Tails


class Service(NamedTuple):
    """The parts of a running service.

    Attributes
    ----------
    app
        The ASGI application.
    tails
        The tails that its event streams follow.
    endpoints
        All its endpoints.
    """

    app: Any
    tails: Tails
    endpoints: List[Endpoint]


def make_service(
    roots: Roots,
    access: Access,
    job_runner: Optional[JobRunner] = None,
    read_only: bool = False,
    commands: Commands = no_commands,
) -> Service:
    """Return the ASGI application of a service.

    Parameters
    ----------
    roots
        The folders that are served.
    access
        The rules of access.
    job_runner
        Runs jobs; None for a service without jobs.
    read_only
        Whether only a login is accepted, and nothing else can be submitted.
    commands
        Returns the commands that look closer at the suspects of a run.
    """
    runs, run_states = Runs(roots), RunStates()
    if job_runner is not None:
        # A client that learns of the end of a job can see its run at once.
        job_runner.on_end = runs.look_again
    tails = Tails(run_states)
    general = HealthAndLoginRoutes(access, runs, run_states, job_runner)
    jobs = JobRoutes(job_runner, runs, access.prefix)
    endpoints = [
        *general_endpoints(general),
        *run_endpoints(RunRoutes(runs, run_states, commands)),
        *merge_endpoints(MergeMetricsRoutes(runs)),
        *live_endpoints(EventRoutes(runs, tails, access)),
        *graph_endpoints(GraphRoutes(runs, run_states)),
        *file_endpoints(FileRoutes(runs), DiffRoutes(runs, access.prefix)),
        *job_endpoints(jobs),
        *([] if read_only else submitting_endpoints(jobs)),
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
    """Answer errors raised by Starlette itself: no such route, or a wrong method."""
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
    """Answer when the disk is too full to make the answer, such as a report."""
    if not is_of_full_disk(cast(OSError, error)):
        raise error
    return disk_full().answer()


async def _mistake(request: Request, error: Exception) -> Response:
    """Answer after an internal error, which the guard logs."""
    return Problem(500, "the service made a mistake", "its log says more").answer()
