"""The precision of element types: fraction bits, smallest step, range, and the ulp of a value.

Sources: IEEE 754, with an 8-bit exponent for bfloat16; the OCP 8-bit specification; the published
hifloat8 format.
"""

from __future__ import annotations

import math
from typing import Dict, NamedTuple

import numpy as np

from .dtypes import Array


class Rounding(NamedTuple):
    """How an element type rounds; of a complex one, its parts.

    Attributes
    ----------
    fraction_bits
        Stored bits of the fraction; for hifloat8, whose precision varies, the largest number.
    step
        The smallest positive number, which is the spacing of subnormal numbers.
    least_normal, largest
        The smallest normal and the largest finite magnitude.
    """

    fraction_bits: int
    step: float
    least_normal: float
    largest: float

    @property
    def half_unit(self) -> float:
        """Half a unit in the last place of 1: the largest relative error of rounding to the
        type."""
        return 2.0 ** -(self.fraction_bits + 1)


ROUNDING: Dict[str, Rounding] = {
    "float16": Rounding(10, 2.0**-24, 2.0**-14, 65504.0),
    "bfloat16": Rounding(7, 2.0**-133, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127),
    "float32": Rounding(23, 2.0**-149, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127),
    "float64": Rounding(52, 2.0**-1074, 2.0**-1022, (2.0 - 2.0**-52) * 2.0**1023),
    "hifloat8": Rounding(3, 2.0**-22, 2.0**-15, 2.0**15),
    "float8_e4m3fn": Rounding(3, 2.0**-9, 2.0**-6, 448.0),
    "float8_e5m2": Rounding(2, 2.0**-16, 2.0**-14, 57344.0),
}
ROUNDING.update(
    complex32=ROUNDING["float16"], complex64=ROUNDING["float32"], complex128=ROUNDING["float64"]
)
_EXACT = Rounding(64, 0.0, 0.0, math.inf)
_EXPONENT = np.int64(0x7FF << 52)
# For values that are not finite too: larger than any finite distance.
_LARGEST_POWER = 2.0**1023


def rounding_of(dtype: str) -> Rounding:
    """Return how a type rounds by its name in the DataType column; types without rounding have 64
    bits and a step of 0.
    """
    return ROUNDING.get(dtype, _EXACT)


def shortened(dtype: str) -> Rounding:
    """Return how the device's matrix unit rounds its factors: to bfloat16 for that type, else to
    float16."""
    return ROUNDING["bfloat16" if dtype == "bfloat16" else "float16"]


def ulp(values: Array, dtype: str) -> Array:
    """Return the unit in the last place of a type at each value; 0 for types without rounding.

    Parameters
    ----------
    values
        float64 array.
    dtype
        As in the DataType column.
    """
    if dtype not in ROUNDING:
        return np.zeros_like(values)
    bits, step = ROUNDING[dtype][:2]
    if dtype != "hifloat8":
        # The exponent bits alone are the largest power of two not above the value.
        power: Array = (np.asarray(values, np.float64).view(np.int64) & _EXPONENT).view(np.float64)
        steps: Array = np.clip(power * 2.0**-bits, step, _LARGEST_POWER)
        return steps
    exponent = np.where(values == 0, -2000, np.frexp(values)[1].astype(np.int64) - 1)
    digits = np.select(
        [np.abs(exponent) <= 3, np.abs(exponent) <= 7, np.abs(exponent) <= 15], [3, 2, 1], 0
    )
    result: Array = np.ldexp(1.0, np.maximum(exponent - digits, int(np.frexp(step)[1]) - 1))
    return result
