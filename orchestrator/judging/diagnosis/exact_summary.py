"""The summary of two runs that were compared bit for bit: the first operator that makes other bytes
of equal inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import (
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

import numpy as np

from ...base.naming import run_name
from ...base.wording import listed
from ...metrics.row import FAIL, Row
from ...model.graphs_of_run import AnyGraph
from ..limits import Limits
from .culprit_sentence import where_words
from .first_divergence import FirstDivergence, divergence_of
from .observed_ops import INPUT, OUTPUT, ObservedOp, ObservedOps
from .op_input_states import BAD, GOOD, Inputs, overall_state
from .row_digest import RowDigests
from .summary import Summary, only_digest_known

_SHOWN = 3


class DifferingOp(NamedTuple):
    """An operator with an output that differs, and what its inputs are."""

    op: ObservedOp
    inputs: str


def exact_summary(
    summary: Summary,
    rows: Union[RowDigests, Sequence[Row]],
    limits: Limits,
    graph: AnyGraph,
    whole: Callable[[int], Row] = only_digest_known,
) -> Summary:
    """Return the summary of two runs' rows with the first operator whose inputs are equal and whose
    outputs are not, and no suspects.

    Where no operator's inputs are known to be equal, the first that differs stands there.

    Parameters
    ----------
    rows
        All rows.
    graph
        The model: tells which operators feed an input that was not dumped.
    whole
        Returns all that there is of a row, by its number; needed where rows come as
        :class:`goldwatch.judging.diagnosis.row_digest.RowDigests`.
    """
    if not isinstance(rows, RowDigests):
        whole = rows.__getitem__
    observed = ObservedOps(rows)
    inputs = Inputs(observed, graph)
    differing = differing_ops(observed, inputs)
    only_inputs = [
        DifferingOp(observed.op(at), BAD)
        for at in ([] if differing else observed.with_verdict(FAIL, INPUT).tolist())
    ]
    models = _first_of_models(differing or only_inputs)
    firsts: Dict[Optional[str], FirstDivergence] = {}
    for model, op_state in models.items():
        failing_row = whole(_first_failing(observed, op_state.op))
        divergence = divergence_of(failing_row, inputs, observed, limits)
        firsts[model] = replace(divergence, inputs=op_state.inputs)
    with_equal_inputs = [op_state for op_state in differing if op_state.inputs == GOOD]
    culprit_op = next(iter([*with_equal_inputs, *differing, *only_inputs]), None)
    first = None if culprit_op is None else firsts[run_name(culprit_op.op.place.model)]
    model_summaries = tuple(
        replace(model, first=firsts.get(run_name(model.name))) for model in summary.models
    )
    sentence = (
        "No byte of what was compared differs."
        if first is None
        else _sentence(first, differing, bool(graph))
    )
    culprit = None if first is None else (first.op, first.place)
    return replace(
        summary,
        first=first,
        suspects=(),
        models=model_summaries,
        sentence=sentence,
        culprit=culprit,
    )


def _first_of_models(differing: Iterable[DifferingOp]) -> Dict[Optional[str], DifferingOp]:
    """Return the first operator of each model that differs, one with equal inputs if there is
    one.
    """
    models: Dict[Optional[str], DifferingOp] = {}
    for op_state in differing:
        model = run_name(op_state.op.place.model)
        if model not in models or (op_state.inputs == GOOD != models[model].inputs):
            models[model] = op_state
    return models


def _first_failing(observed: ObservedOps, op: ObservedOp) -> int:
    """Return the number of the first failing row of an operator."""
    digests = observed.digests
    fails = digests.shared_column([part.verdict == FAIL for part in digests.shared], bool)
    rows = np.flatnonzero((observed.op_of_row == op.at) & fails)
    return int(digests.by_execution(rows)[0])


def differing_ops(observed: ObservedOps, inputs: Inputs) -> List[DifferingOp]:
    """Return the operators of which an output differs, in execution order."""
    return [
        DifferingOp(op, _inputs_as_written(op, inputs))
        for op in map(observed.op, observed.with_verdict(FAIL, OUTPUT).tolist())
    ]


def _inputs_as_written(op: ObservedOp, inputs: Inputs) -> str:
    """Return the state of an operator's inputs as their producers wrote them: its own dump may hold
    what was written over them.
    """
    return overall_state(
        [
            state._replace(state=GOOD) if inputs.written(op, state) is not None else state
            for state in inputs.of(op)
        ]
    )


# One sentence for each state of the first operator.
def _sentence(first: FirstDivergence, differing: List[DifferingOp], modelled: bool) -> str:
    named = "%s (%s)" % (first.op, first.op_type) if first.op_type else first.op
    where = where_words(first.place)
    finding = "%s: %s" % (first.tensor, first.reason)
    if not differing:
        return "No output differs; %s is the first operator that was given other bytes%s, %s." % (
            named,
            where,
            finding,
        )
    equal = [state.op for state in differing if state.inputs == GOOD]
    if not equal:
        what = (
            "whose inputs differ already"
            if first.inputs == BAD
            else "of which not all inputs were compared"
        )
        more = (
            ": the two runs were given other data"
            if first.inputs == BAD
            else ": what feeds it may differ"
        )
        if first.inputs == BAD and not modelled:
            more += ", or it writes over its input (the model's json can tell that)"
        others = "" if len(differing) == 1 else " %s in all." % _differ(differing)
        return "%s is the first operator that differs%s, %s%s; %s.%s" % (
            named,
            where,
            what,
            more,
            finding,
            others,
        )
    text = "%s is the first operator%s whose inputs are equal and whose output is not; %s." % (
        named,
        where,
        finding,
    )
    if first.written is not None:
        text += (
            " The inputs are equal as their producers wrote them; in its dump they are not: it "
            "writes over them, or another does."
        )
    before = differing[
        : next(number for number, state in enumerate(differing) if state.op is equal[0])
    ]
    if before:
        names = listed([state.op.name for state in before], _SHOWN)
        text += " Before it %s, of which not all inputs are equal or were compared: %s." % (
            _differ(before),
            names,
        )
    besides = list(dict.fromkeys(op.name for op in equal if op.name != first.op))
    if besides:
        text += " So do with equal inputs: %s." % listed(besides, _SHOWN)
    return text


def _differ(ops: Sequence[object]) -> str:
    return "1 operator differs" if len(ops) == 1 else "%d operators differ" % len(ops)
