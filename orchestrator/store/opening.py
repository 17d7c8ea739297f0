"""Opening the store of an OUT: created, continued, read, or refused."""

from __future__ import annotations

import json
import os
import sqlite3
from os.path import commonprefix
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from ..base.errors import EnvironmentProblem, GoldwatchError, MissingPath
from ..base.notes import Note, note
from ..base.wording import listed, plural
from .database import connect_reader, connect_writer, set_journal, translated
from .facts_and_events import read_fact
from .integrity import (
    DamagedLine,
    DamagedStore,
    ForeignStore,
    OtherResults,
    check_identity,
    check_structure,
    damaged_lines,
    is_new,
    make_tables,
)
from .row_schema import LAST_GIVEN_ID

STORE_FILE = "run.sqlite"

_NAMED = 3


class Opened(NamedTuple):
    """A store that may be written.

    Attributes
    ----------
    continued
        It was there before. Else a transaction is open that its tables were made in.
    damaged
        Lines that are not as they were stored.
    facts
        Facts of a store that was discarded which stay.
    notes
        What the user must know.
    """

    connection: sqlite3.Connection
    continued: bool
    damaged: List[DamagedLine]
    facts: Dict[str, Any]
    notes: List[Note]


def open_to_write(path: str, inputs: Mapping[str, Any], hosts: bool = False) -> Opened:
    """Open the store of a run of these inputs, or make it.

    Raises
    ------
    OtherResults
        It is of other inputs.
    DamagedStore, ForeignStore
        It cannot be used.
    EnvironmentProblem
        It cannot be opened or written.
    """
    connection = connect_writer(path)
    try:
        with translated(path):
            if is_new(connection):
                return _make(connection, path, hosts)
            check_identity(connection, path)
            check_structure(connection, path)
            damaged = list(damaged_lines(connection))
            lost = sorted(line.about for line in damaged if line.table == "run")
            if lost:
                raise DamagedStore(
                    "damaged: what it says of the run (%s) is not as it was stored"
                    % ", ".join(lost[:_NAMED]),
                    path,
                )

            check_inputs(os.path.dirname(path), read_fact(connection, path, "inputs"), inputs)
            return Opened(
                connection,
                True,
                damaged,
                {},
                _damage_note(path, damaged) + set_journal(connection, path),
            )
    except BaseException:
        connection.close()
        raise


def _make(connection: sqlite3.Connection, path: str, hosts: bool) -> Opened:
    notes = set_journal(connection, path)
    make_tables(connection, hosts)
    return Opened(connection, False, [], {}, notes)


def _damage_note(path: str, damaged: List[DamagedLine]) -> List[Note]:
    if not damaged:
        return []
    ops = list(dict.fromkeys(line.about for line in damaged if line.table == "row"))
    named = ", ".join(ops[:_NAMED]) + (", …" if len(ops) > _NAMED else "")
    rows = sum(line.table == "row" for line in damaged)
    others = len(damaged) - rows
    parts = [plural(rows, "row") + (" (%s)" % named if named else "")] * bool(rows)
    parts += [plural(others, "note") + " of files and events"] * bool(others)
    return [note("damaged-store", path, " and ".join(parts))]


def open_to_read(path: str) -> sqlite3.Connection:
    """Open a store read-only.

    Raises
    ------
    MissingPath
        There is none.
    DamagedStore, ForeignStore, EnvironmentProblem
        It cannot be used.
    """
    if not os.path.isfile(path):
        folder = os.path.dirname(path)
        hint = "name the folder that compare, watch or run wrote its results to"
        if os.path.isfile(folder):
            raise MissingPath(
                "%s is a file: the folder that holds it is wanted" % folder, hint=hint
            )
        raise MissingPath(
            "%s: there is no %s" % (folder, STORE_FILE)
            if os.path.exists(folder)
            else "%s does not exist" % (folder or "''"),
            hint=hint,
        )
    try:
        return _opened_to_read(path)
    except (DamagedStore, ForeignStore) as error:
        # Nothing is to be written here, so nothing is to be discarded.
        error.kind, error.hint = (
            "unreadable_store",
            "compare again; a run that goes on, or was killed, is copied with its run.sqlite-wal",
        )
        raise


def _opened_to_read(path: str) -> sqlite3.Connection:
    connection = connect_reader(path)
    try:
        with translated(path):
            check_identity(connection, path)
            check_structure(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def tables_of(path: str) -> List[Any]:
    """Return the names of the result tables that the store at ``path`` noted; none where it cannot
    be told.
    """
    try:
        connection = connect_reader(path)
        try:
            with translated(path):
                names = read_fact(connection, path, "result_files")
        finally:
            connection.close()
    except GoldwatchError:
        return []
    return names if isinstance(names, list) else []


def highest_id(path: str) -> int:
    """Return the highest id that the store at ``path`` ever gave to a row; 0 where it cannot be
    told.
    """
    try:
        connection = connect_reader(path)
        try:
            with translated(path):
                line = connection.execute(LAST_GIVEN_ID).fetchone()
        finally:
            connection.close()
    except GoldwatchError:
        return 0
    return line[0] if line and isinstance(line[0], int) and 0 <= line[0] < 1 << 53 else 0


_MOST_CHARACTERS, _AROUND = 40, 16
_FIRST_SHOWN = ("target", "golden", "model")


def canonical(value: Any) -> str:
    """Return a JSON value as text that is the same for equal values."""
    return json.dumps(value, sort_keys=True)


def check_inputs(out: str, before: Any, now: Mapping[str, Any]) -> None:
    """Raise OtherResults, naming what differs, unless a store's inputs are those of this run."""
    now = json.loads(canonical(now))
    before = before if isinstance(before, dict) else {}
    different = sorted(key for key in set(before) | set(now) if before.get(key) != now.get(key))
    if different:
        merges = [kind.get("command") == "merge" for kind in (before, now)]
        if merges[0] != merges[1]:
            what = "a merge of the runs of several hosts", "the run of one host"
            message = "%s holds %s, not %s" % (out, *(what if merges[0] else what[::-1]))
        elif "command" in different:
            # A comparison of what is all there names no command.
            commands = [kind.get("command") or "compare" for kind in (before, now)]
            message = "%s was made by %s: %s does not go on with it" % (out, *commands)
        else:
            shown, *others = sorted(different, key=lambda key: (_FIRST_SHOWN + (key,)).index(key))
            change = (
                "limits: " + _limit_changes(before[shown], now[shown])
                if shown == "limits" and isinstance(before.get(shown), dict)
                else "%s was %s, is %s" % (shown, *_difference(before.get(shown), now.get(shown)))
            )
            others_text = "; other, too: %s" % listed(others, 4) if others else ""
            message = "%s holds other results: %s%s" % (out, change, others_text)
        raise OtherResults(message, hint="choose another folder, or discard those")


def _limit_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return which entries of two tables of limits differ: ``CosineSimilarity > 0.99, now >
    0.9999``.
    """
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    plain = [name for name in different if name != "rules"]
    if not plain:
        return "those of single types and ops differ"
    texts = [
        " and ".join("%s %.9g" % each for each in (limits.get(plain[0]) or {}).items())
        or "no limit"
        for limits in (before, now)
    ]
    more = " and %d more" % (len(different) - 1) if len(different) > 1 else ""
    return "%s %s, now %s%s" % (plain[0], *texts, more)


def _difference(before: Any, now: Any) -> Tuple[str, str]:
    """Return two values as text; of long ones what differs, and a little around it."""
    texts = canonical(before), canonical(now)
    if max(map(len, texts)) <= _MOST_CHARACTERS:
        return texts
    front = len(commonprefix(texts))
    behind = len(commonprefix([text[front:][::-1] for text in texts]))
    first, second = (
        _window(text, max(0, front - _AROUND), min(len(text), len(text) - behind + _AROUND))
        for text in texts
    )
    return first, second


def _window(text: str, start: int, end: int) -> str:
    end = min(end, start + _MOST_CHARACTERS)
    return "%s%s%s" % ("…" * (start > 0), text[start:end], "…" * (end < len(text)))


SIDE_FILES = ("", "-wal", "-shm", "-journal")


def make_folder(out: str) -> None:
    """Make OUT unless it is there; raise MissingPath when it is a file, EnvironmentProblem when it
    cannot be made.
    """
    if os.path.lexists(out) and not os.path.isdir(out):
        raise MissingPath(
            "OUT: %s is not a folder" % out, hint="choose another folder for the results"
        )
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(
            "OUT: %s cannot be made: %s" % (out, error.strerror),
            hint="choose another folder for the results",
        ) from error


def discard_store(path: str) -> None:
    """Remove a store with the files that SQLite keeps beside it; raise EnvironmentProblem when that
    fails.
    """
    for suffix in SIDE_FILES:
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise EnvironmentProblem(
                "%s: cannot be removed: %s" % (path + suffix, error.strerror)
            ) from error
