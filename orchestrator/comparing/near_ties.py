"""Outputs of ops that decide, of which some decisions are others than golden ones: whether the device made of its inputs what it should.

Two values that lie next to each other change their order with the rounding of what computed them. A healthy device then gives another index
than the golden run, and so does what reads the index.
"""

from __future__ import annotations

from typing import Optional

from ..errors import GoldwatchError
from ..tensors.geometry import Geometry
from ..tensors.tensor import Tensor
from .aligned import converted, geometry_of, open_counterpart
from .decisions import near_ties
from .pair_task import PairTask, Settings
from .patterns import MOST_ELEMENTS, AlignedPair, align

FOLLOWS = "it is inherited: every decision follows from the device's own inputs, which are within their limits (near a tie rounding rules)"
"""Remark on an output that passes though decisions of it are others than golden ones."""


def follows(task: PairTask, golden: Tensor, geometry: Geometry, settings: Settings) -> bool:
    """Tell whether every decision of an output is what its op makes of the device's own inputs, and those that differ are near ties.

    Parameters
    ----------
    task, golden, geometry
        The output's; ``task.inputs`` are read here. False where a tensor has more than ``MOST_ELEMENTS``, or the op's way to decide is not
        known or does not show in golden data.
    """
    output = _whole(task, golden, geometry)
    if output is None:
        return False
    inputs = [_opened(one, settings) for one in task.inputs]
    pairs = [pair for pair in inputs if pair is not None]
    return len(pairs) == len(inputs) and near_ties(task.row.op_type, pairs, output)


def _opened(task: PairTask, settings: Settings) -> Optional[AlignedPair]:
    try:
        golden, _ = open_counterpart(task)
        found = converted(task, golden, settings.conversions)
        return _whole(found, golden, geometry_of(found, golden))
    except (GoldwatchError, OSError):
        return None


def _whole(task: PairTask, golden: Tensor, geometry: Geometry) -> Optional[AlignedPair]:
    """Return the elements of a pair; None where they are many."""
    pair = align(task.target, golden, geometry, task.as_stored) if geometry.count <= MOST_ELEMENTS else None
    return None if pair is None or pair.sampled else pair
