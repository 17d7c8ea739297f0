"""The processes of jobs: they outlive the server that started them, and the next server finds them
again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Dict, List, NamedTuple, Optional

from ..filesystem.safe_reading import open_input
from ..system.proc_files import start_time

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
