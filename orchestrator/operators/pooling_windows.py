"""What pooling makes of each window of its input: the largest value and its place, sums, averages
and norms, with their errors.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Iterator, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from .registry import CannotCompute
from .value_with_error import Arithmetic, Value, joined_errors

Array = Any


@dataclass(frozen=True)
class Windows:
    """Which windows a pooling operator looks at: one number for each axis of the window.

    Attributes
    ----------
    sizes, counts
        Of the input, and of the windows.
    begin, end
        Pads before and behind.
    """

    sizes: Tuple[int, ...]
    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    counts: Tuple[int, ...]

    def places(self) -> Iterator[Tuple[Tuple[slice, ...], Tuple[slice, ...], Tuple[int, ...]]]:
        """Yield, for each place within the window, the windows that have it inside of the input,
        where it is there, and the place.
        """
        for place in product(*(range(reach) for reach in self.kernel)):
            outputs, inputs = [], []
            for step, size, stride, dilation, before, count in zip(
                place, self.sizes, self.strides, self.dilations, self.begin, self.counts
            ):
                offset = step * dilation - before
                first = max(0, -(offset // stride))
                last = min(count, (size - 1 - offset) // stride + 1)
                outputs.append(slice(first, last))
                inputs.append(
                    slice(offset + first * stride, offset + (last - 1) * stride + 1, stride)
                )
            if all(entry.start < entry.stop for entry in outputs):
                yield tuple(outputs), tuple(inputs), place

    @property
    def whole(self) -> bool:
        """Whether there is one window, which is the whole input."""
        padded = any(list(self.begin) + list(self.end))
        one = tuple(self.kernel) == tuple(self.sizes) and set(self.counts) == {1}
        return one and not padded and set(self.dilations) == {1}

    def inside(self, padded: bool) -> Array:
        """Return how many places of each window [*counts] lie in the input, or in it and its pads
        (``padded``).
        """
        total = np.ones((), np.int64)
        for size, reach, stride, dilation, before, after, count in zip(
            self.sizes, self.kernel, self.strides, self.dilations, self.begin, self.end, self.counts
        ):
            starts = np.arange(count) * stride - before
            at = starts[:, None] + np.arange(reach) * dilation
            low, high = (-before, size + after) if padded else (0, size)
            total = total[..., None] * np.sum((at >= low) & (at < high), axis=1)
        return total


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    ceil: bool,
    clip: bool,
) -> Tuple[int, ...]:
    """Return how many windows there are.

    ``ceil``: the last may be a part; ``clip``: unless it begins behind the input and the pad
    before.
    """
    counts = []
    for size, reach, stride, dilation, before, after in zip(
        sizes, kernel, strides, dilations, begin, end
    ):
        room = size + before + after - ((reach - 1) * dilation + 1)
        count = (-(-room // stride) if ceil else room // stride) + 1
        if clip and (count - 1) * stride >= size + before:
            count -= 1
        if count < 1:
            raise CannotCompute("its window %s does not fit into %s" % (list(kernel), list(sizes)))
        counts.append(count)
    return tuple(counts)


def windows_of(
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Tuple[Sequence[int], Sequence[int]],
    dilations: Optional[Sequence[int]] = None,
    ceil: bool = False,
    clip: bool = True,
) -> Windows:
    """Return the windows over the axes of [N, C, ...] behind the first two; ``ceil`` and ``clip``
    as for :func:`window_counts`.
    """
    sizes = x.array.shape[2:]
    dilations = dilations or [1] * len(kernel)
    if (
        not len(sizes)
        == len(kernel)
        == len(strides)
        == len(dilations)
        == len(pads[0])
        == len(pads[1])
        or not sizes
    ):
        raise CannotCompute("its window %s does not fit into %s" % (list(kernel), x.array.shape))
    counts = window_counts(sizes, kernel, strides, dilations, pads[0], pads[1], ceil, ceil and clip)
    return Windows(sizes, kernel, strides, dilations, pads[0], pads[1], counts)


def whole_picture(x: Value) -> Windows:
    """Return one window that is the whole of each channel of [N, C, ...]."""
    sizes = x.array.shape[2:]
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    return Windows(sizes, sizes, ones, ones, zeros, zeros, tuple(ones))


def largest(x: Value, windows: Windows) -> Value:
    """Return the largest value in each window of [N, C, ...], with its own error."""
    if x.error is not None:
        return largest_and_place(x, windows)[0]
    if windows.whole:
        return Value(np.max(x.array, axis=tuple(range(2, x.array.ndim)), keepdims=True))
    best = _lowest(x, windows)
    for outputs, inputs, _ in windows.places():
        target = best[(Ellipsis,) + outputs]
        np.maximum(target, x.array[(Ellipsis,) + inputs], out=target)
    return Value(best)


def _largest_of_all(x: Value, counts: Tuple[int, ...]) -> Tuple[Value, Array]:
    lead = x.array.shape[:2]
    flat = x.array.reshape(lead + (-1,))
    where = np.argmax(flat, axis=2)
    best = np.take_along_axis(flat, where[..., None], 2)
    error = None
    if x.error is not None:
        errors = np.broadcast_to(x.error, x.array.shape).reshape(flat.shape)
        near = best - flat <= np.hypot(errors, np.take_along_axis(errors, where[..., None], 2))
        error = np.max(np.where(near, errors, 0.0), axis=2).reshape(lead + counts)
    return Value(best.reshape(lead + counts), error), where.reshape(lead + counts)


def _lowest(x: Value, windows: Windows) -> Array:
    if not np.all(windows.inside(False)):
        raise CannotCompute("one of its windows lies outside of its input")
    lowest = -np.inf if x.is_float else np.iinfo(x.array.dtype).min
    return np.full(x.array.shape[:2] + windows.counts, lowest, x.array.dtype)


def largest_and_place(x: Value, windows: Windows) -> Tuple[Value, Array]:
    """Return the largest values of :func:`largest` and their places in the flattened axes of the
    window.

    A value that another one equals up to its error has the larger error of both: either may have
    won.
    """
    lead = x.array.shape[:2]
    if windows.whole:
        return _largest_of_all(x, windows.counts)
    best = _lowest(x, windows)
    where = np.full(lead + windows.counts, -1, np.int64)
    errors = None if x.error is None else np.broadcast_to(x.error, x.array.shape)
    error = None if errors is None else np.zeros(lead + windows.counts)
    numbers = np.arange(int(np.prod(windows.sizes))).reshape(windows.sizes)
    for outputs, inputs, _ in windows.places():
        target, part = (Ellipsis,) + outputs, x.array[(Ellipsis,) + inputs]
        before = best[target]
        larger = (part > before) | np.isnan(part) | (where[target] < 0)
        if error is not None and errors is not None:
            rival, now = errors[(Ellipsis,) + inputs], error[target]
            near = np.isfinite(before) & (np.abs(part - before) <= np.hypot(rival, now))
            error[target] = np.where(near, np.maximum(rival, now), np.where(larger, rival, now))
        best[target] = np.where(np.isnan(before), before, np.where(larger, part, before))
        where[target] = np.where(larger & ~np.isnan(before), numbers[inputs], where[target])
    return Value(best, error), where


def window_sums(
    x: Value, windows: Windows, power: float = 0.0
) -> Tuple[Array, Optional[Array], Array]:
    """Return the sums of each window in double precision, of |x|^power where there is one; their
    errors; and the sums of squares.
    """
    array = np.asarray(x.array, np.float64)
    slopes: Any = 1.0
    if power:
        slopes = power * np.abs(array) ** (power - 1.0)
        array = np.abs(array) ** power
    error_squares = (
        None if x.error is None else np.square(slopes * np.broadcast_to(x.error, x.array.shape))
    )
    if windows.whole:
        axes = tuple(range(2, array.ndim))
        sums = [
            None if part is None else np.sum(part, axis=axes, keepdims=True)
            for part in (array, np.square(array), error_squares)
        ]
        return sums[0], None if sums[2] is None else np.sqrt(sums[2]), sums[1]
    shape = x.array.shape[:2] + windows.counts
    total, squares, error = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for outputs, inputs, _ in windows.places():
        target, source = (Ellipsis,) + outputs, (Ellipsis,) + inputs
        total[target] += array[source]
        squares[target] += np.square(array[source])
        if error_squares is not None:
            error[target] += error_squares[source]
    return total, None if error_squares is None else np.sqrt(error), squares


def average(x: Value, windows: Windows, divisor: Array, arithmetic: Arithmetic) -> Value:
    """Return the windows' sums divided by ``divisor``; the accumulator's error is as of
    :func:`primitives.sum_of_products`.
    """
    if not np.all(divisor):
        raise CannotCompute("one of its windows lies outside of its input")
    total, error, squares = window_sums(x, windows)
    terms = max(1, int(np.prod(windows.kernel)))
    rounding = None
    if arithmetic.accumulator and x.is_float:
        rounding = (
            arithmetic.accumulator * np.sqrt(terms / 6.0) * np.sqrt(squares + np.square(total))
        )
    both = joined_errors(error, rounding)
    return Value(total / divisor, None if both is None else both / divisor)


def norm(x: Value, windows: Windows, power: float, arithmetic: Arithmetic) -> Value:
    """Return the p-norm of each window."""
    total, error, squares = window_sums(x, windows, power)
    terms = max(1, int(np.prod(windows.kernel)))
    rounding = (
        arithmetic.accumulator * np.sqrt(terms / 6.0) * np.sqrt(squares + np.square(total))
        if arithmetic.accumulator
        else None
    )
    both = joined_errors(error, rounding)
    result = total ** (1.0 / power)
    if both is None:
        return Value(result)
    return Value(result, (total + both) ** (1.0 / power) - result).with_step(
        arithmetic.intermediate
    )
