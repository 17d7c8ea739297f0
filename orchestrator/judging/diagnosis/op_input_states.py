"""The data inputs of operators: which row compares each, and whether it is within its limits."""

from __future__ import annotations

import math
from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ...dumps.place import Place
from ...metrics.row import FAIL, PASS
from ...model.graph import ModelGraph
from ...model.graph_walks import final_outputs
from ...model.graphs_of_run import AnyGraph, ModelGraphs
from ...model.never_dumped import AIPP, FIXED_TYPES, INPUT_TYPES
from ...model.op_groups import FOLLOWING_TYPES
from ...model.op_node import OpNode, desc_at
from ...recomputing.formulas_by_type import only_moves
from .observed_ops import INPUT, OUTPUT, ObservedOp, ObservedOps, narrow
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
    source, source_output
        The producer's name, None without a model, and which of its outputs.
    owner
        The operator whose row that is: itself or the producer.
    shape
        In which shape the operator reads it, by the json; None: not told.
    """

    number: int
    state: str
    tensor: str
    observation: Optional[Observation] = None
    source: Optional[str] = None
    owner: Optional[ObservedOp] = None
    shape: Optional[Tuple[int, ...]] = None
    source_output: int = 0


class _Source(NamedTuple):
    """What feeds an input of a node: the input's index, the producer's name, which of its outputs,
    whether it is a constant or variable, and in which shape it is read.
    """

    number: int
    source: Optional[str]
    output: int
    fixed: bool
    shape: Optional[Tuple[int, ...]] = None


class _ModelOp(NamedTuple):
    """The model's node of an observed op, what feeds it, and which of its inputs are inputs of the
    network; the same at every place.
    """

    node: Optional[OpNode]
    feeds: Sequence[_Source] = ()
    of_network: Sequence[int] = ()


Array = Any
UNKNOWN_STATE, GOOD_STATE, BAD_STATE = range(3)
"""States as :class:`FedInputs` has them."""


class FedInputs(NamedTuple):
    """The data inputs of all operators of a run, op by op, [n] each: in columns what
    :meth:`Inputs.of` tells of one.

    Attributes
    ----------
    row
        The row that decided; -1 where none compares it.
    state
        :data:`UNKNOWN_STATE`, :data:`GOOD_STATE` or :data:`BAD_STATE`.
    begins
        Where the inputs of each operator begin, and the end of the last, [ops + 1].
    """

    row: Array
    state: Array
    begins: Array


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
        self._first: Optional[Set[int]] = None
        self._several: Optional[Set[Tuple[Place, str]]] = None
        self._model_ops: Optional[Tuple[Sequence[_ModelOp], Array]] = None
        self._of: Dict[ObservedOp, Tuple[InputState, ...]] = {}
        self._nodes: Dict[Tuple[Optional[str], str, str], _ModelOp] = {}

    @property
    def several(self) -> Set[Tuple[Place, str]]:
        """Place and name of each operator with several executions, as of the first call."""
        if self._several is None:
            self._several = self._observed_ops.executed_repeatedly()
        return self._several

    def is_final(self, at: int, number: int) -> bool:
        """Tell whether an output of an operator, by its number, is one of the network."""
        known, numbers = self.model_ops()
        node = known[int(numbers[at])].node
        graph = self._graphs.of(self._observed_ops.place(at).model)
        if graph is None or node is None:
            return False
        if graph not in self._final:
            self._final[graph] = final_outputs(graph)
        return (node.position, number) in self._final[graph]

    def node(self, op: ObservedOp) -> Optional[OpNode]:
        """Return the model's op that an observed one is."""
        return self._known(op).node

    def _known(self, op: ObservedOp) -> _ModelOp:
        return self._model_op(op.place.model, op.name, op.type)

    def _model_op(self, model: Optional[str], name: str, op_type: str) -> _ModelOp:
        key = (model, name, op_type)
        model_op = self._nodes.get(key)
        if model_op is None:
            graph = self._graphs.of(model)
            nodes = graph.ops_named(name) if graph is not None else ()
            node = next(
                (node for node in nodes if node.type == op_type), nodes[0] if nodes else None
            )
            model_op = self._nodes[key] = (
                _ModelOp(node) if node is None or graph is None else _model_op(node, graph)
            )
        return model_op

    def _graph(self, op: ObservedOp) -> Optional[ModelGraph]:
        return self._graphs.of(op.place.model)

    def model_ops(self) -> Tuple[Sequence[_ModelOp], Array]:
        """Return the model's ops that there are, and the number of that of each operator, [n]."""
        if self._model_ops is None:
            ops, digests = self._observed_ops, self._observed_ops.digests
            models: Dict[Optional[str], int] = {}
            model = [models.setdefault(place.model, len(models)) for place in digests.places]
            key = ops.type_of.astype(np.int64) * (len(models) + 1)
            key += np.array(model, np.int64)[ops.place_of]
            key = key * (len(ops.names) + 1) + ops.name_of
            _, firsts, same = np.unique(key, return_index=True, return_inverse=True)
            known = [
                self._model_op(ops.place(at).model, ops.names[ops.name_of[at]], ops.type(at))
                for at in firsts.tolist()
            ]
            self._model_ops = known, same.reshape(-1).astype(np.int32)
        return self._model_ops

    def in_columns(self) -> FedInputs:
        """Return the inputs of all operators; see :meth:`of`."""
        ops = self._observed_ops
        known, number = self.model_ops()
        feeds = [feed for model_op in known for feed in model_op.feeds]
        counts = np.array([len(model_op.feeds) for model_op in known], np.int32)
        if not len(counts):
            empty = np.zeros(0, np.int64)
            return FedInputs(empty, empty, np.zeros(1, np.int64))
        of_op = counts[number]
        op = np.repeat(np.arange(len(ops), dtype=np.int32), of_op)
        # Narrow columns, for the sake of memory: inputs of a million operators are no 2**31.
        starts = np.cumsum(of_op, dtype=np.int32) - of_op
        first = np.cumsum(counts, dtype=np.int32) - counts
        feed = np.repeat(first[number] - starts, of_op) + np.arange(len(op), dtype=np.int32)
        index, source, output = (
            np.array(*narrow(values))[feed]
            for values in (
                [one.number for one in feeds],
                [ops.name_code(one.source) for one in feeds],
                [one.output for one in feeds],
            )
        )
        fixed = np.array([one.fixed for one in feeds], bool)[feed]
        # Without a node in the model an op's own inputs are all that is known.
        unknown = np.array([model_op.node is None for model_op in known], bool)[number]
        tensors = ops.tensors
        own = np.flatnonzero((tensors.kind == INPUT) & unknown[tensors.op])
        op = np.concatenate([op, tensors.op[own]])
        index = np.concatenate([index, tensors.number[own]])
        rest = np.zeros(len(own), np.int8)
        source, output = np.concatenate([source, rest - 1]), np.concatenate([output, rest])
        fixed = np.concatenate([fixed, rest != 0])
        order = np.argsort(op, kind="stable")
        op, index, source, output, fixed = (
            column[order] for column in (op, index, source, output, fixed)
        )
        row = ops.tensor_rows(op, INPUT, index)
        as_read = (row >= 0) & ops.compared[row] & ~self._in_place(op, row)
        producer = ops.last_executions(ops.place_of[op], source)
        made = ops.tensor_rows(producer, OUTPUT, output)
        made = np.where((made >= 0) & ops.compared[made], made, -1)
        row = np.where(as_read, row, made)
        left = as_read | ~fixed
        op, row = op[left], row[left]
        state = np.full(len(row), GOOD_STATE, np.int8)
        state[ops.bad[row]] = BAD_STATE
        state[row < 0] = UNKNOWN_STATE
        begins = np.searchsorted(op, np.arange(len(ops) + 1, dtype=op.dtype)).astype(np.int32)
        return FedInputs(row, state, begins)

    def _in_place(self, op: Array, row: Array) -> Array:
        """Return which inputs (by rows, -1: none) lie where an output of their op lies, [n]."""
        ops, tensors = self._observed_ops, self._observed_ops.tensors
        address = ops.digests.numbers["address"]
        if not address.any():
            return np.zeros(len(row), bool)
        _, place = np.unique(address, return_inverse=True)
        place = place.reshape(-1)
        outputs = tensors.kind == OUTPUT
        size = int(place.max()) + 1
        written = tensors.op[outputs] * size + place[tensors.row[outputs]]
        return (address[row] != 0) & np.isin(op * size + place[row], written)

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
        for number, source, output, fixed, shape in feeds:
            row = op.inputs.get(number)
            if (
                row is not None
                and row.verdict in COMPARED
                and not (row.address and op.in_place(number))
            ):
                state = BAD if row.verdict == FAIL or row.otherwise else GOOD
                made = InputState(number, state, row.tensor, row, source, op)
            elif not fixed:
                made = self._made(op, number, source, output)
            else:
                continue
            states.append(made._replace(shape=shape, source_output=output))
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

    def source(self, op: ObservedOp, number: int) -> Optional[Tuple[OpNode, int]]:
        """Return the model's op that made the values of an input, and which of its outputs they
        are: its producer, or what feeds it by way of ops that only move values and were not
        compared (most have no task). None without a model.
        """
        node, graph = self.node(op), self._graph(op)
        for _ in range(_MOST_STEPS_BACK):
            source = node.inputs[number] if node is not None and number < len(node.inputs) else None
            if graph is None or node is None or source is None:
                return None
            node = graph.producer(node, source[0])
            if node is None:
                return None
            made = self._observed_ops.find(op.place, node.name)
            row = made.outputs.get(source[1]) if made is not None else None
            if (row is not None and row.compared) or not only_moves(node.type):
                return node, source[1]
            number = 0
        return None

    def behind(self, op: ObservedOp) -> List[Observation]:
        """Return the compared tensors that reach an operator's unknown inputs through operators
        that were not compared.
        """
        tensors: List[Observation] = []
        for producer_op, number in self._reaching(op):
            tensors.append(producer_op.outputs[number])
        return tensors

    def rows_behind(self, op: int) -> List[int]:
        """Return the rows of :meth:`behind`; the operator by its number."""
        found = list(self._reaching(self._observed_ops.op(op)))
        if not found:
            return []
        columns = ([one.at for one, _ in found], [number for _, number in found])
        ops, numbers = (np.array(column, np.int64) for column in columns)
        rows: List[int] = self._observed_ops.tensor_rows(ops, OUTPUT, numbers).tolist()
        return rows

    def _reaching(self, op: ObservedOp) -> Iterator[Tuple[ObservedOp, int]]:
        """Yield the operator and index of each tensor of :meth:`behind`."""
        node, graph = self.node(op), self._graph(op)
        if node is None or graph is None:
            return
        waiting = [(node, state.number, 0) for state in self.of(op) if state.state == UNKNOWN]
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
                if producer_op is None or feed is None:
                    waiting.append((producer, index, steps + 1))
                    continue
                row = producer_op.outputs.get(feed[1])
                if row is not None and row.compared:
                    yield producer_op, feed[1]
                else:
                    waiting.append((producer, index, steps + 1))

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

    def readers_of_network(self) -> Array:
        """Return the numbers of the operators that may read inputs of the network, in order of
        execution.
        """
        ops, (known, number) = self._observed_ops, self.model_ops()
        reads = np.array([len(model_op.of_network) > 0 for model_op in known], bool)[number]
        without_node = np.array([model_op.node is None for model_op in known], bool)[number]
        first = ops.first_at_places()
        reads[first[without_node[first]]] = True
        readers = np.flatnonzero(reads)
        in_order: Array = readers[np.argsort(ops.ranks[readers])]
        return in_order

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
                and len(self._observed_ops.numbers_at(op.place)) > 1
            )
        return not self.behind(op)

    def of_constants(self, op: ObservedOp) -> bool:
        """Tell whether an operator reads constants of the model alone."""
        node, graph = self.node(op), self._graph(op)
        if node is None or graph is None or not node.inputs:
            return False
        producers = [
            None if source is None else graph.producer(node, source[0]) for source in node.inputs
        ]
        return all(one is not None and one.type in FIXED_TYPES for one in producers)

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
            self._first = set(self._observed_ops.first_at_places().tolist())
        return op.at in self._first

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
            shape = desc_at(node.input_descs, number).origin_shape
            feeds.append(_Source(number, name, source[1], kind in FIXED_TYPES, shape))
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
