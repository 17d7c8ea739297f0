"""Which worker sees which files: it is asked for the beginnings of some that this machine knows."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import InputError
from ..filesystem.inputs import open_input

_START_BYTES = 4096
_SHOWN = 4


HOST = "{host}"
"""What stands for a worker's machine in the path of its golden data."""


class Marker(NamedTuple):
    """A file, and what stands for its size and its beginning.

    Attributes
    ----------
    what
        What it is one of, for messages.
    path
        May hold :data:`HOST`.
    """

    what: str
    path: str
    digest: str


def marker(what: str, path: str) -> Marker:
    """Return what stands for a file as it is seen here."""
    return Marker(what, path, _digest(path))


def unseen(markers: Tuple[Marker, ...]) -> List[int]:
    """Return the numbers of the markers that are not, or not the same, where this is called."""
    return [number for number, mark in enumerate(markers) if _digest(on_this_host(mark.path)) != mark.digest]


def on_this_host(path: str) -> str:
    """Return a path with this machine's name for :data:`HOST`."""
    return path.replace(HOST, socket.gethostname())


def _digest(path: str) -> str:
    try:
        with open_input(path) as stream:
            start = stream.read(_START_BYTES)
        return "%d:%s" % (os.stat(path).st_size, hashlib.blake2b(start, digest_size=16).hexdigest())
    except Exception:
        return ""


class NotSeen(InputError):
    """A worker does not see what it is to compare, or has another version: it gets no work.

    Attributes
    ----------
    worker
        Its address.
    """

    kind = "not_seen"

    def __init__(self, message: str, worker: str) -> None:
        super().__init__(message)
        self.worker = worker

    def __reduce__(self) -> Any:
        return NotSeen, (self.message, self.worker)


def require_seen(markers: Tuple[Marker, ...], worker: str) -> None:
    """Raise NotSeen where one of the markers is not, or not the same, where this is called."""
    numbers = unseen(markers)
    if numbers:
        raise NotSeen("worker %s does not see %s" % (worker, in_words(markers, numbers)), worker)


def in_words(markers: Sequence[Marker], numbers: Iterable[int]) -> str:
    """Return what markers of these numbers are of."""
    return ", ".join(list(dict.fromkeys(markers[number].what for number in numbers))[:_SHOWN])


def first_file(folder: str) -> Optional[str]:
    """Return a file of a folder, always the same one; None where there is none."""
    for base, folders, names in os.walk(os.path.abspath(folder), followlinks=True):
        folders.sort()
        if names:
            return os.path.join(base, min(names))
    return None
