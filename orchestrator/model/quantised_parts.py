"""Finds the quantised parts of a model: between AscendQuant and AscendDequant the data are integers
without counterparts in the golden model.

Source: the vendor's document on comparing quantised models.
"""

from __future__ import annotations

from typing import FrozenSet, Set

from .graph import ModelGraph
from .op_node import QUANT_TYPE, OpNode

_DEQUANT = "AscendDequant"
_DEQUANT_ENDINGS = ("_dequant_layer", "AscendDequant", "_dequant")


def is_quant(op: OpNode) -> bool:
    """Return whether the op quantises: its outputs have no counterpart."""
    return op.type == QUANT_TYPE


def is_dequant(op: OpNode) -> bool:
    """Return whether the op dequantises (by its type, or the suffix of its name or an original's):
    its inputs have no counterpart.
    """
    names = (op.name, *(op.file_originals or op.originals))
    return op.type == _DEQUANT or any(name.endswith(_DEQUANT_ENDINGS) for name in names)


def quantised_stretch(graph: ModelGraph) -> FrozenSet[int]:
    """Return the positions of the ops that lie between an AscendQuant and the next dequantising
    ops.

    A quantisation json may list no connections: there, ops made from the same originals as a
    dequantising op are taken to precede it.
    """
    starts = [op for op in graph.ops if is_quant(op)]
    if not starts:
        return frozenset()
    dequantised = {op.originals for op in graph.ops if is_dequant(op) and op.originals}
    lone = [
        op
        for op in graph.ops
        if op.originals in dequantised and not op.inputs and not is_quant(op) and not is_dequant(op)
    ]
    inside: Set[int] = {op.position for op in lone}
    waiting = list(starts)
    while waiting:
        op = waiting.pop()
        for consumer in graph.consumers(op):
            if consumer.position not in inside and not is_dequant(consumer):
                inside.add(consumer.position)
                waiting.append(consumer)
    return frozenset(inside)
