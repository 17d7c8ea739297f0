"""Whether a machine sees the same files as this one: it is asked for the beginnings of a few."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..base.errors import InputError
from ..base.safe_reading import open_input
from ..dumps.dump_index import DumpIndex
from ..dumps.folder_listing import look_at

_START_BYTES = 4096
_SHOWN = 4


class FileProbe(NamedTuple):
    """A file with a digest of its size and its beginning.

    Attributes
    ----------
    what
        What the file belongs to, for messages.
    """

    what: str
    path: str
    digest: str


class NotSeen(InputError):
    """A worker does not see a file that it is to compare, or has another version: it gets no work.

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


def file_probe(what: str, path: str) -> FileProbe:
    """Return the probe of a file as this machine sees it."""
    return FileProbe(what, path, _digest(path))


def unseen(probes: Tuple[FileProbe, ...]) -> List[int]:
    """Return the numbers of the probes whose file is missing or another one where this is
    called.
    """
    return [number for number, probe in enumerate(probes) if _digest(probe.path) != probe.digest]


def require_seen(probes: Tuple[FileProbe, ...], worker: str) -> None:
    """Raise NotSeen where the file of a probe is missing or another one where this is called."""
    numbers = unseen(probes)
    if numbers:
        raise NotSeen("worker %s does not see %s" % (worker, probed(probes, numbers)), worker)


def probed(probes: Sequence[FileProbe], numbers: Iterable[int]) -> str:
    """Return which inputs of the run (TARGET, GOLDEN …) a worker's probes are of, as text."""
    return ", ".join(list(dict.fromkeys(probes[number].what for number in numbers))[:_SHOWN])


def first_file(folder: str) -> Optional[str]:
    """Return a file of a folder, always the same one; None where there is none."""
    for listing, names in DumpIndex(os.path.abspath(folder), "").files():
        if names:
            return os.path.join(listing.folder, names[0])
    return None


def _digest(path: str) -> str:
    try:
        with open_input(path) as stream:
            start = stream.read(_START_BYTES)
        look = look_at(path)
        assert look is not None
        return "%d:%s" % (look.size_bytes, hashlib.blake2b(start, digest_size=16).hexdigest())
    except Exception:
        return ""
