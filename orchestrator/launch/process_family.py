"""The processes that a program has started, also those that outlive it or have left its group."""

from __future__ import annotations

import os
from typing import Callable, Collection, List, NamedTuple, Set

from ..system.proc_files import PR_SET_CHILD_SUBREAPER, prctl, processes


class Member(NamedTuple):
    """One process; ``name`` as the kernel keeps it (15 characters)."""

    pid: int
    name: str


class Family:
    """The descendants of one program that leads a session of its own.

    Parameters
    ----------
    ours
        Tells which children of this process are not the program's.
    """

    def __init__(self, ours: Callable[[], Collection[int]]) -> None:
        self._ours = ours
        self._before = {pid for pid, stat in processes().items() if stat.parent == os.getpid()}
        prctl(PR_SET_CHILD_SUBREAPER, 1)

    def living(self, program: int) -> List[Member]:
        """Return the living processes that the program ``program`` has started, itself left out."""
        there, ours = processes(), {*self._before, *self._ours()}
        members: Set[int] = {program}
        size = 0
        while size != len(members):
            size = len(members)
            for pid, stat in there.items():
                adopted = stat.parent == os.getpid() and pid not in ours
                if stat.session == program or stat.parent in members or adopted:
                    members.add(pid)
        for pid in members - {program}:
            if there[pid].state == "Z" and there[pid].parent == os.getpid():
                _reap(pid)
        return [
            Member(pid, there[pid].name)
            for pid in sorted(members - {program})
            if not there[pid].ended
        ]

    def close(self) -> None:
        """Leave orphans to init again."""
        prctl(PR_SET_CHILD_SUBREAPER, 0)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
