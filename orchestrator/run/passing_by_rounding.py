"""Rows outside their limits by rounding alone: every operator up to them was computed again from
the device's own inputs, and is right.

What no operator did wrong is judged as a whole: the limit of the worst slice is for operators that
leave out a part, which computing has shown they did not. And what fades again, so that the
network's outputs are within their limits, is no failure; nor is a decision that follows from inputs
within their limits, and what lies behind one that is another than golden data's near a tie.
"""

from __future__ import annotations

import math
import re
from itertools import chain
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ..dumps.place import Place
from ..judging.by_other_rows import alike, passing_row
from ..judging.by_recomputation import RIGHT, WRONG, RecomputationVerdict
from ..judging.diagnosis.observed_ops import ObservedOp, ObservedOps
from ..judging.diagnosis.op_input_states import Inputs
from ..judging.diagnosis.own_error.recomputed_estimates import sentence_of
from ..judging.diagnosis.row_digest import DISTANCE, execution_key
from ..judging.metric_text import metric_number
from ..judging.row_judge import (
    only_decision_limit_missed,
    only_default_limits_missed,
    rounds_to_whole,
)
from ..metrics.row import (
    AS_OUTPUT,
    BEHIND,
    BY_ROUNDING,
    DECIDED_OTHERWISE,
    DEQUANTISED_LATER,
    FAIL,
    FOLLOWS,
    NOT_COMPARED,
    OTHER_LENGTH,
    OTHER_STEPS,
    PASS,
    WORST_SLICE,
    Row,
)
from ..model.graph import ModelGraph
from ..model.never_dumped import may_lack_dump_reason, no_dump_reason
from ..model.op_node import OpNode
from ..model.row_plan import INPUT, OUTPUT
from ..recomputing.recomputed_output import OtherShape
from ..store.row_sql import row_key
from .engine import Engine
from .recomputation import NONE, Recomputation
from .tensor_reader import RunReader

REMARK = (
    "by rounding alone: every operator up to here was computed again from the device's own inputs "
    "and is right"
)
"""Remark on such a row."""

_LENGTH_FOLLOWS = (
    "what stays follows from the device's own inputs, which are within their limits (near a tie or "
    "a threshold rounding rules)"
)
_HAS_FEW_STEPS = "SELECT 1 FROM tensor WHERE target_dtype LIKE 'float8%' LIMIT 1"
_TO_FEW_STEPS = re.compile(r"(?i)(ascend|dynamic)?quant|cast")
"""Types of operators that round to a narrower type."""
_SHAPE = "shape"

_SAME = 1e-6
"""How much two distances of the same bytes may differ: they may be summed in another order."""

Key = Tuple[Place, str, int]


def judge_by_computing(engine: Engine, reader: RunReader) -> None:
    """Let rows pass that are outside their limits by rounding alone; those of an earlier start that
    no longer are fail again.
    """
    rows = [
        row for row in engine.store.rows(verdict=FAIL) if only_default_limits_missed(row.decided_by)
    ]
    before = list(engine.store.rows(verdict=PASS, warning=BY_ROUNDING))
    lengths = _of_other_lengths(engine)
    if lengths:
        engine.put_rows(_judged_lengths(engine, ObservedOps(engine.digests()), reader, lengths))
    steps = _of_few_steps(engine)
    if steps:
        engine.put_rows(_judged_steps(engine, ObservedOps(engine.digests()), reader, steps))
    if not rows and not before:
        return
    observed_ops = ObservedOps(engine.digests())
    judged_rows = _judge_rows(engine, observed_ops, reader, [*rows, *before])
    changed = [_failing(row) for row in judged_rows.fail if row.verdict == PASS]
    changed += [_passing(row) for row in judged_rows.rounding if row.verdict == FAIL]
    changed += judged_rows.inherited
    engine.put_rows(changed)


def _of_other_lengths(engine: Engine) -> List[Row]:
    """Return the outputs that golden data hold in another shape; those that were judged at an
    earlier start, too.
    """
    rows = [row for row in engine.store.rows(verdict=NOT_COMPARED) if row.cause == _SHAPE]
    rows += engine.store.rows(verdict=FAIL)
    rows += engine.store.rows(verdict=PASS, warning=DECIDED_OTHERWISE)
    return [
        row
        for row in rows
        if row.kind == OUTPUT and (row.cause == _SHAPE or row.code_value(OTHER_LENGTH) is not None)
    ]


def _judged_lengths(
    engine: Engine, observed_ops: ObservedOps, reader: RunReader, rows: Sequence[Row]
) -> List[Row]:
    """Return rows of :func:`_of_other_lengths` that are judged otherwise by what is computed of the
    device's own inputs: it tells how long they have to be, and of which shape.
    """
    ops = {(row.place, row.op): observed_ops.find(row.place, row.op) for row in rows}
    verdicts = reader.recompute(
        Inputs(observed_ops, engine.graphs), [op for op in ops.values() if op is not None]
    )
    changed = []
    for row in rows:
        now = row
        if row.cause != _SHAPE:
            reason = row.reason.rpartition("; ")[0]
            now = row.but(
                verdict=NOT_COMPARED, reason=reason, reason_codes="", warning="", cause=_SHAPE
            )
        op, verdict = (
            ops[row.place, row.op],
            verdicts.get((row.place, row.op, row.tensor_index or 0)),
        )
        error = None if verdict is None else verdict.own_error
        if verdict is not None and verdict.code == OtherShape.code:
            now = now.noted(sentence_of(verdict), OTHER_LENGTH, verdict=FAIL, cause="")
        if op is not None and verdict is not None and error is not None and any(error.counts):
            if verdict.state == WRONG:
                now = now.noted(sentence_of(verdict), OTHER_LENGTH, verdict=FAIL, cause="")
            elif all(state.verdict == PASS for state in op.inputs.values()):
                follows = {"verdict": PASS, "warning": DECIDED_OTHERWISE, "cause": ""}
                now = now.noted(_LENGTH_FOLLOWS, OTHER_LENGTH, **follows)
        changed += [now] if now != row else []
    return changed


def _of_few_steps(engine: Engine) -> List[Row]:
    """Return the outputs of quantisers and casts to floats of 8 bits that differ from golden data
    within their limits; those that failed by it at an earlier start, too.
    """
    if not engine.store.query(_HAS_FEW_STEPS):
        return []
    rows = engine.store.rows(verdict=PASS), engine.store.rows(verdict=FAIL)
    return [
        row
        for row in chain(*rows)
        if row.kind == OUTPUT
        and (row.target_dtype or "").startswith("float8")
        and _TO_FEW_STEPS.match(row.op_type)
        and only_default_limits_missed(row.decided_by)
        and (
            row.code_value(OTHER_STEPS) is not None
            if row.verdict == FAIL
            else metric_number(row.metrics.get(DISTANCE)) != 0
        )
    ]


def _judged_steps(
    engine: Engine, observed_ops: ObservedOps, reader: RunReader, rows: Sequence[Row]
) -> List[Row]:
    """Return rows of :func:`_of_few_steps` that are judged otherwise by what is computed of the
    device's own inputs: each number is a decision, which limits of a whole tensor do not tell.
    """
    ops = {(row.place, row.op): observed_ops.find(row.place, row.op) for row in rows}
    verdicts = reader.recompute(
        Inputs(observed_ops, engine.graphs), [op for op in ops.values() if op is not None]
    )
    changed = []
    for row in rows:
        now = row
        if row.verdict == FAIL:
            reason = row.reason.rpartition("; ")[0]
            now = row.but(verdict=PASS, reason=reason, reason_codes="")
        verdict = verdicts.get((row.place, row.op, row.tensor_index or 0))
        if verdict is not None and verdict.state == WRONG and verdict.own_error is not None:
            now = now.noted(sentence_of(verdict), OTHER_STEPS, verdict=FAIL)
        changed += [now] if now != row else []
    return changed


class _JudgedRows(NamedTuple):
    """Rows that are outside their limits by rounding alone, those that pass as decisions that are
    others than golden data's or lie behind such, and those that fail.
    """

    rounding: List[Row]
    inherited: List[Row]
    fail: List[Row]


def _judge_rows(
    engine: Engine,
    observed_ops: ObservedOps,
    reader: RunReader,
    rows: Sequence[Row],
    finished: bool = True,
) -> _JudgedRows:
    correct_ops = _CorrectOps(
        engine, observed_ops, reader, [(row.place, row.op) for row in rows], finished
    )
    right = [correct_ops.right(row.place, row.op, row.kind, row.tensor_index or 0) for row in rows]
    proven = [row for row, is_right in zip(rows, right) if is_right]
    passing = [row for row in proven if _as_a_whole(row)]
    inherited = [
        row for row in proven if not _as_a_whole(row) and correct_ops.behind_a_decision(row)
    ]
    rest = [row for row in proven if row not in passing and row not in inherited]
    within = {(row.place, row.tensor) for row in [*passing, *inherited]}
    faded = [row for row in rest if correct_ops.outputs_pass(row.place, within)]
    # Each after what feeds its operator, an op's inputs before its outputs.
    left = sorted(
        (row for row in rows if not any(row in some for some in (passing, inherited, faded))),
        key=lambda row: (execution_key(row)[:-2], row.kind == OUTPUT),
    )
    inherited = [passing_row(_failing(row), BEHIND) for row in inherited]
    fail = []
    for row in left:
        remark = correct_ops.decided_otherwise(_failing(row), row in proven)
        if remark:
            inherited.append(passing_row(_failing(row), remark))
            observed_ops.update(inherited[-1])
        else:
            fail.append(row)
    return _JudgedRows([*passing, *faded], inherited, fail)


def passing_by_rounding(engine: Engine, rows: Sequence[Row]) -> Optional[Set[str]]:
    """Return the keys of the failing rows of a place that are outside their limits by rounding
    alone, by what has been dumped so far; None where the first of them in order of execution is
    not: behind an operator that is not right the network diverges.

    Parameters
    ----------
    rows
        All of the place.
    """
    failing = [
        row for row in rows if row.verdict == FAIL and only_default_limits_missed(row.decided_by)
    ]
    options = engine.options
    if not failing or options.recompute == NONE or not engine.graphs:
        return set()
    reader = RunReader(engine, Recomputation(engine, options.recompute, options.original))
    observed_ops = ObservedOps(rows)
    first = min(failing, key=execution_key)
    correct_ops = _CorrectOps(
        engine, observed_ops, reader, [(first.place, first.op)], finished=False
    )
    if not correct_ops.right(first.place, first.op, first.kind, first.tensor_index or 0):
        return None
    judged_rows = _judge_rows(engine, observed_ops, reader, failing, finished=False)
    return {row_key(row) for row in [*judged_rows.rounding, *judged_rows.inherited]}


def _as_a_whole(row: Row) -> bool:
    """Tell whether a row misses no other limit than that of the worst slice."""
    return all(WORST_SLICE in limit for limit in row.decided_by.split("; "))


def _passing(row: Row) -> Row:
    return row.noted(REMARK, verdict=PASS, warning=BY_ROUNDING)


def _failing(row: Row) -> Row:
    return row.but(verdict=FAIL, reason=row.reason.replace("; " + REMARK, ""), warning="")


class _CorrectOps:
    """Which operators of a run are right, with all that feed them."""

    def __init__(
        self,
        engine: Engine,
        observed_ops: ObservedOps,
        reader: RunReader,
        names: Sequence[Tuple[Place, str]],
        finished: bool = True,
    ) -> None:
        self._engine = engine
        self._observed_ops = observed_ops
        self._reader = reader
        self._inputs = Inputs(observed_ops, engine.graphs)
        self._known: Dict[Tuple[Place, int], bool] = {}
        ops: Dict[Tuple[Place, str], ObservedOp] = {}
        for place, name in names:
            observed = observed_ops.find(place, name)
            if observed is not None:
                ops.setdefault((observed.place, observed.name), observed)
        self._several = observed_ops.executed_repeatedly() if finished else set()
        urgent: Dict[Tuple[Place, str], ObservedOp] = {}
        # Each operator is walked once, however many fail behind it.
        walked: Dict[Place, Set[int]] = {}
        for op in ops.values():
            for one in (op, *self._inputs.before(op, walked.setdefault(op.place, set()))):
                urgent.setdefault((one.place, one.name), one)
        self._judged: Mapping[Key, RecomputationVerdict] = reader.recompute(
            self._inputs, list(urgent.values())
        )

    def right(self, place: Place, op: str, kind: str, number: int) -> bool:
        """Tell whether the operator that made a tensor (an input or output of an op) is right, and
        all before it.
        """
        graph = self._engine.graphs.of(place.model)
        node = next(iter(graph.ops_named(op)), None) if graph is not None else None
        if graph is None or node is None:
            return False
        if kind != "input":
            return self._is_right(graph, node, place) and self._golden_is_right(place, node, number)
        observed = self._observed_ops.find(place, node.name)
        source = self._inputs.source(observed, number) if observed is not None else None
        # What a network is given is no operator's work: where it differs, it is another input.
        if (
            source is None
            or no_dump_reason(source[0]) is not None
            or not self._as_written(place, node, number, *source)
        ):
            return False
        return self._is_right(graph, source[0], place) and self._golden_is_right(place, *source)

    def _as_written(
        self, place: Place, node: OpNode, number: int, producer: OpNode, output: int
    ) -> bool:
        """Tell whether an input is off as far as the output that it is: memory that was overwritten
        in between is nobody's rounding.
        """
        reader, writer = (self._observed_ops.find(place, op.name) for op in (node, producer))
        read = reader.inputs.get(number) if reader is not None else None
        written = writer.outputs.get(output) if writer is not None else None
        if read is None or written is None or not written.compared:
            return False
        return (read.nan, read.inf) == (written.nan, written.inf) and math.isclose(
            read.distance, written.distance, rel_tol=_SAME
        )

    def _golden_is_right(self, place: Place, node: OpNode, number: int) -> bool:
        """Tell whether nothing speaks against the golden data of an output: they may be the ones
        that are wrong. Another dump is right where computing shows it.
        """
        observed = self._observed_ops.find(place, node.name)
        output = observed.outputs.get(number) if observed is not None else None
        if observed is None or output is None:
            return True
        follows = self._reader.golden_follows(observed, output)
        return follows is True if self._engine.goldens.kind == "npu" else follows is not False

    def behind_a_decision(self, row: Row) -> bool:
        """Tell whether something before a row's tensor was decided otherwise than in golden data,
        near a tie.
        """
        observed = self._observed_ops.find(row.place, row.op)
        before = self._inputs.before(observed) if observed is not None else []
        return any(
            output.otherwise or (output.different and rounds_to_whole(op.type))
            for op in before
            for output in op.outputs.values()
        )

    def decided_otherwise(self, row: Row, right: bool) -> str:
        """Return why a failing row passes behind rows that do: as a decision, as what follows from
        one, or as an input that is such an output; empty where it fails.

        Parameters
        ----------
        right
            Whether the operator that made the tensor, and all before it, are right.
        """
        graph = self._engine.graphs.of(row.place.model)
        node = next(iter(graph.ops_named(row.op)), None) if graph is not None else None
        observed, number = self._observed_ops.find(row.place, row.op), row.tensor_index or 0
        if graph is None or node is None or observed is None:
            return ""
        if row.kind == INPUT:
            source = self._inputs.source(observed, number)
            made = (
                self._observed_ops.find(row.place, source[0].name) if source is not None else None
            )
            output = (
                made.outputs.get(source[1]) if made is not None and source is not None else None
            )
            if made is None or output is None or not output.otherwise:
                return ""
            same = any(
                other.tensor == output.tensor and alike(row, other)
                for other in self._engine.store.rows(place=row.place, op=made.name)
            ) or self._reader.same_values(observed, observed.inputs[number], made, output)
            return AS_OUTPUT if same else ""
        judged = self._judged.get((row.place, row.op, number))
        if judged is not None and judged.state == RIGHT and self._reads_otherwise(observed):
            return BEHIND
        decides = rounds_to_whole(row.op_type) or only_decision_limit_missed(row.decided_by)
        if not decides or any(state.verdict == FAIL for state in observed.inputs.values()):
            return BEHIND if right and self.behind_a_decision(row) else ""
        if right:
            return BEHIND if self.behind_a_decision(row) else FOLLOWS
        if (judged is not None and judged.state == WRONG) or not self.behind_a_decision(row):
            return ""
        readers = graph.consumers(node, number)
        numbers = [
            output
            for reader in readers
            for op in [self._observed_ops.find(row.place, reader.name)]
            if "dequant" in reader.type.lower() and op is not None
            for output in op.outputs.values()
        ]
        dequantised = len(numbers) == len(readers) > 0 and all(
            output.verdict == PASS and not output.whole for output in numbers
        )
        return DEQUANTISED_LATER if dequantised else ""

    def _reads_otherwise(self, op: ObservedOp) -> bool:
        """Tell whether an input of an operator was decided otherwise than in golden data near a
        tie, all others were compared and pass, and nothing before it is known to be wrong.
        """
        inputs = Inputs(self._observed_ops, self._engine.graphs)
        rows = [state.observation for state in inputs.of(op)]
        return (
            any(row is not None and row.otherwise for row in rows)
            and all(row is not None and row.verdict == PASS for row in rows)
            and not any(
                judged.state == WRONG
                for before in inputs.before(op)
                for number in before.outputs
                for judged in [self._judged.get((before.place, before.name, number))]
                if judged is not None
            )
        )

    def outputs_pass(self, place: Place, passing: Set[Tuple[Place, str]]) -> bool:
        """Tell whether all compared outputs of a place that no other operator reads are within
        their limits; at least one must be there.
        """
        graph = self._engine.graphs.of(place.model)
        if graph is None:
            return False
        last = [self._last(graph, op) for op in graph.ops if op.type == "NetOutput"]
        last = last or [[op for op in graph.ops if not graph.consumers(op)]]
        observed = [
            self._observed_ops.find(place, op.name) for op in (op for ops in last for op in ops)
        ]
        outputs = [
            row for op in observed if op is not None for row in op.outputs.values() if row.compared
        ]
        return bool(outputs) and all(
            row.verdict == PASS or (place, row.tensor) in passing for row in outputs
        )

    @staticmethod
    def _last(graph: ModelGraph, op: OpNode) -> List[OpNode]:
        producers = (graph.producer(op, source[0]) for source in op.inputs if source is not None)
        return [producer for producer in producers if producer is not None]

    def _is_right(self, graph: ModelGraph, node: OpNode, place: Place) -> bool:
        """Tell whether an op and all before it are right: one that has no dump by its nature counts
        as it is fed.
        """
        waiting, walked = [node], {node.position}
        while waiting:
            at = waiting.pop()
            known = self._known.get((place, at.position))
            if known is None:
                known = self._known[place, at.position] = self._alone(at, place)
            if not known:
                return False
            for source in at.inputs:
                producer = graph.producer(at, source[0]) if source is not None else None
                if producer is not None and producer.position not in walked:
                    walked.add(producer.position)
                    waiting.append(producer)
        return True

    def _fed_otherwise(self, observed: ObservedOp) -> bool:
        """Tell whether an op read something else than golden data hold of what nothing computes:
        the network's input, a constant.
        """
        for number, row in observed.inputs.items():
            source = self._inputs.source(observed, number)
            if row.verdict == FAIL and (source is None or no_dump_reason(source[0]) is not None):
                return True
        return False

    def _alone(self, node: OpNode, place: Place) -> bool:
        observed: Optional[ObservedOp] = self._observed_ops.find(place, node.name)
        if observed is None or (
            may_lack_dump_reason(node) is not None
            and not any(row.compared for row in observed.outputs.values())
        ):
            return may_lack_dump_reason(node) is not None
        if (place, node.name) in self._several or self._fed_otherwise(observed):
            return False
        if observed.outputs and not any(
            not row.compared or row.different or row.spoiled for row in observed.outputs.values()
        ):
            return True  # what equals golden data is right, whoever made it
        states = [self._judged.get((place, node.name, number)) for number in observed.outputs]
        return bool(states) and all(one is not None and one.state == RIGHT for one in states)
