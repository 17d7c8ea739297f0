"""Reads rank, graph and token of TorchAir's FX dumps from their folders, in all forms that TorchAir
has used.

| form | folders |
|---|---|
| newest | ``worldsize{N}_global_rank{R}/{graph}/{token}/`` |
| before | ``data_dump/{token + 1}/{graph}/`` or ``data_dump/{token + 1}/gm_{time}_dump/`` |
| oldest | ``gm_{time}_dump/{token + 1}/`` |

Sources: TorchAir's ``fx_dumper.py`` of several years; the vendor's guide to dumps in TorchAir's
scenes.
"""

from __future__ import annotations

import glob
import os
import re
from typing import List, NamedTuple, Optional, Set

from ..errors import InputError
from ..naming import graph_of_run
from .place import Place, is_number, name_order

_RANK = re.compile(r"worldsize[0-9]+_global_rank([0-9]+)\Z")
_TIMED = re.compile(r"gm_[0-9]+_dump\Z")
_OLDER = "data_dump"


class FxPlace(NamedTuple):
    """Rank, graph and token from folder names; None if absent.

    Attributes
    ----------
    rank
        Global rank of the process.
    graph
        ``graph_1``, or ``gm_{time}_dump``, whose time is when the graph was compiled.
    token
        Number of the graph's call, from 0 as in GE's dumps, whatever the folder's numbering.
    """

    rank: Optional[str] = None
    graph: Optional[str] = None
    token: Optional[str] = None


def fx_place(folder: str) -> FxPlace:
    """Return the place of the files in a folder; parents of the folder that the user named count
    too.
    """
    names = os.path.abspath(folder).split(os.sep)
    above, parent, name = ([""] * 3 + names)[-3:]
    rank = rank_of(folder)
    if _TIMED.match(parent) and is_number(name):
        return FxPlace(rank, parent, _less_one(name))
    if is_number(parent) and (above == _OLDER or _TIMED.match(name)):
        return FxPlace(rank, name, _less_one(parent))
    if is_number(name):
        return FxPlace(rank, parent, name)
    return FxPlace(rank)


def rank_of(folder: str) -> Optional[str]:
    """Return the rank in the name of a folder or one of its parents, or None."""
    ranks = [
        match.group(1)
        for match in map(_RANK.match, os.path.abspath(folder).split(os.sep))
        if match is not None
    ]
    return ranks[-1] if ranks else None


def _less_one(number: str) -> Optional[str]:
    return str(int(number) - 1) if int(number) else None


class FxFolders:
    """The places of an FX dump so far; finds the one that a place of a device's dumps is compared
    with.

    Parameters
    ----------
    target
        Folder of the device's dumps; its name or parents may include a rank.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._known: Set[FxPlace] = set()

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, folder: str) -> str:
        """Add a folder of FX files and return a name for its place."""
        place = fx_place(folder)
        self._known.add(place)
        return repr(place)

    @property
    def tokens(self) -> List[str]:
        """The tokens in ascending order."""
        return sorted(
            {place.token for place in self._known if place.token is not None}, key=name_order
        )

    def of(self, place: Place) -> Optional[str]:
        """Return the name of the FX place that a device's place is compared with, or None.

        Of several ranks the one in the device's folders is used, else the device's number. Of
        several graphs the one of its model_name; folders named by time count as ``graph_1``,
        ``graph_2``, … in order. The token is the step.

        Raises
        ------
        InputError
            Several ranks dumped the same device at the same time.
        """
        matches = [
            fx
            for fx in self._known
            if fx.token is None or place.step is None or fx.token == place.step
        ]
        if len({fx.rank for fx in self._known}) > 1:
            rank = self._rank(place)
            matches = [fx for fx in matches if fx.rank == rank]
        names = sorted({fx.graph for fx in self._known if fx.graph is not None})
        if len(names) > 1:
            graph_name = graph_of_run(place.model or "")
            number = graph_name.rpartition("_")[2]
            if (
                all(map(_TIMED.match, names))
                and is_number(number)
                and 0 < int(number) <= len(names)
            ):
                graph_name = names[int(number) - 1]
            matches = [fx for fx in matches if fx.graph == graph_name]
        return repr(matches[0]) if len(matches) == 1 else None

    def _rank(self, place: Place) -> Optional[str]:
        rank = rank_of(self._target)
        if rank is not None or place.time is None or place.device is None:
            return rank or place.device
        below = (place.time, place.device)
        patterns = [
            os.path.join(glob.escape(self._target), *more, "worldsize*_global_rank*", *below)
            for more in ((), ("*",))
        ]
        ranks = {rank_of(path) for pattern in patterns for path in glob.glob(pattern)}
        if len(ranks) > 1:
            raise InputError(
                "TARGET: %s: several ranks dumped device %s at %s"
                % (self._target, place.device, place.time),
                hint="compare one rank at a time: give its folder worldsize…_global_rank… as "
                "TARGET",
            )
        return next(iter(ranks), place.device)
