"""Which worker sees which files: it is asked for the beginnings of some that this machine knows."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

from ..filesystem import open_input

_START_BYTES = 4096


class Marker(NamedTuple):
    """A file, and what stands for its size and its beginning.

    Attributes
    ----------
    what
        What it is one of, for messages.
    """

    what: str
    path: str
    digest: str


def marker(what: str, path: str) -> Marker:
    """Return what stands for a file as it is seen here."""
    return Marker(what, path, _digest(path))


def unseen(markers: Tuple[Marker, ...]) -> List[int]:
    """Return the numbers of the markers that are not, or not the same, where this is called."""
    return [number for number, mark in enumerate(markers) if _digest(mark.path) != mark.digest]


def _digest(path: str) -> str:
    try:
        with open_input(path) as stream:
            start = stream.read(_START_BYTES)
        return "%d:%s" % (os.stat(path).st_size, hashlib.blake2b(start, digest_size=16).hexdigest())
    except Exception:
        return ""


def look_around(client: Any, markers: Iterable[Marker], workers: Iterable[str]) -> Dict[str, List[str]]:
    """Return what each worker does not see of the markers, in words."""
    wanted = tuple(markers)
    found: Dict[str, List[int]] = client.run(unseen, wanted, workers=list(workers))
    return {worker: list(dict.fromkeys(wanted[number].what for number in numbers)) for worker, numbers in found.items()}
