"""Links to folders below a watched one: each real folder is watched once, and its files are known
by the link's name.
"""

from __future__ import annotations

import os
from typing import Dict, Sequence

from .monitor import Mailbox, Monitor, Root


class _Renamed(Mailbox):
    """Passes paths below one folder on as paths below another."""

    def __init__(self, to: Mailbox, real: str, link: str) -> None:
        super().__init__()
        self._to, self._length, self._link = to, len(real), link

    def put(self, path: str) -> None:
        """Add a path and wake who waits."""
        self._to.put(self._link + path[self._length :])

    def put_all(self, paths: Sequence[str]) -> None:
        """Add paths and wake who waits."""
        self._to.put_all([self._link + path[self._length :] for path in paths])


class Links:
    """The links below one root.

    Parameters
    ----------
    monitor, root
        ``root`` is watched by ``monitor``; its mailbox takes the linked folders' files too.
    """

    def __init__(self, monitor: Monitor, root: Root) -> None:
        self.monitor = monitor
        self.root = root
        self._links: Dict[str, str] = {}

    def follow(self, link: str) -> None:
        """Watch the folder that ``link`` leads to, unless it is watched already, or left alone."""
        real = os.path.realpath(link)
        watched = [self.root.path, *self._links]
        if any(
            real == folder or real.startswith(folder.rstrip(os.sep) + os.sep) for folder in watched
        ) or self.root.excludes(real):
            return
        self._links[real] = link
        within = [
            folder
            for folder in [*watched, *self.root.excluded]
            if folder.startswith(real.rstrip(os.sep) + os.sep)
        ]
        self.monitor.add(Root(self.root.what, real, _Renamed(self.root.files, real, link), within))

    def as_met(self, folder: str) -> str:
        """Return a watched folder by the name that its files are known by."""
        for real, link in self._links.items():
            if folder == real or folder.startswith(real.rstrip(os.sep) + os.sep):
                return link + folder[len(real) :]
        return folder
