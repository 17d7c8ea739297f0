"""Computes the outputs of a piece in parts and compares them with the device's: bounds memory, and
each part fits the cache.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import operators
from ..base.element_types import element_count
from ..operators import Arithmetic, CannotCompute, Value
from .output_error import Measure, OwnError, decided_error
from .piece import Cuts, Part, Piece
from .recomputed_output import NotComputable, OtherShape
from .recorded_tensor import RecordedTensor, count_of, widened

Array = Any
Key = Tuple[int, int]

MOST_BYTES = 1 << 30
"""The memory that computing one operator may take."""
_PART_ELEMENTS = 1 << 20
"""Bytes of the tensors of a part: intermediate values fit the caches.
"""
_ELEMENT_BYTES = 64
"""What computing takes for each element of an operator's tensors, its errors included: measured on
Add of float32, 60.
"""
_MOVED_BYTES = 24
"""The same of operators that only move values: measured on Pad and DepthToSpace of float16, 10."""


class Output(NamedTuple):
    """An output of a piece: which of its values, and the device's."""

    value: Key
    tensor: RecordedTensor


class OutputComparison(NamedTuple):
    """The error of an output; ``decided``: it consists of decisions; ``whole``: all parts were
    compared.
    """

    error: OwnError
    decided: bool
    whole: bool = True


class PartwiseComparison:
    """Compares the outputs of a piece with the device's, in parts where they are large.

    Parameters
    ----------
    piece
        What is computed.
    inputs
        The values that come in.
    outputs
        What is compared.
    most_bytes
        Of memory.

    Raises
    ------
    NotComputable
        It would take more memory, and cannot be computed in parts.
    """

    def __init__(
        self,
        piece: Piece,
        inputs: Mapping[Key, RecordedTensor],
        outputs: Sequence[Output],
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._piece, self._inputs, self._outputs, self._most = (
            piece,
            dict(inputs),
            list(outputs),
            most_bytes,
        )
        for tensor in [*inputs.values(), *(output.tensor for output in outputs)]:
            if tensor.shape is None:
                require_readable(tensor, most_bytes)
                tensor.whole()
        self._axis = 0
        self._element_bytes = _MOVED_BYTES if piece.moves else _ELEMENT_BYTES
        self._parts: List[Optional[Part]] = self._planned()

    def _planned(self) -> List[Optional[Part]]:
        tensors = [*self._inputs.values(), *(output.tensor for output in self._outputs)]
        elements = sum(count_of(tensor.shape) for tensor in tensors)
        fits = self._element_bytes * elements <= self._most
        if fits and elements <= _PART_ELEMENTS:
            return [None]
        plans = []
        if len(self._outputs) == 1 and self._outputs[0].tensor.shape is not None:
            shapes = {
                value: tensor.shape
                for value, tensor in self._inputs.items()
                if tensor.shape is not None
            }
            for axis, cuts in self._piece.cuts(self._outputs[0].value, shapes).items():
                plans.append(self._part_plan(axis, cuts))
        if fits:
            plans = [plan for plan in plans if plan.fast]
        plans = [
            plan
            for plan in plans
            if plan.cuts.length > 1 and plan.bytes_of(plan.block, self._element_bytes) <= self._most
        ]
        # What is needed whole is worked on in each part again: a convolution in parts of its
        # filters lays out all windows each time.
        best = min(
            plans, key=lambda plan: (plan.whole, plan.kept_bytes, -plan.cuts.length), default=None
        )
        if best is None:
            return self._one_part(elements)
        # What lies in files as a block of C0 channels is read so.
        length = best.cuts.length
        part_elements = (
            min(
                _PART_ELEMENTS if best.fast else elements,
                (self._most - best.kept_bytes) // self._element_bytes,
            )
            - best.beyond
        )
        step = max(1, part_elements * length // max(1, best.elements) // best.block) * best.block
        self._axis = best.axis
        return [
            best.cuts.part(first, min(first + step, length)) for first in range(0, length, step)
        ]

    def _one_part(self, elements: int) -> List[Optional[Part]]:
        _require_elements(elements, self._most, self._element_bytes)
        return [None]

    def _part_plan(self, axis: int, cuts: Cuts) -> _PartPlan:
        """Return what computing in parts along an axis would take."""
        cut_tensors: List[Tuple[Optional[int], RecordedTensor]] = [
            (input_axis, self._inputs[value])
            for value, input_axis in cuts.inputs.items()
            if input_axis is not None
        ]
        output = self._outputs[0].tensor
        whole_tensors = [
            self._inputs[value] for value, input_axis in cuts.inputs.items() if input_axis is None
        ]
        # Whole ones are kept as they are recorded, and as float32; reading turns them once.
        kept_bytes = sum(
            2 * tensor.stored_bytes + 4 * count_of(tensor.shape) for tensor in whole_tensors
        )
        follows_axis = (
            output.shape is not None
            and len(output.shape) > axis
            and output.shape[axis] == cuts.length
        )
        cut_tensors.append((axis if follows_axis else None, output))
        whole = [
            tensor
            for input_axis, tensor in cut_tensors
            if input_axis is None or tensor.axis != input_axis
        ]
        kept_bytes += sum(2 * tensor.stored_bytes for tensor in whole)
        blocks = [tensor.block for input_axis, tensor in cut_tensors if tensor not in whole]
        elements = sum(count_of(tensor.shape) for _, tensor in cut_tensors) + len(
            self._piece.calls
        ) * count_of(output.shape)
        middle = cuts.part(cuts.length // 2, cuts.length // 2 + 1).ranges
        beyond = 0
        for value, input_axis in cuts.inputs.items():
            if input_axis is not None:
                count, size = count_of(self._inputs[value].shape), cuts.sizes[value]
                beyond += max(
                    0, (middle[value][1] - middle[value][0]) * count // size - count // cuts.length
                )
        uncut = sum(count_of(tensor.shape) for tensor in whole_tensors)
        return _PartPlan(
            axis, cuts, not whole, uncut, kept_bytes, elements, beyond, max(blocks, default=1)
        )

    def measure(self, arithmetic: Arithmetic, hasty: bool = False) -> List[OutputComparison]:
        """Return how each output differs from what is computed.

        Parameters
        ----------
        hasty
            Stop as soon as a part shows that the error is :attr:`OwnError.doubtful`.

        Raises
        ------
        CannotCompute, NotComputable, NotComparable, GoldwatchError
            It cannot be computed, or a tensor cannot be read.
        """
        try:
            return self._measured(arithmetic, hasty)
        except CannotCompute:
            if self._parts == [None]:
                raise
            self._parts = self._one_part(
                sum(
                    count_of(tensor.shape)
                    for tensor in [*self._inputs.values(), self._outputs[0].tensor]
                )
            )
            return self._measured(arithmetic, hasty)

    def _measured(self, arithmetic: Arithmetic, hasty: bool) -> List[OutputComparison]:
        sums: List[Optional[_PartSum]] = [None] * len(self._outputs)
        for number, part in enumerate(self._parts):
            values = self._piece.values(self._incoming(part), arithmetic, part)
            for index, output in enumerate(self._outputs):
                value = values.get(output.value)
                if value is None:
                    raise CannotCompute("its output %d is not computed here" % output.value[1])
                sums[index] = self._add(sums[index], output, value, values, part)
            if (
                hasty
                and not number
                and len(self._parts) > 1
                and any(part_sum is not None and part_sum.doubtful for part_sum in sums)
            ):
                return [part_sum.result(False) for part_sum in sums if part_sum is not None]
        return [part_sum.result(True) for part_sum in sums if part_sum is not None]

    def _incoming(self, part: Optional[Part]) -> Dict[Key, Array]:
        fed = {}
        for value, tensor in self._inputs.items():
            axis = None if part is None else part.cuts.inputs.get(value)
            fed[value] = (
                tensor.wide()
                if part is None or axis is None
                else widened(tensor.part(axis, *part.ranges[value]))
            )
        return fed

    def _add(
        self,
        earlier_sum: Optional[_PartSum],
        output: Output,
        value: Value,
        values: Mapping[Key, Value],
        part: Optional[Part],
    ) -> _PartSum:
        shape = tuple(value.array.shape)
        whole = shape
        if part is not None:
            if len(shape) <= self._axis or shape[self._axis] != part.last - part.first:
                raise CannotCompute("a part of it has the shape %s" % (shape,))
            whole = shape[: self._axis] + (part.cuts.length,) + shape[self._axis + 1 :]
        if part is None and self._piece.counts:
            counted = self._counted(output, values, value)
            if counted is not None:
                return _PartSum(whole, output.tensor.name, True, counted)
        actual = self._actual(output.tensor, whole, part)
        first = tuple(
            0 if part is None or axis != self._axis else part.first for axis in range(len(shape))
        )
        decided = value.array.dtype.kind != "f" or actual.dtype.kind != "f"
        # Of so few numbers each is a decision, but for what sums.
        decided |= self._piece.decides and "float8" in output.tensor.name
        part_sum = (
            earlier_sum if earlier_sum is not None else _PartSum(whole, output.tensor.name, decided)
        )
        if part_sum.shape != whole:
            raise CannotCompute("parts of it have the shapes %s and %s" % (part_sum.shape, whole))
        if decided:
            part_sum.add_decided(self._wrong(output, values, value, actual, part), first)
        else:
            part_sum.measure.add(actual, value, first)
        return part_sum

    def _counted(
        self, output: Output, values: Mapping[Key, Value], value: Value
    ) -> Optional[OwnError]:
        """Return the error of an output whose length depends on values (boxes that stay, places
        that are not 0); None where another number of axes is all that is known of it.
        """
        actual = output.tensor.whole()
        if actual.ndim != value.array.ndim:
            return None
        wrong = self._wrong(output, values, value, actual, None)
        lengths = [
            sizes for sizes in zip(actual.shape, value.array.shape) if len(set(sizes)) > 1
        ] or [actual.shape[:1] * 2]
        error = decided_error(int(np.count_nonzero(wrong)), wrong.size)
        return error._replace(counts=lengths[0])

    def _actual(
        self, tensor: RecordedTensor, whole: Tuple[int, ...], part: Optional[Part]
    ) -> Array:
        if tensor.shape is not None and part is not None and tensor.shape == whole:
            return tensor.part(self._axis, part.first, part.last)
        values = reshaped_output(tensor.whole(), whole)
        return (
            values
            if part is None
            else values[(slice(None),) * self._axis + (slice(part.first, part.last),)]
        )

    def _wrong(
        self,
        output: Output,
        values: Mapping[Key, Value],
        value: Value,
        actual: Array,
        part: Optional[Part],
    ) -> Array:
        last, _ = self._piece.calls[-1]
        number, index = output.value
        if last == number and self._piece.decides:
            node, inputs = self._piece.inputs_of_last(values, part)
            outputs: List[Optional[Array]] = [None] * (index + 1)
            outputs[index] = actual
            wrong = operators.check(node, inputs, outputs)[index]
            if wrong is not None:
                return wrong
        return np.asarray(actual) != value.array


def reshaped_output(values: Array, shape: Tuple[int, ...]) -> Array:
    """Return an output of the device in the shape of the computed one.

    Raises
    ------
    NotComputable
        It has another number of elements.
    """
    if values.shape != shape and values.size != element_count(shape):
        raise OtherShape(
            "its output has the shape %s, what is computed %s" % (list(values.shape), list(shape))
        )
    return values.reshape(shape)


def copied_error(
    source: RecordedTensor,
    output: RecordedTensor,
    cast: Callable[[Array], Array] = lambda values: values,
) -> OwnError:
    """Return the error of an output that is its input but for type and layout.

    Parameters
    ----------
    cast
        What the original model makes of the values.

    Raises
    ------
    NotComputable
        They are no floats, or differ in their numbers of elements.
    NotComparable, GoldwatchError
        A tensor cannot be read.
    """
    axis = (
        source.axis
        if source.shape is not None and source.shape == output.shape and source.axis == output.axis
        else None
    )
    if axis is None or source.shape is None:
        require_readable(source)
        require_readable(output)
        expected, actual = source.whole(), output.whole()
        whole, ranges, axis = expected.shape, [(0, 1)], -1
    else:
        whole, length = source.shape, source.shape[axis]
        step = -(-max(1, _PART_ELEMENTS * length // count_of(whole)) // source.block) * source.block
        ranges = [(first, min(first + step, length)) for first in range(0, length, step)]
    measure = Measure(whole, output.name)
    for first, last in ranges:
        if axis >= 0:
            expected, actual = source.part(axis, first, last), output.part(axis, first, last)
        if expected.dtype.kind != "f" or actual.dtype.kind != "f":
            raise NotComputable("it converts between other types than floats")
        if actual.size != expected.size:
            raise NotComputable(
                "its output has the shape %s, its input %s"
                % (list(actual.shape), list(expected.shape))
            )
        measure.add(
            actual.reshape(expected.shape),
            Value(cast(widened(expected))),
            tuple(first * (n == axis) for n in range(len(whole))),
        )
    return measure.result()


def require_readable(tensor: RecordedTensor, most_bytes: int = MOST_BYTES) -> None:
    """Raise NotComputable if a tensor cannot be read whole and converted to its original layout."""
    if 4 * tensor.stored_bytes > most_bytes:
        raise NotComputable("a tensor of %d bytes cannot be read in parts" % tensor.stored_bytes)


def require_memory(tensors: Sequence[RecordedTensor], most_bytes: int = MOST_BYTES) -> None:
    """Raise NotComputable if there is not enough memory to compute with all tensors at once."""
    _require_elements(
        sum(
            element_count(tensor.whole().shape) if tensor.shape is None else count_of(tensor.shape)
            for tensor in tensors
        ),
        most_bytes,
    )


def _require_elements(elements: int, most_bytes: int, element_bytes: int = _ELEMENT_BYTES) -> None:
    if element_bytes * elements > most_bytes:
        message = (
            "its tensors have %d elements, more than can be computed at once in %d MiB, and it "
            "cannot be computed in parts that fit"
        )
        raise NotComputable(message % (elements, most_bytes >> 20))


class _PartPlan(NamedTuple):
    """What computing in parts along an axis of the output would take.

    Attributes
    ----------
    axis, cuts
        What is cut.
    fast
        What is cut can be read in parts.
    whole
        Elements of inputs that every part needs whole.
    kept_bytes
        Of tensors that are kept whole.
    elements
        Of the others, and of what is made of them.
    beyond
        How many of these a part needs besides its share: where windows reach over its borders.
    block
        How many indices are read together.
    """

    axis: int
    cuts: Cuts
    fast: bool
    whole: int
    kept_bytes: int
    elements: int
    beyond: int
    block: int

    def bytes_of(self, step: int, element_bytes: int) -> int:
        """Return the memory of a part of this many indices."""
        return self.kept_bytes + element_bytes * (
            self.beyond + self.elements * step // self.cuts.length
        )


class _PartSum:
    """The error of an output, summed over its parts."""

    def __init__(
        self,
        shape: Tuple[int, ...],
        dtype: str,
        decided: bool,
        counted: Optional[OwnError] = None,
    ) -> None:
        self.shape, self.decided = shape, decided
        self.measure = Measure(shape, dtype)
        self._counted = counted
        self._wrong = self._count = self._first = 0

    def add_decided(self, wrong: Array, first: Tuple[int, ...]) -> None:
        """Add the decisions of a part: for each whether it does not follow."""
        flags = np.asarray(wrong)
        if flags.any():
            index = np.unravel_index(int(np.argmax(flags)), flags.shape)
            at = (
                int(
                    np.ravel_multi_index(
                        [start + int(n) for start, n in zip(first, index)], self.shape
                    )
                )
                if self.shape
                else 0
            )
            self._first = min(self._first, at) if self._wrong else at
        self._wrong += int(np.count_nonzero(flags))
        self._count += flags.size

    @property
    def doubtful(self) -> bool:
        """Whether an error that is more than one rounding shows already."""
        return not self.decided and is_suspicious(self.measure.result())

    def result(self, whole: bool) -> OutputComparison:
        """Return the error of all parts so far."""
        if self._counted is not None:
            return OutputComparison(self._counted, True, whole)
        if self.decided:
            return OutputComparison(
                decided_error(self._wrong, self._count, self._first), True, whole
            )
        return OutputComparison(self.measure.result(), False, whole)


def is_suspicious(error: OwnError) -> bool:
    """Return whether an error exceeds one rounding."""
    return error.doubtful or error.not_finite > 0
