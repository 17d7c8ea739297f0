"""The coarsest floating-point type that a value has passed through: its rounding stays in the value
even if later ops compute in a finer type.
"""

from __future__ import annotations

from typing import List, Optional

from ..element_types import BY_GE_NAME
from .graph import ModelGraph
from .op_node import OpNode

_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")


class Precision:
    """The coarsest type upstream of each op's values.

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
