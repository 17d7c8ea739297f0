"""manifest.json of a golden folder: read, written atomically; hashes, and the check for free
space.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import EnvironmentProblem, FormatError, Interrupted, MissingPath, UsageError
from ..filesystem.atomic_writing import (
    ASIDE_PREFIX,
    remove_leftovers,
    remove_quietly,
    write_atomically,
)
from ..filesystem.mounts import free_bytes
from ..filesystem.safe_reading import open_input, read_input
from ..naming import MAPPING_FILE, parse_golden_name, printable, read_mapping
from ..text.wording import size_text

MANIFEST_FILE = "manifest.json"
MANIFEST_LIMIT_BYTES = 256 * 1024 * 1024
FILE_MODE = 0o640
JOURNAL_FILE = ASIDE_PREFIX + "unfinished"
_HASH_WINDOW_BYTES = 1024 * 1024


class GoldenExists(UsageError):
    """A folder already holds golden files (exit code 2)."""


def sha256_of_file(path: str) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open_input(path) as stream:
        while True:
            block = stream.read(_HASH_WINDOW_BYTES)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def original_of(
    framework: str,
    model: str,
    sums: Mapping[str, str],
    weights: Optional[str] = None,
    data: Sequence[str] = (),
) -> Dict[str, Any]:
    """Return the manifest's ``original``: the files of the model from which golden data are made,
    and their hashes.

    Parameters
    ----------
    framework
        ``caffe``, ``onnx`` or ``tensorflow``.
    model, weights, data
        Paths; the last are further files that the model is made of.
    sums
        The SHA-256 of each path, in hexadecimal digits.
    """
    original: Dict[str, Any] = {"framework": framework, "model": _file_of(model, sums)}
    if weights is not None:
        original["weights"] = _file_of(weights, sums)
    if data:
        original["data"] = [_file_of(path, sums) for path in data]
    return original


def _file_of(path: str, sums: Mapping[str, str]) -> Dict[str, str]:
    return {"path": os.path.abspath(path), "sha256": sums[path]}


def sweep(folder: str, pid: int) -> None:
    """Remove what a writer that died has left: its temporary files, the golden files in its
    journal, and the folder when empty.

    A writer that ended well left no journal; one locked by another process is left alone.

    Parameters
    ----------
    pid
        The process that died.
    """
    remove_leftovers(folder, pid)
    journal = os.path.join(folder, JOURNAL_FILE)
    if not os.path.lexists(journal) or _is_locked(journal):
        return
    for name in set(golden_files(folder)).intersection(_journal_names(journal)):
        remove_quietly(os.path.join(folder, name))
    if not golden_files(folder):
        remove_quietly(journal)
        remove_quietly(os.path.join(folder, MAPPING_FILE))
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def keep_finished(folder: str, document: Dict[str, Any]) -> None:
    """Write the manifest for a writer that died, and remove its temporary files, its journal and
    files that are not listed.

    Parameters
    ----------
    document
        The manifest so far as it is known: files of ``tensors`` that are not there are left out,
        and their sums are taken here.
    """
    journal = os.path.join(folder, JOURNAL_FILE)
    if not os.path.lexists(journal) or _is_locked(journal):
        return
    remove_leftovers(folder)
    present = set(_journal_names(journal)) & set(os.listdir(folder))
    tensors = [entry for entry in document["tensors"] if entry["file"] in present]
    for name in present - {entry["file"] for entry in tensors}:
        remove_quietly(os.path.join(folder, name))
    if tensors:
        tensors = [
            dict(entry, sha256=sha256_of_file(os.path.join(folder, entry["file"])))
            for entry in tensors
        ]
        write_manifest(folder, dict(document, complete=False, tensors=tensors))
    remove_quietly(journal)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _journal_names(path: str) -> List[str]:
    with open_input(path) as stream:
        return stream.read().decode("utf-8", "surrogateescape").split()


def _is_locked(path: str) -> bool:
    with open_input(path) as stream:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            # A file system without locks.
            return False
    return False


def add_to_manifest(folder: str, **fields: Any) -> None:
    """Add fields to the manifest of a golden folder that has one, such as ``complete=True`` once
    its writer's process has ended well.
    """
    document = read_manifest(folder)
    if document is not None:
        document.update(fields)
        write_manifest(folder, document)


def write_manifest(folder: str, document: Dict[str, Any]) -> None:
    """Write manifest.json, a tensor a line."""
    fields = ",\n".join(
        " %s: %s" % (json.dumps(key), _lines(value)) for key, value in document.items()
    )
    write_atomically(
        os.path.join(folder, MANIFEST_FILE), ("{\n%s\n}\n" % fields).encode("ascii"), FILE_MODE
    )


def _lines(value: Any) -> str:
    """Return a value as JSON, with one entry of a list per line: an indent makes Python's encoder
    ten times as slow.
    """
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  %s\n ]" % ",\n  ".join(map(json.dumps, value))


def read_manifest(folder: str) -> Optional[Dict[str, Any]]:
    """Return the manifest of a golden folder, or None when it has none.

    Raises
    ------
    FormatError
        The file is not a manifest.
    """
    path = os.path.join(folder, MANIFEST_FILE)
    if not os.path.lexists(path):
        return None
    try:
        data = read_input(path, MANIFEST_LIMIT_BYTES)
    except MissingPath as error:
        raise FormatError("it cannot be read as a manifest: %s" % error.message, path) from error
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError("not JSON: %s" % error, path) from error
    if not isinstance(document, dict) or not isinstance(document.get("tensors"), list):
        raise FormatError("not a golden folder's manifest", path)
    return document


def golden_files(folder: str) -> List[str]:
    """Return the names of the golden files directly in ``folder``, recognised by their form or by
    mapping.csv; a missing folder has none.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    hashed: Dict[str, str] = {}
    if MAPPING_FILE in names:
        try:
            hashed = read_mapping(os.path.join(folder, MAPPING_FILE))
        except (FormatError, OSError):
            hashed = {}
    return sorted(name for name in names if parse_golden_name(name) is not None or name in hashed)


def _lists_something(out: str) -> bool:
    """Tell whether there is a manifest other than that of a program that failed before anything was
    saved.
    """
    try:
        manifest = read_manifest(out)
    except FormatError:
        return True
    return manifest is not None and bool(manifest["tensors"] or manifest.get("complete", True))


def refuse_golden(out: str, force: bool) -> None:
    """Raise GoldenExists when ``out`` already holds golden files and ``force`` is not set.

    A missing folder is fine, and so is one in which a program failed before anything was saved.
    """
    present = golden_files(out)
    if not present and _lists_something(out):
        present = [MANIFEST_FILE]
    if present and not force:
        raise GoldenExists(
            "%s already holds golden files (%d, such as %s)"
            % (printable(out), len(present), printable(present[0])),
            hint="choose an empty folder, or add `force` to replace them",
        )


def interrupted(count: int, out: str) -> Interrupted:
    """Return the exception for Ctrl-C when ``count`` golden files are in ``out``."""
    if not count:
        return Interrupted("interrupted; nothing was saved")
    message = "interrupted; %d golden files in %s are complete and usable" % (count, printable(out))
    return Interrupted(message, hint="the next run into this folder needs `force`")


def require_space(path: str, size_bytes: int) -> None:
    """Raise EnvironmentProblem unless the file system that holds (or will hold) ``path`` has
    ``size_bytes`` free.

    Parameters
    ----------
    path
        A folder that may not exist yet; its nearest existing parent decides.
    """
    free = free_bytes(path)
    if free is not None and free < size_bytes:
        raise EnvironmentProblem(
            "%s: %s are needed, %s are free"
            % (printable(path), size_text(size_bytes), size_text(free)),
            hint="free some space, choose another folder, or save fewer tensors",
        )
