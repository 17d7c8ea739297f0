"""How the operators of a network pass on the errors of what they read, as they were measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ...dumps.place import Place
from ...judging.diagnosis.observed_ops import ObservedOp, ObservedOps
from ...judging.diagnosis.op_input_states import Inputs
from ...judging.limits import Limits
from ...metrics.row import FAIL
from ...model.graph import ModelGraph
from ...model.never_dumped import FIXED_TYPES, INPUT_TYPES
from ...model.op_node import OpNode
from ...run.recomputation import Recomputation
from .choosing_ops import UNBOUNDED, ErrorNetwork, TensorError, TensorRead
from .output_limits import allowed_distance
from .own_errors import OutputErrors, input_errors

_SUMS = ("add", "sub", "eltwise", "bias", "accumulate")
"""Words in the types of operators whose output is a sum of their inputs."""
_JOINS = ("concat", "pack")
"""The same of those whose output holds them side by side."""
_FLOOR = 2.0**-22
"""Relative error of float32 itself: golden data and what is computed are no closer than that."""
_LARGE = 0.1
"""Errors of inputs up to this pass on as smaller ones do."""
# How far an input is followed through operators without rows; a bound of the time, no trial.
_MOST_STEPS_BACK = 32


class ErrorPropagation:
    """The errors of a place's tensors, added operator by operator in the order of execution.

    Parameters
    ----------
    place, graph
        The place, and its model.
    seen, inputs
        Its operators.
    recomputation
        Computes an operator with other inputs, where the measured ones are too far off; None: each
        operator was measured by itself, and its inputs' errors are taken as passed on unchanged.
    """

    def __init__(
        self,
        place: Place,
        graph: ModelGraph,
        seen: ObservedOps,
        inputs: Inputs,
        recomputation: Optional[Recomputation],
    ) -> None:
        self._place, self._graph, self._seen, self._inputs = place, graph, seen, inputs
        self._recomputation = recomputation
        self._numbers: Dict[Tuple[str, int], int] = {}
        self._tensors: List[TensorError] = []
        self._errors: List[OutputErrors] = []
        self._ops: Set[str] = set()
        self._wide: Set[str] = set()

    @property
    def network(self) -> ErrorNetwork:
        """What there is so far."""
        return ErrorNetwork(self._tensors, self._wide)

    def begin(self, name: str, is_wide: bool) -> None:
        """Take an operator as measured, whether or not outputs of it are added; ``is_wide``: it is
        computed in float32.
        """
        self._ops.add(name)
        if is_wide:
            self._wide.add(name)

    def reads(self, node: OpNode, op: ObservedOp) -> List[int]:
        """Return the tensors that an op reads: past Casts, TransDatas, and what was not
        compared.
        """
        tensors: Dict[int, None] = {}
        states = {state.number: state for state in self._inputs.of(op)}
        for number, source in enumerate(node.inputs):
            for tensor in self._sources(node, source, 0):
                if isinstance(tensor, int):
                    tensors.setdefault(tensor)
                    continue
                state = states.get(number)
                off = (
                    state.observation.distance
                    if state is not None and state.observation is not None
                    else 0.0
                )
                tensors.setdefault(self._network_input(tensor, off))
        return list(tensors)

    def distances(self, reads: Sequence[int]) -> List[float]:
        """Return how far tensors are from golden data."""
        return [self._tensors[tensor].measured for tensor in reads]

    def add(self, node: OpNode, number: int, errors: OutputErrors, reads: Sequence[int]) -> None:
        """Add one output of an op."""
        read = []
        # Masked elements count as no error, and a row that is masked throughout makes NaN.
        of_masks = errors.not_finite and not any(self._errors[one].spoiled for one in reads)
        for tensor in reads:
            before = self._errors[tensor]
            weight = _weight(node.type, before.norm, before.elements, errors.norm, errors.elements)
            read.append(TensorRead(tensor, weight))
            if of_masks and self._tensors[tensor].op:
                self._tensors[tensor] = replace(
                    self._tensors[tensor], own=UNBOUNDED, rounding=UNBOUNDED, measured=UNBOUNDED
                )
        gain = self._gain(node, number, errors, read)
        self._numbers[node.name, number] = len(self._tensors)
        self._tensors.append(
            TensorError(
                node.name, errors.own, errors.rounding, gain, tuple(read), None, errors.distance
            )
        )
        self._errors.append(errors)

    def set_limits(self, limits: Limits) -> Tuple[int, int]:
        """Give the outputs of the network their limits; return how many are outside, of how
        many.
        """
        read = {entry.tensor for one in self._tensors for entry in one.reads}
        last: Set[int] = {
            number for number, one in enumerate(self._tensors) if one.op and number not in read
        }
        for node in self._graph.ops:
            if node.type == "NetOutput":
                for source in node.inputs:
                    last.update(
                        entry for entry in self._sources(node, source, 0) if isinstance(entry, int)
                    )
        names = {number: key for key, number in self._numbers.items()}
        failing = 0
        for number in sorted(last):
            name, output = names[number]
            op = self._seen.find(self._place, name)
            row = op.outputs.get(output) if op is not None else None
            if op is None or row is None:
                continue
            tensor = self._tensors[number]
            allowed = allowed_distance(limits, op, row, tensor.measured)
            self._tensors[number] = replace(tensor, limit=allowed)
            failing += row.verdict == FAIL
        return failing, len(last)

    def limited(self) -> Iterator[Tuple[str, int, OutputErrors]]:
        """Yield op, number and errors of each output that has a limit."""
        for (name, output), number in self._numbers.items():
            if self._tensors[number].limit is not None:
                yield name, output, self._errors[number]

    def _gain(
        self, node: OpNode, number: int, errors: OutputErrors, read: Sequence[TensorRead]
    ) -> float:
        """Return by what an op multiplies the error of what it reads, by how that came out; by a
        smaller one where it was too large.
        """
        if not read or self._recomputation is None:
            return 1.0
        arriving = [_arriving(self._tensors[entry.tensor], self._wide, node.name) for entry in read]
        if max(arriving) <= _LARGE and not errors.spoiled and math.isfinite(errors.inherited):
            came = math.sqrt(sum((w.weight * off) ** 2 for w, off in zip(read, arriving)))
            return errors.inherited / math.hypot(came, _FLOOR)
        passed = self._recomputation.error_transfer(self._place, node.name)
        if passed is None or not math.isfinite(passed.outputs.get(number, math.nan)):
            return 1.0
        weighted = (
            off * _weight(node.type, norm, count, errors.norm, errors.elements)
            for off, norm, count in passed.inputs
        )
        return passed.outputs[number] / math.hypot(
            math.sqrt(sum(off**2 for off in weighted)), _FLOOR
        )

    def _sources(
        self, node: OpNode, source: Optional[Tuple[str, int]], steps: int
    ) -> Iterator[Any]:
        """Yield the numbers of the tensors behind an input; the names of inputs of the network."""
        producer = self._graph.producer(node, source[0]) if source is not None else None
        if (
            producer is None
            or source is None
            or producer.type in FIXED_TYPES
            or steps > _MOST_STEPS_BACK
        ):
            return
        if producer.type in INPUT_TYPES:
            yield producer.name
            return
        number = self._numbers.get((producer.name, source[1]))
        if number is not None:
            yield number
            return
        if producer.name in self._ops:
            return  # whole numbers, which carry no such error
        for behind in producer.inputs:
            yield from self._sources(producer, behind, steps + 1)

    def _network_input(self, name: str, distance: float) -> int:
        if (name, -1) not in self._numbers:
            errors = input_errors(distance)
            self._numbers[name, -1] = len(self._tensors)
            self._tensors.append(
                TensorError("", errors.own, errors.rounding, measured=errors.distance)
            )
            self._errors.append(errors)
        return self._numbers[name, -1]


def _weight(op_type: str, norm: float, count: int, made: float, of: int) -> float:
    """Return the share of an input in the output of a sum, by their Euclidean norms and counts of
    elements; 1 of other operators.

    What is smaller than the output is broadcast: it is added to each part of it.
    """
    words = op_type.lower()
    if not norm > 0 or not made > 0 or not any(word in words for word in (*_SUMS, *_JOINS)):
        return 1.0
    times = max(1.0, of / count) if count and any(word in words for word in _SUMS) else 1.0
    return min(math.sqrt(times) * norm / made, UNBOUNDED)


def _arriving(tensor: TensorError, wide: Set[str], reader: str) -> float:
    """Return the error with which a tensor arrives at an operator: what is stored in float32 is
    rounded where float16 reads it.
    """
    measured = min(tensor.measured if tensor.measured == tensor.measured else 0.0, UNBOUNDED)
    stored_wide = bool(tensor.op) and tensor.op in wide and reader not in wide
    return math.hypot(measured, tensor.rounding) if stored_wide else measured
