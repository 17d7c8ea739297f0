"""The result files of a store: which there are, how they are named, and keeping them current."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Collection, Dict, List, Optional, Sequence

from ..dumps.place import NOWHERE, Place
from ..filesystem import bounded_name, remove_inside
from ..naming import printable
from .csvfile import Columns, write_mapping_csv, write_result_csv
from .store import RunStore

_TABLE = re.compile(r"([^/\0]*_)?(result|mapping)_[0-9]{14}\.csv\Z")


def result_names(places: Sequence[Place], timestamp: str, stem: str = "result") -> Dict[Place, str]:
    """Return the file name of each place's table.

    A single place, and rows outside a tree, get ``{stem}_{timestamp}.csv``; each of several device × model × step gets
    ``{device}_{model}_{step}_{stem}_{timestamp}.csv``, and where two would be the same
    ``{time}_{device}_{model}_{model_id}_{step}_{stem}_{timestamp}.csv``.

    Parameters
    ----------
    places
        Those with rows.
    timestamp
        ``YYYYmmddHHMMSS`` of the run's first start.
    stem
        ``result`` or ``mapping``.
    """
    tail = "%s_%s.csv" % (stem, timestamp)
    if len(places) == 1:
        return {places[0]: tail}
    short = {place: _join((place.device, place.model, place.step), tail) for place in places}
    shared = Counter(short.values())
    return {place: name if shared[name] == 1 else _join(place, tail) for place, name in short.items()}


def _join(parts: Sequence[Optional[str]], tail: str) -> str:
    head = "_".join(printable(part).replace("/", "_") for part in parts if part is not None)
    return bounded_name(head, "_" + tail) if head else tail


def _noted(store: RunStore) -> List[str]:
    """Return the names of this run's tables; what cannot be one (the store is input too) is passed over."""
    names = store.get("result_files")
    return [name for name in names if isinstance(name, str) and _TABLE.match(name)] if isinstance(names, list) else []


def write_tables(
    store: RunStore,
    columns: Columns,
    mapping: bool = False,
    only: Optional[Collection[Place]] = None,
) -> List[str]:
    """Write the CSV files of a store into its folder and return their paths.

    Files of this run whose names changed, because another place came that would share them, are removed. A store without rows gets a
    table with its header only.

    Parameters
    ----------
    store
        Open for writing.
    columns
        The columns of the result tables.
    mapping
        Write the mapping tables besides.
    only
        Write only the tables of these places (those that changed); all by default.

    Raises
    ------
    EnvironmentProblem
        A file cannot be written.
    """
    out = os.path.dirname(store.path)
    places = store.places() or [NOWHERE]
    names = result_names(places, store.started)
    mappings = result_names(places, store.started, "mapping") if mapping else {}
    before = _noted(store)
    now = [*names.values(), *mappings.values()]
    written: List[str] = []
    for place in places:
        if only is not None and place not in only and names[place] in before:
            continue
        written.append(os.path.join(out, names[place]))
        write_result_csv(written[-1], store.rows("index", place), columns)
        if mapping:
            written.append(os.path.join(out, mappings[place]))
            write_mapping_csv(written[-1], store.rows("index", place))
    if before != now:
        store.set("result_files", now)
        for name in set(before) - set(now):
            remove_inside(out, name)
    return written
