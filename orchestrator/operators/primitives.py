"""The few ways in which operators treat errors: a function of each element, values that are moved, sums of products."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from .value import Arithmetic, Value, joined

Array = Any


def elementwise(function: Callable[..., Array], *inputs: Value, steps: float = 0.0) -> Value:
    """Apply a function to each element, with broadcasting.

    The error of each input reaches the output as far as the function moves by it: the larger of the changes to either side. So no
    derivative is written down, and kinks (ReLU, Clip) and poles are seen. Inputs that are one object (``x * x``) move together.

    Parameters
    ----------
    function
        Takes as many arrays as there are inputs; floats come as float64.
    *inputs
        Whole numbers and bool have no error of their own in the result, nor has a result of these kinds.
    steps
        Unit roundoff of the result inside of the device, where it is rounded once more than its type says (0: not).
    """
    arrays = [_wide(value.array) for value in inputs]
    result = np.asarray(function(*arrays))
    if result.dtype.kind != "f":
        return Value(result)
    errors = [
        moved_by(function, arrays, [same is value for same in inputs], value.error, result)
        for number, value in enumerate(inputs)
        if value.error is not None and not any(value is before for before in inputs[:number])
    ]
    return Value(result, joined(*errors)).with_step(steps)


def moved_by(function: Callable[..., Array], arrays: Sequence[Array], which: Sequence[bool], error: Array, result: Array) -> Array:
    """Return how far the result of a function moves where some of its inputs move by their error: the larger of both sides.

    0 where neither side can be told from the result (infinite ones, NaN).
    """
    changed = []
    for sign in (1.0, -1.0):
        moved = [array + sign * error if moves else array for array, moves in zip(arrays, which)]
        changed.append(np.abs(np.asarray(function(*moved), np.float64) - result))
    most = np.fmax(changed[0], changed[1])
    return np.where(np.isnan(most), 0.0, most)


def roundings(count: int, roundoff: float) -> List[Value]:
    """Return factors of 1 with the error of one rounding.

    For steps inside of an operator whose rounding does not reach the result as it is:
    ``elementwise(lambda x, once: (x + 3) * once * x, x, *roundings(1, u))``.
    """
    return [Value(np.ones(()), np.asarray(roundoff / np.sqrt(3.0))) for _ in range(count)]


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def moved(function: Callable[[Array], Array], value: Value) -> Value:
    """Move values (and their errors with them): ``function`` transposes, reshapes, slices, gathers …"""
    if value.error is None:
        return Value(function(value.array))
    return Value(function(value.array), function(np.broadcast_to(value.error, value.array.shape)))


def sum_of_products(
    multiply: Callable[[Array, Array], Array], x: Value, w: Value, terms: int, arithmetic: Arithmetic, bias: Optional[Value] = None
) -> Value:
    """Compute a bilinear operator (convolution, MatMul) with the error that reaches its sums.

    Errors of the factors add as squares: Σ w²·e_x² + Σ x²·e_w², and 2·factors² · Σ (w·x)² / 3 where the device shortens both. An
    accumulator of unit roundoff u that takes up n terms adds n roundings of partial sums, which grow from nothing to about
    max(√Σ(w·x)², |y|): u · √(n/6) times that (a random walk's partial sums: mean square n/2 of the last; uniform roundings: 1/3).

    Parameters
    ----------
    multiply
        The operator on two arrays; it is called with squares too.
    terms
        How many products one sum has.
    bias
        Added to the sum; broadcasts to it.
    """
    array = multiply(x.array, w.array)
    squares = None
    if arithmetic.factors or arithmetic.accumulator:
        squares = np.maximum(multiply(np.square(x.array), np.square(w.array)), 0.0)
    parts = []
    if x.error is not None:
        parts.append(np.sqrt(np.maximum(multiply(np.square(np.broadcast_to(x.error, x.array.shape)), np.square(w.array)), 0.0)))
    if w.error is not None:
        parts.append(np.sqrt(np.maximum(multiply(np.square(x.array), np.square(np.broadcast_to(w.error, w.array.shape))), 0.0)))
    if squares is not None:
        size = np.sqrt(squares)
        parts.append(arithmetic.accumulator * np.sqrt(terms / 6.0) * np.maximum(size, np.abs(array)))
        if arithmetic.factors:
            parts.append(arithmetic.factors * np.sqrt(2.0 / 3.0) * size)
    result = Value(array, joined(*parts))
    if bias is None:
        return result
    return Value(array + bias.array, joined(result.error, bias.error))
