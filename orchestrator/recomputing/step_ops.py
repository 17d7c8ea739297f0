"""The ops of one step that may be computed again: what each reads and makes, and the piece of the
original model that it is.
"""

from __future__ import annotations

import operator
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import GoldwatchError
from ..metrics.row import NOT_COMPARED
from ..model.graph import ModelGraph
from ..model.op_node import OpNode, desc_at
from ..model.row_plan import RowPlan
from ..netfiles.onnx_ranks import fitted_to_dims
from ..operators import Arithmetic, CannotCompute, Node, Value
from .input_feeds import Feed
from .original_cuts import Original
from .original_nodes import CaffeNodes, Nodes, OnnxNodes, TfNodes
from .partwise_comparison import Output, require_memory
from .piece import Piece
from .recomputed_output import NotComputable
from .recorded_tensor import RecordedTensor
from .replay_plan import PlannedOp, ReplayPlan
from .submodel.caffe_original import CaffeOriginal
from .submodel.caffemodel_check import find_weights
from .submodel.cut_definition import CutInput
from .submodel.onnx_original import OnnxOriginal

Array = Any

_BITS = {
    "DT_FLOAT16": "float16",
    "DT_BF16": "bfloat16",
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
}
_MOST_OTHERS = 16
_MOST_LARGER = 8
"""Other tensors that an output which is wrong is compared with; chosen by time, no trial."""
_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")
_ELEMENT_S, _PRODUCT_S = 1.2e-8, 5e-11
"""Seconds that an element and a product take (scripts/bench recompute)."""

_PRODUCTS = ("conv", "matmul", "gemm", "fullyconnection", "innerproduct")
"""Words in the types of operators that sum products of their second input."""


class StepOps:
    """The ops of one step that may be computed again.

    Parameters
    ----------
    plan
        The step: what was recorded, and which original nodes each op was made from.
    graph
        The device's model.
    original
        The model that it was made from.
    shapes
        Of its values, by (node, output), as the golden run made them; those that are not there are
        told by the model.
    weights
        Of a Caffe net its .caffemodel; None: the one beside it.

    Attributes
    ----------
    planned
        By name; an op that reads other tensors than the model says is replaced once that is known.
    nodes
        Of the original model.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        graph: ModelGraph,
        original: Original,
        shapes: Optional[Mapping[Tuple[str, int], Tuple[int, ...]]] = None,
        weights: Optional[str] = None,
    ) -> None:
        self.plan, self.graph, self.original = plan, graph, original
        self.planned: Dict[str, PlannedOp] = {planned.op.name: planned for planned in plan.ops}
        self.shapes = {**original.model.value_shapes(), **(shapes or {})}
        self.nodes = nodes_of(original, weights)
        self._order = original.model.graph.order()

    def why_not_computable(self, name: str) -> Optional[CannotCompute]:
        """Return why an op is not among :attr:`ops`; None where nothing is known of it."""
        reasons = (
            NotComputable(row.reason)
            for row in self.plan.rows
            if row.op == name and row.verdict == NOT_COMPARED and row.reason
        )
        return self.plan.refused.get(name) or next(reasons, None)

    def cost_s(self, name: str) -> float:
        """Return roughly how many seconds computing an op takes on one processor."""
        planned = self.planned.get(name)
        if planned is None:
            return 0.0
        output = sum(_elements(desc.shape) for desc in planned.op.output_descs)
        return _ELEMENT_S * self.elements(name) + _PRODUCT_S * output * self._terms(planned)

    def elements(self, name: str) -> int:
        """Return how many elements an op's inputs and outputs have."""
        planned = self.planned.get(name)
        if planned is None:
            return 0
        output = sum(_elements(desc.shape) for desc in planned.op.output_descs)
        return output + sum(_elements(feed.tensor.shape) for feed in planned.feeds)

    def _terms(self, planned: PlannedOp) -> int:
        """Return how many products an element of the output sums, as far as the shape of a filter
        tells.
        """
        if not any(word in planned.op.type.lower() for word in _PRODUCTS):
            return 1
        sizes = [
            desc.origin_shape
            for desc in planned.op.input_descs[1:2]
            if desc.origin_shape and len(desc.origin_shape) > 1
        ]
        return max((_elements(shape) // max(shape) for shape in sizes), default=1)

    def output(self, name: str, index: int) -> Optional[Array]:
        """Return an output as the device recorded it; None where it is not there, or cannot be
        read.
        """
        planned = self.planned.get(name)
        for output, number in () if planned is None else self.outputs(planned):
            if number == index:
                try:
                    return output.tensor.whole()
                except (NotComputable, GoldwatchError, MemoryError):
                    return None
        return None

    def type_of(self, name: str, index: int) -> Optional[str]:
        """Return the type of an output as the device recorded it."""
        rows = (row for plan, row in self.planned[name].rows if (plan.tensor_index or 0) == index)
        return next((row.target_dtype for row in rows), None)

    def siblings(self, node: Node, place: int) -> Iterator[Tuple[str, Array]]:
        """Yield other nodes of a type by name, the nearest in the order of the execution first,
        each with the constant that is its input at a place.
        """
        names, types = self.original.model.names, self.original.model.types
        kind = node.type.rpartition(".")[2]
        alike = [number for number in self._order if types[number] == kind]
        at = next((at for at, number in enumerate(alike) if names[number] == node.name), 0)
        nearest = sorted(range(len(alike)), key=lambda other: abs(other - at))
        for number in [alike[other] for other in nearest if other != at][:_MOST_OTHERS]:
            try:
                arguments = self.nodes.call(number).arguments
                argument = arguments[place] if place < len(arguments) else None
                if isinstance(argument, tuple):
                    argument = self.nodes.call(argument[0]).constant
            except NotComputable:
                continue
            if isinstance(argument, np.ndarray):
                yield names[number], argument

    def _made_of(self, name: str) -> Set[str]:
        """Return an op and all that are made of its outputs."""
        behind = {name}
        for op in self.graph.ops:
            if any(source is not None and source[0] in behind for source in op.inputs):
                behind.add(op.name)
        return behind

    def others_of_size(
        self, name: str, index: int, size: int, same: Collection[int] = ()
    ) -> Iterator[Tuple[str, Array]]:
        """Yield other outputs of so many elements by their names, then those of more, but for those
        that are made of this one, the nearest in the order of the execution first.

        Parameters
        ----------
        same
            Outputs of the op that hold the same by the model: of an RNN with one step, its state.
        """
        behind = self._made_of(name)
        names = [other for other in self.planned if other == name or other not in behind]
        at = names.index(name)
        near = sorted(range(len(names)), key=lambda place: abs(place - at))
        for most, fits in ((_MOST_OTHERS, operator.eq), (_MOST_LARGER, operator.gt)):
            left = most
            for place in near:
                for output, number in self.outputs(self.planned[names[place]]):
                    shape = output.tensor.shape
                    count = size if shape is None else element_count(shape)
                    own = names[place] == name and (number == index or number in same)
                    if not left or own or not fits(count, size):
                        continue
                    left -= 1
                    try:
                        values = output.tensor.whole()
                    except (NotComputable, GoldwatchError):
                        continue
                    if fits(values.size, size):
                        yield "%s (output %d)" % (names[place], number), values

    def inputs_of_size(self, name: str, index: int, size: int) -> Iterator[Tuple[str, Array]]:
        """Yield the network's inputs of so many elements, as ops read them, and other outputs as
        :meth:`others_of_size`, but for larger ones.
        """
        made = {
            (plan.golden_op, plan.golden_index or 0)
            for planned in self.planned.values()
            for plan, _ in planned.rows
        }
        behind = self._made_of(name) - {name}
        for planned in (one for other, one in self.planned.items() if other not in behind):
            for entry, feed in zip(planned.cut.inputs, planned.feeds):
                key = (entry.producer, entry.output_index)
                # A dump's header tells the stored shape, with padding; this is the original one.
                tensor = self.held(planned, entry, feed)
                if key in made or element_count(tensor.shape or (size,)) != size:
                    continue
                made.add(key)
                try:
                    values = tensor.wide()
                except (NotComputable, GoldwatchError):
                    continue
                if values.size == size:
                    yield "%s (output %d)" % key, values
        for other, values in self.others_of_size(name, index, size):
            if values.size != size:
                return
            yield other, values

    def value(self, plan: RowPlan) -> Tuple[int, int]:
        """Return the original value that an output of the device is."""
        return self.original.model.numbers(plan.golden_op or "")[0], plan.golden_index or 0

    def piece(self, planned: PlannedOp, dtype: str) -> Piece:
        """Return the piece of the original model that an op is, computed as of a type."""
        return Piece(planned.cut, self.nodes, self._order, dtype)

    def whole_values(
        self,
        planned: PlannedOp,
        inputs: Mapping[Tuple[int, int], RecordedTensor],
        *others: RecordedTensor,
    ) -> Mapping[Tuple[int, int], Value]:
        """Return all values of an op, where they fit into memory."""
        require_memory([*inputs.values(), *others])
        values_in = {value: tensor.wide() for value, tensor in inputs.items()}
        return self.piece(planned, compute_type(planned.op)).values(values_in, Arithmetic())

    def inputs(self, planned: PlannedOp) -> Dict[Tuple[int, int], RecordedTensor]:
        """Return the values that come in, by the original's."""
        return {
            entry.value: self.held(planned, entry, feed)
            for entry, feed in zip(planned.cut.inputs, planned.feeds)
        }

    def held(self, planned: PlannedOp, entry: CutInput, feed: Feed) -> RecordedTensor:
        """Return what an op is fed with as one of its inputs, in the original's shape."""
        model = self.original.model
        shape_known = self.shapes.get((entry.producer, entry.output_index))
        dtype = compute_type(planned.op) if feed.assumed else ""
        if feed.as_read:
            return RecordedTensor(feed, dtype=dtype)
        if shape_known is not None:
            return RecordedTensor(feed, shape_known, dtype=dtype)
        dims = model.dims(entry.tensor)
        return RecordedTensor(feed, None, lambda shape: fitted_to_dims(shape, dims), dtype)

    def outputs(self, planned: PlannedOp, dtype: str = "") -> List[Tuple[Output, int]]:
        """Return the outputs that are compared, each with its number on the device, as of a type
        (empty: of their own).
        """
        outputs = []
        for (plan, _), (dump, info) in zip(planned.rows, planned.outputs):
            number = plan.tensor_index or 0
            feed = Feed(
                dump.tensor(info.kind, info.index), desc_at(planned.op.output_descs, number)
            )
            tensor = RecordedTensor(feed, dtype=dtype)
            outputs.append((Output(self.value(plan), tensor), number))
        return outputs


def nodes_of(original: Original, weights: Optional[str] = None) -> Nodes:
    """Return the nodes of an original model.

    Parameters
    ----------
    weights
        Of a Caffe net its .caffemodel; None: the one beside it.
    """
    model = original.model
    if isinstance(model, OnnxOriginal):
        return OnnxNodes(model)
    if isinstance(model, CaffeOriginal):
        return CaffeNodes(model, weights or find_weights(model.path or ""))
    return TfNodes(model)


def compute_type(op: OpNode) -> str:
    """Return the coarsest floating-point type among an op's inputs and outputs, as in the DataType
    column; empty where there is none.
    """
    dtypes = {_BITS.get(desc.dtype, "") for desc in (*op.input_descs, *op.output_descs)}
    return next((dtype for dtype in _COARSEST_FIRST if dtype in dtypes), "")


def _elements(shape: Sequence[int]) -> int:
    return element_count([max(1, size) for size in shape])
