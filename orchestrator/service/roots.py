"""The folders below which everything that the service reads or writes lies."""

from __future__ import annotations

import os
from typing import Sequence, Tuple

from ..errors import GoldwatchError, require_folder
from ..naming import printable


class OutsideRoots(GoldwatchError):
    """A path does not lie below the service's folders, or a link leads it elsewhere."""

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
        One is no folder that can be listed.
    """

    def __init__(self, folders: Sequence[str], state: str) -> None:
        for folder in folders:
            require_folder(folder, "ROOT")
        self.folders: Tuple[str, ...] = tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders))
        self.state = os.path.realpath(state)

    def holds(self, real: str) -> bool:
        """Tell whether a real path is one of the ROOTs or below one, and none of the service's own."""
        return any(below(real, root) for root in self.folders) and not below(real, self.state)

    def resolve(self, text: str, what: str) -> str:
        """Return the real path of what a client named: absolute, or relative to the first ROOT; it need not exist.

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
        if not self.holds(real):
            raise OutsideRoots(
                "%s: %s does not lie below the folders of this service" % (what, printable(text)),
                hint="paths are absolute or relative to the first ROOT; a link that leads outside is refused",
            )
        return real


def below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies below it; both real."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
