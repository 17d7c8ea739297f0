"""Finds the first operator that goes wrong when a neural network moves to an Ascend NPU.

What this package names is public, and imported when first used: ``import goldwatch`` loads neither numpy nor protobuf nor watchdog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import WatchedRows, compare, open_result, watch
    from .config.plan import DumpPlan
    from .dumps.container import DumpFile
    from .dumps.golden import GoldenSet
    from .dumps.tree import DumpTree
    from .engine.result import RunResult
    from .errors import GoldwatchError
    from .model.graph import ModelGraph, load_model
    from .verdict.arrays import TensorResult, assert_close, compare_arrays
    from .verdict.limits import Limits

_HOMES = {
    "DumpFile": "dumps.container",
    "DumpPlan": "config.plan",
    "DumpTree": "dumps.tree",
    "GoldenSet": "dumps.golden",
    "GoldwatchError": "errors",
    "Limits": "verdict.limits",
    "ModelGraph": "model.graph",
    "RunResult": "engine.result",
    "TensorResult": "verdict.arrays",
    "WatchedRows": "api",
    "assert_close": "verdict.arrays",
    "compare": "api",
    "compare_arrays": "verdict.arrays",
    "load_model": "model.graph",
    "open_result": "api",
    "watch": "api",
}

__all__ = [
    "DumpFile",
    "DumpPlan",
    "DumpTree",
    "GoldenSet",
    "GoldwatchError",
    "Limits",
    "ModelGraph",
    "RunResult",
    "TensorResult",
    "WatchedRows",
    "__version__",
    "assert_close",
    "compare",
    "compare_arrays",
    "load_model",
    "open_result",
    "watch",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError("module 'goldwatch' has no attribute %r" % name)
    import importlib

    value = getattr(importlib.import_module("%s.%s" % (__name__, _HOMES[name])), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(__all__)
