"""Estimates corrected by reading tensors again: errors that distances do not show, and small
outputs whose distance is large by chance.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ....base.element_types import element_count
from ....base.wording import percent
from ....metrics import patterns
from ....metrics.patterns import AlignedPair
from ....metrics.row import FAIL
from ....tensors.type_precision import ulp
from ..observed_ops import ObservedOp
from ..op_input_states import root_sum_squares
from ..row_digest import Observation
from .distance_table import OutputKind
from .estimate import Estimate, Estimates, TensorEvidence
from .normal_error import (
    HOPELESS,
    PRIOR_SPREAD,
    SUSPECT_SCORE,
    independent_values,
    rounding,
    scatter,
    sum_noise,
)

ORDINARY = 0.9
"""The share of the elements, the smallest ones, that is compared."""

# How many times the others' root mean square the whole's is, where a tenth of the elements hides
# them: large channels of language models (docs/design/verdict.md).
_RULE = 5.0
# Of fewer elements the largest tenth is no kind of its own; chosen, no trial.
_LEAST_ELEMENTS = 256
_ELEMENTWISE = frozenset(
    """
    add addv2 addn biasadd bias mul muls eltwise scale gather gatherv2 gatherv2d embedding
    embeddinglookup cast concat concatd concatv2 concatv2d slice sliced stridedslice stridedsliced
    split splitd splitv splitvd
    """.split()
)


class Ordinary(NamedTuple):
    """A tensor without its largest elements.

    Attributes
    ----------
    distance
        The relative Euclidean distance of the rest; NaN where there is none.
    rms
        Root mean square of the rest of the golden elements.
    hidden
        The largest elements rule the tensor's norm, so that its own distance says nothing of the
        rest.
    """

    distance: float
    rms: float
    hidden: bool


def is_elementwise(op_type: str) -> bool:
    """Tell whether each element's error is of its own magnitude in operators of a type: they do not
    add up elements of different magnitudes.
    """
    return op_type.lower() in _ELEMENTWISE


def without_largest(pair: AlignedPair) -> Ordinary:
    """Compare the nine tenths of a tensor's elements that are smallest; those that are 0 or not
    finite are left out.
    """
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (pair.target, pair.golden))
    usable = np.isfinite(x) & np.isfinite(y) & (y != 0)
    x, y = x[usable], y[usable]
    if y.size < _LEAST_ELEMENTS:
        return Ordinary(math.nan, math.nan, False)
    size, place = np.abs(y), int(ORDINARY * y.size)
    small = size <= np.partition(size, place)[place]
    usual = _rms(y[small])
    return Ordinary(_rms((x - y)[small]) / usual, usual, _rms(y) > _RULE * usual)


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


MOST_LOOKED_AT = 64
"""How many outputs are read again: first those outside their limits with all inputs within, then by
score; chosen by time, no trial.
"""

Array = Any
Read = Callable[[ObservedOp, Observation, int], Optional[AlignedPair]]

# Outputs that are nearer are not read again; chosen, no trial.
_LEAST = 1e-3
# The score of an output that was rounded to 8 bits, and the most of one whose large elements hid
# its error: twice and four times a suspect's. They order suspects; chosen.
_SURE = 2.0 * SUSPECT_SCORE
_HIGHEST = 2.0 * _SURE
# An output of so few elements is off by chance more than a type's spread says; chosen, no trial.
_FEW = 256
# Steps that show 8 bits, in those of the output's own type (docs/design/verdict.md: without it 3
# of 10 outputs rounded to int8 are missed).
_COARSER = 4.0
# A sample this large is read at once; by its time.
_ELEMENTS = 32768
_OF_8_BITS = frozenset(("float16", "float32", "float64"))
_MADE_OF_INTEGERS = ("quant", "cast")


def checked_by_tensors(estimates: Estimates, read: Read) -> Estimates:
    """Return the estimates, some of them raised or lowered after reading their tensors.

    Parameters
    ----------
    read
        Reads a row's two tensors again, of more elements than the last argument a sample; None
        where it cannot.
    """
    changes: Dict[int, Estimate] = {}
    for number in _most_urgent(estimates):
        estimate = estimates.of_output(number)
        if estimate.suspect and not estimate.evidence and _has_few_elements(estimate):
            estimate = _lowered_by_chance(estimate, read)
        if not estimate.suspect:
            estimate = _checked_by_sample(estimate, read)
        changes[number] = estimate
    return estimates.changed(changes)


def _most_urgent(estimates: Estimates) -> List[int]:
    """Return the numbers of the outputs to read, at most :data:`MOST_LOOKED_AT`, the most urgent
    first.
    """
    table = estimates.table
    candidates = np.flatnonzero(_needs_check(estimates))
    diverges = (table.has_verdict(FAIL) & table.all_inputs_good())[candidates]
    order = np.lexsort((-estimates.scores[candidates], ~diverges))
    urgent: List[int] = candidates[order[:MOST_LOOKED_AT]].tolist()
    return urgent


def _needs_check(estimates: Estimates) -> Array:
    """Return a mask of the outputs whose own error may be hidden, or whose score may be chance;
    bool, [n].
    """
    table = estimates.table

    def of_kinds(test: Callable[[OutputKind], bool]) -> Array:
        return table.by_kind(test) != 0

    suspect, distance = estimates.scores > SUSPECT_SCORE, table.distance(0)
    with np.errstate(invalid="ignore"):
        far, fed = distance >= _LEAST, table.fed < HOPELESS
    small = of_kinds(lambda kind: element_count(kind.shape) <= _FEW) & ~estimates.marked(
        lambda entry: entry.whole_type
    )
    telling = of_kinds(lambda kind: kind.dtype in _OF_8_BITS or is_elementwise(kind.op_type))
    judged = table.inputs_known & ~table.spoiled & ~of_kinds(lambda kind: kind.whole)
    judged &= ~estimates.marked(
        lambda entry: entry.decides or entry.follows or entry.computed is not None
    )
    return judged & ((far & ~suspect & fed & telling) | (suspect & small))


def _has_few_elements(entry: Estimate) -> bool:
    return element_count(entry.output.shape) <= _FEW and not entry.whole_type


def _lowered_by_chance(entry: Estimate, read: Read) -> Estimate:
    """Return the estimate of an output with few elements, its score lowered by the chance scatter
    of its independent values.
    """
    pair = read(entry.op, entry.output, _FEW)
    if pair is None or not np.isfinite(pair.golden).all():
        return entry
    spread, count = entry.normal.spread, element_count(entry.output.shape)
    usual, real = (
        math.hypot(spread, scatter(number))
        for number in (count, min(count, independent_values(pair.golden)))
    )
    return replace(entry, score=entry.score * usual / real)


def _checked_by_sample(entry: Estimate, read: Read) -> Estimate:
    """Return the estimate of an output, raised where a sample shows an error that its distance does
    not.
    """
    pair = read(entry.op, entry.output, _ELEMENTS)
    if pair is None:
        return entry
    accused = _checked_without_largest(entry, pair, read) if is_elementwise(entry.op.type) else None
    return accused or (
        _checked_for_8_bits(entry, pair, read) if entry.output.dtype in _OF_8_BITS else entry
    )


def _checked_without_largest(entry: Estimate, pair: AlignedPair, read: Read) -> Optional[Estimate]:
    """Return the raised estimate of an output whose largest elements hide that the others are
    wrong; None where they hide nothing.
    """
    rest = without_largest(pair)
    if not rest.hidden:
        return None
    pairs = _input_pairs(entry, read, _ELEMENTS)
    input_distances = [
        state.observation.distance for state in entry.inputs if state.observation is not None
    ]
    came_in = root_sum_squares(
        [
            *input_distances,
            *(
                value
                for value in (without_largest(input_pair).distance for input_pair in pairs)
                if not math.isnan(value)
            ),
        ]
    )
    expected = root_sum_squares(
        [came_in, rounding(entry.output.dtype, rest.rms), sum_noise(entry.output.dtype)]
    )
    score = (
        math.log(rest.distance / expected) / PRIOR_SPREAD
        if pairs and rest.distance > 0 < expected
        else 0.0
    )
    if not score > SUSPECT_SCORE:
        return None
    sentence = ("its output differs by %s, its inputs by %s, when a few large values are left "
        "out that "
        "hide it") % (
        percent(rest.distance), percent(came_in),
    )  # fmt: skip
    return replace(
        entry,
        score=min(score, _HIGHEST),
        evidence=TensorEvidence(sentence),
        inherited=min(entry.inherited, entry.distance),
    )


def _checked_for_8_bits(entry: Estimate, pair: AlignedPair, read: Read) -> Estimate:
    """Return the estimate of an output, raised where it alone is rounded to 8 bits."""
    step = _own_lattice(entry, pair, read)
    if step is None:
        return entry
    sentence = (
        "its output has only values of an 8-bit integer with a scale of %.4g; golden data and "
        "its inputs have others" % step
    )
    return replace(entry, score=_SURE, evidence=TensorEvidence(sentence, "rounding"))


def _input_pairs(entry: Estimate, read: Read, most: int) -> List[AlignedPair]:
    """Return the tensors of all inputs; an empty list where one cannot be read."""
    pairs = [
        read(state.owner, state.observation, most)
        for state in entry.inputs
        if state.owner is not None and state.observation is not None
    ]
    readable = [pair for pair in pairs if pair is not None]
    return readable if len(readable) == len(entry.inputs) else []


def _own_lattice(entry: Estimate, pair: AlignedPair, read: Read) -> Optional[float]:
    """Return the step of the few values that an output has, where neither golden data nor an input
    have so few.
    """
    if any(word in entry.op.type.lower() for word in _MADE_OF_INTEGERS) or _has_many_values(pair):
        return None
    target, golden = _finite_sides(pair)
    step = patterns.lattice_step(target)
    # In a narrow range the type's own steps are as few.
    if (
        step is None
        or step < _COARSER * float(ulp(target, pair.dtype).max())
        or patterns.lattice_step(golden) is not None
    ):
        return None
    pairs = _input_pairs(entry, read, _ELEMENTS)
    return (
        step
        if pairs and not any(_few_values(_finite_sides(input_pair)[0]) for input_pair in pairs)
        else None
    )


def _has_many_values(pair: AlignedPair) -> bool:
    """Tell, of most tensors, that they have more values than an 8-bit integer: by their first
    elements, none of which may be a mask.
    """
    from ....metrics.patterns.difference import MASK

    target, golden = (
        np.asarray(side).reshape(-1)[: 8 * _FEW].astype(np.float64)
        for side in (pair.target, pair.golden)
    )
    with np.errstate(invalid="ignore"):
        unmasked = target[np.isfinite(target) & (np.abs(golden) < MASK)]
    return len(patterns.distinct_values(unmasked)) > _FEW


def _few_values(values: np.ndarray) -> bool:
    """Tell whether an input has so few values that its operator's output may have as few."""
    distinct = len(patterns.distinct_values(values))
    return distinct <= _FEW and (
        2 * distinct <= values.size or patterns.lattice_step(values) is not None
    )


def _finite_sides(pair: AlignedPair) -> Tuple[np.ndarray, np.ndarray]:
    """Return the first elements of both sides that are finite and no mask."""
    target, golden = (
        np.asarray(side).reshape(-1)[:_ELEMENTS].astype(np.float64)
        for side in (pair.target, pair.golden)
    )
    from ....metrics.patterns.difference import Difference

    usable = Difference(target, golden).compared
    return target[usable], golden[usable]
