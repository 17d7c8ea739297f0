"""The routes of jobs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from .answers import Problem, json_answer, number_of
from .job_request import job_request
from .job_runner import JobRunner
from .queue import CANCELLED, FAILED, KEPT, STATES, Job
from .request_bodies import read_json
from .runs import Runs

_LOG_BYTES = 1 << 20
_JOBS, MOST_JOBS = 100, 1000


class JobRoutes:
    """Answers what is asked about jobs.

    Parameters
    ----------
    foreman
        None where there are no jobs: the list is empty then.
    runs
        Those that there are: a job that ended before its run began leads to none.
    prefix
        Of the service's paths.
    """

    def __init__(self, foreman: Optional[JobRunner], runs: Runs, prefix: str) -> None:
        self._prefix = prefix
        self._foreman = foreman
        self._runs = runs

    @property
    def foreman(self) -> JobRunner:
        """The foreman; raises Problem (404) where there are no jobs."""
        if self._foreman is None:
            raise Problem(404, "this service has no jobs")
        return self._foreman

    async def submit(self, request: Request) -> Response:
        """Put a job into the queue; answer 202 with it."""
        foreman = self.foreman
        document, token = await read_json(request), request.state.token
        checked = await run_in_threadpool(job_request, document, foreman.roots)
        job = await run_in_threadpool(foreman.add, checked, token and token.name)
        return json_answer(
            job.document(), 202, {"Location": "%s/api/v1/jobs/%s" % (self._prefix, job.id)}
        )

    async def list(self, request: Request) -> Response:
        """Answer ``{"jobs", "total", "states", "kept"}``, the newest first: ``total`` counts what
        the filters let through.
        """
        states, run = request.query_params.getlist("state"), request.query_params.get("run")
        if not set(states) <= set(STATES):
            raise Problem(400, "state: expected one of %s" % ", ".join(STATES))
        limit = number_of(request.query_params.get("limit"), "limit", _JOBS, MOST_JOBS)
        offset = number_of(request.query_params.get("offset"), "offset", 0)
        jobs: List[Job] = []
        total, counts = 0, dict.fromkeys(STATES, 0)
        if self._foreman is not None:
            queue = self._foreman.queue
            jobs, total = await run_in_threadpool(queue.page, states or STATES, run, limit, offset)
            counts = await run_in_threadpool(queue.counts)
        return json_answer(
            {
                "jobs": await run_in_threadpool(self._documents, jobs),
                "total": total,
                "states": counts,
                "kept": KEPT,
            }
        )

    async def one(self, request: Request) -> Response:
        """Answer a job."""
        job = await run_in_threadpool(self.foreman.queue.find, request.path_params["job"])
        return json_answer((await run_in_threadpool(self._documents, [job]))[0])

    async def log(self, request: Request) -> Response:
        """Answer the end of what a job's process printed."""
        job = await run_in_threadpool(self.foreman.queue.find, request.path_params["job"])
        data = await run_in_threadpool(self.foreman.children.log, job.id, _LOG_BYTES)
        return PlainTextResponse(data)

    async def cancel(self, request: Request) -> Response:
        """Answer the job, which ends soon."""
        job = await run_in_threadpool(self.foreman.queue.find, request.path_params["job"])
        return json_answer((await run_in_threadpool(self.foreman.cancel, job)).document(), 202)

    def _documents(self, jobs: Sequence[Job]) -> List[Dict[str, Any]]:
        """Return jobs as the API shows them; one that came to nothing names a run only where there
        is one.
        """
        known = {run.id for run in self._runs.all()}
        lost = [job.state in (FAILED, CANCELLED) and job.run not in known for job in jobs]
        return [
            {**job.document(), "run": None} if none else job.document()
            for job, none in zip(jobs, lost)
        ]
