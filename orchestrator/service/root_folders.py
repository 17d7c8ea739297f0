"""The ROOTs: the folders below which everything lies that the service reads or writes."""

from __future__ import annotations

import os
from typing import List, Sequence, Set, Tuple

from ..base.errors import GoldwatchError, require_folder
from ..base.naming import printable


class OutsideRoots(GoldwatchError):
    """A path is not below the ROOTs, or a link leads outside."""

    kind = "outside_roots"


class Roots:
    """The ROOTs, links in their own paths resolved once.

    Parameters
    ----------
    folders
        At least one.
    state
        The folder of the service's own files, which no job may name.

    Raises
    ------
    MissingPath
        One is not a folder that can be listed.
    """

    def __init__(self, folders: Sequence[str], state: str) -> None:
        for folder in folders:
            require_folder(folder, "ROOT")
        self.folders: Tuple[str, ...] = tuple(
            dict.fromkeys(os.path.realpath(folder) for folder in folders)
        )
        self.state = os.path.realpath(state)

    def holds(self, real: str) -> bool:
        """Tell whether a real path is a ROOT or below one, and not one of the service's own."""
        return any(below(real, root) for root in self.folders) and not below(real, self.state)

    def resolve(self, text: str, what: str) -> str:
        """Return the real path that a client named, absolute or relative to the first ROOT; it need
        not exist.

        Parameters
        ----------
        what
            Its role, for the message.

        Raises
        ------
        OutsideRoots
            It is not below the ROOTs, or has a NUL in it.
        """
        if not text or "\0" in text or len(text) > 4096:
            raise OutsideRoots("%s: not a path" % what)
        real = os.path.realpath(os.path.join(self.folders[0], text))
        if below(real, self.state):
            raise OutsideRoots(
                "%s: %s is the service's own folder" % (what, printable(text)),
                hint="name another one",
            )
        if not self.holds(real):
            raise OutsideRoots(
                "%s: %s does not lie below the folders of this service" % (what, printable(text)),
                hint="paths are absolute or relative to the first ROOT; a link that leads outside "
                "is refused",
            )
        return real

    def require_links_inside(self, real: str, what: str) -> None:
        """Check that no link in a folder, or in one that its links lead to, leads outside.

        Parameters
        ----------
        real
            A path of :meth:`resolve`; anything but a readable folder has no links.

        Raises
        ------
        OutsideRoots
            A link leads outside.
        """
        seen: Set[str] = set()
        waiting: List[str] = [real]
        while waiting:
            folder = waiting.pop()
            if folder in seen:
                continue
            seen.add(folder)
            try:
                with os.scandir(folder) as entries:
                    kinds = [
                        (entry.path, entry.is_symlink(), entry.is_dir(follow_symlinks=False))
                        for entry in entries
                    ]
            except OSError:
                continue
            for path, is_link, is_folder in kinds:
                if not is_link and not is_folder:
                    continue
                place = os.path.realpath(path) if is_link else path
                if is_link and not self.holds(place):
                    shown = printable(os.path.relpath(path, real))
                    raise OutsideRoots(
                        "%s: the link %s in it leads outside the folders of this service"
                        % (what, shown),
                        hint="serve the folder that it leads to as well, or compare on the machine "
                        "itself",
                    )
                waiting.append(place)


def below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
