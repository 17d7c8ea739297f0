"""Another golden tensor that fits the target better than the one it was compared with."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from ...base.errors import GoldwatchError
from ...base.naming import parse_golden_name
from ...dumps.dump_file import DumpFile
from ...dumps.folder_listing import list_folder
from ...dumps.golden_set import GoldenEntry, GoldenSet, open_golden
from ...metrics.patterns import Finding
from ...metrics.patterns.squared_error_by_index import reals
from ...tensors.tensor import Tensor

Array = Any

MOST_TRIED = 1000
# Elements by which a candidate is told: eight pieces of 1,024; by their time.
_PIECES, _PIECE = 8, 1024
# The cosine of these pieces that makes a candidate, how many candidates are read whole, and what
# one must explain of the squared error; chosen, no trial.
_PROMISING, _CHECKED, _CLAIMED = 0.5, 4, 0.9


def golden_files(golden: GoldenSet) -> Iterator[GoldenEntry]:
    """Yield every golden tensor of a set; of device dumps their outputs."""
    for path in sorted(golden.paths()):
        yield from _entries(path)


def files_beside(path: str, target: str) -> Iterator[GoldenEntry]:
    """Yield the golden tensors in the folder of a golden file, but for itself and the target."""
    folder = os.path.dirname(path) or "."
    own_files = [os.path.realpath(path), os.path.realpath(target)]
    for other in list_folder(folder).golden:
        if other.hash_name is None and os.path.realpath(other.path) not in own_files:
            yield from _entries(other.path)


def _entries(path: str) -> Iterator[GoldenEntry]:
    name = os.path.basename(path)
    parsed = parse_golden_name(name)
    op_name = parsed.op_name if parsed is not None else name
    if name.endswith(".npy"):
        yield GoldenEntry(
            path, name, op_name, parsed.output_index if parsed is not None else 0, 0, "npy"
        )
        return
    try:
        outputs = len(DumpFile.open(path).outputs)
    except (GoldwatchError, OSError):
        return
    for index in range(outputs):
        yield GoldenEntry(path, name, op_name, index, 0, "npu")


class Probe:
    """A few runs of elements of the golden's places, with the target's, that other tensors are
    tried on.

    Parameters
    ----------
    count
        Elements of the golden.
    """

    def __init__(self, count: int) -> None:
        length = min(_PIECE, count)
        starts = sorted(
            {(count - length) * piece // max(1, _PIECES - 1) for piece in range(_PIECES)}
        )
        self.runs: List[Tuple[int, int]] = []
        for start in starts:
            if self.runs and start < self.runs[-1][1]:
                start = self.runs[-1][1]
            if start < min(count, start + length):
                self.runs.append((start, min(count, start + length)))
        self._x: List[List[Array]] = [[] for _ in self.runs]

    def update(self, start: int, x: Array) -> None:
        """Take elements ``start`` and following of the target, in the golden's order."""
        for number, (low, high) in enumerate(self.runs):
            first, last = max(low, start), min(high, start + x.size)
            if first < last:
                self._x[number].append(reals(x[first - start : last - start]))

    @property
    def target(self) -> Array:
        """The target's elements, float64."""
        return np.concatenate([part for run in self._x for part in run])

    def of(self, tensor: Tensor) -> Array:
        """Return the elements of another tensor at the same places, float64."""
        return np.concatenate([reals(tensor.elements(low, high)) for low, high in self.runs])


def best_other(
    entries: Iterable[GoldenEntry],
    probe: Probe,
    golden: Tensor,
    shares: Callable[[Tensor], Optional[float]],
) -> Optional[Finding]:
    """Return the golden tensor that fits best, at most 1,000 of the golden's size being tried; None
    where none does.

    Parameters
    ----------
    shares
        Returns of a tensor how much of the squared error it explains, all elements looked at; None
        where it cannot be read.
    """
    target = probe.target
    keep = np.isfinite(target)
    candidates: List[Tuple[float, GoldenEntry, Tensor]] = []
    tried = 0
    for entry in entries:
        if tried == MOST_TRIED:
            break
        try:
            tensor, _ = open_golden(entry)
            if (
                tensor.count != golden.count
                or tensor.order != "C"
                or [size for size in tensor.shape if size != 1]
                != [size for size in golden.shape if size != 1]
            ):
                continue
            tried += 1
            alike = _cosine(target, probe.of(tensor), keep)
        except (GoldwatchError, OSError):
            continue
        if alike >= _PROMISING:
            candidates.append((alike, entry, tensor))
    candidates.sort(key=lambda item: -item[0])
    best: Optional[Finding] = None
    for alike, entry, tensor in candidates[:_CHECKED]:
        share = shares(tensor)
        if share is not None and share >= _CLAIMED and (best is None or share > best.share):
            name = "%s:output:%d" % (entry.op_name, entry.index)
            detail = {"tensor": name, "file": entry.rel, "cosine": alike, "tried": tried}
            best = Finding(
                "other-tensor",
                share,
                "the golden tensor of %s fits (%s)" % (name, entry.rel),
                detail,
            )
    return best


def _cosine(x: Array, y: Array, keep: Array) -> float:
    if x.shape != y.shape:
        return 0.0
    keep = keep & np.isfinite(y)
    x, y = x[keep], y[keep]
    top = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0))) or 1.0
    x, y = x / top, y / top
    size = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / size if size > 0 else 0.0
