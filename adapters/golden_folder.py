"""What is in a golden folder: its golden files, which are not replaced unasked, and what a writer
that died has left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Any, Dict, List

from ..base.atomic_writing import ASIDE_PREFIX, remove_leftovers, remove_quietly
from ..base.errors import FormatError, Interrupted, UsageError
from ..base.manifest import MANIFEST_FILE, read_manifest, write_manifest
from ..base.naming import MAPPING_FILE, parse_golden_name, printable, read_mapping
from ..base.safe_reading import open_input, sha256_of_file

JOURNAL_FILE = ASIDE_PREFIX + "unfinished"


class GoldenExists(UsageError):
    """A folder already holds golden files (exit code 2)."""


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
