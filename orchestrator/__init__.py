"""Finds the first operator that goes wrong when a neural network moves to an Ascend NPU.

What this package names is public, and imported when first used: ``import goldwatch`` loads neither
numpy nor protobuf nor watchdog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from .base.lazy_imports import imported_when_used

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import WatchedRows, compare, open_result, watch
    from .base.errors import GoldwatchError
    from .config.dump_plan import DumpPlan
    from .dumps.dump_file import DumpFile
    from .dumps.dump_tree import DumpTree
    from .dumps.golden_set import GoldenSet
    from .judging.diagnosis.compare_arrays import TensorResult, assert_close, compare_arrays
    from .judging.limits import Limits
    from .model.graph import ModelGraph
    from .model.graphs_of_run import ModelGraphs, load_models
    from .model.read_model import load_model
    from .run.result import RunResult

__all__ = [
    "DumpFile",
    "DumpPlan",
    "DumpTree",
    "GoldenSet",
    "GoldwatchError",
    "Limits",
    "ModelGraph",
    "ModelGraphs",
    "RunResult",
    "TensorResult",
    "WatchedRows",
    "__version__",
    "assert_close",
    "compare",
    "compare_arrays",
    "load_model",
    "load_models",
    "open_result",
    "watch",
]


# Hidden from mypy, which then tells names that are not there.
if not TYPE_CHECKING:
    __getattr__ = imported_when_used(
        __name__,
        api=("WatchedRows", "compare", "open_result", "watch"),
        config__dump_plan=("DumpPlan",),
        dumps__dump_file=("DumpFile",),
        dumps__golden_set=("GoldenSet",),
        dumps__dump_tree=("DumpTree",),
        run__result=("RunResult",),
        base__errors=("GoldwatchError",),
        model__graph=("ModelGraph",),
        model__read_model=("load_model",),
        model__graphs_of_run=("ModelGraphs", "load_models"),
        judging__diagnosis__compare_arrays=("TensorResult", "assert_close", "compare_arrays"),
        judging__limits=("Limits",),
    )


def __dir__() -> List[str]:
    return sorted(__all__)
