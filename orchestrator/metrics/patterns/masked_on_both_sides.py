"""Elements that are masked on both sides: they count as no error, and show nothing of the others
(docs/reference/metrics.md, "Masks").
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...tensors.golden_order_windows import Window
from ..differing_elements import REST, masked_apart
from ..worst_slice import MASK

Array = Any

_ALIKE = 2.0**-7
"""Masks of one number differ by a type's rounding at most: that of bfloat16 is half of this."""


class Masks:
    """Tells in a first pass whether a tensor has masked elements, in a second one which;
    picklable.
    """

    def __init__(self) -> None:
        self._least = math.inf
        self._rest = 0.0
        self._any_masked = False

    def update(self, x: Array, y: Array) -> None:
        """Take elements of the first pass: one-dimensional arrays of any type."""
        if x.dtype.kind != "f" or y.dtype.kind != "f" or not y.size:
            return
        size = np.abs(y.astype(np.float64))
        if float(y.min()) <= MASK and float(x.min()) <= MASK:
            masked = _may_be_masked(x, y)
            if masked.any():
                self._any_masked = True
                nearer = np.minimum(size[masked], np.abs(x[masked].astype(np.float64)))
                self._least = min(self._least, float(nearer.min()))
                size = size[~masked]
        size = size[np.isfinite(size)]
        if size.size:
            self._rest = max(self._rest, float(size.max()))

    @property
    def there(self) -> bool:
        """Whether there are masks: all other golden elements are smaller by far, and there are
        some.
        """
        return self._any_masked and 0.0 < self._rest * REST <= self._least

    def of(self, x: Array, y: Array) -> Array:
        """Return which elements are masked."""
        return _may_be_masked(x, y) if self.there else np.zeros(x.shape, np.bool_)

    def without(self, window: Window) -> Window:
        """Return a window with 0 on both sides where it is masked."""
        if not self.there:
            return window
        masked = self.of(window.x.reshape(-1), window.y.reshape(-1)).reshape(window.x.shape)
        sides = (np.where(masked, side.dtype.type(0), side) for side in (window.x, window.y))
        return Window(window.start, window.ranges, *sides)


def _may_be_masked(x: Array, y: Array) -> Array:
    left, right = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        alike = (left <= MASK) & (right <= MASK) & (np.abs(left - right) <= _ALIKE * np.abs(right))
    return alike | masked_apart(left, right)
