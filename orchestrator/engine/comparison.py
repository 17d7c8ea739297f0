"""A run from its inputs to its result files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

from ..compare.row import CORRUPT, FAIL, GOLDEN_MISSING, NOT_COMPARED, PASS, Row
from ..compare.workers import Workers
from ..dumps.golden import GoldenSet
from ..dumps.place import place_of
from ..dumps.tree import Combo, DumpTree, find_dumps
from ..errors import InputError, Interrupted, require_file, require_folder
from ..model.graph import ModelGraph, load_model
from ..results.files import write_tables
from ..results.jsonfile import RESULT_FILE, result_chunks, write_result_json
from ..results.store import RunStore
from ..verdict.first_divergence import explain
from ..verdict.summary import Summary, exit_code, summarise
from .options import ComparisonOptions
from .session import OnRow, Progress, Session, current_files

_CONSTANTS = ("Const", "Constant", "Variable", "VariableV2")
_NEAREST_SHOWN = 3


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes
    ----------
    summary
        The counts and the verdict.
    exit_code
        As documented for every command.
    sentence
        The broken operator in one sentence.
    files
        The result files that were written.
    """

    summary: Summary
    exit_code: int
    sentence: str
    files: Tuple[str, ...] = ()


@dataclass
class Run:
    """An open run: a context manager around its store and its processes.

    Attributes
    ----------
    notes
        What was taken, what was assumed and what was left out, for the user to read.
    tables_when_interrupted
        Whether Ctrl-C still writes the result tables (of the class; a watch keeps its tables current anyway).
    """

    options: ComparisonOptions
    jobs: int = 1
    force: bool = False
    on_row: Optional[OnRow] = None
    notes: List[str] = field(default_factory=list)
    tables_when_interrupted = True

    def __enter__(self) -> Run:
        require_folder(self.options.target, "TARGET")
        require_folder(self.options.golden, "GOLDEN")
        if self.options.model is not None:
            require_file(self.options.model, "-f")
        # The processes are forked before anything large is loaded.
        self.workers = Workers(self.jobs, self.options.settings())
        try:
            self._open()
        except KeyboardInterrupt:
            self.workers.close(now=True)
            raise self._interrupted(0) from None
        except BaseException:
            self.workers.close(now=True)
            raise
        return self

    def _open(self) -> None:
        self.graph: Optional[ModelGraph] = load_model(self.options.model) if self.options.model is not None else None
        if self.graph is not None:
            self.notes += ["%s: %s" % (self.options.model, note) for note in self.graph.notes]
        self.golden = GoldenSet.open(self.options.golden)
        self.options.selection(self.graph)
        self.tree = find_dumps(self.options.target)
        self._check_something_to_do()
        self.store = RunStore.begin(self.options.out, self.options.identity(), self.force)
        self.session = Session(self.options, self.golden, self.graph, self.store, self.workers, self.on_row)
        self.notes += [note for note in (self.store.journal_note, self.store.lock_note) if note]

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.workers.close(now=kind is not None)
        try:
            if kind is not None and issubclass(kind, KeyboardInterrupt):
                if self.tables_when_interrupted:
                    self.write_tables()
                raise self._interrupted(sum(self.store.counts().values()))
        finally:
            self.store.close()

    def _interrupted(self, rows: int) -> Interrupted:
        return Interrupted(
            "interrupted: %d rows are stored in %s" % (rows, self.options.out), hint="the same command goes on where this one stopped"
        )

    def _check_something_to_do(self) -> None:
        tree = self.tree
        if not tree.combos and not any(combo.unresolved for combo in tree.without_dumps):
            looked = "; ".join(tree.notes[:3])
            raise InputError(
                "TARGET: %s: no dump file was found at or below it%s" % (self.options.target, " (%s)" % looked if looked else ""),
                hint="dump files are named {op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}",
            )
        if not len(self.golden):
            raise InputError(
                "GOLDEN: %s: no golden data was found at or below it" % self.options.golden,
                hint="golden files are named {op_name}.{output_index}.{timestamp}.npy (or .pb, .quant), or are device dumps",
            )
        self.notes += tree.notes
        self.notes += ["GOLDEN: " + note if self.golden.kind == "npu" else note for note in self.golden.notes]
        for collision in self.golden.collisions[:10]:
            self.notes.append("golden files collide: %s all stand for %s:%d" % (", ".join(collision.files), collision.key, collision.index))
        if self.golden.kind == "npu":
            self.notes.append("GOLDEN holds device dumps: tensors are paired by op name and compared as stored on the device")
            if self.golden.several_places:
                self.notes.append("GOLDEN holds several devices, models or steps: each is compared with TARGET's of the same name")
        elif self.graph is None:
            self.notes.append("no model given (-f): outputs are paired with golden files of the op's own name, inputs are not compared")

    def compare_all(self, on_progress: Optional[Callable[[Progress], None]] = None) -> None:
        """Compare every file of TARGET."""
        for combo in self._taken():
            self._add_combo(combo)
        behind = max(self.store.op_count(), len(self.graph.ops) if self.graph is not None else 0)
        self.session.settle([_unlisted(self.tree, rel, why, behind) for rel, why in self.tree.unlisted])
        self.session.sort_pending()
        self.session.drain(on_progress)
        self.session.close_places()
        self._note_nearest()

    def _taken(self) -> Iterator[Combo]:
        """Yield the combinations that belong to the model; one that shares no op with it is left out, and said so."""
        combos = list(self.tree.combos) + [combo for combo in self.tree.without_dumps if combo.unresolved]
        known = [combo for combo in combos if self._knows(combo)]
        if not known:
            self.notes.append("none of TARGET's ops is in %s: is it the json of the model that was dumped?" % self.options.model)
        for combo in combos:
            if not known or combo in known:
                yield combo
            else:
                self.notes.append("left out %s: none of its ops is in %s" % (combo.label(), self.options.model))

    def _knows(self, combo: Combo) -> bool:
        graph = self.graph
        return graph is None or not combo.files or any(graph.ops_named(entry.name.op_name) for entry in combo.files)

    def _add_combo(self, combo: Combo) -> None:
        identity = combo.place
        entries, omitted = current_files(combo.files)
        planner = self.session.place(identity)
        entries, left_out = planner.leave_out(entries)
        with self.store.transaction():
            for entry in entries:
                self.session.add(identity, entry)
            for tensor, reason in omitted + left_out:
                self.store.omit(tensor, reason)
            self.session.settle([planner.unnamed(os.path.join(combo.rel, name)) for name in combo.unresolved])

    def _note_nearest(self) -> None:
        """Where nothing matched at all, name the golden ops whose names come nearest."""
        counts = self.store.counts()
        if counts.get(PASS) or counts.get(FAIL) or self.session.progress.pairs:
            return
        wanted = [row for row in self.store.rows("index", verdict=NOT_COMPARED) if row.cause == GOLDEN_MISSING]
        for row in wanted[:_NEAREST_SHOWN]:
            near = self.golden.nearest(row.golden.split(",")[-1] if row.golden != "*" else row.op)
            if near:
                self.notes.append("no golden data matched %s; the nearest golden names are %s" % (row.tensor, ", ".join(near)))
        if wanted and not any("nearest" in note for note in self.notes):
            names = sorted(self.golden.op_names())[:_NEAREST_SHOWN]
            self.notes.append("no golden data matched any op; GOLDEN holds, for example, %s" % ", ".join(names))

    def write_tables(self) -> List[str]:
        """Write the result tables of what is stored."""
        columns = self.options.columns(self.golden.kind in ("container", "npu", "mixed"))
        return write_tables(self.store, columns, name_single=False, mapping=self.options.mapping)

    def finish(self, program: Optional[Mapping[str, Any]] = None) -> Outcome:
        """Write all result files and judge the run."""
        files = self.write_tables()
        summary = self.summarise(program)
        path = os.path.join(self.options.out, RESULT_FILE)
        write_result_json(path, self.document(summary))
        return Outcome(summary, exit_code(summary), explain(summary.first, bool(summary.passed or summary.failed)), tuple(files) + (path,))

    def summarise(self, program: Optional[Mapping[str, Any]] = None) -> Summary:
        """Count the stored rows and judge them."""
        ops = len(self.graph.ops) if self.graph is not None else self.store.op_count()
        rows = self.store.rows("index")
        return summarise(rows, ops, self.options.limits, program, self._producers, self.options.allow_missing)

    def document(self, summary: Summary) -> Iterator[str]:
        """Yield the text of result.json."""
        return result_chunks(summary, self.options.limits, self.store.rows("index"), self.store.omitted(), self.options.metrics)

    def _producers(self, name: str) -> Sequence[Tuple[str, int]]:
        """Return what feeds an op, constants left out."""
        graph = self.graph
        op = graph.op(name) if graph is not None else None
        if graph is None or op is None:
            return ()
        found = [(graph.producer(op, source[0]), source[1]) for source in op.inputs if source is not None]
        return [(producer.name, index) for producer, index in found if producer is not None and producer.type not in _CONSTANTS]


def _unlisted(tree: DumpTree, rel: str, why: str, index: int) -> Row:
    """Return the row of a folder of TARGET that cannot be listed: what it holds is not known to be good."""
    return Row(
        index=index,
        op=os.path.basename(rel),
        op_type="",
        tensor=os.path.basename(rel),
        kind="op",
        verdict=NOT_COMPARED,
        **place_of(os.path.join(tree.root, rel), set())._asdict(),
        reason="the folder %s cannot be listed: %s" % (rel, why),
        cause=CORRUPT,
        target_file=rel,
    )

