"""A type of operator that is wrong everywhere by the same factor: what is normal in its network is wrong then.

The common factor a of an output (target x ≈ a·golden y) follows from that of its input: ln a_out = c + k·ln a_in. A type is wrong where c
is not 0: not by its scatter over the type, nor by what rounding makes of a factor, and where most operators show it. One wrong operator
gives a factor to the inputs of all that follow, which they hand on, as it came (k = 1) or faded: then k cannot be told from c. So c must
also be seen where nothing of it came in, and several operators must add it to what came in (all of it, k = 1).
"""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Sequence

import numpy as np

from ...comparing.median import median
from .estimates import Estimate
from .expected import HOPELESS, rounding

ENOUGH = 6
_DEVIATIONS = 6.0
_ROUNDINGS = 3.0
_MOST_PAIRED = 200
_ALIKE = 0.7
_UNTOUCHED = 1.0 / 3.0
"""Of the common factor, what an input may have for its operator to show the factor as its own."""
_ADDING = 3
"""So many operators must add the factor to what came in: one does where it alone is wrong."""
_FORGETTING = frozenset("layernorm layernormv3 rmsnorm instancenorm instancenormv2 groupnorm l2normalize".split())
"""Types that hand on no factor: they divide by the size of what came in."""


class TypeFactor(NamedTuple):
    """A factor that all operators of a type share.

    Attributes
    ----------
    factor
        Of the output, besides what the input's factor explains.
    ops
        How many operators it was measured on.
    sureness
        By how much it is beyond what scatter and rounding explain; above 1.
    """

    factor: float
    ops: int
    sureness: float


def type_factors(estimates: Sequence[Estimate]) -> Dict[str, TypeFactor]:
    """Return the types that are wrong by a common factor.

    Parameters
    ----------
    estimates
        Of every compared output.
    """
    by_type: Dict[str, List[Estimate]] = {}
    for entry in estimates:
        if _usable(entry):
            by_type.setdefault(entry.op.type, []).append(entry)
    found = {}
    for kind, entries in by_type.items():
        ops = len({entry.op.name for entry in entries})
        if ops >= ENOUGH:
            made = _factor(entries, ops)
            if made.sureness > 1.0:
                found[kind] = made
    return found


def _usable(entry: Estimate) -> bool:
    """Tell whether an output has one input, and both a factor."""
    if entry.fed_otherwise or entry.follows or entry.output.whole or not entry.known:
        return False
    if len(entry.inputs) != 1 or entry.inputs[0].seen is None:
        return False
    fed = entry.inputs[0].seen
    return entry.output.factor > 0 and fed.factor > 0 and entry.output.distance < HOPELESS and fed.distance < HOPELESS


def _factor(entries: Sequence[Estimate], ops: int) -> TypeFactor:
    step = -(-len(entries) // _MOST_PAIRED)
    pairs = [(entry.inputs[0].seen, entry.output) for entry in entries[::step]]
    table = np.array([(math.log(source.factor), math.log(output.factor)) for source, output in pairs if source is not None])
    fed, made = table[:, 0], table[:, 1]
    # The smaller the values, the more rounding makes of them.
    rounded = max(rounding(dtype, min(sizes, default=math.nan)) for dtype, sizes in _sizes(entries).items())
    most = 0.0 if entries[0].op.type.lower() in _FORGETTING else 1.0
    slope = min(_slope(fed, made, rounded), most)
    rest = made - slope * fed
    middle = median(rest)
    scatter = 1.4826 * median(np.abs(rest - middle))
    allowed = max(_DEVIATIONS * scatter / math.sqrt(len(rest)), _ROUNDINGS * rounded)
    untouched = np.abs(fed) <= _UNTOUCHED * abs(middle)
    adding = {entry.op.name for entry, own in zip(entries[::step], _near(made - most * fed, middle)) if own}
    shown = all(some.size and some.mean() >= _ALIKE for some in (_near(rest, middle), _near(rest[untouched], middle)))
    shown = shown and len(adding) >= _ADDING
    return TypeFactor(math.exp(middle), ops, abs(middle) / allowed if allowed and shown else 0.0)


def _sizes(entries: Sequence[Estimate]) -> Dict[str, List[float]]:
    """Return the root mean squares of outputs, as far as they are above 0, by type."""
    found: Dict[str, List[float]] = {}
    for entry in entries:
        sizes = found.setdefault(entry.output.dtype, [])
        if entry.output.rms > 0:
            sizes.append(entry.output.rms)
    return found


def _near(values: np.ndarray, middle: float) -> np.ndarray:
    """Tell which values are between half of a number and twice as much."""
    return np.abs(values - 1.25 * middle) <= 0.75 * abs(middle)


def _slope(fed: np.ndarray, made: np.ndarray, rounded: float) -> float:
    """Return the median of the slopes between all pairs whose inputs differ by more than rounding; between 0 and 1, as factors fade."""
    left, right = np.triu_indices(len(fed), 1)
    apart = fed[right] - fed[left]
    far = np.abs(apart) > rounded
    if far.sum() < len(fed):
        return 1.0
    return float(np.clip(median((made[right] - made[left])[far] / apart[far]), 0.0, 1.0))
