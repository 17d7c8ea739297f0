"""The child's side: runs one piece after the other, rounds the outputs to the device's type and
saves them; failures are reported.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping

import numpy as np

from ...base.atomic_writing import create_new
from ...base.errors import EnvironmentProblem, GoldwatchError
from ...base.safe_reading import open_input
from ..child.serve import Parent

Array = Any
RunPiece = Callable[[Dict[str, Any], Dict[str, Array]], List[Array]]


def serve_pieces(job: Mapping[str, Any], parent: Parent, run: RunPiece, backend: str) -> int:
    """Run every piece of a job.

    Parameters
    ----------
    run
        Returns the requested outputs of a piece (its document) from its inputs by name, in the
        piece's order.
    backend
        The framework and its version, for the result.
    """
    pieces = job["pieces"]
    for done, piece in enumerate(pieces, 1):
        parent.send(began=piece["number"])
        try:
            arrays = {name: _read(*entry) for name, entry in piece["inputs"].items()}
            for (_, _, path, dtype), array in zip(piece["outputs"], run(piece, arrays)):
                _save(path, rounded(array, dtype))
        except EnvironmentProblem:
            raise  # it would be the same for every other piece
        except GoldwatchError as error:
            parent.send(**{"failed %d" % piece["number"]: error.message})
        except OSError:
            raise
        except (
            Exception
        ) as error:  # whatever the framework raises for one piece, the others still run
            text = "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:400])
            parent.send(**{"failed %d" % piece["number"]: text})
        parent.progress(done, len(pieces))
    parent.send(result={"backend": backend})
    return 0


def _read(path: str, dtype: str, shape: List[int]) -> Array:
    with open_input(path) as stream:
        return np.load(stream, allow_pickle=False).astype(dtype).reshape(shape)


def _save(path: str, array: Array) -> None:
    with os.fdopen(create_new(path), "wb") as stream:
        np.save(stream, array)


def rounded(array: Array, dtype: str) -> Array:
    """Return numbers as a device stores them.

    Parameters
    ----------
    array
        Any floats; others are returned as they are.
    dtype
        ``float16`` and ``bfloat16`` round to the nearest, ties to even; ``bfloat16`` stays a
        float32 array of such values. Others round nothing.
    """
    if array.dtype.kind != "f":
        return array
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return array.astype(np.float16)
    if dtype != "bfloat16":
        return array.astype(np.float32) if array.dtype == np.float64 else array
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    up = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    upper_half = np.where(np.isfinite(array), up, bits) & np.uint32(0xFFFF0000)
    values = upper_half.astype(np.uint32).view(np.float32).reshape(array.shape)
    return np.where(np.isnan(array), np.float32(np.nan), values)
