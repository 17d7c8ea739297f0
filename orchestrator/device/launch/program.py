"""The user's program: started in a group of its own, its output passed on and kept, ended politely
and then firmly.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from typing import (
    Any,
    BinaryIO,
    Callable,
    Collection,
    ContextManager,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
)

from ...base.atomic_writing import create_new, raise_write_error
from ...base.errors import InputError
from ...base.interrupts import signal_name
from ...base.notes import note
from ...base.system import PR_SET_CHILD_SUBREAPER, prctl, processes


class Member(NamedTuple):
    """One process; ``name`` as the kernel keeps it (15 characters)."""

    pid: int
    name: str


class Family:
    """The descendants of one program that leads a session of its own.

    Parameters
    ----------
    ours
        Tells which children of this process are not the program's.
    """

    def __init__(self, ours: Callable[[], Collection[int]]) -> None:
        self._ours = ours
        self._before = {pid for pid, stat in processes().items() if stat.parent == os.getpid()}
        prctl(PR_SET_CHILD_SUBREAPER, 1)

    def living(self, program: int) -> List[Member]:
        """Return the living processes that the program ``program`` has started, itself left out."""
        there, ours = processes(), {*self._before, *self._ours()}
        members: Set[int] = {program}
        size = 0
        while size != len(members):
            size = len(members)
            for pid, stat in there.items():
                adopted = stat.parent == os.getpid() and pid not in ours
                if stat.session == program or stat.parent in members or adopted:
                    members.add(pid)
        for pid in members - {program}:
            if there[pid].state == "Z" and there[pid].parent == os.getpid():
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass
        return [
            Member(pid, there[pid].name)
            for pid in sorted(members - {program})
            if not there[pid].ended
        ]

    def close(self) -> None:
        """Leave orphans to init again."""
        prctl(PR_SET_CHILD_SUBREAPER, 0)


LOG_FILE = "program.log"

_READ_BYTES = 1 << 16
_OUTPUT_WAIT_S = 2.0
_LOOK_S = 0.2


class Program:
    """A program that makes dumps.

    Parameters
    ----------
    words
        The program and its arguments.
    log
        Where its output is kept.
    stdout, stderr
        Descriptors that its output is passed on to.
    grace_s
        Seconds between SIGTERM and SIGKILL.
    say
        Takes sentences for the user.
    beside
        Entered with each piece of output while it is written to a terminal, which may show more
        than that.

    Attributes
    ----------
    ours
        Tells which children of this process are not the program's: none, unless it is set.
    """

    def __init__(
        self,
        words: Sequence[str],
        log: str,
        stdout: int,
        stderr: int,
        grace_s: float = 10.0,
        say: Callable[[str], None] = lambda text: None,
        beside: Callable[[bytes], ContextManager[None]] = lambda data: contextlib.nullcontext(),
    ) -> None:
        self.words = list(words)
        self.log = log
        self.grace_s = grace_s
        self.say = say
        self.beside = beside
        self.ours: Callable[[], Collection[int]] = tuple
        self.stopped = False
        self._targets = (stdout, stderr)
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._threads: List[threading.Thread] = []
        self._stream: Optional[BinaryIO] = None
        # One chunk at a time goes to the log and the terminal; taken before the display's own
        # lock (`beside`), under which nothing asks for this one.
        self._lock = threading.Lock()
        self._asked_at: Optional[float] = None
        self._killed = False
        self._family: Optional[Family] = None
        self._members: List[Member] = []
        self._looked_at = -1e9
        self._announced = False
        self._left = False
        self._leave_end = self._leave_start = -1

    def start(self) -> None:
        """Start it, with this process's environment and standard input.

        Raises
        ------
        InputError
            It cannot be started, or its log cannot be written.
        """
        self._stream = self._open_log()
        try:
            self._family = Family(self.ours)
            # A session of its own: Ctrl-C in the terminal comes to us alone, and its whole group
            # can be ended. The environment is named, or it would be what C libraries have made of
            # it.
            self._process = subprocess.Popen(
                self.words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(os.environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._stream.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(
                "%s cannot be started: %s" % (self.words[0], reason),
                hint="name a program that can be run after --",
            ) from error
        self._leave_end, self._leave_start = os.pipe()
        for source, target in zip((self._process.stdout, self._process.stderr), self._targets):
            thread = threading.Thread(target=self._pass_on, args=(source, target), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _open_log(self) -> BinaryIO:
        """Create the log anew: an earlier one, or a link under its name, is removed and not
        followed.
        """
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.log)
            return os.fdopen(create_new(self.log), "wb")
        except OSError as error:
            raise_write_error(self.log, error)

    def _pass_on(self, source: Any, target: int) -> None:
        """Copy what the program writes to the log and to our own output, until it is left running;
        there an unfinished line is ended.
        """
        shown = _Shown(target, self.beside)
        waiting = select.poll()
        for end in (source.fileno(), self._leave_end):
            waiting.register(end, select.POLLIN)
        while True:
            ready = {end for end, _ in waiting.poll()}
            # What comes from now on another process reads: one of two readers would take what the
            # other waits for.
            data = b"" if self._leave_end in ready else os.read(source.fileno(), _READ_BYTES)
            with self._lock:
                if not data:
                    shown.end()
                    return
                try:
                    if self._stream is not None:
                        self._stream.write(data)
                        self._stream.flush()
                except (OSError, ValueError):
                    # A full disk must not stop the program.
                    pass
                shown.write(data)

    @property
    def started(self) -> bool:
        """Whether it was started."""
        return self._process is not None

    def ended(self) -> bool:
        """Tell whether the program and all processes that it started have ended; says so when only
        those are left.
        """
        if self._process is None:
            return True
        if self._process.poll() is None:
            return False
        living = self._living()
        if living and not self._announced:
            self._announced = True
            self.say(
                "the program has ended; what it started still runs, and so does this run: %s"
                % _names(living)
            )
        return not living

    def _living(self) -> List[Member]:
        """Return the living processes that the program started; looked for a few times a second."""
        now = time.monotonic()
        if (
            self._family is not None
            and self._process is not None
            and now - self._looked_at >= _LOOK_S
        ):
            self._looked_at = now
            self._members = self._family.living(self._process.pid)
        return self._members

    def stopping(self, leave: bool = False) -> bool:
        """Ask it to stop, at the first call; later calls make it stop once its time is over. Tell
        whether it and what it started are gone.

        Parameters
        ----------
        leave
            Once the program itself has ended, leave running what it started.
        """
        if self._process is None:
            return True
        if self._asked_at is None:
            if self.ended():
                return True
            if leave and self._process.poll() is not None:
                self._leave()
                return True
            self.stopped = True
            self._asked_at = time.monotonic()
            self.say("stopping the program: SIGTERM, after %g s SIGKILL" % self.grace_s)
            self._send(signal.SIGTERM)
        if self.ended():
            return True
        if time.monotonic() - self._asked_at >= self.grace_s and not self._killed:
            self._killed = True
            self._send(signal.SIGKILL)
        return self._killed and self._process.poll() is not None

    def _leave(self) -> None:
        """Name what is left running, and let it write to the log without us."""
        assert self._process is not None
        if self._left:
            return
        self._left = True
        self.say(note("left-running", _names(self._living())))
        # The threads that read the program's output end first: cat goes on with it.
        os.close(self._leave_start)
        self._leave_start = -1
        for thread in self._threads:
            # One that cannot write looks here before it reads again.
            thread.join(_OUTPUT_WAIT_S)
        for source in (self._process.stdout, self._process.stderr):
            assert self._stream is not None
            subprocess.Popen(
                ["cat"],
                stdin=source,
                stdout=self._stream,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End its whole group now."""
        if self._process is not None:
            self.stopped = True
            self._send(signal.SIGKILL)
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                pass

    def _send(self, number: int) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
        # Those that have left its group.
        for member in self._family.living(self._process.pid) if self._family is not None else ():
            try:
                os.kill(member.pid, number)
            except (ProcessLookupError, PermissionError):
                pass

    def close(self) -> None:
        """Wait for the last of its output."""
        end = time.monotonic() + _OUTPUT_WAIT_S
        if self._family is not None:
            self._family.close()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            for descriptor in (self._leave_start, self._leave_end):
                if descriptor >= 0:
                    os.close(descriptor)
            self._leave_start = self._leave_end = -1
        with self._lock:
            stream, self._stream = self._stream, None
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass

    def document(self) -> Dict[str, Any]:
        """Return ``{"exit_code", "signal"}`` of the program that has ended, and ``"stopped"``,
        which is True, where we ended it.
        """
        code = None if self._process is None else self._process.poll()
        by_us: Dict[str, Any] = {"stopped": True} if self.stopped else {}
        if code is None or code >= 0:
            return {"exit_code": code, "signal": None, **by_us}
        return {"exit_code": None, "signal": signal_name(-code), **by_us}

    def failure(self) -> str:
        """Return how the program failed, in words; empty when it did not, or when it was stopped by
        us.
        """
        document = self.document()
        if (
            self.stopped
            or (document["exit_code"] == 0 and document["signal"] is None)
            or self._process is None
        ):
            return ""
        how = (
            "exit code %s" % document["exit_code"]
            if document["signal"] is None
            else "signal %s" % document["signal"]
        )
        return "the program failed with %s: %s (its output is in %s)" % (
            how,
            " ".join(self.words),
            self.log,
        )


class _Shown:
    """One of our own outputs, on which the program's shows as long as it takes it."""

    def __init__(self, target: int, beside: Callable[[bytes], ContextManager[None]]) -> None:
        self._target = target
        self._beside = beside if _is_terminal(target) else lambda data: contextlib.nullcontext()
        self._open = True
        self._unfinished = False

    def write(self, data: bytes) -> None:
        with self._beside(data):
            rest = memoryview(data)
            while len(rest) and self._open:
                try:
                    rest = rest[os.write(self._target, rest) :]
                except OSError:
                    self._open = False
        self._unfinished = not data.endswith(b"\n")

    def end(self) -> None:
        if self._unfinished:
            self.write(b"\n")


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _names(members: Sequence[Member]) -> str:
    more = " and %d more" % (len(members) - 8) if len(members) > 8 else ""
    return ", ".join("%s (pid %d)" % (member.name, member.pid) for member in members[:8]) + more
