"""The application: all routes, what lies before them, and how refusals are answered."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, List, NamedTuple, Optional, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..base.atomic_writing import is_of_full_disk
from ..base.errors import GoldwatchError
from ..dumps.place import Place
from ..reports.pages.service import (
    jobs_page,
    list_page,
    opening_page,
    problem_page,
    run_page,
    static_files,
)
from ..run.write_report import Commands, no_commands
from .access import Access
from .answers import PAGE_HEADERS, PAGE_POLICY, Problem, disk_full, problem_of
from .endpoint import OPEN, SUBMIT, Endpoint, Rules
from .event_routes import EventRoutes
from .file_and_diff_routes import DiffRoutes, FileRoutes
from .guard import Admission, Exchanges, TokenBackend
from .health_and_login_routes import HealthAndLoginRoutes
from .job_queue import STATES
from .job_routes import JobRoutes
from .job_runner import JobRunner
from .openapi import COUNT, TEXT, list_of, object_of, or_null, ref_to
from .root_folders import Roots
from .run_fields import RunStates
from .run_routes import ORDERS, SORTS, RunRoutes
from .runs import Runs
from .shared_run_tail import Tails
from .tokens import ROLES

_VALUE = {"type": ["number", "string"], "description": "A number that is not finite is a text."}
_STEP = object_of(
    step=TEXT,
    model=TEXT,
    op=TEXT,
    tensor=TEXT,
    metric=TEXT,
    count=COUNT,
    worst=_VALUE,
    mean=_VALUE,
)
_LACKING = object_of(
    **dict.fromkeys(Place._fields, or_null(TEXT)), failed=COUNT, passed=COUNT, rows=COUNT
)
_CELLS = list_of(list_of({"type": ["number", "string", "null"]}))
_DRAWN = object_of(
    model=or_null(TEXT), steps=list_of(or_null(TEXT)), ops=list_of(TEXT), worst=_CELLS
)
_PAGE = (
    (
        "limit",
        COUNT,
        "How many at most; of runs 100 and never more than 1,000, of rows 1,000 and never "
        "more than 10,000.",
    ),
)
_JOB_PATH = "/api/v1/jobs/{job}"
_BY_COOKIE = (("X-Goldwatch", "Anything; needed by who is known by the cookie."),)


def general_endpoints(general: HealthAndLoginRoutes) -> List[Endpoint]:
    """Return the endpoints that belong to no run and no job."""
    return [
        Endpoint(
            "get",
            "/healthz",
            general.health,
            "Whether the service lives; needs no token.",
            object_of(status=TEXT, version=TEXT),
            role=OPEN,
        ),
        Endpoint(
            "get",
            "/metrics",
            general.metrics,
            "Counts of all runs in Prometheus' text form.",
            "text/plain",
        ),
        Endpoint(
            "get", "/api/v1/openapi.json", general.openapi, "This document.", {"type": "object"}
        ),
        Endpoint(
            "get",
            "/api/v1/session",
            general.session,
            "Whose token it is: null where none is needed.",
            object_of(
                name=or_null(TEXT), role={"enum": [*ROLES, None]}, read_only={"type": "boolean"}
            ),
        ),
        Endpoint(
            "post",
            "/login",
            general.login,
            "A cookie for browsers that stands for the token.",
            object_of(status=TEXT),
            body=object_of(token=TEXT),
            role=OPEN,
        ),
        Endpoint(
            "post",
            "/logout",
            general.logout,
            "The cookie stands for nothing any more.",
            object_of(status=TEXT),
            headers=_BY_COOKIE,
            role=OPEN,
        ),
    ]


def run_endpoints(
    runs: RunRoutes, events: EventRoutes, files: FileRoutes, diff: DiffRoutes
) -> List[Endpoint]:
    """Return the endpoints of runs, of their files, and of the page that compares two runs."""
    return [
        Endpoint(
            "get",
            "/api/v1/runs",
            runs.list,
            "The runs, newest first.",
            object_of(runs=list_of(ref_to("Run")), total=COUNT),
            (
                (
                    "q",
                    TEXT,
                    "Words that the path, model, host, state, verdict, first op outside its "
                    "limits or id contain.",
                ),
                (
                    "verdict",
                    {"enum": ["pass", "fail", "incomplete", "none"]},
                    "Only runs of this verdict.",
                ),
                (
                    "sort",
                    {"enum": list(SORTS)},
                    "By what they are sorted; newest first unless said otherwise.",
                ),
                ("order", {"enum": list(ORDERS)}, "Of `sort`; asc unless said otherwise."),
                *_PAGE,
                ("offset", COUNT, "How many to pass over."),
            ),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}",
            runs.one,
            "One run, with result.json's summary (once it has finished) and limits.",
            ref_to("RunInFull"),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/rows",
            runs.rows,
            "Rows in the order of their arrival.",
            object_of(rows=list_of(ref_to("Row")), last_id=COUNT),
            (("after", COUNT, "Only rows with a higher id."), *_PAGE),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/steps",
            runs.steps,
            "Of a merge what a metric is in each step over all "
            "devices, and what it does not "
            "store.",
            object_of(steps=list_of(_STEP), metrics=list_of(TEXT), unstored=list_of(_LACKING)),
            (("metric", TEXT, "RelativeEuclideanDistance unless said otherwise."), *_PAGE),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/overview",
            runs.overview,
            "Of a merge what each op is at worst in each "
            "step over all devices, as pages draw it.",
            object_of(metric=or_null(TEXT), models=list_of(_DRAWN)),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/events",
            events.events,
            "Server-sent events: row, provisional, progress, divergence, reset, end. Resumed by "
            "Last-Event-ID, which goes before `after`.",
            "text/event-stream",
            (
                ("after", COUNT, "Only rows with a higher id."),
                ("void", COUNT, "`void` of the run or the last reset when the client began."),
            ),
            headers=(("Last-Event-ID", "The id of the last row that the client saw."),),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/graphs",
            runs.graphs,
            "The networks around the first suspect or the "
            "first op outside its limits, as pages "
            "draw them.",
            object_of(
                graphs=list_of(
                    object_of(model=TEXT, count=COUNT, focus=TEXT, near={"type": "object"})
                )
            ),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/files",
            files.list,
            "The files of a run.",
            object_of(files=list_of(object_of(name=TEXT, size=or_null(COUNT)))),
        ),
        Endpoint(
            "get",
            "/api/v1/runs/{run}/files/{name}",
            files.one,
            "A file: result.json and the CSVs as they are; reports are made.",
            "*/*",
            opened=True,
        ),
        Endpoint("get", "/diff/{before}/{after}", diff.page, opened=True),
    ]


def job_endpoints(jobs: JobRoutes, read_only: bool) -> List[Endpoint]:
    """Return the endpoints of jobs; of a read-only service without those that submit and end
    them.
    """
    return [
        Endpoint(
            "get",
            "/api/v1/jobs",
            jobs.list,
            "The jobs, newest first: those that wait or run, and as many of the others as are "
            "kept.",
            object_of(
                jobs=list_of(ref_to("Job")),
                total=COUNT,
                states=object_of(**dict.fromkeys(STATES, COUNT)),
                kept=COUNT,
            ),
            (
                ("state", {"enum": list(STATES)}, "Only jobs of this state; may be repeated."),
                ("run", TEXT, "Only those of this run's id."),
                (
                    "limit",
                    COUNT,
                    "How many at most; 100 unless said otherwise, and never more than 1,000.",
                ),
                ("offset", COUNT, "How many to pass over."),
            ),
        ),
        Endpoint("get", _JOB_PATH, jobs.one, "One job.", ref_to("Job")),
        Endpoint(
            "get",
            _JOB_PATH + "/log",
            jobs.log,
            "The end of what the job's command printed.",
            "text/plain",
        ),
        *([] if read_only else _submitting_endpoints(jobs)),
    ]


def _submitting_endpoints(jobs: JobRoutes) -> List[Endpoint]:
    return [
        Endpoint(
            "post",
            "/api/v1/runs",
            jobs.submit,
            "Put a command into the queue.",
            ref_to("Job"),
            body=ref_to("JobRequest"),
            status=202,
            role=SUBMIT,
            headers=_BY_COOKIE,
        ),
        Endpoint(
            "post",
            _JOB_PATH + "/cancel",
            jobs.cancel,
            "End a job, or have it not begin; one that has ended stays as it is.",
            ref_to("Job"),
            status=202,
            role=SUBMIT,
            headers=_BY_COOKIE,
        ),
    ]


def page_endpoints(prefix: str) -> List[Endpoint]:
    """Return the pages of a service whose paths have a prefix, with their scripts and styles. They
    contain no data, so everybody may open them.
    """

    def page(text: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return Response(text, headers=PAGE_HEADERS)

        return answer

    async def to_the_list(request: Request) -> Response:
        return RedirectResponse(prefix + "/", 308)

    return [
        *([Endpoint("get", prefix, to_the_list, role=OPEN)] if prefix else []),
        Endpoint("get", "/", page(list_page(prefix)), role=OPEN),
        Endpoint("get", "/jobs", page(jobs_page(prefix)), role=OPEN),
        # Whether the run exists or not: the page's script finds out.
        Endpoint("get", "/runs/{run}", page(run_page(prefix)), role=OPEN),
        Endpoint("get", "/static/{name}", _static, role=OPEN),
    ]


async def _static(request: Request) -> Response:
    """Answer a script or a style sheet."""
    kind, text = static_files().get(request.path_params["name"], ("", ""))
    if not kind:
        raise Problem(404, "there is no such file")
    return Response(text, headers={"Content-Type": kind, "Content-Security-Policy": PAGE_POLICY})


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
    endpoints = [
        *general_endpoints(HealthAndLoginRoutes(access, runs, run_states, job_runner)),
        *run_endpoints(
            RunRoutes(runs, run_states, commands),
            EventRoutes(runs, tails, access),
            FileRoutes(runs),
            DiffRoutes(runs, access.prefix),
        ),
        *job_endpoints(JobRoutes(job_runner, runs, access.prefix), read_only),
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
