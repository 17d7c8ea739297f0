"""Casts, and numbers to whole numbers by a scale and back.

Sources: the ONNX operator list of each opset and its enumeration of element types; TensorFlow 1.15's op definitions, types.proto and
fake_quant_ops_functor.h; the operator prototypes of Ascend IR and GE's enumeration of data types, which is not that of dump files.
"""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .decisions import outside_steps, reach, stepped
from .registry import ASCEND, ONNX, TENSORFLOW, CannotCompute, Inputs, Node, given, operator
from .value import Arithmetic, Value

Array = Any

_CODES: Mapping[str, Mapping[int, str]] = {
    ONNX: {
        1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64",
        12: "uint32", 13: "uint64", 16: "bfloat16",
    },
    TENSORFLOW: {
        1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16",
        19: "float16", 22: "uint32", 23: "uint64",
    },
    ASCEND: {
        0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64", 10: "uint64",
        11: "float64", 12: "bool", 27: "bfloat16", 29: "int4",
    },
}  # fmt: skip
_NAMES: Mapping[str, str] = {"float": "float32", "half": "float16", "double": "float64", "bf16": "bfloat16"}
_ROUNDOFF: Mapping[str, float] = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 0.0}
_RANGES: Mapping[str, Tuple[int, int]] = {"int4": (-8, 7)}


def element_type(node: Node, value: Any) -> str:
    """Return numpy's name (or ``bfloat16``, ``int4``) of an element type that an attribute gives as a dialect's number or a name.

    Raises
    ------
    CannotCompute
        The type is not known here.
    """
    known = set(_CODES[ONNX].values()) | {"int4"}
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        name: Optional[str] = _CODES.get(node.dialect, {}).get(int(value))
    else:
        name = value if isinstance(value, str) else np.dtype(value).name
        name = name.lower()
        name = name[3:] if name.startswith("dt_") else name
        name = _NAMES.get(name, name)
    if name not in known:
        raise CannotCompute("the element type %s is not known here" % (value,))
    return str(name)


def rounded(array: Array, name: str) -> Array:
    """Return floats rounded to the nearest of a narrower float type, ties to even; as float32, of float64 as float64."""
    if name == "float64":
        return np.asarray(array, np.float64)
    if name != "bfloat16":
        return np.asarray(array).astype(name).astype(np.float32)
    bits = np.asarray(array, np.float32).view(np.uint32).astype(np.uint64)
    kept = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(array), np.float32(np.nan), kept)


def limits_of(name: str) -> Tuple[int, int]:
    """Return the smallest and the largest whole number of a type."""
    if name in _RANGES:
        return _RANGES[name]
    info = np.iinfo(name)
    return int(info.min), int(info.max)


def _to_whole(name: str, way: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function that makes whole numbers of floats, bounded by what the type can hold; NaN becomes 0."""
    low, high = limits_of(name)
    # The largest 64-bit numbers are no float64: the next one below is.
    most = np.nextafter(np.float64(2.0**63 if high > 2**62 and low < 0 else 2.0**64), 0.0) if high > 2**53 else np.float64(high)

    def function(array: Array) -> Array:
        return np.clip(np.nan_to_num(way(array), nan=0.0, posinf=np.inf, neginf=-np.inf), low, most).astype(
            "int8" if name == "int4" else name
        )

    return function


def _target_type(node: Node) -> str:
    return element_type(node, node.get({ONNX: "to", TENSORFLOW: "DstT", ASCEND: "dst_type"}[node.dialect]))


def _cast_function(node: Node, source: Array) -> Callable[[Array], Array]:
    name = _target_type(node)
    if node.dialect == TENSORFLOW and node.get("Truncate", False):
        raise CannotCompute("how it cuts fractions off is not known")
    if name == "bool":
        return lambda array: array != 0
    if name in _ROUNDOFF:
        return lambda array: rounded(array, name)
    if source.dtype.kind == "f":
        return _to_whole(name, np.trunc)
    if name == "int4":
        raise CannotCompute("how it makes int4 of whole numbers is not known")
    return lambda array: np.asarray(array).astype(name)


def _check_cast(node: Node, inputs: Inputs, arithmetic: Arithmetic, outputs: Sequence[Optional[Array]]) -> List[Optional[Array]]:
    x = given(inputs, 0)
    function = _cast_function(node, x.array)
    if outputs[0] is None:
        return [None]
    made, name = np.asarray(outputs[0]), _target_type(node)
    if name == "bool":
        wrong = (made != 0) != function(x.array)
        return [wrong if x.error is None else wrong & ~(np.abs(x.array) <= reach(x))]
    wrong = outside_steps(function, x, made)
    if name not in _ROUNDOFF and x.array.dtype.kind != "b":
        low, high = limits_of(name)
        # What a number becomes that the type cannot hold is defined nowhere.
        whole = np.trunc(x.array) if x.is_float else x.array
        wrong &= np.isfinite(whole) & (whole >= low) & (whole <= high)
    return [wrong]


@operator(onnx=("Cast",), tensorflow=("Cast",), ascend=("Cast",), decides=True, per_row=True, check=_check_cast)
def cast(node: Node, inputs: Inputs, arithmetic: Arithmetic) -> List[Value]:
    """Make another type: floats are rounded to the nearest, whole numbers made by cutting the fraction off, bool by comparing with 0.

    What does not fit into a type of whole numbers becomes its nearest number if it was a float, and wraps around otherwise.
    """
    x = given(inputs, 0)
    function, name = _cast_function(node, x.array), _target_type(node)
    if name in _ROUNDOFF:
        made = Value(function(x.array), x.error)
        return [made.with_step(_ROUNDOFF[name]) if x.error is not None and x.is_float else made]
    return [stepped(function, x)]
