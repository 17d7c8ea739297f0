"""What a replay is asked to do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ..diagnosis.replay_summary import REPLAY
from ..errors import UsageError
from ..judging.limits import Limit

AUTO = "auto"
BACKENDS = (AUTO, "caffe", "numpy", "opencv", "tf", "onnxruntime")


@dataclass(frozen=True)
class ReplayOptions:
    """The inputs and options of one replay.

    Attributes
    ----------
    target
        A dump tree or any folder in it, with one step of one device.
    original
        The original model: a prototxt, a frozen .pb or an .onnx.
    model
        The om json.
    out
        Folder of the store, the result files and the values that were computed (``replayed/``).
    weights
        Of a prototxt; None: those beside it.
    backend
        One of :data:`BACKENDS`.
    python
        The Python that has the framework; None: it is looked for.
    ops
        Names or globs of ops; empty: all.
    limits
        Put in the places of the limits for own errors.
    result
        The folder of a comparison's results, whose verdict goes into the sentence.
    time
        Of several time folders: the newest (None) or this one.
    layer_files
        ``TYPE=FILE.py`` each: layer types of a prototxt that the user computes (numpy backend).
    """

    target: str
    original: str
    model: str
    out: str
    weights: Optional[str] = None
    backend: str = AUTO
    python: Optional[str] = None
    ops: Tuple[str, ...] = ()
    limits: Tuple[Limit, ...] = ()
    result: Optional[str] = None
    time: Optional[str] = None
    layer_files: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(
                "there is no backend %r" % self.backend, hint="one of " + ", ".join(BACKENDS)
            )
        if self.backend in ("tf", "onnxruntime") and self.weights is not None:
            raise UsageError(
                "weights belong to a prototxt, which the backend %s does not run" % self.backend
            )

    def identity(self) -> Dict[str, Any]:
        """Return the options that the results depend on, besides those of a comparison."""
        identity: Dict[str, Any] = {
            "comparison": REPLAY,
            "original": os.path.realpath(self.original),
            "backend": self.backend,
        }
        if self.weights is not None:
            identity["weights"] = os.path.realpath(self.weights)
        if self.layer_files:
            identity["layers"] = list(self.layer_files)
        if self.ops:
            identity["ops"] = list(self.ops)
        return identity
