"""Outputs of a piece computed in parts and compared with the device's, so that memory stays bounded
and what is worked on in the cache.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import operators
from ..elements import element_count
from ..operators import Arithmetic, CannotCompute, Value
from .evaluating import Cuts, Part, Piece
from .held import Held, count_of, widened
from .measured import Measure, OwnError, decided_error
from .original import NotComputable

Array = Any
Key = Tuple[int, int]

MOST_BYTES = 1 << 30
"""What computing one operator may take."""
_PART_ELEMENTS = 1 << 20
"""Of the tensors of a part, where they are read in parts: what is made of them stays in the
caches.
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
    held: Held


class Compared(NamedTuple):
    """How an output differs from what is computed; ``decided``: of decisions; ``whole``: all parts
    were looked at.
    """

    own: OwnError
    decided: bool
    whole: bool = True


class ByParts:
    """A piece and its recorded tensors.

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
        inputs: Mapping[Key, Held],
        outputs: Sequence[Output],
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._piece, self._inputs, self._outputs, self._most = (
            piece,
            dict(inputs),
            list(outputs),
            most_bytes,
        )
        for held in [*inputs.values(), *(output.held for output in outputs)]:
            if held.shape is None:
                require_readable(held, most_bytes)
                held.whole()
        self._axis = 0
        self._element_bytes = _MOVED_BYTES if piece.moves else _ELEMENT_BYTES
        self._parts: List[Optional[Part]] = self._planned()

    def _planned(self) -> List[Optional[Part]]:
        held = [*self._inputs.values(), *(output.held for output in self._outputs)]
        elements = sum(count_of(one.shape) for one in held)
        fits = self._element_bytes * elements <= self._most
        if fits and elements <= _PART_ELEMENTS:
            return [None]
        ways = []
        if len(self._outputs) == 1 and self._outputs[0].held.shape is not None:
            shapes = {
                value: one.shape for value, one in self._inputs.items() if one.shape is not None
            }
            for axis, cuts in self._piece.cuts(self._outputs[0].value, shapes).items():
                ways.append(self._way(axis, cuts))
        if fits:
            ways = [way for way in ways if way.fast]
        ways = [
            way
            for way in ways
            if way.cuts.length > 1 and way.bytes_of(way.block, self._element_bytes) <= self._most
        ]
        # What is needed whole is worked on in each part again: a convolution in parts of its
        # filters lays out all windows each time.
        best = min(
            ways, key=lambda way: (way.whole, way.kept_bytes, -way.cuts.length), default=None
        )
        if best is None:
            return self._at_once(elements)
        # What lies in files as a block of C0 channels is read so.
        length = best.cuts.length
        most = (
            min(
                _PART_ELEMENTS if best.fast else elements,
                (self._most - best.kept_bytes) // self._element_bytes,
            )
            - best.beyond
        )
        step = max(1, most * length // max(1, best.elements) // best.block) * best.block
        self._axis = best.axis
        return [
            best.cuts.part(first, min(first + step, length)) for first in range(0, length, step)
        ]

    def _at_once(self, elements: int) -> List[Optional[Part]]:
        _require(elements, self._most, self._element_bytes)
        return [None]

    def _way(self, axis: int, cuts: Cuts) -> _Way:
        """Return what computing in parts along an axis would take."""
        cut: List[Tuple[Optional[int], Held]] = [
            (own, self._inputs[value]) for value, own in cuts.inputs.items() if own is not None
        ]
        out = self._outputs[0].held
        kept = [self._inputs[value] for value, own in cuts.inputs.items() if own is None]
        # Whole ones are kept as they are recorded, and as float32; reading turns them once.
        bytes_kept = sum(2 * one.stored_bytes + 4 * count_of(one.shape) for one in kept)
        alike = out.shape is not None and len(out.shape) > axis and out.shape[axis] == cuts.length
        cut.append((axis if alike else None, out))
        whole = [one for own, one in cut if own is None or one.axis != own]
        bytes_kept += sum(2 * one.stored_bytes for one in whole)
        blocks = [one.block for own, one in cut if one not in whole]
        elements = sum(count_of(one.shape) for _, one in cut) + len(self._piece.calls) * count_of(
            out.shape
        )
        middle = cuts.part(cuts.length // 2, cuts.length // 2 + 1).ranges
        beyond = 0
        for value, own in cuts.inputs.items():
            if own is not None:
                count, size = count_of(self._inputs[value].shape), cuts.sizes[value]
                beyond += max(
                    0, (middle[value][1] - middle[value][0]) * count // size - count // cuts.length
                )
        uncut = sum(count_of(one.shape) for one in kept)
        return _Way(
            axis, cuts, not whole, uncut, bytes_kept, elements, beyond, max(blocks, default=1)
        )

    def measure(self, arithmetic: Arithmetic, hasty: bool = False) -> List[Compared]:
        """Return how each output differs from what is computed.

        Parameters
        ----------
        hasty
            Stop where the first part shows that the error is :attr:`OwnError.doubtful`.

        Raises
        ------
        CannotCompute, NotComputable, NotComparable, GoldwatchError
            It cannot be computed, or a tensor cannot be read.
        """
        try:
            return self._measured(arithmetic, hasty)
        except (CannotCompute, NotComputable):
            if self._parts == [None]:
                raise
            self._parts = self._at_once(
                sum(count_of(one.shape) for one in [*self._inputs.values(), self._outputs[0].held])
            )
            return self._measured(arithmetic, hasty)

    def _measured(self, arithmetic: Arithmetic, hasty: bool) -> List[Compared]:
        found: List[Optional[_Sum]] = [None] * len(self._outputs)
        for number, part in enumerate(self._parts):
            made = self._piece.values(self._fed(part), arithmetic, part)
            for at, output in enumerate(self._outputs):
                value = made.get(output.value)
                if value is None:
                    raise CannotCompute("its output %d is not computed here" % output.value[1])
                found[at] = self._add(found[at], output, value, made, part)
            if (
                hasty
                and not number
                and len(self._parts) > 1
                and any(one is not None and one.doubtful for one in found)
            ):
                return [one.result(False) for one in found if one is not None]
        return [one.result(True) for one in found if one is not None]

    def _fed(self, part: Optional[Part]) -> Dict[Key, Array]:
        fed = {}
        for value, held in self._inputs.items():
            axis = None if part is None else part.cuts.inputs.get(value)
            fed[value] = (
                held.wide()
                if part is None or axis is None
                else widened(held.part(axis, *part.ranges[value]))
            )
        return fed

    def _add(
        self,
        before: Optional[_Sum],
        output: Output,
        value: Value,
        made: Mapping[Key, Value],
        part: Optional[Part],
    ) -> _Sum:
        shape = tuple(value.array.shape)
        whole = shape
        if part is not None:
            if len(shape) <= self._axis or shape[self._axis] != part.last - part.first:
                raise CannotCompute("a part of it has the shape %s" % (shape,))
            whole = shape[: self._axis] + (part.cuts.length,) + shape[self._axis + 1 :]
        actual = self._actual(output.held, whole, part)
        first = tuple(
            0 if part is None or axis != self._axis else part.first for axis in range(len(shape))
        )
        decided = value.array.dtype.kind != "f" or actual.dtype.kind != "f"
        found = before if before is not None else _Sum(whole, output.held.name, decided)
        if found.shape != whole:
            raise CannotCompute("parts of it have the shapes %s and %s" % (found.shape, whole))
        if decided:
            found.add_decided(self._wrong(output, made, value, actual, part), first)
        else:
            found.measure.add(actual, value, first)
        return found

    def _actual(self, held: Held, whole: Tuple[int, ...], part: Optional[Part]) -> Array:
        if held.shape is not None and part is not None and held.shape == whole:
            return held.part(self._axis, part.first, part.last)
        values = shaped_as(held.whole(), whole)
        return (
            values
            if part is None
            else values[(slice(None),) * self._axis + (slice(part.first, part.last),)]
        )

    def _wrong(
        self,
        output: Output,
        made: Mapping[Key, Value],
        value: Value,
        actual: Array,
        part: Optional[Part],
    ) -> Array:
        last, _ = self._piece.calls[-1]
        number, index = output.value
        if last == number and self._piece.decides:
            node, inputs = self._piece.inputs_of_last(made, part)
            outputs: List[Optional[Array]] = [None] * (index + 1)
            outputs[index] = actual
            wrong = operators.check(node, inputs, outputs)[index]
            if wrong is not None:
                return wrong
        return np.asarray(actual) != value.array


def shaped_as(values: Array, shape: Tuple[int, ...]) -> Array:
    """Return an output of the device in the shape of what is computed.

    Raises
    ------
    NotComputable
        It has another number of elements.
    """
    if values.shape != shape and values.size != element_count(shape):
        raise NotComputable(
            "its output has the shape %s, what is computed %s" % (list(values.shape), list(shape))
        )
    return values.reshape(shape)


def copied_error(source: Held, made: Held) -> OwnError:
    """Return the error of an output that is its input but for type and layout.

    Raises
    ------
    NotComputable
        They are no floats, or differ in their numbers of elements.
    NotComparable, GoldwatchError
        A tensor cannot be read.
    """
    axis = (
        source.axis
        if source.shape is not None and source.shape == made.shape and source.axis == made.axis
        else None
    )
    if axis is None or source.shape is None:
        require_readable(source)
        require_readable(made)
        expected, actual = source.whole(), made.whole()
        whole, ranges, axis = expected.shape, [(0, 1)], -1
    else:
        whole, length = source.shape, source.shape[axis]
        step = -(-max(1, _PART_ELEMENTS * length // count_of(whole)) // source.block) * source.block
        ranges = [(first, min(first + step, length)) for first in range(0, length, step)]
    measure = Measure(whole, made.name)
    for first, last in ranges:
        if axis >= 0:
            expected, actual = source.part(axis, first, last), made.part(axis, first, last)
        if expected.dtype.kind != "f" or actual.dtype.kind != "f":
            raise NotComputable("it converts between other types than floats")
        if actual.size != expected.size:
            raise NotComputable(
                "its output has the shape %s, its input %s"
                % (list(actual.shape), list(expected.shape))
            )
        measure.add(
            actual.reshape(expected.shape),
            Value(widened(expected)),
            tuple(first * (n == axis) for n in range(len(whole))),
        )
    return measure.result()


def require_readable(held: Held, most_bytes: int = MOST_BYTES) -> None:
    """Raise NotComputable where a tensor cannot be read as a whole, its layout undone."""
    if 4 * held.stored_bytes > most_bytes:
        raise NotComputable("a tensor of %d bytes cannot be read in parts" % held.stored_bytes)


def require_memory(held: Sequence[Held], most_bytes: int = MOST_BYTES) -> None:
    """Raise NotComputable where tensors cannot be computed with at once."""
    _require(
        sum(
            element_count(one.whole().shape) if one.shape is None else count_of(one.shape)
            for one in held
        ),
        most_bytes,
    )


def _require(elements: int, most_bytes: int, element_bytes: int = _ELEMENT_BYTES) -> None:
    if element_bytes * elements > most_bytes:
        message = (
            "its tensors have %d elements, more than can be computed at once in %d MiB, and it "
            "cannot be computed in parts that fit"
        )
        raise NotComputable(message % (elements, most_bytes >> 20))


class _Way(NamedTuple):
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
        """Return what a part of so many indices takes."""
        return self.kept_bytes + element_bytes * (
            self.beyond + self.elements * step // self.cuts.length
        )


class _Sum:
    """What the parts of an output come to."""

    def __init__(self, shape: Tuple[int, ...], dtype: str, decided: bool) -> None:
        self.shape, self.decided = shape, decided
        self.measure = Measure(shape, dtype)
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
        return not self.decided and suspicious(self.measure.result())

    def result(self, whole: bool) -> Compared:
        """Return what it comes to."""
        if self.decided:
            return Compared(decided_error(self._wrong, self._count, self._first), True, whole)
        return Compared(self.measure.result(), False, whole)


def suspicious(own: OwnError) -> bool:
    """Tell whether one rounding does not explain an error."""
    return own.doubtful or own.odd > 0
