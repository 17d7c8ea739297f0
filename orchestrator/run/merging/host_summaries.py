"""What the hosts' own runs say, noted in the merged store, and all rows of the device and step
where the first divergence lies.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...base.notes import note
from ...dumps.place import Place
from ...store.host_facts import COMPUTED, HOST_SUMMARIES, JUDGED_BY, PLACE
from ...store.row_schema import from_sql_text
from ...store.row_sql import row_key
from ...store.stored_networks import GRAPHS, SUMMARY
from .host_run_reader import FINISHED, WAITING, HostRun, Unreadable
from .merged_store import MergedStore


def note_graphs(merged: MergedStore, source: HostRun) -> None:
    """Store a run's networks as soon as they are there, for viewers of the merge; if they cannot be
    read now, they follow at the end.
    """
    try:
        documents = source.ask(lambda reader: reader.fact(GRAPHS)) or ()
    except Unreadable:
        return
    known = merged.store.get(GRAPHS) or []
    more = [
        document
        for document in documents
        if document["model"] not in {each["model"] for each in known}
    ]
    if more:
        merged.store.set(GRAPHS, [*known, *more])


def note_what_hosts_say(merged: MergedStore, sources: Sequence[HostRun]) -> None:
    """Note it; of a run that cannot be read now, what was noted before stays."""
    store = merged.store
    by_host: Dict[str, Any] = store.get(HOST_SUMMARIES) or {}
    graphs: Dict[str, Any] = {document["model"]: document for document in store.get(GRAPHS) or ()}
    inputs_of: Dict[str, Any] = {}
    for source in sources:
        try:
            inputs, documents, summary = source.ask(
                lambda reader: tuple(map(reader.fact, ("inputs", GRAPHS, SUMMARY)))
            )
        except Unreadable as error:
            by_host.setdefault(source.host, {"folder": source.folder})
            by_host[source.host].update(state=source.state, verdict=None)
            by_host[source.host]["warnings"] = (
                [] if source.state == WAITING else [note("host-unreadable", error.why).document()]
            )
            continue
        inputs_of[source.host] = inputs or {}
        for document in documents or ():
            graphs.setdefault(document["model"], document)
        by_host[source.host] = _host_summary(source, summary)
    for host, count in merged.unreadable.items():
        by_host[host]["warnings"].append(note("host-rows-damaged", count).document())
        by_host[host]["verdict"] = None
    for host, inputs in inputs_of.items():
        if inputs.get("limits") != next(iter(inputs_of.values())).get("limits"):
            by_host[host]["warnings"].append(note("host-limits", next(iter(inputs_of))).document())
    with store.transaction():
        store.set(HOST_SUMMARIES, {source.host: by_host[source.host] for source in sources})
        if inputs_of:
            store.set(JUDGED_BY, next(iter(inputs_of.values())))
        if graphs:
            store.set(GRAPHS, list(graphs.values()))
    _fill_place(merged, sources, by_host)


def _host_summary(source: HostRun, summary: Any) -> Dict[str, Any]:
    document: Dict[str, Any] = {
        "folder": source.folder,
        "state": source.state,
        "verdict": None,
        "warnings": [],
    }
    if source.state == FINISHED and isinstance(summary, dict):
        first = summary.get("first_divergence")
        document.update(
            verdict=summary.get("verdict"),
            warnings=list(summary.get("warnings", ())),
            steps_without_golden=list(summary.get("steps_without_golden", ())),
            own_suspects=list(summary.get("suspects", ())),
            first=None if first is None else {"host": source.host, **first},
        )
    return document


def _fill_place(
    merged: MergedStore, sources: Sequence[HostRun], by_host: Mapping[str, Mapping[str, Any]]
) -> None:
    """Store all rows of the place where the first divergence lies, else of the first suspect's;
    those of an earlier one go.
    """
    store, place = merged.store, _place(merged, by_host)
    rows, computed = [], []
    source = next(
        (source for source in sources if place is not None and source.host == place.host), None
    )
    if source is not None and place is not None:
        try:
            where = place.parts
            rows = [
                row.but(host=place.host)
                for row in source.ask(lambda reader: reader.rows_at(reader.place_ids(where)))
            ]
            there = source.ask(lambda reader: reader.fact(COMPUTED)) or ()
            computed = [
                [list(place), *one] for at, *one in there if Place(*at) == place._replace(host=None)
            ]
        except Unreadable:
            # What is there of it tells less.
            return
    passing = {row_key(row): row for row in rows if row.verdict not in ("fail", "not_compared")}
    with store.transaction():
        before = [
            from_sql_text(key)
            for (key,) in store.query(
                "SELECT key FROM row WHERE verdict NOT IN ('fail', 'not_compared')"
            )
        ]
        stale = [key for key in before if key not in passing]
        if stale:
            store.table.remove(stale, "the first divergence lies elsewhere now")
        store.put_all(passing.values())
        store.set(PLACE, None if place is None else list(place))
        store.set(COMPUTED, computed)


def _place(merged: MergedStore, by_host: Mapping[str, Mapping[str, Any]]) -> Optional[Place]:
    if merged.first is not None:
        return merged.first.place
    places: List[Place] = [
        Place(**entry["place"], host=host)
        for host, document in by_host.items()
        for entry in document.get("own_suspects", ())[:1]
    ]
    return min(places, key=Place.order) if places else None
