"""The machine as goldwatch sees it: processor, limits of the process and of its control group,
locale.

``root`` is where ``proc`` and ``sys`` are (:mod:`goldwatch.system.kernel_files`).
"""

from __future__ import annotations

import contextlib
import locale
import os
import platform
import resource
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

from ..filesystem.mounts import free_bytes
from ..processes.pool import default_jobs
from ..system.kernel_files import control_groups, fields_of, text_of

FEATURES = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "asimd", "asimdhp", "sve")
"""What numpy and the compiled kernel ask a processor for, as /proc/cpuinfo calls it (x86-64, then
aarch64).
"""

_SHARED = "/dev/shm"


def system() -> Dict[str, str]:
    """Return the kernel, the machine's kind and the C library."""
    library = ""
    with contextlib.suppress(OSError, ValueError):  # Not glibc.
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "libc": library,
    }


def processor(root: str = "/") -> Dict[str, Any]:
    """Return the processor's name, which of :data:`FEATURES` it has, how many this process may use
    and what its control group allows.
    """
    lines = dict(fields_of(os.path.join(root, "proc/cpuinfo")))
    flags = (lines.get("flags") or lines.get("Features") or "").split()
    return {
        "name": lines.get("model name") or lines.get("CPU part") or "",
        "features": [name for name in FEATURES if name in flags],
        "usable": default_jobs(),
        "allowed": _processors_allowed(root),
    }


def limits() -> Dict[str, Optional[int]]:
    """Return how many files the process may open (now, and at most) and its address space in bytes;
    None without a limit.
    """

    def of(pair: Tuple[int, int]) -> List[Optional[int]]:
        return [None if value == resource.RLIM_INFINITY else value for value in pair]

    files, space = (
        of(resource.getrlimit(resource.RLIMIT_NOFILE)),
        of(resource.getrlimit(resource.RLIMIT_AS)),
    )
    return {"open_files": files[0], "open_files_at_most": files[1], "address_space_bytes": space[0]}


def folders() -> Dict[str, Any]:
    """Return the folder for temporary files (None: there is none) and the free bytes of the shared
    memory (None: there is none).
    """
    try:
        temporary: Optional[str] = tempfile.gettempdir()
    except OSError:
        temporary = None
    shared = free_bytes(_SHARED) if os.path.isdir(_SHARED) and os.access(_SHARED, os.W_OK) else None
    return {"temporary": temporary, "shared_memory_free_bytes": shared}


def language() -> Dict[str, Any]:
    """Return the variables that choose the locale, the encoding of texts that they mean, and that
    of file names.
    """
    names = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING")
    return {
        "variables": {name: os.environ[name] for name in names if os.environ.get(name)},
        "encoding": locale.getpreferredencoding(False),
        "file_names": sys.getfilesystemencoding(),
    }


def _processors_allowed(root: str) -> Optional[float]:
    """Return the least quota of processor time, in processors; None without one."""
    found = []
    for folder in control_groups(root, "cpu"):
        words = text_of(os.path.join(folder, "cpu.max")).split() or [
            text_of(os.path.join(folder, name)).strip()
            for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found) if found else None
