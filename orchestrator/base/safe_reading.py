"""Opens, reads and hashes input files: never blocks on a pipe or touches a device, limits sizes,
prefetches."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import BinaryIO, Iterable, Optional, Tuple, Union

from .errors import FormatError, InputError, MissingPath, UsageError

AnyPath = Union[str, "os.PathLike[str]"]
"""How Python callers may name a file or folder."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def path_text(path: AnyPath, what: str) -> str:
    """Return the path of a file or folder as str; bytes are accepted too.

    Parameters
    ----------
    what
        Its role in the message, such as ``TARGET``.

    Raises
    ------
    UsageError
        It is not a path.
    MissingPath
        It contains a NUL.
    """
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise UsageError("%s: expected a path, got %r" % (what, path)) from None
    if "\0" in text:
        raise MissingPath("%s: %r does not exist: no name has a NUL in it" % (what, text))
    return text


def open_regular(path: str, pipes: bool = False) -> Tuple[int, int]:
    """Open a regular file for reading and return its descriptor and its size in bytes.

    Parameters
    ----------
    pipes
        Accept a pipe too, such as the shell's ``<(command)``; its size is 0, and opening and
        reading it wait for the writer.

    Raises
    ------
    MissingPath
        It does not exist, is a folder, a named pipe, a socket or a device, or is not readable.
    """
    try:
        # Checked before opening: opening a device may have side effects (a tape is rewound).
        mode = os.stat(path).st_mode
        # Without O_NONBLOCK a named pipe would stop us for ever; with it, one that is welcome would
        # seem empty until its writer comes.
        waiting = 0 if pipes and stat.S_ISFIFO(mode) else os.O_NONBLOCK
        flags = os.O_RDONLY | waiting | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(path, flags) if _welcome(mode, pipes) else -1
    except FileNotFoundError:
        hint = "check the path; it is read from the current folder"
        raise _missing(path or "''", "does not exist", hint) from None
    except PermissionError:
        hint = "check the file's permissions"
        raise _missing(path, "cannot be read by this user", hint) from None
    except (OSError, ValueError) as error:
        problem = "cannot be opened: %s" % (getattr(error, "strerror", None) or error)
        raise _missing(path, problem) from None
    if descriptor < 0:
        raise _not_regular(path, mode)
    try:
        status = os.fstat(descriptor)
        if not _welcome(status.st_mode, pipes):
            raise _not_regular(path, status.st_mode)
        if stat.S_ISFIFO(status.st_mode):
            # It replaced a file meanwhile.
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def _welcome(mode: int, pipes: bool) -> bool:
    return stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))


def _not_regular(path: str, mode: int) -> MissingPath:
    kind = next((word for test, word in _KINDS if test(mode)), "something else")
    return _missing(path, "is not a regular file, it is %s" % kind, "name a file")


def _missing(path: str, detail: str, hint: Optional[str] = None) -> MissingPath:
    error = MissingPath("%s %s" % (path, detail), hint)
    error.detail = detail
    return error


def open_input(path: str, pipes: bool = False) -> BinaryIO:
    """Open an input file as a binary stream; parameters and errors as for :func:`open_regular`."""
    return os.fdopen(open_regular(path, pipes)[0], "rb")


def read_input(path: str, limit_bytes: int, pipes: bool = False) -> bytes:
    """Read an input file.

    Parameters
    ----------
    limit_bytes
        A larger file is refused before it is read.
    pipes
        As for :func:`open_regular`.

    Raises
    ------
    MissingPath
        As for :func:`open_regular`.
    FormatError
        The file is larger than ``limit_bytes``.
    OSError
        It cannot be read.
    """
    with open_input(path, pipes) as stream:
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise FormatError("larger than %d bytes" % limit_bytes, path)
    return data


def read_at(descriptor: int, offset: int, nbytes: int, path: str) -> bytes:
    """Return ``nbytes`` bytes at ``offset``, fewer only at the end of the file. For small pieces
    such as headers.
    """
    pieces = []
    while nbytes > 0:
        try:
            piece = os.pread(descriptor, nbytes, offset)
        except OSError as error:
            raise InputError(
                "byte %d cannot be read: %s" % (offset, error.strerror), path=path
            ) from None
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        nbytes -= len(piece)
    return b"".join(pieces)


def prefetch(paths: Iterable[str], nbytes: int, start: int = 0) -> None:
    """Ask the system to prefetch bytes (by default the first) of files without waiting; files that
    cannot be opened are skipped.
    """
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, start, nbytes, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)


_WINDOW_BYTES = 1024 * 1024


def sha256_of_file(path: str) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open_input(path) as stream:
        while True:
            block = stream.read(_WINDOW_BYTES)
            if not block:
                return digest.hexdigest()
            digest.update(block)
