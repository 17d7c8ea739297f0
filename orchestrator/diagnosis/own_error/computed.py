"""Estimates that give way to what was computed: what computing clears is never accused, what it
convicts is a suspect.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ...dumps.place import Place
from ...elements import element_count
from ...judging.computed import RIGHT, UNKNOWN, Judged
from ...metrics.row import FAIL, PASS
from ..inputs import BAD, GOOD, Inputs, InputState
from ..observations import ObservedOp, several_times
from ..seen import Observation
from ..words import percent
from .estimated import HIGHEST_SCORE, Estimate, Estimates, Told
from .expected import SUSPECT_SCORE, multiplies

Key = Tuple[Place, str, int]

_CONVICTED = 40.0
"""The least score of an operator that computing convicts: estimates stand behind it."""
_PER_DECADE = 15.0
_PLAINLY = 0.03
"""The relative distance from which on an operator is plainly wrong: the default limit of
float16.
"""
_PLAIN_PRODUCT = 2.0 * SUSPECT_SCORE
"""The score from which on an operator that may cancel and could not be computed is a suspect: on
public networks healthy ones reach 8.
"""
_WITH_OFFSETS = ("batchnorm", "bninference")
"""Words in the types of operators that add an offset to each channel, which cancels what it is
added to as sums of products do.
"""
_FACTOR_SHARE, _FACTOR_ELEMENTS = 0.95, 16
"""The share of an error along the golden values, of so many elements at least, that noise does not
reach: of 16 not once in 10^8.
"""
_MOST_PLACES = 2
"""At how many places an operator is computed for being suspect or outside its limits."""


GoldenFollows = Callable[[ObservedOp, Observation], Optional[bool]]

_GOLDEN_WRONG = (
    "its output is what it makes of the device's own inputs, but golden data do not follow from "
    "golden inputs"
)


def in_order_of_urgency(
    estimates: Estimates, inputs: Inputs
) -> Tuple[List[ObservedOp], List[ObservedOp]]:
    """Return the operators to compute whatever it takes, and the others.

    Urgent are those that the statistics suspect, those outside their limits, and all that feed the
    first of these.
    """
    feeding = estimates.feeding
    failing = [number for number, output in enumerate(feeding.outputs) if output.verdict == FAIL]
    suspect = np.flatnonzero(estimates.scores > SUSPECT_SCORE).tolist()
    urgent: Dict[Tuple[Place, str], ObservedOp] = {}
    places: Dict[str, int] = {}
    way = inputs.before(feeding.ops[failing[0]]) if failing else []
    for op in [*(feeding.ops[number] for number in [*suspect, *failing]), *way]:
        key = (op.place, op.name)
        if key not in urgent and places.setdefault(op.name, 0) < _MOST_PLACES:
            places[op.name] += 1
            urgent[key] = op
    others: Dict[Tuple[Place, str], ObservedOp] = {}
    for op in feeding.ops:
        if (op.place, op.name) not in urgent:
            others.setdefault((op.place, op.name), op)
    return list(urgent.values()), list(others.values())


def with_computed(
    estimates: Estimates, judged: Mapping[Key, Judged], golden_follows: GoldenFollows
) -> Estimates:
    """Return the estimates with those of computed outputs replaced.

    Parameters
    ----------
    judged
        What computing says of outputs.
    golden_follows
        Tells whether a golden output follows from golden inputs.
    """
    changes: Dict[int, Estimate] = {}
    feeding = estimates.feeding
    several = several_times(feeding.ops)
    for number, (op, output) in enumerate(zip(feeding.ops, feeding.outputs)):
        one = judged.get((op.place, op.name, output.number))
        if one is None or one.state == UNKNOWN or one.own is None or (op.place, op.name) in several:
            if SUSPECT_SCORE < estimates.scores[number] <= _PLAIN_PRODUCT and _may_cancel(
                op, output, feeding.inputs[number]
            ):
                changes[number] = replace(estimates.of_output(number), score=SUSPECT_SCORE)
            continue
        entry = estimates.of_output(number)
        if one.state == RIGHT:
            right = replace(entry, score=0.0, follows=True, told=None, whole_type=False)
            fails = output.verdict == FAIL and not any(state.state == BAD for state in entry.inputs)
            if fails and golden_follows(op, output) is False:
                right = replace(
                    right, score=HIGHEST_SCORE, told=Told(_GOLDEN_WRONG), golden_wrong=True
                )
            changes[number] = right
            continue
        if output.verdict == PASS and any(
            state.state == BAD and state.owner is not op for state in entry.inputs
        ):
            # What its producer wrote is not what it read: a dump of another run.
            continue
        came_in = (
            math.sqrt(max(entry.distance**2 - one.own.distance**2, 0.0))
            if math.isfinite(entry.distance)
            else 0.0
        )
        told = Told(sentence_of(one))
        changes[number] = replace(
            entry, score=_score(one), told=told, inherited=came_in, computed=one, whole_type=False
        )
    return estimates.changed(changes)


def _may_cancel(op: ObservedOp, output: Observation, inputs: Sequence[InputState]) -> bool:
    """Tell whether an output may be as far from golden data as it is because its sums cancel: how
    much they do is not known here.

    Not where it alone leaves its limits: no error that healthy networks have grows so.
    """
    if not multiplies(op.type) and not any(word in op.type.lower() for word in _WITH_OFFSETS):
        return False
    diverges = (
        output.verdict == FAIL and bool(inputs) and all(state.state == GOOD for state in inputs)
    )
    return not diverges and not _is_a_factor(output)


def _is_a_factor(output: Observation) -> bool:
    """Tell whether an output's error is that of one factor for all elements: no cancelling sum
    comes out so.
    """
    return (
        element_count(output.shape) >= _FACTOR_ELEMENTS
        and abs(output.factor - 1.0) >= _FACTOR_SHARE * output.distance > 0.0
    )


def _score(one: Judged) -> float:
    """Return the score of an operator that computing convicts: of those that are plainly off the
    first counts, not the worst.
    """
    if math.isinf(one.times) or (one.own is not None and one.own.distance >= _PLAINLY):
        return HIGHEST_SCORE
    return min(_CONVICTED + _PER_DECADE * math.log10(max(one.times, 1.0)), HIGHEST_SCORE)


def sentence_of(one: Judged) -> str:
    """Return what a computed output says of its operator, with its error's numbers; why it is not
    known where it was not computed.
    """
    own = one.own
    if own is None:
        return one.reason
    whose = (
        "the golden input (the device's was not dumped)"
        if one.assumed
        else "the device's own inputs"
    )
    if own.odd:
        which = "1 of its elements is" if own.odd == 1 else "%d of its elements are" % own.odd
        return "%s finite where what is computed of %s is not, or the reverse" % (which, whose)
    if own.unequal:
        return "%d of its %d values do not follow from %s" % (own.unequal, own.elements, whose)
    if one.factor:
        said = "its output is %.5g times what is computed of %s" % (own.factor, whose)
        return "%s; of such a factor rounding explains %s" % (said, percent(one.factor))
    said = "its output differs by %s from what is computed of %s" % (percent(own.distance), whose)
    return "%s; rounding explains %s" % (said, percent(own.explained))
