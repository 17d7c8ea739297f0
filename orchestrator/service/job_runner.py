"""Takes jobs from the queue, a few at a time, and follows their processes."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Set

from ..base.errors import EXIT_FAIL, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_PASS, GoldwatchError
from ..base.safe_reading import open_input
from ..base.system import start_time
from .answers import Problem
from .job_notifications import NOTIFIED_ALL
from .job_queue import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Job, Queue, now
from .job_request import JobRequest, job_request
from .root_folders import Roots

# The shell writes its own identity, runs the command, and writes its exit code; a signal to the
# group ends the command, not the shell.
_SCRIPT = """
trap : INT TERM HUP
read -r about < /proc/$$/stat
printf '%s' "$about" > "$0.pid.new" && mv "$0.pid.new" "$0.pid"
"$@"
code=$?
printf '%s' "$code" > "$0.exit.new" && mv "$0.exit.new" "$0.exit"
"""
_SMALL_BYTES = 4096


class ProcessState(NamedTuple):
    """Whether a job's process is alive, and its exit code, None where it left none."""

    alive: bool
    exit_code: Optional[int]


class JobProcesses:
    """The processes of jobs, each the leader of a process group.

    Parameters
    ----------
    folder
        The folder of their files, which belongs to the service alone. It is also the current folder
        of the processes, so that no module below the ROOTs is ever imported.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._ours: Dict[str, "subprocess.Popen[bytes]"] = {}

    def log_of(self, name: str) -> str:
        """Return the path of the log of a job's process."""
        return os.path.join(self.folder, name + ".log")

    def start(self, name: str, words: List[str]) -> None:
        """Start goldwatch with these words; raises OSError."""
        stem = os.path.join(self.folder, name)
        for suffix in (".pid", ".exit"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(stem + suffix)
        log = os.open(
            self.log_of(name),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        try:
            command = ["/bin/sh", "-c", _SCRIPT, stem, sys.executable, "-m", "goldwatch", *words]
            self._ours[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def state_of(self, name: str) -> ProcessState:
        """Return whether a job's process is alive, and how it ended."""
        ours = self._ours.get(name)
        if ours is not None and ours.poll() is None:
            return ProcessState(True, None)
        if ours is None and self._group(name) is not None:
            return ProcessState(True, None)
        self._ours.pop(name, None)
        code = self._read(name, ".exit")
        if ours is not None and not code:
            # Only the shell was killed: the command must not go on unnoticed.
            with contextlib.suppress(OSError):
                os.killpg(ours.pid, signal.SIGKILL)
        return ProcessState(False, int(code) if code.isdigit() else None)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process and everything it started."""
        ours = self._ours.get(name)
        group = ours.pid if ours is not None and ours.poll() is None else self._group(name)
        if group is not None:
            with contextlib.suppress(OSError):
                os.killpg(group, number)

    def kill(self, name: str) -> None:
        """Kill the process and everything it started."""
        self.signal(name, signal.SIGKILL)

    def note(self, name: str, text: str) -> None:
        """Append a line to a job's log."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.log_of(name), flags, 0o600), "w") as stream:
            stream.write("goldwatch serve: %s\n" % text)

    def forget(self, name: str) -> None:
        """Remove the files of a job."""
        for suffix in (".log", ".pid", ".exit"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, name + suffix))

    def log(self, name: str, limit_bytes: int) -> bytes:
        """Return the end of a job's log."""
        try:
            with open_input(self.log_of(name)) as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit_bytes))
                return stream.read(limit_bytes)
        except OSError:
            return b""

    def _group(self, name: str) -> Optional[int]:
        """Return the process group that an earlier server started, if it is alive; not that of a
        later process with the same number.
        """
        head, _, rest = self._read(name, ".pid").partition(" ")
        fields = rest.rpartition(")")[2].split()
        if not head.isdigit() or len(fields) < 20:
            return None
        return int(head) if start_time(int(head)) == fields[19] else None

    def _read(self, name: str, suffix: str) -> str:
        try:
            with open_input(os.path.join(self.folder, name + suffix)) as stream:
                return stream.read(_SMALL_BYTES).decode("ascii", "replace").strip()
        except OSError:
            return ""


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
        Whether a URL is notified of them.

    Attributes
    ----------
    on_end
        Called when a job's process has ended, before the queue shows it.
    """

    def __init__(self, queue: Queue, roots: Roots, at_once: int, notifies: bool = False) -> None:
        self.notifies = notifies
        self.queue = queue
        self.roots = roots
        self.on_end: Callable[[], None] = lambda: None
        folder = os.path.join(queue.folder, "jobs")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.processes = JobProcesses(folder)
        self._at_once = at_once
        self._wake = threading.Event()
        self._stopping = False
        self._problem = ""
        self._began = time.monotonic()
        self._started: Set[str] = set()
        self._interrupts: Dict[str, int] = {}
        self._since: Dict[str, float] = {}
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def start(self) -> None:
        """Start the thread; jobs that an earlier server left running are taken over."""
        self._thread.start()

    def add(self, request: JobRequest, submitted_by: Optional[str]) -> Job:
        """Put a job into the queue; raises Problem (429) where too many are waiting."""
        job = self.queue.add(request, submitted_by, 0 if self.notifies else NOTIFIED_ALL)
        self.wake()
        return job

    def stop(self) -> None:
        """Start no more jobs; running ones go on by themselves."""
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def wake(self) -> None:
        """Check the queue at once."""
        self._wake.set()

    def cancel(self, job: Job) -> Job:
        """Prevent a job from starting, or end it; one that has ended stays as it is."""
        if job.state in (QUEUED, RUNNING):
            self.queue.set(job, cancel=1)
            self.wake()
        return self.queue.find(job.id)

    def _work(self) -> None:
        while not self._stopping:
            try:
                self._look()
            except (GoldwatchError, OSError) as error:
                # Logged once, not ten times a second.
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
            # A path that was below the ROOTs when the job was submitted may be a link now.
            request = job_request(document, self.roots)
            # First the entry, then the process: one that a killed server started is always looked
            # for.
            self.queue.set(job, state=RUNNING, started=job.started or now(), starts=job.starts + 1)
            self.processes.start(job.id, request.words)
            self._started.add(job.id)
        except (Problem, GoldwatchError, OSError) as error:
            self.processes.note(job.id, "not started: %s" % error)
            self.queue.end(job, FAILED, None)

    def _follow(self, job: Job) -> None:
        process = self.processes.state_of(job.id)
        if process.alive:
            self._started.add(job.id)
            if job.cancel:
                # End a job's process: interrupt it, interrupt it again, kill it.
                since = time.monotonic() - self._since.setdefault(job.id, time.monotonic())
                interrupts = self._interrupts.get(job.id, 0)
                if interrupts < len(_ASK_S) and since >= _ASK_S[interrupts]:
                    self._interrupts[job.id] = interrupts + 1
                    self.processes.signal(job.id, signal.SIGINT)
                elif since > _KILL_S:
                    self.processes.kill(job.id)
            return
        self.on_end()
        if job.cancel:
            self.queue.end(job, CANCELLED, EXIT_INTERRUPTED)
        elif process.exit_code is not None:
            self.queue.end(
                job, DONE if process.exit_code in _VERDICTS else FAILED, process.exit_code
            )
        elif job.id not in self._started and time.monotonic() - self._began < _FIND_S:
            # An earlier server may have been killed just as it started this one.
            return
        elif job.id not in self._started and job.starts < _MOST_STARTS:
            # It ended with an earlier server, for example when the machine shut down: the same
            # command goes on where it was.
            self.queue.set(job, state=QUEUED)
        else:
            self.processes.note(job.id, "the process was killed")
            self.queue.end(job, FAILED, None)
        self._interrupts.pop(job.id, None)
        self._since.pop(job.id, None)
        for name in self.queue.drop_oldest():
            self.processes.forget(name)
