"""Which tensors are outputs of the network."""

from __future__ import annotations

from typing import FrozenSet, Set, Tuple

from .graph import ModelGraph
from .op_groups import FOLLOWING_TYPES

_MOVING = FOLLOWING_TYPES | frozenset(
    [
        "ExpandDims", "Flatten", "FlattenV2", "Identity", "Reshape", "Squeeze", "SqueezeV2",
        "SqueezeV3", "Transpose", "TransposeD", "Unsqueeze", "UnsqueezeV2", "UnsqueezeV3",
    ]
)  # fmt: skip
"""Types whose first input holds all values of their output, in another order or type at most."""


def final_outputs(graph: ModelGraph) -> FrozenSet[Tuple[int, int]]:
    """Return (position of the op, number) of all outputs that the main graph's NetOutput is given,
    directly or by ops that only move values; without a NetOutput, those of the op that
    nothing reads, if it is one.
    """
    ends = [op for op in graph.ops if op.type == "NetOutput" and op.graph_index == 0]
    found: Set[Tuple[int, int]] = set()
    waiting = [(end, source) for end in ends for source in end.inputs]
    last = [] if ends else [op for op in graph.ops if not graph.consumers(op)]
    if len(last) == 1:
        found.update((op.position, number) for op in last for number in range(len(op.output_descs)))
        waiting = [(op, op.inputs[0]) for op in last if op.type in _MOVING and op.inputs]
    while waiting:
        reader, source = waiting.pop()
        producer = graph.producer(reader, source[0]) if source is not None else None
        if producer is None or source is None or (producer.position, source[1]) in found:
            continue
        found.add((producer.position, source[1]))
        if producer.type in _MOVING and producer.inputs:
            waiting.append((producer, producer.inputs[0]))
    return frozenset(found)
