"""Compares TARGET and GOLDEN, two folders whose files are all there: listed once, and everything in
them compared.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, List, Optional

from ..base.errors import InputError, UsageError
from ..base.notes import Note, note
from ..dumps.dump_tree import DumpTree
from ..model.graphs_of_run import ModelGraphs
from ..store.facts_and_events import EXPECTED
from .comparison_options import ComparisonOptions
from .comparison_session import Comparers, LocalProcesses, note_signature
from .mismatch_warnings import shown
from .progress import OnProgress, Progress
from .rows_at_the_end import finish_rows
from .target_file import GROWING, TargetFile
from .whole_run import Run, Source, compare_from

if TYPE_CHECKING:
    from .result import RunResult

_MOST_NOTES = 3


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
    return compare_from(_Listing(options, on_progress, comparers or LocalProcesses()), jobs, force)


class _Listing(Source):
    """TARGET and GOLDEN as they are found."""

    def __init__(
        self, options: ComparisonOptions, on_progress: Optional[OnProgress], comparers: Comparers
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
        self.tree = self.comparers.list_target(self.options)
        _require_dumps(self.options, self.tree)
        graphs = graphs.named_among(folder.place.model for folder in self.tree.step_folders)
        graphs.require(step_folder.place.model for step_folder in self.tree.step_folders)
        if not len(self.golden):
            from ..kinds.wrong_kind_advice import without_golden

            advice = without_golden(self.options.golden)
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
        if not isinstance(self.comparers, LocalProcesses):
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
        run.catalogue.left = {step_folder.place.run for step_folder in self.tree.left}
        engine.places.settled = True
        engine.continue_store(keep_gone=False)
        files = _meet(run, self.tree)
        sizes = array("q", map(note_signature, files))
        run.store.set(EXPECTED, {"files": len(files), "bytes": sum(sizes)})
        run.left_out += self.comparers.compare(run, files, sizes, self.on_progress)
        finish_rows(engine, self.tree.empty, self.tree.unlisted)
        run.judge_rows(by_names=True)
        run.left_out += run.unpaired()


def _meet(run: Run, tree: DumpTree) -> List[TargetFile]:
    """Return the files that count, in the order of the execution; the tree holds them no more."""
    files: List[TargetFile] = []
    with run.store.transaction():
        for step_folder in [*tree.step_folders, *tree.without_dumps]:
            for rel in [entry.rel for entry in step_folder.files] + [
                os.path.join(step_folder.rel, name) for name in step_folder.unresolved
            ]:
                file, fresh = run.engine.meet(os.path.join(run.catalogue.root, rel))
                if file is not None and fresh:
                    files.append(file)
            step_folder.files, step_folder.unresolved = [], []
    return [file for file in files if file.state == GROWING]


def _require_dumps(options: ComparisonOptions, tree: DumpTree) -> None:
    if tree.step_folders or any(step_folder.unresolved for step_folder in tree.without_dumps):
        return
    if tree.left:
        times = ", ".join(sorted({str(step_folder.place.time) for step_folder in tree.left})[:8])
        raise InputError(
            "TARGET: %s: there is no time folder %s" % (options.target, options.time),
            hint="there are %s" % times,
        )
    raise no_dumps(options.target, options.golden, tree)


def no_dumps(target: str, golden: str, tree: DumpTree) -> InputError:
    """Return the error for a TARGET without a dump file: what it holds instead."""
    from ..kinds.wrong_kind_advice import without_dumps

    advice = without_dumps(target, golden)
    looked = advice.words or "; ".join(tree.notes[:_MOST_NOTES])
    return InputError(
        "TARGET: %s: no dump file was found at or below it%s"
        % (target, ": %s" % looked if looked else ""),
        hint=advice.hint,
    )


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
