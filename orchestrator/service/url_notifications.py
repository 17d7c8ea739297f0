"""Tells a URL of the service's jobs: the first final divergence of the run that a job writes, and
the job's end.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Dict, Optional, Set, Tuple

from ..errors import GoldwatchError
from ..metrics.row import FAIL
from ..notifying import DIVERGENCE, END, Notifier, notification
from ..reports.result_json import row_document
from ..run.run_status import JUDGED
from ..store.store_reader import StoreReader
from .answers import Problem
from .queue import CANCELLED, DONE, FAILED, QUEUED, Job, Queue
from .queue import RUNNING as JOB_RUNNING
from .run_fields import RUNNING, Book
from .runs import Run, Runs

log = logging.getLogger("goldwatch.service")

TOLD_DIVERGENCE, TOLD_END = 1, 2
TOLD_ALL = TOLD_DIVERGENCE | TOLD_END
_LOOK_S = 0.5
_WITHOUT_RUN = ("diff",)


class Teller:
    """Looks at the jobs in a thread of its own; what was told is noted in the queue, so that the
    next server tells the rest.

    Parameters
    ----------
    url
        What browsers know the service by.
    """

    def __init__(self, notify_url: str, queue: Queue, runs: Runs, url: str) -> None:
        self._notifier = Notifier(notify_url, log.warning)
        self._queue = queue
        self._runs = runs
        self._url = url
        self._book = Book()
        self._sent: Set[Tuple[str, int]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telling", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; what is on the way is told by the next server."""
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self._look()
            except (GoldwatchError, OSError) as error:
                log.error("notify: %s", error)

    def _look(self) -> None:
        for job in self._queue.untold(TOLD_END):
            if self._ended.is_set():
                return
            run = self._run_of(job)
            if job.state == JOB_RUNNING and run is not None and not job.told & TOLD_DIVERGENCE:
                self._look_at(job, run)
            elif job.state in (DONE, FAILED, CANCELLED):
                self._tell_end(job, run)

    def _run_of(self, job: Job) -> Optional[Run]:
        if job.run is None or job.command in _WITHOUT_RUN or job.state == QUEUED:
            return None
        try:
            return self._runs.find(job.run)
        except Problem:
            return None

    def _look_at(self, job: Job, run: Run) -> None:
        """Tell of the divergence of a run that goes on."""
        fields = self._book.standing(run).fields
        if fields["state"] == RUNNING and fields["failed"] > fields["provisional"]:
            row = _first_final(run)
            if row is not None:
                self._tell(
                    job,
                    run,
                    DIVERGENCE,
                    _sentence(run, "first divergence: %s" % row["tensor"]),
                    verdict=FAIL,
                    row=row,
                )

    def _tell_end(self, job: Job, run: Optional[Run]) -> None:
        summary, verdict, said = None, None, ""
        # Of a job that did not get so far the folder may hold an earlier run.
        if run is not None and job.state == DONE:
            standing = self._book.standing(run)
            summary, verdict = standing.summary, standing.fields["verdict"]
            said = _said(run)
            row = _first_final(run) if verdict == FAIL and not job.told & TOLD_DIVERGENCE else None
            if row is not None:
                self._tell(
                    job,
                    run,
                    DIVERGENCE,
                    _sentence(run, "first divergence: %s" % row["tensor"]),
                    verdict=FAIL,
                    row=row,
                )
        what = "%s: %s" % (verdict, said) if verdict else "job %s: %s" % (job.id, job.state)
        text = _sentence(run, what) if run is not None else "%s %s" % (job.command, what)
        self._tell(job, run, END, text, verdict=verdict, summary=summary, exit_code=job.exit_code)

    def _tell(self, job: Job, run: Optional[Run], event: str, text: str, **more: Any) -> None:
        bit = TOLD_DIVERGENCE if event == DIVERGENCE else TOLD_END
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
                self._queue.note_told(job, bit)
            except GoldwatchError as error:
                # This server tells it no more; the next one does, as where the queue is closed by
                # now.
                log.debug("notify: %s", error)
                return
            if bit == TOLD_END:
                self._sent -= {(job.id, TOLD_DIVERGENCE), (job.id, TOLD_END)}

        self._notifier.send(document, done)


def _sentence(run: Run, text: str) -> str:
    return "%s: %s" % (
        os.fsencode(os.path.basename(run.path)).decode("utf-8", "backslashreplace"),
        text,
    )


def _said(run: Run) -> str:
    """Return the last sentence of a finished run."""
    try:
        with StoreReader(run.path) as store:
            noted = store.fact(JUDGED)
    except GoldwatchError:
        return ""
    return str(noted.get("sentence") or "") if isinstance(noted, dict) else ""


def _first_final(run: Run) -> Optional[Dict[str, Any]]:
    """Return the first failing row by arrival that is final, as result.json has it."""
    try:
        with StoreReader(run.path) as store:
            finality = store.finality()
            for (number,) in store.query(
                "SELECT id FROM row WHERE verdict = ? ORDER BY id", (FAIL,)
            ):
                if finality.holds(int(number), FAIL):
                    rows, _ = store.page(int(number) - 1, 1)
                    return {**row_document(rows[0].row), "final": True} if rows else None
    except GoldwatchError:
        return None
    return None
