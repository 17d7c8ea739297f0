"""The queue: the jobs of a service and their outcomes in an SQLite file, which outlives the
server.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..base.atomic_writing import require_own_file
from ..base.errors import DiskFull, EnvironmentProblem
from ..store.database import connect_writer, translated
from ..store.lock import OutLock
from .answers import Problem
from .job_request import JobRequest

QUEUED, RUNNING, DONE, CANCELLED, FAILED = STATES = (
    "queued",
    "running",
    "done",
    "cancelled",
    "failed",
)
MOST_QUEUED = 1000
KEPT = 1000
"""So many jobs that have ended are kept, the newest ones, with their logs."""

_FILE = "jobs.sqlite"
_VERSION = 3
_TABLE = """
CREATE TABLE IF NOT EXISTS job (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT NOT NULL UNIQUE,
    command   TEXT NOT NULL,
    args      TEXT NOT NULL,
    options   TEXT NOT NULL,
    run       TEXT,
    state     TEXT NOT NULL,
    exit_code INTEGER,
    submitted TEXT NOT NULL,
    started   TEXT,
    ended     TEXT,
    starts    INTEGER NOT NULL DEFAULT 0,
    cancel    INTEGER NOT NULL DEFAULT 0,
    submitted_by TEXT,
    notified  INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS job_state ON job (state);
"""


class Job(NamedTuple):
    """One job; ``starts`` counts how often its process was started, ``cancel`` tells whether it is
    to be cancelled, ``notified`` which notifications were sent
    (:class:`goldwatch.service.job_notifications.JobNotifier`).
    """

    id: str
    command: str
    args: List[str]
    options: Dict[str, Any]
    run: Optional[str]
    state: str
    exit_code: Optional[int]
    submitted: str
    started: Optional[str]
    ended: Optional[str]
    starts: int
    cancel: int
    submitted_by: Optional[str]
    notified: int

    def document(self) -> Dict[str, Any]:
        """Return the job as the API shows it."""
        fields = self._asdict()
        del fields["starts"], fields["cancel"], fields["notified"]
        return fields


class Queue:
    """The queue in a folder, used by one server at a time.

    Parameters
    ----------
    folder
        Created if it is missing, for this user alone.

    Raises
    ------
    EnvironmentProblem, FormatError
        It does not belong to this user, another server uses it, or its file cannot be used.
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        _make(folder)
        self._lock = OutLock(self.folder)
        self.path = os.path.join(self.folder, _FILE)
        require_own_file(self.path)
        # Re-entrant: adding counts the jobs that wait. The folder's lock was taken before, and is
        # given back under it, last.
        self._mutex = threading.RLock()
        try:
            self._connection = connect_writer(self.path)
            with translated(self.path):
                # Unlike a run's rows, a job that was accepted cannot be made again after a power
                # failure.
                self._connection.execute("PRAGMA synchronous = FULL")
                version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
                if version not in (0, _VERSION):
                    raise EnvironmentProblem(
                        "%s: another version of goldwatch made it" % self.path,
                        hint="name another folder for the service's state",
                    )
                self._connection.executescript(_TABLE + "PRAGMA user_version = %d;" % _VERSION)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Release the folder for another server."""
        with self._mutex:
            self._connection.close()
            self._lock.release()

    def add(
        self, request: JobRequest, submitted_by: Optional[str] = None, notified: int = 0
    ) -> Job:
        """Append a job.

        Raises
        ------
        Problem
            429: too many are waiting; 507: the disk is full.
        """
        with self._mutex:
            if self.counts()[QUEUED] >= MOST_QUEUED:
                raise Problem(
                    429,
                    "%d jobs wait already" % MOST_QUEUED,
                    "wait until some are done",
                    headers={"Retry-After": "60"},
                )
            name = secrets.token_hex(8)
            args, options = json.dumps(request.args), json.dumps(request.options)
            values = (
                name,
                request.command,
                args,
                options,
                request.run,
                QUEUED,
                now(),
                submitted_by,
                notified,
            )
            names = "id, command, args, options, run, state, submitted, submitted_by, notified"
            try:
                self._change(
                    "INSERT INTO job (%s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)" % names, values
                )
            except DiskFull:
                message = "the disk of the service is full: the job was not taken"
                raise Problem(507, message, "free space there, and send it again") from None
            return self.find(name)

    def find(self, name: str) -> Job:
        """Return a job; raises Problem (404) where there is none."""
        jobs = self._select("WHERE id = ?", name)
        if not jobs:
            raise Problem(404, "there is no such job", "GET /api/v1/jobs lists them")
        return jobs[0]

    def page(
        self, states: Sequence[str], run: Optional[str], limit: int, offset: int
    ) -> Tuple[List[Job], int]:
        """Return jobs in some states and, if ``run`` is given, of that run, the newest first, and
        their total number.
        """
        where = "WHERE state IN (%s)%s" % (
            ", ".join("?" * len(states)),
            "" if run is None else " AND run = ?",
        )
        values = (*states, *(() if run is None else (run,)))
        with self._mutex:
            jobs = self._select(
                where + " ORDER BY number DESC LIMIT ? OFFSET ?", *values, limit, offset
            )
            with translated(self.path):
                total = self._connection.execute(
                    "SELECT count(*) FROM job " + where, values
                ).fetchone()[0]
        return jobs, int(total)

    def drop_oldest(self, keep: int = KEPT) -> List[str]:
        """Delete the oldest ended jobs but for the last ``keep``; return their ids."""
        oldest = (
            "SELECT id FROM job WHERE state NOT IN (?, ?) ORDER BY number DESC LIMIT -1 OFFSET ?"
        )
        with self._mutex, translated(self.path):
            names = [
                str(line[0])
                for line in self._connection.execute(oldest, (QUEUED, RUNNING, keep)).fetchall()
            ]
            self._connection.executemany(
                "DELETE FROM job WHERE id = ?", [(name,) for name in names]
            )
        return names

    def in_state(self, state: str) -> List[Job]:
        """Return the jobs of a state, oldest first."""
        return self._select("WHERE state = ? ORDER BY number", state)

    def not_notified(self, bit: int) -> List[Job]:
        """Return the jobs without this notification, oldest first."""
        return self._select("WHERE NOT notified & ? ORDER BY number", bit)

    def note_notified(self, job: Job, bit: int) -> None:
        """Record that a notification was sent, or given up."""
        self._change("UPDATE job SET notified = notified | ? WHERE id = ?", (bit, job.id))

    def counts(self) -> Dict[str, int]:
        """Return the number of jobs by state."""
        with self._mutex, translated(self.path):
            counts = dict(
                self._connection.execute(
                    "SELECT state, count(*) FROM job GROUP BY state"
                ).fetchall()
            )
        return {state: int(counts.get(state, 0)) for state in STATES}

    def set(self, job: Job, **values: Any) -> None:
        """Update some fields of a job."""
        terms = ", ".join("%s = ?" % name for name in values)
        self._change("UPDATE job SET %s WHERE id = ?" % terms, (*values.values(), job.id))

    def end(self, job: Job, state: str, exit_code: Optional[int]) -> None:
        """Record the outcome of a job."""
        self.set(job, state=state, exit_code=exit_code, ended=now())

    def _change(self, sql: str, values: Any) -> None:
        with self._mutex, translated(self.path):
            self._connection.execute(sql, values)

    def _select(self, rest: str, *values: Any) -> List[Job]:
        with self._mutex, translated(self.path):
            lines = self._connection.execute(
                "SELECT %s FROM job %s" % (", ".join(Job._fields), rest), values
            ).fetchall()
        return [_job(*line) for line in lines]


def _job(name: str, command: str, args: str, options: str, *more: Any) -> Job:
    return Job(name, command, json.loads(args), json.loads(options), *more)


def now() -> str:
    """Return the time in ISO 8601."""
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")


def _make(folder: str) -> None:
    """Create the folder of the service's state, or check that it belongs to this user."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
        if not os.path.lexists(folder):
            os.mkdir(folder, 0o700)
        status = os.lstat(folder)
    except OSError as error:
        raise EnvironmentProblem(
            "the folder of the service's state, %s, cannot be made: %s" % (folder, error.strerror),
            hint="name another one",
        ) from None
    if (
        os.path.islink(folder)
        or not os.path.isdir(folder)
        or status.st_uid != os.geteuid()
        or status.st_mode & 0o022
    ):
        raise EnvironmentProblem(
            "the folder of the service's state, %s, is not this user's own" % folder,
            hint="name a folder that belongs to the user of the service, and that nobody else may "
            "write to",
        )
