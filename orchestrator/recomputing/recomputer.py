"""Computes the operators of one step again from the device's recorded inputs and measures the
device's error.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from ..base.element_types import element_count
from ..base.errors import GoldwatchError
from ..metrics.row import NOT_COMPARED
from ..model.graph import ModelGraph
from ..model.op_groups import FOLLOWING_TYPES
from ..model.op_node import OpNode, TensorDesc, desc_at
from ..model.row_plan import RowPlan
from ..netfiles.onnx_ranks import fitted_to_dims
from ..operators import Arithmetic, CannotCompute, Node, Value, compute
from ..operators.variants import FACTOR_OF
from ..tensors.tensor import Tensor
from ..tensors.type_precision import ROUNDING, rounding_of
from .attributes_and_constants import attributes_and_constants
from .formulas_by_type import LOOSE, TIGHT
from .input_feeds import Feed, NetworkInput, original_values
from .original_cuts import Original
from .original_nodes import CaffeNodes, Nodes, OnnxNodes, TfNodes
from .other_constants import SOLVED
from .output_error import OwnError
from .partwise_comparison import (
    Output,
    OutputComparison,
    PartwiseComparison,
    copied_error,
    is_suspicious,
    require_memory,
    reshaped_output,
)
from .piece import EXACT, Piece, rounded
from .read_instead import ReadInstead, makes_another, read_instead
from .recomputed_output import (
    DECISION,
    MOVE,
    PRODUCT,
    SUM,
    VECTOR,
    ComputedPair,
    ErrorTransfer,
    NotComputable,
    OpFunction,
    OutputBesideGolden,
    Recomputed,
)
from .recorded_tensor import RecordedTensor, widened
from .replay_plan import PlannedOp, ReplayPlan
from .run_variants import OF_ANOTHER, WRITTEN_INSTEAD, Written, in_32_bits, written_instead
from .submodel.caffe_original import CaffeOriginal
from .submodel.caffemodel_check import find_weights
from .submodel.cut_definition import CutInput
from .submodel.onnx_original import OnnxOriginal
from .variant_search import Instead, VariantSearch, is_another_curve, search_variants
from .variant_trials import Output as SearchedOutput

Array = Any

_BITS = {
    "DT_FLOAT16": "float16",
    "DT_BF16": "bfloat16",
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
}
_CHOOSING = ("ArgMax", "ArgMin")
_MOST_OTHERS = 16
"""Other tensors that an output which is wrong is compared with; chosen by time, no trial."""
_COARSEST_FIRST = ("bfloat16", "float16", "float32", "float64")
_COARSE = ("float16", "bfloat16")
"""Types whose one rounding is more than all that float32 does inside of most operators."""
_ELEMENT_S, _PRODUCT_S = 1.2e-8, 5e-11
"""Seconds that an element and a product take (scripts/bench recompute)."""

_PRODUCTS = ("conv", "matmul", "gemm", "fullyconnection", "innerproduct")
"""Words in the types of operators that sum products of their second input."""

_GOLDEN_FOLLOWS = 1e-3
"""Golden data follow from golden data up to this relative distance: both are float32, or as much as
bfloat16 rounds where they were rounded to it."""
# These three are chosen, no trial.
_GOLDEN_EXPLAINED = 8.0
"""Or up to so many times what float32 explains, root mean square: of values next to nothing."""
_GOLDEN_OPEN = 0.03
"""A relative distance that no rounding of golden data makes: the default limit."""
MASK = 1e30
"""Constants of this magnitude stand for infinity."""
_SMALL = 0.01
"""Relative error that passes on as smaller ones do."""
_GOLDEN_DECIDES = 0.99
"""So many of golden decisions follow from golden data at least: a few lie near ties of float32."""


def _is_of_bfloat16(values: Array) -> bool:
    """Tell whether bfloat16 holds all values."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return not np.any(bits & np.uint32(0xFFFF))


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
        Of its values, by (node, output), as the golden run made them; those that are not there are
        told by the model.
    weights
        Of a Caffe net its .caffemodel; None: the one beside it.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        graph: ModelGraph,
        original: Original,
        shapes: Optional[Mapping[Tuple[str, int], Tuple[int, ...]]] = None,
        weights: Optional[str] = None,
    ) -> None:
        self._original = original
        self._plan = plan
        self._graph = graph
        self._nodes = nodes_of(original, weights)
        self._order = original.model.graph.order()
        self._planned: Dict[str, PlannedOp] = {
            planned.op.name: planned for planned in self._plan.ops
        }
        self._copies = {
            op.name: op
            for op in graph.ops
            if op.type in FOLLOWING_TYPES and op.name not in self._planned
        }
        # Of ops that read other tensors than the model says.
        self._read: Dict[str, List[ReadInstead]] = {}
        self._settled: Set[str] = set()
        self._shapes = {**original.model.value_shapes(), **(shapes or {})}

    @property
    def ops(self) -> List[str]:
        """The names of the ops that may be computed."""
        return [*self._planned, *self._copies]

    def knows(self, name: str) -> bool:
        """Return whether an op of this name is among :attr:`ops`."""
        return name in self._planned or name in self._copies

    def why_not_computable(self, name: str) -> Optional[CannotCompute]:
        """Return why an op is not among :attr:`ops`; None where nothing is known of it."""
        reasons = (
            NotComputable(row.reason)
            for row in self._plan.rows
            if row.op == name and row.verdict == NOT_COMPARED and row.reason
        )
        return self._plan.refused.get(name) or next(reasons, None)

    def cost_s(self, name: str) -> float:
        """Return roughly how many seconds computing an op takes on one processor."""
        planned = self._planned.get(name)
        if planned is None:
            return 0.0
        output = sum(_elements(desc.shape) for desc in planned.op.output_descs)
        return _ELEMENT_S * self.elements(name) + _PRODUCT_S * output * self._terms(planned)

    def elements(self, name: str) -> int:
        """Return how many elements an op's inputs and outputs have."""
        planned = self._planned.get(name)
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

    def recompute(self, name: str) -> List[Recomputed]:
        """Compute an op again; its outputs, or why they cannot be computed."""
        if name in self._copies:
            return self._copied(self._copies[name])
        planned = self._planned[name]
        try:
            outputs = self._recomputed(planned)
            return outputs if name in self._settled else self._settled_by(planned, outputs)
        except CannotCompute as error:
            return self._refused(planned, str(error), error.code)
        except GoldwatchError as error:
            return self._refused(planned, error.message)
        except MemoryError:
            return self._refused(planned, "there is not enough memory")

    def _settled_by(self, planned: PlannedOp, outputs: List[Recomputed]) -> List[Recomputed]:
        """Return the outputs of an op that is right of the inputs that the om feeds it with, beside
        what is computed of those that the model says, and take these from now on; the outputs as
        they are where both are the same, or make the same.
        """
        self._settled.add(planned.op.name)
        try:
            read = read_instead(
                planned,
                self._plan.feeder,
                self._original,
                self._shapes,
                partial(self._held, planned),
            )
            if not read:
                return outputs
            feeds = list(planned.feeds)
            for number, one in read.items():
                feeds[number] = one.feed
            of_model = replace(planned, feeds=tuple(feeds))
            computed = self._recomputed(of_model)
        except (CannotCompute, GoldwatchError, MemoryError):
            return outputs
        if not makes_another(outputs, computed):
            return outputs
        self._planned[planned.op.name] = of_model
        self._read[planned.op.name] = list(read.values())
        return [replace(one, by_model=True) for one in computed]

    def _with_inputs_of_model(self, name: str) -> Optional[PlannedOp]:
        """Return an op with the inputs by which :meth:`recompute` judges it."""
        if name in self._planned and name not in self._settled:
            self.recompute(name)
        return self._planned.get(name)

    def values(self, name: str) -> Dict[int, Array]:
        """Return what is computed for each output of an op, by number, rounded to the device's
        type.

        Raises
        ------
        NotComputable, CannotCompute, NotComparable, GoldwatchError
            It cannot be computed, or its inputs cannot be read.
        """
        planned = self._planned[name]
        values_by_key = self._whole_values(planned, self._inputs(planned))
        outputs: Dict[int, Array] = {}
        for plan, row in planned.rows:
            value = values_by_key.get(self._value(plan))
            if value is None:
                raise NotComputable("its output %d is not computed here" % (plan.tensor_index or 0))
            outputs[plan.tensor_index or 0] = rounded(value.array, row.target_dtype or "")
        return outputs

    def pair(self, name: str, index: int) -> Optional[ComputedPair]:
        """Return an output side by side with what is computed of the device's own inputs.

        None where it cannot be computed, or only in parts: then it would not fit into memory.
        """
        planned = self._with_inputs_of_model(name)
        if planned is None:
            return self._copied_pair(name)
        try:
            output = next(
                (output for output, number in self._outputs(planned) if number == index), None
            )
            if output is None:
                return None
            inputs = self._inputs(planned)
            value = self._whole_values(planned, inputs, output.tensor).get(output.value)
            if value is None:
                return None
            actual = reshaped_output(output.tensor.whole(), value.array.shape)
            input_values = [
                (entry.producer, inputs[entry.value].wide()) for entry in planned.cut.inputs
            ]
            return ComputedPair(actual, value.array, output.tensor.name, input_values)
        except (CannotCompute, GoldwatchError, MemoryError):
            return None

    def search_variants(
        self,
        name: str,
        index: int,
        judge: Callable[[OwnError, bool], float],
        elsewhere: Callable[[], Iterator[Tuple[str, Array]]] = lambda: iter(()),
    ) -> Optional[VariantSearch]:
        """Return what the device may have computed in place of what the model says, for an output
        that is wrong; None where it cannot be computed whole.

        Parameters
        ----------
        judge
            Returns by how many times an error exceeds what is allowed, of values that are only
            moved (True) or not.
        elsewhere
            Yields what the op made in other steps, by name.
        """
        planned = self._with_inputs_of_model(name)
        if planned is None:
            return None
        if name in self._read:
            first = self._read[name][0]
            return VariantSearch([], [], instead=Instead("other-tensor", *first[1:]))
        try:
            outputs = self._outputs(planned)
            if index not in (number for _, number in outputs):
                return None
            inputs = self._inputs(planned)
            require_memory([*inputs.values(), *(output.tensor for output, _ in outputs)])
            incoming = {value: tensor.wide() for value, tensor in inputs.items()}
            dtype = compute_type(planned.op)
            piece = self._piece(planned, dtype)
            values = piece.values(incoming, TIGHT.get(dtype, Arithmetic()))
            claims = Counter(output.value for output, _ in outputs)
            # The one that is to be explained first. Others only where no header or json calls two
            # of them the same value: then nobody knows what they have to be.
            searched, *others = [
                SearchedOutput(
                    output.value,
                    *_in_one_shape(piece, output.tensor.whole(), values[output.value]),
                    output.tensor.name,
                )
                for output, number in sorted(outputs, key=lambda entry: entry[1] != index)
                if number == index or claims[output.value] == 1
            ]
            actual, searched = searched.actual, searched._replace(others=tuple(others))
            if not actual.size:
                return VariantSearch([], [])
            narrowed = in_32_bits(searched)
            if narrowed is not None:
                return VariantSearch([], [], instead=narrowed)
            facts = attributes_and_constants(
                planned.op, self._graph, lambda: self._plan.recorded, {}
            )
            search = search_variants(
                piece,
                incoming,
                searched,
                judge,
                self.cost_s(name),
                self._siblings,
                sorted(facts.constants.items()) if facts is not None else (),
            )
            if values[searched.value].array.shape != actual.shape:
                return search
            # One factor or order for all tells more than constants that come to it.
            is_solved = bool(search.explained) and all(
                entry.device.startswith(SOLVED) for entry in search.explained
            )
            # A factor of the output needs no constant of the operator, one of its input does.
            is_loose = is_solved or (
                bool(search.explained)
                and all(entry.name.startswith(FACTOR_OF) for entry in search.explained)
            )
            if search.explained and search.explained[0].device != "missing" and not is_loose:
                return search
            instead, tried, too_few = written_instead(
                Written(
                    searched,
                    lambda: chain(elsewhere(), self._others_of_size(name, index, actual.size)),
                    lambda error: judge(error, False),
                ),
                WRITTEN_INSTEAD if is_loose or not search.explained else OF_ANOTHER,
            )
            if is_loose and (
                instead is None
                or instead.several
                or (not is_solved and instead.agree < search.explained[0].agree)
            ):
                return search
            return search._replace(
                explained=[] if is_loose else search.explained,
                instead=instead,
                tried=[*search.tried, *tried],
                too_few=too_few,
                # What was written explains it without constants that only chance may have made.
                possible=[
                    entry
                    for entry in search.possible
                    if instead is None or not entry.device.startswith(SOLVED)
                ],
            )
        except (CannotCompute, GoldwatchError, MemoryError, KeyError):
            return None

    def output(self, name: str, index: int) -> Optional[Array]:
        """Return an output as the device recorded it; None where it is not there, or cannot be
        read.
        """
        planned = self._planned.get(name)
        for output, number in () if planned is None else self._outputs(planned):
            if number == index:
                try:
                    return output.tensor.whole()
                except (NotComputable, GoldwatchError, MemoryError):
                    return None
        return None

    def _of_last_index(self, planned: PlannedOp, piece: Piece, output: Output) -> int:
        """Return how many elements are another index of equal values than the model says, where the
        last of them stands each time; 0 where only some are, as chance makes them.
        """
        incoming = {value: tensor.wide() for value, tensor in self._inputs(planned).items()}
        values = piece.values(incoming, EXACT)
        actual = reshaped_output(output.tensor.whole(), values[output.value].array.shape)
        apart = int(np.count_nonzero(actual != values[output.value].array))
        for number, _, variant in piece.variants(values) if apart else ():
            if variant.name == "select_last_index":
                made = piece.with_variant(number, variant).values(incoming, EXACT)[output.value]
                if np.array_equal(actual, made.array):
                    return apart
        return 0

    def _is_another_curve(self, planned: PlannedOp, piece: Piece, output: Output) -> bool:
        """Tell whether an output is what another activation makes; as :func:`is_another_curve`."""
        inputs = self._inputs(planned)
        try:
            require_memory([*inputs.values(), output.tensor])
        except NotComputable:
            return False
        values = piece.values({value: tensor.wide() for value, tensor in inputs.items()}, EXACT)
        computed = values[output.value]
        if piece.curve(values, output.value) is None or not computed.is_float:
            return False
        actual = reshaped_output(output.tensor.whole(), computed.array.shape)
        return is_another_curve(
            piece, values, SearchedOutput(output.value, actual, computed, output.tensor.name)
        )

    def _siblings(self, node: Node, place: int) -> Iterator[Tuple[str, Array]]:
        """Yield other nodes of a type by name, the nearest in the order of the execution first,
        each with the constant that is its input at a place.
        """
        names, types = self._original.model.names, self._original.model.types
        kind = node.type.rpartition(".")[2]
        alike = [number for number in self._order if types[number] == kind]
        at = next((at for at, number in enumerate(alike) if names[number] == node.name), 0)
        nearest = sorted(range(len(alike)), key=lambda other: abs(other - at))
        for number in [alike[other] for other in nearest if other != at][:_MOST_OTHERS]:
            try:
                arguments = self._nodes.call(number).arguments
                argument = arguments[place] if place < len(arguments) else None
                if isinstance(argument, tuple):
                    argument = self._nodes.call(argument[0]).constant
            except NotComputable:
                continue
            if isinstance(argument, np.ndarray):
                yield names[number], argument

    def _others_of_size(self, name: str, index: int, size: int) -> Iterator[Tuple[str, Array]]:
        """Yield other outputs of so many elements by their names, but for those that are made of
        this one, the nearest in the order of the execution first.
        """
        behind = {name}
        for op in self._graph.ops:
            if any(source is not None and source[0] in behind for source in op.inputs):
                behind.add(op.name)
        names = [other for other in self._planned if other == name or other not in behind]
        at = names.index(name)
        near = sorted(range(len(names)), key=lambda place: abs(place - at))
        left = _MOST_OTHERS
        for place in near:
            planned = self._planned[names[place]]
            for output, number in self._outputs(planned):
                if (names[place], number) == (name, index) or not left:
                    continue
                if output.tensor.shape is None or element_count(output.tensor.shape) == size:
                    left -= 1
                    try:
                        values = output.tensor.whole()
                    except (NotComputable, GoldwatchError):
                        continue
                    if values.size == size:
                        yield "%s (output %d)" % (names[place], number), values

    def outputs_beside_golden(self, name: str, golden: NetworkInput) -> List[OutputBesideGolden]:
        """Return the outputs of an op beside what its original nodes make of its inputs in float32,
        with weights that are not rounded.

        Parameters
        ----------
        golden
            Returns a golden tensor by its original name and output.

        Raises
        ------
        NotComputable, CannotCompute, NotComparable, GoldwatchError
            It cannot be computed, its inputs cannot be read, or there is not enough memory.
        """
        planned = self._planned.get(name)
        if planned is None:
            why = self.why_not_computable(name)
            raise why or NotComputable("the original model does not tell it")
        outputs, inputs = self._outputs(planned), self._inputs(planned)
        require_memory([*inputs.values(), *(output.tensor for output, _ in outputs)])
        piece = self._piece(planned, "")
        exact = piece.values({value: recorded.wide() for value, recorded in inputs.items()}, EXACT)
        stored = self._piece(planned, compute_type(planned.op)).values(
            {value: recorded.wide() for value, recorded in inputs.items()}, EXACT
        )
        output_keys = {output.value for output, _ in outputs}
        inner = max(
            [
                piece.largest_constant,
                *(
                    _largest(inner_value.array)
                    for value, inner_value in exact.items()
                    if value not in {*inputs, *output_keys}
                ),
            ]
        )
        besides = []
        for (output, number), (plan, _) in zip(outputs, planned.rows):
            value = exact.get(output.value)
            if value is None:
                continue
            tensor = golden(plan.golden_op or "", plan.golden_index or 0)
            expected = None if tensor is None else RecordedTensor(Feed(tensor, TensorDesc())).wide()
            if expected is not None and expected.size != value.array.size:
                expected = None
            actual = reshaped_output(output.tensor.whole(), value.array.shape)
            expected = None if expected is None else expected.reshape(value.array.shape)
            besides.append(
                OutputBesideGolden(
                    number,
                    output.tensor.name,
                    actual,
                    value.array,
                    expected,
                    stored[output.value].array,
                    inner,
                )
            )
        return besides

    def error_transfer(self, name: str, golden: NetworkInput) -> Optional[ErrorTransfer]:
        """Return how the errors of an op's inputs come out where they are scaled down, so that they
        are small; None where it is not known.

        Large errors pass on otherwise than small ones: they saturate, or blow up. Inputs that are
        not finite get noise.

        Parameters
        ----------
        golden
            Returns a golden tensor by its original name and output.
        """
        planned = self._planned.get(name)
        if planned is None:
            return None
        try:
            tensors = self._inputs(planned)
            require_memory(list(tensors.values()))
            sides = {}
            for entry in planned.cut.inputs:
                shape_alone = bool(entry.readers) and all(
                    self._original.uses_shape_of(reader) for reader, _ in entry.readers
                )
                golden_values = None if shape_alone else golden(entry.producer, entry.output_index)
                sides[entry.value] = _with_golden_floats(tensors[entry.value].wide(), golden_values)
            errors = [_relative(*side) for side in sides.values()]
            factor = _SMALL / max([_SMALL, *(error for error in errors if math.isfinite(error))])
            random = np.random.RandomState(0)
            values = {
                value: _with_small_error(actual, golden_values, factor, random)
                for value, (actual, golden_values) in sides.items()
            }
            computed = self._piece(planned, "").values(values, EXACT)
            transfer = ErrorTransfer([], {})
            for value, (_, golden_values) in sides.items():
                if golden_values is not None:
                    transfer.inputs.append(
                        (
                            _relative(values[value], golden_values),
                            float(np.linalg.norm(golden_values[np.abs(golden_values) < MASK])),
                            golden_values.size,
                        )
                    )
            for plan, _ in planned.rows:
                value_computed, golden_values = (
                    computed.get(self._value(plan)),
                    golden(plan.golden_op or "", plan.golden_index or 0),
                )
                if value_computed is not None and golden_values is not None:
                    transfer.outputs[plan.tensor_index or 0] = _relative(
                        *_with_golden_floats(value_computed.array, golden_values)
                    )
            return transfer
        except (CannotCompute, GoldwatchError, MemoryError):
            return None

    def op_function(self, name: str) -> OpFunction:
        """Return how an op computes its outputs of any inputs, in float32 with weights that are not
        rounded.

        Raises
        ------
        NotComputable, NotComparable, GoldwatchError
            It cannot be computed, or its inputs were not recorded.
        """
        planned = self._planned.get(name)
        if planned is None:
            why = self.why_not_computable(name)
            raise why or NotComputable("the original model does not tell it")
        pieces = self._piece(planned, ""), self._piece(planned, compute_type(planned.op))
        inputs = [(entry.value, entry.producer, entry.output_index) for entry in planned.cut.inputs]
        outputs = [(self._value(plan), plan.tensor_index or 0) for plan, _ in planned.rows]

        def compute(
            fed: Mapping[Tuple[int, int], Array], as_held: bool
        ) -> Dict[Tuple[int, int], Array]:
            values = pieces[as_held].values(fed, EXACT)
            return {value: values[value].array for value, _ in outputs if value in values}

        return OpFunction(inputs, outputs, compute)

    def _golden_sides(
        self, name: str, index: int, golden: NetworkInput
    ) -> Optional[Tuple[Dict[Tuple[int, int], RecordedTensor], Output]]:
        """Return the golden inputs of an op and one of its golden outputs; None where one is not
        there.
        """
        planned = self._planned.get(name)
        rows = () if planned is None else planned.rows
        plan = next((plan for plan, _ in rows if (plan.tensor_index or 0) == index), None)
        if planned is None or plan is None:
            return None
        inputs = {}
        for entry in planned.cut.inputs:
            tensor = golden(entry.producer, entry.output_index)
            if tensor is None:
                return None
            inputs[entry.value] = RecordedTensor(Feed(tensor, TensorDesc()))
        made = golden(plan.golden_op or "", plan.golden_index or 0)
        if made is None:
            return None
        return inputs, Output(self._value(plan), RecordedTensor(Feed(made, TensorDesc())))

    def golden_overflows(self, name: str, index: int, golden: NetworkInput) -> bool:
        """Tell whether golden data of an output are beyond the largest number of the device's type;
        parameters as of :meth:`golden_follows`.
        """
        planned = self._planned.get(name)
        for plan, row in () if planned is None else planned.rows:
            if (plan.tensor_index or 0) == index and row.target_dtype in ROUNDING:
                made = golden(plan.golden_op or "", plan.golden_index or 0)
                values = None if made is None else RecordedTensor(Feed(made, TensorDesc())).wide()
                return values is not None and _largest(values) > ROUNDING[row.target_dtype].largest
        return False

    def golden_variants(
        self,
        name: str,
        index: int,
        golden: NetworkInput,
        judge: Callable[[OwnError, bool], float],
    ) -> Optional[VariantSearch]:
        """Return by what golden data may have been made in place of what the model says, for a
        golden output that does not follow from golden inputs; parameters as of
        :meth:`golden_follows` and :meth:`search_variants`.
        """
        planned, sides = self._planned.get(name), self._golden_sides(name, index, golden)
        if planned is None or sides is None:
            return None
        inputs, output = sides
        try:
            require_memory([*inputs.values(), output.tensor])
            incoming = {value: tensor.wide() for value, tensor in inputs.items()}
            piece = self._piece(planned, "float32")
            computed = piece.values(incoming, Arithmetic())[output.value]
            actual = reshaped_output(output.tensor.whole(), computed.array.shape)
            # Frameworks compute coordinates and sums in types of their own: a step of float16 tells
            # variants apart.
            searched = SearchedOutput(output.value, actual, computed, "float16")
            cost_s = self.cost_s(name)
            return search_variants(piece, incoming, searched, judge, cost_s, self._siblings)
        except (CannotCompute, GoldwatchError, MemoryError, KeyError):
            return None

    def golden_follows(self, name: str, index: int, golden: NetworkInput) -> Optional[bool]:
        """Return whether the golden output of an op follows from its golden inputs; None where that
        cannot be computed, or elements that are open differ.

        Parameters
        ----------
        golden
            Returns a golden tensor by its original name and output.
        """
        planned, sides = self._planned.get(name), self._golden_sides(name, index, golden)
        if planned is None or sides is None:
            return None
        inputs, output = sides
        try:
            (comparison,) = PartwiseComparison(self._piece(planned, ""), inputs, [output]).measure(
                Arithmetic()
            )
        except (CannotCompute, GoldwatchError, MemoryError):
            return None
        error = comparison.error
        if comparison.decided:
            return error.unequal <= (1.0 - _GOLDEN_DECIDES) * error.elements
        follows = _GOLDEN_FOLLOWS
        if _is_of_bfloat16(output.tensor.whole()):
            # A model in bfloat16, which no npy file has: each node rounds to it.
            follows = max(follows, rounding_of("bfloat16").half_unit * len(planned.cut.layers))
        if error.not_finite or (error.distance > follows and error.ratio > _GOLDEN_EXPLAINED):
            return False
        device = next((one for one, number in self._outputs(planned) if number == index), None)
        open_ones = [self._is_open(planned, inputs, output)]
        if device is not None:
            open_ones.append(self._is_open(planned, self._inputs(planned), device))
        return None if any(open_ones) else True

    def _is_open(
        self, planned: PlannedOp, inputs: Mapping[Tuple[int, int], RecordedTensor], output: Output
    ) -> bool:
        """Tell whether an output that follows is another than what is computed: elements differ
        that are open, such as those of places on a border.
        """
        try:
            value = self._whole_values(planned, inputs, output.tensor).get(output.value)
            if value is None or value.array.dtype.kind != "f":
                return False
            held = reshaped_output(output.tensor.wide(), value.array.shape)
            # What overflows is told by itself.
            finite = np.isfinite(held).all() and np.isfinite(value.array).all()
            return bool(finite) and _relative(value.array, held) > _GOLDEN_OPEN
        except (CannotCompute, GoldwatchError, MemoryError):
            return False

    def recompute_in_bfloat16(
        self, name: str, index: int, golden: NetworkInput
    ) -> Optional[Recomputed]:
        """Compute an output again of which golden data and the device have values of bfloat16
        alone, as float32: the model computes in it. None where they do not; parameters as of
        :meth:`golden_follows`.
        """
        sides, device = self._golden_sides(name, index, golden), self.output(name, index)
        try:
            if sides is None or device is None or self._type_of(name, index) != "float32":
                return None
            if not (_is_of_bfloat16(device) and _is_of_bfloat16(sides[1].tensor.whole())):
                return None
            outputs = self._recomputed(self._planned[name], "bfloat16")
            return next(one for one in outputs if one.number == index)
        except (CannotCompute, GoldwatchError, MemoryError):
            return None

    def _type_of(self, name: str, index: int) -> Optional[str]:
        """Return the type of an output as the device recorded it."""
        rows = (row for plan, row in self._planned[name].rows if (plan.tensor_index or 0) == index)
        return next((row.target_dtype for row in rows), None)

    def _value(self, plan: RowPlan) -> Tuple[int, int]:
        """Return the original value that an output of the device is."""
        return self._original.model.numbers(plan.golden_op or "")[0], plan.golden_index or 0

    def _piece(self, planned: PlannedOp, dtype: str) -> Piece:
        return Piece(planned.cut, self._nodes, self._order, dtype)

    def _whole_values(
        self,
        planned: PlannedOp,
        inputs: Mapping[Tuple[int, int], RecordedTensor],
        *others: RecordedTensor,
    ) -> Mapping[Tuple[int, int], Value]:
        """Return all values of an op, where they fit into memory."""
        require_memory([*inputs.values(), *others])
        values_in = {value: tensor.wide() for value, tensor in inputs.items()}
        return self._piece(planned, compute_type(planned.op)).values(values_in, Arithmetic())

    def _inputs(self, planned: PlannedOp) -> Dict[Tuple[int, int], RecordedTensor]:
        """Return the values that come in, by the original's."""
        return {
            entry.value: self._held(planned, entry, feed)
            for entry, feed in zip(planned.cut.inputs, planned.feeds)
        }

    def _held(self, planned: PlannedOp, entry: CutInput, feed: Feed) -> RecordedTensor:
        model = self._original.model
        shape_known = self._shapes.get((entry.producer, entry.output_index))
        dtype = compute_type(planned.op) if feed.assumed else ""
        if shape_known is not None:
            return RecordedTensor(feed, shape_known, dtype=dtype)
        dims = model.dims(entry.tensor)
        return RecordedTensor(feed, None, lambda shape: fitted_to_dims(shape, dims), dtype)

    def _outputs(self, planned: PlannedOp, dtype: str = "") -> List[Tuple[Output, int]]:
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
            outputs.append((Output(self._value(plan), tensor), number))
        return outputs

    def _copied_pair(self, name: str) -> Optional[ComputedPair]:
        op = self._copies.get(name)
        feed = self._plan.feeder.copied(op) if op is not None else None
        output = self._plan.recorded.output(op, 0) if op is not None else None
        if op is None or feed is None or output is None:
            return None
        try:
            expected = widened(original_values(feed, None))
            actual = original_values(Feed(output, desc_at(op.output_descs, 0)), expected.shape)
        except (NotComputable, GoldwatchError):
            return None
        return (
            ComputedPair(actual.reshape(expected.shape), expected, output.dtype.name, [])
            if actual.size == expected.size
            else None
        )

    def _copied(self, op: OpNode) -> List[Recomputed]:
        """Compare the output of a Cast or TransData with its input: it changes nothing but type and
        layout.
        """
        try:
            feed, output = self._plan.feeder.copied(op), self._plan.recorded.output(op, 0)
            if feed is None or output is None:
                raise NotComputable("its input or its output was not dumped")
            tensors = (
                RecordedTensor(feed),
                RecordedTensor(Feed(output, desc_at(op.output_descs, 0))),
            )
            own_error = copied_error(*tensors)
            cast = self._original_cast(op)
            if own_error.worst > 1.0 and cast is not None:
                # To a narrower type than the device's, whose steps it then has.
                own_error = min(own_error, copied_error(*tensors, cast), key=lambda e: e.worst)
            return [
                Recomputed(
                    op.name, op.type, 0, MOVE, output.dtype.name, own_error, assumed=feed.assumed
                )
            ]
        except CannotCompute as error:
            return [Recomputed(op.name, op.type, 0, reason=str(error), code=error.code)]
        except GoldwatchError as error:
            return [Recomputed(op.name, op.type, 0, reason=error.message)]

    def _original_cast(self, op: OpNode) -> Optional[Callable[[Array], Array]]:
        """Return what the Cast of the original model does that an op was made from; None where it
        was made from none.
        """
        numbers = [number for name in op.originals for number in self._original.model.numbers(name)]
        nodes = [self._nodes.call(number).node for number in numbers]
        node = next((node for node in nodes if node.type == op.type), None)
        return None if node is None else lambda values: compute(node, [values])[0].array

    def _refused(self, planned: PlannedOp, reason: str, code: str = "") -> List[Recomputed]:
        op = planned.op
        return [
            Recomputed(op.name, op.type, plan.tensor_index or 0, reason=reason, code=code)
            for plan, _ in planned.rows
        ]

    def _recomputed(self, planned: PlannedOp, rounded_to: str = "") -> List[Recomputed]:
        op = planned.op
        dtype = rounded_to or compute_type(op)
        piece, outputs = self._piece(planned, dtype), self._outputs(planned, rounded_to)
        assumed, kind = any(feed.assumed for feed in planned.feeds), _kind(piece)
        parts = PartwiseComparison(piece, self._inputs(planned), [output for output, _ in outputs])
        tight: List[OutputComparison] = []
        if dtype in _COARSE and kind in (PRODUCT, SUM, VECTOR) and piece.rounds_once:
            # Mostly one rounding of what is computed explains all; what else may be off need not be
            # known then.
            tight = parts.measure(EXACT, hasty=True)
        if not tight or any(
            not comparison.whole or not comparison.decided and is_suspicious(comparison.error)
            for comparison in tight
        ):
            tight = parts.measure(TIGHT.get(dtype, Arithmetic()))
        loose: List[Optional[OutputComparison]] = [None] * len(tight)
        if (
            dtype in LOOSE
            and kind != MOVE
            and any(comparison.error.doubtful and not comparison.decided for comparison in tight)
        ):
            loose = [
                coarse_comparison
                if comparison.error.doubtful and not self._is_another_curve(planned, piece, output)
                else None
                for (output, _), comparison, coarse_comparison in zip(
                    outputs, tight, parts.measure(LOOSE[dtype])
                )
            ]
        return [
            Recomputed(
                op.name,
                op.type,
                number,
                DECISION,
                output.tensor.name,
                comparison.error._replace(unequal=self._of_last_index(planned, piece, output))
                if not comparison.error.unequal and op.type.startswith(_CHOOSING)
                else comparison.error,
                assumed=assumed,
            )
            if comparison.decided
            else Recomputed(
                op.name,
                op.type,
                number,
                kind,
                output.tensor.name,
                comparison.error,
                None if coarse is None else coarse.error,
                assumed=assumed,
            )
            for (output, number), comparison, coarse in zip(outputs, tight, loose)
        ]


def _in_one_shape(piece: Piece, actual: Array, computed: Value) -> Tuple[Array, Value]:
    """Return an output and what is computed of it in one shape: what is computed of an output whose
    length depends on values cut, or filled up with -1.
    """
    if not piece.counts or actual.ndim != computed.array.ndim:
        return reshaped_output(actual, computed.array.shape), computed
    filled = np.full(actual.shape, -1, computed.array.dtype)
    common = tuple(slice(min(sizes)) for sizes in zip(actual.shape, computed.array.shape))
    filled[common] = computed.array[common]
    return actual, Value(filled)


def _with_golden_floats(values: Array, golden: Optional[Tensor]) -> Tuple[Array, Optional[Array]]:
    """Return values with the golden ones in their shape; None for these where there are none, or
    they are whole numbers.
    """
    if golden is None or values.dtype.kind != "f":
        return values, None
    golden_values = RecordedTensor(Feed(golden, TensorDesc())).wide()
    return values, golden_values.reshape(
        values.shape
    ) if golden_values.size == values.size and np.isfinite(golden_values).all() else None


def _relative(values: Array, golden_values: Optional[Array]) -> float:
    if golden_values is None:
        return 0.0
    x, y = np.asarray(values, np.float64), np.asarray(golden_values, np.float64)
    counted = np.abs(y) < MASK
    size = float(np.linalg.norm(y[counted]))
    return float(np.linalg.norm((x - y)[counted])) / size if size > 0 else 0.0


def _with_small_error(
    values: Array, golden_values: Optional[Array], factor: float, random: Any
) -> Array:
    """Return golden values with a part of the device's error; with noise where that is not
    finite.
    """
    if golden_values is None:
        return values
    counted = np.abs(golden_values) < MASK
    with np.errstate(all="ignore"):
        error = np.where(counted, (values - golden_values) * factor, 0.0)
        if not np.isfinite(error).all():
            noise = _SMALL * random.standard_normal(golden_values.shape)
            error = np.where(counted, golden_values * noise, 0.0)
    return (golden_values + error).astype(golden_values.dtype)


def _largest(values: Array) -> float:
    """Return the largest magnitude of what is finite; 0 of whole numbers."""
    if values.dtype.kind != "f" or not values.size:
        return 0.0
    size = np.abs(values)
    return float(np.max(size, where=np.isfinite(size), initial=0.0))


def _kind(piece: Piece) -> str:
    if piece.multiplies:
        return PRODUCT
    if piece.adds:
        return SUM
    if piece.decides:
        return DECISION
    return MOVE if piece.moves else VECTOR


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
