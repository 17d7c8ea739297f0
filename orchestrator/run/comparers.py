"""Who compares the files of a run that are all there: this process and others of this machine, or
other machines.
"""

from __future__ import annotations

import sys
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, List, Sequence

from ..dumps.source import START_BYTES
from ..dumps.tree import DumpTree
from ..filesystem.inputs import read_soon
from .closing import settle
from .comparison import Run, import_judging
from .engine import Engine
from .options import ComparisonOptions
from .progress import OnProgress
from .signature import look_at
from .target_file import TargetFile

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


class Comparers(Protocol):
    """Who lists TARGET and compares its files."""

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds; OUT is not touched before."""

    def compare(
        self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress
    ) -> List[str]:
        """Store the rows of all files, in the order of the execution, and what is known of each;
        ``sizes`` in bytes.

        Returns what was left out, as sentences.
        """


class Here:
    """This process and those that it starts."""

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds."""
        return DumpTree(options.target, time=options.time)

    def compare(
        self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress
    ) -> List[str]:
        """Compare everything: pairs are compared while later files are still planned, the biggest
        known first.
        """
        size_bytes = sum(sizes)
        if len(files) > _FEW or size_bytes > _LITTLE_BYTES:
            run.workers.start(most=1 + size_bytes // WORTH_BYTES)
        compare_files(run.engine, files, on_progress)
        left_out = settle(run.engine)
        drain(run.engine, on_progress)
        return left_out


def compare_files(engine: Engine, files: Sequence[TargetFile], on_progress: OnProgress) -> None:
    """Plan files and compare their pairs; those that are held for the end stay held."""
    waiting = deque(files)
    soon = iter([file.path for file in waiting if file.signature is not None])
    read_soon(islice(soon, _AHEAD), START_BYTES)
    while waiting:
        read_soon(islice(soon, _SLICE), START_BYTES)
        with engine.store.transaction():
            for _ in range(min(_SLICE, len(waiting))):
                _plan(engine, waiting.popleft())
        # Files that were held until an op of the model came.
        waiting.extend(again.file for again in engine.take_look_again() if not again.changed)
        engine.dispatch(_UNRIPE)
        engine.collect(0.0)
        while engine.queue.full:
            engine.dispatch()
            engine.help()
            engine.collect(1.0)
        on_progress(
            engine.progress.at(
                "planning and comparing", max(0, len(files) - len(waiting)), len(files)
            )
        )
    drain(engine, on_progress)


def look(file: TargetFile) -> int:
    """Note how a file looks, before it is read; return its size in bytes, 0 where it has gone."""
    found = look_at(file.path)
    if found is not None:
        file.change(found)
    return 0 if found is None else found.size_bytes


def _plan(engine: Engine, file: TargetFile) -> None:
    if file.signature is None:
        look(file)
    plan = engine.plan(file)
    if plan is not None:
        engine.accept(file, plan)


def drain(engine: Engine, on_progress: OnProgress) -> None:
    """Compare all pairs that are queued."""
    while engine.busy:
        engine.dispatch()
        if not len(engine.queue):
            # Others compare the last pairs meanwhile.
            import_judging()
        engine.help()
        engine.collect(1.0)
        on_progress(engine.progress)
