"""TARGET and GOLDEN as they are watched: the paths in them that wait to be looked at.

Of links to folders below them each real folder is watched once, and its files are known by the
link's name.
"""

from __future__ import annotations

import os
import threading
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .comparison_options import ComparisonOptions
from .dump_catalogue import Catalogue
from .folder_monitor import Mailbox, Monitor, Root
from .golden_files import Goldens


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


class Folders:
    """The two watched folders, neither of which is looked at as a part of the other.

    Parameters
    ----------
    options
        Names TARGET, GOLDEN and OUT.
    poll_s
        As for :class:`Monitor`.
    say
        Takes sentences for the user.
    wake
        Is set, from any thread, when there is something to look at.
    catalogue, goldens
        The files that are known already.
    left_alone
        Folders below TARGET that are not looked at.

    Attributes
    ----------
    monitor
        Fills the two mailboxes.
    targets, goldens
        Paths to look at.
    target_root, golden_root, target_links, golden_links
        The folders, and the links below them.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        poll_s: Optional[float],
        say: Callable[[str], None],
        wake: threading.Event,
        catalogue: Catalogue,
        goldens: Goldens,
        left_alone: Sequence[str],
    ) -> None:
        target, golden, out = (
            os.path.realpath(path) for path in (options.target, options.golden, options.out)
        )
        self._catalogue, self._goldens = catalogue, goldens
        self.targets, self.goldens = Mailbox(wake), Mailbox(wake)
        self.target_root = Root(
            "TARGET", target, self.targets, [*_below(target, (golden, out)), *left_alone]
        )
        self.golden_root = Root("GOLDEN", golden, self.goldens, _below(golden, (target, out)))
        self.monitor = Monitor(poll_s, say, wake)
        self._moved = False
        self.target_links, self.golden_links = (
            Links(self.monitor, self.target_root),
            Links(self.monitor, self.golden_root),
        )

    @property
    def waiting(self) -> bool:
        """Whether there are paths to look at."""
        return bool(self.targets) or bool(self.goldens)

    def tick(self) -> bool:
        """List for a moment what is to be listed; tell whether more is to be listed."""
        for folder in self.monitor.tick():
            self._look_at_known(folder)
        return self.monitor.listing

    def take_moved(self) -> bool:
        """Tell whether TARGET has turned out to be, or has become, a link to another place since
        the last call.
        """
        moved, self._moved = self._moved, False
        return moved

    def look_again(self, path: str) -> None:
        """Look again at a file below TARGET, or at a golden file that is known."""
        if self._goldens.signature(path) is not None:
            self.goldens.put(path)
        if path.startswith(self.target_root.path + os.sep) and not self.target_root.excludes(path):
            self.targets.put(path)

    def _look_at_known(self, folder: str) -> None:
        """Look again at all that is known below a folder that was listed, or has gone."""
        if self._catalogue.root != self.target_root.path:
            self._catalogue.move(self.target_root.path)
            self._moved = True
        self.targets.put_all(self._catalogue.known_below(self.target_links.as_met(folder)))
        self.goldens.put_all(self._goldens.known_below(self.golden_links.as_met(folder)))


def _below(folder: str, others: Tuple[str, ...]) -> List[str]:
    """Return those of ``others`` that lie below ``folder``."""
    return [other for other in others if other.startswith(folder.rstrip(os.sep) + os.sep)]
