"""The values of FX nodes as files, in the folders and under the names of TorchAir's own FX dump;
PyTorch is not imported here.

Source of the names: TorchAir's ``fx_dumper.py`` of the releases since PyTorch adapter 7.1,
``{node}-{target}.INPUT.{i}[.{j}].{time}.npy`` and ``….OUTPUT.{i}.{time}.npy`` in
``worldsize{N}_global_rank{R}/graph_{k}/{token}/``.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from ...base.atomic_writing import remove_quietly
from ...base.manifest import write_manifest
from ...base.naming import fits, fx_file_name, parse_fx_name, sanitise_golden
from ..file_headers import npy_header
from ..nonfinite import NOT_FINITE, count_not_finite, not_finite_of
from ..write_and_hash import HashingWriter

NOTES = (
    "nodes and decompositions are those of PyTorch's CPU: where torch_npu dispatches an op "
    "otherwise, its FX graph has other nodes",
    "scaled_dot_product_attention is taken apart into products and a softmax: the kernel that "
    "the CPU has for it exists on no NPU",
    "random numbers (dropout, randn) are the CPU's: they are no device's",
    "torch_npu and torchair are stand-ins: ops of the NPU's own cannot be run",
)
"""What golden data of the CPU cannot have in common with TorchAir's own FX dump, for the
manifest.
"""


class Recorder:
    """All graphs of one script.

    Parameters
    ----------
    out
        The golden folder.
    source
        SHA-256 sums of what the values come from, by role.
    version
        PyTorch's.
    tokens
        Which calls of each graph are kept, counted from 0; None: all.
    rank
        (world size, number) of this process.
    """

    def __init__(
        self,
        out: str,
        source: Dict[str, str],
        version: str,
        tokens: Optional[Set[int]] = None,
        rank: Tuple[int, int] = (1, 0),
    ) -> None:
        self.folder = folder_of(out, rank)
        self.graphs = 0
        self.calls = 0
        self.kept = 0
        self._source, self._version, self._tokens = source, version, tokens
        self._tensors: List[Dict[str, Any]] = []
        self._sums: List[Tuple[Dict[str, Any], Future[str]]] = []
        self._skipped: Dict[str, str] = {}

    def graph(self) -> RecordedGraph:
        """Return the next graph: TorchAir numbers them from 1 as they are compiled."""
        self.graphs += 1
        return RecordedGraph(self, "graph_%d" % self.graphs)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._tensors)

    def wants(self, token: int) -> bool:
        """Tell whether a graph's call of this number is kept."""
        return self._tokens is None or token in self._tokens

    def note(self, entry: Dict[str, Any], digest: Future[str]) -> None:
        """Record a file that was written."""
        self._tensors.append(entry)
        self._sums.append((entry, digest))

    def skip(self, tensor: str, reason: str) -> None:
        """Record a value that is not saved."""
        self._skipped.setdefault(tensor, reason)

    def close(self, complete: bool, **extra: Any) -> None:
        """Write the manifest, if anything was saved."""
        if not self._tensors:
            return
        for entry, digest in self._sums:
            entry["sha256"] = digest.result()
        document: Dict[str, Any] = {
            "backend": "pytorch",
            "backend_version": self._version,
            "source": self._source,
            "complete": complete,
            "tensors": self._tensors,
            "skipped": [
                {"tensor": tensor, "reason": reason} for tensor, reason in self._skipped.items()
            ],
            "notes": list(NOTES),
            **extra,
        }
        fed = {
            (entry["node"], entry["call"])
            for entry in self._tensors
            if NOT_FINITE in entry and ".INPUT" in entry["original_name"]
        }
        outputs = [entry for entry in self._tensors if entry["original_name"].endswith(".OUTPUT")]
        not_finite = not_finite_of(outputs, lambda entry: (entry["node"], entry["call"]) not in fed)
        if not_finite is not None:
            document[NOT_FINITE] = not_finite
        write_manifest(self.folder, document)


class RecordedGraph:
    """One compiled graph: its calls are numbered from 0, as TorchAir's newer dumps number
    tokens.
    """

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.name = name
        self._recorder = recorder
        self._next = 0

    def call(self) -> Optional[RecordedCall]:
        """Return the recorder of the next call; None where it is not requested."""
        token = self._next
        self._next += 1
        self._recorder.calls += 1
        if not self._recorder.wants(token):
            return None
        self._recorder.kept += 1
        return RecordedCall(self._recorder, os.path.join(self.name, str(token)))


class RecordedCall:
    """One call of a graph; each node's values become files before the next node runs, which may
    change them.
    """

    def __init__(self, recorder: Recorder, below: str) -> None:
        self._recorder = recorder
        self._below = below
        folder = os.path.join(recorder.folder, below)
        os.makedirs(folder, exist_ok=True)
        self._files = HashingWriter(folder)

    def write(
        self, node: str, target: str, kind: str, values: Sequence[Tuple[Tuple[int, ...], Any]]
    ) -> None:
        """Write what goes into a node or comes out of it.

        Parameters
        ----------
        kind
            ``INPUT`` or ``OUTPUT``.
        values
            (number, or number and place in a list) and array of each; an array that is no numbers
            is noted as skipped.
        """
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d%H%M%S%f")
        for numbers, value in values:
            array = np.asarray(value, order="C")
            name = fx_file_name(node, target, kind, numbers, stamp)
            if array.dtype.kind not in "biufc":
                self._recorder.skip(name, "it is no array of numbers")
            elif not fits(name):
                self._recorder.skip(name, "the file's name would have more than 255 bytes")
            else:
                self._write(name, node, array)
        self._files.catch_up()

    def _write(self, name: str, node: str, array: np.ndarray) -> None:
        parts = parse_fx_name(name)
        assert parts is not None
        entry: Dict[str, Any] = {
            "file": os.path.join(self._below, name),
            "op": sanitise_golden(parts.op_name),
            "original_name": parts.op_name,
            "output_index": parts.index,
            "timestamp": parts.timestamp,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "sha256": "",
            "type": parts.target,
            "node": node,
            "call": self._below,
        }
        nan, infinite = count_not_finite(array)
        if nan or infinite:
            entry[NOT_FINITE] = {"nan": nan, "inf": infinite}
        body: Any = array.reshape(-1).view(np.uint8).data if array.size else b""
        self._recorder.note(entry, self._files.write(name, npy_header(array), body))

    def close(self) -> None:
        """Wait for the sums."""
        self._files.close()


def rank_here() -> Tuple[int, int]:
    """Return (world size, number) of this process, as torchrun tells it."""
    size, rank = os.environ.get("WORLD_SIZE", "1"), os.environ.get("RANK", "0")
    return (int(size), int(rank)) if size.isdigit() and rank.isdigit() else (1, 0)


def folder_of(out: str, rank: Tuple[int, int]) -> str:
    """Return the folder of a (world size, number) in a golden folder."""
    return os.path.join(out, "worldsize%d_global_rank%d" % rank)


def fx_files(out: str) -> List[str]:
    """Return the paths of the files that a run of ours, or TorchAir, left below a golden folder."""
    files = []
    for base, _, names in os.walk(out):
        files += [os.path.join(base, name) for name in names if parse_fx_name(name) is not None]
    return sorted(files)


def clear(out: str) -> None:
    """Remove the golden files that an FX dump wrote below ``out``."""
    for path in fx_files(out):
        remove_quietly(path)
