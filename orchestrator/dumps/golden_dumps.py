"""Another device's dumps as golden data: matched by op name and, if there are several, by device,
model and step.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Dict, Iterator, List, Optional, Set, Tuple

from ..naming import run_name, sanitise_device, sanitise_golden
from .folder_listing import DumpEntry
from .place import Place, place_of

Like = Tuple[str, Optional[Tuple[int, int]]]
"""An op's type, and (context, thread) of a file that FFTS+ wrote."""

# The parts of a place that distinguish runs; model_id does not.
_TELLING = ("device", "model", "step")


class GoldenDumps:
    """The dumps of a golden folder by op name; none is opened."""

    def __init__(self) -> None:
        self._dumps: Dict[str, List[DumpEntry]] = {}
        self._places: Dict[str, Place] = {}
        self._levels: Dict[str, Counter[Optional[str]]] = {level: Counter() for level in _TELLING}

    def __len__(self) -> int:
        """Return the number of ops."""
        return len(self._dumps)

    def __iter__(self) -> Iterator[str]:
        """Yield the sanitised name of each op."""
        return iter(self._dumps)

    def add(self, dump: DumpEntry) -> None:
        """Add a dump that is not in the set yet."""
        self._places[dump.path] = place_of(os.path.dirname(dump.path), {dump.name.op_name})
        self._count(self._places[dump.path], 1)
        self._dumps.setdefault(sanitise_golden(dump.name.op_name), []).append(dump)

    def discard(self, path: str) -> None:
        """Remove the dump at a path, if present."""
        place = self._places.pop(path, None)
        if place is None:
            return
        self._count(place, -1)
        for name, dumps in list(self._dumps.items()):
            dumps[:] = [dump for dump in dumps if dump.path != path]
            if not dumps:
                del self._dumps[name]

    def find(
        self, op_name: str, place: Optional[Place] = None, like: Optional[Like] = None
    ) -> Optional[DumpEntry]:
        """Return the latest dump of an op, or None.

        Parameters
        ----------
        place
            Place of the target. If the golden dumps are of several devices, models or steps, only
            those of the same device, model (ignoring a time in its name) and step are used;
            otherwise all targets are compared with the only one. The model_id decides only between
            dumps that agree in everything else.
        like
            The target's type, and (context, thread) of FFTS+: selects among ops of the same
            sanitised name by type, and among slices of one op by context and thread.
        """
        entries = [
            entry
            for entry in self._dumps.get(sanitise_golden(op_name), ())
            if place is None or self._is_of(entry, place)
        ]
        if not entries:
            return None
        exact = [entry for entry in entries if entry.name.op_name == op_name] or entries
        if like is not None:
            exact = [
                entry
                for entry in exact
                if sanitise_device(entry.name.op_type) == sanitise_device(like[0])
            ] or exact
            slices = {entry.name.slice for entry in exact}
            if len(slices) > 1 or (like[1] is not None and None not in slices):
                exact = [entry for entry in exact if entry.name.slice == like[1]]
                if not exact:
                    return None
        same_id = [
            entry
            for entry in exact
            if place is not None and self._places[entry.path].model_id == place.model_id
        ]
        return max(same_id or exact, key=lambda entry: (entry.name.timestamp_us, entry.rel))

    def slices(self, op_name: str) -> Set[Optional[Tuple[int, int]]]:
        """Return the (context, thread) of an op's dumps; None for files not from FFTS+."""
        return {entry.name.slice for entry in self._dumps.get(sanitise_golden(op_name), ())}

    @property
    def several_places(self) -> bool:
        """Whether the dumps are of several devices, models or steps."""
        return any(len(values) > 1 for values in self._levels.values())

    def _is_of(self, entry: DumpEntry, place: Place) -> bool:
        dump_place = self._places[entry.path]
        return all(
            len(values) < 2
            or getattr(place, level) is None
            or run_name(getattr(dump_place, level)) == run_name(getattr(place, level))
            for level, values in self._levels.items()
        )

    def _count(self, place: Place, change: int) -> None:
        for level, values in self._levels.items():
            name = run_name(getattr(place, level))
            values[name] += change
            if not values[name]:
                del values[name]
