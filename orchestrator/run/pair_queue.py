"""Pairs that wait to be compared: those of one golden tensor together, the biggest first.

Of two dumps, where an input has a golden tensor of its own, those that look alike are together:
equal size, and equal bytes in the middle.
"""

from __future__ import annotations

import hashlib
import heapq
from typing import Dict, List, Tuple

from ..base.errors import GoldwatchError
from ..metrics.pair_task import PairTask

# Some milliseconds of comparing.
_BATCH_BYTES = 4 << 20
# Handing over a batch, and storing its rows, costs as much as comparing some tiny pairs.
_BATCH_TASKS = 256
# Of slow pairs, among which equal ones are still compared once.
_SLOW_TASKS = 8
# What waits beyond is not planned yet: memory does not grow with a run of a million tiny dumps.
_MOST_PAIRS = 8192
# One page in the middle, by which files that may be equal are told from others.
_SAMPLE_BYTES = 4096

Key = Tuple[str, str, int]


class _Group:
    """The pairs of one golden tensor, or of golden tensors that may be equal: equal target tensors
    among them are compared once.
    """

    def __init__(self, key: Key, number: int) -> None:
        self.key = key
        self.number = number
        self.tasks: List[PairTask] = []
        self.nbytes = 0


class PairQueue:
    """Groups of pairs.

    Parameters
    ----------
    are_slow
        A pair may take seconds, as with metrics of the user's: few are handed out together, so that
        the progress is seen.
    """

    def __init__(self, are_slow: bool = False) -> None:
        self._most_tasks = 1 if are_slow else _BATCH_TASKS
        self._most_of_group = _SLOW_TASKS if are_slow else _BATCH_TASKS
        self._groups: Dict[Key, _Group] = {}
        self._fresh: Dict[Key, _Group] = {}
        self._heap: List[Tuple[int, int, _Group]] = []
        self._count = self._pairs = 0

    def __len__(self) -> int:
        """Return the number of pairs that wait."""
        return self._pairs

    @property
    def full(self) -> bool:
        """Whether so many pairs wait that no more should be planned: they are in memory, however
        many files there are.
        """
        return self._pairs >= _MOST_PAIRS

    def put(self, task: PairTask) -> None:
        """Add a pair."""
        key = _key(task)
        group = self._groups.get(key)
        if group is None:
            self._count += 1
            group = self._groups[key] = self._fresh[key] = _Group(key, self._count)
        group.tasks.append(task)
        group.nbytes += task.nbytes
        self._pairs += 1
        if len(group.tasks) == self._most_of_group:
            # A batch of its own: those that come later are another's.
            del self._groups[key]
            if self._fresh.pop(key, None) is not None:
                self._push(group)

    def ripen(self, keep: int = 0) -> None:
        """Let all groups but the ``keep`` newest be handed out: more pairs of a new group's golden
        tensor may be just about to come.
        """
        while len(self._fresh) > keep:
            self._push(self._fresh.pop(next(iter(self._fresh))))

    def _push(self, group: _Group) -> None:
        heapq.heappush(self._heap, (-group.nbytes, group.number, group))

    @property
    def ripe(self) -> bool:
        """Whether :meth:`batch` has something to hand out."""
        return bool(self._heap)

    def batch(self) -> List[PairTask]:
        """Take the next pairs off the queue: the biggest group, or several small ones."""
        tasks: List[PairTask] = []
        nbytes = 0
        while (
            self._heap
            and len(tasks) < self._most_tasks
            and (not tasks or nbytes - self._heap[0][0] <= _BATCH_BYTES)
        ):
            group = heapq.heappop(self._heap)[2]
            if self._groups.get(group.key) is group:
                del self._groups[group.key]
            self._pairs -= len(group.tasks)
            nbytes += group.nbytes
            tasks += group.tasks
        return tasks


def _key(task: PairTask) -> Key:
    if task.as_stored:
        source = task.target.source
        start = max(0, (source.nbytes - _SAMPLE_BYTES) // 2)
        try:
            sample = source.read(start, min(_SAMPLE_BYTES, source.nbytes - start))
        except (OSError, GoldwatchError):
            pass  # Its row will say so.
        else:
            return "", hashlib.blake2b(bytes(sample), digest_size=16).hexdigest(), source.nbytes
    return task.golden.path, task.golden.io, task.golden.index
