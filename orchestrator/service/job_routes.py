"""The routes of jobs.

What is no coroutine here, Starlette calls in a thread: it reads the queue.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from .answers import Problem, json_answer, number_of, read_json
from .job_queue import CANCELLED, FAILED, KEPT, STATES, Job
from .job_request import job_request
from .job_runner import JobRunner
from .runs import Runs

_LOG_BYTES = 1 << 20
_JOBS, MOST_JOBS = 100, 1000


class JobRoutes:
    """Serves jobs.

    Parameters
    ----------
    job_runner
        None for a service without jobs: the list is empty then.
    runs
        The existing runs: a job that ended before its run began links to none.
    prefix
        The prefix of the service's paths.
    """

    def __init__(self, job_runner: Optional[JobRunner], runs: Runs, prefix: str) -> None:
        self._prefix = prefix
        self._job_runner = job_runner
        self._runs = runs

    @property
    def job_runner(self) -> JobRunner:
        """The job runner; raises Problem (404) for a service without jobs."""
        if self._job_runner is None:
            raise Problem(404, "this service has no jobs")
        return self._job_runner

    async def submit(self, request: Request) -> Response:
        """Put a job into the queue; answer 202 with it."""
        job_runner = self.job_runner
        document, token = await read_json(request), request.user
        checked = await run_in_threadpool(job_request, document, job_runner.roots)
        job = await run_in_threadpool(job_runner.add, checked, token and token.name)
        return json_answer(
            job.document(), 202, {"Location": "%s/api/v1/jobs/%s" % (self._prefix, job.id)}
        )

    def list(self, request: Request) -> Response:
        """Answer ``{"jobs", "total", "states", "kept"}``, the newest first: ``total`` is the number
        of jobs that pass the filters.
        """
        states, run = request.query_params.getlist("state"), request.query_params.get("run")
        if not set(states) <= set(STATES):
            raise Problem(400, "state: expected one of %s" % ", ".join(STATES))
        limit = number_of(request.query_params.get("limit"), "limit", _JOBS, MOST_JOBS)
        offset = number_of(request.query_params.get("offset"), "offset", 0)
        jobs: List[Job] = []
        total, counts = 0, dict.fromkeys(STATES, 0)
        if self._job_runner is not None:
            queue = self._job_runner.queue
            jobs, total = queue.page(states or STATES, run, limit, offset)
            counts = queue.counts()
        return json_answer(
            {"jobs": self._documents(jobs), "total": total, "states": counts, "kept": KEPT}
        )

    def one(self, request: Request) -> Response:
        """Answer a job."""
        job = self.job_runner.queue.find(request.path_params["job"])
        return json_answer(self._documents([job])[0])

    def log(self, request: Request) -> Response:
        """Answer the end of a job's log."""
        job = self.job_runner.queue.find(request.path_params["job"])
        return PlainTextResponse(self.job_runner.processes.log(job.id, _LOG_BYTES))

    def cancel(self, request: Request) -> Response:
        """Answer the job, which will end soon."""
        job = self.job_runner.queue.find(request.path_params["job"])
        return json_answer(self.job_runner.cancel(job).document(), 202)

    def _documents(self, jobs: Sequence[Job]) -> List[Dict[str, Any]]:
        """Return jobs as the API shows them; the run of a failed job is named only if it exists."""
        known = {run.id for run in self._runs.all()}
        lost = [job.state in (FAILED, CANCELLED) and job.run not in known for job in jobs]
        return [
            {**job.document(), "run": None} if none else job.document()
            for job, none in zip(jobs, lost)
        ]
