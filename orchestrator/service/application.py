"""The application: routes behind their guard."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from .. import __version__
from ..errors import GoldwatchError
from ..filesystem.outputs import is_of_full_disk
from ..run.reporting import Commands, no_commands
from .access import Access
from .answers import Problem, disk_full, json_answer, problem_of
from .bodies import read_json
from .diff_routes import DiffRoutes
from .event_routes import EventRoutes
from .file_routes import FileRoutes
from .graph_routes import GraphRoutes
from .guard import Guard
from .info import Book
from .job_routes import JobRoutes
from .job_runner import JobRunner
from .merge_routes import MergeRoutes
from .metrics import MEDIA_TYPE, metrics_text
from .openapi import openapi_document
from .page_routes import page_routes
from .queue import STATES
from .roots import Roots
from .run_routes import RunRoutes
from .runs import Runs
from .tail import Tails


class Service(NamedTuple):
    """The parts of a running service.

    Attributes
    ----------
    app
        The ASGI application.
    tails
        What its streams follow.
    routes
        Of the application.
    """

    app: Any
    tails: Tails
    routes: List[BaseRoute]


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
    general = _General(access, runs, book, foreman, read_only)
    routes: List[BaseRoute] = [
        *general.routes(),
        *RunRoutes(runs, book, commands).routes(),
        *MergeRoutes(runs).routes(),
        *EventRoutes(runs, tails, access).routes(),
        *GraphRoutes(runs, book).routes(),
        *page_routes(access.prefix),
        *FileRoutes(runs).routes(),
        *DiffRoutes(runs, access.prefix).routes(),
        *JobRoutes(foreman, runs, access.prefix, may_send=not read_only).routes(),
    ]
    handlers: Any = {
        HTTPException: _refused,
        Problem: _problem,
        GoldwatchError: _problem,
        OSError: _of_a_disk,
        Exception: _mistake,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    guard = Guard(app, access, read_only)
    general.guard = guard
    return Service(guard, tails, routes)


class _General:
    """Routes that are of no run and no job."""

    guard: Guard

    def __init__(
        self, access: Access, runs: Runs, book: Book, foreman: Optional[JobRunner], read_only: bool
    ) -> None:
        self.access = access
        self.runs = runs
        self.book = book
        self.foreman = foreman
        self.read_only = read_only

    def routes(self) -> List[Route]:
        return [
            Route("/healthz", self.health, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/api/v1/openapi.json", self.openapi, methods=["GET"]),
            Route("/api/v1/session", self.session, methods=["GET"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
        ]

    async def health(self, request: Request) -> Response:
        return json_answer({"status": "ok", "version": __version__})

    async def metrics(self, request: Request) -> Response:
        jobs = (
            dict.fromkeys(STATES, 0)
            if self.foreman is None
            else await run_in_threadpool(self.foreman.queue.counts)
        )
        text = await run_in_threadpool(metrics_text, self.runs, self.book, jobs)
        return PlainTextResponse(text, headers={"Content-Type": MEDIA_TYPE})

    async def openapi(self, request: Request) -> Response:
        return json_answer(openapi_document(self.access.url, self.read_only, self.access.cookie))

    async def session(self, request: Request) -> Response:
        """Answer who asks: the token's name and role, both null where none is needed."""
        token = request.state.token
        return json_answer(
            {
                "name": token and token.name,
                "role": token and token.role,
                "read_only": self.foreman is None,
            }
        )

    async def login(self, request: Request) -> Response:
        """Answer ``{"token"}`` with a cookie that stands for it, as long as the browser is open."""
        access = self.access
        if access.tokens is None:
            raise Problem(403, "this service has no token: nobody needs to log in")
        body = await read_json(request)
        given = body.get("token") if isinstance(body, dict) else None
        await self.guard.require_patience(request.scope)
        token = access.find(given.strip()) if isinstance(given, str) else None
        if token is None:
            self.guard.note_failure(request.scope)
            raise Problem(401, "that is not the token", "it stands in the service's token file")
        request.state.token = token
        answer = json_answer({"status": "ok"})
        self._set_cookie(answer, access.new_cookie(token))
        return answer

    async def logout(self, request: Request) -> Response:
        """Answer with the cookie taken away; nobody who copied it is known by it any more."""
        if "x-goldwatch" not in request.headers:
            raise Problem(
                403,
                "what is sent with a cookie needs the header X-Goldwatch",
                "send X-Goldwatch: 1",
            )
        for header in request.headers.getlist("cookie"):
            self.access.log_out(header)
        answer = json_answer({"status": "ok"})
        self._set_cookie(answer, "", max_age=0)
        return answer

    def _set_cookie(self, answer: Response, value: str, max_age: Optional[int] = None) -> None:
        path, secure = self.access.prefix or "/", self.access.secure
        answer.set_cookie(
            self.access.cookie,
            value,
            max_age,
            path=path,
            secure=secure,
            httponly=True,
            samesite="strict",
        )


async def _refused(request: Request, error: Exception) -> Response:
    """Answer what Starlette itself refuses: no such route, or not by this method."""
    status = getattr(error, "status_code", 500)
    message = {404: "there is nothing here", 405: "not by the method %s" % request.method}.get(
        status, "refused"
    )
    hint = "GET /api/v1/openapi.json tells what there is"
    return Problem(status, message, hint, headers=getattr(error, "headers", None)).answer()


async def _problem(request: Request, error: Exception) -> Response:
    return (
        problem_of(error) if isinstance(error, GoldwatchError) else cast(Problem, error)
    ).answer()


async def _of_a_disk(request: Request, error: Exception) -> Response:
    """Answer where there is no room for what an answer needs, such as a report that is made."""
    if not is_of_full_disk(cast(OSError, error)):
        raise error
    return disk_full().answer()


async def _mistake(request: Request, error: Exception) -> Response:
    """Answer when the service itself is wrong; the guard writes it to the log."""
    return Problem(500, "the service made a mistake", "its log says more").answer()
