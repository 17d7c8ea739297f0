"""The first operator outside its limits, in execution order, and whether its inputs were good."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional, Sequence, Tuple

from ...base.fast_dataclasses import dataclass
from ...base.wording import percent
from ...dumps.place import NOWHERE, Place
from ...metrics.row import FAIL, HANDED_ON, NOT_COMPARED, Row
from ...model.graphs_of_run import AnyGraph
from ..limits import Limit, Limits
from ..row_judge import judge_row
from .observed_ops import ObservedOp, ObservedOps
from .op_input_states import BAD, UNKNOWN, Inputs, InputState, overall_state
from .row_digest import execution_key


class Skipped(NamedTuple):
    """An operator of which the output was not compared, whether its own inputs were good
    (:func:`goldwatch.judging.diagnosis.op_input_states.overall_state`), and whether there are both
    its dump and its golden data.
    """

    op: str
    inputs: str
    readable: bool


class TooStrict(NamedTuple):
    """That a row misses limits by rounding alone.

    Attributes
    ----------
    dtype
        The target's element type.
    rounding
        The relative distance that rounding explains: in the operator, where it was computed again,
        else at most.
    computed
        Whether every operator up to the row was computed again.
    missed
        The limits, as ``--limit`` takes them.
    defaults
        The default limits of the same metrics.
    """

    dtype: str
    rounding: float
    computed: bool
    missed: Tuple[str, ...]
    defaults: Tuple[str, ...]

    def sentence(self, suspects: bool) -> str:
        """Return the end of the sentence about the row, and what to do.

        Parameters
        ----------
        suspects
            Whether other operators are.
        """
        if self.computed:
            why = (
                "every operator up to it was computed again from the device's own inputs and is "
                "right; rounding in this one explains %s"
            )
        else:
            why = "rounding to " + self.dtype + " alone may make %s"
        text = "; %s: the limit is stricter than the rounding of %s%s." % (
            why % percent(self.rounding), self.dtype,
            "" if suspects else ", and no operator need be wrong"
        )  # fmt: skip
        if not self.defaults:
            return text + " Healthy networks keep to the default limits."
        return text + " Healthy networks of %s keep to the default, %s." % (
            self.dtype,
            " and ".join(self.defaults),
        )


@dataclass(frozen=True)
class FirstDivergence:
    """The first operator outside its limits.

    Attributes
    ----------
    op, op_type
        The operator.
    tensor
        Its first failing output; its first failing input where no output fails (the producer was
        not dumped, or the op hides the error).
    metric, value, limit
        What is outside: the metric, its value, its limit. None where the row failed without a
        metric.
    inputs
        ``good``: every data input was compared and passes. ``bad``: one fails. ``unknown``: one was
        not compared, none fails.
    bad_input, unknown_input
        The failing input (or producer's output), when ``inputs`` is ``bad``; an input that was not
        compared, when it is ``unknown``.
    skipped
        What feeds the failing input and was not compared itself; None where it was.
    place
        Of the rows.
    reason
        The row's reason.
    written
        The output row that compares the same tensor as the failing input, where it passes: as its
        producer wrote it.
    otherwise
        An input that was decided otherwise than in golden data, near a tie, where no other is bad.
    too_strict
        That it is outside limits which are stricter than rounding; None where it is not.
    not_computed
        Why its output could not be computed again; empty where it was, or was not asked for.
    other_shape
        Its output has another shape than what is computed of the device's own inputs.
    in_training
        The original model has the operator in training mode, and an om computes otherwise.
    lost
        Which number of it, or of an operator before it, the device's type cannot hold, in words,
        where NaN or Inf come of that.
    wrong_before, wrong_within_limits
        An operator before it that is wrong by computing again, where it is right itself, and
        whether that one is within its limits; else nothing is compared with it.
    shaped_before
        An operator before it that is the first to have another shape than the model says.
    fed_otherwise
        What is said where its failing input is what an operator wrote that is within its limits,
        and golden data have another tensor between the two; else empty.
    handed_on
        It has no task, and the network hands out another tensor by it than the model says.
    underflow
        Which operator up to it lost values below the least step of its type, in words.
    masked
        Which rows of its input a mask excludes throughout, where that makes golden data undefined.
    """

    op: str
    tensor: str
    metric: Optional[str]
    value: Optional[float]
    limit: Optional[Limit]
    inputs: str
    op_type: str = ""
    bad_input: Optional[str] = None
    unknown_input: Optional[str] = None
    skipped: Optional[Skipped] = None
    place: Place = NOWHERE
    reason: str = ""
    written: Optional[str] = None
    otherwise: Optional[str] = None
    too_strict: Optional[TooStrict] = None
    not_computed: str = ""
    in_training: bool = False
    underflow: str = ""
    other_shape: bool = False
    masked: str = ""
    lost: str = ""
    wrong_before: str = ""
    wrong_within_limits: bool = False
    shaped_before: str = ""
    handed_on: bool = False
    fed_otherwise: str = ""

    def document(self) -> Dict[str, Any]:
        """Return the fields of result.json's ``first_divergence``; numbers that are not finite stay
        floats.
        """
        return {
            "op": self.op,
            "tensor": self.tensor,
            "metric": self.metric,
            "value": self.value,
            "limit": None if self.limit is None else self.limit.value,
            "inputs": self.inputs,
            **self.place.document(),
        }


def earlier(first: Optional[Row], row: Row) -> Optional[Row]:
    """Return whichever of two rows fails and comes first in execution order, or None."""
    if row.verdict != FAIL or (first is not None and execution_key(first) <= execution_key(row)):
        return first
    return row


def first_divergence(
    rows: Iterable[Row], limits: Limits, graph: AnyGraph = None
) -> Optional[FirstDivergence]:
    """Return the first operator with a failing row, or None.

    Parameters
    ----------
    rows
        All rows; walked once.
    limits
        The limits the rows were judged by.
    graph
        The model: tells which operators feed an input that was not dumped.
    """
    first: Optional[Row] = None

    def each() -> Iterator[Row]:
        nonlocal first
        for row in rows:
            first = earlier(first, row)
            yield row

    observed = ObservedOps(each())
    return (
        None if first is None else divergence_of(first, Inputs(observed, graph), observed, limits)
    )


def divergence_of(
    first: Row, inputs: Inputs, observed: ObservedOps, limits: Limits
) -> FirstDivergence:
    """Return the first divergence from the run's first failing row."""
    op = observed.of_file(first.place, first.op, first.target_file or "")
    states = inputs.of(op)
    bad = [state for state in states if state.state == BAD]
    judgement = judge_row(first, limits)
    return FirstDivergence(
        op=first.op,
        op_type=first.op_type,
        tensor=first.tensor,
        metric=judgement.metric,
        value=judgement.value,
        limit=judgement.limit,
        inputs=overall_state(states),
        bad_input=bad[0].tensor if bad else None,
        unknown_input=next((state.tensor for state in states if state.state == UNKNOWN), None),
        skipped=_skipped(states, op, inputs, observed),
        written=next(
            (
                tensor
                for state in states
                for tensor in [inputs.written(op, state)]
                if tensor is not None
            ),
            None,
        ),
        otherwise=bad[0].tensor
        if bad
        and all(state.observation is not None and state.observation.otherwise for state in bad)
        else None,
        place=first.place,
        reason=first.reason,
        handed_on=first.reason_codes == HANDED_ON,
    )


def _skipped(
    states: Sequence[InputState], op: ObservedOp, inputs: Inputs, observed: ObservedOps
) -> Optional[Skipped]:
    """Return the operator that feeds a failing input and misses an output; None where there is
    none.
    """
    for state in states:
        source = (
            observed.find(op.place, state.source)
            if state.state == BAD and state.owner is op and state.source is not None
            else None
        )
        if source is not None and source.misses_output:
            readable = any(row.verdict == NOT_COMPARED for row in source.outputs.values())
            return Skipped(source.name, overall_state(inputs.of(source)), readable)
    return None
