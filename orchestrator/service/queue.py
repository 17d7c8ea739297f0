"""The jobs of a service in an SQLite file: what was asked for, what became of it. It outlives the
server.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import DiskFull, EnvironmentProblem
from ..filesystem.outputs import require_own_file
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
_VERSION = 2
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
    told      INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS job_state ON job (state);
"""
_FIELDS = ("id", "command", "args", "options", "run", "state", "exit_code", "submitted", "started",
"ended", "starts", "cancel",
           "submitted_by", "told")  # fmt: skip


class Job(NamedTuple):
    """One job; ``starts`` counts how often its process was started, ``cancel`` tells whether its
    end was asked for, ``told`` what has been notified
    (:class:`goldwatch.service.url_notifications.Teller`).
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
    told: int

    def document(self) -> Dict[str, Any]:
        """Return the job as the API shows it."""
        found = self._asdict()
        del found["starts"], found["cancel"], found["told"]
        return found


class Queue:
    """The queue in a folder, which one server at a time uses.

    Parameters
    ----------
    folder
        Made when it is missing, for this user alone.

    Raises
    ------
    EnvironmentProblem, FormatError
        It is not this user's own folder, another server uses it, or its file cannot be used.
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        _make(folder)
        self._lock = OutLock(self.folder)
        self.path = os.path.join(self.folder, _FILE)
        require_own_file(self.path)
        self._mutex = threading.RLock()
        try:
            self._connection = connect_writer(self.path)
            with translated(self.path):
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
        """Let another server use the folder."""
        with self._mutex:
            self._connection.close()
            self._lock.release()

    def add(self, request: JobRequest, submitted_by: Optional[str] = None, told: int = 0) -> Job:
        """Put a job at the end.

        Raises
        ------
        Problem
            429: too many wait already; 507: the disk is full.
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
                told,
            )
            names = "id, command, args, options, run, state, submitted, submitted_by, told"
            try:
                self._change(
                    "INSERT INTO job (%s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)" % names, values
                )
            except DiskFull:
                said = "the disk of the service is full: the job was not taken"
                raise Problem(507, said, "free space there, and send it again") from None
            return self.find(name)

    def find(self, name: str) -> Job:
        """Return a job; raises Problem (404) where there is none."""
        found = self._select("WHERE id = ?", name)
        if not found:
            raise Problem(404, "there is no such job", "GET /api/v1/jobs lists them")
        return found[0]

    def page(
        self, states: Sequence[str], run: Optional[str], limit: int, offset: int
    ) -> Tuple[List[Job], int]:
        """Return jobs of some states and, where it is given, of one run, the newest first, and how
        many there are.
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

    def drop_oldest(self, kept: int = KEPT) -> List[str]:
        """Forget the oldest jobs that have ended; return their ids."""
        oldest = (
            "SELECT id FROM job WHERE state NOT IN (?, ?) ORDER BY number DESC LIMIT -1 OFFSET ?"
        )
        with self._mutex, translated(self.path):
            names = [
                str(line[0])
                for line in self._connection.execute(oldest, (QUEUED, RUNNING, kept)).fetchall()
            ]
            self._connection.executemany(
                "DELETE FROM job WHERE id = ?", [(name,) for name in names]
            )
        return names

    def in_state(self, state: str) -> List[Job]:
        """Return the jobs of a state, oldest first."""
        return self._select("WHERE state = ? ORDER BY number", state)

    def untold(self, bit: int) -> List[Job]:
        """Return the jobs of which not all has been notified, oldest first."""
        return self._select("WHERE NOT told & ? ORDER BY number", bit)

    def note_told(self, job: Job, bit: int) -> None:
        """Note what has been notified of a job, or given up."""
        self._change("UPDATE job SET told = told | ? WHERE id = ?", (bit, job.id))

    def counts(self) -> Dict[str, int]:
        """Return how many jobs there are by state."""
        with self._mutex, translated(self.path):
            found = dict(
                self._connection.execute(
                    "SELECT state, count(*) FROM job GROUP BY state"
                ).fetchall()
            )
        return {state: int(found.get(state, 0)) for state in STATES}

    def set(self, job: Job, **values: Any) -> None:
        """Change a job."""
        terms = ", ".join("%s = ?" % name for name in values)
        self._change("UPDATE job SET %s WHERE id = ?" % terms, (*values.values(), job.id))

    def end(self, job: Job, state: str, exit_code: Optional[int]) -> None:
        """Note what became of a job."""
        self.set(job, state=state, exit_code=exit_code, ended=now())

    def _change(self, sql: str, values: Any) -> None:
        with self._mutex, translated(self.path):
            self._connection.execute(sql, values)

    def _select(self, rest: str, *values: Any) -> List[Job]:
        with self._mutex, translated(self.path):
            lines = self._connection.execute(
                "SELECT %s FROM job %s" % (", ".join(_FIELDS), rest), values
            ).fetchall()
        return [_job(*line) for line in lines]


def _job(name: str, command: str, args: str, options: str, *more: Any) -> Job:
    return Job(name, command, json.loads(args), json.loads(options), *more)


def now() -> str:
    """Return the time as ISO 8601 writes it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")


def _make(folder: str) -> None:
    """Make the folder of a service's state, or see that it is this user's own."""
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
