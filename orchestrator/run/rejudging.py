"""The rows of a run judged by others once all are there, whatever order they came in.

A dump file does not hold what its inputs were computed from. So an input passes where its
producer's output does, which was judged against its own inputs; decisions pass that follow from the
device's own inputs, near a tie; and behind such an output passes that is what its operator makes of
the device's own inputs. Where the dump holds no inputs, what the producers wrote stands for them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterator, List, Optional, Set, Tuple

from ..base.naming import printable, sanitise_golden
from ..base.notes import NOT_JUDGED_BY_NAMES, Note, note
from ..base.wording import plural
from ..dumps.place import Place
from ..judging.by_other_rows import (
    REMARKS,
    alike,
    as_first_judged,
    judged_like_output,
    lets_inputs_pass,
    passing_row,
)
from ..judging.diagnosis.observed_ops import ObservedOps
from ..judging.diagnosis.op_input_states import Inputs
from ..judging.diagnosis.recompute_without_model import TensorReader, made_of_inputs
from ..judging.diagnosis.row_digest import execution_key
from ..judging.row_judge import only_decision_limit_missed, only_default_limits_missed
from ..metrics.compare_pair import compare_pair
from ..metrics.row import (
    BEHIND,
    BY_NAME,
    CANCELS_INPUTS,
    DUMP_MISSING,
    FAIL,
    FOLLOWS,
    FUSED_BEHIND,
    GOLDEN_MISSING,
    NOT_COMPARED,
    PASS,
    Row,
)
from ..model.row_plan import INPUT, OUTPUT
from ..recomputing.formulas_by_type import is_known_type
from ..recomputing.repeated_decisions import can_repeat, near_ties
from ..store.row_sql import row_key
from .engine import Engine
from .tensor_reader import RunReader

_INSERTED = ("Cast", "TransData")
_BEHIND = "; whether this golden tensor is its counterpart is not known without the model"
_FUSED = "the om has %s fused into it, the json has it apart: compared with its golden tensor"
_CAUSES = (GOLDEN_MISSING, "shape")

_JUDGING = "SELECT 1 FROM tensor WHERE %s LIMIT 1" % " OR ".join(
    "instr(reason_codes, '%s')" % code for code in (CANCELS_INPUTS, *REMARKS)
)
"""Whether a row may let others pass, or pass because of others."""

Key = Tuple[Place, Optional[str]]


def judge_by_others(engine: Engine, reader: TensorReader) -> None:
    """Judge failing rows by others, and those that others let pass at an earlier start anew; inside
    a transaction of the store.
    """
    engine.put_rows(changed_by_others(engine, reader))


def changed_by_others(
    engine: Engine, reader: TensorReader, place: Optional[Place] = None
) -> List[Row]:
    """Return the stored rows, of a place or of all, whose verdicts are others by other rows.

    Parameters
    ----------
    reader
        Reads tensors again.
    """
    store = engine.store
    decided = any(
        row.kind == OUTPUT
        and can_repeat(row.op_type)
        and only_decision_limit_missed(row.decided_by)
        for row in store.rows(place=place, verdict=FAIL)
    )
    if not decided and not store.query(_JUDGING):
        return []
    failing: List[Row] = []
    before: Dict[str, Row] = {}
    outputs: Dict[Key, Row] = {}

    def each() -> Iterator[Row]:
        for row in store.rows(place=place):
            compared = as_first_judged(row)
            if compared is not row:
                before[row_key(row)] = row
            if compared.verdict == FAIL:
                failing.append(compared)
            elif row.kind == OUTPUT and lets_inputs_pass(row):
                outputs[row.place, row.golden_file] = row
            yield compared

    observed_ops = ObservedOps(each())
    # An op's inputs before its outputs.
    failing.sort(key=lambda row: (execution_key(row)[:-2], row.kind == OUTPUT))
    passed: List[Row] = []
    # What feeds an operator mostly ran before it: then one walk is enough.
    size = -1
    while size != len(failing):
        size = len(failing)
        left: List[Row] = []
        judge = _Judge(observed_ops, Inputs(observed_ops, engine.graphs), outputs, reader)
        for row in failing:
            now = judge.judged(row)
            (left if now is row else passed).append(now)
        failing = left
    again = [row for row in failing if row_key(row) in before]
    return [row for row in [*passed, *again] if row != before.get(row_key(row))]


class _Judge:
    """Judges failing rows by others: by those of what feeds their operators, and by their tensors.

    Parameters
    ----------
    observed_ops, inputs
        The run's rows, and who feeds whom. What :meth:`judged` lets pass is noted in them.
    outputs
        The outputs that let inputs pass, by place and golden file.
    reader
        Reads tensors again.
    """

    def __init__(
        self,
        observed_ops: ObservedOps,
        inputs: Inputs,
        outputs: Dict[Key, Row],
        reader: TensorReader,
    ) -> None:
        self._observed_ops, self._inputs, self._outputs, self._reader = (
            observed_ops,
            inputs,
            outputs,
            reader,
        )

    def judged(self, row: Row) -> Row:
        """Return a failing row, passing where others let it."""
        now = (
            self._like_output(row)
            if row.kind == INPUT
            else self._by_inputs(row)
            if row.kind == OUTPUT
            else row
        )
        if now is not row:
            self._observed_ops.update(now)
            if now.kind == OUTPUT:
                self._outputs[now.place, now.golden_file] = now
        return now

    def _like_output(self, row: Row) -> Row:
        """Return the failing row of an input, passing where it is an output that lets it."""
        output = self._outputs.get((row.place, row.golden_file))
        if output is not None and alike(row, output):
            return judged_like_output(row, output)
        op = self._observed_ops.of_file(row.place, row.op, row.target_file or "")
        source = self._inputs.source(op, row.tensor_index or 0)
        made = self._observed_ops.find(row.place, source[0].name) if source is not None else None
        written = made.outputs.get(source[1]) if made is not None and source is not None else None
        if made is None or written is None:
            return row
        output = self._outputs.get((row.place, written.golden_file))
        if output is None or output.tensor != written.tensor:
            return row
        same = self._reader.same_values(op, op.inputs[row.tensor_index or 0], made, written)
        return judged_like_output(row, output) if same else row

    def _by_inputs(self, row: Row) -> Row:
        if not only_default_limits_missed(row.decided_by) or not (
            can_repeat(row.op_type) or is_known_type(row.op_type)
        ):
            return row
        op = self._observed_ops.of_file(row.place, row.op, row.target_file or "")
        states = self._inputs.of(op)
        if not states or any(
            state.observation is None or state.observation.verdict == FAIL for state in states
        ):
            return row
        behind = any(
            state.observation is not None and state.observation.otherwise for state in states
        )
        if not behind and not (
            can_repeat(row.op_type) and only_decision_limit_missed(row.decided_by)
        ):
            return row
        read, made = self._reader.whole(op, op.outputs[row.tensor_index or 0], states)
        if made is None or not (made_of_inputs if behind else near_ties)(op.type, read, made):
            return row
        return passing_row(row, BEHIND if behind else FOLLOWS)


def judge_by_fusions(engine: Engine, reader: RunReader) -> None:
    """Let outputs pass that are what operators behind theirs make the last of these: the json has
    them, and there is no dump of them, so the om has them fused, and the json is of another build.

    Inside a transaction of the store.
    """
    if engine.goldens.kind == "npu" or not engine.graphs:
        return
    lost = {
        (row.place, row.op)
        for row in engine.store.rows(verdict=NOT_COMPARED)
        if row.cause == DUMP_MISSING and not row.target_file
    }
    for row in list(engine.store.rows(verdict=FAIL)) if lost else ():
        graph = engine.graphs.of(row.place.model)
        op = None if graph is None else graph.op(row.op)
        if row.kind != OUTPUT or row.tensor_index:
            continue
        while op is not None and graph is not None:
            readers = graph.consumers(op, 0)
            alone = len(readers) == 1 and (row.place, readers[0].name) in lost
            op = readers[0] if alone else None
            name = op.originals[-1] if op is not None and op.originals else ""
            golden = engine.goldens.of(row.place).find(name, 0) if name else None
            task = None if golden is None else reader.task(row.target_file or "", row.tensor)
            if op is None or golden is None or task is None:
                continue
            now = compare_pair(replace(task, golden=golden), engine.options.settings())
            if now.verdict == PASS:
                now = now.but(golden=name, golden_file=golden.rel)
                code = "%s=%s" % (FUSED_BEHIND, op.name)
                engine.put_rows([now.noted(_FUSED % printable(op.name), code)])
                break


def judge_by_names(engine: Engine) -> List[Note]:
    """Take back what fails by its name alone where names do not fit one to one; return why they do
    not, empty where all is well.

    A compiled network fuses operators and often keeps the name of the first, whose golden tensor is
    then not the one of the fused output. So rows fail by names alone only where these fit one to
    one: each dumped operator has golden data of its name and shape, and each golden operator a
    dump, but those that golden data begin with (the network's inputs) and the casts and conversions
    that the compiler puts in.

    Must be called once all rows are stored, inside a transaction of the store.
    """
    if engine.graphs or engine.goldens.kind == "npu":
        return []
    why, taken_back = _misfit(engine), False
    for row in engine.store.rows():
        if why and row.verdict == FAIL:
            engine.put_rows(
                [row.but(verdict=NOT_COMPARED, reason=row.reason + _BEHIND, cause=BY_NAME)]
            )
            taken_back = True
        elif why and row.cause == BY_NAME:
            taken_back = True
        elif not why and row.cause == BY_NAME:
            engine.put_rows([row.but(verdict=FAIL, reason=row.reason[: -len(_BEHIND)], cause="")])
    if not why:
        return []
    return [note(NOT_JUDGED_BY_NAMES if taken_back else "names-do-not-fit", why)]


def _misfit(engine: Engine) -> str:
    """Return how dumped and golden operators differ, in words; empty where they fit one to one."""
    dumped: Set[str] = set()
    matched: Set[str] = set()
    alone: Set[str] = set()
    for row in engine.store.rows():
        name = sanitise_golden(row.op)
        dumped.add(name)
        if row.kind == "output" and row.golden_file is not None:
            matched.add(name)
        if row.kind == "output" and row.cause in _CAUSES and row.op_type not in _INSERTED:
            alone.add(name)
    stamps = engine.goldens.every.stamps()
    first = min((stamps[name] for name in matched if name in stamps), default=0)
    left = [name for name, stamp in stamps.items() if name not in dumped and stamp >= first]
    if not alone and not left:
        return ""
    counts = (
        "of %s %d without golden data of that name and shape, of the golden ones %d without a dump"
    )
    return counts % (plural(len(dumped), "dumped operator"), len(alone), len(left))
