"""The data inputs of operators: which row compares each, and whether it is within its limits."""

from __future__ import annotations

import math
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...dumps.place import Place
from ...metrics.row import FAIL, PASS
from ...model.graph import ModelGraph
from ...model.graph_walks import final_outputs
from ...model.graphs_of_run import AnyGraph, ModelGraphs
from ...model.never_dumped import AIPP, FIXED_TYPES, INPUT_TYPES
from ...model.op_groups import FOLLOWING_TYPES
from ...model.op_node import OpNode
from .observed_ops import ObservedOp, ObservedOps, executed_repeatedly
from .row_digest import COMPARED, Observation

GOOD = "good"
BAD = "bad"
UNKNOWN = "unknown"

# How far an input is followed through operators without rows; a bound of the time, no trial.
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
    observation
        That row, as far as it was compared.
    source
        The producer's name; None without a model.
    owner
        The operator whose row that is: itself or the producer.
    """

    number: int
    state: str
    tensor: str
    observation: Optional[Observation] = None
    source: Optional[str] = None
    owner: Optional[ObservedOp] = None


class _Source(NamedTuple):
    """What feeds an input of a node: the input's index, the producer's name, which of its outputs,
    and whether it is a constant or variable.
    """

    number: int
    source: Optional[str]
    output: int
    fixed: bool


class _ModelOp(NamedTuple):
    """The model's node of an observed op, what feeds it, and which of its inputs are inputs of the
    network; the same at every place.
    """

    node: Optional[OpNode]
    feeds: Sequence[_Source] = ()
    of_network: Sequence[int] = ()


class Inputs:
    """Finds the inputs of operators among the rows of a run.

    Parameters
    ----------
    observed
        The run's rows.
    graph
        The model, or that of each place; without it an op's own input rows are all that is known.
    """

    def __init__(self, observed: ObservedOps, graph: AnyGraph = None) -> None:
        self._observed_ops = observed
        self._graphs = ModelGraphs.of_all(graph)
        self._final: Dict[ModelGraph, FrozenSet[Tuple[int, int]]] = {}
        self._first: Optional[Dict[Place, ObservedOp]] = None
        self._several: Optional[Set[Tuple[Place, str]]] = None
        self._of: Dict[ObservedOp, Tuple[InputState, ...]] = {}
        self._nodes: Dict[Tuple[Optional[str], str, str], _ModelOp] = {}

    @property
    def several(self) -> Set[Tuple[Place, str]]:
        """Place and name of each operator with several executions, as of the first call."""
        if self._several is None:
            self._several = executed_repeatedly(self._observed_ops.ops)
        return self._several

    def is_final(self, op: ObservedOp, number: int) -> bool:
        """Tell whether an output of an operator is one of the network."""
        graph, node = self._graph(op), self.node(op)
        if graph is None or node is None:
            return False
        if graph not in self._final:
            self._final[graph] = final_outputs(graph)
        return (node.position, number) in self._final[graph]

    def node(self, op: ObservedOp) -> Optional[OpNode]:
        """Return the model's op that an observed one is."""
        return self._known(op).node

    def _known(self, op: ObservedOp) -> _ModelOp:
        key = (op.place.model, op.name, op.type)
        model_op = self._nodes.get(key)
        if model_op is None:
            graph = self._graph(op)
            nodes = graph.ops_named(op.name) if graph is not None else ()
            node = next(
                (node for node in nodes if node.type == op.type), nodes[0] if nodes else None
            )
            model_op = self._nodes[key] = (
                _ModelOp(node) if node is None or graph is None else _model_op(node, graph)
            )
        return model_op

    def _graph(self, op: ObservedOp) -> Optional[ModelGraph]:
        return self._graphs.of(op.place.model)

    def of(self, op: ObservedOp) -> Tuple[InputState, ...]:
        """Return the data inputs of an operator, as of the first call.

        An input's own row decides; where it was not compared, or lies where an output of the same
        op lies (the dump then holds the output's bytes), the output row of its producer. Constants
        and variables count only where they were compared: nothing computes them.
        """
        states = self._of.get(op)
        if states is None:
            states = self._of[op] = tuple(self._input_states(op))
        return states

    def _input_states(self, op: ObservedOp) -> List[InputState]:
        node, feeds, _ = self._known(op)
        if node is None:
            feeds = [_Source(number, None, 0, False) for number in sorted(op.inputs)]
        states = []
        for number, source, output, fixed in feeds:
            row = op.inputs.get(number)
            if (
                row is not None
                and row.verdict in COMPARED
                and not (row.address and op.in_place(number))
            ):
                state = BAD if row.verdict == FAIL or row.otherwise else GOOD
                # As the class' own __new__ does, half as fast: a large run has a million.
                states.append(
                    tuple.__new__(InputState, (number, state, row.tensor, row, source, op))
                )
            elif not fixed:
                states.append(self._made(op, number, source, output))
        return states

    def _made(self, op: ObservedOp, number: int, source: Optional[str], output: int) -> InputState:
        """Return the state of an input by the output row of its producer."""
        name = "%s:input:%d" % (op.name, number)
        if source is None:
            return InputState(number, UNKNOWN, name)
        producer = self._observed_ops.find(op.place, source)
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
            or state.observation is None
        ):
            return None
        producer = self._observed_ops.find(op.place, state.source)
        output = next(
            (feed.output for feed in self._known(op).feeds if feed.number == state.number), 0
        )
        row = producer.outputs.get(output) if producer is not None else None
        # By limits for one op alone the same values may fail here and pass there.
        return (
            row.tensor
            if row is not None
            and row.verdict == PASS
            and not row.distance >= 0.5 * state.observation.distance
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
        tensors: List[Observation] = []
        walked = set()
        while waiting:
            at, number, steps = waiting.pop()
            source = at.inputs[number]
            producer = graph.producer(at, source[0]) if source is not None else None
            if producer is None or producer.position in walked or steps > _MOST_STEPS_BACK:
                continue
            walked.add(producer.position)
            for index, feed in enumerate(producer.inputs):
                producer_op = (
                    self._observed_ops.find(op.place, feed[0]) if feed is not None else None
                )
                row = (
                    producer_op.outputs.get(feed[1])
                    if producer_op is not None and feed is not None
                    else None
                )
                if row is not None and row.compared:
                    tensors.append(row)
                else:
                    waiting.append((producer, index, steps + 1))
        return tensors

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
        states = [
            state
            for state in self.of(op)
            if state.number in numbers and state.observation is not None
        ]
        return states or self._copied(op, node, numbers[0])

    def _copied(self, op: ObservedOp, node: OpNode, number: int) -> Sequence[InputState]:
        """Return the input of the network that a Cast or TransData of the compiler's reads, by its
        output: it changes no value. An Aipp's output is the input of the network.
        """
        row = op.outputs.get(0)
        if node.type not in (*FOLLOWING_TYPES, AIPP) or row is None or row.verdict not in COMPARED:
            return ()
        return [InputState(number, BAD if row.verdict == FAIL else GOOD, row.tensor, row, None, op)]

    def stands_first(self, op: ObservedOp) -> bool:
        """Tell whether nothing but inputs of the network feeds an operator, directly or through
        what was not compared.

        Without a model the first of several operators does; of one alone nobody knows what runs
        before it.
        """
        if any(state.observation is not None for state in self.of(op)):
            return False
        if self.node(op) is None:
            return (
                self._graph(op) is None
                and self._is_first(op)
                and self._observed_ops.count_at(op.place) > 1
            )
        return not self.behind(op)

    def before(self, op: ObservedOp, walked: Optional[Set[int]] = None) -> List[ObservedOp]:
        """Return the observed operators whose data reach an operator, nearest first; none without a
        model.

        Parameters
        ----------
        walked
            Positions in the model of operators at the same place that were walked: they and all
            before them are left out. Those that are walked now are added. None: none.
        """
        node, graph = self.node(op), self._graph(op)
        walked = set() if walked is None else walked
        if node is None or graph is None or node.position in walked:
            return []
        walked.add(node.position)
        ops, waiting = [], [node]
        for at in waiting:
            for source in at.inputs:
                producer = graph.producer(at, source[0]) if source is not None else None
                if producer is not None and producer.position not in walked:
                    walked.add(producer.position)
                    waiting.append(producer)
                    observed_op = self._observed_ops.find(op.place, producer.name)
                    if observed_op is not None:
                        ops.append(observed_op)
        return ops

    def _is_first(self, op: ObservedOp) -> bool:
        if self._first is None:
            self._first = {}
            for first in self._observed_ops.ordered():
                self._first.setdefault(first.place, first)
        return self._first[op.place] is op

    def consumers(self, op: ObservedOp, number: int) -> List[ObservedOp]:
        """Return the observed operators that an output feeds; none without a model."""
        node, graph = self.node(op), self._graph(op)
        if node is None or graph is None:
            return []
        ops = [
            self._observed_ops.find(op.place, consumer.name)
            for consumer in graph.consumers(node, number)
        ]
        return [consumer_op for consumer_op in ops if consumer_op is not None]


def _model_op(node: OpNode, graph: ModelGraph) -> _ModelOp:
    feeds, of_network = [], []
    for number, source in enumerate(node.inputs):
        if source is not None:
            producer = graph.producer(node, source[0])
            kind = producer.type if producer is not None else ""
            name = producer.name if producer is not None else source[0]
            feeds.append(_Source(number, name, source[1], kind in FIXED_TYPES))
            if kind in INPUT_TYPES or kind == AIPP:
                of_network.append(number)
    return _ModelOp(node, feeds, of_network)


def overall_state(inputs: Sequence[InputState]) -> str:
    """Return ``bad`` when an input is, ``good`` when every data input was compared and passes, else
    ``unknown``.
    """
    states = [entry.state for entry in inputs]
    if BAD in states:
        return BAD
    return GOOD if states and UNKNOWN not in states else UNKNOWN


def root_sum_squares(distances: Sequence[float]) -> float:
    """Return the root of the sum of squares; infinite where one is no number."""
    root = math.sqrt(sum([value * value for value in distances]))
    return root if root == root else math.inf
