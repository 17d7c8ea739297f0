"""The work cut into units, and units put together into batches: biggest first, each worth a
worker's while.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence, Tuple

from ..base.fast_dataclasses import dataclass
from ..base.naming import whole_name
from ..dumps.place import Place
from ..run.engine import Engine
from ..run.target_file import TargetFile

BATCH_S = 1.0
"""A batch is meant to keep a worker busy so long, in seconds: what Dask does for each (3 ms) is
then nothing.
"""

_FILE_S, _BYTE_S = 2e-3, 2e-9
_RANGES_EACH = 4


@dataclass(frozen=True)
class Unit:
    """One device × model × step, or a range of its ops.

    Attributes
    ----------
    number
        In the order of the execution.
    place
        Where it lies.
    files
        Those that are superseded too.
    seconds
        What it may take, by the number and size of its files, in seconds of a machine that nobody
        has asked.
    """

    number: int
    place: Place
    files: Tuple[TargetFile, ...]
    seconds: float


def cut(engine: Engine, files: Sequence[Tuple[TargetFile, int]], threads: int) -> List[Unit]:
    """Return the units of files with their sizes in bytes, in the order of the execution.

    A place is one unit, but for those that would keep one worker busy while the others wait: these
    are cut into ranges of ops. What is planned together stays together: the dumps of one op, its
    slices, and an L1 fusion group.
    """
    places: Dict[Place, List[Tuple[TargetFile, float]]] = {}
    for file, size_bytes in files:
        places.setdefault(file.place, []).append((file, _FILE_S + size_bytes * _BYTE_S))
    total = sum(seconds for with_seconds in places.values() for _, seconds in with_seconds)
    most = max(BATCH_S, total / (_RANGES_EACH * threads))
    units: List[Unit] = []
    for place, with_seconds in places.items():
        for chunk in _ranges(engine, with_seconds, most):
            units.append(
                Unit(
                    len(units),
                    place,
                    tuple(file for file, _ in chunk),
                    sum(seconds for _, seconds in chunk),
                )
            )
    return units


def _ranges(
    engine: Engine, files: List[Tuple[TargetFile, float]], most: float
) -> Iterable[List[Tuple[TargetFile, float]]]:
    if sum(seconds for _, seconds in files) <= most:
        return [files]
    ranges: List[List[Tuple[TargetFile, float]]] = [[]]
    range_of: Dict[Any, int] = {}
    seconds = 0.0
    for file, its in files:
        group = engine.places.planner(file.place).l1_group(file.entry())
        # Files that must be planned together stay in one range.
        together: Any = group if group is not None else whole_name(file.op_name)[0]
        if together not in range_of:
            if seconds >= most:
                ranges.append([])
                seconds = 0.0
            range_of[together] = len(ranges) - 1
            seconds += its
        ranges[range_of[together]].append((file, its))
    return ranges


class Work:
    """Units that wait for a worker, the biggest first."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self._waiting = sorted(units, key=lambda unit: (unit.seconds, -unit.number))
        self._estimated = self._measured = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def batch(self) -> List[Unit]:
        """Take the biggest unit, and as many more as make :data:`BATCH_S` together."""
        units = [self._waiting.pop()]
        enough = BATCH_S / self._pace
        seconds = units[0].seconds
        while self._waiting and seconds < enough:
            units.append(self._waiting.pop())
            seconds += units[-1].seconds
        return units

    def put_back(self, units: Iterable[Unit]) -> None:
        """Take units that a worker has not compared."""
        self._waiting += units

    def learn(self, units: Iterable[Unit], seconds: float) -> None:
        """Record how long a batch took."""
        self._estimated += sum(unit.seconds for unit in units)
        self._measured += seconds

    @property
    def _pace(self) -> float:
        """Return the seconds of these workers for one estimated second."""
        return self._measured / self._estimated if self._estimated and self._measured else 1.0
