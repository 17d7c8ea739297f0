"""The rows that are new on all hosts, taken step by step, so that the numbers of a step over all
devices are written once.

A batch that takes several transactions is noted in the store: a merge that was killed goes on
behind the last of them. A host that cannot be read leaves its batch, so that the others go on, and
what was begun of it becomes a batch of its own that waits.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...dumps.place import name_order
from .host_run_reader import HostRun, HostRunReader, Ids, ReadPosition, Unreadable
from .merged_store import PLAN, MergedStore

MOST_ROWS = 60_000
"""So many rows go into one transaction."""

_PAGE_ROWS = 3000


class RowRange(NamedTuple):
    """What a batch takes of a host: rows behind one id up to another, of a store made at
    ``began_ns``.
    """

    began_ns: int
    after: int
    upto: int


class Batches:
    """The batches that are on the way, those that an earlier merge was at among them."""

    def __init__(self, merged: MergedStore, sources: Sequence[HostRun]) -> None:
        self._merged = merged
        self._sources = {source.host: source for source in sources}
        noted = merged.store.get(PLAN) or []
        self._all = [
            self._batch(
                {host: RowRange(*part) for host, part in batch["parts"].items()}, batch["position"]
            )
            for batch in noted
        ]
        self._noted = bool(noted)

    def _batch(self, parts: Dict[str, RowRange], position: Optional[Sequence[Any]] = None) -> Batch:
        return Batch(self._merged, self._sources, parts, position)

    @property
    def hosts(self) -> Set[str]:
        """Those of which something is on the way."""
        return {host for batch in self._all for host in batch.parts}

    def begin(self, parts: Dict[str, RowRange]) -> None:
        """Begin one more."""
        self._all.append(self._batch(parts))

    def clear(self) -> None:
        """Forget them, because all is gathered anew."""
        self._all = []

    def take(self, on_trouble: Callable[[Unreadable], None]) -> bool:
        """Take one transaction's rows of the first batch whose hosts can be read; tell whether
        there was one.

        Parameters
        ----------
        on_trouble
            Told of each host that cannot be read now. What was not begun of it is forgotten, to be
            found again.
        """
        for batch in list(self._all):
            while batch.parts:
                try:
                    self._take(batch)
                    return True
                except Unreadable as error:
                    on_trouble(error)
                    part = batch.parts.pop(error.host)
                    batch.rewind(batch.position)
                    if batch.position is not None:
                        self._all.append(self._batch({error.host: part}, batch.position))
                    if not batch.parts:
                        self._all.remove(batch)
        return False

    def _take(self, batch: Batch) -> None:
        store, before = self._merged.store, batch.position
        try:
            with store.transaction():
                rest = self._all if batch.take() else [one for one in self._all if one is not batch]
                noted = [one.noted() for one in rest if one.position is not None]
                if noted or self._noted:
                    store.set(PLAN, noted or None)
        except BaseException:
            # What was gathered in memory goes with the transaction.
            batch.rewind(before)
            self._merged.reload()
            raise
        self._all, self._noted = rest, bool(noted)


class Batch:
    """Rows to be taken.

    Parameters
    ----------
    parts
        For each host what is to be taken.
    position
        (step, host, id) of the last row that has been taken; None: none.
    """

    def __init__(
        self,
        merged: MergedStore,
        sources: Dict[str, HostRun],
        parts: Dict[str, RowRange],
        position: Optional[Sequence[Any]] = None,
    ) -> None:
        self._merged = merged
        self._sources = sources
        self.parts = parts
        self.position = position
        self._pieces: Optional[List[List[Tuple[str, str, Ids]]]] = None

    def noted(self) -> Dict[str, Any]:
        """Return it as the store notes it."""
        return {"parts": self.parts, "position": self.position}

    def rewind(self, position: Optional[Sequence[Any]]) -> None:
        """Continue after a position; the rows are requested again."""
        self.position, self._pieces = position, None

    def take(self) -> bool:
        """Take one transaction's rows, inside it; tell whether there are more.

        Raises
        ------
        Unreadable
            A run cannot be read now.
        """
        if self._pieces is None:
            self._pieces = list(self._plan())[::-1]
        for step, host, ids in self._pieces.pop() if self._pieces else ():
            for start in range(0, len(ids), _PAGE_ROWS):
                page = ids[start : start + _PAGE_ROWS]
                self._merged.take(host, *self._sources[host].ask(partial(_lines, ids=page)))
            self.position = (step, host, ids[-1])
        self._merged.write()
        if self._pieces:
            return True
        for host, part in self.parts.items():
            before = self._merged.reads.get(host, ReadPosition())
            self._merged.note_read(host, before._replace(began_ns=part.began_ns, last_id=part.upto))
        return False

    def _plan(self) -> Iterator[List[Tuple[str, str, Ids]]]:
        """Yield what each transaction takes: (step, host, ids), in the order of steps, then hosts;
        of a step that fits into one all.
        """
        steps: Dict[str, Dict[str, Ids]] = {}
        for host in sorted(self.parts):
            part = self.parts[host]
            for step, ids in (
                self._sources[host]
                .ask(partial(HostRunReader.steps, after=part.after, upto=part.upto))
                .items()
            ):
                steps.setdefault(step, {})[host] = ids
        piece: List[Tuple[str, str, Ids]] = []
        room = MOST_ROWS
        for step in sorted(steps, key=name_order):
            if room < sum(map(len, steps[step].values())) and piece:
                yield piece
                piece, room = [], MOST_ROWS
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
        if self.position is None:
            return ids
        last_step, last_host, last_id = self.position
        here, last = (name_order(step), host), (name_order(last_step), last_host)
        if here > last:
            return ids
        return [number for number in ids if number > last_id] if here == last else []


def _lines(reader: HostRunReader, ids: Ids) -> Tuple[HostRunReader, List[Tuple[Any, ...]]]:
    return reader, list(reader.lines(ids))
