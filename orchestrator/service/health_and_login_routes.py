"""Routes that belong to no run and no job: health, metrics of the service, the API's description,
logins.
"""

from __future__ import annotations

from typing import Optional

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from .. import __version__
from .access import Access
from .answers import Problem, json_answer
from .guard import wrong_token
from .job_queue import STATES
from .job_runner import JobRunner
from .openapi import openapi_document
from .prometheus_text import MEDIA_TYPE, metrics_text
from .request_bodies import read_json
from .run_fields import RunStates
from .runs import Runs


class HealthAndLoginRoutes:
    """Serves health, metrics, the description of the API, and logins."""

    def __init__(
        self, access: Access, runs: Runs, run_states: RunStates, job_runner: Optional[JobRunner]
    ) -> None:
        self.access = access
        self.runs = runs
        self.run_states = run_states
        self.job_runner = job_runner

    async def health(self, request: Request) -> Response:
        """Answer that the service is alive."""
        return json_answer({"status": "ok", "version": __version__})

    async def metrics(self, request: Request) -> Response:
        """Answer the counts of all runs and jobs."""
        jobs = (
            dict.fromkeys(STATES, 0)
            if self.job_runner is None
            else await run_in_threadpool(self.job_runner.queue.counts)
        )
        text = await run_in_threadpool(metrics_text, self.runs, self.run_states, jobs)
        return PlainTextResponse(text, headers={"Content-Type": MEDIA_TYPE})

    async def openapi(self, request: Request) -> Response:
        """Answer the description of the API."""
        endpoints = request.app.state.endpoints
        return json_answer(openapi_document(endpoints, self.access.url, self.access.cookie))

    async def session(self, request: Request) -> Response:
        """Answer the name and role of the client's token, both null where none is needed."""
        token = request.user
        return json_answer(
            {
                "name": token and token.name,
                "role": token and token.role,
                "read_only": self.job_runner is None,
            }
        )

    async def login(self, request: Request) -> Response:
        """Answer ``{"token"}`` with a session cookie for it."""
        access = self.access
        if access.tokens is None:
            raise Problem(403, "this service has no token: nobody needs to log in")
        body = await read_json(request)
        secret = body.get("token") if isinstance(body, dict) else None
        token = access.find(secret.strip()) if isinstance(secret, str) else None
        if token is None:
            raise await wrong_token(
                access,
                request.scope,
                "that is not the token",
                "it stands in the service's token file",
            )
        request.scope["user"] = token
        answer = json_answer({"status": "ok"})
        self._set_cookie(answer, access.new_cookie(token))
        return answer

    async def logout(self, request: Request) -> Response:
        """Answer with the cookie removed and invalidated, copies of it included."""
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
