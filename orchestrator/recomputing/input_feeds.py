"""Finds the recorded tensor of each input of a cut, and its values in the original model's
layout."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import element_count
from ..model.counterpart import Counterparts
from ..model.graph import ModelGraph
from ..model.graph_walks import maker_before
from ..model.never_dumped import FIXED_TYPES, INPUT_TYPES
from ..model.op_groups import FOLLOWING_TYPES
from ..model.op_node import OpNode, TensorDesc, desc_at
from ..model.row_plan import PAIR
from ..tensors.layout_conversion import convert, plain_tensor
from ..tensors.tensor import Tensor
from .original_cuts import Value
from .recomputed_output import NotComputable
from .recorded_dumps import RecordedStep
from .submodel.cut_definition import CutInput
from .submodel.device_ops import KEEPING

Array = Any
NetworkInput = Callable[[str, int], Optional[Tensor]]
_FOUR = frozenset(("NCHW", "NHWC", "HWCN", "CHWN"))


class Feed(NamedTuple):
    """A recorded tensor and its original form by the model.

    Attributes
    ----------
    tensor, desc
        These two.
    shape
        Shape in which its producer made it, if the compiler removed a Reshape, Squeeze … in
        between; None: unknown.
    assumed
        Whether golden data's network input is used because the device's input was not dumped.
    other
        What the om feeds the op with, where that is no original value, or another than the model
        says; None where it is the model's.
    reshaped
        Whether a Reshape that has no task on the device stands between: the tensor is its input.
    source
        The device's output that holds the values, before Cast, TransData and what only reshapes
        without a task; None: unknown.
    read_shape
        In which shape the op reads it, by the json; None: not told.
    as_read
        Whether it is computed with in the shape of the tensor, whatever the model says.
    """

    tensor: Tensor
    desc: TensorDesc
    shape: Optional[Tuple[int, ...]] = None
    assumed: bool = False
    other: Optional[OtherSource] = None
    reshaped: bool = False
    source: Optional[Tuple[OpNode, int]] = None
    read_shape: Optional[Tuple[int, ...]] = None
    as_read: bool = False


class OtherSource(NamedTuple):
    """An output of the device that feeds an op in place of the value that the model says.

    Attributes
    ----------
    op, output
        Of the device, before Cast, TransData and what only reshapes without a task.
    value
        The original's value that this is; None: of none.
    view
        The op without a task that reads it; None where the op itself does.
    by_edge
        Whether nothing but the om's edge tells that it is read in place of the model's value.
    """

    op: OpNode
    output: int
    value: Optional[Value]
    view: Optional[OpNode] = None
    by_edge: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant of the om."""
        return self.op.type in FIXED_TYPES


class _Source(NamedTuple):
    """An input of a device op: its number, the output that feeds it, the original's value that
    this is, the op before Cast and TransData, and its output.
    """

    number: int
    producer: OpNode
    output: int
    value: Optional[Value]
    root: OpNode
    root_output: int


def _no_input(name: str, index: int) -> Optional[Tensor]:
    return None


class Feeder:
    """Finds the recorded inputs of the cuts of a model's ops.

    Parameters
    ----------
    joins
        Whether an original op ends a loop or a conditional: no other op's output is its value.
    network_input
        Returns golden data's network input by original name and output, or None.
    uses_shape_of
        Whether an original op uses only the shape of its input, whose values need not be dumped.
    unshaped
        Returns the original value that one holds in another shape, before what only reshapes.
    by_edges
        Whether an op may be fed with what the om's edges alone tell that it reads, where the
        original model says another value (:attr:`OtherSource.by_edge`), and with golden data's
        value in place of a constant that was not dumped.
    """

    def __init__(
        self,
        graph: ModelGraph,
        counterparts: Counterparts,
        recorded: RecordedStep,
        joins: Callable[[str], bool],
        network_input: NetworkInput = _no_input,
        uses_shape_of: Callable[[str], bool] = lambda op: False,
        unshaped: Callable[[Value], Value] = lambda value: value,
        by_edges: bool = False,
    ) -> None:
        self._by_edges = by_edges
        self._unshaped = unshaped
        self._network_input = network_input
        self._reads_shape = uses_shape_of
        self._graph = graph
        self._joins = joins
        self._counterparts = counterparts
        self._recorded = recorded
        self._holders: Optional[Dict[Value, Feed]] = None

    def feeds(self, op: OpNode, inputs: Sequence[CutInput]) -> List[Feed]:
        """Return the recorded tensor for each input of an op's cut.

        The op's recorded input is preferred, then the recorded output of its producer, then any
        op's output that holds the value.

        Raises
        ------
        NotComputable
            An input was not recorded, or is ambiguous.
        """
        every = self._sources(op)
        sources = [source for source in every if source.root.type not in FIXED_TYPES]
        matched: Dict[int, _Source] = {}
        for number, entry in enumerate(inputs):
            key = (entry.producer, entry.output_index)
            matching = next((source for source in sources if source.value == key), None)
            if matching is not None:
                matched[number] = matching
        matched_numbers = {source.number for source in matched.values()}
        values = {source.value for source in matched.values()}
        # A value that feeds the op twice is one input of the cut.
        unmatched_sources = [
            source
            for source in sources
            if source.number not in matched_numbers and source.value not in values
        ]
        unmatched_inputs = [number for number in range(len(inputs)) if number not in matched]
        if not unmatched_sources and len(sources) == len(inputs):
            # It reads one value twice, where the model says two.
            unmatched_sources = [one for one in sources if one.number not in matched_numbers]
        feeds: List[Feed] = []
        for number, entry in enumerate(inputs):
            shape = self._shape_alone(entry)
            if shape is not None:
                feeds.append(shape)
            elif number in matched:
                feeds.append(self._by_graph(op, matched[number], entry))
            elif len(unmatched_inputs) == len(unmatched_sources) == 1:
                feeds.append(self._other(op, unmatched_sources[0], entry))
            else:
                constant = self._constant_for(op, entry, every)
                given = None if unmatched_sources else self._given(entry)
                feeds.append(
                    self._constant(op, constant, entry)
                    if constant is not None
                    else self._held(entry)
                    if given is None
                    else given
                )
        return feeds

    def _given(self, entry: CutInput) -> Optional[Feed]:
        """Return golden data's value of a network's input that an op of the om does not read; None
        of other values.
        """
        key = (entry.producer, entry.output_index)
        inputs = (op for op in self._graph.ops if op.type in INPUT_TYPES)
        if not self._by_edges or not any(self._value_of(op, 0) == key for op in inputs):
            return None
        golden = self._network_input(*key)
        return None if golden is None else Feed(golden, TensorDesc(), None, True)

    def _by_graph(self, op: OpNode, source: _Source, entry: CutInput) -> Feed:
        """Return the recorded tensor of an input, what holds its values, and in which shape the op
        reads it.
        """
        maker, output, view = self._maker(source.producer, source.output)
        other = None
        if view is not None:
            value = self._value_of(maker, output)
            says = self._unshaped((entry.producer, entry.output_index))
            # Outputs of other ops with the same originals are inner values.
            within = bool(maker.originals) and set(maker.originals) <= set(op.originals)
            if value is not None and self._unshaped(value) != says and not within:
                other = OtherSource(maker, output, value, view)
        desc = desc_at(op.input_descs, source.number)
        return self._feed(op, source, entry)._replace(
            source=(maker, output), read_shape=desc.origin_shape, other=other
        )

    def _constant_for(
        self, op: OpNode, entry: CutInput, sources: Sequence[_Source]
    ) -> Optional[_Source]:
        """Return the constant that the om feeds an op with where the model says a value; None where
        none is known to stand for it.
        """
        constants = [source for source in sources if source.root.type in FIXED_TYPES]
        places = {place for name, place in entry.readers if name in op.originals}
        if len(set(op.originals)) == 1 and len(places) == 1:
            return next((source for source in constants if source.number in places), None)
        golden = self._network_input(entry.producer, entry.output_index)
        fitting = [
            source
            for source in constants
            if golden is not None
            and element_count(desc_at(op.input_descs, source.number).shape) == golden.count
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _constant(self, op: OpNode, source: _Source, entry: CutInput) -> Feed:
        """Return the constant that stands for a value; golden data's value where the constant was
        not dumped.
        """
        other = OtherSource(source.root, source.root_output, None)
        feed, is_as_read = self._recorded_input(op, source)
        if feed is not None and is_as_read:
            return feed._replace(other=other)
        golden = self._network_input(entry.producer, entry.output_index)
        if golden is None or not self._by_edges:
            return self._held(entry)
        return Feed(golden, TensorDesc(), None, True, other)

    def _shape_alone(self, entry: CutInput) -> Optional[Feed]:
        """Return zeros in the shape of a value of which only the shape is used; None if its values
        are used or the shape is unknown.
        """
        if not entry.readers or not all(self._reads_shape(name) for name, _ in entry.readers):
            return None
        for op in self._graph.ops_from(entry.producer):
            for index, desc in enumerate(op.output_descs):
                shape = desc.origin_shape if desc.origin_shape is not None else desc.shape
                number = index if op.name == entry.producer else None
                if desc.origin_name == entry.producer:
                    number = desc.origin_index
                if number == entry.output_index and all(size >= 0 for size in shape):
                    return Feed(Tensor.from_array(np.zeros(shape, np.float32)), TensorDesc(), shape)
        # A value that is only squeezed need not be the output of any op of the device.
        golden = self._network_input(entry.producer, entry.output_index)
        return (
            None
            if golden is None
            else Feed(
                Tensor.from_array(np.zeros(golden.shape, np.float32)), TensorDesc(), golden.shape
            )
        )

    def copied(self, op: OpNode) -> Optional[Feed]:
        """Return the recorded tensor that a Cast or TransData of the compiler's copies; None where
        it was not recorded.
        """
        source = next(
            (number for number, source in enumerate(op.inputs) if source is not None), None
        )
        if source is None:
            return None
        name, output = op.inputs[source] or ("", 0)
        producer = self._graph.producer(op, name)
        tensor, came_in = self._recorded.input(op, source)
        if tensor is not None and came_in:
            return Feed(tensor, desc_at(op.input_descs, source))
        if producer is None:
            return None
        output_feed = self._recorded_output(producer, output)
        if output_feed is None and producer.type in INPUT_TYPES:
            counterpart = self._counterparts.of_output(producer, output)
            tensor_given = self._network_input(
                counterpart.golden_op or producer.name, counterpart.golden_index or 0
            )
            return None if tensor_given is None else Feed(tensor_given, TensorDesc(), None, True)
        return output_feed

    def _sources(self, op: OpNode) -> List[_Source]:
        sources = []
        for index, source in enumerate(op.inputs):
            producer = self._graph.producer(op, source[0]) if source is not None else None
            if source is None or producer is None:
                continue
            root, root_output = self._root(producer, source[1])
            value = self._value_of(producer, source[1])
            sources.append(_Source(index, producer, source[1], value, root, root_output))
        return sources

    def _value_of(self, op: OpNode, output: int) -> Optional[Value]:
        """Return the original's value that an output is; None where it is of none."""
        counterpart = self._counterparts.of_output(op, output)
        if counterpart.status == PAIR and counterpart.golden_op is not None:
            return counterpart.golden_op, counterpart.golden_index or 0
        return None

    def _is_view(self, op: OpNode) -> bool:
        """Tell whether an op only reshapes and has no task: its output is its input."""
        return bool(op.no_task) and op.type in KEEPING

    def _maker(self, op: OpNode, output: int) -> Tuple[OpNode, int, Optional[OpNode]]:
        """Return the op before a chain of Cast, TransData and what only reshapes without a task,
        its output index, and the last of the latter on the way back; None where there is none.
        """
        view = None
        for _ in range(len(self._graph.ops)):
            root, root_output = self._root(op, output)
            source = next((source for source in root.inputs if source is not None), None)
            before = self._graph.producer(root, source[0]) if source is not None else None
            if source is None or before is None or not self._is_view(root):
                return root, root_output, view
            op, output, view = before, source[1], root
        return op, output, view

    def _root(self, op: OpNode, output: int) -> Tuple[OpNode, int]:
        """Return the op before a chain of Cast and TransData, and its output index."""
        return maker_before(self._graph, op, output, lambda op: op.type in FOLLOWING_TYPES)

    def _recorded_input(self, op: OpNode, source: _Source) -> Tuple[Optional[Feed], bool]:
        tensor, is_as_read = self._recorded.input(op, source.number)
        if tensor is None:
            return None, False
        desc = _with_original_shape(
            desc_at(op.input_descs, source.number),
            desc_at(source.producer.output_descs, source.output),
        )
        return Feed(
            tensor, desc, desc_at(source.root.output_descs, source.root_output).origin_shape
        ), is_as_read

    def _feed(self, op: OpNode, source: _Source, entry: CutInput) -> Feed:
        own_feed, is_as_read = self._recorded_input(op, source)
        if own_feed is not None and is_as_read:
            return own_feed
        producer_feed = self._recorded_output(source.producer, source.output)
        if producer_feed is not None:
            return producer_feed
        if own_feed is not None:
            raise NotComputable(
                "its input %d is equal to its output or lies in its memory, and what came in was "
                "not recorded" % source.number
            )
        maker, _, _ = self._maker(source.producer, source.output)
        if maker.type in INPUT_TYPES:
            network_tensor = self._network_input(entry.producer, entry.output_index)
            if network_tensor is not None:
                return Feed(network_tensor, TensorDesc(), None, True)
            raise NotComputable(
                "its input %s is the model's own, and the op's inputs were not dumped"
                % entry.tensor
            )
        raise NotComputable(
            "its input %s was not dumped, neither by itself nor by %s"
            % (entry.tensor, source.producer.name)
        )

    def _recorded_output(self, producer: OpNode, output: int) -> Optional[Feed]:
        """Return the recorded output of an op, or of its predecessor through Cast, TransData and a
        Reshape that has no task.
        """
        shape = None
        for _ in range(len(self._graph.ops)):
            tensor = self._recorded.output(producer, output)
            if tensor is not None:
                desc = desc_at(producer.output_descs, output)
                return Feed(tensor, desc, shape, reshaped=shape is not None)
            source = next((source for source in producer.inputs if source is not None), None)
            reshapes = self._is_view(producer)
            before = (
                self._graph.producer(producer, source[0])
                if source is not None and (producer.type in FOLLOWING_TYPES or reshapes)
                else None
            )
            if source is None or before is None:
                return None
            if reshapes and shape is None:
                desc = desc_at(producer.output_descs, output)
                shape = desc.shape if desc.origin_shape is None else desc.origin_shape
            producer, output = before, source[1]
        return None

    def _other(self, op: OpNode, source: _Source, entry: CutInput) -> Feed:
        """Return the only remaining input for the only remaining value: the op's own recorded
        input, since its producer's output is another value.
        """
        # Outputs of other ops with the same originals are inner values.
        within = bool(source.root.originals) and set(source.root.originals) <= set(op.originals)
        if within or (source.value is not None and self._joins(entry.producer)):
            return self._held(entry)
        padded = self._before_pad(source.root, entry)
        if padded is not None:
            return padded
        other = OtherSource(source.root, source.root_output, source.value)
        own_feed, is_as_read = self._recorded_input(op, source)
        if own_feed is not None and is_as_read:
            return own_feed._replace(other=other)
        # An op that the compiler inserted (AIPP) does not make another original's value.
        sure = source.root.type in INPUT_TYPES or not source.root.originals
        if sure:
            return self._feed(op, source, entry)._replace(other=other)
        feed = self._recorded_output(source.producer, source.output) if self._by_edges else None
        if feed is None:
            return self._held(entry)
        return feed._replace(other=other._replace(by_edge=True))

    def _before_pad(self, op: OpNode, entry: CutInput) -> Optional[Feed]:
        """Return what a Pad of the om's own reads, where that is the value that the model says: the
        model has its pads in the op behind. None of others.
        """
        if not op.type.lower().startswith("pad") or not op.inputs or self._value_of(op, 0):
            return None
        source = op.inputs[0]
        before = self._graph.producer(op, source[0]) if source is not None else None
        if source is None or before is None:
            return None
        root, output = self._root(before, source[1])
        is_model = self._value_of(root, output) == (entry.producer, entry.output_index)
        return self._recorded_output(root, output) if is_model else None

    def of_model(self, entry: CutInput) -> Tuple[Optional[Feed], bool]:
        """Return what holds the value that the model says an op reads, and whether that is the
        device's output of it, not golden data's.
        """
        try:
            return self._held(entry), True
        except NotComputable:
            golden = self._network_input(entry.producer, entry.output_index)
            return None if golden is None else Feed(golden, TensorDesc()), False

    def holds(self, name: str, output: int) -> bool:
        """Tell whether an output that was recorded is a value of the original."""
        return (name, output) in self._by_value()

    def golden_of(self, value: Value) -> Optional[Feed]:
        """Return golden data of an original value."""
        golden = self._network_input(*value)
        return None if golden is None else Feed(golden, TensorDesc())

    def _held(self, entry: CutInput) -> Feed:
        """Return the recorded output of whichever op holds a value."""
        feed = self._by_value().get((entry.producer, entry.output_index))
        if feed is None:
            raise NotComputable(
                "its input %s is a value inside another op, or was not dumped" % entry.tensor
            )
        return feed

    def _by_value(self) -> Dict[Value, Feed]:
        """Return the recorded outputs by the original's value that each is."""
        if self._holders is None:
            self._holders = {}
            for holder in self._graph.ops:
                for index in range(len(holder.output_descs)):
                    counterpart = self._counterparts.of_output(holder, index)
                    if counterpart.status == PAIR and counterpart.golden_op is not None:
                        tensor = self._recorded.output(holder, index)
                        if tensor is not None:
                            key = (counterpart.golden_op, counterpart.golden_index or 0)
                            self._holders.setdefault(
                                key, Feed(tensor, desc_at(holder.output_descs, index))
                            )
        return self._holders


def original_values(feed: Feed, shape: Optional[Tuple[int, ...]]) -> Array:
    """Return a recorded tensor in the original model's layout.

    Parameters
    ----------
    shape
        From the original model; the batch may differ. None: from the device's model or the dump.

    Returns
    -------
    ndarray
        In the original layout and shape, without padding; decoded.

    Raises
    ------
    NotComparable, GoldwatchError
        The layout cannot be converted, or the file cannot be read.
    NotComputable
        It has another number of elements.
    """
    desc = feed.desc
    plain = plain_tensor(feed.tensor, desc.origin_format, desc.origin_shape)
    values = plain.array()
    if (
        desc.origin_format is not None
        and plain.format != desc.origin_format
        and {plain.format, desc.origin_format} <= _FOUR
    ):
        values = (
            convert(values, plain.format, desc.origin_format, values.shape)
            if values.ndim == 4
            else values
        )
    if feed.reshaped:
        known = feed.shape is not None and element_count(feed.shape) == values.size
        values = values.reshape(feed.shape if known else -1)  # type: ignore[arg-type]
    fitting_shape = original_shape(values.shape, shape, feed.shape)
    if fitting_shape is None:
        raise NotComputable(
            "its input has the shape %s, the original's is %s"
            % (list(values.shape), list(shape or ()))
        )
    return values.reshape(fitting_shape)


def original_shape(
    shape: Tuple[int, ...],
    original: Optional[Tuple[int, ...]],
    producer_shape: Optional[Tuple[int, ...]],
) -> Optional[Tuple[int, ...]]:
    """Return the shape of a recorded tensor in the original model; None where that has another
    number of elements.

    Parameters
    ----------
    shape
        As recorded, in the original layout.
    original
        From the original model; the batch may differ. None: unknown.
    producer_shape
        As of :class:`Feed`.
    """
    size = element_count(shape)
    if original is None:
        return (
            producer_shape
            if producer_shape is not None and size == element_count(producer_shape)
            else shape
        )
    if len(shape) == len(original):
        return shape
    return next(
        (
            candidate
            for candidate in (original, shape[:1] + original[1:])
            if size == element_count(candidate)
        ),
        None,
    )


def _with_original_shape(first: TensorDesc, second: TensorDesc) -> TensorDesc:
    """Return the first description if it has the original shape, else the second."""
    return first if first.origin_shape is not None else second
