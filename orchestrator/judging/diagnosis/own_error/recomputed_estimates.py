"""Replaces the estimates of outputs that were computed again: a right output is never a suspect, a
wrong one always is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ....base.wording import percent
from ....dumps.place import Place
from ....metrics.row import FAIL, PASS
from ....operators.registry import InTraining
from ...by_recomputation import RIGHT, UNKNOWN, WRONG, RecomputationVerdict
from ..observed_ops import ObservedOp, ObservedOps, SomeOps, among
from ..op_input_states import BAD, GOOD, Inputs, InputState
from ..row_digest import Observation
from .estimate import ALL, HIGHEST_SCORE, Estimate, Estimates, ShownBy, TensorEvidence
from .estimator import is_common_factor
from .normal_error import SUSPECT_SCORE, Normal, multiplies

Key = Tuple[Place, str, int]

_CONVICTED = 40.0
"""The lowest score of an output that was computed again and is wrong: above most estimates; chosen,
no trial.
"""
# So that a score of 40 rises to the highest, 99, at four decades beyond the limit: it orders the
# wrong ones, no more.
_PER_DECADE = 15.0
_PLAINLY = 0.03
"""From this relative distance on an output is wrong beyond doubt: the default limit of float16."""
_MOSTLY = 0.7
"""Of an output's distance, that from what is computed of its own inputs which is more than half of
it in squares."""
_PLAIN_PRODUCT = 2.0 * SUSPECT_SCORE
"""The score above which an operator whose sums may cancel is a suspect, where it could not be
computed again: on public networks healthy ones reach 8.
"""
_WITH_OFFSETS = ("batchnorm", "bninference")
"""Words in the types of operators that add an offset to each channel, which cancels what it is
added to as sums of products do.
"""
_MOST_PLACES = 2
"""At how many places an urgent operator is computed again; chosen by time, no trial."""


GoldenFollows = Callable[[ObservedOp, Observation], Optional[bool]]

_GOLDEN_WRONG = (
    "its output is what it makes of the device's own inputs, but golden data do not follow from "
    "golden inputs"
)


_WITHOUT_GOLDEN = "; nothing is compared with it"


def ops_by_urgency(
    estimates: Estimates, inputs: Inputs, observed: ObservedOps
) -> Tuple[List[ObservedOp], SomeOps]:
    """Return the operators to compute again in any case, and the others.

    Urgent are suspects by their estimates, those outside their limits, and all operators upstream
    of the first one outside its limits. Among the others are those with an output that nothing is
    compared with: computing again alone tells of it.
    """
    table = estimates.table
    failing = np.flatnonzero(table.has_verdict(FAIL)).tolist()
    suspect = np.flatnonzero(estimates.scores > SUSPECT_SCORE).tolist()
    urgent: Dict[Tuple[Place, str], ObservedOp] = {}
    places: Dict[str, int] = {}
    upstream = inputs.before(table.op_of(failing[0])) if failing else []
    # The operators of outputs are made one by one: most are not computed again.
    for op in chain(map(table.op_of, [*suspect, *failing]), upstream):
        key = (op.place, op.name)
        if key not in urgent and places.setdefault(op.name, 0) < _MOST_PLACES:
            places[op.name] += 1
            urgent[key] = op
    with_file = observed.digests.numbers["file"][observed.first_row] >= 0
    uncompared = observed.uncompared()
    every = np.concatenate([table.op, uncompared[with_file[uncompared]]])
    others = observed.first_of_each(every)
    taken = observed.same_op(np.array([op.at for op in urgent.values()], np.int64))
    return list(urgent.values()), SomeOps(observed, others[~among(observed.same_op(others), taken)])


def with_recomputed(
    estimates: Estimates,
    verdicts: Mapping[Key, RecomputationVerdict],
    golden_follows: GoldenFollows,
) -> Estimates:
    """Return the estimates with those of recomputed outputs replaced.

    Parameters
    ----------
    verdicts
        Of the outputs that were computed again.
    golden_follows
        Tells whether a golden output follows from golden inputs.
    """
    changes: Dict[int, Estimate] = {}
    table = estimates.table
    repeated = table.repeated
    for number in _of_interest(estimates, verdicts):
        op, output = table.op_of(number), table.output(number)
        verdict = verdicts.get((op.place, op.name, output.number))
        if verdict is not None and verdict.code == InTraining.code:
            entry = replace(estimates.of_output(number), score=0.0, whole_type=False)
            changes[number] = replace(entry, evidence=None, in_training=True)
            continue
        if (
            verdict is None
            or verdict.state == UNKNOWN
            or verdict.own_error is None
            or repeated[number]
        ):
            if SUSPECT_SCORE < estimates.scores[number] <= _PLAIN_PRODUCT and _may_cancel(
                op, output, table.inputs_of(number)
            ):
                changes[number] = replace(estimates.of_output(number), score=SUSPECT_SCORE)
            continue
        entry = estimates.of_output(number)
        # What equals golden data is right, whatever it was made of.
        if verdict.state == RIGHT or not (output.different or output.spoiled or verdict.by_model):
            right = replace(entry, score=0.0, follows=True, evidence=None, whole_type=False)
            fails = output.verdict == FAIL and not any(state.state == BAD for state in entry.inputs)
            golden = golden_follows(op, output) if fails else None
            own = 0.0 if output.spoiled else verdict.own_error.distance
            rounds = own if own > _MOSTLY * entry.distance else 0.0
            right = replace(right, inherits=golden is True and not rounds, rounds=rounds)
            if golden is False:
                right = replace(
                    right,
                    score=HIGHEST_SCORE,
                    evidence=TensorEvidence(_GOLDEN_WRONG),
                    golden_wrong=True,
                )
            changes[number] = right
            continue
        if output.verdict == PASS and any(
            state.state == BAD and state.owner is not op for state in entry.inputs
        ):
            # What its producer wrote is not what it read: a dump of another run.
            continue
        came_in = (
            math.sqrt(max(entry.distance**2 - verdict.own_error.distance**2, 0.0))
            if math.isfinite(entry.distance)
            else 0.0
        )
        evidence = TensorEvidence(sentence_of(verdict))
        changes[number] = replace(
            entry,
            score=_score(verdict),
            evidence=evidence,
            inherited=came_in,
            computed=verdict,
            whole_type=False,
        )
    return estimates.changed(changes)


def _of_interest(estimates: Estimates, verdicts: Mapping[Key, RecomputationVerdict]) -> List[int]:
    """Return the outputs that were computed again, and those whose score may be lowered."""
    scores, table = estimates.scores, estimates.table
    wanted = (scores > SUSPECT_SCORE) & (scores <= _PLAIN_PRODUCT)
    wanted |= table.of_ops({(place, name) for place, name, _ in verdicts})
    numbers: List[int] = np.flatnonzero(wanted).tolist()
    return numbers


def _uncompared(op: ObservedOp) -> List[Observation]:
    """Return the outputs of an op that nothing is compared with."""
    return [output for output in op.outputs.values() if not output.compared]


def wrong_without_golden(
    observed: ObservedOps, inputs: Inputs, verdicts: Mapping[Key, RecomputationVerdict]
) -> List[Estimate]:
    """Return estimates of the outputs that nothing is compared with, and that are wrong by what is
    computed of the device's own inputs.
    """
    repeated = observed.executed_repeatedly()
    uncompared = observed.uncompared()
    computed = {(place, name) for place, name, _ in verdicts}
    estimates = []
    for op in map(observed.op, uncompared.tolist()) if computed else ():
        if (op.place, op.name) not in computed:
            continue
        for output in _uncompared(op):
            verdict = verdicts.get((op.place, op.name, output.number))
            if (
                verdict is None
                or verdict.state != WRONG
                or verdict.own_error is None
                or (op.place, op.name) in repeated
            ):
                continue
            distance, states = verdict.own_error.distance, inputs.of(op)
            estimates.append(
                Estimate(
                    op=op,
                    output=output,
                    inputs=states,
                    known=all(state.observation is not None for state in states),
                    distance=distance,
                    inputs_distance=0.0,
                    expected=0.0,
                    inherited=0.0,
                    score=_score(verdict),
                    shown=ShownBy(ALL, distance, 0.0, 0.0),
                    whole_type=False,
                    normal=Normal(1.0, 0.0, 1.0, 0, True),
                    decides=verdict.own_error.unequal > 0,
                    evidence=TensorEvidence(sentence_of(verdict) + _WITHOUT_GOLDEN),
                    computed=verdict,
                )
            )
    return estimates


def _may_cancel(op: ObservedOp, output: Observation, inputs: Sequence[InputState]) -> bool:
    """Tell whether cancelling sums may explain how far an output is from golden data.

    They do not where the output is outside its limits and all inputs are within theirs: in healthy
    networks no error grows so.
    """
    if not multiplies(op.type) and not any(word in op.type.lower() for word in _WITH_OFFSETS):
        return False
    diverges = (
        output.verdict == FAIL and bool(inputs) and all(state.state == GOOD for state in inputs)
    )
    return not diverges and not is_common_factor(output)


def _score(verdict: RecomputationVerdict) -> float:
    """Return the score of a wrong output; the same for all that are wrong beyond doubt, so that the
    first of them ranks first.
    """
    if math.isinf(verdict.times) or (
        verdict.own_error is not None and verdict.own_error.distance >= _PLAINLY
    ):
        return HIGHEST_SCORE
    return min(_CONVICTED + _PER_DECADE * math.log10(max(verdict.times, 1.0)), HIGHEST_SCORE)


def sentence_of(verdict: RecomputationVerdict) -> str:
    """Return the verdict on a recomputed output as a phrase with its numbers; the reason where it
    was not computed.
    """
    error = verdict.own_error
    if error is None:
        return verdict.reason
    if verdict.of_shape:
        return (
            "it is right on what it read, but has another shape than the original model says, and "
            "what reads it makes other values of that"
        )
    if verdict.by_json:
        return (
            "it is what the om's json says of the device's own inputs, and golden data are not "
            "what that makes of golden inputs"
        )
    if verdict.by_model:
        return "it is right on what it read, which is not what the original model says it reads"
    whose = (
        "golden data's value of its input (the device's was not dumped)"
        if verdict.assumed
        else "the device's own inputs"
    )
    if error.counts[0] != error.counts[1]:
        return "it has %d entries instead of %d that are computed of %s" % (*error.counts, whose)
    if error.not_finite and error.overflowed == error.not_finite:
        text = "%d of its elements overflowed: what is computed of %s is too large for its type"
        return text % (error.overflowed, whose)
    if error.not_finite:
        which = (
            "1 of its elements is"
            if error.not_finite == 1
            else "%d of its elements are" % error.not_finite
        )
        return "%s finite where what is computed of %s is not, or the reverse" % (which, whose)
    if error.unequal:
        return "%d of its %d values do not follow from %s" % (error.unequal, error.elements, whose)
    if verdict.factor:
        text = "its output is %.5g times what is computed of %s" % (error.factor, whose)
        return "%s; of such a factor rounding explains %s" % (text, percent(verdict.factor))
    text = "its output differs by %s from what is computed of %s" % (percent(error.distance), whose)
    return "%s; rounding explains %s" % (text, percent(error.explained))
