"""TARGET and GOLDEN as they are watched: the paths in them that wait to be looked at."""

from __future__ import annotations

import os
import threading
from typing import Callable, List, Optional, Sequence, Tuple

from .catalogue import Catalogue
from .goldens import Goldens
from .links import Links
from .monitor import Mailbox, Monitor, Root
from .options import ComparisonOptions


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
        Set when there is something to look at.
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
    on_move
        Called when TARGET has turned out to be, or has become, a link to another place.
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
        self.targets, self.goldens = Mailbox(), Mailbox()
        self.targets.filled = self.goldens.filled = wake
        self.target_root = Root(
            "TARGET", target, self.targets, [*_below(target, (golden, out)), *left_alone]
        )
        self.golden_root = Root("GOLDEN", golden, self.goldens, _below(golden, (target, out)))
        self.monitor = Monitor(poll_s, say, self._listed)
        self.monitor.wake = wake.set
        self.on_move: Callable[[], None] = lambda: None
        self.target_links, self.golden_links = (
            Links(self.monitor, self.target_root),
            Links(self.monitor, self.golden_root),
        )

    @property
    def waiting(self) -> bool:
        """Whether there are paths to look at."""
        return bool(self.targets) or bool(self.goldens)

    def look_again(self, path: str) -> None:
        """Look again at a file below TARGET, or at a golden file that is known."""
        if self._goldens.signature(path) is not None:
            self.goldens.put(path)
        if path.startswith(self.target_root.path + os.sep) and not self.target_root.excludes(path):
            self.targets.put(path)

    def _listed(self, folder: str) -> None:
        """Look again at all that is known below a folder that was listed."""
        if self._catalogue.root != self.target_root.path:
            self._catalogue.move(self.target_root.path)
            self.on_move()
        self.targets.put_all(self._catalogue.known_below(self.target_links.as_met(folder)))
        self.goldens.put_all(self._goldens.known_below(self.golden_links.as_met(folder)))


def _below(folder: str, others: Tuple[str, ...]) -> List[str]:
    """Return those of ``others`` that lie below ``folder``."""
    return [other for other in others if other.startswith(folder.rstrip(os.sep) + os.sep)]
