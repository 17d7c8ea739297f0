"""Finds the ops of the compiled model that a cut of the original touches, and those that produce or
read a value that crosses its border.

Source of the attributes: GE's ModelDef as ``atc --mode=1`` prints it.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from ...base.errors import InputError
from ...base.fast_dataclasses import dataclass
from ...base.naming import RESHAPING_TYPES, printable
from ...model.counterpart import Counterparts
from ...model.graph import ModelGraph
from ...model.never_dumped import FIXED_TYPES, INPUT_TYPES, never_dumps
from ...model.op_groups import FOLLOWING_TYPES, groups_of
from ...model.op_node import OpNode
from ...model.row_plan import PAIR
from .read_original import Original, outputs_in

KEEPING = RESHAPING_TYPES | {"Dropout", "Identity"}
"""Types of nodes whose output has the values of their input, perhaps in another shape."""

_LEAST_KNOWN = 0.5
Output = Tuple[OpNode, int]


@dataclass(frozen=True)
class SpanningOp:
    """An op that computes nodes inside and outside of a cut.

    Attributes
    ----------
    op
        Its name on the device.
    inside, outside
        Its original nodes, in order.
    where
        At which border it lies: ``start`` (also when it spans both), ``end``, or ``side``.
    message
        The same as a sentence.
    """

    op: str
    inside: Tuple[str, ...]
    outside: Tuple[str, ...]
    where: str
    message: str


def computing_ops(om: ModelGraph) -> Iterator[OpNode]:
    """Yield the ops that compute anything: no constants, inputs, and ops that are never dumped."""
    for op in om.ops:
        if not (op.type in FIXED_TYPES or op.type in INPUT_TYPES or never_dumps(op.type)):
            yield op


def held_nodes(om: ModelGraph, original: Original) -> Iterator[Tuple[OpNode, List[List[int]]]]:
    """Yield the :func:`computing_ops`, each with the numbers of the nodes of each original name
    that it has: none where the original has no such node.
    """
    for op in computing_ops(om):
        # A body of If is a graph of its own in the om; in the original it belongs to its node.
        yield op, [original.numbers(original.inner.get(name, name)) for name in op.originals]


class DeviceOps:
    """The ops of the compiled model by the nodes of the original.

    Parameters
    ----------
    om
        The model's json.
    original
        The original model.

    Raises
    ------
    InputError
        Fewer than half of the original names in ``om`` are nodes of the original.
    """

    def __init__(self, om: ModelGraph, original: Original) -> None:
        self.om = om
        self.original = original
        self._numbers: Dict[int, List[int]] = {}
        self._of: Dict[int, List[OpNode]] = {}
        values = outputs_in(original)
        self._counterparts = Counterparts(
            om, groups_of(om), lambda name, index: (name, index) in values
        )
        self._makers: Optional[Dict[Tuple[str, int], List[Output]]] = None
        named = known = 0
        for op, held in held_nodes(om, original):
            numbers = sorted({number for each in held for number in each})
            named += len(held)
            known += sum(map(bool, held))
            self._numbers[op.position] = numbers
            for number in numbers:
                self._of.setdefault(number, []).append(op)
        if known < _LEAST_KNOWN * max(1, named):
            raise InputError(
                "%s is of another model: %d of the %d original names in it are %ss of %s"
                % (om.path or "the om json", known, named, original.noun, original.path or "MODEL"),
                hint="give the json of the om that was made from this model",
            )

    def of(self, number: int) -> List[OpNode]:
        """Return the ops that compute a node, in the file's order."""
        return list(self._of.get(number, ()))

    def originals(self, op: OpNode) -> List[int]:
        """Return the numbers of the nodes that an op computes."""
        return list(self._numbers.get(op.position, ()))

    def touched(self, inside: Set[int]) -> List[OpNode]:
        """Return the ops that compute any of these nodes, in execution order."""
        by_position = {op.position: op for number in inside for op in self._of.get(number, ())}
        return sorted(by_position.values(), key=lambda op: (op.graph_index, op.id, op.position))

    def grown(self, inside: Iterable[int]) -> Set[int]:
        """Return the nodes grown to whole ops and everything in between, until no op spans the
        border.

        A quantised part is included whole.
        """
        graph, inner = self.original.graph, self.original.quantised
        grown = graph.hull(inside)
        while True:
            more = grown | {
                number for op in self.touched(grown) for number in self._numbers[op.position]
            }
            more |= {reader for number in more & inner for reader, _, _ in graph.readers[number]}
            more |= {
                source for number in more for source, _ in graph.sources[number] if source in inner
            }
            more = graph.hull(more)
            if more == grown:
                return grown
            grown = more

    def spanning(
        self, inside: Set[int], along: Set[int], starts: Sequence[int], ends: Sequence[int]
    ) -> List[SpanningOp]:
        """Return the ops that compute nodes on both sides of the border; constants that come
        ``along`` count as inside.
        """
        before, behind = (
            self.original.graph.ancestors(starts),
            self.original.graph.descendants(ends),
        )
        names = self.original.names
        spanning_ops = []
        for op in self.touched(inside):
            outer = [
                number for number in self._numbers[op.position] if number not in inside | along
            ]
            if not outer:
                continue
            inner = [number for number in self._numbers[op.position] if number in inside]
            where = "start" if before & set(outer) else "end" if behind & set(outer) else "side"
            title = {
                "start": "your cut starts at",
                "end": "your cut ends at",
                "side": "your cut holds",
            }[where]
            shown = names[inner[0] if where == "start" else inner[-1]]
            every = [printable(names[number]) for number in self._numbers[op.position]]
            listed = " … ".join([every[0], every[-1]]) if len(every) > 2 else ", ".join(every)
            message = "op %s computes %s; %s %s" % (
                printable(op.name),
                listed,
                title,
                printable(shown),
            )
            spanning_ops.append(
                SpanningOp(
                    op.name,
                    tuple(names[n] for n in inner),
                    tuple(names[n] for n in outer),
                    where,
                    message,
                )
            )
        return spanning_ops

    def inserted(self, inside: Set[int]) -> List[OpNode]:
        """Return the ops without originals (Cast, TransData) that belong to a cut: a reader, or all
        producers, are inside.
        """
        members = {op.position for op in self.touched(inside)}
        by_position: Dict[int, OpNode] = {}
        grew = True
        while grew:
            grew = False
            for op in self.om.ops:
                if (
                    op.position in members
                    or op.originals
                    or op.type in FIXED_TYPES
                    or never_dumps(op.type)
                ):
                    continue
                producers = [producer for producer, _ in self.sources(op)]
                reads = any(reader.position in members for reader in self.om.consumers(op))
                if reads or (
                    producers and all(producer.position in members for producer in producers)
                ):
                    members.add(op.position)
                    by_position[op.position] = op
                    grew = True
        return [by_position[position] for position in sorted(by_position)]

    def sources(self, op: OpNode) -> List[Output]:
        """Return the op and output that each connected input of an op comes from."""
        sources = []
        for source in op.inputs:
            producer = None if source is None else self.om.producer(op, source[0])
            if source is not None and producer is not None:
                sources.append((producer, source[1]))
        return sources

    def value_of(self, op: OpNode, index: int) -> Optional[Tuple[str, int]]:
        """Return the original value, ``(node name, output index)``, that an output holds; None if
        unknown."""
        counterpart = self._counterparts.of_output(op, index)
        return (
            (counterpart.golden_op, counterpart.golden_index or 0)
            if counterpart.status == PAIR and counterpart.golden_op is not None
            else None
        )

    def held_value(self, value: Tuple[str, int]) -> Tuple[str, int]:
        """Return the value that the device holds in the place of one: what came into nodes that
        keep values and that no op was made of.
        """
        numbers = self.original.numbers(value[0])
        while (
            len(numbers) == 1
            and self.original.types[numbers[0]] in KEEPING
            and numbers[0] not in self._of
        ):
            source, index = self.original.graph.sources[numbers[0]][0]
            if source < 0:
                break
            numbers, value = [source], (self.original.names[source], index)
        return value

    def makers(self, value: Tuple[str, int]) -> List[Output]:
        """Return the outputs that hold an original value: those that compute it first, then its
        copies by Cast and TransData.
        """
        if self._makers is None:
            self._makers = {}
            for op in self.om.ops:
                for index in range(0 if op.type in FIXED_TYPES else len(op.output_descs)):
                    held = self.value_of(op, index)
                    if held is not None:
                        self._makers.setdefault(held, []).append((op, index))
        return sorted(
            self._makers.get(value, ()),
            key=lambda pair: (not self._numbers.get(pair[0].position), pair[0].position),
        )

    def takers(self, number: int, value: Tuple[str, int]) -> Iterator[Output]:
        """Yield the inputs with which the ops that compute a node read an original value."""
        for op in self.of(number):
            for index, source in enumerate(op.inputs):
                producer = None if source is None else self.om.producer(op, source[0])
                if (
                    source is not None
                    and producer is not None
                    and self.value_of(producer, source[1]) == value
                ):
                    yield op, index

    def before(self, op: OpNode, has_file: Set[int]) -> List[List[OpNode]]:
        """Return for each input of an op the ops with a file on the way back to the op that
        computes it, through Cast and TransData.

        Parameters
        ----------
        has_file
            Positions of the ops that have a dump file. Where the op that computes has none, the way
            ends at the last op that has one; where none has, it is left out.
        """
        ways = []
        for producer, _ in self.sources(op):
            way = [producer]
            while producer.type in FOLLOWING_TYPES or not producer.originals:
                sources = self.sources(producer)
                if not sources or sources[0][0] in way:
                    break
                producer = sources[0][0]
                way.append(producer)
            ways.append([each for each in way if each.position in has_file])
        return [way for way in ways if way]
