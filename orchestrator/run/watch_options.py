"""What a watch is asked to do besides comparing."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..base.errors import OptionsError
from ..base.fast_dataclasses import dataclass
from ..base.option_fields import WAITING, option, parse_size
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

    The help of an option says what it is.

    Attributes
    ----------
    notify
        Whoever makes the :class:`goldwatch.run.watch.Watch` gives it what posts there.
    keep
        Which dumps stay: without ``min_free_bytes`` the others are deleted at once.
    command
        ``watch`` or ``run``: an OUT of the one is not continued by the other.
    left_alone
        Folders below TARGET that are not looked at.
    """

    until_idle_s: Optional[float] = option(
        "--until-idle",
        metavar="SECONDS",
        topic=WAITING,
        help="End when TARGET and GOLDEN have not changed for so long, from the first dump on.",
    )
    pid: Optional[int] = option(
        "--pid",
        metavar="PID",
        topic=WAITING,
        help="End when this process, which makes the dumps, has ended.",
    )
    expect_all: bool = option(
        "--expect-all",
        topic=WAITING,
        help="End when every op of the json that can dump has come (needs -f).",
        default=False,
    )
    stop_on_divergence: bool = option(
        "--stop-on-divergence",
        topic=WAITING,
        help="End at the first failing row that is final.",
        default=False,
    )
    on_divergence: Optional[str] = option(
        "--on-divergence",
        metavar="CMD",
        topic=WAITING,
        help="Run CMD once, with the first final failing row as JSON on its stdin.",
    )
    notify: Optional[str] = option(
        "--notify",
        metavar="URL",
        topic=WAITING,
        help="POST the first final divergence and the end there, as JSON.",
    )
    keep: str = option(
        "--keep",
        choices=(KEEP_ALL, KEEP_FAILED, KEEP_NONE),
        topic=WAITING,
        help="Which dumps stay after their comparison.",
        default=KEEP_ALL,
        show_default=True,
    )
    min_free_bytes: Optional[int] = option(
        "--min-free",
        metavar="SIZE",
        topic=WAITING,
        help="Delete (as --keep says) only while less is free, such as 20G; warn as well.",
        parse=parse_size,
    )
    poll_s: Optional[float] = option(
        "--poll",
        metavar="SECONDS",
        topic=WAITING,
        help="List the folders at this interval instead of asking the kernel.",
    )
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
