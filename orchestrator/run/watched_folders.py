"""TARGET and GOLDEN as they are watched: the paths in them that wait to be looked at.

Of links to folders below them each real folder is watched once, and its files are known by the
link's name.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import OrderedDict, deque
from dataclasses import field
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver

from ..base.fast_dataclasses import dataclass
from ..base.mounts import file_system, reports_all_changes
from .comparison_options import ComparisonOptions
from .dump_catalogue import Catalogue
from .golden_files import Goldens
from .inotify import ChangeEmitter

# Where inotify tells nothing (NFS, 9p, FUSE) a folder is listed so often; on overlay, where it does
# not tell what another mount of a lower layer changes, and everywhere else, lest an event was lost,
# more rarely. A slice of listing is what stored rows wait for it at most. Chosen, no trial.
POLL_S = 1.0
OVERLAY_RESCAN_S = 30.0
SAFETY_RESCAN_S = 120.0
_ROOT_CHECK_S = 0.2
_LISTING_SLICE_S = 0.02
# Listing takes at most this share of the time.
_LISTING_SHARE = 0.1

Say = Callable[[str], None]


class Mailbox:
    """Paths to look at, each once however often it changed; filled from any thread, emptied by
    one.

    Parameters
    ----------
    filled
        Is set when a path comes.
    """

    def __init__(self, filled: Optional[threading.Event] = None) -> None:
        self._paths: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self.filled = threading.Event() if filled is None else filled

    def put(self, path: str) -> None:
        """Add a path and wake who waits."""
        with self._lock:
            self._paths[path] = None
        self.filled.set()

    def put_all(self, paths: Sequence[str]) -> None:
        """Add paths and wake who waits."""
        with self._lock:
            for path in paths:
                self._paths[path] = None
        if paths:
            self.filled.set()

    def take(self, most: int) -> List[str]:
        """Return and remove up to ``most`` paths, the oldest first."""
        with self._lock:
            return [self._paths.popitem(last=False)[0] for _ in range(min(most, len(self._paths)))]

    def __len__(self) -> int:
        return len(self._paths)


@dataclass
class Root:
    """One watched folder.

    Attributes
    ----------
    what
        Its role in messages, such as ``TARGET``.
    path
        Absolute; links are resolved once the folder is there.
    files
        Where the paths of its files go.
    excluded
        Folders below it that are not entered.
    """

    what: str
    path: str
    files: Mailbox
    excluded: List[str] = field(default_factory=list)
    polled: bool = False
    present: bool = False
    rescan_s: float = SAFETY_RESCAN_S
    watch: Any = None
    identity: Tuple[int, int] = (0, 0)
    listed_at: float = 0.0
    listing_cost_s: float = 0.0
    folders: Deque[str] = field(default_factory=deque)

    def excludes(self, path: str) -> bool:
        """Tell whether ``path`` is an excluded folder or is below one."""
        return any(path == folder or path.startswith(folder + os.sep) for folder in self.excluded)


class Monitor(FileSystemEventHandler):
    """Watches folders; subscribes first, then lists, so that nothing is missed in between.

    Parameters
    ----------
    poll_s
        Seconds between listings where polling is forced; None: only where it is needed, every
        second.
    say
        Takes sentences for the user.
    wake
        Is set, by the observer's thread, when there is something for :meth:`tick`.
    """

    def __init__(
        self, poll_s: Optional[float], say: Say, wake: Optional[threading.Event] = None
    ) -> None:
        self.poll_s = poll_s
        self.say = say
        self.roots: List[Root] = []
        self._observer: Any = BaseObserver(ChangeEmitter)
        self._folder_events: Deque[Tuple[str, bool]] = deque()
        self._gone: Deque[str] = deque()
        self._checked_at = -1e9
        self._wake = threading.Event() if wake is None else wake

    def add(self, root: Root) -> None:
        """Watch one more folder, from the next :meth:`tick` on; it may be missing so far."""
        self.roots.append(root)

    def start(self) -> None:
        """Start the observer's thread."""
        self._observer.start()

    def stop(self) -> None:
        """End all threads, also where :meth:`start` was interrupted."""
        self._observer.stop()
        if self._observer.is_alive():
            self._observer.join(5.0)

    def dispatch(self, event: FileSystemEvent) -> None:
        """Take an event; called by the observer's thread. Only notes what is to be looked at."""
        path = os.fsdecode(event.src_path)
        if isinstance(event, (DirCreatedEvent, DirDeletedEvent, DirModifiedEvent)):
            self._folder_events.append((path, isinstance(event, DirModifiedEvent)))
            self._wake.set()
            return
        for root in self.roots:
            if path.startswith(root.path + os.sep) and not root.excludes(path):
                root.files.put(path)

    def tick(self) -> Iterator[str]:
        """Look after the roots and list what is to be listed, for a few hundredths of a second;
        yield each folder that was listed, or has gone.
        """
        now = time.monotonic()
        while self._folder_events:
            path, lost = self._folder_events.popleft()
            self._note_folder(path, lost)
        if now - self._checked_at >= _ROOT_CHECK_S:
            self._checked_at = now
            for root in self.roots:
                self._check(root, now)
        while self._gone:
            yield self._gone.popleft()
        end = time.monotonic() + _LISTING_SLICE_S
        for root in self.roots:
            while root.folders and time.monotonic() < end:
                start, folder = time.monotonic(), root.folders.popleft()
                self._list(root, folder)
                yield folder
                root.listing_cost_s += time.monotonic() - start

    @property
    def listing(self) -> bool:
        """Whether more is to be listed."""
        return any(root.folders for root in self.roots)

    def rescan(self) -> None:
        """List everything again, from the next :meth:`tick` on."""
        for root in self.roots:
            self._check(root, time.monotonic())
            if root.present:
                self._list_all(root, time.monotonic())

    def _note_folder(self, path: str, lost: bool) -> None:
        for root in self.roots:
            if path == root.path:
                if lost:
                    self.say(
                        "events of %s were lost (the kernel's queue was full): it is listed again"
                        % root.path
                    )
                    self._list_all(root, time.monotonic())
                else:
                    self._unsubscribe(root)
                    self._check(root, time.monotonic())
            elif path.startswith(root.path + os.sep) and not root.excludes(path):
                root.folders.append(path)

    def _check(self, root: Root, now: float) -> None:
        """Subscribe to a root that has appeared (or was made anew), and list it when it is time."""
        try:
            status = os.stat(root.path)
        except OSError:
            if root.present:
                self._unsubscribe(root)
                root.present = False
                self._gone.append(root.path)
            return
        identity = (status.st_dev, status.st_ino)
        if (
            not root.present
            or identity != root.identity
            or (root.watch is None and not root.polled)
        ):
            self._unsubscribe(root)
            root.path = os.path.realpath(root.path)
            root.present, root.identity = True, identity
            self._subscribe(root)
            self._list_all(root, now)
        interval = (self.poll_s or POLL_S) if root.polled else root.rescan_s
        if not root.folders and now - root.listed_at >= max(
            interval, root.listing_cost_s / _LISTING_SHARE
        ):
            self._list_all(root, now)

    def _subscribe(self, root: Root) -> None:
        kind = file_system(root.path)
        if self.poll_s is not None:
            root.polled = True
        elif not reports_all_changes(kind):
            root.polled = True
            self.say(
                "%s is on %s, where changes by other hosts are not told: it is listed every %g s"
                % (root.what, kind, POLL_S)
            )
        if root.polled:
            return
        root.rescan_s = OVERLAY_RESCAN_S if kind == "overlay" else SAFETY_RESCAN_S
        try:
            root.watch = self._observer.schedule(self, root.path, recursive=True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                root.present = False
                return
            root.polled = True
            what = {errno.ENOSPC: "max_user_watches", errno.EMFILE: "max_user_instances"}.get(
                error.errno or 0
            )
            why = "the limit fs.inotify.%s is reached" % what if what else error.strerror
            self.say(
                "inotify cannot be used for %s (%s): it is listed every %g s instead"
                % (root.what, why, POLL_S)
            )

    def _unsubscribe(self, root: Root) -> None:
        if root.watch is not None:
            watch, root.watch = root.watch, None
            self._observer.unschedule(watch)

    def _list_all(self, root: Root, now: float) -> None:
        root.folders.clear()
        root.folders.append(root.path)
        root.listed_at, root.listing_cost_s = now, 0.0

    def _list(self, root: Root, folder: str) -> None:
        """List one folder: its files are to be looked at, the folders in it to be listed. Links to
        folders are not followed.
        """
        files: List[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        files.append(entry.path)
                    elif not root.excludes(entry.path):
                        root.folders.append(entry.path)
        except OSError:
            # Gone, or not to be listed by this user: who is told of the folder looks at what was
            # known below it.
            pass
        root.files.put_all(files)


class _Renamed(Mailbox):
    """Passes paths below one folder on as paths below another."""

    def __init__(self, to: Mailbox, real: str, link: str) -> None:
        super().__init__()
        self._to, self._length, self._link = to, len(real), link

    def put(self, path: str) -> None:
        """Add a path and wake who waits."""
        self._to.put(self._link + path[self._length :])

    def put_all(self, paths: Sequence[str]) -> None:
        """Add paths and wake who waits."""
        self._to.put_all([self._link + path[self._length :] for path in paths])


class Links:
    """The links below one root.

    Parameters
    ----------
    monitor, root
        ``root`` is watched by ``monitor``; its mailbox takes the linked folders' files too.
    """

    def __init__(self, monitor: Monitor, root: Root) -> None:
        self.monitor = monitor
        self.root = root
        self._links: Dict[str, str] = {}

    def follow(self, link: str) -> None:
        """Watch the folder that ``link`` leads to, unless it is watched already, or left alone."""
        real = os.path.realpath(link)
        watched = [self.root.path, *self._links]
        if any(
            real == folder or real.startswith(folder.rstrip(os.sep) + os.sep) for folder in watched
        ) or self.root.excludes(real):
            return
        self._links[real] = link
        within = [
            folder
            for folder in [*watched, *self.root.excluded]
            if folder.startswith(real.rstrip(os.sep) + os.sep)
        ]
        self.monitor.add(Root(self.root.what, real, _Renamed(self.root.files, real, link), within))

    def as_met(self, folder: str) -> str:
        """Return a watched folder by the name that its files are known by."""
        for real, link in self._links.items():
            if folder == real or folder.startswith(real.rstrip(os.sep) + os.sep):
                return link + folder[len(real) :]
        return folder


class Folders:
    """The two watched folders, neither of which is looked at as a part of the other.

    Parameters
    ----------
    options
        Names TARGET, GOLDEN and OUT.
    poll_s
        As for :class:`Monitor`.
    say
        Takes sentences for the user.
    wake
        Is set, from any thread, when there is something to look at.
    catalogue, goldens
        The files that are known already.
    left_alone
        Folders below TARGET that are not looked at.

    Attributes
    ----------
    monitor
        Fills the two mailboxes.
    targets, goldens
        Paths to look at.
    target_root, golden_root, target_links, golden_links
        The folders, and the links below them.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        poll_s: Optional[float],
        say: Callable[[str], None],
        wake: threading.Event,
        catalogue: Catalogue,
        goldens: Goldens,
        left_alone: Sequence[str],
    ) -> None:
        target, golden, out = (
            os.path.realpath(path) for path in (options.target, options.golden, options.out)
        )
        self._catalogue, self._goldens = catalogue, goldens
        self.targets, self.goldens = Mailbox(wake), Mailbox(wake)
        self.target_root = Root(
            "TARGET", target, self.targets, [*_below(target, (golden, out)), *left_alone]
        )
        self.golden_root = Root("GOLDEN", golden, self.goldens, _below(golden, (target, out)))
        self.monitor = Monitor(poll_s, say, wake)
        self._moved = False
        self.target_links, self.golden_links = (
            Links(self.monitor, self.target_root),
            Links(self.monitor, self.golden_root),
        )

    @property
    def waiting(self) -> bool:
        """Whether there are paths to look at."""
        return bool(self.targets) or bool(self.goldens)

    def tick(self) -> bool:
        """List for a moment what is to be listed; tell whether more is to be listed."""
        for folder in self.monitor.tick():
            self._look_at_known(folder)
        return self.monitor.listing

    def take_moved(self) -> bool:
        """Tell whether TARGET has turned out to be, or has become, a link to another place since
        the last call.
        """
        moved, self._moved = self._moved, False
        return moved

    def look_again(self, path: str) -> None:
        """Look again at a file below TARGET, or at a golden file that is known."""
        if self._goldens.signature(path) is not None:
            self.goldens.put(path)
        if path.startswith(self.target_root.path + os.sep) and not self.target_root.excludes(path):
            self.targets.put(path)

    def _look_at_known(self, folder: str) -> None:
        """Look again at all that is known below a folder that was listed, or has gone."""
        if self._catalogue.root != self.target_root.path:
            self._catalogue.move(self.target_root.path)
            self._moved = True
        self.targets.put_all(self._catalogue.known_below(self.target_links.as_met(folder)))
        self.goldens.put_all(self._goldens.known_below(self.golden_links.as_met(folder)))


def _below(folder: str, others: Tuple[str, ...]) -> List[str]:
    """Return those of ``others`` that lie below ``folder``."""
    return [other for other in others if other.startswith(folder.rstrip(os.sep) + os.sep)]
