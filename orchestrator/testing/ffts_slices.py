"""One op's dump as FFTS+ writes it: a file for each thread with its slice of every tensor, and the
cut told in the header.

Source of the cut's form: what the vendor's reader takes from the header's first attribute.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from ..dumps.write import TensorData
from ..errors import UsageError
from .device_dump import DeviceDump

_ATTRIBUTE = "_ffts_slice_info"


def sliced(dump: DeviceDump, names: Sequence[str]) -> List[DeviceDump]:
    """Return a dump as the files of its threads, ``len(names)`` of them; each tensor is cut along
    the first axis that is long enough.

    A tensor without such an axis is whole in every file.

    Raises
    ------
    UsageError
        The dump is not made of arrays.
    """
    threads = len(names)
    tensors = [_tensors(dump.inputs), _tensors(dump.outputs)]
    cuts = [[_cut(tensor, threads) for tensor in side] for side in tensors]
    attribute = (_ATTRIBUTE, json.dumps(_slice_document(cuts, threads), separators=(",", ":")))
    files = []
    for thread, name in enumerate(names):
        parts = [
            [_part(tensor, cut[thread]) for tensor, cut in zip(side, of)]
            for side, of in zip(tensors, cuts)
        ]
        files.append(
            replace(dump, name=name, inputs=parts[0], outputs=parts[1], attrs=(attribute,))
        )
    return files


Range = Tuple[int, int]


def _tensors(given: Sequence[Any]) -> List[TensorData]:
    tensors = [entry if isinstance(entry, TensorData) else TensorData(entry) for entry in given]
    if any(not isinstance(tensor.data, np.ndarray) for tensor in tensors):
        raise UsageError("only arrays can be cut into slices")
    return tensors


def _cut(tensor: TensorData, threads: int) -> List[List[Range]]:
    """Return, for each thread, the range along each axis."""
    shape = tensor.data.shape
    axis = next((number for number, size in enumerate(shape) if size >= threads), None)
    whole = [(0, int(size)) for size in shape]
    cuts = []
    for thread in range(threads):
        ranges = list(whole)
        if axis is not None:
            ranges[axis] = (shape[axis] * thread // threads, shape[axis] * (thread + 1) // threads)
        cuts.append(ranges)
    return cuts


def _part(tensor: TensorData, ranges: List[Range]) -> TensorData:
    data = np.ascontiguousarray(tensor.data[tuple(slice(*span) for span in ranges)]).reshape(
        [high - low for low, high in ranges]
    )
    return replace(tensor, data=data)


def _slice_document(cuts: List[List[List[List[Range]]]], threads: int) -> Dict[str, Any]:
    def ranges(side: List[List[List[Range]]]) -> List[List[List[Dict[str, int]]]]:
        return [
            [[{"lower": low, "higher": high} for low, high in cut[thread]] for cut in side]
            for thread in range(threads)
        ]

    counts = [
        [len({cut[thread][axis] for thread in range(threads)}) for axis in range(len(cut[0]))]
        for cut in cuts[1]
    ]
    return {
        "slice_instance_num": threads,
        "threadMode": True,
        "outputCutList": counts,
        "input_tensor_slice": ranges(cuts[0]),
        "output_tensor_slice": ranges(cuts[1]),
    }
