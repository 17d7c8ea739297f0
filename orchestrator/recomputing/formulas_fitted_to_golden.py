"""Finds formulas of operators by golden data if the original model is unknown.

Where attributes (an axis, a slope, an epsilon) are not known, each formula that an operator's type
may have is tried on golden data; the one by which the golden output follows from the golden inputs
is taken. Without golden data of all inputs nothing is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import numpy as np

from .. import operators
from ..base.element_types import element_count
from ..metrics.patterns import AlignedPair
from ..metrics.patterns.masked_on_both_sides import Masks
from ..operators import ASCEND, ONNX, Arithmetic, CannotCompute, Node, Value, find, parts_of
from ..operators.registry import UNFIT
from ..operators.value_with_error import joined_errors
from ..tensors.type_precision import rounding_of
from .formulas_by_type import (
    LOOSE,
    TIGHT,
    Formula,
    NodeFormula,
    formulas,
    is_elementwise,
    kind_of_type,
)
from .onnx_of_json import as_named, as_onnx, with_activation
from .output_error import OwnError, decided_error, own_error
from .recomputed_output import DECISION, MOVE
from .repeated_decisions import MOST_NEAR_TIES

if TYPE_CHECKING:
    from .attributes_and_constants import AttributesAndConstants

Array = Any
Judge = Callable[[OwnError, bool], float]
FITS = 1e-5
"""Largest relative distance of a golden output from its formula, in float32.
"""
# Nothing nearer is looked for: ten times nearer than FITS.
_EQUAL = 1e-6
_UNSEEN = 1e-6
"""Of a float32 output's root mean square: healthy operators of PP-OCR (hf32, bare) are up to 0.8 of
it off.
"""
_EXPLAINED = 3.0
"""A larger distance is accepted up to this multiple of what float32 explains; chosen, no trial."""
_APART, _NEARER = 0.05, 0.2
"""Golden data that do not fit each other are this far apart, and what fits instead is nearer by
this factor.
"""


_SHOWN = 0.5
"""Of how far the json's operator is from golden data, what the device's output is off them at
least: else it is right, whatever the json says. Of 194 networks with one thing exchanged 0.25
changes nothing, and with 1 a BatchNorm's epsilon is not told."""
_VERSION = 21
"""The opset of a quantisation's attributes."""
_BY_SCALE: Mapping[str, str] = {
    **dict.fromkeys(("ascendquantv2", "quantize"), "QuantizeLinear"),
    **dict.fromkeys(("ascenddequantv2", "ascendantiquantv2", "dequantize"), "DequantizeLinear"),
}
"""What quantises by a scale and a zero point that are inputs: converters hand on either the scale
of ONNX or its reciprocal, which golden data show."""


class GoldenRecomputation(NamedTuple):
    """The error of an output that was computed again by such a formula: its kind, and the own error
    with float32 and with the device's own type inside.
    """

    kind: str
    tight: OwnError
    loose: Optional[OwnError]


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
    GoldenRecomputation or None
        None where the type is not known, or golden outputs do not follow from golden inputs.
    """
    sides = sides_of(inputs, output)
    if sides is None:
        return None
    goldens, targets = sides
    formula, off = confirmed_formula(
        op_type, goldens, np.asarray(output.golden), facts, output.dtype
    )
    if formula is None or output.target.dtype.kind not in "fiub":
        return None
    try:
        with np.errstate(all="ignore"):
            computed = formula(targets, Arithmetic())
            kind = kind_of_type(op_type)
            if output.target.dtype.kind != "f":
                inside = Arithmetic() if not inputs else LOOSE.get(inputs[0].dtype, Arithmetic())
                wrong = not_following(formula, targets, np.asarray(output.target), inside)
                first = int(np.argmax(wrong)) if wrong.size else 0
                error = decided_error(int(np.count_nonzero(wrong)), wrong.size, first)
                return GoldenRecomputation(kind if kind == MOVE else DECISION, error, None)
            tight = own_error(
                output.target,
                shaped(with_formula_error(computed, off, output.dtype), output.target.shape),
                output.dtype,
            )
            if loose is None or kind == MOVE or not tight.doubtful:
                return GoldenRecomputation(kind, tight, None)
            coarse = shaped(
                with_formula_error(formula(targets, loose), off, output.dtype), output.target.shape
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
    sides = sides_of(inputs, output)
    if sides is None:
        return None
    goldens, targets = sides
    formula, _ = confirmed_formula(op_type, goldens, np.asarray(output.golden), facts, output.dtype)
    try:
        with np.errstate(all="ignore"):
            return (
                None
                if formula is None
                else made_by(formula, targets, Arithmetic(), output.target.shape).array
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
    if any(pair.sampled for pair in (*inputs, output)) or not is_elementwise(op_type, len(inputs)):
        return
    golden = np.asarray(output.golden)
    goldens = _values([pair.golden for pair in inputs])
    doubtful = _values(
        [pair.target if number == doubted else pair.golden for number, pair in enumerate(inputs)]
    )
    for formula in formulas(op_type, goldens, golden):
        distances = [_distance(formula, sides, golden) for sides in (goldens, doubtful)]
        if distances[0] is not None and distances[1] is not None:
            yield distances[0], distances[1]


def confirmed_formula(
    op_type: str,
    goldens: Sequence[Value],
    golden: Array,
    facts: Optional[AttributesAndConstants],
    dtype: str,
) -> Tuple[Optional[Formula], float]:
    """Return the formula by which the golden output follows best from golden inputs, and its
    distance from that; None where none fits.
    """
    formula, distance = _told(op_type, goldens, golden, facts, dtype)
    if formula is not None or not goldens:
        return formula, distance
    most = max(
        FITS, 4.0 * rounding_of(str(golden.dtype)).half_unit if golden.dtype != np.float64 else 0.0
    )
    return _nearest(formulas(op_type, goldens, golden, dtype), goldens, golden, most)


def _told(
    op_type: str,
    goldens: Sequence[Value],
    golden: Array,
    facts: Optional[AttributesAndConstants],
    dtype: str,
) -> Tuple[Optional[NodeFormula], float]:
    """Return the formula by what the json and the dump tell; as :func:`confirmed_formula`."""
    for formula in by_attributes(op_type, facts):
        # The constants are the device's, golden data are made with the original ones.
        if golden.dtype.kind != "f" and facts is not None and facts.constants:
            if _decides_alike(formula, goldens, golden, facts.constants.values()):
                return formula, 0.0
            continue
        has_rounded = facts is not None and bool(facts.constants)
        most = max(FITS, 4.0 * rounding_of(dtype).half_unit) if has_rounded else FITS
        for candidate in _with_activations(formula, facts, goldens, golden):
            distance = _distance(candidate, goldens, golden)
            if distance is not None and distance <= most:
                return candidate, distance
    return None, 0.0


def _with_activations(
    formula: NodeFormula,
    facts: Optional[AttributesAndConstants],
    inputs: Sequence[Value],
    made: Array,
) -> Iterator[NodeFormula]:
    """Yield a formula, and of an op that is several nodes the same with an activation behind it, by
    which it comes nearest to what was made.
    """
    yield formula
    activated = None
    if facts is not None and facts.fused:
        activated = with_activation(formula, inputs, np.asarray(made))
    if activated is not None:
        yield activated


def _decides_alike(
    formula: NodeFormula, goldens: Sequence[Value], golden: Array, constants: Iterable[Array]
) -> bool:
    """Tell whether golden whole numbers are what a formula makes of golden inputs, where constants
    are rounded to the device's type.
    """
    try:
        return not not_following(formula, goldens, golden, rounding_of_constants(constants)).any()
    except (CannotCompute, ValueError, TypeError, IndexError, MemoryError):
        return False


def rounding_of_constants(constants: Iterable[Array]) -> Arithmetic:
    """Return the arithmetic of exact values but for constants that were rounded to a type."""
    held = [constant for constant in constants if constant.dtype.kind == "f"]
    return Arithmetic(max(map(unit_of, held), default=0.0))


def unit_of(constant: Array) -> float:
    """Return half a step of the coarsest type that holds a constant."""
    near = np.ascontiguousarray(constant, np.float32)
    if not np.any(near.view(np.uint32) & np.uint32(0xFFFF)):
        return rounding_of("bfloat16").half_unit
    with np.errstate(over="ignore"):
        is_half = np.array_equal(near.astype(np.float16), near)
    return rounding_of("float16" if is_half else "float32").half_unit


def not_following(
    formula: Formula, inputs: Sequence[Value], actual: Array, arithmetic: Arithmetic
) -> Array:
    """Return which of an output's whole numbers are not what a formula makes of what comes in."""
    right = formula(inputs, Arithmetic()).array
    made = actual.reshape(right.shape)
    if not isinstance(formula, NodeFormula):
        return np.asarray(made != right).reshape(actual.shape)
    given = formula.arguments(formula.read(inputs))
    outputs = [None] * formula.output + [made]
    wrong = operators.check(formula.node, given, outputs, arithmetic)[-1]
    return np.asarray(made != right if wrong is None else wrong).reshape(actual.shape)


def follows_from(
    formula: Formula, goldens: Sequence[Value], golden: Array, most: float = FITS
) -> bool:
    """Tell whether a golden output is what a formula makes of golden inputs, up to a relative
    distance.
    """
    distance = _distance(formula, goldens, golden)
    return distance is not None and distance <= most


def confirmed_node(
    op_type: str,
    goldens: Sequence[Value],
    golden: Array,
    facts: Optional[AttributesAndConstants],
    dtype: str,
) -> Tuple[Optional[NodeFormula], float]:
    """Return the formula that is one node, as :func:`confirmed_formula`; one of its type alone
    before what the json tells, which may be another.
    """
    nodes = (
        formula
        for formula in (formulas(op_type, goldens, golden, dtype) if goldens else ())
        if isinstance(formula, NodeFormula)
    )
    formula, distance = _nearest(nodes, goldens, golden, FITS)
    if formula is not None:
        return formula, distance
    return _told(op_type, goldens, golden, facts, dtype)


_Any = TypeVar("_Any", bound=Formula)


def _nearest(
    candidates: Iterable[_Any], goldens: Sequence[Value], golden: Array, most: float
) -> Tuple[Optional[_Any], float]:
    best, chosen = np.inf, None
    for formula in candidates:
        error = _compared(formula, goldens, golden)
        if error is None or not (error.distance <= most or error.ratio <= _EXPLAINED):
            continue
        if error.distance < best:
            best, chosen = error.distance, formula
        if error.distance <= _EQUAL:
            break
    return chosen, float(best) if chosen is not None else 0.0


def is_told_by_dump(op_type: str) -> bool:
    """Tell whether an operator of a type is computed by its attributes and the constants of its
    dump.
    """
    return op_type.lower() in _BY_SCALE or any(
        find(dialect, op_type) is not None for dialect in (ASCEND, ONNX)
    )


def by_attributes(op_type: str, facts: Optional[AttributesAndConstants]) -> Iterator[NodeFormula]:
    """Yield the formulas that an op may have by its attributes, with the constants of its dump."""
    if facts is None:
        return
    for formula in _by_attributes(op_type, facts):
        node = replace(formula.node, outputs=max(facts.outputs, facts.output + 1))
        yield replace(formula, node=node, output=facts.output)


def _by_attributes(op_type: str, facts: AttributesAndConstants) -> Iterator[NodeFormula]:
    if op_type.lower() in _BY_SCALE:
        yield from _by_scale(_BY_SCALE[op_type.lower()], facts)
        return
    translated = as_onnx(op_type, facts)
    if translated is not None:
        yield translated
        return
    if find(ASCEND, op_type) is not None:
        node = Node(ASCEND, op_type, dict(facts.attributes), layouts=facts.layouts)
        yield NodeFormula(node, constants=facts.constants)
    yield from as_named(op_type, facts)


def _by_scale(kind: str, facts: AttributesAndConstants) -> Iterator[NodeFormula]:
    """Yield quantisations by the scale and zero point of a dump: along each axis, by the scale or
    its reciprocal, with the zero point added or taken away.
    """
    scale, zero = (facts.constants.get(number) for number in (1, 2))
    if scale is None or scale.dtype.kind != "f" or not np.all(scale):
        return
    axes = [facts.attributes["axis"]] if "axis" in facts.attributes else [1, -1, 0]
    for axis in axes if scale.size > 1 else axes[:1]:
        node = Node(ONNX, kind, {"axis": axis}, "", _VERSION)
        for scales in (scale, 1.0 / scale.astype(np.float64)):
            for zeros in (zero,) if zero is None or kind == "QuantizeLinear" else (zero, -zero):
                constants = {**facts.constants, 1: scales, 2: zeros}
                given = {number: one for number, one in constants.items() if one is not None}
                yield NodeFormula(node, constants=given)


def sides_of(
    inputs: Sequence[AlignedPair], output: AlignedPair
) -> Optional[Tuple[List[Value], List[Value]]]:
    """Return golden inputs and the device's as values; None where one tensor is a sample."""
    if any(pair.sampled for pair in (*inputs, output)) or not output.golden.size:
        return None
    goldens, targets = (
        _values([getattr(pair, side) for pair in inputs]) for side in ("golden", "target")
    )
    return goldens, targets


def _values(arrays: Sequence[Array]) -> List[Value]:
    return [
        Value(
            np.asarray(array, np.float64)
            if np.asarray(array).dtype.kind == "f"
            else np.asarray(array)
        )
        for array in arrays
    ]


def with_formula_error(value: Value, off: float, dtype: str) -> Value:
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


def shaped(value: Value, shape: Tuple[int, ...]) -> Value:
    """Return a value and its error in another shape."""
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


def made_by(
    formula: Formula, inputs: Sequence[Value], arithmetic: Arithmetic, shape: Tuple[int, ...]
) -> Value:
    """Return what a formula makes, in a shape.

    Raises
    ------
    CannotCompute, ValueError
        The inputs do not fit the formula, or it makes another number of elements.
    """
    count = _elements_of(formula, inputs)
    if count is not None and count != element_count(shape):
        raise CannotCompute("it makes %d elements, not %s" % (count, shape))
    return shaped(formula(inputs, arithmetic), shape)


def _elements_of(formula: Formula, inputs: Sequence[Value]) -> Optional[int]:
    """Return how many elements a formula makes, without computing it: of a column and a line of
    40,000 each 12 GB; None where it is not known.
    """
    if not isinstance(formula, NodeFormula) or formula.output:
        return None
    given = formula.arguments(inputs[:1] if formula.first else inputs)
    values = [one.array if isinstance(one, Value) else one for one in given]
    shapes = [None if value is None else np.shape(value) for value in values]
    parts = parts_of(formula.node, shapes, values)
    sizes = [] if parts is None else [size for size in parts.shape if size is not None]
    return None if parts is None or len(sizes) < len(parts.shape) else element_count(sizes)


def _compared(formula: Formula, inputs: Sequence[Value], golden: Array) -> Optional[OwnError]:
    """Return the error of a golden output against a formula's result; None where the inputs do not
    fit it.
    """
    try:
        with np.errstate(all="ignore"):
            computed = made_by(formula, inputs, Arithmetic(), golden.shape)
    except (CannotCompute, ValueError, TypeError, IndexError, MemoryError):
        return None
    if computed.array.dtype.kind not in "fiub" or golden.dtype.kind not in "fiub":
        return None
    if golden.dtype.kind != "f":
        return decided_error(0, golden.size) if np.array_equal(computed.array, golden) else None
    golden, computed = without_masks(golden, computed)
    error = own_error(golden, computed, "float64" if golden.dtype == np.float64 else "float32")
    return None if error.not_finite or not np.isfinite(error.distance) else error


def device_follows(
    formula: Formula,
    targets: Sequence[Value],
    output: AlignedPair,
    judge: Judge,
) -> bool:
    """Tell whether a device's output is what a formula makes of what it read; ``judge`` as of
    :func:`by_json_alone`.
    """
    for arithmetic in (TIGHT.get(output.dtype, Arithmetic()), LOOSE.get(output.dtype)):
        try:
            if arithmetic is not None:
                computed = made_by(formula, targets, arithmetic, output.target.shape)
                if computed.is_float != (output.target.dtype.kind == "f"):
                    return False
                if not computed.is_float:
                    actual = np.asarray(output.target)
                    return not not_following(formula, targets, actual, arithmetic).any()
                if judge(own_error(output.target, computed, output.dtype), False) <= 1.0:
                    return True
        except (CannotCompute, *UNFIT):
            return False
    return False


def followed_by_device(
    formula: NodeFormula,
    facts: AttributesAndConstants,
    targets: Sequence[Value],
    output: AlignedPair,
    judge: Judge,
) -> Optional[NodeFormula]:
    """Return a formula of the json, of an op that is several nodes with what is behind it, where a
    device's output is what it makes; else None. ``judge`` as of :func:`by_json_alone`.
    """
    for candidate in _with_activations(formula, facts, targets, output.target):
        if device_follows(candidate, targets, output, judge):
            return candidate
    return None


def by_json_alone(
    op_type: str,
    inputs: Sequence[AlignedPair],
    output: AlignedPair,
    facts: AttributesAndConstants,
    judge: Judge,
) -> Optional[OwnError]:
    """Return how far golden data are from what the json says of golden inputs, where the device's
    output is what it says of the device's own; None where it is not, or golden data are, or may be
    but for the rounding of a device.

    Parameters
    ----------
    judge
        Returns by how many times an error exceeds what is allowed, of values that are only moved
        (True) or not.
    """
    sides = sides_of(inputs, output)
    if sides is None:
        return None
    goldens, targets = sides
    golden, actual = np.asarray(output.golden), np.asarray(output.target)
    half = rounding_of(output.dtype).half_unit
    with np.errstate(all="ignore"):
        for of_json in by_attributes(op_type, facts) if np.ptp(np.float64(golden)) else ():
            formula = followed_by_device(of_json, facts, targets, output, judge)
            if formula is None:
                continue
            try:
                if golden.dtype.kind != "f":
                    rounded = rounding_of_constants(facts.constants.values())
                    wrong = not_following(formula, goldens, golden, rounded)
                    error = decided_error(int(wrong.sum()), wrong.size, int(np.argmax(wrong)))
                    return error if error.distance > MOST_NEAR_TIES else None
                held = {
                    number: one
                    if one is None or one.dtype.kind != "f"
                    else Value(one, np.abs(one) * half)
                    for number, one in formula.constants.items()
                }
                coarse = LOOSE.get(output.dtype, Arithmetic())
                held_formula = replace(formula, constants=held)
                made = made_by(held_formula, goldens, coarse, golden.shape)
            except (CannotCompute, *UNFIT):
                continue
            off, apart = (float(np.linalg.norm(side - golden)) for side in (actual, made.array))
            error = own_error(*without_masks(golden, made), output.dtype)
            if np.isfinite(apart) and off > _SHOWN * apart and judge(error, False) > 1.0:
                return error
    return None


def without_masks(golden: Array, computed: Value) -> Tuple[Array, Value]:
    """Return a golden output and what is computed without the elements that are masked in both:
    beside these all others are next to nothing.
    """
    masks, flat = Masks(), np.ravel(computed.array)
    masks.update(flat, np.ravel(golden))
    if not masks.there:
        return golden, computed
    kept = ~masks.of(flat, np.ravel(golden))
    error = computed.error
    if error is not None:
        error = np.ravel(np.broadcast_to(error, computed.array.shape))[kept]
    return np.ravel(golden)[kept], Value(flat[kept], error)
