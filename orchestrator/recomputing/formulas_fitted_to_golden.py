"""Finds formulas of operators by golden data if the original model is unknown.

Where attributes (an axis, a slope, an epsilon) are not known, each formula that an operator's type
may have is tried on golden data; the one by which the golden output follows from the golden inputs
is taken. Without golden data of all inputs nothing is computed.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..metrics.patterns import AlignedPair
from ..operators import ASCEND, ONNX, Arithmetic, CannotCompute, Node, Value, compute, find
from ..operators.value_with_error import joined_errors
from ..tensors.type_rounding import rounding_of
from .output_error import OwnError, decided_error, own_error
from .recomputed_output import DECISION, MOVE, PRODUCT, SUM, VECTOR
from .repeated_decisions import broadcast_size

Array = Any
Formula = Callable[[Sequence[Value], Arithmetic], Value]

FITS = 1e-5
"""Largest relative distance of a golden output from its formula, in float32.
"""
_EQUAL = 1e-6
_UNSEEN = 1e-6
"""Of a float32 output's root mean square: healthy operators of PP-OCR (hf32, bare) are up to 0.8 of
it off.
"""
_EXPLAINED = 3.0
"""A larger distance is accepted up to this multiple of what float32 explains.
"""
_APART, _NEARER = 0.05, 0.2
"""Golden data that do not fit each other are this far apart, and what fits instead is nearer by
this factor.
"""
_VERSION = 13
_MOST_RANGES, _MOST_AXES = 12, 4
_LEAST_ROWS = 4
"""Of fewer rows, the scale and shift of a normalisation could be made to fit anything."""
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
    "sin": [("Sin", {})], "cos": [("Cos", {})],
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
    "transpose transposed permute reshape squeeze squeezev2 unsqueeze unsqueezev2 expanddims "
    "expanddimsd flatten identity transdata".split()
)
_TAKING = {name: "Gather" for name in ("gather", "gatherv2", "gatherv2d")}
_TAKING.update(gatherd="GatherElements", gatherelements="GatherElements", gathernd="GatherND")
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


class AttributesAndConstants(NamedTuple):
    """The attributes of an op in the model's json, and the constants in its dump.

    Attributes
    ----------
    attributes
        By the names of Ascend IR.
    constants
        Constant inputs as the device holds them, by number, in their original layout.
    layouts
        The original layouts of all inputs.
    """

    attributes: Mapping[str, Any]
    constants: Mapping[int, Array]
    layouts: Tuple[str, ...]


class GoldenRecomputation(NamedTuple):
    """The error of an output that was computed again by such a formula: its kind, and the own error
    with float32 and with the device's own type inside.
    """

    kind: str
    tight: OwnError
    loose: Optional[OwnError]


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
        _CONCAT,
        _CAST,
        _NORMALISING,
        _FITTED,
    )
    return any(name in names for names in tables)


def only_moves(op_type: str) -> bool:
    """Return whether an operator of a type only moves its one input."""
    return op_type.lower() in _MOVING


def recomputed_by_golden(
    op_type: str,
    inputs: Sequence[AlignedPair],
    output: AlignedPair,
    loose: Optional[Arithmetic],
    facts: Optional[AttributesAndConstants],
) -> Optional[GoldenRecomputation]:
    """Compute an output from the device's own inputs.

    Parameters
    ----------
    inputs, output
        Whole tensors, not samples.
    loose
        The arithmetic of a device that computes in its own type inside; None: there is no such.
    facts
        What is known of the op besides; None: nothing.

    Returns
    -------
    ByGolden or None
        None where the type is not known, or golden outputs do not follow from golden inputs.
    """
    if not inputs or any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    goldens, targets = [
        _values([getattr(pair, side) for pair in inputs]) for side in ("golden", "target")
    ]
    formula, off = _confirmed_formula(
        op_type, goldens, np.asarray(output.golden), facts, output.dtype
    )
    if formula is None or output.target.dtype.kind not in "fiub":
        return None
    try:
        with np.errstate(all="ignore"):
            computed = formula(targets, Arithmetic())
            name = op_type.lower()
            entry = find(ASCEND, op_type)
            if entry is not None and entry.multiplies:
                kind = PRODUCT
            elif name in _SUMS or (entry is not None and entry.sums):
                kind = SUM
            else:
                kind = (
                    MOVE
                    if name in _MOVING or name in _TAKING or name in _CONCAT or name in _CAST
                    else VECTOR
                )
            if output.target.dtype.kind != "f":
                wrong = np.asarray(output.target) != computed.array.reshape(output.target.shape)
                first = int(np.argmax(wrong)) if wrong.size else 0
                error = decided_error(int(np.count_nonzero(wrong)), wrong.size, first)
                return GoldenRecomputation(kind if kind == MOVE else DECISION, error, None)
            tight = own_error(
                output.target,
                _shaped(_with_formula_error(computed, off, output.dtype), output.target.shape),
                output.dtype,
            )
            if loose is None or kind == MOVE or not tight.doubtful:
                return GoldenRecomputation(kind, tight, None)
            coarse = _shaped(
                _with_formula_error(formula(targets, loose), off, output.dtype), output.target.shape
            )
            return GoldenRecomputation(kind, tight, own_error(output.target, coarse, output.dtype))
    except (CannotCompute, ValueError, MemoryError):
        return None


def output_by_golden(
    op_type: str,
    inputs: Sequence[AlignedPair],
    output: AlignedPair,
    facts: Optional[AttributesAndConstants],
) -> Optional[Array]:
    """Return what :func:`recomputed_by_golden` computes, in the output's shape; None as there."""
    goldens, targets = [
        _values([getattr(pair, side) for pair in inputs]) for side in ("golden", "target")
    ]
    formula, _ = _confirmed_formula(
        op_type, goldens, np.asarray(output.golden), facts, output.dtype
    )
    try:
        with np.errstate(all="ignore"):
            return (
                None
                if formula is None
                else _shaped(formula(targets, Arithmetic()), output.target.shape).array
            )
    except (CannotCompute, ValueError, MemoryError):
        return None


def contradicts(
    op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, doubted: int
) -> bool:
    """Return whether a reader of a golden tensor shows that this tensor is wrong, not the device's.

    Parameters
    ----------
    inputs, output
        Of the reader; whole tensors.
    doubted
        Which input: golden outputs follow from the device's tensor in its place, and not from the
        golden one.
    """
    return any(
        apart > _APART and near < _NEARER * apart
        for apart, near in _distances_with_replaced(op_type, inputs, output, doubted)
    )


def confirms(
    op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, doubted: int
) -> bool:
    """Return whether a reader of a golden tensor shows that it is right; parameters as for
    :func:`contradicts`.

    Golden outputs follow from the golden tensor, and not from the device's in its place.
    """
    return any(
        apart <= FITS and near > _APART
        for apart, near in _distances_with_replaced(op_type, inputs, output, doubted)
    )


def _distances_with_replaced(
    op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair, doubted: int
) -> Iterator[Tuple[float, float]]:
    """Yield for each formula the distance of the golden output from its result on golden inputs,
    and on those with the device's tensor in place of the doubted one.
    """
    name = op_type.lower()
    if any(pair.sampled for pair in (*inputs, output)) or not (
        name in _ONE or name in _ASCEND_ONE or (name in _TWO and len(inputs) == 2)
    ):
        return
    golden = np.asarray(output.golden)
    goldens = _values([pair.golden for pair in inputs])
    doubtful = _values(
        [pair.target if number == doubted else pair.golden for number, pair in enumerate(inputs)]
    )
    for formula in _formulas(op_type, goldens, golden):
        distances = [_distance(formula, sides, golden) for sides in (goldens, doubtful)]
        if distances[0] is not None and distances[1] is not None:
            yield distances[0], distances[1]


def _confirmed_formula(
    op_type: str,
    goldens: Sequence[Value],
    golden: Array,
    facts: Optional[AttributesAndConstants],
    dtype: str,
) -> Tuple[Optional[Formula], float]:
    """Return the formula by which the golden output follows best from golden inputs, and its
    distance from that; None where none fits.
    """
    for formula in _by_attributes(op_type, facts):
        distance = _distance(formula, goldens, golden)
        # The constants are the device's, golden data are made with the original ones.
        if distance is not None and distance <= max(FITS, 4.0 * rounding_of(dtype).half_unit):
            return formula, distance
    most = max(
        FITS, 4.0 * rounding_of(str(golden.dtype)).half_unit if golden.dtype != np.float64 else 0.0
    )
    best, chosen = np.inf, None
    for formula in _formulas(op_type, goldens, golden, dtype):
        error = _compared(formula, goldens, golden)
        if error is None or not (error.distance <= most or error.ratio <= _EXPLAINED):
            continue
        if error.distance < best:
            best, chosen = error.distance, formula
        if error.distance <= _EQUAL:
            break
    return chosen, float(best) if chosen is not None else 0.0


def _by_attributes(op_type: str, facts: Optional[AttributesAndConstants]) -> Iterator[Formula]:
    """Yield the formula of an op by its attributes, with the constants of its dump."""
    if facts is None or find(ASCEND, op_type) is None:
        return
    node = Node(ASCEND, op_type, dict(facts.attributes), layouts=facts.layouts)

    def formula(inputs: Sequence[Value], arithmetic: Arithmetic) -> Value:
        all_inputs = list(inputs)
        for number in sorted(facts.constants):
            all_inputs.insert(number, Value(np.asarray(facts.constants[number])))
        return compute(node, all_inputs, arithmetic)[0]

    yield formula


def _values(arrays: Sequence[Array]) -> List[Value]:
    return [
        Value(
            np.asarray(array, np.float64)
            if np.asarray(array).dtype.kind == "f"
            else np.asarray(array)
        )
        for array in arrays
    ]


def _with_formula_error(value: Value, off: float, dtype: str) -> Value:
    """Return a value with the error of its formula on golden data, and of golden data in
    float32.
    """
    if not value.is_float or not value.array.size:
        return value
    size = np.where(np.isfinite(value.array), np.abs(value.array), 0.0)
    unseen = _UNSEEN * np.sqrt(np.mean(np.square(size))) if dtype == "float32" else 0.0
    return Value(
        value.array, joined_errors(value.error, np.hypot(np.abs(value.array) * off, unseen))
    )


def _shaped(value: Value, shape: Tuple[int, ...]) -> Value:
    error = (
        None
        if value.error is None
        else np.broadcast_to(value.error, value.array.shape).reshape(shape)
    )
    return Value(value.array.reshape(shape), error)


def _distance(formula: Formula, inputs: Sequence[Value], golden: Array) -> Optional[float]:
    """Return the relative distance of a golden output from a formula's result; None where the
    inputs do not fit it.
    """
    error = _compared(formula, inputs, golden)
    return None if error is None else error.distance


def _compared(formula: Formula, inputs: Sequence[Value], golden: Array) -> Optional[OwnError]:
    """Return the error of a golden output against a formula's result; None where the inputs do not
    fit it.
    """
    try:
        with np.errstate(all="ignore"):
            computed = formula(inputs, Arithmetic())
        if computed.array.size != golden.size:
            return None
        computed = _shaped(computed, golden.shape)
    except (CannotCompute, ValueError, TypeError, IndexError, MemoryError):
        return None
    if computed.array.dtype.kind not in "fiub" or golden.dtype.kind not in "fiub":
        return None
    if golden.dtype.kind != "f":
        return decided_error(0, golden.size) if np.array_equal(computed.array, golden) else None
    error = own_error(golden, computed, "float64" if golden.dtype == np.float64 else "float32")
    return None if error.not_finite or not np.isfinite(error.distance) else error


def _node(
    kind: str,
    attributes: Mapping[str, Any],
    dialect: str = ONNX,
    first: bool = False,
    extra: Sequence[Any] = (),
) -> Formula:
    node = Node(dialect, kind, dict(attributes), "", _VERSION if dialect == ONNX else 0)

    def formula(inputs: Sequence[Value], arithmetic: Arithmetic) -> Value:
        return compute(node, [*(inputs[:1] if first else inputs), *extra], arithmetic)[0]

    return formula


def _formulas(  # noqa: C901 - a list of cases
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


def _taking(kind: str, x: Array) -> Iterator[Formula]:
    for axis in range(x.ndim) if kind != "GatherND" else (0,):
        node = Node(ONNX, kind, {} if kind == "GatherND" else {"axis": axis}, "", _VERSION)

        def formula(inputs: Sequence[Value], arithmetic: Arithmetic, node: Node = node) -> Value:
            return compute(
                node, [inputs[0], Value(np.asarray(inputs[1].array).astype(np.int64))], arithmetic
            )[0]

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
        yield _node("Clip", {}, extra=[np.float64(y.min()), np.float64(y.max())])
    elif name in ("mul", "muls", "realdiv", "div", "axpy"):
        for axis in _channels(x):
            yield _node(
                "Mul",
                {},
                extra=[
                    _constant(
                        _sum_over(axis, x * y) / np.maximum(_sum_over(axis, x * x), 1e-300), unit
                    )
                ],
            )
    else:
        for axis in _channels(x):
            yield _node(
                "Add",
                {},
                extra=[_constant(_sum_over(axis, y - x) / _sum_over(axis, np.ones_like(x)), unit)],
            )


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

        def formula(
            inputs: Sequence[Value],
            arithmetic: Arithmetic,
            epsilon: float = epsilon,
            scale: Array = scale,
            shift: Array = shift,
        ) -> Value:
            value = _normalised(inputs[0], centred, epsilon, arithmetic)
            rounded = np.hypot(value.array * scale, shift) * (unit / np.sqrt(3.0))
            return Value(
                value.array * scale + shift,
                joined_errors(
                    None if value.error is None else np.abs(scale) * value.error, rounded
                ),
            )

        yield formula


def _normalised(x: Value, centred: bool, epsilon: float, arithmetic: Arithmetic) -> Value:
    size = x.array.shape[-1]
    if centred:
        node = Node(ONNX, "LayerNormalization", {"axis": -1, "epsilon": epsilon}, "", 17)
        return compute(node, [x, np.ones(size), np.zeros(size)], arithmetic)[0]
    node = Node(ASCEND, "RmsNorm", {"epsilon": epsilon})
    return compute(node, [x, np.ones(size)], arithmetic)[0]
