"""What a merge is asked to do, and what its hosts are called."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...base.errors import UsageError
from ...base.fast_dataclasses import dataclass
from ...base.option_fields import HOSTS, option
from ..watch_options import require_seconds

COMMAND = "merge"
MOST_ROWS = 100_000
POLL_S = 0.2


@dataclass(frozen=True)
class MergeOptions:
    """The runs to merge, and when that ends.

    Attributes
    ----------
    sources
        Folders of the hosts' runs; they may not be there yet.
    out
        Folder of the store and the result files.
    until_idle_s
        End when all runs that came have ended and nothing has changed for so many seconds, also
        where none came; None: never.
    poll_s
        How often a run is looked at.
    strict
        A merge that passes but has suspects ends with 1.
    on_divergence
        A shell command for the first failing row.
    stop_on_divergence
        End at the first failing row.
    """

    sources: Tuple[str, ...]
    out: str
    max_rows: int = option(
        "--max-rows",
        least=1,
        metavar="N",
        topic=HOSTS,
        help="With --merge: keep at most N of the rows that did not pass.  [default: %d]"
        % MOST_ROWS,
        default=MOST_ROWS,
    )
    until_idle_s: Optional[float] = None
    poll_s: float = POLL_S
    strict: bool = False
    on_divergence: Optional[str] = None
    stop_on_divergence: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError where a folder is named twice, or is OUT, or where there is none."""
        if not self.sources:
            raise UsageError(
                "no folder is named: there is no run to merge",
                hint="name the OUT folder of each host's watch",
            )
        known: Dict[str, str] = {os.path.realpath(self.out): self.out}
        for number, path in enumerate(self.sources):
            place = os.path.realpath(path)
            if place == os.path.realpath(self.out):
                raise UsageError(
                    "%s is OUT itself, and a run to merge" % path,
                    hint="choose another folder for the merged results",
                )
            if place in known:
                raise UsageError(
                    "%s and %s are the same folder: its rows would count twice"
                    % (known[place], path),
                    hint="name it once",
                )
            known[place] = self.sources[number]
        require_seconds(until_idle_s=self.until_idle_s, poll_s=self.poll_s)

    @property
    def hosts(self) -> Dict[str, str]:
        """For each host's name its folder, resolved, in the order of the names."""
        paths = [os.path.abspath(path) for path in self.sources]
        return dict(sorted(zip(host_names(paths), map(os.path.realpath, self.sources))))

    def identity(self) -> Dict[str, Any]:
        """Return what the merged rows depend on, as JSON values: a store of other ones is not
        continued.
        """
        return {"command": COMMAND, "hosts": self.hosts, "max_rows": self.max_rows}


def host_names(paths: Sequence[str]) -> List[str]:
    """Return what each of several different absolute paths is called: what tells it from the
    others, without what all end with.

    ``/runs/host1/out`` and ``/runs/host2/out`` are ``host1`` and ``host2``; a single path is its
    last part.
    """
    parts = [path.strip("/").split("/") for path in paths]
    if len(paths) > 1:
        while all(len(one) > 1 for one in parts) and len({one[-1] for one in parts}) == 1:
            parts = [one[:-1] for one in parts]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return ["/".join(one) for one in parts]
