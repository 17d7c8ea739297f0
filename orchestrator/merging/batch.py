"""The rows that are new on all hosts, step by step: what a step comes to over all devices is then written once, however much there is.

A batch that takes several transactions is noted in the store: a merge that was killed goes on behind the last of them.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..dumps.place import name_order
from .merged import PLAN, Merged
from .source import Ids, Read, Source

MOST_ROWS = 60_000
"""So many rows go into one transaction."""

_PAGE_ROWS = 3000


class Upto(NamedTuple):
    """What a batch takes of a host: rows behind one id up to another, of a store made at ``began_ns``."""

    began_ns: int
    after: int
    upto: int


class Batch:
    """Rows to be taken.

    Parameters
    ----------
    parts
        For each host what is to be taken.
    position
        (step, host, id) of the last row that has been taken; None: none.
    """

    def __init__(self, merged: Merged, sources: Sequence[Source], parts: Dict[str, Upto], position: Optional[Sequence[Any]] = None) -> None:
        self._merged = merged
        self.parts = parts
        self._sources = {source.host: source for source in sources if source.host in parts}
        self._position = position
        self._pieces: Optional[Iterator[List[Tuple[str, str, Ids]]]] = None

    @classmethod
    def noted(cls, merged: Merged, sources: Sequence[Source]) -> Optional[Batch]:
        """Return the batch that an earlier merge was at, or None."""
        found = merged.store.get(PLAN)
        if not found:
            return None
        return cls(merged, sources, {host: Upto(*part) for host, part in found["parts"].items()}, found["position"])

    def take(self) -> bool:
        """Take one transaction's rows; tell whether there are more.

        Raises
        ------
        Unreadable
            A run cannot be read now; the same may be tried again.
        """
        if self._pieces is None:
            pieces = list(self._plan())
            self._several = len(pieces) > 1 or self._position is not None
            self._pieces = iter(pieces)
            self._left = len(pieces)
        piece = next(self._pieces, [])
        self._left -= 1
        store = self._merged.store
        try:
            with store.transaction():
                for step, host, ids in piece:
                    for start in range(0, len(ids), _PAGE_ROWS):
                        with self._sources[host].reading() as reader:
                            lines = list(reader.lines(ids[start : start + _PAGE_ROWS]))
                        self._merged.take(reader, host, lines)
                    self._position = (step, host, ids[-1])
                self._merged.write()
                if self._left > 0:
                    store.set(PLAN, {"parts": self.parts, "position": self._position})
                else:
                    self._end()
        except BaseException:
            # What was gathered in memory goes with the transaction.
            self._merged.reload()
            self._pieces = None
            raise
        return self._left > 0

    def _end(self) -> None:
        if self._several:
            self._merged.store.set(PLAN, None)
        for host, part in self.parts.items():
            before = self._merged.reads.get(host, Read())
            self._merged.note_read(host, before._replace(began_ns=part.began_ns, last_id=part.upto))

    def _plan(self) -> Iterator[List[Tuple[str, str, Ids]]]:
        """Yield what each transaction takes: (step, host, ids), in the order of steps, then hosts."""
        steps: Dict[str, Dict[str, Ids]] = {}
        for host in sorted(self.parts):
            with self._sources[host].reading() as reader:
                for step, ids in reader.steps(self.parts[host].after, self.parts[host].upto).items():
                    steps.setdefault(step, {})[host] = ids
        piece: List[Tuple[str, str, Ids]] = []
        room = MOST_ROWS
        for step in sorted(steps, key=name_order):
            for host, ids in steps[step].items():
                ids = self._not_taken(step, host, ids)
                while ids:
                    piece.append((step, host, ids[:room]))
                    ids = ids[room:]
                    room -= len(piece[-1][2])
                    if not room:
                        yield piece
                        piece, room = [], MOST_ROWS
        if piece:
            yield piece

    def _not_taken(self, step: str, host: str, ids: Ids) -> Ids:
        if self._position is None:
            return ids
        last_step, last_host, last_id = self._position
        here, last = (name_order(step), host), (name_order(last_step), last_host)
        if here > last:
            return ids
        return [number for number in ids if number > last_id] if here == last else []
