"""Outputs of which decisions are others than golden ones, judged by what the producers of their inputs wrote.

A dump of outputs only (``dump_mode`` ``output``) holds no inputs. The model knows which tensors they are, and at the end all are there.
"""

from __future__ import annotations

from typing import Sequence

from ..comparing.decisions import may_redo, near_ties
from ..comparing.near_ties import FOLLOWS
from ..comparing.row import DECIDED_OTHERWISE, FAIL, PASS, Row
from ..recomputing.by_golden import known
from ..verdict.computing import made_of_inputs
from ..verdict.inputs import Inputs, InputState
from ..verdict.judging import by_defaults, left_to_inputs
from ..verdict.observations import Observations, ObservedOp
from ..verdict.seen import seen_row
from .engine import Engine
from .rejudging import BEHIND
from .rereading import RunReader


def judge_by_producers(engine: Engine) -> bool:
    """Let failing outputs pass that are what their operators make of the device's own inputs; tell whether there are any.

    Of inputs within their limits those of operators that decide, behind an input that was decided otherwise those of any simple operator.
    """
    seen = Observations(engine.store.rows())
    inputs, reader = Inputs(seen, engine.graphs), RunReader(engine)
    changed = False
    for op in seen.ordered():
        failing = {output.tensor for output in op.outputs.values() if output.verdict == FAIL}
        states = inputs.of(op) if failing else ()
        if not states or any(state.seen is None or state.seen.verdict != PASS for state in states):
            continue
        behind = any(state.seen is not None and state.seen.otherwise for state in states)
        if not may_redo(op.type) and not (behind and known(op.type)):
            continue
        rows = [row for row in engine.store.rows(place=op.place, op=op.name) if row.tensor in failing and row.target_file == op.file]
        for row in rows:
            if _follows(row, op, states, behind, reader):
                passed = _passed(row, behind)
                engine.put_rows([passed])
                engine.rejudging.note(passed)
                seen.add(seen_row(passed))
                changed = True
    return changed


def _passed(row: Row, behind: bool) -> Row:
    return row.but(verdict=PASS, reason="%s; %s" % (row.reason, BEHIND if behind else FOLLOWS), warning=DECIDED_OTHERWISE)


def _follows(row: Row, op: ObservedOp, states: Sequence[InputState], behind: bool, reader: RunReader) -> bool:
    if not (by_defaults if behind else left_to_inputs)(row.decided_by):
        return False
    read, made = reader.whole(op, op.outputs[row.tensor_index or 0], states)
    if made is None:
        return False
    return made_of_inputs(op.type, read, made) if behind else near_ties(op.type, read, made)
