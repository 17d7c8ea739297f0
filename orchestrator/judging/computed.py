"""What a computed output says of its operator: right, wrong, or that it cannot be told.

A device may compute in float32 inside of an operator, or in the type of its tensors. Which it does
is told by the other operators of the run: where most of those of a kind are explained by float32
inside, none of them is excused by less (:func:`judged`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Collection, Dict, Hashable, List, Mapping, NamedTuple, Optional, TypeVar

from ..recomputing.measured import OwnError
from ..recomputing.recomputed import DECISION, MOVE, Recomputed
from ..tensors.rounding import ROUNDING

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"

MOST_RATIO = 4.0
"""Times what rounding explains, root mean square, up to which an output is right."""
MOST_SLICE = 8.0
"""The same of the worst slice along any axis."""
MOST_ELEMENT = 24.0
"""The same of a single element."""
MOST_FACTOR = 2.0
"""By how many half steps of the type one factor of all elements may differ from 1: a constant may
be off by one, and values that are cut off, not rounded, shrink by another. By so many times what
others of the kind differ, too: where sums are cut off, all shrink.
"""
MOST_DEVIATIONS = 6.0
"""Standard deviations of what rounding makes of such a factor that are granted besides: of few
elements it is noise.
"""
ENOUGH_OTHERS = 2
"""Other operators of a kind from which on they tell how the device computes."""

SHOWN = 0.05
"""The share of a coarser arithmetic's error from which on a device shows that it computes by it."""

_COARSE = ("float16", "bfloat16")
"""Types whose rounding is more than all else that may make a factor of a right output."""

Key = TypeVar("Key", bound=Hashable)


class Judged(NamedTuple):
    """What is said of one output.

    Attributes
    ----------
    state
        ``right``, ``wrong`` or ``unknown``.
    own
        Its error by the arithmetic that it was judged by; None where it was not computed.
    times
        By how many times it exceeds what is allowed; at most 1 where it is right.
    reason
        Why it is not known.
    assumed
        As of :class:`goldwatch.recomputing.recomputed.Recomputed`.
    factor
        By how much one factor of all elements may differ from 1, where only such a factor shows
        that it is wrong; else 0.
    """

    state: str
    own: Optional[OwnError] = None
    times: float = 0.0
    reason: str = ""
    assumed: bool = False
    factor: float = 0.0


def judged(computed: Mapping[Key, Recomputed]) -> Dict[Key, Judged]:
    """Judge all computed outputs of one device.

    Parameters
    ----------
    computed
        By whatever names an output.
    """
    habits: Dict[object, List[Key]] = defaultdict(list)
    for key, one in computed.items():
        if one.tight is not None and one.kind not in (MOVE, DECISION):
            habits[one.kind, one.dtype].append(key)
    return {
        key: _judged(key, one, habits, computed)._replace(assumed=one.assumed)
        for key, one in computed.items()
    }


def beyond(own: OwnError, moves: bool = False) -> float:
    """Return by how many times an error exceeds what is allowed; above 1 it is wrong."""
    if own.odd or own.unequal:
        return math.inf
    if moves:
        # Values that are only moved are those of the input, rounded once at most: half a step is
        # 1.7 standard deviations.
        return own.worst / 2.0
    return max(own.ratio / MOST_RATIO, own.slice_ratio / MOST_SLICE, own.worst / MOST_ELEMENT)


def _judged(
    key: Key,
    one: Recomputed,
    habits: Mapping[object, List[Key]],
    computed: Mapping[Key, Recomputed],
) -> Judged:
    if one.tight is None:
        return Judged(UNKNOWN, None, 0.0, one.reason)
    times = beyond(one.tight, one.kind == MOVE)
    if times <= 1.0:
        off, granted = _off(one.tight), _granted_factor(one)
        if off > granted:
            granted = max(granted, _factor_of_others(_others(one, habits, computed)))
        return (
            Judged(WRONG, one.tight, off / granted, factor=granted)
            if off > granted
            else Judged(RIGHT, one.tight, times)
        )
    if one.loose is None:
        return Judged(WRONG, one.tight, times)
    excused = beyond(one.loose)
    if excused > 1.0:
        return Judged(WRONG, one.loose, excused)
    share = _coarse_share(_others(one, habits, computed))
    # How steps inside are rounded shows in single elements first: near 0, where the type's steps
    # are coarse. So it does in slices where the device is known to compute coarsely.
    between = _between(one.tight.ratio, one.loose.ratio, share) / MOST_RATIO
    if share < SHOWN:
        between = max(
            between, _between(one.tight.slice_ratio, one.loose.slice_ratio, share) / MOST_SLICE
        )
    return (
        Judged(RIGHT, one.loose, excused) if between <= 1.0 else Judged(WRONG, one.tight, between)
    )


def _others(
    one: Recomputed, habits: Mapping[object, List[Key]], computed: Mapping[Key, Recomputed]
) -> List[Recomputed]:
    """Return the outputs of the same kind and type of other operators."""
    return [
        computed[other] for other in habits[one.kind, one.dtype] if computed[other].op != one.op
    ]


def _off(own: OwnError) -> float:
    """Return by how much the factor of all elements differs from 1, 0 where there is none."""
    return abs(own.factor - 1.0) if own.rms > 0 else 0.0


def _granted_factor(one: Recomputed) -> float:
    """Return by how much one factor of all elements may differ from 1, whatever others do; infinity
    where it is not judged.
    """
    own = one.tight
    if own is None or one.kind == MOVE or one.dtype not in _COARSE or not own.rms > 0:
        return math.inf
    kind = ROUNDING[one.dtype]
    half_step = max(2.0 ** -(kind.fraction_bits + 1), kind.step / (2.0 * own.rms))
    return MOST_FACTOR * half_step + MOST_DEVIATIONS * own.factor_deviation


def _factor_of_others(others: List[Recomputed]) -> float:
    """Return by how much the factor of an operator may differ from 1 as others of its kind show it;
    infinity of too few.
    """
    surely = {
        other.op: _off(other.tight) - MOST_DEVIATIONS * other.tight.factor_deviation
        for other in others
        if other.tight is not None
    }
    return MOST_FACTOR * _second(surely.values(), math.inf)


def _coarse_share(others: List[Recomputed]) -> float:
    """Return the share of the coarser arithmetic's error that the device shows in other operators:
    0 where it computes in float32 inside, 1 of too few.

    An operator of few terms shows nothing of it.
    """
    of_each: Dict[str, float] = {}
    for other in others:
        if other.tight is not None:
            of_each[other.op] = max(of_each.get(other.op, 0.0), _share(other.tight, other.loose))
    return _second(of_each.values(), 1.0)


def _second(values: Collection[float], few: float) -> float:
    """Return the second largest number, as one operator may be wrong; of too few ``few``."""
    return sorted(values)[-2] if len(values) >= ENOUGH_OTHERS else few


def _share(tight: OwnError, loose: Optional[OwnError]) -> float:
    """Return by how much of the coarser arithmetic's error an error is explained: e² = tight² +
    share² · (loose² − tight²).
    """
    if loose is None or not tight.ratio > 1.0 or not 0 < loose.ratio < tight.ratio:
        return 0.0
    return min(1.0, math.sqrt((1.0 - tight.ratio**-2) / (loose.ratio**-2 - tight.ratio**-2)))


def _between(tight: float, loose: float, share: float) -> float:
    """Return an error in units of what an arithmetic explains that has a share of the coarser one's
    error.
    """
    if not tight:
        return 0.0
    unit = tight**-2 + (share**2 * max(loose**-2 - tight**-2, 0.0) if loose else 0.0)
    return 1.0 / math.sqrt(unit) if unit > 0 else math.inf
