"""TensorFlow's loops and conditionals of the older kind (Enter … Exit, Switch … Merge): which nodes
lie inside one.

Such a node cannot be cut off from what leads into it: a placeholder in its place would belong to no
frame ("inputs from different frames"), or would always be alive, so that a Merge takes the branch
that must not run.
"""

from __future__ import annotations

from typing import List, Sequence, Set, Tuple

from .node_graph import NodeGraph, Value

_ENTER, _EXIT = ("Enter", "RefEnter"), ("Exit", "RefExit")
_SWITCH, _MERGE = ("Switch", "RefSwitch"), ("Merge", "RefMerge")
_BACK = ("NextIteration", "RefNextIteration")
CONTROL_FLOW = frozenset(_ENTER + _EXIT + _SWITCH + _MERGE + _BACK + ("LoopCond", "ControlTrigger"))
Guard = Tuple[Value, int]


class Flow:
    """Which loop and which branches the values of each node belong to.

    Parameters
    ----------
    graph
        The data edges.
    controls
        For each node the nodes that it waits for.
    types
        The nodes' types.
    """

    def __init__(
        self, graph: NodeGraph, controls: Sequence[Sequence[int]], types: Sequence[str]
    ) -> None:
        self._graph = graph
        self._types = types
        self._controls = controls
        self._depths = [0] * len(types)
        self._guards: List[Set[Guard]] = [set()] * len(types)
        if any(kind in CONTROL_FLOW for kind in types):
            for number in self._in_order():
                self._depths[number] = self._depth_of(number)
                # The (predicate, branch) pairs under which a node's values are alive; a Merge
                # joins both branches of a predicate.
                guards: Set[Guard] = set()
                for source in self._before(number):
                    guards |= self._guards[source]
                for source, index in self._graph.sources[number]:
                    if self._branches(source):
                        guards.add((self._predicate(source), index))
                if self._types[number] in _MERGE:
                    guards = {
                        (predicate, branch)
                        for predicate, branch in guards
                        if (predicate, 1 - branch) not in guards
                    }
                self._guards[number] = guards

    def inside(self, number: int) -> str:
        """Return ``while loop`` or ``conditional`` where the values that a node gives out belong to
        one, else an empty text.
        """
        if self._depths[number]:
            return "while loop"
        return "conditional" if self._guards[number] or self._branches(number) else ""

    def together(self, number: int, other: int) -> bool:
        """Return whether two nodes work in a loop or branch, both."""
        return bool(self.inside(number)) and bool(
            self.inside(other) or self._types[other] in _EXIT + _MERGE
        )

    def _in_order(self) -> List[int]:
        """Return the nodes, each behind all that it waits for but what comes round a loop."""
        followers: List[List[int]] = [[] for _ in self._types]
        waits = [0] * len(self._types)
        for number in range(len(self._types)):
            for source in self._before(number):
                followers[source].append(number)
                waits[number] += 1
        order = [number for number, count in enumerate(waits) if not count]
        for number in order:
            for follower in followers[number]:
                waits[follower] -= 1
                if not waits[follower]:
                    order.append(follower)
        return order

    def _before(self, number: int) -> List[int]:
        data = [source for source, _ in self._graph.sources[number]]
        return [
            source
            for source in data + list(self._controls[number])
            if self._types[source] not in _BACK
        ]

    def _depth_of(self, number: int) -> int:
        """Return how many loops a node's values lie in: one more behind an Enter, one less behind
        an Exit.
        """
        kind = self._types[number]
        depth = max([self._depths[source] for source in self._before(number)], default=0)
        return max(0, depth + (kind in _ENTER) - (kind in _EXIT))

    def _branches(self, number: int) -> bool:
        """Return whether a node is the Switch of a conditional; a loop's Switch has the predicate
        from its LoopCond.
        """
        sources = self._graph.sources[number]
        return (
            self._types[number] in _SWITCH
            and len(sources) > 1
            and self._types[sources[1][0]] != "LoopCond"
        )

    def _predicate(self, switch: int) -> Value:
        """Return the value that a Switch decides by; several Switches of one conditional read it
        through Identity nodes of their own.
        """
        value = self._graph.sources[switch][1]
        while self._types[value[0]] == "Identity":
            value = self._graph.sources[value[0]][0]
        return value
