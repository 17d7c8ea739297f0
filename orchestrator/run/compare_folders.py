"""Compares TARGET and GOLDEN, two folders whose files are all there: listed once, and everything in
them compared, in this process with others of this machine, or on the workers of a cluster.
"""

from __future__ import annotations

import os
import sys
import time
from array import array
from collections import deque
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import InputError, UsageError
from ..base.notes import Note, note
from ..base.safe_reading import prefetch
from ..base.system import return_freed_memory
from ..base.wording import plural
from ..dumps.dump_index import Indexes
from ..dumps.dump_tree import DumpTree
from ..dumps.file_source import START_BYTES
from ..dumps.folder_listing import look_at
from ..dumps.place import Place
from ..model.graphs_of_run import ModelGraphs
from ..store.facts_and_events import EXPECTED
from .comparison_options import ComparisonOptions
from .dump_catalogue import SomeFiles
from .engine import Engine
from .mismatch_warnings import shown
from .progress import OnProgress, Progress
from .rows_at_the_end import finish_rows, left_out_notes, settle_files
from .target_file import GROWING, TargetFile
from .whole_run import Run, Source, compare_from, import_judging

if TYPE_CHECKING:
    from .result import RunResult
if TYPE_CHECKING or sys.version_info >= (3, 8):
    from typing import Protocol
else:
    Protocol = object

_MOST_NOTES = 3
# So many files are planned in one transaction, or as many as in so many seconds; what is finished
# is stored in the next: each has its price, however tiny the files are (64,000 rows take 12 % less
# processor time than with 64 files).
_SLICE, _SLICE_S = 256, 0.2
# Of so many places the files of an op are compared one after the other: the rows of each place lie
# elsewhere in the store, and a transaction writes a page for each.
_PLACES = 64
# Less than this is compared before other processes have started.
_FEW, _LITTLE_BYTES = 200, 16 << 20
# Each process costs as much as comparing so much; one keeps up with this one, which plans and
# stores, however many small files there are.
WORTH_BYTES = 32 << 20
# A golden tensor's pairs are compared together: those that are known only by the last files planned
# wait for more.
_UNRIPE = 256


def compare_folders(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
    comparers: Optional[Comparers] = None,
) -> RunResult:
    """Compare every file of TARGET as it is now, and judge the run.

    Parameters
    ----------
    jobs, force
        As for :func:`goldwatch.run.whole_run.compare_from`.
    on_progress
        Called several times a second.
    comparers
        Who lists TARGET and compares its files; by default this process and ``jobs`` others.

    Raises
    ------
    InputError
        TARGET or GOLDEN holds nothing to compare, or is no folder; OUT is then left alone.
    UsageError
        OUT holds the results of other inputs or options.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    options.require_dumps(to_come=comparers is not None)
    options = options.of_statistics()
    return compare_from(_Listing(options, on_progress, comparers), jobs, force)


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
        engine, order = self._engine, _op_by_op(files)
        waiting, planned = map(files.__getitem__, order), 0
        again: Deque[TargetFile] = deque()
        ahead = map(files.__getitem__, order)
        soon = (file.path for file in ahead if file.looked_at)
        count = _SLICE
        while planned < len(files) or again:
            prefetch(islice(soon, count), START_BYTES)
            count, end_s = 0, time.monotonic() + _SLICE_S
            # What was planned and what was compared meanwhile is committed at once.
            with engine.store.transaction():
                for file in islice(chain(waiting, _popped(again)), _SLICE):
                    self._plan(file)
                    count += 1
                    if time.monotonic() > end_s:
                        break
                planned = min(planned + count, len(files))
                # Files that were held until an op of the model came.
                again.extend(one.file for one in engine.take_look_again() if not one.changed)
                engine.dispatch(_UNRIPE)
                engine.collect(0.0)
            while engine.queue.full:
                engine.dispatch()
                engine.help()
                engine.collect(1.0)
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
        if not file.looked_at:
            note_signature(file)
        plan = self._engine.plan(file)
        if plan is not None:
            self._engine.accept(file, plan)


def _op_by_op(files: Sequence[TargetFile]) -> Any:
    """Return the positions of the files of each op together, whatever their place, the ops as they
    come first: what is planned for an op, and its golden tensors, are then used for all devices and
    steps at once, of many for some after the others.
    """
    ops: Dict[Tuple[Any, ...], int] = {}
    places: Dict[Place, int] = {}
    numbers = (
        (
            places.setdefault(file.place, len(places)) // _PLACES,
            ops.setdefault(file.op[:2], len(ops)),
        )
        for file in files
    )
    flat = np.fromiter(chain.from_iterable(numbers), np.int32, 2 * len(files))
    return np.lexsort((flat[1::2], flat[::2])).astype(np.int32)


def _popped(files: Deque[TargetFile]) -> Iterator[TargetFile]:
    while files:
        yield files.popleft()


class Comparers(Protocol):
    """Others that list TARGET and compare its files."""

    def list_target(self, options: ComparisonOptions) -> DumpTree:
        """Return what TARGET holds; OUT is not touched before."""

    def compare(
        self, run: Run, files: Sequence[TargetFile], sizes: Sequence[int], on_progress: OnProgress
    ) -> List[Note]:
        """Store the rows of all files, in the order of the execution, and what is known of each;
        ``sizes`` in bytes.

        Returns what was left out, as sentences.
        """


class _Listing(Source):
    """TARGET and GOLDEN as they are found."""

    def __init__(
        self,
        options: ComparisonOptions,
        on_progress: Optional[OnProgress],
        comparers: Optional[Comparers],
    ) -> None:
        super().__init__(options, on_progress)
        self.comparers = comparers

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """List both folders; raise InputError where one holds nothing to compare, or no model for
        what it holds.
        """
        self.on_progress(Progress(stage="listing GOLDEN"))
        self.golden = self.options.golden_index.golden()
        self.on_progress(Progress(stage="listing TARGET"))
        self.tree = (
            self.options.target_index.tree(self.options.time)
            if self.comparers is None
            else self.comparers.list_target(self.options)
        )
        if not any(step_folder.unresolved for step_folder in self.tree.without_dumps):
            require_dumps(self.options.indexes, self.tree, self.options.time)
        graphs = graphs.named_among(folder.place.model for folder in self.tree.step_folders)
        graphs.require(step_folder.place.model for step_folder in self.tree.step_folders)
        if not len(self.golden):
            from ..kinds.wrong_kind_advice import without_golden

            _refuse_deleted("GOLDEN", self.options.golden)
            advice = without_golden(self.options.golden_index)
            notes = [advice.words] if advice.words else self.golden.notes[:_MOST_NOTES]
            none = "GOLDEN: %s: no golden data was found at or below it" % self.options.golden
            raise InputError("; ".join([none, *notes]), hint=advice.hint)
        if self.options.unfused is not None and self.golden.kind != "npu":
            raise InputError(
                "GOLDEN: %s: expected the device dumps of the build without fusion, got "
                "golden files" % self.options.golden,
                hint="golden files of the original model need no second model file",
            )
        if not any(graph.fx for graph in graphs.graphs):
            return graphs
        if self.comparers is not None:
            raise UsageError(
                "TorchAir's original graphs are compared here: a cluster's workers do not "
                "know what was fused"
            )
        from ..model.torchair_fused_ops import graphs_of_dumped_ops

        return graphs_of_dumped_ops(graphs, self.tree, self.golden)

    def feed(self, run: Run) -> None:
        """Compare everything, and add the rows of what never arrived."""
        engine = run.engine
        run.goldens.take(self.golden)
        run.prepare_rows()
        run.notes += self.tree.notes + _golden_notes(run)
        run.notes += [note("statistics")] if self.tree.statistics else []
        run.left_out += self.tree.left_notes
        run.overflow = self.tree.overflow
        run.catalogue.left = {step_folder.place.run for step_folder in self.tree.left}
        engine.places.settled = True
        engine.continue_store(keep_gone=False)
        files = _meet(run, self.tree)
        sizes = array("q", map(note_signature, files))
        run.store.set(EXPECTED, {"files": len(files), "bytes": sum(sizes)})
        if self.comparers is None:
            run.left_out += self._compare(run, files, sum(sizes))
        else:
            run.left_out += self.comparers.compare(run, files, sizes, self.on_progress)
        finish_rows(engine, self.tree.empty, self.tree.unlisted)
        run.judge_rows(by_names=True)
        run.left_out += run.unpaired()

    def _compare(self, run: Run, files: Sequence[TargetFile], size_bytes: int) -> List[Note]:
        """Compare everything in one session; processes are started where there is enough to do."""
        if len(files) > _FEW or size_bytes > _LITTLE_BYTES:
            run.workers.start(most=1 + size_bytes // WORTH_BYTES)
        earlier = Session(run.engine, self.on_progress).compare(files)
        with run.store.transaction():
            return left_out_notes(run.engine, earlier)


def _meet(run: Run, tree: DumpTree) -> SomeFiles:
    """Return the files that count, in the order of the execution; the tree holds them no more."""
    numbers = array("I")
    with run.store.transaction():
        for step_folder in [*tree.step_folders, *tree.without_dumps]:
            for rel in [entry.rel for entry in step_folder.files] + [
                os.path.join(step_folder.rel, name) for name in step_folder.unresolved
            ]:
                file, fresh = run.engine.meet(os.path.join(run.catalogue.root, rel))
                if file is not None and fresh:
                    numbers.append(file.number)
            step_folder.files, step_folder.unresolved = [], []
    return_freed_memory()
    return SomeFiles(run.catalogue.files.columns, numbers).in_state(GROWING)


def require_dumps(indexes: Indexes, tree: DumpTree, time: Optional[str] = None) -> None:
    """Raise InputError for a TARGET without a dump file, or without one of a time: what it holds
    instead.
    """
    if tree.step_folders:
        return
    if tree.left:
        times = ", ".join(sorted({str(step_folder.place.time) for step_folder in tree.left})[:8])
        raise InputError(
            "TARGET: %s: there is no time folder %s" % (tree.root, time),
            hint="there are %s" % times,
        )
    _refuse_deleted("TARGET", tree.root)
    from ..kinds.wrong_kind_advice import without_dumps

    advice = without_dumps(*indexes)
    looked = advice.words or "; ".join(tree.notes[:_MOST_NOTES])
    raise InputError(
        "TARGET: %s: no dump file was found at or below it%s"
        % (tree.root, ": %s" % looked if looked else ""),
        hint=advice.hint,
    )


def _refuse_deleted(side: str, folder: str) -> None:
    """Raise InputError for a folder without a dump, where a run deleted what was there."""
    from .dump_deletion import deleted_dumps

    deleted = deleted_dumps(folder)
    if deleted is not None:
        run, files = deleted
        said = note("no-dumps-left", run, plural(len(files), "dump"))
        raise InputError("%s: %s: %s" % (side, folder, said), hint=said.next)


def _golden_notes(run: Run) -> List[Note]:
    golden = run.goldens.every
    notes = [known.behind("GOLDEN: ") if golden.kind == "npu" else known for known in golden.notes]
    if run.goldens.fx and run.goldens.step_names:
        notes.append(note("golden-tokens", shown(run.goldens.step_names)))
    elif run.goldens.step_names:
        notes.append(note("golden-steps", shown(run.goldens.step_names)))
    for collision in golden.collisions[:10]:
        notes.append(
            note("golden-collision", ", ".join(collision.files), collision.key, collision.index)
        )
    if golden.kind == "npu":
        notes.append(note("golden-is-device"))
        if golden.dumps.several_places:
            notes.append(note("golden-places"))
    elif not run.graphs:
        notes.append(note("paired-by-name"))
    return notes
