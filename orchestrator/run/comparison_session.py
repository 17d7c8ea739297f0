"""A session that compares files that are all there, from planning to stored rows: in this process
with others of this machine, or on the workers of a cluster.
"""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

from ..base.notes import Note
from ..base.safe_reading import prefetch
from ..dumps.dump_tree import DumpTree
from ..dumps.file_source import START_BYTES
from .comparison_options import ComparisonOptions
from .engine import Engine
from .progress import OnProgress
from .rows_at_the_end import left_out_notes, settle_files
from .target_file import TargetFile, look_at
from .whole_run import Run, import_judging

if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object

# So many files are planned in one transaction, what is finished is stored in the next: each has its
# price, however tiny the files are.
_SLICE = 64
# So many files' headers are on their way from the disk while one is planned.
_AHEAD = 64
# Less than this is compared before other processes have started.
_FEW, _LITTLE_BYTES = 200, 16 << 20
# Each process costs as much as comparing so much; one keeps up with this one, which plans and
# stores, however many small files there are.
WORTH_BYTES = 32 << 20
# A golden tensor's pairs are compared together: those that are known only by the last files planned
# wait for more.
_UNRIPE = 256


def note_signature(file: TargetFile) -> int:
    """Note how a file looks, before it is read; return its size in bytes, 0 where it has gone."""
    signature = look_at(file.path)
    if signature is not None:
        file.change(signature)
    return 0 if signature is None else signature.size_bytes


class Session:
    """Files planned, their pairs compared and their rows stored, until nothing is left to do for
    them: in this process and those that it starts, or on a cluster's worker.

    Parameters
    ----------
    engine
        Knows the files; nothing else comes or changes.
    on_progress
        Called several times a second.
    """

    def __init__(self, engine: Engine, on_progress: OnProgress = lambda progress: None) -> None:
        self._engine = engine
        self._on_progress = on_progress

    def compare(self, files: Sequence[TargetFile]) -> Dict[str, int]:
        """Compare files: their pairs are compared while later files are still planned, the biggest
        known first. What waits for the end (L1 fusion groups, loops, damaged files) is planned
        once all are.

        Returns how many earlier dumps of which ops do not count.
        """
        engine, waiting = self._engine, deque(_op_by_op(files))
        soon = iter([file.path for file in waiting if file.signature is not None])
        prefetch(islice(soon, _AHEAD), START_BYTES)
        while waiting:
            prefetch(islice(soon, _SLICE), START_BYTES)
            with engine.store.transaction():
                for _ in range(min(_SLICE, len(waiting))):
                    self._plan(waiting.popleft())
            # Files that were held until an op of the model came.
            waiting.extend(again.file for again in engine.take_look_again() if not again.changed)
            engine.dispatch(_UNRIPE)
            engine.collect(0.0)
            while engine.queue.full:
                engine.dispatch()
                engine.help()
                engine.collect(1.0)
            planned = max(0, len(files) - len(waiting))
            self._on_progress(engine.progress.at("planning and comparing", planned, len(files)))
        self.compare_queued()
        earlier = settle_files(engine)
        self.compare_queued()
        return earlier

    def compare_queued(self) -> None:
        """Compare all pairs that are queued."""
        engine = self._engine
        while engine.busy:
            engine.dispatch()
            if not len(engine.queue):
                # Others compare the last pairs meanwhile.
                import_judging()
            engine.help()
            engine.collect(1.0)
            self._on_progress(engine.progress)

    def _plan(self, file: TargetFile) -> None:
        if file.signature is None:
            note_signature(file)
        plan = self._engine.plan(file)
        if plan is not None:
            self._engine.accept(file, plan)


def _op_by_op(files: Sequence[TargetFile]) -> List[TargetFile]:
    """Return the files of each op together, whatever their place, the ops as they come first: what
    is planned for an op, and its golden tensors, are then used for all devices and steps at once.
    """
    numbers: Dict[Tuple[Any, ...], int] = {}
    return sorted(files, key=lambda file: numbers.setdefault(file.op[:2], len(numbers)))


class Comparers(Protocol):
    """Who lists TARGET and compares its files."""

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds; OUT is not touched before."""

    def compare(
        self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress
    ) -> List[Note]:
        """Store the rows of all files, in the order of the execution, and what is known of each;
        ``sizes`` in bytes.

        Returns what was left out, as sentences.
        """


class LocalProcesses:
    """This process and those that it starts."""

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds."""
        return options.target_index.tree(options.time)

    def compare(
        self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress
    ) -> List[Note]:
        """Compare everything in one session; processes are started where there is enough to do."""
        size_bytes = sum(sizes)
        if len(files) > _FEW or size_bytes > _LITTLE_BYTES:
            run.workers.start(most=1 + size_bytes // WORTH_BYTES)
        earlier = Session(run.engine, on_progress).compare(files)
        with run.store.transaction():
            return left_out_notes(run.engine, earlier)
