"""What the child process does: loads the net in its backend, runs every batch and saves the tensors."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, Dict, List, Sequence

import numpy as np

from ...errors import EXIT_INTERRUPTED
from ..child.serve import Parent
from ..golden_writer import GoldenWriter
from ..manifest import sha256_of_file
from .net import Net, initial_state
from .prototxt import read_document
from .saving import save_run, source_of
from .shapes import count
from .targets import Target, Targets


class _Sum(threading.Thread):
    """Hashes the weights while the net is loaded and runs."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self._path = path
        self.digest = ""

    def run(self) -> None:
        """Hash the file."""
        self.digest = sha256_of_file(self._path)


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Do one job: every batch's result is told as it is there (``runs``), and the backend with the last (``result``)."""
    sys.path.append(os.getcwd())
    stop: List[int] = []

    def interrupt(_signal: int, _frame: Any) -> None:
        stop.append(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, interrupt)
    _run(job, parent, stop)
    return EXIT_INTERRUPTED if stop else 0


def _run(job: Dict[str, Any], parent: Parent, stop: List[int]) -> None:
    weights = _Sum(job["weights"])
    weights.start()
    targets = Targets(
        [Target(*fields) for fields in job["targets"]],
        [(tensor, reason) for tensor, reason in job["skipped"]],
        [(number, name) for number, name in job["topless"]],
    )
    # The first folder is made ready while the net is loaded.
    writer = _writer(job, job["batches"][0], len(targets.saved), _bodies(job, targets))
    begun = time.perf_counter()
    try:
        backend = _backend(job)
    except BaseException:
        writer.abandon()
        raise
    load_s = time.perf_counter() - begun
    results: List[Dict[str, Any]] = []
    for batch in job["batches"]:
        if stop and results:
            return
        if results:
            writer = _writer(job, batch, len(targets.saved))
        arrays = {blob: np.load(path) for blob, path in batch["arrays"].items()}
        weights.join()
        writer.backend_version = backend.version
        writer.source = source_of(job["prototxt_sha256"], weights.digest, batch["sums"], job["seed"])
        results.append(save_run(backend, targets, arrays, writer, parent.progress, lambda: bool(stop)))
        parent.tell(runs=results)
    parent.tell(result={"backend": backend.name, "backend_version": backend.version, "load_s": round(load_s, 6)})


def _bodies(job: Dict[str, Any], targets: Targets) -> List[int]:
    """Return the bytes of the tensors that will be saved, as far as they are known before the net is loaded."""
    wanted = {(target.number, target.top_index) for target in targets.saved}
    return [4 * count(shape) for number, index, _, shape in job.get("outputs", []) if (number, index) in wanted]


def _writer(job: Dict[str, Any], batch: Dict[str, Any], n_files: int, bodies: Sequence[int] = ()) -> GoldenWriter:
    writer = GoldenWriter(batch["out"], job["backend"], "", {}, job["force"], "quant" if job["quantised"] else "npy", True)
    writer.prepare(n_files, bodies)
    return writer


def _backend(job: Dict[str, Any]) -> Any:
    if job["backend"] == "opencv":
        from .opencv import OpencvBackend

        return OpencvBackend(job)
    from .pycaffe import PycaffeBackend

    document = read_document(job["prototxt"])
    return PycaffeBackend(job, Net(document, initial_state(document, "TEST", job["level"], job["stages"])))
