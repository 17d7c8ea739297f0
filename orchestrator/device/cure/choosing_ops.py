"""How errors of single operators reach the network's outputs, and the fewest operators whose
raising brings these within limits.

The formula is described in docs/design/cure.md. All errors are relative Euclidean distances; those
of different operators know nothing of each other, so that their squares add up.
"""

from __future__ import annotations

import heapq
import math
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from ...base.fast_dataclasses import dataclass

Array = Any

UNBOUNDED = 1e6
"""In the place of an infinite error: no limit is met with it, and sums of squares stay finite."""
LINEAR = 0.3
"""Up to this distance errors add up as small ones do: what is measured then corrects the
estimate.
"""
MARGIN = 0.7
"""Of a limit, what an estimate must stay below (scripts/cure_trial: the device then shows up to
1.31 times the estimate).
"""
NEAR_THE_BEST = 1.1
"""Where all operators together do not bring an output within its limit: how much more than they
leave is as good.
"""


class TensorRead(NamedTuple):
    """What an operator reads: which of the network's tensors, and its share in the output where
    that is a sum (else 1).
    """

    tensor: int
    weight: float = 1.0


@dataclass(frozen=True)
class TensorError:
    """The error of one output of one operator, or of an input of the network.

    Attributes
    ----------
    op
        Its operator; empty for an input of the network, which has no operator to be raised.
    own
        What its operator adds: in float16, with rounded weights.
    rounding
        What of it one rounding of the output alone makes.
    gain
        By what the error of what the operator reads is multiplied.
    reads
        What it reads.
    limit
        The distance that is allowed where it is an output of the network; None for others.
    measured
        Its distance from golden data; NaN where it is not known.
    """

    op: str
    own: float
    rounding: float
    gain: float = 1.0
    reads: Tuple[TensorRead, ...] = ()
    limit: Optional[float] = None
    measured: float = math.nan


class Choice(NamedTuple):
    """What to raise.

    Attributes
    ----------
    units
        Those chosen, what matters most first.
    order
        All units, those that were chosen first, then what was left as it is, the last first.
    before, after
        The largest estimated error of an output in units of its limit, now and with these raised.
    best
        The same with everything raised that may be.
    """

    units: Tuple[str, ...]
    order: Tuple[str, ...]
    before: float
    after: float
    best: float

    @property
    def cures(self) -> bool:
        """Whether the outputs are within limits then, by the estimate."""
        return self.after <= 1.0


class ErrorNetwork:
    """How errors are passed on to the outputs of a network.

    Parameters
    ----------
    tensors
        In the order of execution: each behind all that it reads.
    wide
        Operators that are computed in float32 already, and what is no operator (inputs and outputs
        of the network).
    """

    def __init__(self, tensors: Sequence[TensorError], wide: Iterable[str] = ()) -> None:
        self.tensors = tuple(tensors)
        self.wide: FrozenSet[str] = frozenset([*wide, ""])
        self.outputs = [number for number, one in enumerate(self.tensors) if one.limit is not None]
        self._readers: List[List[Tuple[int, float]]] = [[] for _ in self.tensors]
        for number, one in enumerate(self.tensors):
            for tensor, weight in one.reads:
                self._readers[tensor].append((number, min(one.gain * weight, UNBOUNDED) ** 2))
        self._passed = self._passed_on()
        self._of_op: Dict[str, List[int]] = {}
        for number, one in enumerate(self.tensors):
            self._of_op.setdefault(one.op, []).append(number)
        self._scale = np.ones(len(self.outputs))
        self._scale = self._measured_by_estimated()

    def _passed_on(self) -> Array:
        """Return by how much the square of each tensor's error is multiplied on its way to each
        output, in units of its limit squared.
        """
        passed_on = np.zeros((len(self.tensors), len(self.outputs)))
        for place, number in enumerate(self.outputs):
            limit = self.tensors[number].limit or 0.0
            passed_on[number, place] = 1.0 / max(limit, 1e-12) ** 2
        for number in range(len(self.tensors) - 1, -1, -1):
            for reader, factor in self._readers[number]:
                passed_on[number] += factor * passed_on[reader]
        return np.minimum(passed_on, UNBOUNDED**3)

    def _measured_by_estimated(self) -> Array:
        """Return what the estimate is multiplied by so that it gives the measured distance as
        things are.
        """
        estimated, factors = self.errors(()), np.ones(len(self.outputs))
        for place, number in enumerate(self.outputs):
            one = self.tensors[number]
            if estimated[place] > 0 and 0 < one.measured <= LINEAR:
                factors[place] = (
                    one.measured / max(one.limit or 0.0, 1e-12) / estimated[place]
                ) ** 2
        # Errors that cancel on their way now need not do so when some of them are gone.
        return np.maximum(factors, 1.0)

    def errors(self, raised: Iterable[str]) -> Array:
        """Return the estimated error of each output, in units of its limit, with some operators
        computed in float32.
        """
        return np.sqrt(self._squares(range(len(self.tensors)), {*raised, *self.wide}) * self._scale)

    def contribution(self, op: str) -> float:
        """Return what an operator's own error makes of the worst output's, in units of its
        limit.
        """
        squares = [
            self.tensors[number].own ** 2 * self._passed[number] * self._scale
            for number in self._of_op.get(op, ())
        ]
        return float(np.sqrt(np.sum(squares, axis=0).max(initial=0.0))) if squares else 0.0

    def amplification(self, op: str) -> float:
        """Return by what the error of an operator's output is multiplied on its way to an output of
        the network, at most.
        """
        limits = np.array([self.tensors[number].limit or 0.0 for number in self.outputs]) ** 2
        gains = [
            float((self._passed[number] * limits).max(initial=0.0))
            for number in self._of_op.get(op, ())
        ]
        return math.sqrt(max(gains, default=0.0))

    def _squares(self, numbers: Iterable[int], high: Set[str]) -> Array:
        """Return what some tensors contribute to the square of each output's error."""
        total = np.zeros(len(self.outputs))
        for number in numbers:
            one = self.tensors[number]
            if one.op not in high or one.op in self.wide:
                # Raising takes away no error that is made in float32 already.
                total += one.own**2 * self._passed[number]
            if one.op not in high:
                continue
            # Stored in float32, rounded where an operator reads it that is not computed so.
            for reader, factor in self._readers[number]:
                if self.tensors[reader].op not in high:
                    total += one.rounding**2 * factor * self._passed[reader]
        return total

    def choose(self, units: Mapping[str, Sequence[str]], most: Optional[int] = None) -> Choice:
        """Return the fewest units that bring all outputs within their limits.

        Everything is raised first; then, one after the other, what can be left as it is at the
        least cost is, as long as limits allow. So operators that help only together (a sum that
        cancels, and what it reads) are found, which adding one at a time does not.

        Parameters
        ----------
        units
            What may be raised: by name the operators that are raised together.
        most
            How many at most, whether that suffices or not.
        """
        high: Set[str] = {op for ops in units.values() for op in ops} | self.wide
        now = self._squares(range(len(self.tensors)), high) * self._scale
        allowed = np.maximum(MARGIN**2, now * NEAR_THE_BEST**2)
        best = float(np.sqrt(now.max(initial=0.0)))
        left: List[str] = []
        kept = dict.fromkeys(units)
        for strict in (True, False):
            left += self._lower(
                units, kept, high, now, allowed if strict else None, None if strict else most
            )
            if most is None or len(kept) <= most:
                break
        # What was put back last is what mattered most of what was put back; among those that are
        # kept the cost of each decides.
        ranked = sorted(kept, key=lambda unit: -self._cost(unit, units, high).sum())
        before, after = (float(self.errors(high_ops).max(initial=0.0)) for high_ops in ((), high))
        return Choice(tuple(ranked), (*ranked, *reversed(left)), before, after, best)

    def _lower(
        self,
        units: Mapping[str, Sequence[str]],
        kept: Dict[str, None],
        high: Set[str],
        now: Array,
        allowed: Optional[Array],
        most: Optional[int],
    ) -> List[str]:
        """Put units back, the cheapest first; ``kept``, ``high`` and ``now`` change in place.
        Return those that were put back.
        """
        unit_of = {op: unit for unit in kept for op in units[unit]}
        costs = {unit: self._cost(unit, units, high) for unit in kept}
        waiting = [
            (float(cost.sum()), place, unit) for place, (unit, cost) in enumerate(costs.items())
        ]
        heapq.heapify(waiting)
        places = {unit: place for _, place, unit in waiting}
        gone: List[str] = []
        while waiting and (most is None or len(kept) > most):
            total, _, unit = heapq.heappop(waiting)
            if unit not in kept or total != float(costs[unit].sum()):
                continue
            if allowed is not None and (now + costs[unit] > allowed).any():
                continue
            now += costs[unit]
            del kept[unit]
            gone.append(unit)
            high.difference_update(op for op in units[unit] if op not in self.wide)
            for other in {unit_of.get(op) for op in self._around(units[unit])} & kept.keys():
                costs[str(other)] = cost = self._cost(str(other), units, high)
                heapq.heappush(waiting, (float(cost.sum()), places[str(other)], str(other)))
        return gone

    def _around(self, ops: Iterable[str]) -> Set[str]:
        """Return the operators that read what some make, or make what these read."""
        numbers = [number for op in ops for number in self._of_op.get(op, ())]
        readers = {
            self.tensors[reader].op for number in numbers for reader, _ in self._readers[number]
        }
        return readers | {
            self.tensors[read.tensor].op
            for number in numbers
            for read in self.tensors[number].reads
        }

    def _cost(self, unit: str, units: Mapping[str, Sequence[str]], high: Set[str]) -> Array:
        """Return by how much the squares of the outputs' errors grow where a unit is not raised."""
        ops = [op for op in units[unit] if op not in self.wide]
        numbers = {number for op in ops for number in self._of_op.get(op, ())}
        numbers |= {read.tensor for number in numbers for read in self.tensors[number].reads}
        chosen = sorted(numbers)
        return (
            self._squares(chosen, high.difference(ops)) - self._squares(chosen, high)
        ) * self._scale
