"""Files and folders as such: opening input, writing a file whole or not at all, free space, mounts, names that fit."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from typing import IO, Any, BinaryIO, Iterable, Iterator, List, NamedTuple, NoReturn, Optional, Tuple, Union

from .errors import EnvironmentProblem, FormatError, InputError, MissingPath, UsageError

AnyPath = Union[str, "os.PathLike[str]"]
"""What Python users name a file or folder by."""

MAX_NAME_BYTES = 255
ASIDE_PREFIX = ".goldwatch-"
ASIDE_SUFFIX = ".tmp"
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "fuse.sshfs")

_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(rb"\\([0-7]{3})")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def path_text(path: AnyPath, what: str) -> str:
    """Return as text what a Python user names a file or folder by; bytes are taken too.

    Parameters
    ----------
    what
        Its role in the message, such as ``TARGET``.

    Raises
    ------
    UsageError
        It is no path.
    MissingPath
        It has a NUL in it, which no file's name has.
    """
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise UsageError("%s: expected a path, got %r" % (what, path)) from None
    if "\0" in text:
        raise MissingPath("%s: %r does not exist: no name has a NUL in it" % (what, text))
    return text


def open_regular(path: str, pipes: bool = False) -> Tuple[int, int]:
    """Open a regular file for reading and return its descriptor and its size in bytes; waits for nobody but the writer of a welcome pipe.

    Parameters
    ----------
    pipes
        A pipe is welcome too, such as the shell's ``<(command)``; its size is 0, and opening and reading it wait for the writer.

    Raises
    ------
    MissingPath
        It does not exist, is a folder, a named pipe, a socket or a device, or this user cannot read it.
    """
    try:
        # Without looking first, opening a device could move it (a tape is rewound).
        mode = os.stat(path).st_mode
        # Without O_NONBLOCK a named pipe would stop us for ever; with it, one that is welcome would seem empty until its writer comes.
        waiting = 0 if pipes and stat.S_ISFIFO(mode) else os.O_NONBLOCK
        flags = os.O_RDONLY | waiting | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(path, flags) if _welcome(mode, pipes) else -1
    except FileNotFoundError:
        raise MissingPath("%s does not exist" % path) from None
    except PermissionError:
        raise MissingPath("%s cannot be read by this user" % path, hint="check the file's permissions") from None
    except (OSError, ValueError) as error:
        raise MissingPath("%s cannot be opened: %s" % (path, getattr(error, "strerror", None) or error)) from None
    if descriptor < 0:
        raise _not_regular(path, mode)
    try:
        status = os.fstat(descriptor)
        if not _welcome(status.st_mode, pipes):
            raise _not_regular(path, status.st_mode)
        if stat.S_ISFIFO(status.st_mode):
            # It took the place of a file meanwhile.
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def _welcome(mode: int, pipes: bool) -> bool:
    return stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))


def _not_regular(path: str, mode: int) -> MissingPath:
    kind = next((word for test, word in _KINDS if test(mode)), "something else")
    return MissingPath("%s is not a regular file, it is %s" % (path, kind), hint="name a file")


def open_input(path: str, pipes: bool = False) -> BinaryIO:
    """Return an input file as a binary stream; parameters and errors as for :func:`open_regular`."""
    return os.fdopen(open_regular(path, pipes)[0], "rb")


def read_input(path: str, limit_bytes: int, pipes: bool = False) -> bytes:
    """Return the bytes of an input file.

    Parameters
    ----------
    limit_bytes
        A larger file is refused before it is in memory.
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
    """Return up to ``nbytes`` bytes from ``offset`` on; fewer only where the file ends. For small pieces such as headers."""
    pieces = []
    while nbytes > 0:
        try:
            piece = os.pread(descriptor, nbytes, offset)
        except OSError as error:
            raise InputError("%s: byte %d cannot be read: %s" % (path, offset, error.strerror)) from None
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        nbytes -= len(piece)
    return b"".join(pieces)


def read_soon(paths: Iterable[str], nbytes: int, start: int = 0) -> None:
    """Have the system fetch some bytes, the first by default, of files that are about to be read, without waiting; what cannot be opened is
    passed over.
    """
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, start, nbytes, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def writing_whole(path: str, mode: int = 0o666, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary stream whose content takes the place of ``path`` at the end, by rename.

    It is written beside ``path`` in a new file (a link that waits under its name is never followed). When anything fails, the old file
    stays as it was and nothing is left behind. A link at ``path`` itself is replaced, not followed.

    Parameters
    ----------
    mode
        Permissions, less the umask.
    durable
        Wait until the content is on the disk, so that a power failure leaves the old file or the new one.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    with renamed_at_the_end(path) as aside, os.fdopen(create_new(aside, mode), "wb") as stream:
        yield stream
        _finish(stream, durable)


def aside_name(folder: str) -> str:
    """Return a path in ``folder`` that is not taken, for what is not whole yet; :func:`remove_leftovers` knows such names."""
    aside = ""
    while not aside or os.path.lexists(aside):
        aside = os.path.join(folder, "%s%d-%s%s" % (ASIDE_PREFIX, os.getpid(), os.urandom(6).hex(), ASIDE_SUFFIX))
    return aside


@contextlib.contextmanager
def renamed_at_the_end(path: str, new: bool = False) -> Iterator[str]:
    """Yield a path beside ``path`` where the body makes a file (:func:`create_new`), which is renamed to ``path`` unless the body raises.

    Parameters
    ----------
    new
        Nothing may be at ``path`` yet.

    Raises
    ------
    FileExistsError
        Something is, though ``new``.
    OSError
        A device, a pipe or a socket is there, or a link to one such as /dev/stdout: a file must not take its place.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(errno.EINVAL, "it is no regular file", path)
    aside = aside_name(os.path.dirname(path))
    try:
        yield aside
        if new and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        os.replace(aside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError) and error.filename is None:
            # A write names no file.
            error.filename = path
        raise


def _finish(stream: IO[Any], durable: bool) -> None:
    stream.flush()
    if durable:
        os.fsync(stream.fileno())


def create_new(path: str, mode: int = 0o666) -> int:
    """Make a file that must not be there yet, not even as a link; return a descriptor that writes it.

    Raises
    ------
    OSError
        It is there (FileExistsError) or cannot be made.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[str]]:
    """Yield a text stream whose content takes the place of ``path`` at the end, as :func:`writing_whole` does, durably.

    The stream is UTF-8 without newline translation; what UTF-8 cannot hold is written as ``\\xNN``.

    Raises
    ------
    EnvironmentProblem
        The file cannot be written: disk full, no permission, folder gone.
    """
    try:
        text: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
        with renamed_at_the_end(path) as aside, os.fdopen(create_new(aside), "w", **text) as stream:
            yield stream
            _finish(stream, True)
    except OSError as error:
        refuse_writing(path, error)


def append(stream: IO[str], data: bytes) -> None:
    """Write what is UTF-8 already to a stream of :func:`replacing`."""
    stream.flush()
    stream.buffer.write(data)  # type: ignore[attr-defined]


def refuse_writing(path: str, error: OSError) -> NoReturn:
    """Raise EnvironmentProblem for a file that could not be written."""
    if error.errno in _FULL:
        raise EnvironmentProblem(
            "%s: the disk is full, the file was not written (an older one is unchanged)" % path,
            hint="free space in %s and run the same command again: it goes on where it was" % (os.path.dirname(path) or "."),
        ) from error
    raise EnvironmentProblem("%s: cannot be written: %s" % (path, error.strerror or error)) from error


def require_own_file(path: str) -> None:
    """Raise EnvironmentProblem when ``path`` is there and writing it would write elsewhere: a link, a second name of a file, no file.

    For files that are written in place; files that appear by rename need no such check.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return
    kind = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file" if not stat.S_ISREG(status.st_mode) else ""
    if not kind and status.st_nlink > 1:
        kind = "another name of a file elsewhere (a hard link)"
    if kind:
        raise EnvironmentProblem(
            "%s is %s: goldwatch does not write through it" % (path, kind), hint="remove it, or choose another folder for the results"
        )


def remove_leftovers(folder: str, pid: Optional[int] = None) -> None:
    """Remove what a killed writer, the process ``pid``, left aside in ``folder``; without ``pid`` only while holding the folder's lock."""
    prefix = ASIDE_PREFIX if pid is None else "%s%d-" % (ASIDE_PREFIX, pid)
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.name.startswith(prefix) and entry.name.endswith(ASIDE_SUFFIX) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def remove_inside(folder: str, name: str) -> bool:
    """Remove the file ``name`` directly in ``folder``; tell whether that was done. Anything but a plain name removes nothing."""
    if not name or name in (os.curdir, os.pardir) or os.sep in name or "\0" in name:
        return False
    try:
        os.unlink(os.path.join(folder, name))
    except OSError:
        return False
    return True


def free_bytes(path: str) -> Optional[int]:
    """Return the bytes that this user may still write where ``path`` is (or will be); None when it cannot be told."""
    folder = nearest_folder(path)
    try:
        found = os.statvfs(folder) if folder is not None else None
    except OSError:
        return None
    return None if found is None else found.f_bavail * found.f_frsize


def nearest_folder(path: str) -> Optional[str]:
    """Return the absolute ``path`` if it is a folder, else the nearest folder above it that exists; None for a path that cannot be."""
    if "\0" in path:
        return None
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


class Mount(NamedTuple):
    """A mount point and the kind of its file system, such as ``ext4`` or ``nfs4``."""

    point: str
    kind: str


def mounts() -> List[Mount]:
    """Return the mounts that this process sees, in the order they were made; empty where that cannot be told.

    Source of the form: proc(5), /proc/self/mountinfo; blanks, tabs, newlines, backslashes and ``#`` are octal escapes of three digits.
    """
    found: List[Mount] = []
    with contextlib.suppress(OSError), open(_MOUNTS, "rb") as lines:
        for line in lines:
            left, _, right = line.partition(b" - ")
            fields, kinds = left.split(b" "), right.split(b" ")
            if len(fields) > 4 and kinds[0]:
                found.append(Mount(_unescaped(fields[4]), os.fsdecode(kinds[0])))
    return found


def _unescaped(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match.group(1), 8) & 0xFF]), field))


def mount_of(path: str) -> Optional[Mount]:
    """Return the mount that holds ``path`` (links followed; the last one where several lie over each other), or None."""
    real, best = os.path.realpath(path), None
    for mount in mounts():
        inside = (real + "/").startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def file_system(folder: str) -> str:
    """Return the kind of the file system that holds ``folder``, such as ``ext4`` or ``nfs4``; empty when it cannot be told."""
    mount = mount_of(folder)
    return "" if mount is None else mount.kind


def told_of_changes(kind: str) -> bool:
    """Tell whether the kernel tells of every change on a file system of this kind: elsewhere other hosts or programs make some."""
    return kind not in NETWORK_FILE_SYSTEMS and not kind.startswith("fuse")


def bounded_name(head: str, tail: str) -> str:
    """Return ``head`` + ``tail`` as a file name of at most 255 bytes: a longer head is cut and ends with 16 digits of its SHA-256."""
    data = head.encode("utf-8", "surrogateescape")
    room = MAX_NAME_BYTES - len(os.fsencode(tail))
    if len(data) > room:
        head = data[: room - 17].decode("utf-8", "ignore") + "_" + hashlib.sha256(data).hexdigest()[:16]
    return head + tail
