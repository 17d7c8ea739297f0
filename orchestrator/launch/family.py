"""The processes that a program has started, also those that outlive it or have left its group.

Sources: proc(5) for the fields, prctl(2) for PR_SET_CHILD_SUBREAPER: orphans below this process become its children instead of init's.
"""

from __future__ import annotations

import ctypes
import os
from typing import Callable, Collection, Dict, List, NamedTuple, Set

_PR_SET_CHILD_SUBREAPER = 36


class Member(NamedTuple):
    """One process; ``name`` as the kernel keeps it (15 characters)."""

    pid: int
    name: str


class _Stat(NamedTuple):
    name: str
    state: str
    parent: int
    session: int


class Family:
    """The descendants of one program that leads a session of its own.

    Parameters
    ----------
    ours
        Tells which children of this process are not the program's.
    """

    def __init__(self, ours: Callable[[], Collection[int]]) -> None:
        self._ours = ours
        self._before = {pid for pid, found in _processes().items() if found.parent == os.getpid()}
        self._adopt(True)

    def _adopt(self, orphans: bool) -> None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)

    def living(self, program: int) -> List[Member]:
        """Return the living processes that the program ``program`` has started, itself left out."""
        processes, own = _processes(), {*self._before, *self._ours()}
        members: Set[int] = {program}
        size = 0
        while size != len(members):
            size = len(members)
            for pid, found in processes.items():
                adopted = found.parent == os.getpid() and pid not in own
                if found.session == program or found.parent in members or adopted:
                    members.add(pid)
        for pid in members - {program}:
            if processes[pid].state == "Z" and processes[pid].parent == os.getpid():
                _reap(pid)
        return [Member(pid, processes[pid].name) for pid in sorted(members - {program}) if processes[pid].state not in "ZX"]

    def close(self) -> None:
        """Let orphans go to init again."""
        self._adopt(False)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def _processes() -> Dict[int, _Stat]:
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as stream:
                head, _, rest = stream.read().rpartition(b")")
        except OSError:
            continue
        fields = rest.split()
        found[int(name)] = _Stat(os.fsdecode(head.partition(b"(")[2]), fields[0].decode(), int(fields[1]), int(fields[3]))
    return found
