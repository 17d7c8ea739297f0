"""Detects that the target holds the golden's values with axes in another order, on a sample of
elements."""

from __future__ import annotations

from itertools import permutations
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ..element_types import element_count
from ..metrics.patterns import Finding
from ..metrics.patterns.squared_error_by_index import reals
from ..tensors.tensor import Tensor
from .better_golden import Probe

Array = Any

_CLAIMED = 0.9
_WINDOW_ELEMENTS = 1 << 20
_MOST_AXES = 5


def reordered(
    probe: Probe, golden: Tensor, sizes: Sequence[int], letters: Sequence[str]
) -> Optional[Finding]:
    """Return the order of the golden's axes in which the target holds its values, or None.

    The golden is read once, window by window.
    """
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    if not 2 <= len(axes) <= _MOST_AXES or golden.order != "C" or golden.dtype.kind == "c":
        return None
    places = np.concatenate([np.arange(low, high) for low, high in probe.runs])
    orders = list(permutations(axes))
    orders_moved = np.stack([_moved(places, sizes, order) for order in orders])
    needed, back = np.unique(orders_moved, return_inverse=True)
    values = _gather(golden, needed)[back.reshape(orders_moved.shape)]
    x = probe.target
    good = np.isfinite(x) & np.isfinite(values).all(axis=0)
    with np.errstate(over="ignore"):
        left = np.square(x[good] - values[:, good]).sum(axis=1)
    # The first order is the one that was compared.
    if not good.any() or not left[0] > 0:
        return None
    best = int(np.argmin(left[1:])) + 1
    share = 1.0 - float(left[best] / left[0])
    if not share >= _CLAIMED:
        return None
    order = _with_short_axes(orders[best], sizes)
    now = "".join(letters[axis] for axis in order)
    sentence = ("the target holds the golden's values with axes %s in the order %s (tried "
        "at %d places)") % (
        "".join(letters), now, len(places),
    )  # fmt: skip
    return Finding("axis-swap", share, sentence, {"order": order})


def _moved(places: Array, sizes: Sequence[int], order: Sequence[int]) -> Array:
    """Return where the golden has what stands at ``places`` of its transposed self."""
    strides = [element_count(sizes[axis + 1 :]) for axis in range(len(sizes))]
    rest, moved = places, np.zeros_like(places)
    for axis in reversed(order):
        rest, at = np.divmod(rest, sizes[axis])
        moved += at * strides[axis]
    return moved


def _with_short_axes(order: Tuple[int, ...], sizes: Sequence[int]) -> List[int]:
    """Return the order with the axes of size 1 where they were."""
    longer = iter(order)
    return [axis if size == 1 else next(longer) for axis, size in enumerate(sizes)]


def _gather(golden: Tensor, needed: Array) -> Array:
    """Return the elements at some places, which ascend, as float64."""
    gathered = np.empty(needed.size)
    for start in range(0, golden.count, _WINDOW_ELEMENTS):
        stop = min(start + _WINDOW_ELEMENTS, golden.count)
        low, high = np.searchsorted(needed, [start, stop])
        if low < high:
            gathered[low:high] = reals(golden.elements(start, stop)[needed[low:high] - start])
    return gathered
