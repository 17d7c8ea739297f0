"""The nodes of a cut computed one after the other, from the device's own inputs and the original model's weights."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import operators
from ..operators import Arithmetic, CannotCompute, Node, Value
from ..submodel.cut import Cut
from ..tensors.rounding import ROUNDING, ulp
from .nodes import Array, Call, Nodes
from .original import NotComputable

_FACTORS = frozenset(
    "Mul Div BatchNormalization BatchNorm Scale FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 RealDiv".split()
)
"""Nodes that the compiler folds into the filter of the convolution or MatMul before them."""


class Piece:
    """The nodes that one device op was made from.

    Parameters
    ----------
    cut
        The nodes and what crosses their border.
    nodes
        The original model's nodes.
    order
        Numbers of its nodes, each behind all that it reads.
    dtype
        The element type in which the device computes, as in the DataType column.

    Raises
    ------
    NotComputable
        An operator is not known.
    """

    def __init__(self, cut: Cut, nodes: Nodes, order: Sequence[int], dtype: str) -> None:
        self.cut = cut
        inside = set(cut.layers)
        kept = {entry.value[0] for entry in cut.inputs if entry.kept}
        self.calls: List[Tuple[int, Call]] = [(number, nodes.call(number)) for number in order if number in inside - kept]
        self._dtype = dtype
        self._constants = set(cut.pulled)
        for _, call in self.calls:
            if call.constant is None and operators.find(call.node.dialect, call.node.type) is None:
                raise NotComputable("%s is no operator that can be computed here" % call.node.type)

    @property
    def adds(self) -> bool:
        """Whether a node of it adds products or many values."""
        return any(self._is(call.node, "sums") for _, call in self.calls)

    @property
    def multiplies(self) -> bool:
        """Whether a node of it adds products."""
        return any(self._is(call.node, "multiplies") for _, call in self.calls)

    @property
    def moves(self) -> bool:
        """Whether all its nodes only move values."""
        return all(self._is(call.node, "moves") for number, call in self.calls if number not in self._constants and call.constant is None)

    @property
    def decides(self) -> bool:
        """Whether its last node decides."""
        return bool(self.calls) and self._is(self.calls[-1][1].node, "decides")

    @staticmethod
    def _is(node: Node, mark: str) -> bool:
        found = operators.find(node.dialect, node.type)
        return found is not None and bool(getattr(found, mark))

    def values(self, fed: Mapping[Tuple[int, int], Array], arithmetic: Arithmetic) -> Dict[Tuple[int, int], Value]:
        """Compute all values inside.

        Parameters
        ----------
        fed
            The values that come in.

        Raises
        ------
        CannotCompute
            An attribute is not known, or the shapes do not fit.
        """
        made: Dict[Tuple[int, int], Value] = {value: Value(array) for value, array in fed.items()}
        folded = self._folds()
        for number, call in self.calls:
            if call.constant is not None:
                made[number, 0] = self._constant(call.constant, exact=number in folded)
                continue
            inputs = self._inputs(number, call, made, folded)
            outputs = operators.compute(call.node, inputs, arithmetic)
            for index, value in enumerate(outputs):
                made[number, index] = value if number in self._constants else value.with_step(arithmetic.intermediate)
        return made

    def inputs_of_last(self, made: Mapping[Tuple[int, int], Value]) -> Tuple[Node, List[Optional[Value]]]:
        """Return the last node and its inputs, once all values are computed."""
        number, call = self.calls[-1]
        return call.node, self._inputs(number, call, made, self._folds())

    def _inputs(
        self, number: int, call: Call, made: Mapping[Tuple[int, int], Value], folded: Any
    ) -> List[Optional[Value]]:
        inputs: List[Optional[Value]] = []
        for argument in call.arguments:
            if argument is None:
                inputs.append(None)
            elif isinstance(argument, tuple):
                if argument not in made:
                    raise CannotCompute("the value %s is not there" % (argument,))
                inputs.append(made[argument])
            else:
                inputs.append(self._constant(argument, exact=number in folded or number in self._constants))
        return inputs

    def _folds(self) -> FrozenSet[int]:
        """Return the nodes whose weights a device holds as they are, but for one rounding: those of a sum that nothing is folded into."""
        sums = [number for number, call in self.calls if self._is(call.node, "sums")]
        types = {call.node.type for number, call in self.calls if number not in self._constants}
        return frozenset(sums if len(sums) == 1 and not types & _FACTORS else ())

    def _constant(self, array: Array, exact: bool) -> Value:
        """Return weights as the device holds them: rounded to its type.

        Where the compiler may have folded others into them, or keeps them in float32, nobody knows the rounded values: they may be off by
        one rounding.
        """
        array = np.asarray(array)
        if array.dtype.kind != "f" or self._dtype not in ROUNDING:
            return Value(array)
        unit = ROUNDING[self._dtype].half_unit
        if exact and array.ndim > 1:
            return Value(rounded(array, self._dtype))
        return Value(array.astype(np.float32), np.abs(array.astype(np.float32)) * np.float32(unit / np.sqrt(3.0)))


def rounded(values: Array, dtype: str) -> Array:
    """Return floats rounded to a type's nearest numbers, ties to even, as float32 (float64 stays); other types' values as they are.

    Values beyond the range become infinite.
    """
    values = np.asarray(values)
    if values.dtype.kind != "f" or dtype not in ROUNDING or dtype == "float64":
        return values
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if dtype == "float32":
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    wide = values.astype(np.float64)
    step = ulp(wide, dtype)
    with np.errstate(invalid="ignore"):
        found = np.where(np.isfinite(wide), np.rint(wide / step) * step, wide)
        found = np.where(np.abs(found) > ROUNDING[dtype].largest, np.copysign(np.inf, found), found)
    return found.astype(np.float32)
