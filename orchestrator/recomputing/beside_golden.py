"""The ops of one step beside golden data: whether these follow from golden inputs, what else they
may have been made by, and how the device's errors come out.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..base.errors import GoldwatchError
from ..model.op_node import TensorDesc
from ..operators import Arithmetic, CannotCompute
from ..tensors.tensor import Tensor
from ..tensors.type_precision import ROUNDING, rounding_of
from .input_feeds import Feed, NetworkInput
from .output_error import OwnError
from .partwise_comparison import Output, PartwiseComparison, require_memory, reshaped_output
from .piece import EXACT
from .recomputed_output import ErrorTransfer, NotComputable, OutputBesideGolden
from .recorded_tensor import RecordedTensor
from .replay_plan import PlannedOp
from .step_ops import StepOps, compute_type
from .variant_search import VariantSearch, search_variants
from .variant_trials import Output as SearchedOutput

Array = Any

_FOLLOWS = 1e-3
"""Golden data follow from golden data up to this relative distance: both are float32, or as much as
bfloat16 rounds where they were rounded to it."""
# These three are chosen, no trial.
_EXPLAINED = 8.0
"""Or up to so many times what float32 explains, root mean square: of values next to nothing."""
_OPEN = 0.03
"""A relative distance that no rounding of golden data makes: the default limit."""
MASK = 1e30
"""Constants of this magnitude stand for infinity."""
_SMALL = 0.01
"""Relative error that passes on as smaller ones do."""
_DECIDES = 0.99
"""So many of golden decisions follow from golden data at least: a few lie near ties of float32."""


class BesideGolden:
    """The ops of one step beside golden data.

    Parameters
    ----------
    ops
        Of the step.
    golden
        Returns a golden tensor by its original name and output.
    """

    def __init__(self, ops: StepOps, golden: NetworkInput) -> None:
        self._ops, self._golden = ops, golden

    def outputs(self, name: str) -> List[OutputBesideGolden]:
        """Return the outputs of an op beside what its original nodes make of its inputs in float32,
        with weights that are not rounded.

        Raises
        ------
        NotComputable, CannotCompute, NotComparable, GoldwatchError
            It cannot be computed, its inputs cannot be read, or there is not enough memory.
        """
        planned = self._ops.planned.get(name)
        if planned is None:
            why = self._ops.why_not_computable(name)
            raise why or NotComputable("the original model does not tell it")
        outputs, inputs = self._ops.outputs(planned), self._ops.inputs(planned)
        require_memory([*inputs.values(), *(output.tensor for output, _ in outputs)])
        piece = self._ops.piece(planned, "")
        exact = piece.values({value: recorded.wide() for value, recorded in inputs.items()}, EXACT)
        stored = self._ops.piece(planned, compute_type(planned.op)).values(
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
            tensor = self._golden(plan.golden_op or "", plan.golden_index or 0)
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

    def error_transfer(self, name: str) -> Optional[ErrorTransfer]:
        """Return how the errors of an op's inputs come out where they are scaled down, so that they
        are small; None where it is not known.

        Large errors pass on otherwise than small ones: they saturate, or blow up. Inputs that are
        not finite get noise.
        """
        planned = self._ops.planned.get(name)
        if planned is None:
            return None
        try:
            tensors = self._ops.inputs(planned)
            require_memory(list(tensors.values()))
            sides = {}
            for entry in planned.cut.inputs:
                shape_alone = bool(entry.readers) and all(
                    self._ops.original.uses_shape_of(reader) for reader, _ in entry.readers
                )
                golden_values = (
                    None if shape_alone else self._golden(entry.producer, entry.output_index)
                )
                sides[entry.value] = _with_golden_floats(tensors[entry.value].wide(), golden_values)
            errors = [_relative(*side) for side in sides.values()]
            factor = _SMALL / max([_SMALL, *(error for error in errors if math.isfinite(error))])
            random = np.random.RandomState(0)
            values = {
                value: _with_small_error(actual, golden_values, factor, random)
                for value, (actual, golden_values) in sides.items()
            }
            computed = self._ops.piece(planned, "").values(values, EXACT)
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
                    computed.get(self._ops.value(plan)),
                    self._golden(plan.golden_op or "", plan.golden_index or 0),
                )
                if value_computed is not None and golden_values is not None:
                    transfer.outputs[plan.tensor_index or 0] = _relative(
                        *_with_golden_floats(value_computed.array, golden_values)
                    )
            return transfer
        except (CannotCompute, GoldwatchError, MemoryError):
            return None

    def is_of_bfloat16(self, name: str, index: int) -> bool:
        """Tell whether golden data and the device have values of bfloat16 alone of an output, as
        float32: the model computes in it.
        """
        sides, device = self._sides(name, index), self._ops.output(name, index)
        try:
            if sides is None or device is None or self._ops.type_of(name, index) != "float32":
                return False
            return _is_of_bfloat16(device) and _is_of_bfloat16(sides[1].tensor.whole())
        except (CannotCompute, GoldwatchError, MemoryError):
            return False

    def _sides(
        self, name: str, index: int
    ) -> Optional[Tuple[Dict[Tuple[int, int], RecordedTensor], Output]]:
        """Return the golden inputs of an op and one of its golden outputs; None where one is not
        there.
        """
        planned = self._ops.planned.get(name)
        rows = () if planned is None else planned.rows
        plan = next((plan for plan, _ in rows if (plan.tensor_index or 0) == index), None)
        if planned is None or plan is None:
            return None
        inputs = {}
        for entry in planned.cut.inputs:
            tensor = self._golden(entry.producer, entry.output_index)
            if tensor is None:
                return None
            inputs[entry.value] = RecordedTensor(Feed(tensor, TensorDesc()))
        made = self._golden(plan.golden_op or "", plan.golden_index or 0)
        if made is None:
            return None
        return inputs, Output(self._ops.value(plan), RecordedTensor(Feed(made, TensorDesc())))

    def overflows(self, name: str, index: int) -> bool:
        """Tell whether golden data of an output do not fit into the device's type."""
        planned = self._ops.planned.get(name)
        for plan, row in () if planned is None else planned.rows:
            if (plan.tensor_index or 0) == index and row.target_dtype in ROUNDING:
                made = self._golden(plan.golden_op or "", plan.golden_index or 0)
                values = None if made is None else RecordedTensor(Feed(made, TensorDesc())).wide()
                return values is not None and _largest(values) > ROUNDING[row.target_dtype].largest
        return False

    def variants(
        self,
        name: str,
        index: int,
        judge: Callable[[OwnError, bool], float],
    ) -> Optional[VariantSearch]:
        """Return by what golden data may have been made in place of what the model says, for a
        golden output that does not follow from golden inputs; ``judge`` as of
        :meth:`Recomputer.search_variants`.
        """
        planned, sides = self._ops.planned.get(name), self._sides(name, index)
        if planned is None or sides is None:
            return None
        inputs, output = sides
        try:
            require_memory([*inputs.values(), output.tensor])
            incoming = {value: tensor.wide() for value, tensor in inputs.items()}
            piece = self._ops.piece(planned, "float32")
            computed = piece.values(incoming, Arithmetic())[output.value]
            actual = reshaped_output(output.tensor.whole(), computed.array.shape)
            # Frameworks compute coordinates and sums in types of their own: a step of float16 tells
            # variants apart.
            searched = SearchedOutput(output.value, actual, computed, "float16")
            cost_s = self._ops.cost_s(name)
            return search_variants(piece, incoming, searched, judge, cost_s, self._ops.siblings)
        except (CannotCompute, GoldwatchError, MemoryError, KeyError):
            return None

    def follows(self, name: str, index: int) -> Optional[bool]:
        """Return whether the golden output of an op follows from its golden inputs; None where that
        cannot be computed, or elements that are open differ.
        """
        planned, sides = self._ops.planned.get(name), self._sides(name, index)
        if planned is None or sides is None:
            return None
        inputs, output = sides
        try:
            (comparison,) = PartwiseComparison(
                self._ops.piece(planned, ""), inputs, [output]
            ).measure(Arithmetic())
        except (CannotCompute, GoldwatchError, MemoryError):
            return None
        error = comparison.error
        if comparison.decided:
            return error.unequal <= (1.0 - _DECIDES) * error.elements
        follows = _FOLLOWS
        if _is_of_bfloat16(output.tensor.whole()):
            # A model in bfloat16, which no npy file has: each node rounds to it.
            follows = max(follows, rounding_of("bfloat16").half_unit * len(planned.cut.layers))
        if error.not_finite or (error.distance > follows and error.ratio > _EXPLAINED):
            return False
        device = next((one for one, number in self._ops.outputs(planned) if number == index), None)
        open_ones = [self._is_open(planned, inputs, output)]
        if device is not None:
            open_ones.append(self._is_open(planned, self._ops.inputs(planned), device))
        return None if any(open_ones) else True

    def _is_open(
        self, planned: PlannedOp, inputs: Mapping[Tuple[int, int], RecordedTensor], output: Output
    ) -> bool:
        """Tell whether an output that follows is another than what is computed: elements differ
        that are open, such as those of places on a border.
        """
        try:
            value = self._ops.whole_values(planned, inputs, output.tensor).get(output.value)
            if value is None or value.array.dtype.kind != "f":
                return False
            held = reshaped_output(output.tensor.wide(), value.array.shape)
            # What overflows is told by itself.
            finite = np.isfinite(held).all() and np.isfinite(value.array).all()
            return bool(finite) and _relative(value.array, held) > _OPEN
        except (CannotCompute, GoldwatchError, MemoryError):
            return False


def _is_of_bfloat16(values: Array) -> bool:
    """Tell whether bfloat16 holds all values."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return not np.any(bits & np.uint32(0xFFFF))


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
