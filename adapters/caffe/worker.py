"""What the child process does: loads the net in its backend, runs every batch and saves the tensors."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Dict, List

import numpy as np

from ...errors import EXIT_INTERRUPTED
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.prototxt import read_document
from ..child.serve import Parent
from ..golden_writer import GoldenWriter
from ..manifest import sha256_of_file
from .saving import save_run, source_of
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
    before, after = job["paths"]
    sys.path[1:1] = before
    sys.path += after
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
    begun = time.perf_counter()
    backend = _backend(job)
    load_s = time.perf_counter() - begun
    results: List[Dict[str, Any]] = []
    for batch in job["batches"]:
        if stop and results:
            return
        arrays = {blob: np.load(path) for blob, path in batch["arrays"].items()}
        weights.join()
        source = source_of(job["prototxt_sha256"], weights.digest, batch["sums"], job["seed"])
        suffix = "quant" if job["quantised"] else "npy"
        writer = GoldenWriter(batch["out"], backend.name, backend.version, source, job["force"], suffix, provisional=True)
        results.append(save_run(backend, targets, arrays, writer, parent.progress, lambda: bool(stop)))
        parent.tell(runs=results)
    parent.tell(result={"backend": backend.name, "backend_version": backend.version, "load_s": round(load_s, 6)})


def _backend(job: Dict[str, Any]) -> Any:
    if job["backend"] == "opencv":
        from .opencv import OpencvBackend

        return OpencvBackend(job)
    from .pycaffe import PycaffeBackend

    document = read_document(job["prototxt"])
    return PycaffeBackend(job, Net(document, initial_state(document, "TEST", job["level"], job["stages"])))
