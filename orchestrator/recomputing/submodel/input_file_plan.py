"""The input files of a cut: ``.npy`` in the original's type, and ``.bin`` as the device program
reads it.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, Optional, Set

import numpy as np

from ...base.fast_dataclasses import dataclass
from ...base.naming import free_name
from ...tensors.dtypes import Array
from .incoming_values import Border

FLOAT16, FLOAT32, NONE = "float16", "float32", "none"
BINS = (FLOAT16, FLOAT32, NONE)
FOLDER = "input_data"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 200


@dataclass(frozen=True)
class InputFile:
    """The files of one input, relative to the export's folder.

    Attributes
    ----------
    npy, bin
        Their paths; ``bin`` is None where none is wanted.
    bin_dtype
        The element type of ``bin``; None without.
    inf, zero
        How many finite values became infinite in ``bin``, and how many became zero.
    """

    npy: str
    bin: Optional[str]
    bin_dtype: Optional[str]
    inf: int = 0
    zero: int = 0


def input_files(borders: Iterable[Border], kind: str) -> Dict[str, InputFile]:
    """Return the files of each input that has values, by its name.

    Parameters
    ----------
    kind
        ``float16`` or ``float32``: what floats are in ``.bin`` files (integers and bools keep their
        type); ``none``: no such files.
    """
    files: Dict[str, InputFile] = {}
    taken: Set[str] = set()
    for border in borders:
        if border.array is None:
            continue
        base = "%s/%s" % (FOLDER, safe_name(border.entry.name, taken))
        dtype = _bin_dtype(border, border.array, kind)
        if dtype is None:
            files[border.entry.name] = InputFile(base + ".npy", None, None)
            continue
        narrow = bin_array(border.array, dtype)
        inf = (
            int(np.count_nonzero(np.isinf(narrow) & np.isfinite(border.array)))
            if narrow.dtype.kind == "f"
            else 0
        )
        zero = int(np.count_nonzero((narrow == 0) & (border.array != 0)))
        files[border.entry.name] = InputFile(base + ".npy", base + ".bin", dtype, inf, zero)
    return files


def bin_array(array: Array, dtype: str) -> Array:
    """Return an array as its ``.bin`` holds it, rounded to the nearest."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ascontiguousarray(array).astype(dtype)


def _bin_dtype(border: Border, array: Array, kind: str) -> Optional[str]:
    """Return the type of a ``.bin``; an input that the model has in float16 is read as such."""
    if kind == NONE:
        return None
    return kind if array.dtype.kind == "f" and border.dtype != FLOAT16 else str(array.dtype)


def safe_name(name: str, taken: Set[str]) -> str:
    """Return a file name for ``name``: all but letters, digits and ``_-.`` become ``_``; duplicates
    are numbered.
    """
    return free_name(_UNSAFE.sub("_", name).lstrip(".")[:_LONGEST] or "_", taken)
