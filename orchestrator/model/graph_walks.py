"""What only a walk through a device's graph tells: the coarsest floating-point type that a value
has passed through, the quantised parts, and which tensors are outputs of the network.

Between AscendQuant and AscendDequant the data are integers without counterparts in the golden
model. Source: the vendor's document on comparing quantised models.
"""

from __future__ import annotations

from typing import Callable, FrozenSet, List, Optional, Set, Tuple

from ..base.element_types import BY_GE_NAME
from ..base.naming import RESHAPING_TYPES
from .graph import ModelGraph
from .op_groups import FOLLOWING_TYPES
from .op_node import QUANT_TYPE, OpNode

_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")


class Precision:
    """The coarsest floating-point type upstream of each op's values: its rounding stays in a value
    even if later ops compute in a finer type.

    Parameters
    ----------
    graph
        The model.
    """

    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self._coarsest: Optional[List[str]] = None

    def behind(self, op: OpNode, kind: str, number: int) -> str:
        """Return the coarsest type upstream of an input or output, as in the DataType column; empty
        if unknown.
        """
        if self._coarsest is None:
            self._coarsest = self._walk()
        if kind == "output":
            return self._coarsest[op.position]
        source = op.inputs[number] if number < len(op.inputs) else None
        producer = self._graph.producer(op, source[0]) if source is not None else None
        return self._coarsest[producer.position] if producer is not None else ""

    def coarser(self, op: OpNode, kind: str, number: int, dtype: str) -> str:
        """Return the coarsest type upstream of a float tensor of type ``dtype`` if it is coarser
        than that; else an empty string.
        """
        behind = self.behind(op, kind, number) if dtype in ("float32", "float64") else ""
        return behind if behind != dtype else ""

    def _walk(self) -> List[str]:
        """Return the coarsest type upstream of each op, by position."""
        coarsest = [""] * len(self._graph.ops)
        for op in sorted(self._graph.ops, key=lambda op: (op.graph_index, op.id)):
            types = {_type(desc.dtype) for desc in op.output_descs}
            for source in op.inputs:
                producer = self._graph.producer(op, source[0]) if source is not None else None
                if producer is not None:
                    types.add(coarsest[producer.position])
            coarsest[op.position] = next((dtype for dtype in _COARSEST_FIRST if dtype in types), "")
        return coarsest


def _type(ge_name: str) -> str:
    entry = BY_GE_NAME.get(ge_name)
    return entry.name if entry is not None else ""


MOVING_TYPES = FOLLOWING_TYPES | RESHAPING_TYPES | {"Identity", "Transpose", "TransposeD"}
"""Types whose first input holds all values of their output, in another order or type at most."""


def maker_before(
    graph: ModelGraph, op: OpNode, output: int, passes: Callable[[OpNode], bool]
) -> Tuple[OpNode, int]:
    """Return the first op on the way back along first inputs that does not pass its input on, and
    the number of its output; the last op of the way where nothing makes what it reads.
    """
    for _ in range(len(graph.ops)):
        source = next((source for source in op.inputs if source is not None), None)
        before = graph.producer(op, source[0]) if source is not None and passes(op) else None
        if source is None or before is None:
            break
        op, output = before, source[1]
    return op, output


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
        waiting = [(op, op.inputs[0]) for op in last if op.type in MOVING_TYPES and op.inputs]
    while waiting:
        reader, source = waiting.pop()
        producer = graph.producer(reader, source[0]) if source is not None else None
        if producer is None or source is None or (producer.position, source[1]) in found:
            continue
        found.add((producer.position, source[1]))
        if producer.type in MOVING_TYPES and producer.inputs:
            waiting.append((producer, producer.inputs[0]))
    return frozenset(found)


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
