"""What a replay is asked to do."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Tuple

from ...base.errors import UsageError
from ...base.option_fields import (
    LIMITS,
    MODEL,
    RECORDED_PATH,
    WHAT,
    CommonOptions,
    Recorded,
    option,
    options_class,
    recorded_options,
    same_option,
)
from ...judging.diagnosis.summary import REPLAY
from ...judging.limits import Limit
from ..comparison_options import parse_time

AUTO = "auto"
HOW = "How it is replayed"
BACKENDS = (AUTO, "caffe", "numpy", "tf", "onnxruntime")


@options_class
class ReplayOptions:
    """The inputs and options of one replay.

    The help of an option says what it is.

    Attributes
    ----------
    target
        A dump tree or any folder in it, with one step of one device.
    original
        The original model: a prototxt, a frozen .pb or an .onnx.
    out
        Folder of the store, the result files and the values that were computed (``replayed/``).
    ops
        Names or globs of ops; empty: all.
    limits
        Put in the places of the limits for own errors.
    """

    target: str
    original: str
    weights: Optional[str] = same_option(
        CommonOptions,
        "weights",
        help="Weights of a prototxt.  [default: the .caffemodel of its name beside it]",
        recorded=RECORDED_PATH,
    )
    model: str = option(
        "-f",
        "--model",
        required=True,
        metavar="OM.json",
        topic=MODEL,
        help="The json of the om that ran (atc --mode=1), or GE's text graph.",
    )
    out: str = option(
        "-o",
        "--out",
        required=True,
        out_folder=True,
        metavar="OUT",
        help="Folder of the store, the result files and the computed values.",
    )
    backend: str = option(
        "--backend",
        choices=BACKENDS,
        topic=HOW,
        help="What runs the original's layers.",
        default=AUTO,
        show_default=True,
        recorded=Recorded(always=True),
    )
    python: Optional[str] = option(
        "--python",
        metavar="EXE",
        topic=HOW,
        help="The Python that has the framework.  [default: it is looked for]",
        default=None,
    )
    layer_files: Tuple[str, ...] = option(
        "--layer",
        metavar="TYPE=FILE.py",
        topic=HOW,
        help="Compute a prototxt's layers of a type yourself.",
        default=(),
        recorded=Recorded(list, key="layers"),
    )
    ops: Tuple[str, ...] = option(
        "--op",
        metavar="GLOB",
        topic=WHAT,
        help="Only these ops; repeatable.",
        default=(),
        recorded=Recorded(list),
    )
    limits: Tuple[Limit, ...] = option(
        "--limit",
        repeatable=True,
        metavar="[dtype=T:|type=T:|op=N:]METRIC=VALUE",
        topic=LIMITS,
        help="Replace a limit; repeatable.",
        default=(),
    )
    result: Optional[str] = option(
        "--result",
        metavar="OUT",
        topic=LIMITS,
        help="What compare made of the same dumps: whether it fails goes into the last sentence.",
        default=None,
    )
    time: Optional[str] = option(
        "--time",
        metavar="T",
        topic=WHAT,
        help="The time folder that counts.  [default: the newest]",
        parse=parse_time,
        default=None,
    )

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
        return {
            "comparison": REPLAY,
            "original": os.path.realpath(self.original),
            **recorded_options(self),
        }
