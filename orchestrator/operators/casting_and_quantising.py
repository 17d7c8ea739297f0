"""Casts between element types, and quantising: numbers to whole numbers by a scale and back.

Sources: the ONNX operator list of each opset and its enumeration of element types; TensorFlow
1.15's op definitions, types.proto and fake_quant_ops_functor.h; the operator prototypes of Ascend
IR and GE's enumeration of data types, which is not that of dump files.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .comparing_and_rounding import (
    other_rounding,
    outside_steps,
    reach,
    stepped,
    wrong_where_reshaped,
)
from .elementwise import aligned
from .error_propagation import elementwise
from .registry import (
    ASCEND,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Inputs,
    Node,
    channel_axis,
    input_at,
    operator,
)
from .splittable_axes import broadcast, rows
from .value_with_error import Arithmetic, Value
from .variants import (
    Reading,
    Variant,
    attribute,
    changed_input,
    declare,
    each_axis,
    other_number,
    replaced,
)

Array = Any

_CODES: Mapping[str, Mapping[int, str]] = {
    ONNX: {
        1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
        9: "bool", 10: "float16", 11: "float64",
        12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
        19: "float8_e5m2", 20: "float8_e5m2fnuz", 24: "float8_e8m0fnu",
    },
    TENSORFLOW: {
        1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64",
        10: "bool", 14: "bfloat16", 17: "uint16",
        19: "float16", 22: "uint32", 23: "uint64",
    },
    ASCEND: {
        0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16",
        8: "uint32", 9: "int64", 10: "uint64",
        11: "float64", 12: "bool", 27: "bfloat16", 29: "int4",
    },
}  # fmt: skip
_NAMES: Mapping[str, str] = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "bf16": "bfloat16",
}
_ROUNDOFF: Mapping[str, float] = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 0.0,
}
_RANGES: Mapping[str, Tuple[int, int]] = {"int4": (-8, 7)}
_E8M0 = "float8_e8m0fnu"
_FLOAT8: Mapping[str, Tuple[int, int, float, bool]] = {
    "float8_e4m3fn": (3, -6, 448.0, False),
    "float8_e4m3fnuz": (3, -7, 240.0, False),
    "float8_e5m2": (2, -14, 57344.0, True),
    "float8_e5m2fnuz": (2, -15, 57344.0, False),
}
"""Bits of the fraction, the smallest exponent of normal numbers, the largest number, and whether
there is an infinity."""


def element_type(node: Node, value: Any) -> str:
    """Return numpy's name (or ``bfloat16``, ``int4``) of an element type that an attribute gives as
    a dialect's number or a name.

    Raises
    ------
    CannotCompute
        The type is not known here.
    """
    names = set(_CODES[ONNX].values()) | {"int4"}
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        name: Optional[str] = _CODES.get(node.dialect, {}).get(int(value))
    else:
        name = value if isinstance(value, str) else np.dtype(value).name
        name = name.lower()
        name = name[3:] if name.startswith("dt_") else name
        name = _NAMES.get(name, name)
    if name not in names:
        raise CannotCompute("the element type %s is not known here" % (value,))
    return str(name)


def rounded(array: Array, name: str) -> Array:
    """Return floats rounded to the nearest of a narrower float type, ties to even; as float32, of
    float64 as float64.
    """
    if name == "float64":
        return np.asarray(array, np.float64)
    if name != "bfloat16":
        return np.asarray(array).astype(name).astype(np.float32)
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.uint64)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(array), np.float32(np.nan), nearest)


def _eight_bits(node: Node, name: str) -> Callable[[Array], Array]:
    """Return a function that rounds floats to the nearest of a float of 8 bits, ties to even; what
    is larger than its largest becomes that or (``saturate`` 0) infinite, or NaN where it has no
    infinity.
    """
    saturates = bool(node.get("saturate", 1))
    if name == _E8M0:
        return lambda array: _power_of_two(array, str(node.get("round_mode", "up")), saturates)
    bits, least, largest, has_infinity = _FLOAT8[name]

    def function(array: Array) -> Array:
        wide = np.asarray(array, np.float64)
        finite = np.where(np.isfinite(wide), wide, 0.0)
        step = np.ldexp(1.0, np.maximum(np.frexp(finite)[1] - 1, least) - bits)
        made = np.where(np.isfinite(wide), np.rint(finite / step) * step, wide)
        beyond = largest if saturates else np.inf if has_infinity else np.nan
        return np.where(np.abs(made) > largest, np.copysign(beyond, made), made).astype(np.float32)

    return function


def _power_of_two(array: Array, rule: str, saturates: bool) -> Array:
    """Return the power of two that float8e8m0 makes of a number's magnitude: the next one, the one
    before, or the nearest (``up``, ``down``, ``nearest``); NaN of what is not finite.
    """
    if rule not in ("up", "down", "nearest"):
        raise CannotCompute("its round_mode %s is not known" % rule)
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.int64) & 0x7FFFFFFF
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    half = 1 << 22
    larger = {
        "up": fraction > 0,
        "down": np.zeros(bits.shape, bool),
        "nearest": (fraction > half) | ((fraction == half) & (exponent > 0)),
    }[rule]
    made = np.where(exponent == 255, 255, exponent + larger)
    if saturates:
        made = np.where(exponent == 254, 254, made)
    return np.where(made == 255, np.nan, np.ldexp(1.0, made - 127)).astype(np.float32)


def limits_of(name: str) -> Tuple[int, int]:
    """Return the smallest and the largest whole number of a type."""
    if name in _RANGES:
        return _RANGES[name]
    info = np.iinfo(name)
    return int(info.min), int(info.max)


def _to_whole(name: str, rounding: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function that makes whole numbers of floats, bounded by what the type can hold; NaN
    becomes 0.
    """
    low, high = limits_of(name)
    # The largest 64-bit numbers are no float64: the next one below is.
    most = (
        np.nextafter(np.float64(2.0**63 if high > 2**62 and low < 0 else 2.0**64), 0.0)
        if high > 2**53
        else np.float64(high)
    )

    def function(array: Array) -> Array:
        return np.clip(
            np.nan_to_num(rounding(array), nan=0.0, posinf=np.inf, neginf=-np.inf), low, most
        ).astype("int8" if name == "int4" else name)

    return function


def _target_type(node: Node) -> str:
    return element_type(
        node, node.get({ONNX: "to", TENSORFLOW: "DstT", ASCEND: "dst_type"}[node.dialect])
    )


def _cast_function(node: Node, source: Array) -> Callable[[Array], Array]:
    name = _target_type(node)
    if node.dialect == TENSORFLOW and node.get("Truncate", False):
        raise CannotCompute("how it cuts fractions off is not known")
    if name == "bool":
        return lambda array: array != 0
    if name in _ROUNDOFF:
        return lambda array: rounded(array, name)
    if name in _FLOAT8 or name == _E8M0:
        return _eight_bits(node, name)
    if source.dtype.kind == "f":
        return _to_whole(name, np.trunc)
    if name == "int4":
        raise CannotCompute("how it makes int4 of whole numbers is not known")
    return lambda array: np.asarray(array).astype(name)


def _check_cast(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x = input_at(inputs, 0)
    function = _cast_function(node, x.array)
    name = _target_type(node)

    def wrong(actual: Array) -> Array:
        if name == "bool":
            differs = (actual != 0) != function(x.array)
            return differs if x.error is None else differs & ~(np.abs(x.array) <= reach(x))
        differs = outside_steps(function, x, actual)
        if name not in (*_ROUNDOFF, *_FLOAT8, _E8M0) and x.array.dtype.kind != "b":
            low, high = limits_of(name)
            # What a number becomes that the type cannot hold is defined nowhere.
            cut = np.trunc(x.array) if x.is_float else x.array
            differs &= np.isfinite(cut) & (cut >= low) & (cut <= high)
        return differs

    return [wrong_where_reshaped(outputs[0], wrong, x.array.shape)]


@operator(
    onnx=("Cast",),
    tensorflow=("Cast",),
    ascend=("Cast",),
    decides=True,
    parts=broadcast,
    check=_check_cast,
)
def cast(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Make another type: floats are rounded to the nearest, whole numbers made by cutting the
    fraction off, bool by comparing with 0.

    What does not fit into a type of whole numbers becomes its nearest number if it was a float, and
    wraps around otherwise.
    """
    x = input_at(inputs, 0)
    function, name = _cast_function(node, x.array), _target_type(node)
    if name in _ROUNDOFF:
        result = Value(function(x.array), x.error)
        return [result.with_step(_ROUNDOFF[name]) if x.error is not None and x.is_float else result]
    return [stepped(function, x)]


# By a scale to whole numbers and back


def _broadcast_along(value: Value, x: Value, node: Node) -> Value:
    """Return a scale or zero point with its axes where they are to be broadcast: one number, one
    for each place along an axis, or one for each block of places.
    """
    axis, block = int(node.get("axis", 1)), int(node.get("block_size", 0))
    if block:
        axis %= x.array.ndim
        if value.array.ndim != x.array.ndim:
            raise CannotCompute("scales of the shape %s are not known" % (value.array.shape,))
        blocks = [
            None
            if array is None
            else np.repeat(np.broadcast_to(array, value.array.shape), block, axis).take(
                range(x.array.shape[axis]), axis
            )
            for array in (value.array, value.error)
        ]
        return Value(*blocks)
    if value.array.size == 1:
        return Value(
            value.array.reshape(()), None if value.error is None else np.reshape(value.error, ())
        )
    if value.array.ndim != 1:
        raise CannotCompute("scales of the shape %s are not known" % (value.array.shape,))
    return aligned(value, axis, x.array.ndim)


class QuantisedSteps(NamedTuple):
    """Values in units of the scale, how far roundings inside may move them, and what makes whole
    numbers of them.
    """

    scaled: Value
    room: Array
    function: Callable[[Array], Array]

    @classmethod
    def of(cls, scaled: Value, roundings: float, name: str, zero: Array) -> QuantisedSteps:
        """Return the steps of a type of whole numbers, of scaled values with so large a relative
        error.
        """
        function = _to_whole(name, lambda array: np.rint(array) + zero)
        return cls(scaled, np.abs(scaled.array) * roundings, function)


def _linear(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> QuantisedSteps:
    x = input_at(inputs, 0)
    scale = _broadcast_along(input_at(inputs, 1), x, node)
    zero, name = 0, "uint8"
    if len(inputs) > 2 and inputs[2] is not None:
        name = input_at(inputs, 2).array.dtype.name
        zero = _broadcast_along(input_at(inputs, 2), x, node).array.astype(np.int64)
    if node.get("output_dtype", 0):
        name = element_type(node, node.get("output_dtype"))
    scaled = elementwise(lambda a, b: np.asarray(a, np.float64) / b, x, scale)
    if name in _FLOAT8 and not np.any(zero):
        room = np.abs(scaled.array) * arithmetic.intermediate
        return QuantisedSteps(scaled, room, _eight_bits(node, name))
    if name in (*_FLOAT8, *_ROUNDOFF, _E8M0) or name == "bool":
        raise CannotCompute("it quantises to floats, which is not known here")
    return QuantisedSteps.of(scaled, arithmetic.intermediate, name, zero)


def outside_quantised(
    steps: QuantisedSteps, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    """Return where the first output is no whole number that rounding may make of a value."""
    return [
        wrong_where_reshaped(
            outputs[0],
            lambda actual: outside_steps(steps.function, steps.scaled, actual, steps.room),
            steps.scaled.array.shape,
        )
    ]


def _check_linear(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    steps = _linear(node, inputs, arithmetic)
    return outside_quantised(steps, outputs)


@operator(
    onnx=("QuantizeLinear", "com.microsoft.QuantizeLinear"), decides=True, check=_check_linear
)
def quantize_linear(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """round(x / scale) + zero point, within the type of the zero point; halves go to even
    numbers. To floats of 8 bits: x / scale, rounded as a Cast does.
    """
    steps = _linear(node, inputs, arithmetic)
    return [stepped(steps.function, steps.scaled)]


@operator(onnx=("DequantizeLinear", "com.microsoft.DequantizeLinear"))
def dequantize_linear(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """(x - zero point) · scale."""
    x = input_at(inputs, 0)
    scale = _broadcast_along(input_at(inputs, 1), x, node)
    zero = (
        _broadcast_along(input_at(inputs, 2), x, node).array.astype(np.int64)
        if len(inputs) > 2 and inputs[2] is not None
        else 0
    )
    wide = Value(x.array.astype(np.float64), x.error)
    return [elementwise(lambda a, b: (a - zero) * b, wide, scale)]


def _dynamic(inputs: Inputs) -> Tuple[Value, float]:
    """Return the values and their scale, which 0 and the largest and smallest of them give."""
    x = input_at(inputs, 0)
    low, high = min(0.0, float(np.min(x.array))), max(0.0, float(np.max(x.array)))
    if low == high:
        raise CannotCompute("runtimes give zeros other scales")
    return x, (high - low) / 255.0


def _check_dynamic(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, scale = _dynamic(inputs)
    if x.error is not None:
        raise CannotCompute("how errors of its input reach the scale is not known")
    actual = list(outputs) + [None] * (3 - len(outputs))
    zero = Value(np.float64(-min(0.0, float(np.min(x.array))) / scale))
    # A few roundings: of the range, the scale and the quotient.
    room = 3.0 * arithmetic.intermediate
    used = (
        float(np.reshape(actual[2], ()))
        if actual[2] is not None and np.size(actual[2]) == 1
        else float(np.rint(zero.array))
    )
    scaled = Value(np.asarray(x.array, np.float64) / scale)
    function = _to_whole("uint8", lambda array: np.rint(array) + used)
    return [
        wrong_where_reshaped(
            actual[0],
            lambda array: outside_steps(function, scaled, array, np.abs(scaled.array) * room),
            x.array.shape,
        ),
        wrong_where_reshaped(
            actual[1], lambda array: ~(np.abs(array - scale) <= scale * (room + 2.0**-23)), ()
        ),
        wrong_where_reshaped(
            actual[2],
            lambda array: outside_steps(
                _to_whole("uint8", np.rint), zero, array, zero.array * room
            ),
            (),
        ),
    ][: len(outputs)]


@operator(onnx=("DynamicQuantizeLinear",), decides=True, check=_check_dynamic)
def dynamic_quantize_linear(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Quantise to uint8 by the range of the values and 0; the scale and the zero point are outputs
    too.
    """
    x, scale = _dynamic(inputs)
    zero = np.clip(np.rint(-min(0.0, float(np.min(x.array))) / scale), 0, 255)
    function = _to_whole("uint8", lambda array: np.rint(array) + zero)
    scaled = Value(
        np.asarray(x.array, np.float64) / scale, None if x.error is None else x.error / scale
    )
    return [stepped(function, scaled), Value(np.asarray(scale)), Value(np.asarray(zero, np.uint8))]


_FAKE = ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")


def _fake(node: Node, inputs: Inputs) -> Tuple[Value, Callable[[Array], Array], Array]:
    """Return the values, the step function and the largest magnitude of its results; the range is
    moved so that 0 is a step.
    """
    x = input_at(inputs, 0)
    if node.type == "FakeQuantWithMinMaxArgs":
        low, high = (
            np.asarray(node.get(name, default), np.float64)
            for name, default in (("min", -6.0), ("max", 6.0))
        )
    else:
        low, high = (np.asarray(input_at(inputs, number).array, np.float64) for number in (1, 2))
    first, last = (
        float(bool(node.get("narrow_range", False))),
        2.0 ** int(node.get("num_bits", 8)) - 1.0,
    )
    step = (high - low) / (last - first)
    exact = first - low / step
    zero = np.where(exact < first, first, np.where(exact > last, last, np.floor(exact + 0.5)))
    bottom, top = (first - zero) * step, (last - zero) * step

    def function(array: Array) -> Array:
        return np.floor((np.clip(array, bottom, top) - bottom) / step + 0.5) * step + bottom

    return x, function, np.maximum(np.abs(bottom), np.abs(top))


def _check_fake(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    x, function, size = _fake(node, inputs)
    slack = 4.0 * size * max(arithmetic.intermediate, 2.0**-24)
    return [
        wrong_where_reshaped(
            outputs[0],
            lambda actual: outside_steps(function, x, actual, slack, slack),
            x.array.shape,
        )
    ]


@operator(tensorflow=_FAKE, ascend=_FAKE, decides=True, check=_check_fake)
def fake_quant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Round to steps between a smallest and a largest value, which stay floats."""
    x, function, _ = _fake(node, inputs)
    return [stepped(function, x)]


_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round": np.rint, "floor": np.floor, "ceil": np.ceil, "ceiling": np.ceil, "trunc": np.trunc,
    "truncate": np.trunc,
}  # fmt: skip


def _ascend_steps(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> QuantisedSteps:
    scale, offset = float(node.get("scale")), float(node.get("offset"))
    scale = scale * scale if node.get("sqrt_mode", False) else scale
    rounding = _ROUNDINGS.get(str(node.get("round_mode", "Round")).lower())
    if rounding is None:
        raise CannotCompute("its round_mode %s is not known" % node.get("round_mode"))
    name = element_type(node, node.get("dst_type", 2))
    if name not in ("int8", "int4"):
        raise CannotCompute("how it makes %s is not known" % name)
    scaled = elementwise(lambda x: np.asarray(x, np.float64) * scale + offset, input_at(inputs, 0))
    times = np.abs(scaled.array - offset) * (2.0 if node.get("sqrt_mode", False) else 1.0)
    return QuantisedSteps(
        scaled,
        arithmetic.intermediate * (times + (np.abs(scaled.array) if offset else 0.0)),
        _to_whole(name, rounding),
    )


def _check_ascend_quant(
    node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]
) -> List[Optional[Array]]:
    steps = _ascend_steps(node, inputs, arithmetic)
    return outside_quantised(steps, outputs)


@operator(ascend=("AscendQuant",), decides=True, parts=broadcast, check=_check_ascend_quant)
def ascend_quant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """round(x · scale + offset) within int8 or int4; with ``sqrt_mode`` the scale is its attribute
    squared.
    """
    steps = _ascend_steps(node, inputs, arithmetic)
    return [stepped(steps.function, steps.scaled)]


@operator(ascend=("AscendDequant",), parts=rows)
def ascend_dequant(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """x · scale, one for all or for each channel, with ``sqrt_mode`` squared; ``relu_flag`` lets
    only positive values pass.

    A scale in uint64 has a float32 in its lower half, and further parameters above.
    """
    x, scales = input_at(inputs, 0), input_at(inputs, 1).array
    if scales.dtype == np.uint64:
        if np.any(scales >> np.uint64(32)):
            raise CannotCompute(
                "its scale holds a shift or an offset, of which it is not known how they are used"
            )
        scales = (scales & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
    if scales.dtype.kind != "f":
        raise CannotCompute("its scale is of the type %s" % scales.dtype.name)
    scale = scales.ravel().astype(np.float64)
    axis = channel_axis(node, x.array.ndim)
    if scale.size > 1:
        channels = x.array.shape[axis]
        # Channels in blocks of 16 are filled up.
        if scale.size not in (channels, -(-channels // 16) * 16):
            raise CannotCompute("it has %d scales for %d channels" % (scale.size, channels))
        scale = scale[:channels].reshape((channels,) + (1,) * (x.array.ndim - 1 - axis))
    twice = bool(node.get("sqrt_mode", False))

    def function(array: Array) -> Array:
        result = np.asarray(array, np.float64) * (scale * scale if twice else scale)
        return np.maximum(result, 0.0) if node.get("relu_flag", False) else result

    return [elementwise(function, x, steps=arithmetic.intermediate if twice else 0.0)]


def _is_eight_bits(node: Node) -> bool:
    return node.dialect == ONNX and int(node.get("to")) in (17, 18, 19, 20, 24)


declare(
    "Cast",
    attribute("saturate", (0, 1), lambda node, inputs: 1 if _is_eight_bits(node) else None),
    attribute(
        "round_mode",
        ("up", "down", "nearest"),
        lambda node, inputs: "up" if node.attributes.get("to") == 24 else None,
    ),
    other_rounding("truncated (towards zero)"),
)


def _per_tensor(node: Node, inputs: Inputs) -> Iterator[Variant]:
    for words, zero in (("its first", lambda array: array[:1]), ("missing", np.zeros_like)):

        def taken(
            given: List[Optional[Value]], zero: Callable[[Array], Array] = zero
        ) -> List[Optional[Value]]:
            changes: Sequence[Callable[[Array], Array]] = (lambda array: array[:1], zero)
            ones = [
                None if one is None else Value(np.broadcast_to(change(one.array), one.array.shape))
                for one, change in zip(given[1:], changes)
            ]
            return [given[0], *ones]

        if len(inputs) > 2 and all(one is not None and one.array.ndim == 1 for one in inputs[1:3]):
            words = "per tensor (the first scale for all, the zero point %s)" % words
            yield Variant("the scale and the zero point", words, "per channel", node, taken)


_ROUNDED: Sequence[Tuple[str, Callable[[Array], Array]]] = (
    ("truncated (towards zero)", np.trunc),
    ("floor", np.floor),
    ("halves away from zero", lambda array: np.copysign(np.floor(np.abs(array) + 0.5), array)),
)
_CUT: Sequence[Tuple[str, int, int]] = (("0 to 127", 0, 127), ("-127 to 127", -127, 127))


def _in_float32(quotients: Array) -> Array:
    """Return quotients as float32 divides: next to a whole number it is that one."""
    with np.errstate(over="ignore"):
        return np.float64(np.float32(quotients))


def _quantised_otherwise(node: Node, inputs: Inputs) -> Iterator[Variant]:
    def rounded(function: Callable[[Array], Array]) -> Callable[[Inputs, Arithmetic], List[Value]]:
        def computed(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
            steps = _linear(node, given, arithmetic)
            return [Value(steps.function(function(_in_float32(steps.scaled.array))))]

        return computed

    def cut(least: int, most: int) -> Callable[[Inputs, Arithmetic], List[Value]]:
        def computed(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
            array = quantize_linear(node, given, arithmetic)[0].array
            return [Value(np.clip(array.astype(np.int64), least, most).astype(array.dtype))]

        return computed

    def wrapped(given: Inputs, arithmetic: Arithmetic) -> List[Value]:
        steps = _linear(node, given, arithmetic)
        zero = steps.function(np.zeros_like(steps.scaled.array))
        exact = np.nan_to_num(steps.scaled.array)
        whole = np.rint(exact) + zero
        # What is inside of the range is decided as the model does.
        inside = steps.function(steps.scaled.array) == whole
        whole = np.where(inside, whole, np.rint(_in_float32(exact)) + zero)
        # Beyond 2**53 a float holds no low bits.
        return [Value(np.clip(whole, -(2.0**53), 2.0**53).astype(np.int64).astype(zero.dtype))]

    scale = inputs[1] if len(inputs) > 1 else None
    narrow = None if scale is None else scale.array.astype(np.float16).astype(np.float32)
    for words, function in _ROUNDED:
        yield Variant("rounding", words, "half to even", node, instead=rounded(function))
        if narrow is not None and np.any(narrow != scale.array):  # type: ignore[union-attr]
            words += ", with the scale as float16 holds it"
            of_float16 = replaced(1, lambda array: array.astype(np.float16).astype(np.float32))
            instead = rounded(function)
            yield Variant("rounding", words, "half to even", node, of_float16, None, instead)
    yield Variant("its range", "what is beyond it wraps", "it saturates", node, instead=wrapped)
    for words, least, most in _CUT:
        yield Variant("its range", words, "that of its type", node, instead=cut(least, most))


def _as_signed(array: Array) -> Optional[Array]:
    return array.view(np.int8) if array.dtype == np.uint8 else None


def _as_unsigned(array: Array) -> Optional[Array]:
    return array.view(np.uint8) if array.dtype == np.int8 else None


declare(
    "Cast DequantizeLinear com.microsoft.DequantizeLinear ConvInteger MatMulInteger",
    changed_input(0, "its input", [("read as int8", _as_signed), ("read as uint8", _as_unsigned)]),
)
declare(
    "QuantizeLinear com.microsoft.QuantizeLinear",
    Reading(
        "rounding, range",
        ", ".join([words for words, _ in _ROUNDED] + [words for words, _, _ in _CUT]),
        _quantised_otherwise,
    ),
)
declare(
    "QuantizeLinear DequantizeLinear com.microsoft.QuantizeLinear com.microsoft.DequantizeLinear",
    Reading("the scale and the zero point", "per tensor", _per_tensor),
    changed_input(
        1,
        "the scale",
        [
            (
                "per tensor (its first value for all)",
                lambda array: np.full_like(array, array.reshape(-1)[0]),
            ),
            ("its reciprocal", np.reciprocal),
        ],
    ),
    changed_input(
        2,
        "the zero point",
        [
            ("missing", np.zeros_like),
            ("one more", lambda array: array + np.ones_like(array)),
            ("one less", lambda array: array - np.ones_like(array)),
            ("128 more or less", lambda array: array + np.asarray(128).astype(array.dtype)),
        ],
    ),
    attribute("axis", lambda node, inputs: each_axis(node, inputs)[::-1], 1),
    other_number(1, "the scale", ()),
    other_number(2, "the zero point", ()),
)
