"""Writes files atomically, never through a link, and removes leftovers."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import IO, Any, BinaryIO, Iterator, NoReturn, Optional

from .errors import DiskFull, EnvironmentProblem

ASIDE_PREFIX = ".goldwatch-"
ASIDE_SUFFIX = ".tmp"

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def atomic_writer(path: str, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Replace a file atomically with what is written to the yielded binary stream.

    The content goes to a new file in the same folder (an existing link of its name is never
    followed), which is renamed at the end. On failure the old file stays and nothing is left
    behind. A link at ``path`` is replaced, not followed.

    Parameters
    ----------
    mode
        Permissions, less the umask.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    with renamed_on_success(path) as temporary, os.fdopen(
        create_new(temporary, mode), "wb"
    ) as stream:
        yield stream


def write_atomically(path: str, data: Any, mode: int = 0o666) -> None:
    """Replace a file atomically with these bytes, see :func:`atomic_writer`."""
    with atomic_writer(path, mode) as stream:
        stream.write(data)


def temporary_path(folder: str) -> str:
    """Return an unused path in ``folder`` for a temporary file; :func:`remove_leftovers` recognises
    such names.
    """
    candidate = ""
    while not candidate or os.path.lexists(candidate):
        candidate = os.path.join(
            folder, "%s%d-%s%s" % (ASIDE_PREFIX, os.getpid(), os.urandom(6).hex(), ASIDE_SUFFIX)
        )
    return candidate


@contextlib.contextmanager
def renamed_on_success(path: str, new: bool = False) -> Iterator[str]:
    """Yield a temporary path where the body creates a file (:func:`create_new`), which is renamed
    to ``path`` unless the body raises.

    Parameters
    ----------
    new
        Whether ``path`` must not exist yet.

    Raises
    ------
    FileExistsError
        ``path`` exists, with ``new``.
    OSError
        ``path`` is a device, a pipe or a socket, or a link to one such as /dev/stdout, which must
        not be replaced.
    """
    if not new and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(errno.EINVAL, "it is no regular file", path)
    temporary = temporary_path(os.path.dirname(path))
    try:
        yield temporary
        if new and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        os.replace(temporary, path)
    except BaseException as error:
        remove_quietly(temporary)
        if isinstance(error, OSError) and error.filename is None:
            # A write names no file.
            error.filename = path
        raise


def create_new(path: str, mode: int = 0o666) -> int:
    """Create a file that must not exist, not even as a link; return a descriptor for writing.

    Raises
    ------
    OSError
        It exists (FileExistsError) or cannot be created.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


@contextlib.contextmanager
def atomic_text_writer(path: str) -> Iterator[IO[str]]:
    """Replace a file atomically with what is written to the yielded text stream, as
    :func:`atomic_writer`.

    It is flushed to disk before the rename, so a power failure leaves the old file or the new one.
    The stream is UTF-8 without newline translation; what UTF-8 cannot hold is written as ``\\xNN``.

    Raises
    ------
    EnvironmentProblem
        The file cannot be written: disk full, no permission, folder gone.
    """
    try:
        text: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
        with renamed_on_success(path) as temporary, os.fdopen(
            create_new(temporary), "w", **text
        ) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise_write_error(path, error)


def append(stream: IO[str], data: bytes) -> None:
    """Write UTF-8 bytes to a stream of :func:`atomic_text_writer`."""
    stream.flush()
    stream.buffer.write(data)  # type: ignore[attr-defined]


def is_of_full_disk(error: OSError) -> bool:
    """Return whether an error means a full disk or an exceeded quota."""
    return error.errno in _FULL


def raise_write_error(path: str, error: OSError) -> NoReturn:
    """Raise EnvironmentProblem for a failed write."""
    if is_of_full_disk(error):
        raise DiskFull(
            "%s: the disk is full, the file was not written (an older one is unchanged)" % path,
            hint="free space in %s, and the same again goes on where it was"
            % (os.path.dirname(path) or "."),
        ) from error
    raise EnvironmentProblem(
        "%s: cannot be written: %s" % (path, error.strerror or error)
    ) from error


def require_own_file(path: str) -> None:
    """Raise EnvironmentProblem if ``path`` exists and is a link, a hard link of another file, or no
    file.

    For files that are written in place; atomic replacement needs no such check.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return
    kind = (
        "a link"
        if stat.S_ISLNK(status.st_mode)
        else "not a regular file"
        if not stat.S_ISREG(status.st_mode)
        else ""
    )
    if not kind and status.st_nlink > 1:
        kind = "another name of a file elsewhere (a hard link)"
    if kind:
        raise EnvironmentProblem(
            "%s is %s: goldwatch does not write through it" % (path, kind),
            hint="remove it, or choose another folder for the results",
        )


def remove_leftovers(folder: str, pid: Optional[int] = None) -> None:
    """Remove temporary files in ``folder`` of the killed process ``pid``; without ``pid`` those of
    all, only while holding the folder's lock.
    """
    prefix = ASIDE_PREFIX if pid is None else "%s%d-" % (ASIDE_PREFIX, pid)
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if (
                entry.name.startswith(prefix)
                and entry.name.endswith(ASIDE_SUFFIX)
                and entry.is_file(follow_symlinks=False)
            ):
                remove_quietly(entry.path)


def remove_quietly(path: str) -> bool:
    """Remove a file if it exists; returns whether it was removed."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def remove_inside(folder: str, name: str) -> bool:
    """Remove the file ``name`` directly in ``folder``; returns whether it was removed. Only plain
    names are accepted.
    """
    if not name or name in (os.curdir, os.pardir) or os.sep in name or "\0" in name:
        return False
    return remove_quietly(os.path.join(folder, name))
