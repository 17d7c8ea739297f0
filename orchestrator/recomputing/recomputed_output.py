"""Results of computing operators again: outputs with their own errors, and how errors pass
through.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..base.fast_dataclasses import dataclass
from ..operators.registry import CannotCompute
from .output_error import OwnError

Array = Any

PRODUCT, SUM, VECTOR, MOVE, DECISION = "product", "sum", "vector", "move", "decision"


class NotComputable(CannotCompute):
    """Why an op cannot be computed again; its text is shown with the op."""


class OtherShape(NotComputable):
    """The device's output has another number of elements than what is computed."""

    code = "other_shape"


@dataclass(frozen=True)
class Recomputed:
    """An output of an operator that was computed again.

    Attributes
    ----------
    op, op_type, number
        The device's op and which of its outputs.
    kind
        ``product`` (adds products), ``sum`` (adds many values), ``vector``, ``move`` (only moves
        values) or ``decision``.
    dtype
        Of the output on the device.
    tight
        Its own error where the device computes in float32 inside.
    loose
        The same where it computes in its own type inside; None where ``tight`` needs no such
        excuse, or there is no difference.
    assumed
        The network's input was not dumped: golden data's was taken for it.
    reason, code
        Why it could not be computed, and the reason's code; empty where it was.
    by_model
        It was computed of the inputs that the model says, since the om feeds the op with others.
    of_shape
        So it is because an op has another shape than the model says: the first that has, of which
        readers make other values.
    by_json
        It is what the json says, and golden data do not follow by that: the error is theirs.
    first_other
        The output of an op before it that is the first to have another shape than the model says:
        this one follows from what it read, and not from what the model says.
    """

    op: str
    op_type: str
    number: int
    kind: str = ""
    dtype: str = ""
    tight: Optional[OwnError] = None
    loose: Optional[OwnError] = None
    reason: str = ""
    code: str = ""
    assumed: bool = False
    by_model: bool = False
    of_shape: bool = False
    by_json: bool = False
    first_other: Optional[Recomputed] = None


class ComputedPair(NamedTuple):
    """An output of the device and what is computed of its inputs, in the original layout, with the
    inputs' values by their producers.
    """

    actual: Array
    computed: Array
    dtype: str
    inputs: List[Tuple[str, Array]]


class ErrorTransfer(NamedTuple):
    """How small errors of an op's inputs reach its outputs, around golden data.

    Attributes
    ----------
    inputs
        Of each input its relative error, its size (the Euclidean norm), and its count of elements.
    outputs
        By number the relative error that this makes of the output.
    """

    inputs: List[Tuple[float, float, int]]
    outputs: Dict[int, float]


class OutputBesideGolden(NamedTuple):
    """An output of the device, what float32 makes of the device's inputs, and what golden data hold
    (None where they do not), in one shape.

    Attributes
    ----------
    number
        Which output it is.
    dtype
        Its element type on the device.
    actual, exact, golden
        The three.
    stored
        What float32 makes with weights as the device holds them.
    inner
        The largest magnitude of what is inside of the op: constants, and what its original nodes
        hand to each other.
    """

    number: int
    dtype: str
    actual: Array
    exact: Array
    golden: Optional[Array]
    stored: Array
    inner: float


class OpFunction(NamedTuple):
    """The function that an op computes, with the original values of its inputs and outputs.

    Attributes
    ----------
    inputs
        Of each the value in the original model, the name of the node that makes it, and which of
        its outputs it is.
    outputs
        Of each the value, and which output of the op it is.
    compute
        Takes all inputs, and whether weights are as the device holds them, and returns the outputs,
        by value; raises CannotCompute.
    """

    inputs: List[Tuple[Tuple[int, int], str, int]]
    outputs: List[Tuple[Tuple[int, int], int]]
    compute: Callable[[Mapping[Tuple[int, int], Array], bool], Dict[Tuple[int, int], Array]]
