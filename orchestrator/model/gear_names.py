"""Gears of a dynamic batch, image size or dims: the compiler copies the network for each gear, and
one copy runs.

Source: GE's public sources; a copy is a graph named ``Batch_N``, its ops have the label
``Batch_N`` and names that end in ``_ascend_mbatch_batch_N``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

from .op_node import OpNode

_NAME = re.compile(r"(?:.*_)?(Batch_[0-9]+)\Z", re.DOTALL)
_MARK = "_ascend_mbatch_batch_"


@lru_cache(maxsize=256)
def gear_named(text: str) -> Optional[str]:
    """Return the gear in a label or a graph's name, such as ``Batch_0``, or None."""
    match = _NAME.match(text)
    return match.group(1) if match is not None else None


def gear_of(op: OpNode, graph_name: str) -> Optional[str]:
    """Return the gear of an op by its label, its graph's name or its own name, or None."""
    gear = gear_named(op.batch_label or "") or gear_named(graph_name)
    if gear is not None:
        return gear
    number = op.name.rpartition(_MARK)[2] if _MARK in op.name else ""
    return "Batch_%s" % number if number.isdigit() else None


def without_gear(name: str) -> str:
    """Return an op's name without the suffix of its gear."""
    head, mark, number = name.rpartition(_MARK)
    return head if mark and number.isdigit() else name
