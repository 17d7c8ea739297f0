"""What operators compute, and how errors of their inputs reach their outputs.

An operator of Ascend IR, ONNX, Caffe or TensorFlow is found by its dialect and type (:func:`find`),
and computed from arrays and attributes with numpy alone (:func:`compute`). A value carries the
error that a right device may have in it (:class:`Value`); the size of a rounding step of the
device's arithmetic is in :class:`Arithmetic`. An operator that is not here, or an attribute that is
not known, raises :class:`CannotCompute`; nothing is guessed.
"""

from __future__ import annotations

from .registry import (
    ASCEND,
    CAFFE,
    ONNX,
    TENSORFLOW,
    CannotCompute,
    Node,
    Operator,
    check,
    compute,
    find,
    operator,
    parts_of,
)
from .value_with_error import Arithmetic, Value

__all__ = [
    "ASCEND",
    "CAFFE",
    "ONNX",
    "TENSORFLOW",
    "Arithmetic",
    "CannotCompute",
    "Node",
    "Operator",
    "Value",
    "check",
    "compute",
    "find",
    "operator",
    "parts_of",
]
