"""What a watch is asked to do besides comparing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ..errors import OptionsError
from .comparison_options import ComparisonOptions

KEEP_ALL, KEEP_FAILED, KEEP_NONE = "all", "failed", "none"


def require_seconds(**options: Optional[float]) -> None:
    """Raise UsageError unless each option is None or a time in seconds."""
    for name, value in options.items():
        if value is not None and not 0 < value < 1e7:
            raise OptionsError("{%s} %g: expected seconds, more than 0" % (name, value))


@dataclass(frozen=True)
class WatchOptions:
    """How files are waited for, and when that ends.

    Attributes
    ----------
    until_idle_s
        End when nothing has changed in TARGET and GOLDEN for so many seconds, counted from the
        first dump; None: never.
    pid
        End when this process has ended; None: no such process.
    expect_all
        End when every op of the json that can dump has come, in every place seen.
    keep
        ``all``, ``failed`` or ``none``: which dumps stay after their comparison.
    min_free_bytes
        Delete (as ``keep`` allows) only while less than this is free, and warn; None: delete at
        once.
    poll_s
        List the folders every so many seconds instead of asking the kernel; None: where it is
        needed.
    on_divergence
        A shell command for the first failing row.
    stop_on_divergence
        End at the first failing row.
    command
        ``watch`` or ``run``: an OUT of the one is not continued by the other.
    left_alone
        Folders below TARGET that are not looked at.
    """

    until_idle_s: Optional[float] = None
    pid: Optional[int] = None
    expect_all: bool = False
    keep: str = KEEP_ALL
    min_free_bytes: Optional[int] = None
    poll_s: Optional[float] = None
    on_divergence: Optional[str] = None
    stop_on_divergence: bool = False
    command: str = "watch"
    left_alone: Tuple[str, ...] = ()

    def check(self, options: ComparisonOptions) -> None:
        """Raise UsageError where these options do not fit together."""
        if self.expect_all and options.model is None:
            raise OptionsError(
                "{expect_all}: which ops are expected is known from the model's json only",
                hint="name it with {model}",
            )
        options.require_model_of_quantised()
        require_seconds(until_idle_s=self.until_idle_s, poll_s=self.poll_s)
        if self.pid is not None and self.pid <= 0:
            raise OptionsError("{pid} %d: not a process" % self.pid)

    def identity(self, options: ComparisonOptions) -> Dict[str, Any]:
        """Return what the rows depend on: a store of other ones is not continued."""
        return {**options.identity(), "command": self.command}
