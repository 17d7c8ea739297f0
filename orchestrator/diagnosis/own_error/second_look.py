"""Outputs whose distance alone accuses nobody, because their inputs' error is as large: their
tensors tell more.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ...elements import element_count
from ...metrics.patterns import AlignedPair, distinct_values, lattice_step
from ...metrics.patterns.finding import MASK, Difference
from ...metrics.row import FAIL
from ...tensors.rounding import ulp
from ..inputs import GOOD, joined
from ..observations import ObservedOp
from ..seen import Observation
from ..words import percent
from .chance import independent, scatter
from .estimated import Estimate, Estimates, Told
from .expected import HOPELESS, PRIOR_SPREAD, SUSPECT_SCORE, rounding, sum_noise
from .feeding import Kind
from .outliers import each_by_itself, ordinary

MOST_LOOKED_AT = 64
"""Outputs of which the tensors are read; those outside their limits though their inputs are not,
then those nearest to a suspicion.
"""

Array = Any
Read = Callable[[ObservedOp, Observation, int], Optional[AlignedPair]]

_LEAST = 1e-3
_SURE = 2.0 * SUSPECT_SCORE
_HIGHEST = 2.0 * _SURE
_FEW = 256
_COARSER = 4.0
_ELEMENTS = 32768
_OF_8_BITS = frozenset(("float16", "float32", "float64"))
_MADE_OF_INTEGERS = ("quant", "cast")


def looked_at(estimates: Estimates, read: Read) -> Estimates:
    """Return the estimates, some of them raised or lowered by what their tensors tell.

    Parameters
    ----------
    read
        Reads a row's two tensors again, of more elements than the last argument a sample; None
        where it cannot.
    """
    found: Dict[int, Estimate] = {}
    for number in _most_urgent(estimates):
        made = estimates.of_output(number)
        if made.suspect and not made.told and _small(made):
            made = _by_chance(made, read)
        if not made.suspect:
            made = _sampled(made, read)
        found[number] = made
    return estimates.changed(found)


def _most_urgent(estimates: Estimates) -> List[int]:
    """Return the numbers of the outputs that need a second look most, those first that are outside
    their limits though no input is.
    """
    feeding = estimates.feeding
    doubtful = np.flatnonzero(_doubtful(estimates))
    failing = [feeding.outputs[number].verdict == FAIL for number in doubtful.tolist()]
    diverges = [
        fails and all(state.state == GOOD for state in feeding.inputs[number])
        for number, fails in zip(doubtful.tolist(), failing)
    ]
    order = np.lexsort((-estimates.scores[doubtful], np.logical_not(diverges)))
    urgent: List[int] = doubtful[order[:MOST_LOOKED_AT]].tolist()
    return urgent


def _doubtful(estimates: Estimates) -> Array:
    """Tell which outputs may hide an error of their own behind that of their inputs, or may be
    accused of theirs; [n].
    """
    feeding = estimates.feeding

    def of_kinds(told: Callable[[Kind], bool]) -> Array:
        return feeding.of_kinds(told) != 0

    suspect, distance = estimates.scores > SUSPECT_SCORE, feeding.values[:, 0]
    with np.errstate(invalid="ignore"):
        far, fed = distance >= _LEAST, feeding.fed < HOPELESS
    small = of_kinds(lambda kind: element_count(kind.shape) <= _FEW) & ~estimates.marked(
        lambda entry: entry.whole_type
    )
    telling = of_kinds(lambda kind: kind.dtype in _OF_8_BITS or each_by_itself(kind.op_type))
    judged = feeding.known & ~feeding.spoiled & ~of_kinds(lambda kind: kind.whole)
    judged &= ~estimates.marked(
        lambda entry: entry.decides or entry.follows or entry.computed is not None
    )
    return judged & ((far & ~suspect & fed & telling) | (suspect & small))


def _small(entry: Estimate) -> bool:
    return element_count(entry.output.shape) <= _FEW and not entry.whole_type


def _by_chance(entry: Estimate, read: Read) -> Estimate:
    """Return the estimate of a small output, lowered where few of its values, or rows that are
    alike, make up nearly all of it.
    """
    pair = read(entry.op, entry.output, _FEW)
    if pair is None or not np.isfinite(pair.golden).all():
        return entry
    spread, count = entry.normal.spread, element_count(entry.output.shape)
    usual, real = (
        math.hypot(spread, scatter(number))
        for number in (count, min(count, independent(pair.golden)))
    )
    return replace(entry, score=entry.score * usual / real)


def _sampled(entry: Estimate, read: Read) -> Estimate:
    """Return the estimate of an output, accused where some of its elements show what its distance
    does not.
    """
    pair = read(entry.op, entry.output, _ELEMENTS)
    if pair is None:
        return entry
    accused = _hidden(entry, pair, read) if each_by_itself(entry.op.type) else None
    return accused or (_coarser(entry, pair, read) if entry.output.dtype in _OF_8_BITS else entry)


def _hidden(entry: Estimate, pair: AlignedPair, read: Read) -> Optional[Estimate]:
    """Return the estimate of an output whose largest elements hide that the others are wrong; None
    where they do not.
    """
    made = ordinary(pair)
    if not made.hidden:
        return None
    pairs = _inputs(entry, read, _ELEMENTS)
    fed = [state.seen.distance for state in entry.inputs if state.seen is not None]
    came_in = joined(
        [
            *fed,
            *(
                value
                for value in (ordinary(one).distance for one in pairs)
                if not math.isnan(value)
            ),
        ]
    )
    expected = joined(
        [came_in, rounding(entry.output.dtype, made.rms), sum_noise(entry.output.dtype)]
    )
    score = (
        math.log(made.distance / expected) / PRIOR_SPREAD
        if pairs and made.distance > 0 < expected
        else 0.0
    )
    if not score > SUSPECT_SCORE:
        return None
    sentence = ("its output differs by %s, its inputs by %s, when a few large values are left "
        "out that "
        "hide it") % (
        percent(made.distance), percent(came_in),
    )  # fmt: skip
    return replace(
        entry,
        score=min(score, _HIGHEST),
        told=Told(sentence),
        inherited=min(entry.inherited, entry.distance),
    )


def _coarser(entry: Estimate, pair: AlignedPair, read: Read) -> Estimate:
    """Return the estimate of an output, accused where it is rounded to 8 bits."""
    step = _own_lattice(entry, pair, read)
    if step is None:
        return entry
    sentence = (
        "its output has only values of an 8-bit integer with a scale of %.4g; golden data and "
        "its inputs have others" % step
    )
    return replace(entry, score=_SURE, told=Told(sentence, "rounding"))


def _inputs(entry: Estimate, read: Read, most: int) -> List[AlignedPair]:
    """Return all inputs' tensors; nothing where one cannot be read."""
    pairs = [
        read(state.owner, state.seen, most)
        for state in entry.inputs
        if state.owner is not None and state.seen is not None
    ]
    kept = [pair for pair in pairs if pair is not None]
    return kept if len(kept) == len(entry.inputs) else []


def _own_lattice(entry: Estimate, pair: AlignedPair, read: Read) -> Optional[float]:
    """Return the step of the few values that an output has, where neither golden data nor an input
    have so few.
    """
    if any(word in entry.op.type.lower() for word in _MADE_OF_INTEGERS) or _has_many_values(pair):
        return None
    target, golden = _sides(pair)
    step = lattice_step(target)
    # In a narrow range the type's own steps are as few.
    if (
        step is None
        or step < _COARSER * float(ulp(target, pair.dtype).max())
        or lattice_step(golden) is not None
    ):
        return None
    pairs = _inputs(entry, read, _ELEMENTS)
    return step if pairs and not any(_few_values(_sides(one)[0]) for one in pairs) else None


def _has_many_values(pair: AlignedPair) -> bool:
    """Tell, of most tensors, that they have more values than an 8-bit integer: by their first
    elements, none of which may be a mask.
    """
    target, golden = (
        np.asarray(side).reshape(-1)[: 8 * _FEW].astype(np.float64)
        for side in (pair.target, pair.golden)
    )
    with np.errstate(invalid="ignore"):
        plain = target[np.isfinite(target) & (np.abs(golden) < MASK)]
    return len(distinct_values(plain)) > _FEW


def _few_values(values: np.ndarray) -> bool:
    """Tell whether an input has so few values that its operator's output may have as few."""
    distinct = len(distinct_values(values))
    return distinct <= _FEW and (2 * distinct <= values.size or lattice_step(values) is not None)


def _sides(pair: AlignedPair) -> Tuple[np.ndarray, np.ndarray]:
    """Return the first elements of both sides that are finite and no mask."""
    target, golden = (
        np.asarray(side).reshape(-1)[:_ELEMENTS].astype(np.float64)
        for side in (pair.target, pair.golden)
    )
    kept = Difference(target, golden).kept
    return target[kept], golden[kept]
