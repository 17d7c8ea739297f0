"""Which workers can compare which files: all of them those of a shared disk, or each those on its own machine."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ..dumps.listing import FolderListing, walk
from ..dumps.tree import DumpTree, tree_of
from ..engine.comparers import look
from ..engine.options import ComparisonOptions
from ..engine.overflows import OverflowFile, overflow_files_in
from ..engine.target_file import TargetFile
from ..errors import GoldwatchError, InputError
from ..wording import listed
from .asking import run_on
from .connecting import unlike
from .sight import Marker, first_file, in_words, marker, unseen

_SHOWN = 4
LISTING_S = 600
"""So long a worker may take to list what it sees, in seconds."""

Where = Optional[List[str]]
"""Addresses of the workers that may do it; None: all may."""


class SharedDisk:
    """Everything lies on a disk that all workers see under the same paths; those that do not see it get no work.

    Parameters
    ----------
    client
        ``distributed.Client``.
    tell
        Called with a sentence as soon as it is known.
    aside
        Workers with other versions than ours, which get no work, each with a sentence.
    """

    golden: Optional[str] = None

    def __init__(self, client: Any, tell: Callable[[str], None], aside: Mapping[str, str]) -> None:
        self._client, self.tell = client, tell
        self.markers: List[Marker] = []
        self._aside = dict(aside)
        self._blind: Dict[str, str] = dict(aside)
        self._asked: Set[str] = set(client.nthreads())
        self._fresh = [worker for worker in self._asked if worker not in aside]

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds, once there are workers that see it too.

        Raises
        ------
        InputError
            None does.
        """
        tree = DumpTree(options.target, time=options.time)
        self.markers = [*self._common_markers(options), *_of_devices(tree)]
        lacking = [*self._aside.values(), *self._ask()]
        if lacking and len(self._blind) == len(self._asked):
            raise InputError("no worker sees the files: %s" % self.lacking, hint="they must lie under the same paths on their machines")
        self._warn(lacking)
        return tree

    def _common_markers(self, options: ComparisonOptions) -> List[Marker]:
        """Return a file of GOLDEN, and the models and scripts: what every worker needs."""
        found = []
        golden = first_file(options.golden)
        if golden is not None:
            mark = marker("GOLDEN (%s)" % (self.golden or options.golden), golden)
            below = os.path.relpath(golden, os.path.abspath(options.golden))
            found.append(mark if self.golden is None else mark._replace(path=os.path.join(self.golden, below)))
        for path in (*options.models, *options.user_code.scripts):
            name = first_file(path) if os.path.isdir(path) else os.path.abspath(path)
            if name is not None:
                found.append(marker(path, name))
        return found

    def _ask(self) -> List[str]:
        """Ask the workers that have not been asked; return which do not see everything."""
        come = [worker for worker in self._client.nthreads() if worker not in self._asked]
        aside = unlike(self._client, come)
        self._asked.update(come)
        self._aside.update(aside)
        self._blind.update(aside)
        fresh = [*self._fresh, *(worker for worker in come if worker not in aside)]
        self._fresh = []
        said = list(aside.values())
        for worker, numbers in run_on(self._client, fresh, unseen, tuple(self.markers)).items():
            if numbers:
                said.append(self._blind.setdefault(worker, "worker %s does not see %s" % (worker, in_words(self.markers, numbers))))
        return said

    def _warn(self, lacking: Iterable[str]) -> None:
        for text in lacking:
            self.tell("warning: %s: it gets no work" % text)

    def tell_gone(self, workers: Iterable[str]) -> None:
        """Say which workers have gone that could get work."""
        for worker in workers:
            if worker not in self._blind:
                self.tell("warning: worker %s has gone (killed, or out of memory?): what it was at is compared again" % worker)

    @property
    def lacking(self) -> str:
        """What the workers that get no work do not see."""
        return listed(list(self._blind.values()), _SHOWN, "; ")

    def shun(self, worker: str, text: str) -> None:
        """Take note that a worker does not see what it should, in its words."""
        if worker not in self._blind:
            self._blind[worker] = text
            self._warn([text])

    def where(self, files: Sequence[TargetFile]) -> Where:
        """Return which workers can compare some files of one place; an empty list: those that could see too little."""
        return sorted(self._asked - self._blind.keys()) if self._blind else None

    def renew(self) -> None:
        """Ask workers that have come since."""
        self._warn(self._ask())

    def size_of(self, file: TargetFile) -> int:
        """Return a file's size in bytes; its looks are noted."""
        return look(file)

    def host(self, where: Where) -> str:
        """Return what tells the golden data of these workers from others'."""
        return ""


class _Seen(NamedTuple):
    """What one worker sees of TARGET.

    Attributes
    ----------
    host
        Its machine's name.
    sizes
        Of dump files in bytes, by their relative paths.
    overflows
        Overflow files by their folders, relative to TARGET.
    """

    host: str
    folders: List[FolderListing]
    sizes: Dict[str, int]
    overflows: Dict[str, List[OverflowFile]]


def list_here(target: str) -> _Seen:
    """Return what TARGET holds where this is called; nothing where it is not there."""
    try:
        folders = list(walk(target, "TARGET"))
    except GoldwatchError:
        folders = []
    entries = [entry for listing in folders for entry in listing.dumps]
    overflows = {listing.rel: overflow_files_in(listing.folder, listing.rel) for listing in folders if listing.overflow}
    return _Seen(socket.gethostname(), folders, {entry.rel: _size(entry.path) for entry in entries}, overflows)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class OwnDisks(SharedDisk):
    """Each worker's machine holds the dumps of its own devices, under the same path everywhere; GOLDEN and the models are on each.

    Parameters
    ----------
    client, tell, aside
        As for :class:`SharedDisk`.
    golden
        Where the workers have GOLDEN, ``{host}`` for the machine's name; None: where it is here.
    """

    def __init__(self, client: Any, tell: Callable[[str], None], aside: Mapping[str, str], golden: Optional[str] = None) -> None:
        super().__init__(client, tell, aside)
        self.golden = golden
        self._target = ""
        self._folders: Dict[str, FolderListing] = {}
        self._first: Dict[str, str] = {}
        self._seers: Dict[str, Set[str]] = {}
        self._sizes: Dict[str, int] = {}
        self._hosts: Dict[str, str] = {}
        self._overflows: Set[OverflowFile] = set()

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what all workers see of TARGET together.

        Raises
        ------
        InputError
            No worker sees anything, those that hold some dumps lack something else, or two see different files under one name.
        """
        self._target = options.target
        self.markers = self._common_markers(options)
        lacking = [*self._aside.values(), *self._ask()]
        empty, different = self._list()
        if different:
            raise InputError(different[0], hint="each device's folder must lie on one machine, or be the same on all")
        folders = self._folders.values()
        if not any(listing.dumps for listing in folders):
            raise InputError("no worker sees a dump file at or below %s" % options.target, hint="TARGET is a path on the workers' machines")
        for listing in folders:
            if listing.dumps and not self._seers.get(listing.rel):
                where = "%s on machine %s" % (listing.rel or self._target, self._hosts[self._first[listing.rel]])
                raise InputError(
                    "no worker can compare the dumps in %s: %s" % (where, self.lacking),
                    hint="GOLDEN, the models and scripts must lie there too, under the paths that are named",
                )
        self._warn([*lacking, *empty])
        return tree_of(options.target, list(folders), options.time)

    def _list(self) -> Tuple[List[str], List[str]]:
        """Ask the workers that have not been asked what they see; return which see no dumps, and which see other ones than another."""
        fresh = [worker for worker in self._client.nthreads() if worker not in self._hosts and worker not in self._aside]
        found: Dict[str, _Seen] = run_on(self._client, fresh, list_here, os.path.abspath(self._target), patience_s=LISTING_S)
        empty, different = [], []
        for worker, seen in found.items():
            self._hosts[worker] = seen.host
            if not seen.sizes:
                empty.append("worker %s sees no dump file of TARGET (%s)" % (worker, self._target))
            for listing in seen.folders:
                rel = listing.rel
                known = self._folders.get(rel)
                if known is None or (listing.dumps and not known.dumps):
                    self._folders[rel], self._first[rel] = _as_seen_here(listing, self._target), worker
                    self._sizes.update((entry.rel, seen.sizes[entry.rel]) for entry in listing.dumps)
                elif listing.dumps and _looks(listing, seen.sizes) != _looks(known, self._sizes):
                    names = self._first[rel], worker, rel or self._target
                    different.append("workers %s and %s see different dump files in %s" % names)
                    continue
                self._overflows.update(seen.overflows.get(rel, ()))
                if listing.dumps and worker not in self._blind:
                    self._seers.setdefault(rel, set()).add(worker)
        return empty, different

    def renew(self) -> None:
        """Ask workers that have come since."""
        super().renew()
        for lacking in self._list():
            self._warn(lacking)

    def where(self, files: Sequence[TargetFile]) -> Where:
        """Return which workers see all folders of some files."""
        seers = [self._seers.get(folder, set()) for folder in {os.path.dirname(file.rel) for file in files}]
        return sorted(set.intersection(*seers) - self._blind.keys())

    def size_of(self, file: TargetFile) -> int:
        """Return a file's size in bytes, as a worker sees it."""
        return self._sizes.get(file.rel, 0)

    def overflow_files(self) -> List[OverflowFile]:
        """Return the overflow records that the workers see, by their names."""
        return sorted(self._overflows, key=lambda record: (os.path.split(record.rel), record.tasks, record.problem or ""))

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
