"""One protocol for every framework's child process: :func:`run_child` starts it, listens and ends it; :mod:`.serve` is its other side."""

from .outcome import Outcome, signal_name
from .parent import Task, run_child

__all__ = ["Outcome", "Task", "run_child", "signal_name"]
