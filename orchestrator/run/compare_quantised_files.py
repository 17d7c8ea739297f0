"""Compares the files of a quantised net's own framework (npy, quant) with those of the net before
it was quantised: a source of a run.

The quantisation json says which op each came from. There is no device, so there are no inputs: each
file is an output.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ..base.errors import GoldwatchError, InputError, NotComparable, UsageError
from ..base.naming import sanitise_golden
from ..base.notes import note
from ..dumps.dump_index import DumpIndex
from ..dumps.folder_listing import Signature, look_at
from ..dumps.golden_set import GoldenEntry, GoldenSet, open_golden
from ..dumps.place import Place
from ..metrics.compare_pair import refuse
from ..metrics.dequantised import dequantised, is_integer, not_integers
from ..metrics.pair_task import PairTask, planned_row
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    EXPECTED_ABSENT,
    GOLDEN_MISSING,
    NOT_COMPARED,
    PASS,
    Row,
)
from ..model.graph import ModelGraph
from ..model.graphs_of_run import ModelGraphs
from ..model.pairing import Pairing
from ..model.row_plan import OMITTED, OP, PAIR, DumpedOp, RowPlan
from ..tensors.tensor import Tensor
from .compare_given_pairs import begin_given_pairs, compare_given_pairs
from .comparison_options import ComparisonOptions
from .progress import OnProgress
from .result import RunResult
from .whole_run import Run, Source, compare_from


def compare_quantised_files(
    options: ComparisonOptions,
    jobs: int = 1,
    force: bool = False,
    on_progress: Optional[OnProgress] = None,
) -> RunResult:
    """Compare the files of a quantised net with those of the original one, and judge them as a run.

    Parameters
    ----------
    options
        ``quantisation`` is there, ``model`` is not.
    jobs, force, on_progress
        As for :func:`goldwatch.run.compare_folders.compare_folders`.

    Raises
    ------
    InputError
        A folder holds no such files, or TARGET holds a device's dumps.
    GoldwatchError
        The quantisation json cannot be read, OUT holds the results of other inputs.
    Interrupted
        By Ctrl-C; what was done stays usable.
    """
    if options.op_range or options.select or options.time is not None:
        raise UsageError("a range or selection of ops and a time are for the dumps of a device")
    return compare_from(_QuantisedFiles(options, on_progress), jobs, force)


class _QuantisedFiles(Source):
    """The files of the two nets."""

    def look(self, graphs: ModelGraphs) -> ModelGraphs:
        """List both folders; raise InputError where one holds no such files."""
        self.target, self.golden = map(_files, self.options.indexes, ("TARGET", "GOLDEN"))
        return graphs

    def feed(self, run: Run) -> None:
        """Compare all files."""
        planned = _Planned(run.graphs.graphs[0], self.target, self.golden)
        begin_given_pairs(run, self.golden, planned.tasks)
        run.notes += [
            note("quantised-files"),
            *(known.behind("TARGET: ") for known in self.target.notes),
            *self.golden.notes,
        ]
        for side, files in (("TARGET's", self.target), ("golden", self.golden)):
            run.notes += [
                note("files-collide", side, ", ".join(collision.files))
                for collision in files.collisions[:10]
            ]
        compare_given_pairs(
            run.engine,
            planned.tasks,
            planned.rows,
            self.on_progress,
            planned.looks,
            planned.omitted,
        )


def _files(index: DumpIndex, what: str) -> GoldenSet:
    golden = index.golden()
    if not any(True for _ in golden.outputs()):
        raise InputError(
            "%s: %s: no npy or quant files of a net were found at or below it" % (what, index.root),
            hint="a quantised model's dumps need the om json besides the quantisation json",
        )
    return golden


class _Planned:
    """What each file of the quantised net comes to."""

    def __init__(self, graph: ModelGraph, target: GoldenSet, golden: GoldenSet) -> None:
        self.tasks: List[PairTask] = []
        self.rows: List[Row] = []
        self.omitted: List[Tuple[str, str]] = []
        self.looks: Dict[str, Optional[Signature]] = {}
        self._golden = golden
        pairing = Pairing(graph, lambda op, index: golden.find(op, index) is not None)
        known = {sanitise_golden(op.name): op for op in graph.ops}
        unknown = [name for name in target.op_names() if name not in known]
        indices: Dict[str, List[int]] = {}
        for name, index in target.outputs():
            indices.setdefault(name, []).append(index)
        pairing.number_unknown_ops(unknown)
        dumped_ops: List[DumpedOp] = []
        for name, op_type in [(op.name, op.type) for op in graph.ops] + [
            (name, "") for name in unknown
        ]:
            entries = (
                target.find(name, index) for index in sorted(indices.get(sanitise_golden(name), ()))
            )
            files = [entry for entry in entries if entry is not None]
            if not files:
                continue
            dumped = DumpedOp(
                name, op_type, files[0].timestamp_us, 0, 1 + max(entry.index for entry in files)
            )
            dumped_ops.append(dumped)
            self.looks.update((entry.rel, look_at(entry.path)) for entry in files)
            by_index = {entry.index: entry for entry in files}
            for plan in pairing.rows_for(dumped):
                self._plan(plan, by_index.get(plan.tensor_index or 0) if plan.kind != OP else None)
        for plan in pairing.absent_rows(dumped_ops):
            self._plan(plan, None)

    def _plan(self, plan: RowPlan, entry: Optional[GoldenEntry]) -> None:
        if plan.status == OMITTED:
            self.omitted.append((plan.tensor, plan.reason))
            return
        row = planned_row(plan, Place(), None)
        if entry is None:
            text = "the quantised net has no file of it"
            if row.verdict in (PASS, NOT_COMPARED):
                row = refuse(row.but(reason="", reason_codes=""), text, DUMP_MISSING)
            self.rows.append(row)
            return
        row = row.but(target_file=entry.rel, timestamp_us=entry.timestamp_us)
        golden = (
            self._golden.find(plan.golden_op or "", plan.golden_index or 0)
            if plan.status == PAIR
            else None
        )
        try:
            tensor, address = open_golden(entry)
        except NotComparable as error:
            self.rows.append(refuse(row, error.message, error.cause))
        except (GoldwatchError, OSError) as error:
            self.rows.append(refuse(row.but(reason="", reason_codes=""), str(error), CORRUPT))
        else:
            row = row.but(shape=tensor.shape, target_dtype=tensor.dtype.name, address=address)
            if golden is None:
                missing = row.verdict == NOT_COMPARED and plan.golden_op is not None
                self.rows.append(row.but(cause=GOLDEN_MISSING) if missing else row)
            else:
                self._pair(plan, row, tensor, golden)

    def _pair(self, plan: RowPlan, row: Row, tensor: Tensor, entry: GoldenEntry) -> None:
        """Have a file compared with its golden one, unless it holds quantised data of which nothing
        says what they stand for.
        """
        reason = ""
        if plan.quantisation is None:
            if is_integer(tensor.dtype) and _holds_floats(entry):
                reason = (
                    "quantised data (%s), and the json does not give scale and offset: not "
                    "dequantised" % tensor.dtype.name
                )
        elif not is_integer(tensor.dtype):
            reason = not_integers(tensor.dtype)
        else:
            tensor = dequantised(tensor, plan.quantisation)
        if reason:
            self.rows.append(row.but(verdict=EXPECTED_ABSENT, reason=reason))
        else:
            self.tasks.append(
                PairTask(
                    row.but(golden_file=entry.rel),
                    tensor,
                    entry,
                    plan.origin_format,
                    plan.origin_shape,
                )
            )


def _holds_floats(entry: GoldenEntry) -> bool:
    try:
        return open_golden(entry)[0].dtype.kind == "f"
    except (GoldwatchError, OSError):
        return False  # Its row will say so.
