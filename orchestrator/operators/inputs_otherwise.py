"""What any operator may compute of its inputs taken otherwise: left out, exchanged, in another
order, of other nodes, or rounded to narrower types.
"""

from __future__ import annotations

from itertools import permutations
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from .registry import Inputs, Node, parts_of
from .splittable_axes import Window
from .value_with_error import Value
from .variants import AS_IT_IS, MOST_ORDERED, Variant, input_name, replaced, text_of

Array = Any
_BROADCASTING = frozenset(["Add", "Sub", "Mul"])
_MOST_PARTS = 64
"""Of an axis that may be interleaved by any number of parts; chosen by time, no trial."""
_MOST_GROUPS = 4
"""Of an axis, of which one may stand for all; chosen by time, no trial."""
_MOST_TURNED = 1 << 20
"""Elements of an input whose values are taken in other orders; chosen by time, no trial."""


def _turned(array: Array) -> Iterator[Tuple[str, Callable[[Array], Array]]]:
    """Yield an array's values in other orders: each keeps its shape."""
    shape = array.shape
    for axis, length in enumerate(shape):
        if length < 2:
            continue
        along = "" if array.ndim == 1 else " along axis %d" % axis
        yield "reversed" + along, lambda x, at=axis: np.flip(x, at)  # type: ignore[misc]
        parts_of = [length // parts for parts in (2, 3) if length % parts == 0 and length > parts]
        for step in (1, -1, *parts_of, *(-one for one in parts_of[1:])) if length > 2 else ():
            words = "rolled by %+d%s" % (step, along)
            yield words, lambda x, at=axis, by=step: np.roll(x, by, at)  # type: ignore[misc]
        for other in range(axis):
            if shape[other] == length:
                words = "with axes %d and %d exchanged" % (other, axis)
                yield words, lambda x, a=axis, b=other: np.swapaxes(x, a, b)  # type: ignore[misc]
        yield (
            "its first index%s for all" % along,
            lambda x, at=axis: np.repeat(np.take(x, [0], at), x.shape[at], at),  # type: ignore[misc]
        )
        for parts in range(2, _MOST_GROUPS + 1):
            if length % parts == 0 and length > parts:
                yield (
                    "the first of its %d parts%s for all" % (parts, along),
                    lambda x, at=axis, n=parts: np.concatenate([np.split(x, n, at)[0]] * n, at),  # type: ignore[misc]
                )
        for parts in range(2, length // 2 + 1 if length <= _MOST_PARTS else 3):
            if length % parts == 0:
                yield (
                    "with %d parts interleaved%s" % (parts, along),
                    lambda x, at=axis, n=parts: np.take(  # type: ignore[misc]
                        x, np.arange(x.shape[at]).reshape(n, -1).T.reshape(-1), at
                    ),
                )
    long = [axis for axis in range(array.ndim) if shape[axis] > 1]
    for order in permutations(long) if 1 < len(long) <= MOST_ORDERED else ():
        if list(order) != long:
            full = list(range(array.ndim))
            for place, axis in zip(long, order):
                full[place] = axis
            stored = [shape[axis] for axis in full]
            if stored != list(shape):
                yield (
                    "stored with its axes in the order %s, and read in its own" % text_of(full),
                    lambda x, by=full: x.transpose(by).reshape(x.shape),  # type: ignore[misc]
                )
            yield (
                "read as if it were stored with its axes in the order %s" % text_of(full),
                lambda x, to=stored, by=full: x.reshape(to).transpose(np.argsort(by)),  # type: ignore[misc]
            )


_VALUES: Sequence[Tuple[str, str, Callable[[Array], Array]]] = (
    ("f", "of the other sign", np.negative),
    ("fi", "without its sign", np.abs),
    ("iu", "one more", lambda array: array + 1),
    ("iu", "one less", lambda array: array - 1),
    ("i", "0 for what is negative", lambda array: np.maximum(array, 0)),
    ("b", "inverted", np.logical_not),
)
"""By the kinds of their types, what may become of the values of an input."""
_SIZES: Sequence[Tuple[str, Callable[[Array], Array]]] = (
    ("its reciprocal", np.reciprocal),
    ("its root", np.sqrt),
    ("its square", np.square),
    ("doubled", lambda array: array * 2),
    ("halved", lambda array: array / 2),
    ("0 throughout", np.zeros_like),
)
"""What may become of the values of weights, scales and exponents."""
_NORMALISING = frozenset([
    "LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
    "MeanVarianceNormalization", "LpNormalization", "SimplifiedLayerNormalization",
])  # fmt: skip
_NORMALISED_TO_NOTHING = (
    ("0 throughout, as where its variance is beyond the type's range", np.zeros_like),
)
"""What a normalised input comes to where what it is divided by is infinite."""
ARITHMETIC = "the arithmetic"
"""How variants are named that round to narrower types inside."""
NARROWED = ("rounded to float16", "rounded to bfloat16")
"""What may become of constants that a narrower type holds."""
_FLOAT16_MAX = 65504.0
BEYOND_FLOAT16: Sequence[Tuple[str, Callable[[Array], Array]]] = (
    (
        "holding Inf for what float16 cannot hold",
        lambda array: np.where(np.abs(array) > _FLOAT16_MAX, np.copysign(np.inf, array), array),
    ),
    (
        "cut at the largest number of float16",
        lambda array: np.clip(array, -_FLOAT16_MAX, _FLOAT16_MAX),
    ),
)
"""What may become of values that float16 cannot hold."""


def other_inputs(node: Node, inputs: Inputs) -> Iterator[Variant]:
    """Yield any node with its inputs taken otherwise: one left out or in the place of another, its
    values in another order, of another sign.
    """
    for number, value in enumerate(inputs):
        if value is None:
            continue
        name = input_name(node, number)
        if number:

            def without(given: List[Optional[Value]], at: int = number) -> List[Optional[Value]]:
                return [*given[:at], *([None, *given[at + 1 :]] if given[at + 1 :] else [])]

            yield Variant(name, "missing", AS_IT_IS, node, without)
        for other, instead in enumerate(inputs):
            # A scale fits no place of a zero point.
            if instead is None or instead.array.dtype.kind != value.array.dtype.kind:
                continue
            if other == number or instead.array.shape != value.array.shape:
                continue

            def taken(
                given: List[Optional[Value]], at: int = number, by: int = other
            ) -> List[Optional[Value]]:
                return [*given[:at], given[by], *given[at + 1 :]]

            yield Variant(name, input_name(node, other) + " in its place", AS_IT_IS, node, taken)
            if other > number:

                def exchanged(
                    given: List[Optional[Value]], at: int = number, by: int = other
                ) -> List[Optional[Value]]:
                    made = list(given)
                    made[at], made[by] = given[by], given[at]
                    return made

                device = "%s and %s exchanged" % (name, input_name(node, other))
                yield Variant("the order of its inputs", device, AS_IT_IS, node, exchanged)
    # Of one tensor alone, the output in another order is what its input in that order makes; but
    # for sums along an axis.
    several = sum(one is not None and one.array.size > 1 for one in inputs) > 1
    several |= node.type.startswith("Cum")
    yield from changed_inputs(node, inputs, several)
    yield from _broadcast_to_none(node, inputs)


def _broadcast_to_none(node: Node, inputs: Inputs) -> Iterator[Variant]:
    """Yield a sum or product of which one input is not repeated along an axis: beside the first
    index of the other it is 0, as memory behind it may be.
    """
    arrays = [value.array for value in inputs if value is not None]
    whole = np.broadcast(*arrays).shape if node.type in _BROADCASTING else ()
    for number, array in enumerate(arrays):
        own = (1,) * (len(whole) - array.ndim) + array.shape
        for axis, length in enumerate(whole):
            if own[axis] == 1 < length and int(np.prod(whole)) <= _MOST_TURNED:
                behind = [(0, (length - 1) * (at == axis)) for at in range(len(own))]

                def alone(array: Array, to: Any = own, more: Any = behind) -> Array:
                    return np.pad(array.reshape(to), more)

                words = "beside index 0 of axis %d alone, 0 beside the others" % axis
                yield Variant(
                    input_name(node, number), words, AS_IT_IS, node, replaced(number, alone)
                )


def changed_inputs(node: Node, inputs: Inputs, ordered: bool = True) -> Iterator[Variant]:
    """Yield any node with the values of one input changed: of another sign, doubled, or in another
    order (``ordered``).
    """
    for number, value in enumerate(inputs):
        if value is None or not 0 < value.array.size <= _MOST_TURNED:
            continue
        name, kind = input_name(node, number), value.array.dtype.kind
        changes = [
            *(_NORMALISED_TO_NOTHING if not number and node.type in _NORMALISING else ()),
            *((words, change) for kinds, words, change in _VALUES if kind in kinds),
            *(_SIZES if number and kind == "f" else ()),
            *(BEYOND_FLOAT16 if kind == "f" and np.any(np.abs(value.array) > _FLOAT16_MAX) else ()),
            *(_turned(value.array) if value.array.size > 1 and ordered else ()),
        ]
        for words, change in changes:
            first = not number and words.startswith("its first index along")
            if first and (node.type in _NORMALISING or words.endswith("axis 0 for all")):
                # What all samples hold of the first one is told of the run, and what has one value
                # along an axis is normalised to nothing, whatever it is.
                continue
            yield Variant(name, words, AS_IT_IS, node, replaced(number, change))


def _rounded_to(bits: int) -> Callable[[Array], Array]:
    """Return a function that rounds floats to so many bits behind the first."""

    def rounded(array: Array) -> Array:
        fraction, exponent = np.frexp(np.asarray(array, np.float64))
        return np.ldexp(np.rint(np.ldexp(fraction, bits + 1)), exponent - bits - 1)

    return rounded


def _int8_by(axes: Optional[Tuple[int, ...]]) -> Any:
    """Return a function that rounds values to 8 bits between their extremes."""

    def rounded(array: Array) -> Array:
        step = np.abs(array).max(axis=axes, keepdims=axes is not None) / 127.0
        return np.rint(array / np.where(step > 0, step, 1.0)) * step

    return rounded


def coarser_inside(node: Node, inputs: Inputs, held: Sequence[bool]) -> Iterator[Variant]:
    """Yield a node whose inputs are rounded to narrower types before it computes.

    Parameters
    ----------
    held
        Which inputs the model holds (weights).
    """
    narrow = {"float16 inside": _rounded_to(10), "bfloat16 inside": _rounded_to(7)}
    ways: List[Tuple[str, Callable[[int, Array], Array]]] = [
        (words, lambda at, array, to_type=to_type: to_type(array))  # type: ignore[misc]
        for words, to_type in narrow.items()
    ]
    kernels = [
        at for at, one in enumerate(inputs)
        if one is not None and one.is_float and one.array.ndim > 1 and held[at]
    ]  # fmt: skip
    if kernels:
        for words, whole_input_too in (("weights", False), ("input and weights", True)):
            for scales, channel in (("one scale for all", False), ("one for each channel", True)):

                def taken(
                    at: int, array: Array, every: bool = whole_input_too, each: bool = channel
                ) -> Array:
                    if at not in kernels and not (every and at == 0):
                        return array
                    first = 0 if node.type in ("Conv", "FusedConv") else array.ndim - 1
                    axes = tuple(axis for axis in range(array.ndim) if axis != first)
                    return _int8_by(axes if each and at in kernels else None)(array)  # type: ignore[no-any-return]

                ways.append(("int8 %s (%s)" % (words, scales), taken))
    for words, rounded in ways:

        def changed(
            given: List[Optional[Value]], rounded: Callable[[int, Array], Array] = rounded
        ) -> List[Optional[Value]]:
            return [
                Value(np.asarray(rounded(at, one.array), np.float32), one.error)
                if one is not None and one.is_float
                else one
                for at, one in enumerate(given)
            ]

        own = "the type of its tensors"
        yield Variant(ARITHMETIC, words, own, node, changed)
        if words in narrow:
            to_type = narrow[words]

            def written(outputs: List[Value], to_type: Any = to_type) -> List[Value]:
                return [
                    Value(np.asarray(to_type(one.array), np.float32), one.error)
                    if one.is_float
                    else one
                    for one in outputs
                ]

            both = words.replace("inside", "inside and in its output")
            yield Variant(ARITHMETIC, both, own, node, changed, written)
    constants = [at for at, one in enumerate(inputs) if one is not None and held[at]]
    for name, places in (("its weights", kernels), ("its constants", constants)):
        if not places or (places == kernels and name == "its constants"):
            continue
        for words, bits in zip(NARROWED, (10, 7)):
            to_type = _rounded_to(bits)

            def narrowed(
                given: List[Optional[Value]], places: Sequence[int] = places, to_type: Any = to_type
            ) -> List[Optional[Value]]:
                return [
                    Value(np.asarray(to_type(one.array), np.float32), one.error)
                    if one is not None and at in places and one.is_float
                    else one
                    for at, one in enumerate(given)
                ]

            yield Variant(name, words, AS_IT_IS, node, narrowed)


OF_SIBLING = "of its sibling "
"""How constants are told that another node of the type holds."""
SUMS = "its sums"
"""How variants are named that leave out a part of what is summed."""
_TAILS = (1, 2, 3, 4, 8, 16, 32)
"""How many of the last ones a kernel may leave out, besides what is left over of so many."""


def without_tail(node: Node, inputs: Inputs) -> Iterator[Variant]:
    """Yield a node that leaves out the last ones along an axis that it sums over, or of an image:
    it takes 0 for them, or counts without them.
    """
    first = inputs[0] if inputs else None
    if first is None or not first.is_float:
        return
    shape = first.array.shape
    summed = set(range(len(shape))) - _apart(node, inputs)
    ways = [(shape, axis, "along axis %d" % axis) for axis in sorted(summed, reverse=True)]
    if len(shape) == 4 and {2, 3} <= summed:
        flat = (*shape[:2], shape[2] * shape[3])
        ways.append((flat, 2, "along axes 2 and 3 together"))
    for whole, axis, along in ways:
        size = whole[axis]
        left = {size % count for count in _TAILS} | set(_TAILS)
        for count in sorted(count for count in left if 0 < count < size):
            tail = (*(slice(None),) * axis, slice(size - count, None))

            def zeroed(
                given: List[Optional[Value]], whole: Tuple[int, ...] = whole, at: Any = tail
            ) -> List[Optional[Value]]:
                array = np.array(given[0].array.reshape(whole))  # type: ignore[union-attr]
                array[at] = 0
                return [Value(array.reshape(given[0].array.shape)), *given[1:]]  # type: ignore[union-attr]

            def cut(
                given: List[Optional[Value]], axis: int = axis, until: int = size - count
            ) -> List[Optional[Value]]:
                array = np.take(given[0].array, range(until), axis)  # type: ignore[union-attr]
                return [Value(array), *given[1:]]

            which = "without the last %d of %d %s of its input 0" % (count, size, along)
            yield Variant(SUMS, which + " (taken as 0)", AS_IT_IS, node, zeroed)
            if whole == shape:
                yield Variant(SUMS, which, AS_IT_IS, node, cut)


def _apart(node: Node, inputs: Inputs) -> Set[int]:
    """Return the axes of its first input of which each index makes outputs of its own: the node
    does not sum over them.
    """
    values = [None if one is None else one.array for one in inputs]
    parts = parts_of(node, [None if one is None else one.shape for one in values], values)
    windows = [along[0] for along in parts.axes.values()] if parts is not None else []
    return {one.axis for one in windows if one is not None and one == Window(one.axis)}


def of_siblings(
    node: Node, number: int, array: Array, siblings: Iterable[Tuple[str, Array]]
) -> Iterator[Variant]:
    """Yield a node that takes constants of other nodes, which are given by name, for its own."""
    for sibling, other in siblings:
        if np.array_equal(other, array):
            continue

        def taken(given: List[Optional[Value]], other: Array = other) -> List[Optional[Value]]:
            return [*given[:number], Value(other), *given[number + 1 :]]

        name = input_name(node, number)
        yield Variant(name, OF_SIBLING + sibling, AS_IT_IS, node, taken)


def of_sibling(node: Node, sibling: str, arrays: Mapping[int, Array]) -> Variant:
    """Return a node that takes several constants of another one for its own, by their places."""

    def taken(given: List[Optional[Value]]) -> List[Optional[Value]]:
        return [
            Value(arrays[number]) if number in arrays else value
            for number, value in enumerate(given)
        ]

    names = " and ".join(input_name(node, number) for number in arrays)
    return Variant(names, OF_SIBLING + sibling, AS_IT_IS, node, taken)
