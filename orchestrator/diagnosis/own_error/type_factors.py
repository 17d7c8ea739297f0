"""Types of operators that are wrong everywhere by the same factor.

The common factor a of an output (target x ≈ a·golden y) follows from that of its input: ln a_out =
c + k·ln a_in. A type is wrong where c is not 0: not by its scatter over the type, nor by what
rounding makes of a factor, and where most operators show it. One wrong operator gives a factor to
the inputs of all that follow, which they hand on, as it came (k = 1) or faded: then k cannot be
told from c. So c must also be seen where nothing of it came in, and several operators must add it
to what came in (all of it, k = 1).
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

from ...metrics.median import median
from ..row_digest import Observation
from .distance_table import DistanceTable
from .estimate import Estimates
from .normal_error import HOPELESS, rounding

Array = Any

# So many operators make a type whose common factor is told, beyond so many standard errors and
# roundings, if this share of them has it; at most so many are looked at, by their time. All
# chosen, no trial of each alone (docs/design/verdict.md has that of the suspects).
ENOUGH = 6
_DEVIATIONS = 6.0
_ROUNDINGS = 3.0
_MOST_PAIRED = 200
_ALIKE = 0.7
_UNTOUCHED = 1.0 / 3.0
"""Of the common factor, what an input may have for its operator to show the factor as its own."""
_ADDING = 3
"""So many operators must add the factor to what came in: one does where it alone is wrong."""
_FORGETTING = frozenset(
    "layernorm layernormv3 rmsnorm instancenorm instancenormv2 groupnorm l2normalize".split()
)
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


def type_factors(estimates: Estimates) -> Dict[str, TypeFactor]:
    """Return the types that are wrong by a common factor."""
    table, usable = estimates.table, np.flatnonzero(_usable(estimates))
    by_type: Dict[str, List[int]] = {}
    for number, kind in zip(usable.tolist(), table.kind[usable].tolist()):
        by_type.setdefault(table.kinds[kind].op_type, []).append(number)
    factors = {}
    for op_type, numbers in by_type.items():
        ops = len({table.kinds[kind].op for kind in set(table.kind[numbers].tolist())})
        if ops >= ENOUGH:
            factor = _factor(table, numbers, ops)
            if factor.sureness > 1.0:
                factors[op_type] = factor
    return factors


def _usable(estimates: Estimates) -> Array:
    """Tell which outputs have one input, and both a factor; [n]."""
    table = estimates.table
    with np.errstate(invalid="ignore"):
        usable = (
            table.inputs_known
            & (table.distances[:, 0] < HOPELESS)
            & (table.by_kind(lambda kind: kind.whole) == 0)
        )
    usable &= ~estimates.marked(lambda entry: entry.follows)
    for number in np.flatnonzero(usable).tolist():
        inputs = table.inputs[number]
        source = inputs[0].observation
        if (
            len(inputs) != 1
            or source is None
            or not (
                table.outputs[number].factor > 0
                and source.factor > 0
                and source.distance < HOPELESS
            )
        ):
            usable[number] = False
    return usable


def _factor(distance_table: DistanceTable, numbers: Sequence[int], ops: int) -> TypeFactor:
    step = -(-len(numbers) // _MOST_PAIRED)
    pairs = [
        (distance_table.inputs[number][0].observation, distance_table.outputs[number])
        for number in numbers[::step]
    ]
    logs = np.array(
        [
            (math.log(source.factor), math.log(output.factor))
            for source, output in pairs
            if source is not None
        ]
    )
    input_logs, output_logs = logs[:, 0], logs[:, 1]
    # The smaller the values, the more rounding makes of them.
    outputs = [distance_table.outputs[number] for number in numbers]
    rounded = max(
        rounding(dtype, min(sizes, default=math.nan)) for dtype, sizes in _sizes(outputs).items()
    )
    op_type = distance_table.ops[numbers[0]].type
    most = 0.0 if op_type.lower() in _FORGETTING else 1.0
    slope = min(_slope(input_logs, output_logs, rounded), most)
    rest = output_logs - slope * input_logs
    middle = median(rest)
    scatter = 1.4826 * median(np.abs(rest - middle))
    allowed = max(_DEVIATIONS * scatter / math.sqrt(len(rest)), _ROUNDINGS * rounded)
    untouched = np.abs(input_logs) <= _UNTOUCHED * abs(middle)
    adding = {
        distance_table.ops[number].name
        for number, adds in zip(numbers[::step], _near(output_logs - most * input_logs, middle))
        if adds
    }
    shown = all(
        near.size and near.mean() >= _ALIKE
        for near in (_near(rest, middle), _near(rest[untouched], middle))
    )
    shown = shown and len(adding) >= _ADDING
    return TypeFactor(math.exp(middle), ops, abs(middle) / allowed if allowed and shown else 0.0)


def _sizes(outputs: Sequence[Observation]) -> Dict[str, List[float]]:
    """Return the root mean squares of outputs, as far as they are above 0, by type."""
    sizes_by_type: Dict[str, List[float]] = {}
    for output in outputs:
        sizes = sizes_by_type.setdefault(output.dtype, [])
        if output.rms > 0:
            sizes.append(output.rms)
    return sizes_by_type


def _near(values: np.ndarray, middle: float) -> np.ndarray:
    """Tell which values are between half of a number and twice as much."""
    return np.abs(values - 1.25 * middle) <= 0.75 * abs(middle)


def _slope(input_logs: np.ndarray, output_logs: np.ndarray, rounded: float) -> float:
    """Return the median of the slopes between all pairs whose inputs differ by more than rounding;
    between 0 and 1, as factors fade.
    """
    left, right = np.triu_indices(len(input_logs), 1)
    apart = input_logs[right] - input_logs[left]
    far = np.abs(apart) > rounded
    if far.sum() < len(input_logs):
        return 1.0
    return float(
        np.clip(median((output_logs[right] - output_logs[left])[far] / apart[far]), 0.0, 1.0)
    )
