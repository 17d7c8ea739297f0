"""The formulas that an operator of a type may have where its attributes are not known: each axis,
slope and epsilon is tried, and constants that are in no dump are fitted to golden data.
"""

from __future__ import annotations

from dataclasses import field
from itertools import combinations, permutations
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..base.fast_dataclasses import dataclass
from ..base.naming import RESHAPING_TYPES
from ..operators import ASCEND, ONNX, Arithmetic, Node, Value, compute, find
from ..tensors.type_precision import rounding_of
from .recomputed_output import MOVE, PRODUCT, SUM, VECTOR
from .repeated_decisions import broadcast_size

Array = Any
Formula = Callable[[Sequence[Value], Arithmetic], Value]

# The finest and the coarsest arithmetic that a device may use inside of an operator, by the element
# type of its tensors.
TIGHT: Mapping[str, Arithmetic] = {
    "float16": Arithmetic(states=2.0**-11),
    "bfloat16": Arithmetic(states=2.0**-8),
}
"""Steps and sums in float32; the state of a recurrent layer has the type of its tensors. Other
types: ``Arithmetic()``.
"""

LOOSE: Mapping[str, Arithmetic] = {
    "float16": Arithmetic(2.0**-11, 2.0**-11, 0.0, 0.0),
    "bfloat16": Arithmetic(2.0**-8, 2.0**-11, 0.0, 0.0),
    "float32": Arithmetic(2.0**-24, 2.0**-24, 2.0**-11),
}
"""float16 and bfloat16: every step rounds to the type, sums to float16. float32: factors of
products are cut to float16's fraction.
"""

# The opset whose attributes the tables below are written in.
_VERSION = 13
# Bounds of a search's time.
_MOST_RANGES, _MOST_AXES = 12, 4
_LEAST_ROWS = 4
"""Of fewer rows, the scale and shift of a normalisation could be made to fit anything."""
# Defaults of LayerNorm in PyTorch and ONNX, RMSNorm of Llama, BERT, Keras, and none.
_EPSILONS = (1e-5, 1e-6, 1e-12, 1e-3, 0.0)

_ONE: Mapping[str, Sequence[Tuple[str, Mapping[str, Any]]]] = {
    "relu": [("Relu", {})], "reluv2": [("Relu", {})], "abs": [("Abs", {})], "neg": [("Neg", {})],
    "exp": [("Exp", {})],
    "log": [("Log", {})], "sigmoid": [("Sigmoid", {})], "tanh": [("Tanh", {})],
    "sqrt": [("Sqrt", {})],
    "reciprocal": [("Reciprocal", {})], "erf": [("Erf", {})], "mish": [("Mish", {})],
    "softplus": [("Softplus", {})], "softplusv2": [("Softplus", {})],
    "softsign": [("Softsign", {})],
    "selu": [("Selu", {})], "hardswish": [("HardSwish", {})], "logicalnot": [("Not", {})],
    "sin": [("Sin", {})], "cos": [("Cos", {})], "tan": [("Tan", {})], "atan": [("Atan", {})],
    "asin": [("Asin", {})], "acos": [("Acos", {})], "sinh": [("Sinh", {})], "cosh": [("Cosh", {})],
    "asinh": [("Asinh", {})], "acosh": [("Acosh", {})], "atanh": [("Atanh", {})],
    "elu": [("Elu", {"alpha": alpha}) for alpha in (1.0,)],
    "leakyrelu": [("LeakyRelu", {"alpha": alpha}) for alpha in (0.01, 0.1, 0.2, 0.05, 0.25, 0.3)],
    "hardsigmoid": [("HardSigmoid", {"alpha": 1.0 / 6.0, "beta": 0.5}),
    ("HardSigmoid", {"alpha": 0.2, "beta": 0.5})],
    "gelu": [("Gelu", {"approximate": way}) for way in ("none", "tanh")],
}  # fmt: skip
_ASCEND_ONE = frozenset(("rsqrt", "square", "relu6", "swish", "fastgelu"))
_TWO = {
    "add": "Add", "addv2": "Add", "sub": "Sub", "mul": "Mul", "realdiv": "Div", "div": "Div",
    "maximum": "Max", "minimum": "Min",
    "logicaland": "And", "logicalor": "Or",
}  # fmt: skip
_REDUCE = {
    "reducemean": "ReduceMean", "reducemeand": "ReduceMean", "globalaveragepool": "ReduceMean",
    "reducesum": "ReduceSum",
    "reducesumd": "ReduceSum", "reducemax": "ReduceMax", "reducemaxd": "ReduceMax",
    "reducemin": "ReduceMin", "reducemind": "ReduceMin",
}  # fmt: skip
_SOFTMAX = {
    "softmax": "Softmax",
    "softmaxv2": "Softmax",
    "logsoftmax": "LogSoftmax",
    "logsoftmaxv2": "LogSoftmax",
}
_MOVING = frozenset(
    [
        *map(str.lower, RESHAPING_TYPES),
        *"transpose transposed permute expanddimsd identity transdata".split(),
    ]
)
_TAKING = {name: "Gather" for name in ("gather", "gatherv2", "gatherv2d")}
_TAKING.update(gatherd="GatherElements", gatherelements="GatherElements", gathernd="GatherND")
_REPEATING = frozenset("tile tiled expand expandd broadcastto broadcasttod".split())
_CONCAT = frozenset("concat concatd concatv2 concatv2d".split())
_CAST = frozenset("cast castd todtype".split())
_CENTRED = frozenset("layernorm layernormv2 layernormv3 layernormv4".split())
_NORMALISING = _CENTRED | frozenset("rmsnorm rmsnormv2 t5layernorm".split())
_FITTED = frozenset(
    "pow power powv2 muls adds axpy clip clipbyvalue clipbyvaluev2 mul add sub realdiv div".split()
)
"""Types whose second factor, summand, exponent or bounds may be constants that are in no dump: they
are fitted to golden data.
"""
_SUMS = frozenset((*_REDUCE, *_SOFTMAX, *_NORMALISING)) - frozenset(
    "reducemax reducemaxd reducemin reducemind".split()
)


def is_known_type(op_type: str) -> bool:
    """Return whether formulas for operators of a type are known."""
    name = op_type.lower()
    tables: Sequence[Any] = (
        _ONE,
        _ASCEND_ONE,
        _TWO,
        _REDUCE,
        _SOFTMAX,
        _MOVING,
        _TAKING,
        _REPEATING,
        _CONCAT,
        _CAST,
        _NORMALISING,
        _FITTED,
    )
    return any(name in names for names in tables)


def only_moves(op_type: str) -> bool:
    """Return whether an operator of a type only moves its one input."""
    return op_type.lower() in _MOVING


def kind_of_type(op_type: str) -> str:
    """Return what an operator of a type does, as :mod:`.recomputed_output` calls it."""
    name, entry = op_type.lower(), find(ASCEND, op_type) or find(ONNX, op_type)
    if entry is not None and entry.multiplies:
        return PRODUCT
    if name in _SUMS or (entry is not None and entry.sums):
        return SUM
    moving: Sequence[Any] = (_MOVING, _TAKING, _REPEATING, _CONCAT, _CAST)
    return MOVE if any(name in names for names in moving) else VECTOR


def is_elementwise(op_type: str, inputs: int) -> bool:
    """Return whether an operator of a type and so many inputs computes each element by itself."""
    name = op_type.lower()
    return name in _ONE or name in _ASCEND_ONE or (name in _TWO and inputs == 2)


@dataclass(frozen=True)
class NodeFormula:
    """A formula that is one node.

    Attributes
    ----------
    node
        That node.
    first
        It reads the first of the inputs alone.
    extra
        What it reads besides: constants, arrays or values.
    whole
        From which input on these are whole numbers; None: none need be.
    constants
        What it reads between its inputs, by number; None: nothing is there.
    then
        Nodes behind it, each of which reads what the one before makes.
    output
        Which of the node's outputs it is.
    """

    node: Node
    first: bool = False
    extra: Tuple[Any, ...] = ()
    whole: Optional[int] = None
    constants: Mapping[int, Optional[Array]] = field(default_factory=dict)
    then: Tuple[Node, ...] = ()
    output: int = 0

    def read(self, inputs: Sequence[Value]) -> List[Value]:
        """Return what the node reads of an operator's inputs."""
        given = list(inputs[:1] if self.first else inputs)
        for number in range(len(given) if self.whole is None else self.whole, len(given)):
            given[number] = Value(np.asarray(given[number].array).astype(np.int64))
        return given

    def arguments(self, inputs: Sequence[Any]) -> List[Any]:
        """Return what the node reads with its constants, in order."""
        given = [*inputs, *self.extra]
        for number in sorted(self.constants):
            given.insert(number, self.constants[number])
        return given

    def __call__(self, inputs: Sequence[Value], arithmetic: Arithmetic) -> Value:
        """Return what the node makes."""
        outputs = compute(self.node, self.arguments(self.read(inputs)), arithmetic)
        value = outputs[self.output]
        for node in self.then:
            value = compute(node, [value.with_step(arithmetic.intermediate)], arithmetic)[0]
        return value


def _node(
    kind: str,
    attributes: Mapping[str, Any],
    dialect: str = ONNX,
    first: bool = False,
    extra: Sequence[Any] = (),
    whole: Optional[int] = None,
) -> Formula:
    node = Node(dialect, kind, dict(attributes), "", _VERSION if dialect == ONNX else 0)
    return NodeFormula(node, first, tuple(extra), whole)


def learns_constants(op_type: str, inputs: int) -> bool:
    """Tell whether a formula of an operator's type has constants that golden outputs show: where
    these are wrong, so is what it computes.
    """
    name = op_type.lower()
    return name in _NORMALISING or is_fitted(op_type, inputs)


def is_fitted(op_type: str, inputs: int) -> bool:
    """Tell whether a formula's one constant is fitted to golden data, and nothing else is known."""
    return op_type.lower() in _FITTED and inputs == 1


def formulas(  # noqa: C901 - a list of cases
    op_type: str, inputs: Sequence[Value], output: Array, dtype: str = "float64"
) -> Iterator[Formula]:
    """Yield the formulas that an operator's type may have, of reductions and softmax one for each
    possible axis.

    Parameters
    ----------
    dtype
        Of the device's output: its constants are rounded to it.
    """
    name, x, count = op_type.lower(), inputs[0].array, output.size
    if len(inputs) == 1:
        if name == "gelu":
            yield _node("FastGelu", {}, ASCEND)
        for kind, attributes in _ONE.get(name, ()):
            yield _node(kind, attributes)
        if name in _ASCEND_ONE:
            yield _node(
                {"relu6": "Relu6", "fastgelu": "FastGelu"}.get(name, name.capitalize()), {}, ASCEND
            )
    if name == "mul" and len(inputs) == 1:
        yield _node("Square", {}, ASCEND)
    if (
        name in _TWO
        and len(inputs) == 2
        and broadcast_size([value.array for value in inputs]) == count
    ):
        yield _node(_TWO[name], {})
    if name in _FITTED:
        yield from _fitted(name, inputs, output, rounding_of(dtype).half_unit)
    if name in _NORMALISING:
        yield from _normalisations(name, x, output, rounding_of(dtype).half_unit)
    # A second input, if any, is axes or a shape.
    if name in _SOFTMAX:
        for axis in range(x.ndim - 1, -1, -1):
            yield _node(_SOFTMAX[name], {"axis": axis}, first=True)
    elif name in _REDUCE:
        for axes in _axis_ranges(x, count):
            yield _reduction(_REDUCE[name], axes)
    elif name in _MOVING and x.size == count:
        yield lambda values, arithmetic: values[0]
        moved = [axis for axis in range(x.ndim) if x.shape[axis] > 1]
        for order in permutations(range(len(moved))) if len(moved) <= _MOST_AXES else ():
            if len(moved) == x.ndim:
                yield _node("Transpose", {"perm": list(order)}, first=True)
            else:
                yield _permutation(order)
    elif name in _CAST and len(inputs) == 1:
        yield lambda values, arithmetic: values[0]
    elif (
        name in _CONCAT
        and all(value.array.ndim == x.ndim for value in inputs)
        and sum(value.array.size for value in inputs) == count
    ):
        for axis in range(x.ndim):
            yield _node("Concat", {"axis": axis})
    elif name in _TAKING and len(inputs) > 1:
        yield from _taking(_TAKING[name], x)
    elif name in _REPEATING:
        yield from _repetitions(x, output.shape)


def _taking(kind: str, x: Array) -> Iterator[Formula]:
    for axis in range(x.ndim) if kind != "GatherND" else (0,):
        yield _node(kind, {} if kind == "GatherND" else {"axis": axis}, whole=1)


def _repetitions(x: Array, shape: Tuple[int, ...]) -> Iterator[Formula]:
    """Yield the repetitions that make a shape: one for each choice of the axes that the input has,
    as those of one element may have been left out of it.
    """
    for axes in combinations(range(len(shape)), x.ndim):
        sizes = [1] * len(shape)
        for axis, size in zip(axes, x.shape):
            sizes[axis] = size
        times = [whole // max(1, size) for whole, size in zip(shape, sizes)]

        def formula(
            inputs: Sequence[Value],
            arithmetic: Arithmetic,
            sizes: Sequence[int] = tuple(sizes),
            times: Sequence[int] = tuple(times),
        ) -> Value:
            return Value(np.tile(inputs[0].array.reshape(sizes), times))

        if tuple(np.multiply(sizes, times)) == shape:
            yield formula


def _axis_ranges(x: Array, count: int) -> List[Tuple[int, ...]]:
    ranges = [tuple(range(first, last)) for last in range(x.ndim, 0, -1) for first in range(last)]
    return [
        axes for axes in ranges if count * int(np.prod([x.shape[axis] for axis in axes])) == x.size
    ][:_MOST_RANGES]


def _reduction(kind: str, axes: Tuple[int, ...]) -> Formula:
    by_input = kind == "ReduceSum"
    return _node(
        kind,
        {} if by_input else {"axes": list(axes)},
        first=True,
        extra=[np.array(axes, np.int64)] if by_input else (),
    )


def _permutation(order: Sequence[int]) -> Formula:
    def formula(inputs: Sequence[Value], arithmetic: Arithmetic) -> Value:
        return Value(inputs[0].array.squeeze().transpose(order))

    return formula


def _fitted(name: str, inputs: Sequence[Value], output: Array, unit: float) -> Iterator[Formula]:
    """Yield operators with a constant that is in no dump: a factor, a summand, an exponent, bounds,
    one for all or one for each channel.
    """
    if len(inputs) != 1 or inputs[0].array.dtype.kind != "f" or inputs[0].array.size != output.size:
        return
    x, y = inputs[0].array, np.asarray(output, np.float64).reshape(inputs[0].array.shape)
    if name in ("pow", "power", "powv2"):
        for exponent in (2.0, 0.5, 3.0, -0.5, -1.0):
            yield _node("Pow", {}, extra=[np.float64(exponent)])
    elif name.startswith("clip"):
        yield _clipped(x, y)
    elif name in ("mul", "muls", "realdiv", "div", "axpy"):
        kind = "Div" if name in ("realdiv", "div") else "Mul"
        for axis in _channels(x):
            one, other = (x, y) if kind == "Mul" else (y, x)
            squares = np.maximum(_sum_over(axis, one * one), 1e-300)
            factor = _sum_over(axis, x * y) / squares
            yield _node(kind, {}, extra=[_constant(factor, unit)])
    else:
        kind, sign = ("Sub", -1.0) if name == "sub" else ("Add", 1.0)
        for axis in _channels(x):
            summand = sign * _sum_over(axis, y - x) / _sum_over(axis, np.ones_like(x))
            yield _node(kind, {}, extra=[_constant(summand, unit)])


def _clipped(x: Array, y: Array) -> Formula:
    """Return a Clip with the bounds that golden data show. Where they show none, values beyond all
    of theirs may be cut off or not, and are not compared.
    """
    low, high = y.min(), y.max()
    cut_low, cut_high = bool((x < low).any()), bool((x > high).any())

    def formula(inputs: Sequence[Value], arithmetic: Arithmetic) -> Value:
        made = _node("Clip", {}, extra=[np.float64(low), np.float64(high)])(inputs, arithmetic)
        values = inputs[0].array
        unknown = ((values < low) & (not cut_low)) | ((values > high) & (not cut_high))
        return Value(np.where(unknown, np.nan, made.array), made.error)

    return formula


def _constant(values: Array, unit: float) -> Value:
    """Return a constant that a device holds rounded to its type."""
    return Value(values, np.abs(values) * (unit / np.sqrt(3.0)))


def _channels(x: Array) -> List[Optional[int]]:
    """Return the axes that a constant may have a value for each index of, all others being summed
    over; None: it has one for all.
    """
    axes = [
        axis
        for axis in dict.fromkeys((1, x.ndim - 1))
        if 0 <= axis < x.ndim and x.size >= _LEAST_ROWS * x.shape[axis]
    ]
    return [None, *axes]


def _sum_over(axis: Optional[int], values: Array) -> Array:
    other_axes = tuple(number for number in range(values.ndim) if number != axis)
    return values.sum(axis=other_axes, keepdims=True)


def _normalisations(name: str, x: Array, output: Array, unit: float) -> Iterator[Formula]:
    """Yield normalisations along the last axis, their scale and shift learnt from golden data, as
    weights are in no dump.
    """
    if x.size != output.size or not x.ndim or x.shape[-1] < 2 or x.size < _LEAST_ROWS * x.shape[-1]:
        return
    centred = name in _CENTRED
    for epsilon in _EPSILONS:
        normalised = _normalised(Value(x), centred, epsilon, Arithmetic()).array.reshape(
            -1, x.shape[-1]
        )
        golden_rows = np.asarray(output, np.float64).reshape(normalised.shape)
        middle, level = (
            (normalised.mean(axis=0), golden_rows.mean(axis=0)) if centred else (0.0, 0.0)
        )
        centred_rows = normalised - middle
        scale = (centred_rows * (golden_rows - level)).sum(axis=0) / np.maximum(
            (centred_rows * centred_rows).sum(axis=0), 1e-300
        )
        shift = level - scale * middle

        constants = [_constant(scale, unit), _constant(shift, unit)]
        if centred:
            yield NodeFormula(_normalisation(True, epsilon), True, tuple(constants))
        else:
            yield NodeFormula(_normalisation(False, epsilon), True, tuple(constants[:1]))


def _normalisation(centred: bool, epsilon: float) -> Node:
    kind, version = ("LayerNormalization", 17) if centred else ("RMSNormalization", 23)
    return Node(ONNX, kind, {"axis": -1, "epsilon": epsilon}, "", version)


def _normalised(x: Value, centred: bool, epsilon: float, arithmetic: Arithmetic) -> Value:
    size = x.array.shape[-1]
    constants = [np.ones(size), np.zeros(size)] if centred else [np.ones(size)]
    return compute(_normalisation(centred, epsilon), [x, *constants], arithmetic)[0]
