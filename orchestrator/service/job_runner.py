"""Takes jobs from the queue, so many at a time, and sees how they end."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import Callable, Dict, Optional, Set

from ..errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_PASS, GoldwatchError
from .answers import Problem
from .job_processes import Children
from .job_request import JobRequest, job_request
from .queue import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Job, Queue, now
from .root_folders import Roots
from .url_notifications import TOLD_ALL

log = logging.getLogger("goldwatch.service")

_LOOK_S = 0.1
_MOST_STARTS = 3
_ASK_S = (0.0, 1.0)
"""When a job that is cancelled gets its signals: the first ends a watch in good order, the second
at once.
"""

_KILL_S = 10.0
_FIND_S = 1.0
_VERDICTS = (EXIT_PASS, EXIT_FAIL, EXIT_INCOMPLETE)


class JobRunner:
    """Runs jobs in a thread of its own.

    Parameters
    ----------
    at_once
        How many jobs run at a time.
    notifies
        Whether somebody is told what becomes of them.

    Attributes
    ----------
    on_end
        Called when a job's process has ended, before anybody is told so.
    """

    def __init__(self, queue: Queue, roots: Roots, at_once: int, notifies: bool = False) -> None:
        self.notifies = notifies
        self.queue = queue
        self.roots = roots
        self.on_end: Callable[[], None] = lambda: None
        folder = os.path.join(queue.folder, "jobs")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.children = Children(folder)
        self._at_once = at_once
        self._wake = threading.Event()
        self._stopping = False
        self._problem = ""
        self._began = time.monotonic()
        self._seen: Set[str] = set()
        self._asked: Dict[str, int] = {}
        self._since: Dict[str, float] = {}
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin; jobs that an earlier server left running are gone on with."""
        self._thread.start()

    def add(self, request: JobRequest, submitted_by: Optional[str]) -> Job:
        """Put a job into the queue; raises Problem (429) where too many wait already."""
        job = self.queue.add(request, submitted_by, 0 if self.notifies else TOLD_ALL)
        self.wake()
        return job

    def stop(self) -> None:
        """Begin no more jobs; those that run go on by themselves."""
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def wake(self) -> None:
        """Look at the queue at once."""
        self._wake.set()

    def cancel(self, job: Job) -> Job:
        """Have a job not begin, or end; one that has ended stays as it is."""
        if job.state in (QUEUED, RUNNING):
            self.queue.set(job, cancel=1)
            self.wake()
        return self.queue.find(job.id)

    def _work(self) -> None:
        while not self._stopping:
            try:
                self._look()
            except (GoldwatchError, OSError) as error:
                # Told once, not ten times a second.
                if str(error) != self._problem:
                    log.error("jobs: %s", error)
                self._problem = str(error)
            else:
                self._problem = ""
            self._wake.wait(_LOOK_S)
            self._wake.clear()

    def _look(self) -> None:
        running = self.queue.in_state(RUNNING)
        for job in running:
            self._follow(job)
        room = self._at_once - len(self.queue.in_state(RUNNING))
        for job in self.queue.in_state(QUEUED):
            if job.cancel:
                self.queue.end(job, CANCELLED, EXIT_INTERRUPTED)
            elif room > 0 and not self._stopping:
                room -= 1
                self._begin(job)

    def _begin(self, job: Job) -> None:
        document = {"command": job.command, "args": job.args, "options": job.options}
        try:
            # What lay below the ROOTs when the job was sent may be a link now.
            request = job_request(document, self.roots)
            # First the note, then the process: one that a killed server started is always looked
            # for.
            self.queue.set(job, state=RUNNING, started=job.started or now(), starts=job.starts + 1)
            self.children.start(job.id, request.words)
            self._seen.add(job.id)
        except (Problem, GoldwatchError, OSError) as error:
            self.children.note(job.id, "not started: %s" % error)
            self.queue.end(job, FAILED, None)

    def _follow(self, job: Job) -> None:
        found = self.children.standing(job.id)
        if found.alive:
            self._seen.add(job.id)
            if job.cancel:
                self._press(job)
            return
        self.on_end()
        if job.cancel:
            self.queue.end(job, CANCELLED, EXIT_INTERRUPTED)
        elif found.exit_code is not None:
            self.queue.end(job, DONE if found.exit_code in _VERDICTS else FAILED, found.exit_code)
        elif job.id not in self._seen and time.monotonic() - self._began < _FIND_S:
            # An earlier server may have been killed just when it started it.
            return
        elif job.id not in self._seen and job.starts < _MOST_STARTS:
            # It ended with an earlier server, such as at the end of the machine: the same command
            # goes on where it was.
            self.queue.set(job, state=QUEUED)
        else:
            self.children.note(job.id, "the process was killed")
            self.queue.end(job, FAILED, None)
        self._asked.pop(job.id, None)
        self._since.pop(job.id, None)
        for name in self.queue.drop_oldest():
            self.children.forget(name)

    def _press(self, job: Job) -> None:
        """End a job's process: asked, asked again, killed."""
        since = time.monotonic() - self._since.setdefault(job.id, time.monotonic())
        asked = self._asked.get(job.id, 0)
        if asked < len(_ASK_S) and since >= _ASK_S[asked]:
            self._asked[job.id] = asked + 1
            self.children.signal(job.id, signal.SIGINT)
        elif since > _KILL_S:
            self.children.kill(job.id)
