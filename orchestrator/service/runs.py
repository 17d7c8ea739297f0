"""The runs below the ROOTs: folders with a store, including those still going on."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from typing import Dict, List, NamedTuple, Tuple

from ..store.opening import SIDE_FILES, STORE_FILE
from .answers import Problem
from .root_folders import Roots, below

_FRESH_S = 0.2
_LISTING_SHARE = 10
"""Looking for runs takes at most about a tenth of the time."""


class Run(NamedTuple):
    """A run: its id in URLs, and its real folder."""

    id: str
    path: str


class _Listed(NamedTuple):
    mtime_ns: int
    listed_ns: int
    folders: Tuple[str, ...]
    has_store: bool


def run_id(path: str) -> str:
    """Return the id of the run in a real folder: 64 bits of BLAKE2b of the path, as 16 hexadecimal
    digits.
    """
    return hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()


class Runs:
    """Finds runs. Requests name them by their ids, which are looked up and never turned into
    paths.
    """

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        # Held while folders are searched: all who ask meanwhile get the answer of one search.
        self._mutex = threading.Lock()
        self._folders: Dict[str, _Listed] = {}
        self._known: Dict[str, Run] = {}
        self._looked = -1e9
        self._took = 0.0
        self._called = self._answered = 0

    def all(self) -> List[Run]:
        """Return all runs, new ones included unless the search takes long."""
        with self._mutex:
            if self._called != self._answered or time.monotonic() - self._looked > max(
                _FRESH_S, _LISTING_SHARE * self._took
            ):
                self._look()
            return list(self._known.values())

    def name(self, run: Run) -> str:
        """Return the folder of a run for people: relative to its ROOT, whose own name comes
        first.
        """
        root = max(
            (root for root in self.roots.folders if below(run.path, root)), key=len, default="/"
        )
        return os.fsencode(os.path.relpath(run.path, os.path.dirname(root))).decode(
            "utf-8", "backslashreplace"
        )

    def look_again(self) -> None:
        """Make the next :meth:`all` search, however long that takes: a new run is known to
        exist.
        """
        self._called += 1

    def find(self, name: str) -> Run:
        """Return the run of this id.

        Raises
        ------
        Problem
            404: there is none (any more).
        """
        run = self._known.get(name) or next((run for run in self.all() if run.id == name), None)
        # A folder on the path may have been replaced by a link since.
        if (
            run is None
            or os.path.realpath(run.path) != run.path
            or not self.roots.holds(run.path)
            or not is_run(run.path)
        ):
            raise Problem(404, "there is no such run", "GET /api/v1/runs lists them")
        return run

    def _look(self) -> None:
        began, called = time.monotonic(), self._called
        runs: Dict[str, Run] = {}
        folders: Dict[str, _Listed] = {}
        waiting = list(self.roots.folders)
        while waiting:
            folder = waiting.pop()
            if folder in folders or folder == self.roots.state:
                continue
            listed = self._list(folder)
            if listed is None:
                continue
            folders[folder] = listed
            waiting += [os.path.join(folder, name) for name in listed.folders]
            if listed.has_store and is_run(folder):
                runs[run_id(folder)] = Run(run_id(folder), folder)
        self._folders, self._known = folders, runs
        self._looked, self._answered = time.monotonic(), called
        self._took = self._looked - began

    def _list(self, folder: str) -> "_Listed | None":
        """Return the content of a folder, without following links; an unchanged folder is not read
        again.
        """
        try:
            listed_ns = time.time_ns()
            mtime_ns = os.stat(folder, follow_symlinks=False).st_mtime_ns
            known = self._folders.get(folder)
            # A change after a listing, within the same tick of the file system's clock, does not
            # change the time.
            if (
                known is not None
                and known.mtime_ns == mtime_ns
                and known.listed_ns - mtime_ns > 2 * 10**9
            ):
                return known
            with os.scandir(folder) as entries:
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            return None
        return _Listed(
            mtime_ns,
            listed_ns,
            tuple(name for name, is_folder in names if is_folder),
            (STORE_FILE, False) in names,
        )


def is_run(folder: str) -> bool:
    """Tell whether a folder contains a store that may be opened: regular files only, no links."""
    for suffix in SIDE_FILES:
        try:
            mode = os.lstat(os.path.join(folder, STORE_FILE + suffix)).st_mode
        except OSError:
            if not suffix:
                return False
            continue
        if not stat.S_ISREG(mode):
            return False
    return True
