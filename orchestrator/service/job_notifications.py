"""Notifies a URL of the service's jobs: the first final divergence of a job's run, and the job's
end.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Optional, Set, Tuple

from ..base.errors import GoldwatchError
from ..base.url_notifier import DIVERGENCE, END, Notifier, notification
from ..metrics.row import FAIL, Row
from ..run.divergence_hook import divergence_fields
from ..run.run_status import JUDGED
from ..store.store_reader import StoreReader
from .answers import Problem
from .job_queue import CANCELLED, DONE, FAILED, QUEUED, Job, Queue
from .job_queue import RUNNING as JOB_RUNNING
from .run_fields import RUNNING, RunStates
from .runs import Run, Runs

log = logging.getLogger("goldwatch.service")

NOTIFIED_DIVERGENCE, NOTIFIED_END = 1, 2
NOTIFIED_ALL = NOTIFIED_DIVERGENCE | NOTIFIED_END
_LOOK_S = 0.5
_WITHOUT_RUN = ("diff",)


class JobNotifier:
    """Watches the jobs in a thread of its own. Sent notifications are recorded in the queue, so
    that the next server sends the rest.

    Parameters
    ----------
    url
        The URL that browsers use for the service.
    """

    def __init__(self, notify_url: str, queue: Queue, runs: Runs, url: str) -> None:
        self._notifier = Notifier(notify_url, log.warning)
        self._queue = queue
        self._runs = runs
        self._url = url
        self._run_states = RunStates()
        self._sent: Set[Tuple[str, int]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telling", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; unsent notifications are sent by the next server."""
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self._look()
            except (GoldwatchError, OSError) as error:
                log.error("notify: %s", error)

    def _look(self) -> None:
        for job in self._queue.not_notified(NOTIFIED_END):
            if self._ended.is_set():
                return
            run = self._run_of(job)
            if (
                job.state == JOB_RUNNING
                and run is not None
                and not job.notified & NOTIFIED_DIVERGENCE
            ):
                fields = self._run_states.state_of(run).fields
                if fields["state"] == RUNNING and fields["failed"] > fields["provisional"]:
                    self._send_divergence(job, run)
            elif job.state in (DONE, FAILED, CANCELLED):
                summary, verdict, sentence = None, None, ""
                # The folder of a job that failed early may contain an earlier run.
                if run is not None and job.state == DONE:
                    state = self._run_states.state_of(run)
                    summary, verdict = state.summary, state.fields["verdict"]
                    sentence = _last_sentence(run)
                    if verdict == FAIL and not job.notified & NOTIFIED_DIVERGENCE:
                        self._send_divergence(job, run)
                what = (
                    "%s: %s" % (verdict, sentence)
                    if verdict
                    else "job %s: %s" % (job.id, job.state)
                )
                text = _sentence(run, what) if run is not None else "%s %s" % (job.command, what)
                self._send(
                    job, run, END, text, verdict=verdict, summary=summary, exit_code=job.exit_code
                )

    def _run_of(self, job: Job) -> Optional[Run]:
        if job.run is None or job.command in _WITHOUT_RUN or job.state == QUEUED:
            return None
        try:
            return self._runs.find(job.run)
        except Problem:
            return None

    def _send_divergence(self, job: Job, run: Run) -> None:
        row = _first_final(run)
        if row is not None:
            self._send(job, run, DIVERGENCE, **divergence_fields(run.path, row))

    def _send(self, job: Job, run: Optional[Run], event: str, text: str, **more: Any) -> None:
        bit = NOTIFIED_DIVERGENCE if event == DIVERGENCE else NOTIFIED_END
        if (job.id, bit) in self._sent:
            return
        self._sent.add((job.id, bit))
        url = self._url + ("/jobs#job-" + job.id if run is None else "/runs/" + run.id)
        out = None if run is None else os.fsencode(run.path).decode("utf-8", "backslashreplace")
        document = notification(
            event,
            job.id,
            job.command,
            text,
            job=job.id,
            run=run and run.id,
            url=url,
            out=out,
            **more,
        )

        def done() -> None:
            try:
                self._queue.note_notified(job, bit)
            except GoldwatchError as error:
                # This server does not retry; the next one does, as where the queue is closed by
                # now.
                log.debug("notify: %s", error)
                return
            if bit == NOTIFIED_END:
                self._sent -= {(job.id, NOTIFIED_DIVERGENCE), (job.id, NOTIFIED_END)}

        self._notifier.send(document, done)


def _sentence(run: Run, text: str) -> str:
    return "%s: %s" % (
        os.fsencode(os.path.basename(run.path)).decode("utf-8", "backslashreplace"),
        text,
    )


def _last_sentence(run: Run) -> str:
    try:
        with StoreReader(run.path) as store:
            noted = store.fact(JUDGED)
    except GoldwatchError:
        return ""
    return str(noted.get("sentence") or "") if isinstance(noted, dict) else ""


def _first_final(run: Run) -> Optional[Row]:
    """Return the first failing row by arrival that is final."""
    try:
        with StoreReader(run.path) as store:
            finality = store.finality()
            for (number,) in store.query(
                "SELECT id FROM row WHERE verdict = ? ORDER BY id", (FAIL,)
            ):
                if finality.holds(int(number), FAIL):
                    rows, _ = store.page(int(number) - 1, 1)
                    return rows[0].row if rows else None
    except GoldwatchError:
        return None
    return None
