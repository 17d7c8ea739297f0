"""Which workers can compare which files: all of them those of a shared disk, or each those on its own machine."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ..dumps.listing import FolderListing, walk
from ..dumps.tree import DumpTree, find_dumps, tree_of
from ..engine.comparers import look
from ..engine.options import ComparisonOptions
from ..engine.target_file import TargetFile
from ..errors import GoldwatchError, InputError
from .asking import run_on
from .sight import FOLDER, Marker, first_file, in_words, marker, unseen

_SHOWN = 4
_LISTING_S = 600
Where = Optional[List[str]]
"""Addresses of the workers that may do it; None: all may."""


class SharedDisk:
    """Everything lies on a disk that all workers see under the same paths; those that do not see it get no work.

    Parameters
    ----------
    client
        ``distributed.Client``.
    """

    golden: Optional[str] = None

    def __init__(self, client: Any) -> None:
        self._client = client
        self.markers: List[Marker] = []
        self._blind: Set[str] = set()
        self._asked: Set[str] = set()

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds, once there are workers that see it too.

        Raises
        ------
        InputError
            None does.
        """
        tree = find_dumps(options.target, time=options.time)
        self.markers = [*self._common_markers(options), *_of_devices(tree)]
        lacking = self._ask()
        if lacking and len(self._blind) == len(self._asked):
            raise InputError(
                "no worker sees the files: %s" % "; ".join(lacking[:_SHOWN]), hint="they must lie under the same paths on their machines"
            )
        tree.notes += ["warning: %s: it gets no work" % text for text in lacking]
        return tree

    def _common_markers(self, options: ComparisonOptions) -> List[Marker]:
        """Return a file of GOLDEN, and the models and scripts: what every worker needs."""
        found = []
        golden = first_file(options.golden)
        if golden is not None and self.golden is None:
            found.append(marker("GOLDEN (%s)" % options.golden, golden))
        elif self.golden is not None:
            found.append(Marker("GOLDEN (%s)" % self.golden, self.golden, FOLDER))
        for path in (*options.models, *options.user_code.scripts):
            name = first_file(path) if os.path.isdir(path) else os.path.abspath(path)
            if name is not None:
                found.append(marker(path, name))
        return found

    def _ask(self) -> List[str]:
        """Ask the workers that have not been asked; return which do not see everything."""
        fresh = [worker for worker in self._client.nthreads() if worker not in self._asked]
        said = []
        for worker, numbers in run_on(self._client, fresh, unseen, tuple(self.markers)).items():
            self._asked.add(worker)
            if numbers:
                self._blind.add(worker)
                said.append("worker %s does not see %s" % (worker, in_words(self.markers, numbers)))
        return said

    def shun(self, worker: str) -> None:
        """Take note that a worker does not see what it should."""
        self._blind.add(worker)

    def where(self, files: Sequence[TargetFile]) -> Where:
        """Return which workers can compare some files of one place."""
        return sorted(self._asked - self._blind) if self._blind else None

    def renew(self) -> None:
        """Ask workers that have come since."""
        self._ask()

    def size_of(self, file: TargetFile) -> int:
        """Return a file's size in bytes; its looks are noted."""
        return look(file)

    def host(self, where: Where) -> str:
        """Return what tells the golden data of these workers from others'."""
        return ""


class _Seen(NamedTuple):
    """What one worker sees of TARGET: its machine's name, the folders, and the sizes of dump files in bytes, by their relative paths."""

    host: str
    folders: List[FolderListing]
    sizes: Dict[str, int]


def list_here(target: str) -> _Seen:
    """Return what TARGET holds where this is called; nothing where it is not there."""
    try:
        folders = list(walk(target, "TARGET"))
    except GoldwatchError:
        folders = []
    entries = [entry for listing in folders for entry in listing.dumps]
    return _Seen(socket.gethostname(), folders, {entry.rel: _size(entry.path) for entry in entries})


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class OwnDisks(SharedDisk):
    """Each worker's machine holds the dumps of its own devices, under the same path everywhere; GOLDEN and the models are on each.

    Parameters
    ----------
    client
        As for :class:`SharedDisk`.
    golden
        Where the workers have GOLDEN, ``{host}`` for the machine's name; None: where it is here.
    """

    def __init__(self, client: Any, golden: Optional[str] = None) -> None:
        super().__init__(client)
        self.golden = golden
        self._target = ""
        self._seers: Dict[str, Set[str]] = {}
        self._sizes: Dict[str, int] = {}
        self._hosts: Dict[str, str] = {}

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what all workers see of TARGET together.

        Raises
        ------
        InputError
            No worker sees anything, or two see different files under one name.
        """
        self._target = options.target
        self.markers = self._common_markers(options)
        lacking = self._ask()
        found = self._list()
        for worker in found:
            if not found[worker].sizes:
                lacking.append("worker %s sees no dump file of TARGET (%s)" % (worker, self._target))
        folders: Dict[str, FolderListing] = {}
        first: Dict[str, str] = {}
        for worker, seen in found.items():
            for listing in seen.folders:
                known = folders.get(listing.rel)
                if known is None or (listing.dumps and not known.dumps):
                    folders[listing.rel] = _as_seen_here(listing, options.target)
                    first[listing.rel] = worker
                elif listing.dumps and _looks(listing, seen.sizes) != _looks(known, found[first[listing.rel]].sizes):
                    raise InputError(
                        "workers %s and %s see different dump files in %s" % (first[listing.rel], worker, listing.rel or options.target),
                        hint="each device's folder must lie on one machine, or be the same on all",
                    )
        self._require_seers(folders, found, lacking)
        if not any(listing.dumps for listing in folders.values()):
            raise InputError("no worker sees a dump file at or below %s" % options.target, hint="TARGET is a path on the workers' machines")
        tree = tree_of(options.target, list(folders.values()), options.time)
        tree.notes += ["warning: %s: it gets no work" % text for text in lacking]
        if any(listing.overflow for listing in folders.values()):
            tree.notes.append("warning: overflow records lie on the workers' machines and are not read")
        return tree

    def _require_seers(self, folders: Mapping[str, FolderListing], found: Mapping[str, _Seen], lacking: Sequence[str]) -> None:
        """Refuse dumps that only workers hold that lack something else."""
        for rel, listing in folders.items():
            if listing.dumps and not self._seers.get(rel):
                machines = sorted({seen.host for seen in found.values() if any(one.rel == rel and one.dumps for one in seen.folders)})
                where = (rel or self._target, ", ".join(machines), "; ".join(lacking[:_SHOWN]))
                raise InputError(
                    "the dumps in %s, on machine %s, cannot be compared: %s" % where,
                    hint="GOLDEN, models and metrics of your own must lie under the same paths there, or GOLDEN where workers are told",
                )

    def _list(self) -> Dict[str, _Seen]:
        """Ask the workers that have not been asked what they see."""
        fresh = [worker for worker in self._client.nthreads() if worker not in self._hosts]
        found: Dict[str, _Seen] = run_on(self._client, fresh, list_here, self._target, patience_s=_LISTING_S)
        for worker, seen in found.items():
            self._hosts[worker] = seen.host
            self._sizes.update(seen.sizes)
            for listing in seen.folders if worker not in self._blind else ():
                if listing.dumps:
                    self._seers.setdefault(listing.rel, set()).add(worker)
        return found

    def renew(self) -> None:
        """Ask workers that have come since."""
        super().renew()
        self._list()

    def where(self, files: Sequence[TargetFile]) -> Where:
        """Return which workers see all folders of some files."""
        seers = [self._seers.get(folder, set()) for folder in {os.path.dirname(file.rel) for file in files}]
        return sorted(set.intersection(*seers) - self._blind)

    def size_of(self, file: TargetFile) -> int:
        """Return a file's size in bytes, as a worker sees it."""
        return self._sizes.get(file.rel, 0)

    def host(self, where: Where) -> str:
        """Return the name of these workers' machine."""
        return self._hosts.get(where[0], "") if where else ""


def _as_seen_here(listing: FolderListing, target: str) -> FolderListing:
    """Return a listing with the paths that its files would have here."""
    folder = os.path.join(target, listing.rel) if listing.rel else target
    dumps = [replace(entry, path=os.path.join(target, entry.rel)) for entry in listing.dumps]
    return replace(listing, folder=folder, dumps=dumps)


def _looks(listing: FolderListing, sizes: Dict[str, int]) -> List[Tuple[str, int]]:
    """Return the names and sizes of a folder's dumps; ``sizes`` by name."""
    return [(entry.rel, sizes[entry.rel]) for entry in listing.dumps]


def _of_devices(tree: DumpTree) -> Iterator[Marker]:
    """Yield a file of each device folder of TARGET."""
    devices: Set[Tuple[Any, ...]] = set()
    for combo in tree.combos:
        if combo.place[:2] not in devices and combo.files:
            devices.add(combo.place[:2])
            yield marker("TARGET (%s)" % combo.files[0].rel, os.path.abspath(combo.files[0].path))
