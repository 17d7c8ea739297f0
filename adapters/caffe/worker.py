"""The child process: loads the net in its backend, runs every batch and saves the tensors; tells its parent by JSON lines on a pipe."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Dict, List

import numpy as np

from ...errors import GoldwatchError
from ...netfiles.caffe_net import Net, initial_state
from ...netfiles.prototxt import read_document
from ..golden_writer import GoldenWriter
from ..manifest import sha256_of_file
from .saving import Stopped, save_run, source_of
from .targets import Target, Targets

PROGRESS_INTERVAL_S = 0.1


class _Parent:
    """The pipe to the parent."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8")
        self._last_s = 0.0

    def tell(self, message: Dict[str, Any]) -> None:
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()

    def progress(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if done == total or now_s - self._last_s > PROGRESS_INTERVAL_S:
            self._last_s = now_s
            self.tell({"progress": [done, total]})


class _Sum(threading.Thread):
    """Hashes the weights while the net is loaded and runs."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self._path = path
        self.digest = ""

    def run(self) -> None:
        """Hash the file."""
        self.digest = sha256_of_file(self._path)


def main(job_path: str, descriptor: int) -> int:
    """Do one job and return the exit code; errors go to the parent as messages."""
    parent = _Parent(descriptor)
    stop: List[int] = []

    def interrupt(_signal: int, _frame: Any) -> None:
        stop.append(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, interrupt)
    try:
        with open(job_path, encoding="utf-8") as stream:
            job = json.load(stream)
        parent.tell({"result": _run(job, parent, stop)})
    except Stopped as stopped:
        parent.tell({"stopped": stopped.result})
        return 130
    except GoldwatchError as error:
        parent.tell({"error": {"class": type(error).__name__, "message": error.message, "hint": error.hint}})
        return error.exit_code
    except OSError as error:
        where = "%s: " % error.filename if error.filename else ""
        full = "free some space, or choose another folder with -o" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        message = where + (error.strerror or str(error))
        parent.tell({"error": {"class": "EnvironmentProblem", "message": message, "hint": full}})
        return 4
    except KeyboardInterrupt:
        parent.tell({"stopped": None})
        return 130
    return 0


def _run(job: Dict[str, Any], parent: _Parent, stop: List[int]) -> Dict[str, Any]:
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
            raise Stopped(results[-1])
        arrays = {blob: np.load(path) for blob, path in batch["arrays"].items()}
        weights.join()
        source = source_of(job["prototxt_sha256"], weights.digest, batch["sums"], job["seed"])
        writer = GoldenWriter(batch["out"], backend.name, backend.version, source, job["force"], "quant" if job["quantised"] else "npy")
        results.append(save_run(backend, targets, arrays, writer, parent.progress, lambda: bool(stop)))
    return {"backend": backend.name, "backend_version": backend.version, "load_s": round(load_s, 6), "runs": results}


def _backend(job: Dict[str, Any]) -> Any:
    if job["backend"] == "opencv":
        from .opencv import OpencvBackend

        return OpencvBackend(job)
    from .pycaffe import PycaffeBackend

    document = read_document(job["prototxt"])
    return PycaffeBackend(job, Net(document, initial_state(document, "TEST", job["level"], job["stages"])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
