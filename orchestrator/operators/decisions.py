"""Operators that decide: which is largest, which comes first, which value is larger, which whole number is next.

A decision may go either way where the values are equal, or where they differ by no more than the error that their inputs may have
(:class:`~.value.Value`). What a device decided is looked at by the values that it chose, so that it may break ties in any order.
Sources: the ONNX operator list of each opset; caffe.proto and the layers of BVLC Caffe; TensorFlow 1.15's op definitions; the operator
prototypes of Ascend IR.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

import numpy as np

from .value import Value

Array = Any

_CHANCE = 1e-6

# Nodes (in standard deviations) and weights of the Gauss-Hermite quadrature of five points, for a mean over normally distributed errors.
_QUADRATURE = ((1.3556261799742657, 0.22207592200561266), (2.8569700138728056, 0.011257411327720688))


def reach(value: Value) -> Array:
    """Return how far each element may be off, at most: 0 where a value is exact.

    The largest of n normally distributed errors is beyond √(2·ln(n/p)) standard deviations with a chance of p = 10⁻⁶.
    """
    if value.error is None:
        return np.zeros(())
    return value.error * math.sqrt(2.0 * math.log(max(1, value.array.size) / _CHANCE))


def spread(function: Callable[[Array], Array], value: Value, result: Array) -> Optional[Array]:
    """Return the standard deviation that a value's error leaves in a step function of it; None where the value is exact.

    The mean of the squared changes over a normal distribution, by Gauss-Hermite quadrature.
    """
    if value.error is None:
        return None
    total = np.zeros(np.shape(result))
    right = np.asarray(result, np.float64)
    for node, weight in _QUADRATURE:
        for sign in (1.0, -1.0):
            moved = np.asarray(function(value.array + sign * node * value.error), np.float64)
            total = total + weight * np.square(np.nan_to_num(moved - right, nan=0.0))
    return np.sqrt(total)


def stepped(function: Callable[[Array], Array], value: Value) -> Value:
    """Apply a step function to each element; see :func:`spread` for its error."""
    wide = value if not value.is_float else Value(np.asarray(value.array, np.float64), value.error)
    result = np.asarray(function(wide.array))
    return Value(result, spread(function, wide, result))


def outside_steps(function: Callable[[Array], Array], value: Value, made: Array) -> Array:
    """Tell which elements a step function that never falls cannot make of a value and its error."""
    wide = np.asarray(value.array, np.float64) if value.is_float else value.array
    far = reach(value)
    low, high = function(wide - far), function(wide + far)
    right = function(wide)
    made = np.asarray(made)
    agrees = (made == right) | ((made >= low) & (made <= high)) | (_is_nan(made) & _is_nan(right))
    return ~agrees


def _is_nan(array: Array) -> Array:
    array = np.asarray(array)
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
