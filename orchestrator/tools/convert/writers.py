"""Writes the results of a conversion atomically: npy, raw elements, text, dump containers."""

from __future__ import annotations

import io
from typing import Any, Iterator, List, Tuple

import numpy as np

from ...base.atomic_writing import atomic_writer, renamed_on_success, write_atomically
from ...base.errors import EnvironmentProblem
from ...dumps.dump_file import DumpFile
from ...dumps.write import TensorData, write_dump
from ...tensors.tensor import WINDOW_BYTES, Tensor
from .convert_tensor import Converted

_TEXT_ELEMENTS = 1 << 16


def write_npy(path: str, converted: Converted) -> str:
    """Write the numbers of a tensor as npy; return their element type's name."""
    numbers = converted.numbers()
    with atomic_writer(path) as stream:
        np.lib.format.write_array(
            stream, np.ascontiguousarray(numbers).reshape(numbers.shape), allow_pickle=False
        )
    return str(numbers.dtype.name)


def copy_npy(path: str, tensor: Tensor) -> None:
    """Write a tensor of a numpy type as npy in its stored shape, window by window."""
    header = io.BytesIO()
    fields = {
        "descr": np.lib.format.dtype_to_descr(
            np.dtype(np.bool_ if tensor.dtype.name == "bool" else tensor.dtype.storage)
        ),
        "fortran_order": False,
        "shape": tensor.shape,
    }
    np.lib.format.write_array_header_1_0(header, fields)
    with atomic_writer(path) as stream:
        stream.write(header.getvalue())
        for window in _windows(tensor):
            stream.write(window)


def copies_as_npy(tensor: Tensor) -> bool:
    """Return whether the stored bytes of a tensor are those of an npy; one without bytes may have
    dims that numpy refuses.
    """
    if not tensor.source.nbytes:
        return False
    # Not asked of numpy by name: where ml_dtypes is loaded, numpy knows bfloat16 too, and its
    # storage here is another type.
    return tensor.dtype.name == "bool" or (
        tensor.dtype.storage is not None
        and np.dtype(tensor.dtype.storage).name == tensor.dtype.name
    )


def write_bin(path: str, converted: Converted) -> str:
    """Write the stored bytes of a tensor; return its element type's name."""
    write_atomically(path, converted.raw().data)
    return converted.dtype.name


def copy_bin(path: str, tensor: Tensor) -> None:
    """Write the stored bytes of a tensor as they are, window by window."""
    with atomic_writer(path) as stream:
        for window in _windows(tensor):
            stream.write(window)


def _windows(tensor: Tensor) -> Iterator[Any]:
    for start in range(0, tensor.source.nbytes, WINDOW_BYTES):
        yield tensor.source.read(start, min(WINDOW_BYTES, tensor.source.nbytes - start)).data


def write_txt(path: str, converted: Converted) -> str:
    """Write a tensor as text, one element a line with as many digits as tell it apart from its
    neighbours; return the type's name.
    """
    numbers = converted.numbers()
    flat = numbers.reshape(-1)
    with atomic_writer(path) as stream:
        for start in range(0, flat.size, _TEXT_ELEMENTS):
            stream.write(
                "".join(
                    "%s\n" % (str(value.item()) if value.dtype.kind in "iub" else str(value))
                    for value in flat[start : start + _TEXT_ELEMENTS]
                ).encode("ascii")
            )
    return str(numbers.dtype.name)


def write_container(
    path: str, converted: Converted, layout: str, original_shape: Tuple[int, ...], op_name: str
) -> str:
    """Write a tensor as the one output of a dump file of version 2.0, read it back, compare every
    bit, and only then rename it into place.

    Raises
    ------
    EnvironmentProblem
        What was read back is not what was written.
    """
    raw = converted.raw()
    data = TensorData(raw.data, converted.dtype, layout, converted.shape, original_shape)
    with renamed_on_success(path) as aside:
        write_dump(aside, outputs=[data], op_name=op_name)
        tensor = DumpFile.open(aside).tensor("output", 0)
        same: List[bool] = [
            tensor.shape == converted.shape,
            tensor.dtype.code == converted.dtype.code,
            tensor.source.nbytes == raw.size,
        ]
        for start in range(0, raw.size, WINDOW_BYTES):
            if not all(same):
                break
            size = min(WINDOW_BYTES, raw.size - start)
            same.append(
                bool(np.array_equal(tensor.source.read(start, size), raw[start : start + size]))
            )
        if not all(same):
            raise EnvironmentProblem(
                "%s: what was read back is not what was written" % aside,
                hint="look at the disk and the kernel's log",
            )
    return converted.dtype.name
