"""A run from its inputs to its result files, whatever the source of its files."""

from __future__ import annotations

import gc
import os
import threading
from abc import ABC, abstractmethod
from dataclasses import replace
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Collection,
    List,
    Mapping,
    Optional,
    Tuple,
    Type,
)

from ..base.errors import Interrupted, require_file
from ..base.interrupts import InterruptState, caused_by_interrupt, interrupt_state, uninterrupted
from ..base.notes import Note, note
from ..base.system import return_freed_memory, return_large_arrays
from ..dumps.folder_listing import DumpEntry
from ..dumps.place import Place
from ..metrics.compare_pair import RARE_COLLECTIONS
from ..model.graphs_of_run import ModelGraphs
from ..reports.csv_cells import Columns
from ..reports.csv_tables import TableFiles
from ..reports.rendered_rows import Renderer, absolute
from ..reports.result_files import ResultFiles
from ..store.facts_and_events import PROVISIONAL
from ..store.host_facts import COMPUTED
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, network_document
from .comparison_options import ComparisonOptions
from .engine import Engine
from .golden_files import Goldens
from .mismatch_warnings import (
    mismatch_warnings,
    steps_without_golden,
    with_doubtful_golden,
    with_other_files,
)
from .overflows import note_overflows
from .progress import OnProgress, OnStage, Progress
from .workers import Workers

if TYPE_CHECKING:
    from ..judging.diagnosis.recompute_without_model import TensorReader
    from ..judging.diagnosis.summary import Summary
    from .recomputation import Recomputation
    from .result import RunResult


_MANY_ROWS = 1 << 17
"""Rows above which a column of them is a large array. Of few, what computing again takes is more
than what judging does, and it takes a quarter more where its arrays are given back at once
(scripts/bench recompute --culprit --batch 21).
"""


class Source(ABC):
    """Where the files of a run come from that are all there.

    Parameters
    ----------
    on_progress
        Called several times a second.

    Attributes
    ----------
    inputs, graphs
        As the parameters of :class:`Run`.
    """

    def __init__(
        self, options: ComparisonOptions, on_progress: Optional[OnProgress] = None
    ) -> None:
        self.options = options
        self.on_progress: OnProgress = on_progress or (lambda progress: None)
        self.inputs: Optional[Mapping[str, Any]] = None
        self.graphs: Optional[ModelGraphs] = None

    @abstractmethod
    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """Look at the files, with the models, before OUT is touched; return those that tell which
        ops there are.

        Raises
        ------
        GoldwatchError
            There is nothing to compare.
        """

    @abstractmethod
    def feed(self, run: Run) -> None:
        """Have everything compared, and give what never came its rows."""


def compare_from(source: Source, jobs: int = 1, force: bool = False) -> RunResult:
    """Compare all that a source has, and judge the run.

    Parameters
    ----------
    jobs
        Processes that compare.
    force
        Discard other results in OUT.

    Raises
    ------
    GoldwatchError
        As the source's :meth:`Source.look`; OUT is then left alone.
    UsageError
        OUT holds the results of other inputs or options.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    source.on_progress(Progress(stage="reading the model"))
    with Run(source.options, jobs, force, source.inputs, graphs=source.graphs) as run:
        run.open(source.look(run.graphs))
        source.feed(run)
        return run.finish(
            on_stage=lambda *stage: source.on_progress(run.engine.progress.at(*stage))
        )


class Run:
    """A run: a context manager around its processes, its store and its engine.

    Inside it :attr:`graphs` are the models; :meth:`open` is the first to touch OUT, and makes the
    engine, which a source of files then feeds.

    Parameters
    ----------
    jobs
        Processes that compare.
    force
        Discard other results in OUT.
    inputs
        What the rows depend on, as JSON values; the options' by default.
    list_stored
        As for :class:`goldwatch.run.engine.Engine`.
    wake
        As for :class:`goldwatch.run.workers.Workers`.
    graphs
        The models; by default those that the options name are read.

    Attributes
    ----------
    reader
        Who reads tensors again; None: this process does.
    overflow
        The files of overflow records below TARGET, as its source found them.
    notes, left_out
        As those of :class:`RunResult`.
    golden_fails
        Of a replay, whether the comparison with golden data fails.
    """

    def __init__(
        self,
        options: ComparisonOptions,
        jobs: int = 1,
        force: bool = False,
        inputs: Optional[Mapping[str, Any]] = None,
        list_stored: bool = False,
        wake: Optional[threading.Event] = None,
        graphs: Optional[ModelGraphs] = None,
    ) -> None:
        self.options = options
        self.jobs = jobs
        self.force = force
        self.inputs = inputs if inputs is not None else options.identity()
        self._list_stored = list_stored
        self._wake = wake
        self._known_graphs = graphs
        self.notes: List[Note] = []
        self.left_out: List[Note] = []
        self.unmatched: List[Note] = []
        self.steps_without_golden: List[str] = []
        self.tables_when_interrupted = True
        self.reader: Optional[TensorReader] = None
        self.overflow: List[DumpEntry] = []
        self._store: Optional[RunStore] = None
        self._opened = False
        self._collected: Tuple[int, ...] = ()
        self._recomputation: Optional[Recomputation] = None
        self._rows_judged = False
        self.golden_fails = False

    @property
    def comparison(self) -> str:
        """Which kind of run it is: :data:`EXACT`, :data:`OUTPUTS`, :data:`REPLAY`; empty for all
        others.
        """
        from ..judging.diagnosis.summary import EXACT, OUTPUTS

        kind: str = self.inputs.get("comparison", "")
        return kind or (
            EXACT if self.options.exact else "" if self.options.outputs is None else OUTPUTS
        )

    def __enter__(self) -> Run:
        self._entered = interrupt_state()
        self.options.require_own_out()
        for path, what in self.options.named_models:
            # A training's models may be a folder.
            if not (path == self.options.model and os.path.isdir(path)):
                require_file(path, what)
        self.workers = Workers(self.jobs, self.options.settings(), wake=self._wake)
        try:
            self.graphs = self._known_graphs or self.options.graphs()
            self.options.selection(self.graphs)
        except BaseException as error:
            with uninterrupted():
                self.workers.close(now=True)
            if caused_by_interrupt(error, self._entered):
                raise self._interrupted(0) from None
            raise
        return self

    def open(self, graphs: ModelGraphs) -> None:
        """Begin the store in OUT and make the engine.

        Parameters
        ----------
        graphs
            The models, as the source of the files knows them.

        Raises
        ------
        UsageError
            OUT holds the results of other inputs or options.
        """
        self.graphs = graphs
        self._collected = gc.get_threshold()
        # Many objects are made, hardly one is in a cycle; looking at all of them again and again
        # costs a tenth of the time.
        gc.set_threshold(*RARE_COLLECTIONS)
        self.notes += self.graphs.notes
        self.store = self._store = RunStore.begin(self.options.out, self.inputs, self.force)
        self.notes += self.store.notes
        self.store.set(PROVISIONAL, {"upto": 0, "ids": []})
        if self.graphs:
            # A run that is killed has its network too; at its end those that nothing was dumped of
            # are left out.
            self.store.set(GRAPHS, [network_document(graph) for graph in self.graphs.graphs])
        self.goldens = Goldens(
            self.options.golden,
            self.options.golden_steps,
            self.store,
            self.options.target,
            self.graphs,
        )
        self.engine = Engine(
            self.options,
            self.graphs,
            self.store,
            self.workers,
            self.goldens,
            self._list_stored,
        )
        self.catalogue = self.engine.catalogue
        self.prepare_rows()
        self._opened = True

    def prepare_rows(self) -> None:
        """Tell the processes that compare how to prepare rows for the tables that will be
        written, as far as these are known by now.
        """
        render = Renderer(
            self._columns, tuple(self.options.metrics), self._mapping and absolute(self._mapping)
        )
        self.engine.prepare_rows(render)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self.workers.forked:
            return
        # Kept no longer: an error holds all that was on the stack where it was raised.
        entered, self._entered = self._entered, InterruptState()
        try:
            with uninterrupted():
                # Of what was left early nothing that is still in the works is wanted.
                self.workers.close(now=kind is not None or self.workers.in_flight > 0)
                if self._opened:
                    self.engine.rendered_rows.close()
            if caused_by_interrupt(error, entered):
                if self._opened and self.tables_when_interrupted:
                    self.write_tables()
                rows = sum(self.store.counted.all().values()) if self._opened else 0
                raise self._interrupted(rows)
        finally:
            if self._collected:
                gc.set_threshold(*self._collected)
            if self._store is not None:
                with uninterrupted():
                    self._store.close()

    def _interrupted(self, rows: int) -> Interrupted:
        from ..judging.diagnosis.summary import REPLAY

        return Interrupted(
            "interrupted: %d rows are stored in %s" % (rows, self.options.out),
            hint="the same command begins anew"
            if self.comparison == REPLAY
            else "the same command goes on where this one stopped",
        )

    def judge_rows(self, by_names: bool = False) -> None:
        """Judge all rows for good, once all are there.

        Parameters
        ----------
        by_names
            Where there is no model tensors were paired by the names of their ops alone.
        """
        from ..judging.diagnosis.recompute_without_model import TensorReader
        from .passing_by_rounding import judge_by_computing
        from .recomputation import NONE
        from .rejudging import judge_by_fusions, judge_by_names, judge_by_others
        from .tensor_reader import RunReader

        self._rows_judged = True
        if self.comparison:
            # Of bytes, of final outputs and of replayed operators nothing is to be explained by a
            # second look at the numbers.
            self.reader = TensorReader()
        elif self.reader is None:
            self.reader = RunReader(self.engine, self.recomputation())
        with self.store.transaction():
            if self.goldens.kind == "npu":
                from .pairing_of_builds import pair_across_names

                pair_across_names(self.engine)
            if self.options.exact:
                return
            if isinstance(self.reader, RunReader):
                judge_by_fusions(self.engine, self.reader)
                judge_by_others(self.engine, self.reader)
            if (
                self.graphs
                and self.options.recompute != NONE
                and isinstance(self.reader, RunReader)
            ):
                judge_by_computing(self.engine, self.reader)
            if by_names:
                self.engine.misfit = judge_by_names(self.engine)

    def unpaired(self) -> List[Note]:
        """Return, once all is compared, what did not find its counterpart at large, as sentences;
        the summary warns of it too.
        """
        self.unmatched = mismatch_warnings(self)
        self.steps_without_golden = steps_without_golden(self)
        return self.unmatched

    def write_tables(self, only: Optional[Collection[Place]] = None) -> List[str]:
        """Write the result tables of what is stored, of all places or those that changed."""
        return TableFiles(self.store, self._columns, self._mapping).write(only)

    @property
    def _columns(self) -> Columns:
        return self.options.columns(
            self.goldens.kind in ("container", "npu", "mixed"), self.engine.overflow_seen
        )

    @property
    def _mapping(self) -> Optional[Tuple[str, str]]:
        return (self.options.target, self.options.golden) if self.options.mapping else None

    def recomputation(self) -> Recomputation:
        """Return what computes the run's operators again; always the same one."""
        from .recomputation import Recomputation

        if self._recomputation is None:
            self._recomputation = Recomputation(
                self.engine, self.options.recompute, self.options.original
            )
        return self._recomputation

    def finish(
        self,
        program: Optional[Mapping[str, Any]] = None,
        on_stage: OnStage = lambda stage, done, total: None,
    ) -> RunResult:
        """Write all result files and judge the run.

        Parameters
        ----------
        program
            ``{"exit_code", "signal"}`` of the program that made the dumps.
        on_stage
            Called several times a second with what is done, how many of its steps are, and of how
            many (0: not known).
        """
        from ..judging.diagnosis.summary import exit_code, run_sentence
        from .result import RunResult
        from .run_status import keep_judgement

        options = self.options
        places = self._complete_rows()
        if sum(self.store.counted.all().values()) > _MANY_ROWS:
            # Columns of all rows come and go from here on.
            return_large_arrays()
        rendering = (self._columns, self._mapping, options.metrics, self.engine.rendered_rows)
        with ResultFiles(self.store, *rendering) as results:
            results.write_tables(on_stage)
            return_freed_memory()
            summary = self._summary(results, places, program)
            named = {one.place for one in (summary.first, *summary.suspects) if one is not None}
            self.store.set(COMPUTED, self.recomputation().stored(named))
            summary = self._with_overlaps(summary)
            two_dumps = self.goldens.kind == "npu" and not summary.unpaired and not options.exact
            if two_dumps:
                from .two_builds import differences_of_builds, in_words_of_two_dumps

                summary = in_words_of_two_dumps(summary, self.store)
            sentence = run_sentence(summary, self.unmatched)
            if two_dumps:
                first_op = None if summary.first is None else summary.first.op
                differences = differences_of_builds(
                    self.store,
                    options,
                    first_op,
                    bool(summary.suspects),
                    self.recomputation().verdicts(),
                    self.recomputation().pair,
                    self.graphs,
                )
                sentence = " ".join(filter(None, [sentence, differences.sentence]))
                summary = replace(summary, culprit=summary.culprit or differences.culprit)
                if summary.first is not None:
                    suspects = differences.in_groups(summary.suspects, summary.first)
                    summary = replace(summary, suspects=suspects)
            code = exit_code(summary, strict=options.strict)
            self._note_misunderstood(summary)
            remarks = (
                tuple(dict.fromkeys([*self.notes, *self.recomputation().notes])),
                tuple(self.left_out),
            )
            how = {
                "allow_missing": options.allow_missing,
                "strict": options.strict,
                "unmatched": [left.document() for left in self.unmatched],
                "steps_without_golden": self.steps_without_golden,
                "comparison": self.comparison,
                "golden_fails": self.golden_fails,
            }
            keep_judgement(self.store, how, summary, code, sentence, *remarks)
            files = results.finish(summary, options.limits, self.comparison)
        return RunResult(
            options,
            summary,
            code,
            sentence,
            tuple(files),
            *remarks,
            results.shown,
            results.places,
        )

    def _note_misunderstood(self, summary: Summary) -> None:
        """Note options that do nothing here, and what was named twice."""
        options = self.options
        if options.original and not self.graphs and not self.comparison:
            self.notes.append(note("original-without-model", options.original))
        folders = {os.path.realpath(path) for path in (options.target, options.golden)}
        if self.goldens.kind == "npu" and len(folders) == 1:
            self.left_out.append(note("one-folder", options.target))
        if options.exact and self.goldens.kind == "npy" and not summary.outputs:
            self.left_out.append(note("exact-of-golden"))

    def _complete_rows(self) -> List[Place]:
        """Store what belongs to the rows once all are there (overflows, verdicts, networks); return
        their places.
        """
        with self.store.transaction():
            self.notes += note_overflows(self.engine, self.overflow)
        if not self._rows_judged:
            self.judge_rows()
        places = self.store.places()
        seen_graphs = self.graphs.used_at(places)
        if len(seen_graphs) != len(self.graphs):
            self.store.set(GRAPHS, [network_document(graph) for graph in seen_graphs])
        return places

    def _summary(
        self, results: ResultFiles, places: List[Place], program: Optional[Mapping[str, Any]]
    ) -> Summary:
        from ..judging.diagnosis.summary import summarise
        from .run_status import in_words_of_kind

        options = self.options
        assert self.reader is not None
        rows = results.rows
        summary = summarise(
            rows,
            self.graphs.op_count(places) if self.graphs else self.store.op_count(),
            options.limits,
            program,
            self.graphs,
            options.allow_missing,
            self.reader,
            self.unmatched,
            self.steps_without_golden,
            results.whole,
        )
        summary = with_doubtful_golden(with_other_files(summary, self), self)
        return in_words_of_kind(
            summary, rows, self.store, options, self.graphs, self.golden_fails, results.whole
        )

    def _with_overlaps(self, summary: Summary) -> Summary:
        if not self.options.check_addresses:
            return summary
        from .memory_overlaps import find_overlaps

        overlaps, unknown = find_overlaps(self.catalogue, self.graphs)
        warnings = (*(note("memory-overlap", one.sentence) for one in overlaps), *unknown)
        return replace(
            summary,
            warnings=summary.warnings + warnings,
            address_overlaps=tuple(overlap.document() for overlap in overlaps),
        )


def import_judging() -> None:
    """Import what judges: it is not needed before the end, and the first row need not wait for
    it.
    """
    from ..judging.diagnosis import summary  # noqa: F401
    from . import result, tensor_reader  # noqa: F401
