"""Workers that were given work and have not been heard of for long."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

LIMIT_S = 300.0
"""A worker that has work and finishes nothing for so long hangs, in seconds."""

_TIMES_LONGEST = 20


class Watchdog:
    """Notices workers that hang: whatever they have, some batch of it must come back within a limit."""

    def __init__(self) -> None:
        self._heard: Dict[str, float] = {}
        self._longest_s = 0.0

    @property
    def limit_s(self) -> float:
        """:data:`LIMIT_S`, more where batches have taken long before."""
        return max(LIMIT_S, _TIMES_LONGEST * self._longest_s)

    def hear(self, worker: str, seconds: float, now: float) -> None:
        """Take note that a worker has finished a batch, and how long that took."""
        self._heard[worker] = now
        self._longest_s = max(self._longest_s, seconds)

    def hanging(self, busy: Mapping[str, Sequence[Any]], now: float) -> List[str]:
        """Return the workers that hang.

        Parameters
        ----------
        busy
            What each worker has of ours; ``now`` as that of :meth:`hear`.
        """
        self._heard = {worker: self._heard.get(worker, now) for worker, keys in busy.items() if keys}
        return [worker for worker, heard in self._heard.items() if now - heard > self.limit_s]
