"""Arrays that carry the error which a right device may have in them, and the steps of a device's
arithmetic.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..base.fast_dataclasses import dataclass

Array = Any

FLOAT32_ROUNDING = 2.0**-24
FLOAT16_ROUNDING = 2.0**-11
"""Unit roundoffs: the largest relative error of one rounding."""


@dataclass(frozen=True)
class Arithmetic:
    """How a device computes inside of an operator.

    Attributes
    ----------
    intermediate
        Unit roundoff (largest relative error of one rounding) of what one step hands to the next
        inside of an operator that computes in several, such as a normalisation or a fused chain:
        2**-24 for float32, 2**-11 for float16, 2**-8 for bfloat16.
    accumulator
        Unit roundoff of a sum's accumulator.
    factors
        Unit roundoff of the factors of products where a cube unit shortens them (2**-12 for float32
        that is multiplied as HF32); 0 where they are taken as they are.
    states
        Unit roundoff of the states that a recurrent layer hands from one step to the next: the next
        product takes them in the type of the layer's tensors. 0 where ``intermediate`` rounds them
        already.
    """

    intermediate: float = FLOAT32_ROUNDING
    accumulator: float = FLOAT32_ROUNDING
    factors: float = 0.0
    states: float = FLOAT32_ROUNDING


@dataclass(frozen=True)
class Value:
    """A tensor, and how far a right device's may be from it.

    Attributes
    ----------
    array
        The values: floats are float32 or float64, whole numbers and bool as they are.
    error
        Standard deviation of the error that a right device may have, absolute, of the array's shape
        (or one that broadcasts to it); None where the value is exact.
    """

    array: Array
    error: Optional[Array] = None

    @property
    def is_float(self) -> bool:
        """Whether the values are floats; others have no rounding."""
        return bool(self.array.dtype.kind == "f")

    def with_step(self, roundoff: float) -> Value:
        """Return it rounded once more, to a type with this unit roundoff: the error grows, the
        values stay.

        The error of one rounding is uniform over half a step to either side: its standard deviation
        is the roundoff times the value over the square root of 3. Below float16's normal range its
        steps shrink no further.
        """
        if not roundoff or not self.is_float:
            return self
        size = np.abs(self.array)
        if roundoff == FLOAT16_ROUNDING:
            size = np.maximum(size, 2.0**-14)
        return Value(self.array, joined_errors(self.error, size * (roundoff / np.sqrt(3.0))))


def joined_errors(*errors: Optional[Array]) -> Optional[Array]:
    """Return the root of the sum of squares of errors that know nothing of each other; None where
    all are None.
    """
    present = [error for error in errors if error is not None]
    if len(present) < 2:
        return present[0] if present else None
    total = np.square(present[0])
    for error in present[1:]:
        total = total + np.square(error)
    return np.sqrt(total)
