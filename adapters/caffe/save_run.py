"""One run of a backend into one golden folder: names first, then the tensors as they come, then the
manifest.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from ...base.mounts import require_space
from ...netfiles.caffe_net import Net
from ..golden_writer import GoldenWriter
from ..nonfinite import NOT_FINITE, not_finite_of
from .tensors_to_save import TensorsToSave, TensorToSave

FILE_OVERHEAD_BYTES = 4096 + 128
INTERRUPTED = "interrupted before this tensor was saved"


class _Flow:
    """Which blobs hold NaN or infinite values while the layers run one after the other."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._blobs: Set[str] = set()
        self._layer: Optional[int] = None
        self._reads = False

    def makes_not_finite(self, target: TensorToSave, is_so: bool) -> bool:
        """Take note of a top; tell whether it holds such values (``is_so``) and nothing that its
        layer reads does.
        """
        if target.number != self._layer:
            self._layer = target.number
            bottoms = self._net.layers[target.number].bottoms if target.number >= 0 else []
            self._reads = any(bottom.text in self._blobs for bottom in bottoms)
        (self._blobs.add if is_so else self._blobs.discard)(target.top)
        return is_so and not self._reads


def save_run(
    net: Net,
    backend: Any,
    targets: TensorsToSave,
    arrays: Dict[str, np.ndarray],
    writer: GoldenWriter,
    progress: Callable[[int, int], None],
    stopped: Callable[[], bool],
) -> Dict[str, Any]:
    """Run the backend once and save its tensors; return what was done (not ``complete`` when the
    user wanted to end).

    Parameters
    ----------
    net
        The prototxt.
    backend
        An object with ``complete``, ``size_bytes`` and ``run``.
    progress
        Called with (tensors done, tensors in all).
    stopped
        Asked after each tensor whether the user wants to end.

    Raises
    ------
    EnvironmentProblem
        The disk has not enough space; nothing was run.
    """
    with writer:
        targets = backend.complete(targets)
        chosen: List[TensorToSave] = targets.saved
        for tensor, reason in targets.skipped:
            writer.skip(tensor, reason)
        writer.reserve((target.name, target.output_index, target.identity) for target in chosen)
        require_space(
            writer.out, backend.size_bytes(chosen, arrays) + FILE_OVERHEAD_BYTES * (len(chosen) + 2)
        )
        seconds = {"forward": 0.0, "save": 0.0}
        interrupted = False
        flow = _Flow(net)
        makers: Set[str] = set()
        progress(0, len(chosen))
        for done, (target, array) in enumerate(_timed(backend.run(chosen, arrays), seconds), 1):
            begun = time.perf_counter()
            fields: Dict[str, Any] = dict(target.fields)
            file = writer.write(
                target.name, target.output_index, array, identity=target.identity, **fields
            )
            if flow.makes_not_finite(target, NOT_FINITE in writer.tensors[-1]):
                makers.add(file)
            seconds["save"] += time.perf_counter() - begun
            progress(done, len(chosen))
            if stopped():
                interrupted = True
                break
        saved = {
            (entry["layer"], entry["top"], entry["original_name"], entry["output_index"])
            for entry in writer.tensors
        }
        for target in chosen if interrupted else []:
            if (target.layer, target.top, target.name, target.output_index) not in saved:
                writer.skip(target.title, INTERRUPTED)
        not_finite = not_finite_of(writer.tensors, lambda entry: entry["file"] in makers)
        if not_finite is not None:
            writer.extra[NOT_FINITE] = not_finite
        writer.extra["seconds"] = {name: round(value, 6) for name, value in seconds.items()}
        writer.close(complete=not interrupted)
    return {
        "out": writer.out,
        "complete": not interrupted,
        "counts": writer.counts,
        "collisions": writer.collisions,
        "too_long": ["%s:%d" % key for key in writer.too_long],
        "not_finite": writer.extra.get(NOT_FINITE),
        "seconds": writer.extra["seconds"],
    }


def _timed(
    items: Iterator[Tuple[TensorToSave, np.ndarray]], seconds: Dict[str, float]
) -> Iterator[Tuple[TensorToSave, np.ndarray]]:
    """Pass the items on and add up the time that each takes to come."""
    while True:
        begun = time.perf_counter()
        item: Optional[Tuple[TensorToSave, np.ndarray]] = next(items, None)
        seconds["forward"] += time.perf_counter() - begun
        if item is None:
            return
        yield item


def source_of(
    prototxt: str,
    weights: Optional[str],
    inputs: Dict[str, str],
    seed: Optional[int],
    random_weights: Optional[int] = None,
) -> Dict[str, Any]:
    """Return the manifest's ``source``: SHA-256 sums of the prototxt, the weights and the inputs,
    and the seeds of what was made up.
    """
    source: Dict[str, Any] = {"prototxt": prototxt, "inputs": inputs}
    if weights is not None:
        source["weights"] = weights
    if random_weights is not None:
        source["random_weights"] = random_weights
    if seed is not None:
        source["random_seed"] = seed
    return source
