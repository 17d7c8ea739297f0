"""Whether the inputs of an operator were good, and how far they were from golden data."""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..dumps.place import Place
from ..metrics.row import FAIL, PASS
from ..model.graph import ModelGraph
from ..model.graphs import AnyGraph, ModelGraphs
from ..model.groups import FOLLOWING_TYPES
from ..model.never import FIXED_TYPES, INPUT_TYPES
from ..model.nodes import OpNode
from .observations import Observations, ObservedOp, several_times
from .seen import COMPARED, Observation

GOOD = "good"
BAD = "bad"
UNKNOWN = "unknown"

_MOST_STEPS_BACK = 8


class InputState(NamedTuple):
    """One data input of an operator.

    Attributes
    ----------
    number
        Its index.
    state
        ``good``, ``bad`` (outside its limits, or decided otherwise than in golden data), or
        ``unknown`` where no row compares it.
    tensor
        The row that decided, its own or its producer's output; where there is none, the input's own
        name.
    seen
        That row, as far as it was compared.
    source
        The producer's name; None without a model.
    owner
        The operator whose row that is: itself or the producer.
    """

    number: int
    state: str
    tensor: str
    seen: Optional[Observation] = None
    source: Optional[str] = None
    owner: Optional[ObservedOp] = None


class _Feed(NamedTuple):
    """What feeds a node: the input's index, the producer's name, which of its outputs; nothing
    computes it.
    """

    number: int
    source: Optional[str]
    output: int
    fixed: bool


class _Known(NamedTuple):
    """The model's op that an observed one is, what feeds it, and which of its inputs are the
    network's: the same at every place.
    """

    node: Optional[OpNode]
    feeds: Sequence[_Feed] = ()
    of_network: Sequence[int] = ()


class Inputs:
    """Finds the inputs of operators among the rows of a run.

    Parameters
    ----------
    observations
        The run's rows.
    graph
        The model, or that of each place; without it an op's own input rows are all that is known.
    """

    def __init__(self, observations: Observations, graph: AnyGraph = None) -> None:
        self._seen = observations
        self._graphs = ModelGraphs.of_all(graph)
        self._first: Optional[Dict[Place, ObservedOp]] = None
        self._several: Optional[Set[Tuple[Place, str]]] = None
        self._of: Dict[ObservedOp, Tuple[InputState, ...]] = {}
        self._nodes: Dict[Tuple[Optional[str], str, str], _Known] = {}

    @property
    def several(self) -> Set[Tuple[Place, str]]:
        """Place and name of each operator that has several executions, as they were when it was
        first asked for.
        """
        if self._several is None:
            self._several = several_times(self._seen.ops)
        return self._several

    def node(self, op: ObservedOp) -> Optional[OpNode]:
        """Return the model's op that an observed one is."""
        return self._known(op).node

    def _known(self, op: ObservedOp) -> _Known:
        key = (op.place.model, op.name, op.type)
        found = self._nodes.get(key)
        if found is None:
            graph = self._graph(op)
            named = graph.ops_named(op.name) if graph is not None else ()
            node = next(
                (node for node in named if node.type == op.type), named[0] if named else None
            )
            found = self._nodes[key] = (
                _Known(node) if node is None or graph is None else _fed(node, graph)
            )
        return found

    def _graph(self, op: ObservedOp) -> Optional[ModelGraph]:
        return self._graphs.of(op.place.model)

    def of(self, op: ObservedOp) -> Tuple[InputState, ...]:
        """Return the data inputs of an operator, as they were when it was first asked for.

        An input's own row decides; where it was not compared, or lies where an output of the same
        op lies (the dump then holds the output's bytes), the output row of its producer. Constants
        and variables count only where they were compared: nothing computes them.
        """
        found = self._of.get(op)
        if found is None:
            found = self._of[op] = tuple(self._found(op))
        return found

    def _found(self, op: ObservedOp) -> List[InputState]:
        node, feeds, _ = self._known(op)
        if node is None:
            feeds = [_Feed(number, None, 0, False) for number in sorted(op.inputs)]
        found = []
        for number, source, output, fixed in feeds:
            own = op.inputs.get(number)
            if (
                own is not None
                and own.verdict in COMPARED
                and not (own.address and op.in_place(number))
            ):
                state = BAD if own.verdict == FAIL or own.otherwise else GOOD
                # As the class' own __new__ does, half as fast: a large run has a million.
                found.append(
                    tuple.__new__(InputState, (number, state, own.tensor, own, source, op))
                )
            elif not fixed:
                found.append(self._made(op, number, source, output))
        return found

    def _made(self, op: ObservedOp, number: int, source: Optional[str], output: int) -> InputState:
        """Return an input by what its producer's output is."""
        name = "%s:input:%d" % (op.name, number)
        if source is None:
            return InputState(number, UNKNOWN, name)
        producer = self._seen.find(op.place, source)
        made = producer.outputs.get(output) if producer is not None else None
        if made is None or made.verdict not in COMPARED:
            return InputState(number, UNKNOWN, name, None, source)
        state = BAD if made.verdict == FAIL or made.otherwise else GOOD
        return InputState(number, state, made.tensor, made, source, producer)

    def written(self, op: ObservedOp, state: InputState) -> Optional[str]:
        """Return the producer's output row of an input that fails by its own row, where that
        passes, much nearer to the same golden.
        """
        if (
            state.state != BAD
            or state.owner is not op
            or state.source is None
            or state.seen is None
        ):
            return None
        producer = self._seen.find(op.place, state.source)
        output = next(
            (feed.output for feed in self._known(op).feeds if feed.number == state.number), 0
        )
        made = producer.outputs.get(output) if producer is not None else None
        # By limits for one op alone the same values may fail here and pass there.
        return (
            made.tensor
            if made is not None
            and made.verdict == PASS
            and not made.distance >= 0.5 * state.seen.distance
            else None
        )

    def behind(self, op: ObservedOp) -> List[Observation]:
        """Return the compared tensors that reach an operator's unknown inputs through operators
        that were not compared.
        """
        node, graph = self.node(op), self._graph(op)
        if node is None or graph is None:
            return []
        waiting = [(node, state.number, 0) for state in self.of(op) if state.state == UNKNOWN]
        found: List[Observation] = []
        walked = set()
        while waiting:
            at, number, steps = waiting.pop()
            source = at.inputs[number]
            producer = graph.producer(at, source[0]) if source is not None else None
            if producer is None or producer.position in walked or steps > _MOST_STEPS_BACK:
                continue
            walked.add(producer.position)
            for back, feed in enumerate(producer.inputs):
                made = self._seen.find(op.place, feed[0]) if feed is not None else None
                seen = made.outputs.get(feed[1]) if made is not None and feed is not None else None
                if seen is not None and seen.compared:
                    found.append(seen)
                else:
                    waiting.append((producer, back, steps + 1))
        return found

    def of_network(self, op: ObservedOp) -> Sequence[InputState]:
        """Return those inputs of an operator that are inputs of the whole network and were
        compared.

        Without a model only the first operator of a place is known to read them.
        """
        node, _, numbers = self._known(op)
        if node is None:
            return self.of(op) if self._graph(op) is None and self._is_first(op) else ()
        if not numbers:
            return ()
        found = [
            state for state in self.of(op) if state.number in numbers and state.seen is not None
        ]
        return found or self._copied(op, node, numbers[0])

    def _copied(self, op: ObservedOp, node: OpNode, number: int) -> Sequence[InputState]:
        """Return the input of the network that a Cast or TransData of the compiler's reads, by its
        output: it changes no value.
        """
        row = op.outputs.get(0)
        if node.type not in FOLLOWING_TYPES or row is None or row.verdict not in COMPARED:
            return ()
        return [InputState(number, BAD if row.verdict == FAIL else GOOD, row.tensor, row, None, op)]

    def stands_first(self, op: ObservedOp) -> bool:
        """Tell whether nothing but inputs of the network feeds an operator, directly or through
        what was not compared.

        Without a model the first of several operators does; of one alone nobody knows what runs
        before it.
        """
        if any(state.seen is not None for state in self.of(op)):
            return False
        if self.node(op) is None:
            return (
                self._graph(op) is None and self._is_first(op) and self._seen.count_at(op.place) > 1
            )
        return not self.behind(op)

    def before(self, op: ObservedOp) -> List[ObservedOp]:
        """Return the observed operators whose data reach an operator, nearest first; none without a
        model.
        """
        node, graph = self.node(op), self._graph(op)
        if node is None or graph is None:
            return []
        seen, found, waiting = {node.position}, [], [node]
        for at in waiting:
            for source in at.inputs:
                producer = graph.producer(at, source[0]) if source is not None else None
                if producer is not None and producer.position not in seen:
                    seen.add(producer.position)
                    waiting.append(producer)
                    made = self._seen.find(op.place, producer.name)
                    if made is not None:
                        found.append(made)
        return found

    def _is_first(self, op: ObservedOp) -> bool:
        if self._first is None:
            self._first = {}
            for one in self._seen.ordered():
                self._first.setdefault(one.place, one)
        return self._first[op.place] is op

    def consumers(self, op: ObservedOp, number: int) -> List[ObservedOp]:
        """Return the observed operators that an output feeds; none without a model."""
        node, graph = self.node(op), self._graph(op)
        if node is None or graph is None:
            return []
        found = [
            self._seen.find(op.place, consumer.name) for consumer in graph.consumers(node, number)
        ]
        return [one for one in found if one is not None]


def _fed(node: OpNode, graph: ModelGraph) -> _Known:
    feeds, of_network = [], []
    for number, source in enumerate(node.inputs):
        if source is not None:
            producer = graph.producer(node, source[0])
            kind = producer.type if producer is not None else ""
            name = producer.name if producer is not None else source[0]
            feeds.append(_Feed(number, name, source[1], kind in FIXED_TYPES))
            if kind in INPUT_TYPES:
                of_network.append(number)
    return _Known(node, feeds, of_network)


def overall(inputs: Sequence[InputState]) -> str:
    """Return ``bad`` when an input is, ``good`` when every data input was compared and passes, else
    ``unknown``.
    """
    states = [entry.state for entry in inputs]
    if BAD in states:
        return BAD
    return GOOD if states and UNKNOWN not in states else UNKNOWN


def joined(distances: Sequence[float]) -> float:
    """Return the root of the sum of squares; infinite where one is no number."""
    found = math.sqrt(sum([value * value for value in distances]))
    return found if found == found else math.inf
