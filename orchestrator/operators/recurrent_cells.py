"""What recurrent layers of all dialects are made of: the product with a state, and one step of each
kind of cell.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from .activations import sigmoid, softplus
from .error_propagation import elementwise, moved, sum_of_products
from .registry import CannotCompute
from .value_with_error import FLOAT32_ROUNDING, Arithmetic, Value, joined_errors

Array = Any
Function = Callable[[Array], Array]


def part(value: Value, key: Any) -> Value:
    """Return a slice."""
    return moved(lambda array: array[key], value)


def added(*values: Value) -> Value:
    """Return the sum, without a rounding in between."""
    total = values[0].array
    for value in values[1:]:
        total = total + value.array
    return Value(total, joined_errors(*(value.error for value in values)))


def chosen(where: Array, value: Value, otherwise: Value) -> Value:
    """Return values of one or the other."""
    result: Array = np.where(where, value.array, otherwise.array)
    if value.error is None and otherwise.error is None:
        return Value(result)
    errors = [
        np.broadcast_to(0.0 if entry.error is None else entry.error, result.shape)
        for entry in (value, otherwise)
    ]
    return Value(result, np.where(where, errors[0], errors[1]))


def stacked(values: Sequence[Value], axis: int = 0) -> Value:
    """Return values side by side along a new axis."""
    result = np.stack([value.array for value in values], axis)
    if all(value.error is None for value in values):
        return Value(result)
    errors = [
        np.broadcast_to(0.0 if value.error is None else value.error, value.array.shape)
        for value in values
    ]
    return Value(result, np.stack(errors, axis))


def turned(value: Value) -> Value:
    """Return the transpose of a matrix."""
    return moved(lambda array: array.T, value)


def rounded_to_stored_type(states: Sequence[Value], arithmetic: Arithmetic) -> List[Value]:
    """Round states to the type in which the next step of a layer reads them."""
    return [state.with_step(arithmetic.states) for state in states]


def zeros(batch: int, hidden: int) -> Value:
    """Return the state [batch, hidden] that a layer begins with."""
    return Value(np.zeros((batch, hidden)))


def projected(x: Value, matrix: Value, bias: Optional[Value], arithmetic: Arithmetic) -> Value:
    """Return x [steps, batch, inputs] times a matrix [inputs, outputs], for all steps at once."""
    steps, batch = x.array.shape[:2]
    flat = moved(lambda array: array.reshape((steps * batch, -1)), x)
    product = sum_of_products(np.matmul, flat, matrix, matrix.array.shape[0], arithmetic, bias)
    return moved(lambda array: array.reshape((steps, batch, -1)), product)


def quarters(hidden: int, order: str) -> List[slice]:
    """Return where the gates i, f, g (what is taken up) and o stand in a matrix of this order."""
    return [slice(order.index(gate) * hidden, (order.index(gate) + 1) * hidden) for gate in "ifgo"]


class Weights:
    """A matrix [inputs, outputs] that a state is multiplied with at each step; what its squares are
    is worked out once.

    The error of a product is as of :func:`primitives.sum_of_products`.
    """

    def __init__(self, matrix: Value, arithmetic: Arithmetic) -> None:
        self._matrix = np.asarray(matrix.array, np.float64)
        self._squares = np.square(self._matrix)
        self._error = (
            None
            if matrix.error is None
            else np.square(np.broadcast_to(matrix.error, self._matrix.shape))
        )
        self._sums = arithmetic.accumulator**2 * len(self._matrix) / 6.0
        self._product_factor = self._sums + arithmetic.factors**2 * 2.0 / 3.0

    def product(self, state: Value) -> Value:
        """Return state [batch, inputs] times the matrix."""
        array = np.asarray(state.array, np.float64)
        result = array @ self._matrix
        if not self._product_factor and state.error is None and self._error is None:
            return Value(result)
        squares = np.square(array)
        moving = self._product_factor * squares
        if state.error is not None:
            moving = moving + np.square(state.error)
        total = moving @ self._squares + self._sums * np.square(result)
        if self._error is not None:
            total = total + squares @ self._error
        return Value(result, np.sqrt(total))


def _clipped(function: Function, clip: float) -> Function:
    return function if not clip else lambda x: function(np.clip(x, -clip, clip))


@dataclass(frozen=True)
class Step:
    """One step of a cell.

    Attributes
    ----------
    functions
        The activations: of gates, of what is taken up, and (LSTM) of the cell's state on its way
        out.
    clip
        Bound of the sums that go into the activations (not of the cell's state, as onnxruntime has
        it); 0: none.
    """

    functions: Tuple[Function, ...]
    arithmetic: Arithmetic
    clip: float = 0.0

    def activated(self, number: int, value: Value) -> Value:
        """Return an activation of a sum of products."""
        made = elementwise(
            _clipped(self.functions[number], self.clip), value, steps=self.arithmetic.intermediate
        )
        if not self.arithmetic.intermediate:
            return made
        # Tanh and Sigmoid as quotients of sums near 1 have its rounding, however small they are:
        # that of onnxruntime's RNN (1.32) is off by 6e-8, root mean square, at 0.01 and at 0.1.
        return Value(made.array, joined_errors(made.error, np.full(1, FLOAT32_ROUNDING)))

    def cell_state(self, forget: Value, before: Value, take: Value, candidate: Value) -> Value:
        """Return forget · before + take · fresh, an LSTM's new state."""
        return elementwise(
            lambda f, c, i, g: f * c + i * g,
            forget,
            before,
            take,
            candidate,
            steps=self.arithmetic.intermediate,
        )

    def hidden_state(self, gate: Value, state: Value) -> Value:
        """Return what an LSTM shows of its state."""
        return elementwise(
            lambda o, c: o * self.functions[2](c), gate, state, steps=self.arithmetic.intermediate
        )

    def mixed(self, keep: Value, before: Value, candidate: Value) -> Value:
        """Return (1 - keep) · fresh + keep · before, a GRU's new state."""
        return elementwise(
            lambda z, h, n: (1.0 - z) * n + z * h,
            keep,
            before,
            candidate,
            steps=self.arithmetic.intermediate,
        )


def _affine(alpha: float, beta: float) -> Function:
    return lambda x: alpha * x + beta


def _scaled_tanh(alpha: float, beta: float) -> Function:
    return lambda x: alpha * np.tanh(beta * x)


def _leaky(alpha: float, beta: float) -> Function:
    return lambda x: np.where(x < 0, alpha * x, x)


def _threshold(alpha: float, beta: float) -> Function:
    return lambda x: np.where(x > alpha, x, 0.0)


def _hard_sigmoid(alpha: float, beta: float) -> Function:
    return lambda x: np.clip(alpha * x + beta, 0.0, 1.0)


def _elu(alpha: float, beta: float) -> Function:
    return lambda x: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0.0)), x)


_PLAIN: Dict[str, Function] = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "softplus": softplus,
}
_WITH_CONSTANTS: Dict[
    str, Tuple[Callable[[float, float], Function], Optional[float], Optional[float], int]
] = {
    # The function, its alpha and beta where none are given (None: there must be one), how many it
    # takes.
    "affine": (_affine, None, None, 2),
    "scaledtanh": (_scaled_tanh, None, None, 2),
    "leakyrelu": (_leaky, 0.01, None, 1),
    "thresholdedrelu": (_threshold, 1.0, None, 1),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5, 2),
    "elu": (_elu, 1.0, None, 1),
}


def activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> List[Function]:
    """Return ONNX's activations of recurrent layers; each that has constants takes the next ones.

    Raises
    ------
    CannotCompute
        A name or a constant is not known.
    """
    left = [list(alphas), list(betas)]
    functions: List[Function] = []
    for name in names:
        key = name.lower()
        if key in _PLAIN:
            functions.append(_PLAIN[key])
            continue
        if key not in _WITH_CONSTANTS:
            raise CannotCompute("its activation %s is not known" % name)
        make, alpha, beta, count = _WITH_CONSTANTS[key]
        constants = []
        for number, default in enumerate((alpha, beta)[:count]):
            value = left[number].pop(0) if left[number] else default
            if value is None:
                raise CannotCompute("the constants of its activation %s are not known" % name)
            constants.append(float(value))
        functions.append(make(constants[0], constants[1] if count > 1 else 0.0))
    return functions
