"""The operators of one step computed again from the device's own inputs, each with how far the device's output is from that."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import operators
from ..comparing.row import NOT_COMPARED
from ..elements import element_count
from ..errors import GoldwatchError, NotComparable
from ..model.graph import ModelGraph
from ..model.groups import FOLLOWING_TYPES
from ..model.nodes import OpNode, TensorDesc, desc_at
from ..netfiles.onnx_ranks import fitted
from ..operators import Arithmetic, CannotCompute, Value
from ..submodel.caffe_original import CaffeOriginal
from ..submodel.onnx_original import OnnxOriginal
from ..submodel.weights import find_weights
from .arithmetic import LOOSE
from .caffe_nodes import CaffeNodes
from .evaluating import Piece, rounded
from .feeding import Feed, NetworkInput, original_values
from .measured import OwnError, decided_error, own_error
from .nodes import Nodes, OnnxNodes
from .original import NotComputable, Original
from .plan import Plan, PlannedOp
from .recomputed import DECISION, MOVE, PRODUCT, SUM, VECTOR, ComputedPair, Recomputed
from .tf_nodes import TfNodes

Array = Any

_BITS = {"DT_FLOAT16": "float16", "DT_BF16": "bfloat16", "DT_FLOAT": "float32", "DT_DOUBLE": "float64"}
_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")
_MOST_ELEMENTS = 1 << 27
_ELEMENT_S, _PRODUCT_S = 3e-8, 6e-11
"""Seconds that an element and a product take (scripts/bench recompute)."""

_PRODUCTS = ("conv", "matmul", "gemm", "fullyconnection", "innerproduct")
"""Words in the types of operators that sum products of their second input."""

_GOLDEN_FOLLOWS = 1e-3
"""Golden data follow from golden data up to this relative distance: both are float32."""
_GOLDEN_EXPLAINED = 8.0
"""Or up to so many times what float32 explains, root mean square: of values next to nothing."""
_GOLDEN_DECIDES = 0.99
"""So many of golden decisions follow from golden data at least: a few lie near ties of float32."""


class Recomputer:
    """Computes the operators of one step again.

    Parameters
    ----------
    plan
        The step: what was recorded, and which original nodes each op was made from.
    graph
        The device's model.
    original
        The model that it was made from.
    shapes
        Of its values, by (node, output), as the golden run made them; those that are not there are told by the model.
    weights
        Of a Caffe net its .caffemodel; None: the one beside it.
    """

    def __init__(
        self,
        plan: Plan,
        graph: ModelGraph,
        original: Original,
        shapes: Optional[Mapping[Tuple[str, int], Tuple[int, ...]]] = None,
        weights: Optional[str] = None,
    ) -> None:
        self._original = original
        self._plan = plan
        self._nodes = nodes_of(original, weights)
        self._order = original.model.graph.order()
        self._planned: Dict[str, PlannedOp] = {planned.op.name: planned for planned in self._plan.ops}
        self._copies = {op.name: op for op in graph.ops if op.type in FOLLOWING_TYPES and op.name not in self._planned}
        self._shapes = {**_shapes(original), **(shapes or {})}

    @property
    def ops(self) -> List[str]:
        """The names of the ops that may be computed."""
        return [*self._planned, *self._copies]

    def knows(self, name: str) -> bool:
        """Tell whether an op of this name is among :attr:`ops`."""
        return name in self._planned or name in self._copies

    def why_not(self, name: str) -> Optional[str]:
        """Return why an op is not among :attr:`ops`; None where nothing is known of it."""
        reasons = (row.reason for row in self._plan.rows if row.op == name and row.verdict == NOT_COMPARED and row.reason)
        reason = next(reasons, None)
        return None if reason is None else reason.replace("not replayed: ", "", 1)

    def cost_s(self, name: str) -> float:
        """Return roughly how many seconds computing an op takes on one processor."""
        planned = self._planned.get(name)
        if planned is None:
            return 0.0
        output = sum(_elements(desc.shape) for desc in planned.op.output_descs)
        inputs = sum(_elements(feed.tensor.shape) for feed in planned.feeds)
        # Sums are computed twice: once of squares, for their error.
        return _ELEMENT_S * (inputs + output) + 2.0 * _PRODUCT_S * output * self._terms(planned)

    def _terms(self, planned: PlannedOp) -> int:
        """Return how many products an element of the output sums, as far as the shape of a filter tells."""
        if not any(word in planned.op.type.lower() for word in _PRODUCTS):
            return 1
        sizes = [desc.origin_shape for desc in planned.op.input_descs[1:2] if desc.origin_shape and len(desc.origin_shape) > 1]
        return max((_elements(shape) // max(shape) for shape in sizes), default=1)

    def recompute(self, name: str) -> List[Recomputed]:
        """Compute an op again; its outputs, or why they cannot be computed."""
        if name in self._copies:
            return self._copied(self._copies[name])
        planned = self._planned[name]
        try:
            return self._recomputed(planned)
        except (NotComputable, CannotCompute) as error:
            return self._refused(planned, str(error))
        except (GoldwatchError, NotComparable) as error:
            return self._refused(planned, error.message)
        except MemoryError:
            return self._refused(planned, "there is not enough memory")

    def values(self, name: str) -> Dict[int, Array]:
        """Return what is computed for each output of an op, by number, rounded to the device's type.

        Raises
        ------
        NotComputable, CannotCompute, NotComparable, GoldwatchError
            It cannot be computed, or its inputs cannot be read.
        """
        planned = self._planned[name]
        made = Piece(planned.cut, self._nodes, self._order, compute_type(planned.op)).values(self._fed(planned), Arithmetic())
        found: Dict[int, Array] = {}
        for plan, row in planned.rows:
            value = self._value(planned, made, plan.tensor_index or 0)
            if value is None:
                raise NotComputable("its output %d is not computed here" % (plan.tensor_index or 0))
            found[plan.tensor_index or 0] = rounded(value.array, row.target_dtype or "")
        return found

    def pair(self, name: str, index: int) -> Optional[ComputedPair]:
        """Return an output side by side with what is computed of the device's own inputs; None where it cannot be computed."""
        if name not in self._planned:
            return self._copied_pair(name)
        planned = self._planned[name]
        try:
            fed = self._fed(planned)
            piece = Piece(planned.cut, self._nodes, self._order, compute_type(planned.op))
            value = self._value(planned, piece.values(fed, Arithmetic()), index)
            if value is None:
                return None
            actual, stored = self._actual(planned, index, value.array.shape)
            return ComputedPair(actual, value.array, stored, [(entry.producer, fed[entry.value]) for entry in planned.cut.inputs])
        except (NotComputable, CannotCompute, GoldwatchError, NotComparable, MemoryError):
            return None

    def golden_follows(self, name: str, index: int, golden: NetworkInput) -> Optional[bool]:
        """Tell whether the golden output of an op follows from its golden inputs; None where that cannot be computed.

        Parameters
        ----------
        golden
            Returns a golden tensor by its original name and output.
        """
        planned = self._planned.get(name)
        if planned is None:
            return None
        row = next((plan for plan, _ in planned.rows if (plan.tensor_index or 0) == index), None)
        made = None if row is None else golden(row.golden_op or "", row.golden_index or 0)
        try:
            fed: Dict[Tuple[int, int], Array] = {}
            for entry in planned.cut.inputs:
                tensor = golden(entry.producer, entry.output_index)
                if tensor is None or made is None:
                    return None
                fed[entry.value] = widened(original_values(Feed(tensor, TensorDesc()), None))
            value = self._value(planned, Piece(planned.cut, self._nodes, self._order, "").values(fed, Arithmetic()), index)
            if value is None or made is None:
                return None
            stored = original_values(Feed(made, TensorDesc()), None)
            if stored.size != value.array.size:
                return None
            stored = stored.reshape(value.array.shape)
            if value.array.dtype.kind != "f" or stored.dtype.kind != "f":
                return bool(np.mean(stored == value.array) >= _GOLDEN_DECIDES)
            own = own_error(stored, value, "float32")
            return not own.odd and (own.distance <= _GOLDEN_FOLLOWS or own.ratio <= _GOLDEN_EXPLAINED)
        except (NotComputable, CannotCompute, GoldwatchError, NotComparable, MemoryError):
            return None

    def _value(self, planned: PlannedOp, made: Mapping[Tuple[int, int], Value], index: int) -> Optional[Value]:
        plan = next((plan for plan, _ in planned.rows if (plan.tensor_index or 0) == index), None)
        if plan is None:
            return None
        return made.get((self._original.model.numbers(plan.golden_op or "")[0], plan.golden_index or 0))

    def _copied_pair(self, name: str) -> Optional[ComputedPair]:
        op = self._copies.get(name)
        feed = self._plan.feeder.copied(op) if op is not None else None
        made = self._plan.recorded.output(op, 0) if op is not None else None
        if op is None or feed is None or made is None:
            return None
        try:
            expected = widened(original_values(feed, None))
            actual = original_values(Feed(made, desc_at(op.output_descs, 0)), expected.shape)
        except (NotComputable, GoldwatchError, NotComparable):
            return None
        return ComputedPair(actual.reshape(expected.shape), expected, made.dtype.name, []) if actual.size == expected.size else None

    def _copied(self, op: OpNode) -> List[Recomputed]:
        """Compare the output of a Cast or TransData with its input: it changes nothing but type and layout."""
        try:
            feed, made = self._plan.feeder.copied(op), self._plan.recorded.output(op, 0)
            if feed is None or made is None:
                raise NotComputable("its input or its output was not dumped")
            expected = widened(original_values(feed, None))
            actual = original_values(Feed(made, desc_at(op.output_descs, 0)), expected.shape)
            if expected.dtype.kind != "f" or actual.dtype.kind != "f":
                raise NotComputable("it converts between other types than floats")
            if actual.size != expected.size:
                raise NotComputable("its output has the shape %s, its input %s" % (list(actual.shape), list(expected.shape)))
            own = own_error(actual.reshape(expected.shape), Value(expected), made.dtype.name)
            return [Recomputed(op.name, op.type, 0, MOVE, made.dtype.name, own, assumed=feed.assumed)]
        except NotComputable as error:
            return [Recomputed(op.name, op.type, 0, reason=str(error))]
        except (GoldwatchError, NotComparable) as error:
            return [Recomputed(op.name, op.type, 0, reason=error.message)]

    def _refused(self, planned: PlannedOp, reason: str) -> List[Recomputed]:
        return [Recomputed(planned.op.name, planned.op.type, plan.tensor_index or 0, reason=reason) for plan, _ in planned.rows]

    def _recomputed(self, planned: PlannedOp) -> List[Recomputed]:
        op = planned.op
        dtype = compute_type(op)
        piece = Piece(planned.cut, self._nodes, self._order, dtype)
        fed, assumed = self._fed(planned), any(feed.assumed for feed in planned.feeds)
        tight = piece.values(fed, Arithmetic())
        loose: Optional[Mapping[Tuple[int, int], Value]] = None
        found = []
        for plan, _ in planned.rows:
            number = self._original.model.numbers(plan.golden_op or "")[0]
            value = tight.get((number, plan.golden_index or 0))
            if value is None:
                raise CannotCompute("its output %d is not computed here" % (plan.golden_index or 0))
            actual, stored = self._actual(planned, plan.tensor_index or 0, value.array.shape)
            kind = _kind(piece)
            if value.array.dtype.kind != "f" or actual.dtype.kind != "f":
                wrong = self._decided(piece, tight, value, actual, number, plan.golden_index or 0)
                found.append(Recomputed(op.name, op.type, plan.tensor_index or 0, DECISION, stored, decided_error(wrong), assumed=assumed))
                continue
            own = own_error(actual, value, stored)
            excused: Optional[OwnError] = None
            if dtype in LOOSE and kind != MOVE and own.doubtful:
                if loose is None:
                    loose = piece.values(fed, LOOSE[dtype])
                excused = own_error(actual, loose[number, plan.golden_index or 0], stored)
            found.append(Recomputed(op.name, op.type, plan.tensor_index or 0, kind, stored, own, excused, assumed=assumed))
        return found

    def _fed(self, planned: PlannedOp) -> Dict[Tuple[int, int], Array]:
        fed: Dict[Tuple[int, int], Array] = {}
        total = 0
        for entry, feed in zip(planned.cut.inputs, planned.feeds):
            values = original_values(feed, self._shapes.get((entry.producer, entry.output_index)))
            if (entry.producer, entry.output_index) not in self._shapes and isinstance(self._original.model, OnnxOriginal):
                values = values.reshape(fitted(values.shape, self._original.model.dims(entry.tensor)))
            if feed.assumed:
                values = rounded(values, compute_type(planned.op))
            total += values.size
            if total > _MOST_ELEMENTS:
                raise NotComputable("its inputs have more than %d elements" % _MOST_ELEMENTS)
            fed[entry.value] = widened(values)
        return fed

    @staticmethod
    def _actual(planned: PlannedOp, index: int, shape: Tuple[int, ...]) -> Tuple[Array, str]:
        held = next((held for (plan, _), held in zip(planned.rows, planned.outputs) if (plan.tensor_index or 0) == index), None)
        if held is None:
            raise NotComputable("its output %d was not dumped" % index)
        dump, info = held
        tensor = dump.tensor(info.kind, info.index)
        values = original_values(Feed(tensor, desc_at(planned.op.output_descs, index)), shape)
        if values.shape != shape:
            if values.size != element_count(shape):
                raise NotComputable("its output has the shape %s, what is computed %s" % (list(values.shape), list(shape)))
            values = values.reshape(shape)
        return values, tensor.dtype.name

    @staticmethod
    def _decided(
        piece: Piece, made: Mapping[Tuple[int, int], Value], value: Value, actual: Array, number: int, index: int
    ) -> Array:
        last, _ = piece.calls[-1]
        if last == number and piece.decides:
            node, inputs = piece.inputs_of_last(made)
            outputs: List[Optional[Array]] = [None] * (index + 1)
            outputs[index] = actual
            wrong = operators.check(node, inputs, outputs)[index]
            if wrong is not None:
                return wrong
        return np.asarray(actual) != value.array


def _kind(piece: Piece) -> str:
    if piece.multiplies:
        return PRODUCT
    return SUM if piece.adds else DECISION if piece.decides else MOVE if piece.moves else VECTOR


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
    """Return the coarsest floating-point type among an op's inputs and outputs, as in the DataType column; empty where there is none."""
    there = {_BITS.get(desc.dtype, "") for desc in (*op.input_descs, *op.output_descs)}
    return next((dtype for dtype in _COARSEST_FIRST if dtype in there), "")


def widened(values: Array) -> Array:
    """Return floats as float32 at least."""
    return values.astype(np.float32) if values.dtype.kind == "f" and values.dtype.itemsize < 4 else values


def _shapes(original: Original) -> Dict[Tuple[str, int], Tuple[int, ...]]:
    from .original import caffe_shapes

    model = original.model
    if isinstance(model, CaffeOriginal):
        return dict(caffe_shapes(model))
    if isinstance(model, OnnxOriginal):
        return {(model.names[number], index): shape for (number, index), shape in model.shapes().items()}
    return {}


def _elements(shape: Sequence[int]) -> int:
    return element_count([max(1, size) for size in shape])
