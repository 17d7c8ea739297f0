"""What a watch is asked to do besides comparing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Optional

from ..engine.options import ComparisonOptions
from ..errors import UsageError
from .arriving_goldens import EACH, ONE

KEEP_ALL, KEEP_FAILED, KEEP_NONE = "all", "failed", "none"

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?)b?\s*\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class WatchOptions:
    """How files are waited for, and when that ends.

    Attributes
    ----------
    golden_steps
        ``one`` set of golden data for all steps, or ``each`` step its own, GOLDEN/{step}/.
    until_idle_s
        End when nothing has changed in TARGET and GOLDEN for so many seconds; None: never.
    pid
        End when this process has ended; None: no such process.
    expect_all
        End when every op of the json that can dump has come, in every place seen.
    keep
        ``all``, ``failed`` or ``none``: which dumps stay after their comparison.
    min_free_bytes
        Delete (as ``keep`` allows) only while less than this is free, and warn; None: delete at once.
    poll_s
        List the folders every so many seconds instead of asking the kernel; None: where it is needed.
    on_divergence
        A shell command for the first failing row.
    stop_on_divergence
        End at the first failing row.
    """

    golden_steps: str = ONE
    until_idle_s: Optional[float] = None
    pid: Optional[int] = None
    expect_all: bool = False
    keep: str = KEEP_ALL
    min_free_bytes: Optional[int] = None
    poll_s: Optional[float] = None
    on_divergence: Optional[str] = None
    stop_on_divergence: bool = False

    def check(self, options: ComparisonOptions) -> None:
        """Raise UsageError where these options do not fit together."""
        if self.expect_all and options.model is None:
            raise UsageError("--expect-all: which ops are expected is known from the model's json only", hint="name it with -f")
        for name, value in (("--until-idle", self.until_idle_s), ("--poll", self.poll_s)):
            if value is not None and not 0 < value < 1e7:
                raise UsageError("%s %g: expected seconds, more than 0" % (name, value))
        if self.pid is not None and self.pid <= 0:
            raise UsageError("--pid %d: not a process" % self.pid)

    def identity(self, options: ComparisonOptions, command: str) -> Dict[str, Any]:
        """Return what the rows depend on: a store of other ones is not continued."""
        found = options.identity()
        found["command"] = command
        if self.golden_steps == EACH:
            found["golden_steps"] = EACH
        return found


def parse_size(text: Optional[str], option: str = "--min-free") -> Optional[int]:
    """Return ``500M``, ``2GiB`` or ``1.5T`` in bytes (powers of 1024); None for None.

    Raises
    ------
    UsageError
        Another form.
    """
    if text is None:
        return None
    match = _SIZE.match(text)
    if match is None:
        raise UsageError("%s %s: expected a size in bytes" % (option, text), hint="for example 500M or 20G (powers of 1024)")
    return int(float(match.group(1)) * 1024 ** _POWERS[match.group(2).lower()])
