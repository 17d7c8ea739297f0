"""The application: all routes, what lies before them, and how refusals are answered."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response

from ..errors import GoldwatchError
from ..filesystem.atomic_writing import is_of_full_disk
from ..pages.service import opening_page, problem_page
from ..run.write_report import Commands, no_commands
from .access import Access
from .answers import PAGE_HEADERS, Problem, disk_full, problem_of
from .endpoint import Endpoint, Rules
from .event_routes import EventRoutes
from .file_and_diff_routes import DiffRoutes, FileRoutes
from .graph_routes import GraphRoutes
from .guard import Admission, Exchanges, TokenBackend
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
    jobs = JobRoutes(job_runner, runs, access.prefix)
    endpoints = [
        *general_endpoints(HealthAndLoginRoutes(access, runs, run_states, job_runner)),
        *run_endpoints(RunRoutes(runs, run_states, commands)),
        *merge_endpoints(MergeMetricsRoutes(runs)),
        *live_endpoints(EventRoutes(runs, tails, access)),
        *graph_endpoints(GraphRoutes(runs, run_states)),
        *file_endpoints(FileRoutes(runs), DiffRoutes(runs, access.prefix)),
        *job_endpoints(jobs),
        *([] if read_only else submitting_endpoints(jobs)),
        *page_endpoints(access.prefix),
    ]
    rules = Rules(endpoints)

    async def refused(request: Request, error: Exception) -> Response:
        return _refusal(request, error, access.prefix, rules.is_opened(request.scope))

    handlers: Any = dict.fromkeys((HTTPException, GoldwatchError, OSError), refused)
    app = Starlette(
        routes=[one.route() for one in endpoints],
        # Starlette's own handlers are behind all of this: what is refused before a route needs
        # them here too.
        middleware=[
            Middleware(Exchanges, access=access),
            Middleware(ExceptionMiddleware, handlers=handlers),
            Middleware(Admission, access=access, rules=rules, read_only=read_only),
            Middleware(AuthenticationMiddleware, backend=TokenBackend(access, rules)),
        ],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    app.state.endpoints = endpoints
    return Service(app, tails, endpoints)


def _refusal(request: Request, error: Exception, prefix: str, opened: bool) -> Response:
    """Answer a refusal: JSON, or a page where a browser opens one; ``error`` is ours, or
    Starlette's for a path without a route or a wrong method, or of a disk that is too full.
    """
    if isinstance(error, GoldwatchError):
        problem = problem_of(error)
    elif isinstance(error, OSError):
        if not is_of_full_disk(error):
            raise error
        problem = disk_full()
    elif isinstance(error, Problem):
        problem = error
    else:
        given = cast(HTTPException, error)
        message = {404: "there is nothing here", 405: "not by the method %s" % request.method}
        problem = Problem(
            given.status_code,
            message.get(given.status_code, "refused"),
            "GET /api/v1/openapi.json tells what there is",
            headers=given.headers,
        )
    if not opened:
        return problem.answer()
    # The opening page asks for the token, or repeats the request from this origin.
    text = (
        opening_page(prefix)
        if problem.status_code in (401, 403)
        else problem_page(problem.detail, problem.hint, prefix)
    )
    return Response(text, problem.status_code, {**PAGE_HEADERS, **(problem.headers or {})})
