"""Creates the folder of an export under a hidden name and renames it at the end, so that an
interrupt or a kill leaves no partial folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import BinaryIO, Iterator

from ..errors import EnvironmentProblem
from ..filesystem.atomic_writing import create_new, raise_write_error, temporary_path
from ..filesystem.free_space import free_bytes

# Room for manifests, mapping.csv and what a file system keeps for itself.
_RESERVE_BYTES = 1 << 20
_TRIES = 100000


class NewFolder:
    """A folder that is being filled.

    Attributes
    ----------
    path
        Where to write: the hidden folder.
    final
        The folder's path once it is there; empty before.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.final = ""

    def folder(self, name: str) -> None:
        """Make a folder in it."""
        os.makedirs(os.path.join(self.path, name), exist_ok=True)

    def create(self, *parts: str) -> BinaryIO:
        """Return a binary stream that writes a new file in it, whose folder is there."""
        return os.fdopen(create_new(os.path.join(self.path, *parts)), "wb")


@contextlib.contextmanager
def new_folder(out: str, began_s: float) -> Iterator[NewFolder]:
    """Yield a folder to fill; it is renamed to ``out/dump_result_YYYY_mm_dd_HH_MM_SS`` at the end,
    or removed if the body raises.

    Parameters
    ----------
    out
        Made where it is not there.
    began_s
        When the export began, in seconds since the epoch: the folder's name in local time. Where
        that is taken, the next free second is.

    Raises
    ------
    EnvironmentProblem
        ``out`` cannot be made or written.
    """
    hidden = temporary_path(out)
    folder = NewFolder(hidden)
    try:
        os.makedirs(hidden)
        yield folder
        folder.final = _renamed(hidden, out, began_s)
    except OSError as error:
        if isinstance(error, EnvironmentProblem) or not isinstance(
            error.filename, (str, type(None))
        ):
            raise
        raise_write_error(error.filename or out, error)
    finally:
        if not folder.final:
            shutil.rmtree(hidden, ignore_errors=True)


def _renamed(hidden: str, out: str, began_s: float) -> str:
    for later in range(_TRIES):
        path = os.path.join(
            out, time.strftime("dump_result_%Y_%m_%d_%H_%M_%S", time.localtime(began_s + later))
        )
        if os.path.lexists(path):
            continue
        try:
            os.rename(hidden, path)
        except FileExistsError:
            # Another export took the name meanwhile.
            continue
        except OSError as error:
            if os.path.lexists(path):
                continue
            raise error
        return path
    raise EnvironmentProblem("%s: no free name for the export" % out)


def require_space(out: str, needed_bytes: int) -> None:
    """Raise EnvironmentProblem when the file system of ``out`` has no room for so many bytes."""
    free = free_bytes(out)
    if free is not None and free < needed_bytes + _RESERVE_BYTES:
        raise EnvironmentProblem(
            "%s: the export needs %d bytes, %d are free"
            % (out, needed_bytes + _RESERVE_BYTES, free),
            hint="free space there, or choose another folder; nothing was written",
        )
