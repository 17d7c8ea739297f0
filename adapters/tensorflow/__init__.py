"""Golden data from TensorFlow, and dump settings for npu_bridge.

``dump_session``, ``DumpHook`` and ``golden_config`` are for a user's own script; they import TensorFlow when they are first asked for.
"""

from __future__ import annotations

from typing import Any, List

__all__ = ["DumpHook", "dump_session", "golden_config"]


def __getattr__(name: str) -> Any:
    if name in ("DumpHook", "dump_session"):
        from . import hooks

        return getattr(hooks, name)
    if name == "golden_config":
        from .recorder import golden_config

        return golden_config
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def __dir__() -> List[str]:
    return sorted(list(globals()) + __all__)
