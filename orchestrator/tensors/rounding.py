"""How element types round: the bits of their fraction, and the distance of the numbers next to zero."""

from __future__ import annotations

from typing import Dict, NamedTuple

import numpy as np

from .dtypes import Array


class Rounding(NamedTuple):
    """How an element type rounds.

    Attributes
    ----------
    fraction_bits
        Stored bits of the fraction; of hifloat8, which has fewer the farther from 1, the most.
    step
        The smallest positive number: below the normal range the numbers are that far apart, however small the values are.
    """

    fraction_bits: int
    step: float


_ROUNDING: Dict[str, Rounding] = {
    "float16": Rounding(10, 2.0**-24),
    "bfloat16": Rounding(7, 2.0**-133),
    "float32": Rounding(23, 2.0**-149),
    "float64": Rounding(52, 2.0**-1074),
    "hifloat8": Rounding(3, 2.0**-22),
    "float8_e4m3fn": Rounding(3, 2.0**-9),
    "float8_e5m2": Rounding(2, 2.0**-16),
    "complex32": Rounding(10, 2.0**-24),
    "complex64": Rounding(23, 2.0**-149),
    "complex128": Rounding(52, 2.0**-1074),
}
_EXACT = Rounding(64, 0.0)
_EXPONENT = np.int64(0x7FF << 52)
# Of what is not finite, too: no distance that is finite is larger.
_LARGEST_POWER = 2.0**1023


def rounding_of(dtype: str) -> Rounding:
    """Return how a type rounds, by its name as in the DataType column; types that do not round have 64 bits and a step of 0."""
    return _ROUNDING.get(dtype, _EXACT)


def ulp(values: Array, dtype: str) -> Array:
    """Return the distance of a type's numbers at each value; 0 for types that do not round.

    Parameters
    ----------
    values
        float64 array.
    dtype
        As in the DataType column.
    """
    if dtype not in _ROUNDING:
        return np.zeros_like(values)
    bits, step = _ROUNDING[dtype]
    if dtype != "hifloat8":
        # The exponent's bits alone are the largest power of two that is not above the value.
        power: Array = (np.asarray(values, np.float64).view(np.int64) & _EXPONENT).view(np.float64)
        steps: Array = np.clip(power * 2.0**-bits, step, _LARGEST_POWER)
        return steps
    exponent = np.where(values == 0, -2000, np.frexp(values)[1].astype(np.int64) - 1)
    kept = np.select([np.abs(exponent) <= 3, np.abs(exponent) <= 7, np.abs(exponent) <= 15], [3, 2, 1], 0)
    found: Array = np.ldexp(1.0, np.maximum(exponent - kept, int(np.frexp(step)[1]) - 1))
    return found
