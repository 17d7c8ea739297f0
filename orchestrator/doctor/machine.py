"""The machine as goldwatch sees it: processor, memory, limits of the process and of its control group, locale.

Sources of the forms: proc(5), the kernel's cgroup-v2.rst and cgroup-v1/memory.rst. ``root`` is where ``proc`` and ``sys`` are.
"""

from __future__ import annotations

import contextlib
import locale
import os
import platform
import resource
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..filesystem import free_bytes
from ..processes import default_jobs
from .kernel_files import text_of

FEATURES = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "asimd", "asimdhp", "sve")
"""What numpy and the compiled kernel ask a processor for, as /proc/cpuinfo calls it (x86-64, then aarch64)."""

_NO_LIMIT = 1 << 60
_SHARED = "/dev/shm"


def system() -> Dict[str, str]:
    """Return the kernel, the machine's kind and the C library."""
    library = ""
    with contextlib.suppress(OSError, ValueError):  # Not glibc.
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    return {"system": platform.system(), "release": platform.release(), "machine": platform.machine(), "libc": library}


def processor(root: str = "/") -> Dict[str, Any]:
    """Return the processor's name, which of :data:`FEATURES` it has, how many this process may use and what its control group allows."""
    lines = dict(_fields(os.path.join(root, "proc/cpuinfo")))
    flags = (lines.get("flags") or lines.get("Features") or "").split()
    return {
        "name": lines.get("model name") or lines.get("CPU part") or "",
        "features": [name for name in FEATURES if name in flags],
        "usable": default_jobs(),
        "allowed": _processors_allowed(root),
    }


def memory(root: str = "/") -> Dict[str, Optional[int]]:
    """Return in bytes what the machine has, what is free there, and the limit of the control group; None what cannot be told."""
    lines = dict(_fields(os.path.join(root, "proc/meminfo")))

    def size(name: str) -> Optional[int]:
        words = lines.get(name, "").split()
        return int(words[0]) * 1024 if words and words[0].isdigit() else None

    return {"total_bytes": size("MemTotal"), "free_bytes": size("MemAvailable"), "limit_bytes": _memory_limit(root)}


def limits() -> Dict[str, Optional[int]]:
    """Return how many files the process may open (now, and at most) and its address space in bytes; None without a limit."""

    def of(pair: Tuple[int, int]) -> List[Optional[int]]:
        return [None if value == resource.RLIM_INFINITY else value for value in pair]

    files, space = of(resource.getrlimit(resource.RLIMIT_NOFILE)), of(resource.getrlimit(resource.RLIMIT_AS))
    return {"open_files": files[0], "open_files_at_most": files[1], "address_space_bytes": space[0]}


def folders() -> Dict[str, Any]:
    """Return the folder for temporary files (None: there is none) and the free bytes of the shared memory (None: there is none)."""
    try:
        temporary: Optional[str] = tempfile.gettempdir()
    except OSError:
        temporary = None
    shared = free_bytes(_SHARED) if os.path.isdir(_SHARED) and os.access(_SHARED, os.W_OK) else None
    return {"temporary": temporary, "shared_memory_free_bytes": shared}


def language() -> Dict[str, Any]:
    """Return the variables that choose the locale, the encoding of texts that they mean, and that of file names."""
    names = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING")
    return {
        "variables": {name: os.environ[name] for name in names if os.environ.get(name)},
        "encoding": locale.getpreferredencoding(False),
        "file_names": sys.getfilesystemencoding(),
    }


def _fields(path: str) -> Iterator[Tuple[str, str]]:
    """Yield (name, value) of a file's lines ``name: value`` up to the first empty one, none when it cannot be read."""
    for line in text_of(path).split("\n\n")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def _groups(root: str, controller: str) -> Iterator[str]:
    """Yield the folders of this process's control group and of those above it, the form of version 2 or the controller's of version 1."""
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


def _memory_limit(root: str) -> Optional[int]:
    found = []
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = text_of(os.path.join(folder, name)).strip()
            if text.isdigit() and int(text) < _NO_LIMIT:
                found.append(int(text))
    return min(found) if found else None


def _processors_allowed(root: str) -> Optional[float]:
    """Return the least quota of processor time, in processors; None without one."""
    found = []
    for folder in _groups(root, "cpu"):
        words = text_of(os.path.join(folder, "cpu.max")).split() or [
            text_of(os.path.join(folder, name)).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found) if found else None
