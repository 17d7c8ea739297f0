"""Verdicts on outputs that were computed again: right, wrong or unknown.

A device may compute in float32 inside of an operator, or in the type of its tensors. The other
operators of the run show which: where float32 explains most of a kind, none of that kind is excused
by the coarser arithmetic (:func:`judge_recomputed`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Tuple, TypeVar, cast

from ..recomputing.output_error import MOST_FACTOR, OwnError
from ..recomputing.recomputed_output import DECISION, MOVE, Recomputed
from ..tensors.type_precision import ROUNDING

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"

# What healthy operators reach stands beside each of these in docs/design/verdict.md (Where computed
# outputs are wrong; by scripts/real_trial): 1.7, 4.1, 8, and 0.9 of the factor.
MOST_RATIO = 4.0
"""Times what rounding explains, root mean square, up to which an output is right."""
MOST_SLICE = 8.0
"""The same of the worst slice along any axis."""
MOST_ELEMENT = 24.0
"""The same of a single element."""
MOST_DEVIATIONS = 6.0
"""Standard deviations of what rounding makes of such a factor that are granted besides: of few
elements it is noise.
"""
# Chosen, no trial of these three alone; docs/design/verdict.md has that of the whole.
ENOUGH_OTHERS = 2
"""Other operators of a kind from which on they tell how the device computes."""

_TELLING = 64
"""Elements of an output from which on it shows how a device computes: of fewer the errors are
chance."""
SHOWN = 0.05
"""The share of a coarser arithmetic's error from which on a device shows that it computes by it."""

_COARSE = ("float16", "bfloat16")
"""Types whose rounding is more than all else that may make a factor of a right output."""

Key = TypeVar("Key", bound=Tuple[Any, ...])


class RecomputationVerdict(NamedTuple):
    """The verdict on one output that was computed again.

    Attributes
    ----------
    state
        ``right``, ``wrong`` or ``unknown``.
    own_error
        Its error by the arithmetic that it was judged by; None where it was not computed.
    times
        By how many times it exceeds what is allowed; at most 1 where it is right.
    reason
        Why it is not known.
    assumed
        As of :class:`goldwatch.recomputing.recomputed_output.Recomputed`.
    factor
        By how much one factor of all elements may differ from 1, where only such a factor shows
        that it is wrong; else 0.
    code
        Of the reason; mostly empty.
    by_model, of_shape, by_json
        As of :class:`goldwatch.recomputing.recomputed_output.Recomputed`.
    """

    state: str
    own_error: Optional[OwnError] = None
    times: float = 0.0
    reason: str = ""
    assumed: bool = False
    factor: float = 0.0
    code: str = ""
    by_model: bool = False
    of_shape: bool = False
    by_json: bool = False


def judge_recomputed(computed: Mapping[Key, Recomputed]) -> Dict[Key, RecomputationVerdict]:
    """Judge all computed outputs of one device.

    Parameters
    ----------
    computed
        By a key that ends with the op's name and the number of its output.
    """
    firsts: Dict[Key, Recomputed] = {}
    for key, output in computed.items():
        one = output.first_other
        if one is not None:
            firsts[cast(Key, (*key[:-2], one.op, one.number))] = one
    computed = {**computed, **firsts}
    by_kind: Dict[object, List[Key]] = defaultdict(list)
    for key, output in computed.items():
        if output.tight is not None and output.kind not in (MOVE, DECISION):
            by_kind[output.kind, output.dtype].append(key)
    return {
        key: _verdict(key, output, by_kind, computed)._replace(
            assumed=output.assumed,
            by_model=output.by_model,
            of_shape=output.of_shape,
            by_json=output.by_json,
        )
        for key, output in computed.items()
    }


def excess(error: OwnError, moves: bool = False) -> float:
    """Return an error over the largest allowed one; above 1 it is wrong."""
    if error.not_finite or error.unequal:
        return math.inf
    if moves:
        # Values that are only moved are those of the input, rounded once at most: half a step is
        # 1.7 standard deviations.
        return error.worst / 2.0
    return max(error.ratio / MOST_RATIO, error.slice_ratio / MOST_SLICE, error.worst / MOST_ELEMENT)


def only_overflows(error: OwnError) -> bool:
    """Tell whether all that is wrong of an output is overflow: what is computed of its inputs is
    beyond the type's largest number there.
    """
    return 0 < error.overflowed == error.not_finite and (
        excess(error._replace(not_finite=0, overflowed=0)) <= 1.0
    )


def _verdict(
    key: Key,
    output: Recomputed,
    by_kind: Mapping[object, List[Key]],
    computed: Mapping[Key, Recomputed],
) -> RecomputationVerdict:
    if output.tight is None:
        return RecomputationVerdict(UNKNOWN, reason=output.reason, code=output.code)
    if output.by_model or output.by_json:
        # It follows from what it read, and not from what the model says, or golden data show.
        return RecomputationVerdict(WRONG, output.tight, math.inf)
    times = excess(output.tight, output.kind == MOVE)
    excused = times if output.loose is None else min(times, excess(output.loose))
    if excused > 1.0:
        error = output.tight if output.loose is None else output.loose
        return RecomputationVerdict(WRONG, error, excused)
    by_factor = _by_factor(output, _others(output, by_kind, computed))
    if times <= 1.0 or output.loose is None:
        return by_factor or RecomputationVerdict(RIGHT, output.tight, times)
    share = _coarse_share(_others(output, by_kind, computed))
    # How steps inside are rounded shows in single elements first: near 0, where the type's steps
    # are coarse. So it does in slices where the device is known to compute coarsely.
    between = _excess_between(output.tight.ratio, output.loose.ratio, share) / MOST_RATIO
    if share < SHOWN:
        between = max(
            between,
            _excess_between(output.tight.slice_ratio, output.loose.slice_ratio, share) / MOST_SLICE,
        )
    if between > 1.0:
        return RecomputationVerdict(WRONG, output.tight, between)
    # Of coarser sums more is known than a factor, but that none grows by them.
    if by_factor is not None and output.tight.factor > 1.0:
        return by_factor
    return RecomputationVerdict(RIGHT, output.loose, excused)


def _by_factor(output: Recomputed, others: List[Recomputed]) -> Optional[RecomputationVerdict]:
    """Return that an output is wrong by one factor of all elements; None where it is not."""
    error = output.tight
    if error is None:
        return None
    off, granted = _factor_error(error), _granted_factor(output)
    if off > granted:
        by_others = _factor_of_others(others)
        # Sums that are cut off shrink, which too few others cannot show; none grows by it.
        if by_others < math.inf or error.factor < 1.0:
            granted = max(granted, by_others)
    return (
        RecomputationVerdict(WRONG, error, off / granted, factor=granted) if off > granted else None
    )


def _others(
    output: Recomputed, by_kind: Mapping[object, List[Key]], computed: Mapping[Key, Recomputed]
) -> List[Recomputed]:
    """Return the outputs of the same kind and type of other operators."""
    return [
        computed[other]
        for other in by_kind[output.kind, output.dtype]
        if computed[other].op != output.op
    ]


def _factor_error(error: OwnError) -> float:
    """Return by how much the factor of all elements differs from 1, 0 where there is none."""
    return abs(error.factor - 1.0) if error.rms > 0 else 0.0


def _granted_factor(output: Recomputed) -> float:
    """Return by how much one factor of all elements may differ from 1, whatever others do; infinity
    where it is not judged.
    """
    error = output.tight
    if error is None or output.kind == MOVE or output.dtype not in _COARSE or not error.rms > 0:
        return math.inf
    kind = ROUNDING[output.dtype]
    half_step = max(2.0 ** -(kind.fraction_bits + 1), kind.step / (2.0 * error.rms))
    return MOST_FACTOR * half_step + MOST_DEVIATIONS * error.factor_deviation


def _factor_of_others(others: List[Recomputed]) -> float:
    """Return by how much the factor of an operator may differ from 1 as others of its kind show it;
    infinity of too few.
    """
    surely = {
        other.op: _factor_error(other.tight) - MOST_DEVIATIONS * other.tight.factor_deviation
        for other in others
        if other.tight is not None
    }
    return MOST_FACTOR * _second_largest(surely.values(), math.inf)


def _coarse_share(others: List[Recomputed]) -> float:
    """Return the share of the coarser arithmetic's error that the device shows in other operators:
    0 where it computes in float32 inside, 1 of too few.

    An operator of few terms shows nothing of it.
    """
    of_each: Dict[str, float] = {}
    telling = [
        other for other in others if other.tight is not None and other.tight.elements >= _TELLING
    ]
    for other in telling if len({other.op for other in telling}) >= ENOUGH_OTHERS else others:
        if other.tight is not None:
            of_each[other.op] = max(of_each.get(other.op, 0.0), _share(other.tight, other.loose))
    return _second_largest(of_each.values(), 1.0)


def _second_largest(values: Collection[float], few: float) -> float:
    """Return the second largest number, as one operator may be wrong; of too few ``few``."""
    return sorted(values)[-2] if len(values) >= ENOUGH_OTHERS else few


def _share(tight: OwnError, loose: Optional[OwnError]) -> float:
    """Return by how much of the coarser arithmetic's error an error is explained: e² = tight² +
    share² · (loose² − tight²).
    """
    if loose is None or not tight.ratio > 1.0 or not 0 < loose.ratio < tight.ratio:
        return 0.0
    return min(1.0, math.sqrt((1.0 - tight.ratio**-2) / (loose.ratio**-2 - tight.ratio**-2)))


def _excess_between(tight: float, loose: float, share: float) -> float:
    """Return an error in units of what an arithmetic explains that has a share of the coarser one's
    error.
    """
    if not tight:
        return 0.0
    unit = tight**-2 + (share**2 * max(loose**-2 - tight**-2, 0.0) if loose else 0.0)
    return 1.0 / math.sqrt(unit) if unit > 0 else math.inf
