"""A job's process: it outlives the server that started it, and the next server finds it again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Dict, List, NamedTuple, Optional

from ..filesystem.inputs import open_input
from ..run.watch_end import start_time

# The shell tells who it is, runs the command, and tells how it ended; a signal to the group ends
# the command, not the shell.
_SCRIPT = """
trap : INT TERM HUP
read -r about < /proc/$$/stat
printf '%s' "$about" > "$0.pid.new" && mv "$0.pid.new" "$0.pid"
"$@"
code=$?
printf '%s' "$code" > "$0.exit.new" && mv "$0.exit.new" "$0.exit"
"""
_SMALL_BYTES = 4096


class Standing(NamedTuple):
    """A job's process: whether it lives, and the exit code that it left, None where it left
    none.
    """

    alive: bool
    exit_code: Optional[int]


class Children:
    """The processes of jobs; each is the head of a group of its own.

    Parameters
    ----------
    folder
        Where their files lie, which belongs to the service alone: it is also the current folder of
        the processes, so that no module that somebody left below the ROOTs is ever imported.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._ours: Dict[str, "subprocess.Popen[bytes]"] = {}

    def log_of(self, name: str) -> str:
        """Return the path of what a job's process prints."""
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

    def standing(self, name: str) -> Standing:
        """Tell whether a job's process lives and how it ended."""
        ours = self._ours.get(name)
        if ours is not None and ours.poll() is None:
            return Standing(True, None)
        if ours is None and self._group(name) is not None:
            return Standing(True, None)
        self._ours.pop(name, None)
        code = self._read(name, ".exit")
        if ours is not None and not code:
            # Only the shell was killed: the command that it waited for shall not go on unseen.
            with contextlib.suppress(OSError):
                os.killpg(ours.pid, signal.SIGKILL)
        return Standing(False, int(code) if code.isdigit() else None)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process and all that it started."""
        ours = self._ours.get(name)
        group = ours.pid if ours is not None and ours.poll() is None else self._group(name)
        if group is not None:
            with contextlib.suppress(OSError):
                os.killpg(group, number)

    def kill(self, name: str) -> None:
        """End the process and all that it started."""
        self.signal(name, signal.SIGKILL)

    def note(self, name: str, text: str) -> None:
        """Write a line to a job's log."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.log_of(name), flags, 0o600), "w") as stream:
            stream.write("goldwatch serve: %s\n" % text)

    def forget(self, name: str) -> None:
        """Remove the files of a job that is not kept any more."""
        for suffix in (".log", ".pid", ".exit"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, name + suffix))

    def log(self, name: str, limit_bytes: int) -> bytes:
        """Return the end of what a job's process printed."""
        try:
            with open_input(self.log_of(name)) as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit_bytes))
                return stream.read(limit_bytes)
        except OSError:
            return b""

    def _group(self, name: str) -> Optional[int]:
        """Return the process group that an earlier server started, if it lives; a later process of
        its number is none.
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
