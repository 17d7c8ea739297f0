"""What two runs, compared bit for bit, come to: the first operator that makes other bytes of equal
inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import (
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ..dumps.place import Place
from ..judging.limits import Limits
from ..metrics.row import FAIL, Row
from ..model.graphs import AnyGraph
from ..naming import run_name
from ..text.wording import listed
from .first_divergence import FirstDivergence, divergence_of
from .inputs import BAD, GOOD, Inputs, overall
from .observations import Observations, ObservedOp
from .seen import Observation, SeenRow, seen_row
from .sentences import where_words
from .summary import Summary, nothing_more

EXACT = "exact"
"""``comparison`` of such a result."""

_SHOWN = 3


class Differing(NamedTuple):
    """An operator with an output that differs, and what its inputs are."""

    op: ObservedOp
    inputs: str


def compared_exactly(
    summary: Summary,
    rows: Iterable[Union[Row, SeenRow]],
    limits: Limits,
    graph: AnyGraph,
    whole: Callable[[SeenRow], Row] = nothing_more,
) -> Summary:
    """Return the summary of two runs' rows with the first operator whose inputs are equal and whose
    outputs are not, and no suspects.

    Where no operator's inputs are known to be equal, the first that differs stands there.

    Parameters
    ----------
    rows
        All rows; walked twice.
    graph
        The model: tells which operators feed an input that was not dumped.
    whole
        Returns all that there is of a row; needed where rows come as
        :class:`goldwatch.diagnosis.seen.SeenRow`.
    """
    seen = Observations(rows)
    inputs = Inputs(seen, graph)
    differing = differing_ops(seen, inputs)
    only_inputs = [
        Differing(op, BAD) for op in seen.ordered() if not differing and _fails(op.inputs)
    ]
    models: Dict[Optional[str], Differing] = {}
    for one in differing or only_inputs:
        model = run_name(one.op.place.model)
        if model not in models or (one.inputs == GOOD != models[model].inputs):
            models[model] = one
    wanted = {(one.op.place, one.op.name, one.op.file) for one in models.values()}
    failing: Dict[Tuple[Place, str, str], Tuple[SeenRow, Union[Row, SeenRow]]] = {}
    for row in rows:
        short = seen_row(row) if isinstance(row, Row) else row
        key = short.place, short.op, short.file
        if (
            short.verdict == FAIL
            and key in wanted
            and (key not in failing or short.key < failing[key][0].key)
        ):
            failing[key] = short, row
    firsts: Dict[Optional[str], FirstDivergence] = {}
    for model, one in models.items():
        _, found_row = failing[one.op.place, one.op.name, one.op.file]
        found = divergence_of(
            found_row if isinstance(found_row, Row) else whole(found_row), inputs, seen, limits
        )
        firsts[model] = replace(found, inputs=one.inputs)
    good = [one for one in differing if one.inputs == GOOD]
    named = next(iter([*good, *differing, *only_inputs]), None)
    first = None if named is None else firsts[run_name(named.op.place.model)]
    told = tuple(replace(model, first=firsts.get(run_name(model.name))) for model in summary.models)
    sentence = (
        "No byte of what was compared differs."
        if first is None
        else _sentence(first, differing, bool(graph))
    )
    culprit = None if first is None else (first.op, first.place)
    return replace(
        summary, first=first, suspects=(), models=told, sentence=sentence, culprit=culprit
    )


def differing_ops(seen: Observations, inputs: Inputs) -> List[Differing]:
    """Return the operators of which an output differs, in execution order."""
    return [Differing(op, _given(op, inputs)) for op in seen.ordered() if _fails(op.outputs)]


def _given(op: ObservedOp, inputs: Inputs) -> str:
    """Return what an operator's inputs are, as their producers wrote them: a dump may hold what was
    written over them.
    """
    return overall(
        [
            state._replace(state=GOOD) if inputs.written(op, state) is not None else state
            for state in inputs.of(op)
        ]
    )


def _fails(tensors: Mapping[int, Observation]) -> bool:
    return any(tensor.verdict == FAIL for tensor in tensors.values())


def _sentence(first: FirstDivergence, differing: List[Differing], modelled: bool) -> str:
    named = "%s (%s)" % (first.op, first.op_type) if first.op_type else first.op
    where = where_words(first.place)
    found = "%s: %s" % (first.tensor, first.reason)
    if not differing:
        return "No output differs; %s is the first operator that was given other bytes%s, %s." % (
            named,
            where,
            found,
        )
    equal = [one.op for one in differing if one.inputs == GOOD]
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
            found,
            others,
        )
    text = "%s is the first operator%s whose inputs are equal and whose output is not; %s." % (
        named,
        where,
        found,
    )
    if first.written is not None:
        text += (
            " The inputs are equal as their producers wrote them; in its dump they are not: it "
            "writes over them, or another does."
        )
    before = differing[: next(number for number, one in enumerate(differing) if one.op is equal[0])]
    if before:
        names = listed([one.op.name for one in before], _SHOWN)
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
