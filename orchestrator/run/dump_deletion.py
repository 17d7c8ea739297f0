"""Bounded disk: dumps are deleted after their comparison, and room is kept free."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from typing import Callable, Deque, List, Optional, Set, Tuple

from ..base.errors import GoldwatchError
from ..base.mounts import free_bytes
from ..base.notes import note
from ..dumps.folder_listing import Signature, list_folder, look_at
from ..dumps.place import is_time
from ..metrics.row import EXPECTED_ABSENT, FAIL, PASS
from ..store.store import RunStore
from .engine import Engine
from .memory_overlaps import note_regions
from .provisional import Provisional
from .recompute_before_delete import EarlyRecomputation
from .target_file import DELETED_PREFIX, PLANNED, TargetFile
from .watch_options import KEEP_ALL, KEEP_FAILED, WatchOptions

# Time, device, model, model_id, step; and how many folders beside TARGET are looked at.
_PLACE_FOLDERS, _RUNS_BESIDE = 5, 64
# Golden data that are still arriving may give a tensor a better counterpart: what is deleted cannot
# be compared again.
_GOLDEN_QUIET_S = 1.0
# Looking takes one part in so many of the time at most. Chosen, no trial.
_LOOK_S = 0.25
_LOOK_SHARE = 10.0
_GOLDEN_LISTED_S = 1.0


def deleted_dumps(target: str, out: Optional[str] = None) -> Optional[Tuple[str, List[str]]]:
    """Return the folder of a run's result beside a dump folder, and the dumps below TARGET that
    this run has deleted; None where there is no such run.

    Parameters
    ----------
    out
        The result that is being made, which does not count.
    """
    below = os.path.join(os.path.realpath(target), "")
    names = os.path.abspath(target).split(os.sep)
    folders = [os.sep.join(names[:-1])]
    # Of TARGET below the time of a run the dumps' own folder is above that.
    folders += [
        os.sep.join(names[: at - 1])
        for at in range(max(2, len(names) - _PLACE_FOLDERS), len(names))
        if is_time(names[at])
    ]
    for folder in folders:
        for name in list_folder(folder or os.sep).folders[:_RUNS_BESIDE]:
            run = os.path.join(folder, name)
            if out is not None and os.path.realpath(run) == os.path.realpath(out):
                continue
            try:
                with RunStore.open(run) as store:
                    files = store.files().items()
            except (GoldwatchError, OSError):
                continue
            gone = [path for path, known in files if known.state.startswith(DELETED_PREFIX)]
            gone = [path for path in gone if path.startswith(below) and look_at(path) is None]
            if gone:
                here = os.path.join(os.getcwd(), "")
                return run[len(here) :] if run.startswith(here) else run, gone
    return None


class DumpDeleter:
    """Deletes what is not to be kept.

    Only regular files below TARGET whose rows are committed and which have not changed since; never
    golden data, by whatever name or link, never through a link.

    Parameters
    ----------
    options
        Which files are to be kept.
    engine
        The watch's.
    say
        Takes sentences for the user.
    provisional
        Knows which files have rows that are not final: their tensors may have to be read again.
    ahead
        Computes operators again before their files go; None: none are.
    """

    def __init__(
        self,
        options: WatchOptions,
        engine: Engine,
        say: Callable[[str], None],
        provisional: Provisional,
        ahead: Optional[EarlyRecomputation] = None,
    ) -> None:
        self._check_addresses = engine.options.check_addresses
        self._provisional = provisional
        self._undecided: List[TargetFile] = []
        self._ahead = ahead
        self._uncomputed: List[TargetFile] = []
        self._compute_at = -1e9
        self.options = options
        self.catalogue = engine.catalogue
        self.goldens = engine.goldens
        self.store = engine.store
        self.say = say
        self.deleted = 0
        self.deleted_bytes = 0
        self._queue: Deque[TargetFile] = deque()
        self._of_inputs: List[TargetFile] = []
        self._last = False
        self._looked_at = self._asked_at = -1e9
        self._free: Optional[int] = None
        self._warned = False
        self._golden_files: Set[Tuple[int, int]] = set()
        self._listed_until = -1e9

    def offer(self, file: TargetFile) -> None:
        """Take a file all of whose pairs are compared."""
        if self.options.keep == KEEP_ALL or file.missing or file.state != PLANNED:
            return
        if file.tensors[0] and not file.tensors[1] and not self._last:
            # The outputs of what feeds it are seen in it at the end.
            self._of_inputs.append(file)
            return
        if self._provisional.holds(file) and not self._last:
            self._undecided.append(file)
            return
        verdicts = self.store.table.verdicts_of_file(file.rel)
        allowed = (
            {PASS, EXPECTED_ABSENT}
            if self.options.keep == KEEP_FAILED
            else {PASS, FAIL, EXPECTED_ABSENT}
        )
        if set(verdicts) <= allowed and (PASS in verdicts or FAIL in verdicts):
            if self._ahead is not None:
                self._uncomputed.append(file)
            else:
                self._queue.extend((file, *file.slices))

    def tick(self, last: bool = False) -> None:
        """Delete what may go, as long as that is wanted; warn when the disk fills.

        Parameters
        ----------
        last
            No more golden data can come.
        """
        if last and not self._last:
            self._last = True
            for file in self._of_inputs:
                self.offer(file)
        if self._undecided and (last or time.monotonic() - self._asked_at > _LOOK_S):
            waiting, self._undecided = self._undecided, []
            for file in waiting:
                self.offer(file)
            self._asked_at = time.monotonic()
        least = self.options.min_free_bytes
        if least is not None and (last or time.monotonic() - self._looked_at > _LOOK_S):
            self._look_at_disk(least)
        if not last and time.monotonic() - self.goldens.changed_at < _GOLDEN_QUIET_S:
            return
        if (
            self._ahead is not None
            and self._uncomputed
            and not (least is not None and self._free is not None and self._free >= least)
        ):
            self._compute(self._ahead, last)
        until = time.monotonic() + 0.05
        while self._queue and (last or time.monotonic() < until):
            if least is not None and self._free is not None and self._free >= least:
                return
            size = self._delete(self._queue.popleft())
            if self._free is not None:
                self._free += size
        if last and self._ahead is not None:
            self._ahead.close()

    def _compute(self, ahead: EarlyRecomputation, last: bool) -> None:
        """Compute the operators of files that may go: those that come out wrong stay, but where
        nothing is kept.
        """
        begin = time.monotonic()
        if not last and begin < self._compute_at:
            return
        taken = ahead.ready(self._uncomputed, last)
        self._compute_at = begin + max(_LOOK_S, _LOOK_SHARE * (time.monotonic() - begin))
        if taken:
            right = ahead.compute(taken)
            for file in right if self.options.keep == KEEP_FAILED else taken:
                self._queue.extend((file, *file.slices))
            gone = {id(file) for file in taken}
            self._uncomputed = [file for file in self._uncomputed if id(file) not in gone]

    def _look_at_disk(self, least: int) -> None:
        self._looked_at = time.monotonic()
        self._free = free_bytes(self.catalogue.root)
        short = self._free is not None and self._free < least
        if short and not self._warned and not (self._queue or self._uncomputed):
            self.say(note("low-disk", self._free or 0, least, self.options.keep))
        self._warned = short if not self._queue else self._warned

    def _delete(self, file: TargetFile) -> int:
        """Delete one file, if it still may be; return its bytes."""
        path = file.path
        signature = file.signature
        if (
            file.state != PLANNED
            or file.pending
            or file.missing
            or signature is None
            or look_at(path) != signature
            or not self._ours(path, signature)
        ):
            return 0
        if self._check_addresses:
            note_regions(file)
        self.store.put_file(
            path, signature.size_bytes, signature.mtime_ns, DELETED_PREFIX + signature.text
        )
        try:
            os.unlink(path)
        except OSError as error:
            self.store.put_file(path, signature.size_bytes, signature.mtime_ns, signature.text)
            self.say("%s cannot be deleted: %s" % (path, error.strerror))
            return 0
        file.delete()
        self.deleted += 1
        self.deleted_bytes += signature.size_bytes
        return signature.size_bytes

    def _ours(self, path: str, signature: Signature) -> bool:
        """Tell whether a path is a regular file below TARGET, reached without any link, and no
        golden file.
        """
        root, golden = self.catalogue.root, os.path.realpath(self.goldens.folder)
        folder = os.path.dirname(path)
        try:
            regular = stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:
            return False
        inside = os.path.realpath(folder) == folder and (folder + os.sep).startswith(
            root.rstrip(os.sep) + os.sep
        )
        below_golden = (path.startswith(golden + os.sep)) and (golden + os.sep).startswith(
            root.rstrip(os.sep) + os.sep
        )
        if (
            not (regular and inside)
            or below_golden
            or self.goldens.shares_file(path, signature.inode)
        ):
            return False
        status = os.lstat(path)
        return (status.st_dev, status.st_ino) not in self._files_of_golden()

    def _files_of_golden(self) -> Set[Tuple[int, int]]:
        """Return device and inode of every file that a path below GOLDEN leads to, whatever its
        name; listed anew every second.
        """
        if time.monotonic() >= self._listed_until:
            self._golden_files = files_below(
                os.path.realpath(self.goldens.folder), self.catalogue.root
            )
            self._listed_until = time.monotonic() + _GOLDEN_LISTED_S
        return self._golden_files


def files_below(folder: str, but: str) -> Set[Tuple[int, int]]:
    """Return device and inode of all files below ``folder``, links followed; the folder ``but`` is
    left out unless a link leads to it.
    """
    files: Set[Tuple[int, int]] = set()
    seen: Set[Tuple[int, int]] = set()
    waiting = [] if folder == but else [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                continue
            key = (status.st_dev, status.st_ino)
            if not stat.S_ISDIR(status.st_mode):
                files.add(key)
            elif key not in seen and (entry.path != but or entry.is_symlink()):
                seen.add(key)
                waiting.append(entry.path)
    return files
