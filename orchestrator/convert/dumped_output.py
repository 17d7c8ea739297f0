"""The first output of a device's dump as an array in the original model's layout."""

from __future__ import annotations

from typing import Optional, Tuple

from ..dumps.dump_file import DumpFile
from ..tensors.dtypes import Array
from ..tensors.user_conversions import UserConversions
from .convert_tensor import convert_tensor
from .options import ORIGINAL, ConvertOptions


def dumped_output(path: str, shape: Optional[Tuple[int, ...]] = None) -> Array:
    """Return the first output of a dump file.

    Parameters
    ----------
    shape
        In the original model; None: the shape in the file.

    Raises
    ------
    MissingPath, FormatError, NotComparable
        There is no such file or output, it is damaged, or it cannot be brought to that shape.
    """
    tensor = DumpFile.open(path).tensor("output", 0)
    return convert_tensor(
        tensor, ConvertOptions(layout=ORIGINAL, shape=shape), UserConversions()
    ).numbers()
