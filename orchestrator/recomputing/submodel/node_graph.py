"""The nodes of an original model as a graph: who reads whose values, and what lies before, behind
and between some nodes.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Sequence, Set, Tuple

Value = Tuple[int, int]
"""A value of the original graph: the number of the node that makes it, and which of its outputs it
is; ``(-1, k)`` is a Caffe net's ``input`` field number ``k``.
"""


class NodeGraph:
    """The data edges of a model. No method recurses, so chains may have any length.

    Parameters
    ----------
    sources
        For each node, in the file's order, the value that each of its inputs reads.

    Attributes
    ----------
    readers
        For each node ``(reader, which input, which output)`` of all who read from it.
    reading
        For each value ``(reader, which input)`` of all who read it.
    """

    def __init__(self, sources: Sequence[Sequence[Value]]) -> None:
        self.sources = [list(values) for values in sources]
        self.readers: List[List[Tuple[int, int, int]]] = [[] for _ in self.sources]
        self.reading: Dict[Value, List[Tuple[int, int]]] = {}
        for number, values in enumerate(self.sources):
            for place, (producer, index) in enumerate(values):
                self.reading.setdefault((producer, index), []).append((number, place))
                if producer >= 0:
                    self.readers[producer].append((number, place, index))

    def descendants(self, starts: Iterable[int]) -> Set[int]:
        """Return the nodes that data of ``starts`` reaches, and ``starts``."""
        return reached(starts, lambda number: (reader for reader, _, _ in self.readers[number]))

    def ancestors(self, ends: Iterable[int]) -> Set[int]:
        """Return the nodes whose data reaches ``ends``, and ``ends``."""
        return reached(
            ends, lambda number: (producer for producer, _ in self.sources[number] if producer >= 0)
        )

    def between(self, starts: Iterable[int], ends: Iterable[int]) -> Set[int]:
        """Return the nodes on any path from a start to an end, both included."""
        return self.descendants(starts) & self.ancestors(ends)

    def order(self) -> List[int]:
        """Return the nodes in topological order; nodes in a cycle come last, in the file's
        order."""
        waits = [
            len({producer for producer, _ in values if producer >= 0}) for values in self.sources
        ]
        order = [number for number, count in enumerate(waits) if not count]
        ordered = set(order)
        for number in order:
            for reader in sorted({reader for reader, _, _ in self.readers[number]}):
                waits[reader] -= 1
                if not waits[reader]:
                    ordered.add(reader)
                    order.append(reader)
        return order + [number for number in range(len(waits)) if number not in ordered]

    def hull(self, nodes: Iterable[int]) -> Set[int]:
        """Return ``nodes`` and all nodes on paths between them."""
        nodes = set(nodes)
        return self.between(nodes, nodes)


def reached(begin: Iterable[int], following: Callable[[int], Iterable[int]]) -> Set[int]:
    """Return the nodes of ``begin`` and all that are reached from them, by what follows each
    node.
    """
    reached_nodes = set(begin)
    waiting = list(reached_nodes)
    while waiting:
        for other in following(waiting.pop()):
            if other not in reached_nodes:
                reached_nodes.add(other)
                waiting.append(other)
    return reached_nodes
