"""Means and variances within a tensor, with their errors: what normalisations are made of."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from .error_propagation import elementwise
from .value_with_error import Arithmetic, Value, joined_errors

Array = Any
Axes = Tuple[int, ...]


def mean(x: Value, axes: Axes, arithmetic: Arithmetic) -> Value:
    """Return the mean along axes that stay with one element, as one step of a device's: errors add
    as squares.

    The accumulator's error is as of :func:`primitives.sum_of_products`.
    """
    array = np.asarray(x.array, np.float64)
    result = np.mean(array, axis=axes, keepdims=True)
    count = array.size // max(1, result.size)
    parts = []
    if x.error is not None:
        squares = np.square(np.broadcast_to(x.error, array.shape))
        parts.append(np.sqrt(np.sum(squares, axis=axes, keepdims=True)) / count)
    if arithmetic.accumulator:
        squares = np.sum(np.square(array), axis=axes, keepdims=True)
        parts.append(
            arithmetic.accumulator
            * np.sqrt(count / 6.0)
            * np.sqrt(squares / count**2 + np.square(result))
        )
    return Value(result, joined_errors(*parts)).with_step(arithmetic.intermediate)


def centred(x: Value, center: Value, arithmetic: Arithmetic) -> Value:
    """Return x less its mean; where both are nearly equal the mean's rounding is a large part of
    it.
    """
    return elementwise(np.subtract, x, center, steps=arithmetic.intermediate)


def mean_square(x: Value, axes: Axes, arithmetic: Arithmetic) -> Value:
    """Return the mean of squares."""
    return mean(elementwise(np.square, x, steps=arithmetic.intermediate), axes, arithmetic)


def reciprocal_root(x: Value, epsilon: float, arithmetic: Arithmetic) -> Value:
    """Return 1 / √(x + ε)."""
    return elementwise(
        lambda array: 1.0 / np.sqrt(np.maximum(array, 0.0) + epsilon),
        x,
        steps=arithmetic.intermediate,
    )
