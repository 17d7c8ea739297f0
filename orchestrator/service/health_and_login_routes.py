"""Routes that belong to no run and no job: health, metrics of the service, the API's description,
logins.
"""

from __future__ import annotations

import time
from typing import Dict, List, Mapping, Optional

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from .. import __version__
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS
from .access import Access
from .answers import Problem, json_answer, read_json
from .guard import wrong_token
from .job_queue import STATES
from .job_runner import JobRunner
from .openapi import openapi_document
from .run_fields import RUNNING, RunStates
from .runs import Runs

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIELDS = (
    (PASS, "passed"),
    (FAIL, "failed"),
    (NOT_COMPARED, "not_compared"),
    (EXPECTED_ABSENT, "expected_absent"),
)


def metrics_text(runs: Runs, run_states: RunStates, jobs: Mapping[str, int]) -> str:
    """Return the text.

    Parameters
    ----------
    jobs
        How many jobs there are by state.
    """
    rows: List[str] = []
    failures: List[str] = []
    lag: List[str] = []
    size: List[str] = []
    for run in runs.all():
        run_state = run_states.state_of(run)
        fields, labels = run_state.fields, {"run": run.id, "name": runs.name(run)}
        rows += [
            _sample("goldwatch_rows", {**labels, "verdict": verdict}, fields[name])
            for verdict, name in _FIELDS
        ]
        failures.append(_sample("goldwatch_failures", labels, fields["failed"]))
        waits = fields["state"] == RUNNING and run_state.written_s is not None
        late_s = max(0.0, time.time() - (run_state.written_s or 0.0)) if waits else 0.0
        lag.append(_sample("goldwatch_lag_seconds", labels, round(late_s, 3)))
        size.append(_sample("goldwatch_bytes", labels, run_state.size_bytes))
    queue = [
        _sample("goldwatch_queue_jobs", {"state": state}, count) for state, count in jobs.items()
    ]
    lines: List[str] = []
    for name, text, samples in (
        ("goldwatch_rows", "Rows of a run by verdict.", rows),
        ("goldwatch_failures", "Rows of a run outside their limits.", failures),
        (
            "goldwatch_lag_seconds",
            "Seconds since a run that goes on last wrote to its store; 0 for others.",
            lag,
        ),
        ("goldwatch_bytes", "Bytes of the dump files that a run has compared.", size),
        ("goldwatch_queue_jobs", "Jobs of the service by state.", queue),
    ):
        lines += ["# HELP %s %s" % (name, text), "# TYPE %s gauge" % name, *samples]
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: Dict[str, str], value: object) -> str:
    label_text = ",".join(
        '%s="%s"' % (key, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for key, text in labels.items()
    )
    return "%s{%s} %s" % (name, label_text, value)


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

    def metrics(self, request: Request) -> Response:
        """Answer the counts of all runs and jobs."""
        jobs = (
            dict.fromkeys(STATES, 0) if self.job_runner is None else self.job_runner.queue.counts()
        )
        text = metrics_text(self.runs, self.run_states, jobs)
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
