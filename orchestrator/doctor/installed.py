"""Which packages are installed, in which version: read from the names of their metadata, without
importing any.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, Iterable, Optional, Tuple

_METADATA = re.compile(r"(?P<name>.+?)-(?P<version>[0-9][^-]*)(?:-.*)?\.(?:dist|egg)-info")


def installed(search: Optional[Iterable[str]] = None) -> Dict[str, str]:
    """Return the version of each package on a search path, the first where several are there; names
    are lower case with ``-``.

    Parameters
    ----------
    search
        Folders; ``sys.path`` when left out.

    Source of the names: PyPA's "Recording installed projects", and PEP 376 for ``egg-info``.
    """
    found: Dict[str, str] = {}
    for folder in sys.path if search is None else search:
        try:
            names = sorted(os.listdir(folder or os.curdir))
        except OSError:
            continue
        for name in names:
            match = _METADATA.fullmatch(name)
            if match is not None:
                found.setdefault(
                    re.sub(r"[-_.]+", "-", match.group("name")).lower(), match.group("version")
                )
    return found


def number(version: str) -> Tuple[int, ...]:
    """Return a version's leading numbers, such as ``(4, 23, 1)`` of ``4.23.1rc1``, for comparing
    with others.
    """
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
