"""Golden data from TensorFlow, and dump settings for npu_bridge.

``dump_session``, ``DumpHook`` and ``golden_config`` are for a user's own script; they import
TensorFlow when they are first asked for.
"""

from __future__ import annotations

from typing import List

from ...base.lazy_imports import imported_when_used

__all__ = ["DumpHook", "dump_session", "golden_config"]


__getattr__ = imported_when_used(
    __name__, in_user_script=("DumpHook", "dump_session"), recorder=("golden_config",)
)


def __dir__() -> List[str]:
    return sorted(list(globals()) + __all__)
