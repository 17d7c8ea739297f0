"""The folder OUT: made when it is missing; a store in it removed with the files beside it."""

from __future__ import annotations

import os

from ..errors import EnvironmentProblem, MissingPath

SIDE_FILES = ("", "-wal", "-shm", "-journal")


def make_folder(out: str) -> None:
    """Make OUT unless it is there; raise MissingPath when it is a file, EnvironmentProblem when it
    cannot be made.
    """
    if os.path.lexists(out) and not os.path.isdir(out):
        raise MissingPath(
            "OUT: %s is not a folder" % out, hint="choose another folder for the results"
        )
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(
            "OUT: %s cannot be made: %s" % (out, error.strerror),
            hint="choose another folder for the results",
        ) from error


def discard_store(path: str) -> None:
    """Remove a store with the files that SQLite keeps beside it; raise EnvironmentProblem when that
    fails.
    """
    for suffix in SIDE_FILES:
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise EnvironmentProblem(
                "%s: cannot be removed: %s" % (path + suffix, error.strerror)
            ) from error
