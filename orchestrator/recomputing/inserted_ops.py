"""Operators of a device's model that the original model does not have, such as a Transpose that a
converter put between two others.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, Optional, Tuple

import numpy as np

from ..base.errors import GoldwatchError
from ..model.graph import ModelGraph
from ..model.graph_walks import is_dequant, is_quant
from ..model.never_dumped import AIPP, FIXED_TYPES, INPUT_TYPES
from ..model.op_groups import FOLLOWING_TYPES
from ..model.op_node import OpNode, desc_at
from .input_feeds import Feed
from .original_cuts import Original
from .recomputed_output import InsertedOp, NotComputable
from .recorded_dumps import RecordedStep
from .recorded_tensor import RecordedTensor

Array = Any

_MOST_AXES = 5
"""Of a tensor whose axes are tried in each order."""


def inserted_before(
    name: str, graph: ModelGraph, original: Original, recorded: RecordedStep
) -> Optional[InsertedOp]:
    """Return the operator without a node of the original model whose output an op reads; None where
    there is none.
    """
    op = graph.op(name)
    for source in () if op is None else op.inputs:
        maker = None if op is None or source is None else graph.producer(op, source[0])
        maker = None if maker is None else _behind_copies(graph, maker)
        if maker is None or not _is_computed(maker):
            continue
        if any(original.model.numbers(one) for one in maker.originals or (maker.name,)):
            continue
        first = next((one for one in maker.inputs if one is not None), None)
        before = None if first is None else graph.producer(maker, first[0])
        if before is not None:
            before_name = _behind_copies(graph, before).name
            return InsertedOp(maker.name, maker.type, before_name, _order(maker, recorded))
    return None


def _is_computed(op: OpNode) -> bool:
    not_computed = (*FIXED_TYPES, *INPUT_TYPES, *FOLLOWING_TYPES, AIPP)
    return op.type not in not_computed and not is_quant(op) and not is_dequant(op)


def _behind_copies(graph: ModelGraph, op: OpNode) -> OpNode:
    """Return the op before a chain of Cast and TransData that ends with an op."""
    for _ in range(len(graph.ops)):
        source = next((one for one in op.inputs if one is not None), None)
        before = None if source is None else graph.producer(op, source[0])
        if op.type not in FOLLOWING_TYPES or before is None:
            break
        op = before
    return op


def _order(op: OpNode, recorded: RecordedStep) -> Optional[Tuple[int, ...]]:
    """Return in which order of the axes of its input an op wrote them."""
    source, written = recorded.input(op, 0)[0], recorded.output(op, 0)
    if source is None or written is None:
        return None
    try:
        read = RecordedTensor(Feed(source, desc_at(op.input_descs, 0))).whole()
        made = RecordedTensor(Feed(written, desc_at(op.output_descs, 0))).whole()
    except (NotComputable, GoldwatchError, MemoryError):
        return None
    if made.size < 2 or not np.ptp(np.asarray(made, np.float64)) > 0 or read.ndim > _MOST_AXES:
        return None
    _, *others = permutations(range(read.ndim))
    return next((order for order in others if np.array_equal(read.transpose(order), made)), None)
