"""The file of one output of a network: what the user says of it, and the tensor in it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..base.element_types import BY_GE_NAME, element_count
from ..base.errors import (
    FormatError,
    NotComparable,
    UsageError,
)
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import read_input
from ..dumps.file_source import FileSource
from ..dumps.npy import open_npy
from ..model.op_node import TensorDesc
from ..tensors.dtypes import DType, dtype_by_code, dtype_by_name, nbytes
from ..tensors.geometry import MOVED_AXES, moved_axes
from ..tensors.tensor import Tensor

FORM = "write NAME=FILE, or NAME=FILE:DTYPE:SHAPE such as 0=out_0.bin:float32:1,1000"


_MOST_TEXT_BYTES = 256 << 20


class OutputText(NamedTuple):
    """What ``NAME=FILE[:DTYPE[:SHAPE]]`` says; None for what it does not."""

    name: str
    file: str
    dtype: Optional[DType] = None
    shape: Optional[Tuple[int, ...]] = None


def parse_output(text: str) -> OutputText:
    """Return what such a text says; raises UsageError where it is another form."""
    name, sign, rest = text.partition("=")
    parts = rest.rsplit(":", 2)
    shape: Optional[Tuple[int, ...]] = None
    if (
        len(parts) == 3
        and _dtype(parts[1]) is not None
        and re.match(r"(?:[0-9]+(?:[,x][0-9]+)*)?\Z", parts[2])
    ):
        shape = tuple(int(size) for size in re.findall("[0-9]+", parts.pop()))
    dtype = _dtype(parts[-1]) if len(parts) > 1 else None
    file = ":".join(parts[:-1] if dtype is not None else parts)
    if not name.strip() or not sign or not file:
        raise UsageError("%r: expected which output it is, and its file" % text, hint=FORM)
    return OutputText(name.strip(), file, dtype, shape)


def _dtype(name: str) -> Optional[DType]:
    """Return the type of a name as numpy or the model's json (``DT_FLOAT16``) writes it; None where
    there is none such.
    """
    return dtype_by_name(name[3:] if name.upper().startswith("DT_") else name)


def read_output(
    path: str, text: OutputText, desc: Optional[TensorDesc], golden: Tensor
) -> Tuple[Tensor, str]:
    """Return the tensor in a file, and what was assumed of it.

    Raises
    ------
    NotComparable
        Its type and shape do not fit its size.
    GoldwatchError
        It cannot be read.
    """
    if path.endswith(".npy"):
        tensor = open_npy(path)
        tensor = tensor if text.shape is None else _shaped(tensor, text.shape)
        return in_order_of(golden, tensor) if desc is None else (tensor, "")
    element = BY_GE_NAME.get(desc.dtype) if desc is not None else None
    known = dtype_by_code(element.code) if element is not None else None
    static = desc is not None and bool(desc.dtype) and all(size >= 0 for size in desc.shape)
    shape = (
        text.shape
        if text.shape is not None
        else desc.shape
        if static and desc is not None
        else golden.shape
    )
    layout = (
        desc.layout if desc is not None and desc.layout and text.shape is None and static else "ND"
    )
    if path.endswith(".txt"):
        return _shaped(_numbers(path, text.dtype or known or golden.dtype), shape), ""
    size = os.stat(path).st_size
    dtype, note = text.dtype or known, ""
    if dtype is None:
        guesses = [golden.dtype, dtype_by_code(1), dtype_by_code(2)]
        dtype = next(
            (guess for guess in guesses if nbytes(guess, element_count(shape)) == size),
            golden.dtype,
        )
        note = "taken as %s by its size" % dtype.name
    if (
        nbytes(dtype, element_count(shape)) != size
        and text.shape is None
        and nbytes(dtype, golden.count) == size
    ):
        shape, layout, note = (
            golden.shape,
            "ND",
            "taken as %s, golden's shape: the model says %s" % (list(golden.shape), list(shape)),
        )
    if nbytes(dtype, element_count(shape)) != size:
        needed = nbytes(dtype, element_count(shape))
        raise NotComparable(
            "%s has %d bytes: expected %d, %s %s" % (path, size, needed, dtype.name, list(shape))
        )
    return Tensor(dtype, tuple(shape), layout, FileSource(path, 0, size)), note


def in_order_of(golden: Tensor, tensor: Tensor) -> Tuple[Tensor, str]:
    """Return an array with its axes in golden's order, and what is said of it where they were in
    another one: of another framework (TensorFlow, JAX) they are.
    """
    axes = moved_axes(tensor.shape, golden.shape)
    if axes is None or tensor.dtype.bits < 8:
        return tensor, ""
    return tensor.transposed(axes), MOVED_AXES % (list(tensor.shape), list(golden.shape))


def _numbers(path: str, dtype: DType) -> Tensor:
    """Return the numbers in a text file, with blanks, commas or ends of lines between them."""
    text = read_input(path, _MOST_TEXT_BYTES).decode("ascii", "replace").replace(",", " ")
    try:
        values = np.array(text.split(), dtype=np.float64)
    except ValueError as error:
        raise FormatError("not a text of numbers: %s" % error, path) from None
    plain = dtype.name in ("float16", "float64") or (dtype.kind in ("i", "u") and dtype.bits >= 8)
    return Tensor.from_array(values.astype(dtype.name if plain else "float32"))


def _shaped(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    if element_count(shape) != tensor.count:
        raise NotComparable(
            "it has %d elements: expected %d, %s"
            % (tensor.count, element_count(shape), list(shape))
        )
    return replace(tensor.in_c_order(), shape=tuple(shape))


@dataclass
class NamedOutput:
    """One output: the file that holds it, and what is known of it.

    Attributes
    ----------
    number
        Of the om's outputs; None where only its name is known.
    """

    text: OutputText
    number: Optional[int] = None
