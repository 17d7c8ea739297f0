"""What the child process does: loads the net in its backend, runs every batch and saves the
tensors.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from ...base.errors import EXIT_INTERRUPTED
from ...base.manifest import original_of
from ...base.safe_reading import sha256_of_file
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.caffe_v0_upgrade import read_upgraded
from ...netfiles.caffemodel import StoredWeights, write_weights
from ..child.serve import Parent
from ..golden_writer import GoldenWriter
from .inputs import Batches
from .netinputs import net_inputs
from .save_run import save_run, source_of
from .tensors_to_save import TensorsToSave, TensorToSave
from .user_layers import UserLayers


class _HashThread(threading.Thread):
    """Hashes the weights, where there are some, while the net is loaded and runs."""

    def __init__(self, path: Optional[str]) -> None:
        super().__init__(daemon=True)
        self._path = path
        self.digest: Optional[str] = None

    def run(self) -> None:
        """Hash the file."""
        if self._path is not None:
            self.digest = sha256_of_file(self._path)


def work(job: Dict[str, Any], parent: Parent) -> int:
    """Do one job: every batch's result is sent as soon as it is there (``runs``), and the backend
    with the result.
    """
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
    weights = _HashThread(job["weights"])
    weights.start()
    targets = TensorsToSave(
        [TensorToSave(*fields) for fields in job["targets"]],
        [(tensor, reason) for tensor, reason in job["skipped"]],
        [(number, name) for number, name in job["topless"]],
    )
    document = read_upgraded(job["prototxt"])
    net = Net(document, initial_state(document, "TEST", job["level"], job["stages"]))
    inputs = net_inputs(net, job["backend"] == "numpy", list(job["layer_files"]))
    batches = Batches(job, net, inputs)
    begun = time.perf_counter()
    backend = _backend(job, net, batches.shapes)
    load_s = time.perf_counter() - begun
    results: List[Dict[str, Any]] = []
    for number, batch in enumerate(job["batches"]):
        if stop and results:
            return
        weights.join()
        source = _source(job, weights.digest, batches.sums[number])
        writer = _writer(job, batch["out"], backend, source, weights.digest)
        results.append(
            save_run(
                net,
                backend,
                targets,
                batches.arrays(number),
                writer,
                parent.progress,
                lambda: bool(stop),
            )
        )
        parent.send(runs=results)
    if job["weights_out"] is not None:
        write_weights(job["weights_out"], backend.all_weights())
    parent.send(
        result={
            "backend": backend.name,
            "backend_version": backend.version,
            "load_s": round(load_s, 6),
        }
    )


def _source(
    job: Dict[str, Any], weights_sha256: Optional[str], batch_sha256: Dict[str, str]
) -> Dict[str, Any]:
    """Return what the manifest says of the files that a batch's golden data were made from."""
    source = source_of(
        job["prototxt_sha256"], weights_sha256, batch_sha256, job["seed"], job["random_weights"]
    )
    if job["layer_files"]:
        source["layers"] = {kind: sha256_of_file(path) for kind, path in job["layer_files"].items()}
    return source


def _writer(
    job: Dict[str, Any],
    out: str,
    backend: Any,
    source: Dict[str, Any],
    weights_sha256: Optional[str],
) -> GoldenWriter:
    writer = GoldenWriter(
        out,
        backend.name,
        backend.version,
        source,
        job["force"],
        "quant" if job["quantised"] else "npy",
        provisional=True,
    )
    writer.extra["backend_reason"] = job["reason"]
    sums = {job["prototxt"]: job["prototxt_sha256"], job["weights"]: weights_sha256}
    writer.extra["original"] = original_of("caffe", job["prototxt"], sums, job["weights"])
    return writer


def _backend(job: Dict[str, Any], net: Net, shapes: Dict[str, Tuple[int, ...]]) -> Any:
    if job["backend"] == "numpy":
        from .numpy_backend import NumpyBackend

        weights = StoredWeights(job["weights"]) if job["weights"] else no_weights
        return NumpyBackend(
            net, weights, list(shapes), job["random_weights"], UserLayers(job["layer_files"])
        )
    from .pycaffe_backend import PycaffeBackend

    return PycaffeBackend(job, net)


def no_weights(_: str) -> None:
    """Return the weights of a layer of a net that has none."""
