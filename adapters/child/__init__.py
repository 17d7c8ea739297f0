"""One protocol for every framework's child process: :func:`run_child` starts it, listens and ends it; :mod:`.serve` is its other side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import imported_when_used

if TYPE_CHECKING:
    from .outcome import Outcome
    from .parent import Task, run_child

__all__ = ["Outcome", "Task", "run_child"]

# A child needs none of them.
__getattr__ = imported_when_used(__name__, outcome=("Outcome",), parent=("Task", "run_child"))
