"""Which golden tensor, or which other value of the original model, each output file of a network is
compared with.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import (
    GoldwatchError,
    InputError,
    NotComparable,
    UsageError,
)
from ..base.manifest import read_manifest, unfit_golden
from ..base.notes import Note, note
from ..base.wording import listed
from ..dumps.folder_listing import Signature, look_at
from ..dumps.golden_set import GoldenSet, open_golden
from ..dumps.npy import open_npy
from ..dumps.place import Place
from ..metrics.compare_pair import refuse
from ..metrics.pair_task import PairTask, planned_row
from ..metrics.row import (
    CORRUPT,
    DUMP_MISSING,
    GOLDEN_MISSING,
    NETWORK_OUTPUT,
    NOT_COMPARED,
    PASS,
    Row,
)
from ..metrics.user_metrics import output_names
from ..model.atc_options import atc_options
from ..model.graph import ModelGraph
from ..model.graph_walks import Precision
from ..model.never_dumped import INPUT_TYPES
from ..model.om_outputs import OmOutput, om_outputs
from ..model.pairing import Pairing
from ..model.row_plan import OUTPUT, PAIR, DumpedOp, RowPlan
from ..tensors.geometry import moved_axes
from .comparison_options import ComparisonOptions
from .output_files import FORM, NamedOutput, OutputText, read_output

MOST_NAMES = 6
_GIVE = (
    "the json of the om (atc --mode=1) tells which output each is; or name them: NAME=FILE, NAME "
    "as in GOLDEN"
)

CLOSE = 0.03
"""The default limit of RelativeEuclideanDistance."""


class OutputPlan:
    """What each output comes to."""

    def __init__(
        self,
        options: ComparisonOptions,
        graph: Optional[ModelGraph],
        golden: GoldenSet,
        outputs: Sequence[NamedOutput],
    ) -> None:
        self.tasks: List[PairTask] = []
        self.rows: List[Row] = []
        self.looks: Dict[str, Optional[Signature]] = {}
        self.notes: List[Note] = []
        self._options, self._graph, self._golden = options, graph, golden
        self._precision = Precision(graph) if graph is not None else None
        self._pairing = Pairing(graph, lambda op, index: golden.find(op, index) is not None)
        known = list(om_outputs(graph)) if graph is not None else []
        self._instead = self._of_original(known)
        left = set(range(len(known)))
        for number, output in enumerate(outputs):
            at = self._number(output, known)
            if at is not None:
                left.discard(at)
            made = None if at is None else known[at]
            self._plan(
                output.text, self._row_plan(output, made, number if at is None else at), made, at
            )
        for at in sorted(left):
            row = _row(self._of_model(known[at], at), at)
            self.rows.append(
                refuse(
                    row.but(reason="", reason_codes=""),
                    "no file of it (output %d of the network)" % at,
                    DUMP_MISSING,
                )
            )
        self._require_boxes(len(known))

    def _require_boxes(self, known: int) -> None:
        """Raise UsageError where boxes are looked for in an output that is none."""
        rows = [*self.rows, *(task.row for task in self.tasks)]
        named = {name for row in rows for name in output_names(row)} | set(map(str, range(known)))
        agreement = self._options.agreement
        for boxes in () if agreement is None else agreement.boxes:
            if boxes.output not in named:
                text = "boxes are to be in %r, which is none of the outputs" % boxes.output
                raise UsageError(
                    text, hint="they are %s" % listed(sorted({row.op for row in rows}), 6)
                )

    def _number(self, output: NamedOutput, known: Sequence[OmOutput]) -> Optional[int]:
        """Return which of the om's outputs it is; None without a model, InputError where the model
        has none such.
        """
        if not known:
            if self._graph is not None or output.number is not None:
                what = (
                    "the model tells no outputs"
                    if self._graph is not None
                    else "which output of the network each file is, is not known"
                )
                path = self._path(output.text)
                raise InputError(
                    "TARGET: %s: %s" % (self._options.target, what),
                    hint="%s; %s" % (_GIVE, self._fitting(path)),
                )
            return None
        name, _, index = output.text.name.rpartition(":")
        if output.text.name.isdigit():
            numbers = [int(output.text.name)] if int(output.text.name) < len(known) else []
        else:
            key = (name, int(index)) if name and index.isdigit() else (output.text.name, None)
            numbers = [
                at
                for at, one in enumerate(known)
                if key[0] in one.names and key[1] in (None, one.output)
            ]
        if len(numbers) != 1:
            names = listed(["%d=%s" % (at, one.shown) for at, one in enumerate(known)], 6)
            raise InputError(
                "%s is none of the model's outputs" % output.text.name,
                hint="they are %s; %s" % (names, self._fitting(self._path(output.text))),
            )
        return numbers[0]

    def _of_original(self, known: Sequence[OmOutput]) -> Dict[int, Tuple[str, int]]:
        """Return the outputs of the original model that stand in place of outputs of the om which
        are none of them, by the number of the om's, and note where the two differ.
        """
        original = None if self._graph is None else _outputs_of_original(self._options, self._graph)
        if original is None or self._graph is None or not known:
            return {}
        made_of = {
            name
            for op in self._graph.ops
            if op.type not in INPUT_TYPES
            for name in op.originals or ()
        }
        if not made_of & original.nodes:
            return {}  # golden data of another model
        theirs = original.outputs
        plans = [self._of_model(one, at) for at, one in enumerate(known)]
        ours = [
            None if plan.golden_op is None else (plan.golden_op, plan.golden_index or 0)
            for plan in plans
        ]
        left = [value for value in theirs if value not in ours]
        others = [at for at, value in enumerate(ours) if value is not None and value not in theirs]
        instead = {
            at: value
            for at, value in zip(others, left)
            if (
                self._takes_place(known[at], value)
                if (ours[at] or ("", 0))[0] not in original.nodes
                else not self._hold_the_same(ours[at], value)
            )
        }
        told = [
            "its output %d is %s, the original model has %s there"
            % (at, known[at].shown, "%s:%d" % value)
            for at, value in instead.items()
        ]
        if len(known) < len(theirs):
            without = [value for value in left if value not in instead.values()]
            told.append(
                "it has %d of %d: %s is not handed out"
                % (len(known), len(theirs), listed(["%s:%d" % value for value in without], 6))
            )
        elif not others and not left and ours != theirs:
            told.append(
                "in another order (%s; the original model has %s)"
                % tuple(
                    ", ".join("%s:%d" % value for value in values if value is not None)
                    for values in (ours, theirs)
                )
            )
        if told:
            self.notes.append(note("other-outputs", listed(told, MOST_NAMES)))
        return instead

    def _takes_place(self, ours: OmOutput, theirs: Tuple[str, int]) -> bool:
        """Tell whether an output of an op that the original model has not, such as one that was
        added at its end, can be compared with the model's own output in its place.
        """
        shape = self._golden.shape(*theirs)
        if shape is None or any(size < 0 for size in ours.desc.shape):
            return shape is not None
        return element_count(shape) == element_count(ours.desc.shape)

    def _hold_the_same(self, ours: Optional[Tuple[str, int]], theirs: Tuple[str, int]) -> bool:
        """Tell whether golden data of two values hold the same numbers, whatever their shape, or
        are not there.
        """
        arrays = []
        for value in (ours, theirs):
            entry = None if value is None else self._golden.find(*value)
            try:
                if entry is None:
                    return True
                arrays.append(np.asarray(open_golden(entry)[0].array(), np.float64).reshape(-1))
            except (GoldwatchError, OSError, MemoryError):
                return True
        one, other = arrays
        return one.size == other.size and np.allclose(one, other, CLOSE, 0.0, True)

    def _of_model(self, known: OmOutput, at: int) -> RowPlan:
        dumped = DumpedOp(
            known.op.name, known.op.type, 0, 0, max(known.output + 1, len(known.op.output_descs))
        )
        plans = [
            plan
            for plan in self._pairing.rows_for(dumped)
            if plan.kind == OUTPUT and plan.tensor_index == known.output
        ]
        if plans:
            return plans[0]
        tensor = "%s:output:%d" % (known.op.name, known.output)
        why = "the model does not tell what it was made from"
        return RowPlan(
            NOT_COMPARED,
            why,
            index=at,
            op=known.op.name,
            op_type=known.op.type,
            kind=OUTPUT,
            tensor=tensor,
            tensor_index=known.output,
        )

    def _row_plan(self, output: NamedOutput, known: Optional[OmOutput], at: int) -> RowPlan:
        if known is not None:
            plan = self._of_model(known, at)
            if at not in self._instead:
                return plan
            value = self._instead[at]
            return replace(
                plan,
                status=PAIR,
                reason="",
                golden_op=value[0],
                golden_index=value[1],
                golden=value[0],
            )
        name, _, index = output.text.name.rpartition(":")
        op, number = (name, int(index)) if name and index.isdigit() else (output.text.name, 0)
        if self._golden.find(op, number) is None:
            # The original model's name of the tensor, not of what makes it.
            op, number = _values(self._options.golden).get(output.text.name, (op, number))
        return RowPlan(
            PAIR,
            golden_op=op,
            golden_index=number,
            index=at,
            op=op,
            kind=OUTPUT,
            tensor="%s:output:%d" % (op, number),
            tensor_index=number,
            golden=op,
        )

    def _plan(
        self, text: OutputText, plan: RowPlan, made: Optional[OmOutput], at: Optional[int]
    ) -> None:
        path = self._path(text)
        rel = os.path.relpath(path, self._options.target)
        rel = os.path.abspath(path) if rel.startswith(os.pardir) else rel
        row = _row(plan, at).but(target_file=rel)
        if not os.path.exists(path):
            more = "; DTYPE is a name such as float16" if ":" in text.file else ""
            raise InputError(
                "output %s: %s: no such file" % (text.name, text.file), hint=FORM + more
            )
        self.looks[rel] = look_at(path)
        entry = (
            self._golden.find(plan.golden_op or "", plan.golden_index or 0)
            if plan.golden_op is not None
            else None
        )
        if entry is None:
            self.rows.append(self._without_golden(plan, row, path))
            return
        row = row.but(golden_file=entry.rel)
        unfit = unfit_golden(entry.path) if entry.kind == "npy" else None
        if unfit is not None:
            self.rows.append(refuse(row, *unfit))
            return
        try:
            tensor, note = read_output(path, text, made and made.desc, open_golden(entry)[0])
        except NotComparable as error:
            self.rows.append(refuse(row, error.message, error.cause))
        except (GoldwatchError, OSError) as error:
            self.rows.append(refuse(row, str(error), CORRUPT))
        else:
            row = row.noted(note, verdict=PASS, shape=tensor.shape, target_dtype=tensor.dtype.name)
            coarser = (
                self._precision.coarser(made.op, OUTPUT, made.output, tensor.dtype.name)
                if made and self._precision
                else ""
            )
            self.tasks.append(
                PairTask(
                    row,
                    tensor,
                    entry,
                    plan.origin_format,
                    plan.origin_shape,
                    limited_as=coarser,
                    final=True,
                )
            )

    def _path(self, text: OutputText) -> str:
        return (
            text.file
            if os.path.isabs(text.file) or os.path.exists(text.file)
            else os.path.join(self._options.target, text.file)
        )

    def _fitting(self, path: str) -> str:
        """Return which golden outputs an output file fits by its shape, or its size in bytes, as a
        sentence: those that were made last first.
        """
        stamps = self._golden.stamps()
        names = sorted(self._golden.outputs(), key=lambda name: (-stamps.get(name[0], 0), name[1]))
        shown = ["%s:%d" % name if name[1] else name[0] for name in names]
        shape: Optional[Tuple[int, ...]] = None
        with contextlib.suppress(GoldwatchError, OSError):
            shape = open_npy(path).shape if path.endswith(".npy") else None
        fits = []
        for name, text in zip(names, shown):
            theirs = self._golden.shape(*name)
            if theirs is None or path.endswith(".txt"):
                continue
            bytes_of = [element_count(theirs) * size for size in (1, 2, 4, 8)]
            moved = shape is not None and moved_axes(shape, theirs) is not None
            if shape == theirs or moved or (shape is None and os.path.getsize(path) in bytes_of):
                fits.append(text)
        if fits:
            return "%s fits %s" % (os.path.basename(path), listed(fits, MOST_NAMES))
        return "GOLDEN has %s" % listed(shown, MOST_NAMES)

    def _without_golden(self, plan: RowPlan, row: Row, path: str) -> Row:
        near = self._golden.nearest(plan.golden_op or plan.op)
        why = plan.reason or "no golden data of %s:%d" % (plan.golden_op, plan.golden_index or 0)
        hint = ""
        if not self._graph:
            hint = "; did you mean %s?" % near[0] if near else "; %s" % self._fitting(path)
        cause = GOLDEN_MISSING if plan.golden_op is not None else ""
        return refuse(row.but(reason="", reason_codes=""), why + hint, cause)


class _Original(NamedTuple):
    """The original model's outputs, by node and number as golden data name them, and the names of
    its nodes.
    """

    outputs: List[Tuple[str, int]]
    nodes: Set[str]


def _outputs_of_original(options: ComparisonOptions, graph: ModelGraph) -> Optional[_Original]:
    """Return what is known of the original model's outputs.

    None where they are not known: without the model's file or a manifest that names its values, of
    a framework whose models do not tell their outputs, and where the om was told which to have, or
    is one of a part of the model.
    """
    from ..recomputing.find_original import find_original_model

    golden = options.golden
    path = options.original or find_original_model(graph.path or "", golden).path
    if path is None or not path.endswith(".onnx") or "out_nodes" in atc_options(graph.command):
        return None
    from ..netfiles.onnx_model import OnnxModel

    try:
        model = OnnxModel(path).graph
    except (GoldwatchError, OSError, KeyError, TypeError, ValueError):
        return None
    values = _values(golden)
    inputs = {value.name for value in model.data_inputs}
    given = {op.name for op in graph.ops if op.type in INPUT_TYPES and op.graph_index == 0}
    outputs = [values.get(value.name) for value in model.outputs]
    if not outputs or not given <= inputs or None in outputs:
        return None
    named = {value[0] for value in values.values()} | {node.name for node in model.nodes}
    return _Original([value for value in outputs if value is not None], named)


def _values(golden: str) -> Dict[str, Tuple[str, int]]:
    """Return node and number of each value of the original model, by the manifest of golden data;
    empty where none names them.
    """
    try:
        tensors = (read_manifest(golden) or {}).get("tensors", [])
        return {one["value"]: (one["original_name"], int(one["output_index"])) for one in tensors}
    except (GoldwatchError, OSError, KeyError, TypeError, ValueError):
        return {}


def _row(plan: RowPlan, at: Optional[int]) -> Row:
    # An output file that has no pair was to be compared, whatever a dump of its op would be.
    row = planned_row(plan, Place(), None).but(
        verdict=PASS if plan.status == PAIR else NOT_COMPARED, reason_codes=""
    )
    if at is None:
        return row
    return row.noted("output %d of the network" % at, "%s=%d" % (NETWORK_OUTPUT, at))
