"""The difference of two tensors, and the sums that patterns in it are measured with."""

from __future__ import annotations

import math
from typing import Any, Optional, Union

import numpy as np

from ..worst_slice import median

Array = Any

MASK = 9e3
"""Golden values of at least this magnitude may be masks: attention's are -1e4 and beyond."""


BY_CHANCE = 1e-6
"""No pattern is claimed that noise would show more often."""


_LEAST_LEFT = 1e-6
# What rounding leaves of a pattern, as a part of the squares: one element alone fits anything.


class Difference:
    """Target x and golden y of one shape, float64, and the sums that every pattern needs.

    Elements that are not finite on both sides, and masked ones (of a magnitude of 1e4 or more with
    no difference to speak of), are zero in both: they neither count as error nor as evidence.

    Parameters
    ----------
    x, y
        Arrays of one shape.
    background
        Relative distance that needs no explanation (what the operator's inputs explain): a pattern
        has to explain the rest.

    Attributes
    ----------
    noise
        Three times the size of the background in each element: what is off by less tells nothing.
    """

    def __init__(self, x: Array, y: Array, background: float = 0.0) -> None:
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        keep = np.isfinite(x) & np.isfinite(y)
        with np.errstate(invalid="ignore", over="ignore"):
            keep &= ~(
                (np.abs(y) >= MASK)
                & (np.abs(x - y) <= 2.0**-7 * np.abs(y))
                & (np.abs(y) > 100.0 * _middle(y, keep))
            )
        self.compared, self.background = keep, background
        self.x, self.y = np.where(keep, x, 0.0), np.where(keep, y, 0.0)
        # One scale for both: squares of the largest float32 and of the smallest must stay numbers.
        top = float(max(np.abs(self.x).max(initial=0.0), np.abs(self.y).max(initial=0.0)))
        self.unit = 2.0 ** math.floor(math.log2(top)) if top > 0 else 1.0
        self.x, self.y = self.x / self.unit, self.y / self.unit
        self.e = self.x - self.y
        self.count = int(keep.sum())
        self.total = float((self.e * self.e).sum())
        self.wrong = int(np.count_nonzero(self.e))
        explained = self._explained(y, background)
        self.own_error = max(self.total - explained, 0.02 * self.total)
        self.noise = (
            math.sqrt(min(9.0 * explained, 0.25 * self.total) / self.count) if self.count else 0.0
        )
        self.yy = float((self.y * self.y).sum())

    def _explained(self, y: Array, background: float) -> float:
        """Return the squared error, in units of the unit's square, at a relative distance from all
        finite golden elements.
        """
        if not background:
            return 0.0
        with np.errstate(over="ignore"):
            return background**2 * float(np.square(y[np.isfinite(y)] / self.unit).sum())

    def share(self, rest: float, parameters: int = 1, fitted: Optional[int] = None) -> float:
        """Return the share that a pattern explains which leaves ``rest`` (sum of squares); 0 where
        chance would explain as much.

        Parameters
        ----------
        parameters
            How many numbers were fitted to these very elements: each explains 1/n of mere noise,
            which is taken off.
        fitted
            How many numbers were fitted at all, if more.
        """
        if self.count <= parameters or not self.total:
            return 0.0
        if by_chance(rest / self.total, self.wrong - (parameters if fitted is None else fitted)):
            return 0.0
        rest *= self.count / (self.count - parameters)
        return min(1.0, max(0.0, (self.total - rest) / self.own_error))

    def share_of_target(self, rest: float, mean: Union[float, Array] = 0.0) -> float:
        """Return the share of the target's squares about ``mean`` that is not left in ``rest``: a
        small factor explains most of an error whatever the target holds.
        """
        squares = float(np.square(np.where(self.compared, self.x - mean, 0.0)).sum())
        own = max(0.0, rest - (self.total - self.own_error))
        return max(0.0, 1.0 - own / squares) if squares else 0.0

    def left(self, explained: Array) -> float:
        """Return the sum of squares that is left where the target should be ``explained``."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = np.where(self.compared, self.x - explained, 0.0)
            return float((rest * rest).sum())

    def left_by_others(self, rest: Array, leverage: Array) -> float:
        """Return the sum of squares that is left where each element is explained by what was fitted
        to all the others.

        A few large elements fit themselves: that explains nothing (the PRESS statistic, Allen
        1974). Nor does a fit that helps only them: all of the error is left then.

        Parameters
        ----------
        rest
            What the fit leaves of each element.
        leverage
            Each element's weight in its own fit, 0 to 1; of 1 it is alone, and its error is left.
        """
        if not helps_most(np.where(self.compared, rest, 0.0), self.e, self.noise):
            return self.total
        with np.errstate(invalid="ignore", divide="ignore"):
            rest = np.where(leverage < 1 - 1e-9, rest / (1.0 - leverage), self.e)
        return float(np.square(np.where(self.compared, rest, 0.0)).sum())


def _middle(y: Array, keep: Array) -> float:
    """Return a magnitude that is not ruled by masked elements."""
    values = np.abs(y[keep])
    return median(values) if values.size else 0.0


def by_chance(left: float, free: float) -> bool:
    """Tell whether noise would leave as small a part ``left`` of its squares, with ``free``
    elements more than numbers fitted.

    Of normal noise, p numbers leave a part r of n squares or less with a chance near r^((n - p)/2),
    Beta's tail.
    """
    return bool(min(1.0, max(_LEAST_LEFT, left)) ** max(0.0, free / 2) > BY_CHANCE)


def helps_most(rest: Array, error: Array, noise: float = 0.0) -> bool:
    """Tell whether most elements that are off by more than ``noise`` are much less so in ``rest``:
    a few large ones may meet by chance.
    """
    wrong = np.abs(error) > noise
    return bool(
        2 * np.count_nonzero(2 * np.abs(rest[wrong]) < np.abs(error[wrong]))
        >= np.count_nonzero(wrong)
    )
