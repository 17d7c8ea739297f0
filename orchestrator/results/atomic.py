"""Result files that appear whole or not at all: written aside, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import IO, Iterator, NoReturn

from ..errors import EnvironmentProblem

ASIDE_PREFIX = ".goldwatch-"
ASIDE_SUFFIX = ".tmp"

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[str]]:
    """Yield a text stream whose content takes the place of ``path`` at the end, by rename.

    The stream is UTF-8 without newline translation. When anything fails, the old file stays as it was and nothing is left behind.

    Raises
    ------
    EnvironmentProblem
        The file cannot be written: disk full, no permission, folder gone.
    """
    folder, name = os.path.split(path)
    # The name is cut, so that the longest allowed file name still has room for the prefix.
    aside = os.path.join(folder, "%s%d-%s%s" % (ASIDE_PREFIX, os.getpid(), name[:48], ASIDE_SUFFIX))
    try:
        with open(aside, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError):
            _refuse(path, error)
        raise


def _refuse(path: str, error: OSError) -> NoReturn:
    if error.errno in _FULL:
        raise EnvironmentProblem(
            "%s: the disk is full, the file was not written (an older one is unchanged)" % path,
            hint="free space in %s and run the same command again: it goes on where it was" % (os.path.dirname(path) or "."),
        ) from error
    raise EnvironmentProblem("%s: cannot be written: %s" % (path, error.strerror or error)) from error


def remove_leftovers(folder: str) -> None:
    """Remove what a killed writer left aside in ``folder``. Call it only while holding the folder's lock."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.name.startswith(ASIDE_PREFIX) and entry.name.endswith(ASIDE_SUFFIX) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
