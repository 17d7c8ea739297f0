"""The machine: what the kernel tells in /proc and /sys, where ``root`` is, and is told by prctl;
memory; numpy without threads of its own; whether an address is this machine's.

Sources of the forms: proc(5), prctl(2), the kernel's cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from .errors import InputError
from .safe_reading import open_input

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Orphans below this process become its children instead of init's."""

_MOST_BYTES = 1 << 20
"""Files in /proc/sys refuse to be read by much more at once."""


def text_of(path: str) -> str:
    """Return the text of a file of the kernel, at most its first MiB; empty where it cannot be
    read.
    """
    try:
        with open_input(path) as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except (InputError, OSError):
        return ""


def fields_of(path: str) -> Iterator[Tuple[str, str]]:
    """Yield (name, value) of a file's lines ``name: value`` up to the first empty one, none when it
    cannot be read.
    """
    for line in text_of(path).split("\n\n")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def control_groups(root: str, controller: str) -> Iterator[str]:
    """Yield the folders of this process's control group and of those above it, the form of version
    2 or the controller's of version 1.
    """
    for line in text_of(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            top = os.path.join(root, "sys/fs/cgroup")
        elif controller in names.split(","):
            top = os.path.join(root, "sys/fs/cgroup", controller)
        else:
            continue
        while True:
            yield top + path.rstrip("/")
            if path in ("", "/"):
                break
            path = os.path.dirname(path)


class Stat(NamedTuple):
    """A process: its name as the kernel keeps it (15 characters), and when it started, in ticks
    since the kernel's own start.
    """

    name: str
    state: str
    parent: int
    session: int
    started: str

    @property
    def ended(self) -> bool:
        """A zombie has ended, too."""
        return self.state in "ZX"


def process(pid: int) -> Optional[Stat]:
    """Return what the kernel says of a process; None when there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            # The name may hold anything, parentheses too.
            head, _, rest = stream.read().rpartition(b")")
    except OSError:
        return None
    fields = rest.decode().split()
    return Stat(
        os.fsdecode(head.partition(b"(")[2]), fields[0], int(fields[1]), int(fields[3]), fields[19]
    )


class Process:
    """Another process, told from a later one with the same number by its start time."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._started = start_time(pid)

    def ended(self) -> bool:
        """Tell whether the process has ended (a zombie has)."""
        now = start_time(self.pid)
        return now is None or now != self._started


def start_time(pid: int) -> Optional[str]:
    """Return when a process started, in the kernel's ticks since its own start; None when it has
    ended.
    """
    status = process(pid)
    return None if status is None or status.ended else status.started


def processes() -> Dict[int, Stat]:
    """Return all processes by their number."""
    stats = ((int(name), process(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return {pid: stat for pid, stat in stats if stat is not None}


def return_freed_memory() -> None:
    """Give memory that was freed back to the kernel, where glibc keeps it: after many small objects
    it would be a quarter of all.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


_MMAP_THRESHOLD = -3


def return_large_arrays() -> None:
    """Have the memory of each array of more than 256 KiB given back to the kernel as soon as it is
    freed: otherwise glibc keeps up to 64 MiB of such (mallopt(3), M_MMAP_THRESHOLD).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 1 << 18)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


_NO_LIMIT = 1 << 60
# A group's limit, its use, and the lines of memory.stat that are the pages of files: version 2 of
# control groups, and version 1.
_FORMS = (
    ("memory.max", "memory.current", ("inactive_file", "active_file")),
    (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)


def memory(root: str = "/") -> Dict[str, Optional[int]]:
    """Return in bytes what the machine has, what is free there, and the limit of the control group;
    None what cannot be told.
    """
    lines = dict(fields_of(os.path.join(root, "proc/meminfo")))

    def size(name: str) -> Optional[int]:
        kilobytes = _number(lines.get(name, "").replace("kB", ""))
        return None if kilobytes is None else kilobytes * 1024

    limit = min((limit for limit, _ in _limits(root)), default=None)
    return {
        "total_bytes": size("MemTotal"),
        "free_bytes": size("MemAvailable"),
        "limit_bytes": limit,
    }


def cache_room(root: str = "/") -> Optional[int]:
    """Return how many bytes of files the page cache could hold for this process if it held nothing
    else; None where it cannot be told.
    """
    rooms = [memory(root)["free_bytes"], *(max(0, limit - taken) for limit, taken in _limits(root))]
    return min((size for size in rooms if size is not None), default=None)


def _limits(root: str) -> Iterator[Tuple[int, int]]:
    """Yield the limit of each control group that has one, and what is taken of it that are no pages
    of files.
    """
    for folder in control_groups(root, "memory"):
        for limit, use, of_files in _FORMS:
            most = _number(text_of(os.path.join(folder, limit)))
            if most is not None and most < _NO_LIMIT:
                lines = dict(
                    line.split(" ", 1)
                    for line in text_of(os.path.join(folder, "memory.stat")).splitlines()
                    if " " in line
                )
                pages = sum(_number(lines.get(name, "")) or 0 for name in of_files)
                yield most, max(0, (_number(text_of(os.path.join(folder, use))) or 0) - pages)


def _number(text: str) -> Optional[int]:
    text = text.strip()
    return int(text) if text.isdigit() else None


_THREADS = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def importing_unthreaded() -> Iterator[None]:
    """While numpy is imported, perhaps: have it start without threads, unless the user's
    environment says how many.

    The environment is as before afterwards: programs that are started later know nothing of it.
    """
    chosen = _THREADS in os.environ
    os.environ.setdefault(_THREADS, "1")
    try:
        yield
    finally:
        if not chosen:
            del os.environ[_THREADS]


def is_loopback(host: str) -> bool:
    """Return whether a host, a name or an IP address with or without brackets, is reached from this
    machine only.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
