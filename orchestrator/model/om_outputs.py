"""Which outputs an om hands out, and which op makes each."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, NamedTuple, Optional, Tuple

from .graph import ModelGraph
from .op_node import OpNode, TensorDesc, desc_at

_JOINING = ("Merge", "StreamMerge")


class OmOutput(NamedTuple):
    """One of the om's outputs: whose it is, and how it is handed out."""

    op: OpNode
    output: int
    desc: TensorDesc

    @property
    def names(self) -> Tuple[str, ...]:
        """All names that it may be called by: of its op, of the originals, of the output."""
        return (self.op.name, *self.op.originals, self.desc.origin_name or "")

    @property
    def shown(self) -> str:
        """Its op and number, and in brackets the original op."""
        original = next((name for name in reversed(self.names) if name), self.op.name)
        text = "%s:%d" % (self.op.name, self.output)
        return text if original == self.op.name else "%s (%s)" % (text, original)


def om_outputs(graph: ModelGraph) -> Iterator[OmOutput]:
    """Yield the outputs of a network in their order: what its main graph's NetOutput is given."""
    last = next((op for op in graph.ops if op.type == "NetOutput" and op.graph_index == 0), None)
    for number, source in enumerate(last.inputs if last is not None else ()):
        producer = (
            graph.producer(last, source[0]) if source is not None and last is not None else None
        )
        if producer is None or source is None or last is None:
            continue
        input_desc, output = desc_at(last.input_descs, number), source[1]
        joined = _of_a_gear(graph, producer, output)
        if joined is not None:
            # Of any gear it is the same output, in another size.
            producer, output, input_desc = (
                joined[0],
                joined[1],
                replace(input_desc, shape=tuple(-1 for _ in input_desc.shape)),
            )
        output_desc = desc_at(producer.output_descs, output)
        yield OmOutput(
            producer,
            output,
            replace(
                input_desc if input_desc.dtype else output_desc, origin_name=output_desc.origin_name
            ),
        )


def _of_a_gear(graph: ModelGraph, producer: OpNode, output: int) -> Optional[Tuple[OpNode, int]]:
    """Return which op's output, in one gear, is the output of an op where the gears join again;
    None of any other op.
    """
    ends = [
        op
        for op in graph.ops
        if op.type == "NetOutput" and graph.graph_names[op.graph_index] in producer.subgraphs
    ]
    if not ends and producer.type not in _JOINING:
        return None
    end, number = (ends[0], output) if ends else (producer, 0)
    source = end.inputs[number] if number < len(end.inputs) else None
    node = graph.producer(end, source[0]) if source is not None else None
    return None if node is None or source is None else (node, source[1])
