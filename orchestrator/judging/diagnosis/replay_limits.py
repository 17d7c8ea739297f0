"""The limits for the errors of single operators that were run again with their own inputs."""

from __future__ import annotations

import math
from typing import Iterable, List, Sequence

from ...metrics.row import DIFFERENT, WORST_SLICE
from ...model.graph import ModelGraph
from ...model.never_dumped import CONSTANT_TYPES
from ...model.op_node import OpNode, TensorDesc, desc_at
from ...tensors.type_precision import shortened
from ..limits import AT_MOST, SMALLER, Limit, Limits
from .row_digest import DISTANCE

# Five half units, a quarter more for each root of the terms, slices 2.5 times that, and no output
# passes that is 2 % off: measured in docs/replay.md (limits).
_BASE, _GROWTH, _SLICE = 5.0, 0.25, 2.5
_MOST = {"float16": (0.01, 0.018), "bfloat16": (0.018, 0.019)}
_FEW = 16


def own_error_limits(terms: Iterable[int], dtype: str) -> List[float]:
    """Return the largest relative distance of the whole, and of a slice, for the largest of some
    numbers of terms.

    Parameters
    ----------
    terms
        How many products or summands each element is the sum of.
    dtype
        The output's element type.
    """
    unit = shortened(dtype).half_unit
    whole, of_slice = _MOST.get(dtype, _MOST["float16"])
    count = max([1, *terms])
    distance = unit * (_BASE + (_GROWTH * math.sqrt(count) if count > _FEW else 0.0))
    return [min(distance, whole), min(_SLICE * distance, of_slice)]


def limits_for(graph: ModelGraph, ops: Sequence[OpNode]) -> Limits:
    """Return the limits for the own errors of some ops: one for each type, and one for each op that
    sums many terms.
    """
    entries = [Limit(DIFFERENT, AT_MOST, 0.0)]
    for selector, dtype in (("", ""), ("dtype", "bfloat16")):
        entries += _pair(own_error_limits([], dtype), selector, dtype)
    for op in ops:
        count = terms_of(graph, op)
        if count > _FEW:
            dtype = (
                "bfloat16"
                if any(desc.dtype == "DT_BF16" for desc in op.output_descs)
                else "float16"
            )
            entries += _pair(own_error_limits([count], dtype), "op", op.name)
    return Limits(tuple(entries))


def _pair(values: Sequence[float], selector: str, pattern: str) -> List[Limit]:
    return [
        Limit(metric, SMALLER, float("%.3g" % value), selector, pattern)
        for metric, value in zip((DISTANCE, WORST_SLICE), values)
    ]


def terms_of(graph: ModelGraph, op: OpNode) -> int:
    """Return how many terms each element of an op's output sums, as far as the om json tells: 1
    where it sums none.

    A filter or matrix has as many elements for each output channel; where a whole axis is reduced,
    it is the ratio of the sizes.
    """
    output = desc_at(op.output_descs, 0)
    size = _count(output)
    most = 1
    for index, source in enumerate(op.inputs):
        desc = desc_at(op.input_descs, index)
        producer = graph.producer(op, source[0]) if source is not None else None
        fixed = producer is not None and producer.type in CONSTANT_TYPES
        if fixed and len(desc.origin_shape or ()) >= 2:
            most = max(most, _count(desc) // max(1, _channels(output)))
        elif not fixed and size:
            most = max(most, _count(desc) // size)
    return most


def _count(desc: TensorDesc) -> int:
    shape = desc.origin_shape if desc.origin_shape is not None else desc.shape
    total = 1
    for dim in shape:
        total *= max(1, dim)
    return total


def _channels(desc: TensorDesc) -> int:
    shape = desc.origin_shape or desc.shape
    if len(shape) < 2:
        return _count(desc)
    return max(
        1,
        shape[1]
        if desc.origin_format in ("NCHW", "NCDHW", "ND", None) and len(shape) != 3
        else shape[-1],
    )
