"""Computes the operators of one step again from the device's recorded inputs and measures the
device's error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

import numpy as np

from ..base.errors import GoldwatchError
from ..model.op_groups import FOLLOWING_TYPES
from ..model.op_node import OpNode, desc_at
from ..operators import Arithmetic, CannotCompute, Value, compute
from . import piece_variants
from .attributes_and_constants import attributes_and_constants
from .explained_or_written import explained_or_written
from .fewer_bits import in_32_bits
from .formulas_by_type import LOOSE, TIGHT
from .input_feeds import Feed, original_values
from .lost_numbers import LostNumber, lost_constant, lost_number
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
from .read_instead import ReadInstead, ReadOtherwise, follow, makes_another
from .recomputed_output import (
    DECISION,
    MOVE,
    PRODUCT,
    SUM,
    VECTOR,
    ComputedPair,
    NotComputable,
    OpFunction,
    Recomputed,
)
from .recorded_tensor import RecordedTensor, widened
from .replay_plan import PlannedOp
from .step_ops import StepOps, compute_type
from .variant_search import Instead, VariantSearch, is_another_curve, search_variants
from .variant_trials import Output as SearchedOutput
from .written import Written

Array = Any

_CHOOSING = ("ArgMax", "ArgMin")
_COARSE = ("float16", "bfloat16")
"""Types whose one rounding is more than all that float32 does inside of most operators."""


class Recomputer:
    """Computes the operators of one step again.

    Parameters
    ----------
    step
        Its ops, and the model that they were made from.
    """

    def __init__(self, step: StepOps) -> None:
        self.step = step
        self._copies = {
            op.name: op
            for op in step.graph.ops
            if op.type in FOLLOWING_TYPES and op.name not in self.step.planned
        }
        # Of ops that read other tensors than the model says.
        self._read: Dict[str, List[ReadInstead]] = {}
        self._settled: Set[str] = set()
        self._otherwise = ReadOtherwise(self.step)

    @property
    def ops(self) -> List[str]:
        """The names of the ops that may be computed."""
        return [*self.step.planned, *self._copies]

    def knows(self, name: str) -> bool:
        """Return whether an op of this name is among :attr:`ops`."""
        return name in self.step.planned or name in self._copies

    def recompute(self, name: str) -> List[Recomputed]:
        """Compute an op again; its outputs, or why they cannot be computed."""
        if name in self._copies:
            return self._copied(self._copies[name])
        planned = self.step.planned[name]
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
        name = planned.op.name
        self._settled.add(name)
        unsure = [feed.other for feed in planned.feeds if feed.other and feed.other.by_edge]
        if unsure and not follow(outputs):
            raise NotComputable(
                "the om feeds it with output %d of %s, which is not what the original model says"
                % (unsure[0].output, unsure[0].op.name)
            )
        try:
            readings = self._otherwise.find(planned)
            if readings is None or (readings.of_model is planned and follow(outputs)):
                return outputs
            as_read, of_model = (
                outputs if side is planned else self._recomputed(side)
                for side in (readings.as_read, readings.of_model)
            )
        except (CannotCompute, GoldwatchError, MemoryError):
            return outputs
        if any(feed.assumed for feed in planned.feeds):
            # What was read is not known: that it does not follow is all there is.
            self._read[name] = list(readings.told)
            return outputs
        if not makes_another(as_read, of_model):
            return outputs
        self._read[name] = list(readings.told)
        first = readings.told[0].maker
        computed = [replace(one, by_model=True) for one in of_model]
        if first is None:
            self.step.planned[name] = readings.of_model
            return computed
        if not follow(self.recompute(first[0])):
            # Its values are wrong in any shape: that is what to explain of it.
            return as_read
        self._read[first[0]] = self._read[name]
        worst = max(computed, key=lambda one: one.tight.distance if one.tight is not None else 0.0)
        op = self.step.planned[first[0]].op
        worst = replace(worst, op=op.name, op_type=op.type, number=first[1], of_shape=True)
        return [replace(one, first_other=worst) for one in as_read]

    def _with_inputs_of_model(self, name: str) -> Optional[PlannedOp]:
        """Return an op with the inputs by which :meth:`recompute` judges it."""
        if name in self.step.planned and name not in self._settled:
            self.recompute(name)
        return self.step.planned.get(name)

    def values(self, name: str) -> Dict[int, Array]:
        """Return what is computed for each output of an op, by number, rounded to the device's
        type.

        Raises
        ------
        NotComputable, CannotCompute, NotComparable, GoldwatchError
            It cannot be computed, or its inputs cannot be read.
        """
        planned = self.step.planned[name]
        values_by_key = self.step.whole_values(planned, self.step.inputs(planned))
        outputs: Dict[int, Array] = {}
        for plan, row in planned.rows:
            value = values_by_key.get(self.step.value(plan))
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
                (output for output, number in self.step.outputs(planned) if number == index), None
            )
            if output is None:
                return None
            inputs = self.step.inputs(planned)
            value = self.step.whole_values(planned, inputs, output.tensor).get(output.value)
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
            return VariantSearch(
                [], [], instead=Instead("other-tensor", first.sentence, first.next)
            )
        try:
            outputs = self.step.outputs(planned)
            if index not in (number for _, number in outputs):
                return None
            inputs = self.step.inputs(planned)
            require_memory([*inputs.values(), *(output.tensor for output, _ in outputs)])
            incoming = {value: tensor.wide() for value, tensor in inputs.items()}
            dtype = compute_type(planned.op)
            piece = self.step.piece(planned, dtype)
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
                planned.op, self.step.graph, lambda: self.step.plan.recorded, {}
            )
            search = search_variants(
                piece,
                incoming,
                searched,
                judge,
                self.step.cost_s(name),
                self.step.siblings,
                sorted(facts.constants.items()) if facts is not None else (),
                lambda size: self.step.inputs_of_size(name, index, size),
            )
            if values[searched.value].array.shape != actual.shape:
                return search
            same = {
                number
                for output, number in outputs
                if np.array_equal(
                    values[output.value].array.ravel(), values[searched.value].array.ravel()
                )
            }
            written = Written(
                searched,
                lambda: chain(
                    elsewhere(), self.step.others_of_size(name, index, actual.size, same)
                ),
                lambda error: judge(error, False),
                list(incoming.values()),
                lambda: piece.zeros_of(incoming, searched.value),
            )
            found = explained_or_written(search, written)
            if found.explained or found.instead is not None or dtype != "float32":
                return found
            # Devices multiply float32 in fewer bits, as variants may have been. Of all types, what
            # nothing explains makes a comparison 1.6 times as long, not 1.2 (bench recompute
            # --culprit).
            value = piece.values(incoming, LOOSE[dtype])[searched.value]
            _, computed = _in_one_shape(piece, actual, value)
            coarse = written._replace(output=searched._replace(computed=computed))
            again = explained_or_written(search, coarse)
            return found if again.instead is None else again
        except (CannotCompute, GoldwatchError, MemoryError, KeyError):
            return None

    def lost_number(self, name: str, index: int) -> Optional[LostNumber]:
        """Return the number of the model that an output shows the device not to have; None where
        it shows none.
        """
        planned = self.step.planned.get(name)
        try:
            if planned is None:
                op = self.step.graph.op(name)
                return None if op is None else self._lost_constant(op)
            inputs = self.step.inputs(planned)
            for output, number in self.step.outputs(planned):
                if number == index:
                    require_memory([*inputs.values(), output.tensor])
                    incoming = {value: tensor.wide() for value, tensor in inputs.items()}
                    piece = self.step.piece(planned, "")
                    shape = piece.values(incoming, EXACT)[output.value].array.shape
                    actual = reshaped_output(output.tensor.whole(), shape)
                    return lost_number(piece, incoming, output.value, actual, output.tensor.name)
        except (CannotCompute, GoldwatchError, MemoryError, KeyError):
            pass
        return None

    def _lost_constant(self, op: OpNode) -> Optional[LostNumber]:
        """Return the number that a node of an op holds, which was not dumped, and its type cannot;
        None where there is none.
        """
        numbers = [
            number for name in op.originals for number in self.step.original.model.numbers(name)
        ]
        arguments = chain.from_iterable(self.step.nodes.call(one).arguments for one in numbers)
        return lost_constant(arguments, compute_type(op))

    def _of_last_index(self, planned: PlannedOp, piece: Piece, output: Output) -> int:
        """Return how many elements are another index of equal values than the model says, where the
        last of them stands each time; 0 where only some are, as chance makes them.
        """
        incoming = {value: tensor.wide() for value, tensor in self.step.inputs(planned).items()}
        values = piece.values(incoming, EXACT)
        actual = reshaped_output(output.tensor.whole(), values[output.value].array.shape)
        apart = int(np.count_nonzero(actual != values[output.value].array))
        for number, _, variant in piece_variants.variants(piece, values) if apart else ():
            if variant.name == "select_last_index":
                made = piece.with_variant(number, variant).values(incoming, EXACT)[output.value]
                if np.array_equal(actual, made.array):
                    return apart
        return 0

    def _is_another_curve(self, planned: PlannedOp, piece: Piece, output: Output) -> bool:
        """Tell whether an output is what another activation makes; as :func:`is_another_curve`."""
        inputs = self.step.inputs(planned)
        try:
            require_memory([*inputs.values(), output.tensor])
        except NotComputable:
            return False
        values = piece.values({value: tensor.wide() for value, tensor in inputs.items()}, EXACT)
        computed = values[output.value]
        if piece_variants.curve(piece, values, output.value) is None or not computed.is_float:
            return False
        actual = reshaped_output(output.tensor.whole(), computed.array.shape)
        return is_another_curve(
            piece, values, SearchedOutput(output.value, actual, computed, output.tensor.name)
        )

    def op_function(self, name: str) -> OpFunction:
        """Return how an op computes its outputs of any inputs, in float32 with weights that are not
        rounded.

        Raises
        ------
        NotComputable, NotComparable, GoldwatchError
            It cannot be computed, or its inputs were not recorded.
        """
        planned = self.step.planned.get(name)
        if planned is None:
            why = self.step.why_not_computable(name)
            raise why or NotComputable("the original model does not tell it")
        pieces = self.step.piece(planned, ""), self.step.piece(planned, compute_type(planned.op))
        inputs = [(entry.value, entry.producer, entry.output_index) for entry in planned.cut.inputs]
        outputs = [(self.step.value(plan), plan.tensor_index or 0) for plan, _ in planned.rows]

        def compute(
            fed: Mapping[Tuple[int, int], Array], as_held: bool
        ) -> Dict[Tuple[int, int], Array]:
            values = pieces[as_held].values(fed, EXACT)
            return {value: values[value].array for value, _ in outputs if value in values}

        return OpFunction(inputs, outputs, compute)

    def recompute_in_bfloat16(self, name: str, index: int) -> Optional[Recomputed]:
        """Compute an output again as of a model that computes in bfloat16; None where it cannot."""
        try:
            outputs = self._recomputed(self.step.planned[name], "bfloat16")
            return next(one for one in outputs if one.number == index)
        except (CannotCompute, GoldwatchError, MemoryError):
            return None

    def _copied_pair(self, name: str) -> Optional[ComputedPair]:
        op = self._copies.get(name)
        feed = self.step.plan.feeder.copied(op) if op is not None else None
        output = self.step.plan.recorded.output(op, 0) if op is not None else None
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
            feed, output = self.step.plan.feeder.copied(op), self.step.plan.recorded.output(op, 0)
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
        numbers = [
            number for name in op.originals for number in self.step.original.model.numbers(name)
        ]
        nodes = [self.step.nodes.call(number).node for number in numbers]
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
        piece, outputs = self.step.piece(planned, dtype), self.step.outputs(planned, rounded_to)
        assumed, kind = any(feed.assumed for feed in planned.feeds), _kind(piece)

        def comparison_with(piece: Piece) -> PartwiseComparison:
            return PartwiseComparison(
                piece, self.step.inputs(planned), [output for output, _ in outputs]
            )

        parts = comparison_with(piece)
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
            held = piece.with_rounded_numbers() if dtype in _COARSE else None
            if held is not None:
                parts_of_held = comparison_with(held)
                of_held = parts_of_held.measure(TIGHT.get(dtype, Arithmetic()))
                if _distance(of_held) < _distance(tight):
                    parts, tight = parts_of_held, of_held
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


def _kind(piece: Piece) -> str:
    if piece.multiplies:
        return PRODUCT
    if piece.adds:
        return SUM
    if piece.decides:
        return DECISION
    return MOVE if piece.moves else VECTOR


def _distance(comparisons: Iterable[OutputComparison]) -> float:
    """Return the distances of an operator's outputs from what is computed, added."""
    return sum(comparison.error.distance for comparison in comparisons)
