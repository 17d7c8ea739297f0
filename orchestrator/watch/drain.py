"""The end of a watch: what never became whole, never came or never found golden data gets its rows."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, List, Set

from ..compare.row import CORRUPT, DUMP_MISSING, Row
from ..dumps.place import Place
from ..results.rowsql import row_key
from .arrivals import LiveSession
from .state import EARLIER, GONE, GROWING, HELD, PLANNED, SETTLING, UNREADABLE, TargetFile


def settle_files(session: LiveSession) -> None:
    """Plan what waited for the end: cut and damaged files, L1 fusion groups, tensors without golden data. Their pairs are queued."""
    session.final = True
    with session.store.transaction():
        session.goldens.close()
        session.replan()
        _forget_moved(session)
        for identity, files in session.catalogue.by_place().items():
            if not session.is_taken(identity):
                session.store.event("left out", None, "%s and the like: none of its ops is in the model file" % files[0].rel)
                continue
            session.place(identity).refresh()
            _settle_groups(session, identity, files)
            for file in files:
                if file.state in (GROWING, SETTLING, UNREADABLE) or (file.state == PLANNED and file.missing):
                    session.accept(file, session.place(identity).plan(file.entry()))
                elif file.state == GONE and (not file.has_rows or file.missing):
                    _vanished(session, file)


def _settle_groups(session: LiveSession, identity: Place, files: List[TargetFile]) -> None:
    """Decide which files of L1 fusion groups have rows."""
    planner = session.place(identity)
    groups: Dict[str, List[TargetFile]] = {}
    for file in files:
        if file.state not in (EARLIER, GONE):
            groups.setdefault(str(file.group[0]), []).append(file)
    for members in groups.values():
        entries = {file.rel: file.entry() for file in members}
        kept, left_out = planner.leave_out(list(entries.values()))
        names = {entry.rel for entry in kept}
        for tensor, reason in left_out:
            session.store.omit(tensor, reason)
        for file in members:
            if file.rel not in names:
                session.remove_rows(file, set(), "another op of its L1 fusion group stands for it")
            elif file.state == HELD:
                session.accept(file, planner.plan(entries[file.rel]))


def _forget_moved(session: LiveSession) -> None:
    """A file that was moved within TARGET counts where it is now."""
    there = {}
    for file in session.catalogue.in_state(PLANNED, HELD, GROWING, SETTLING):
        there[file.signature] = file
    for file in session.catalogue.in_state(GONE):
        moved = there.get(file.signature) if file.signature is not None else None
        if moved is not None:
            session.remove_rows(file, set(), "the file was moved to %s" % moved.rel)
            session.catalogue.forget(file)


def _vanished(session: LiveSession, file: TargetFile) -> None:
    """Give a file that went before it was compared one row that says so."""
    plan = session.place(file.identity).plan(file.entry())
    reason = "%s vanished before it was compared" % file.rel
    rows = tuple(replace(row, reason=reason, cause=DUMP_MISSING) for row in plan.rows if row.cause == CORRUPT)
    session.put_rows(file, rows)


def finish_rows(session: LiveSession) -> None:
    """Store the rows of ops that never came, drop rows that no longer belong to the run, and number what the json does not know."""
    with session.store.transaction():
        kept: Set[str] = set()
        places = session.catalogue.by_place()
        unnamed = _unnamed(session)
        for identity in session.identities():
            files = places.get(identity, [])
            rows = list(unnamed.get(identity, []))
            there = [file for file in files if file.has_rows or file.state != GONE]
            if (not there and not rows) or not session.is_taken(identity):
                continue
            _number(session, identity, there, [row.op for row in rows])
            rows += session.place(identity).absent([file.entry() for file in there])
            kept.update(row_key(row) for row in rows)
            session.put_rows(None, rows)
        files = [file for file in session.catalogue.files.values() if file.state != EARLIER and session.is_taken(file.identity)]
        known = {file.rel for file in files}
        stale = [key for key, target in session.store.keys_by_file() if target not in known and key not in kept]
        if stale:
            session.store.remove(stale, "no longer part of the run")


def _unnamed(session: LiveSession) -> Dict[Place, List[Row]]:
    found: Dict[Place, List[Row]] = {}
    for path, identity in sorted(session.catalogue.unresolved.items()):
        if os.path.exists(path):
            found.setdefault(identity, []).append(session.place(identity).unnamed(session.catalogue.rel(path)))
    return found


def _number(session: LiveSession, identity: Place, files: List[TargetFile], unnamed: List[str]) -> None:
    """Number the ops that the json does not know as compare does, whatever order they came in."""
    names = [file.op_name for file in files if file.state != EARLIER] + unnamed
    planner = session.place(identity)
    unknown = list(dict.fromkeys(name for name in names if not planner.knows(name)))
    planner.number(unknown)
    base = planner.first_free_index()
    session.store.renumber(identity, {name: base + number for number, name in enumerate(unknown)})
