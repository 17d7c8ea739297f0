"""Rows sent from one store into another: packed lines, and what of them changed on the way."""

from __future__ import annotations

import pickle
import zlib
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from .row_schema import SqlValue, from_sql_text, to_sql_text
from .row_sql import Line, checksum
from .row_table import REASON, RowTable


def packed(lines: Sequence[Any]) -> bytes:
    """Return lines as bytes to be sent; :func:`unpacked` is the inverse."""
    return zlib.compress(pickle.dumps(lines, protocol=4), 1)


def unpacked(piece: bytes) -> List[Any]:
    """Return the lines of :func:`packed`, which must be goldwatch's own: they are unpickled."""
    lines: List[Any] = pickle.loads(zlib.decompress(piece))
    return lines


def changed_lines(
    rows: RowTable, known: Iterable[Line], called: Sequence[Tuple[str, str]]
) -> Tuple[Tuple[bytes, ...], List[str]]:
    """Return what became of rows.

    Parameters
    ----------
    known
        What their store was begun with.
    called
        Beginnings of paths in the rows' reasons, and what these are to be called there.

    Returns
    -------
    (pieces, keys)
        Packed, the lines that are not among the known ones as they are; and the keys of those that
        are gone.
    """
    sums: Dict[SqlValue, SqlValue] = {line[0]: line[-1] for line in known}
    pieces = []
    for lines in rows.lines():
        fresh = [
            line
            for line in (_renamed(line, called) for line in lines)
            if sums.pop(line[0], None) != line[-1]
        ]
        if fresh:
            pieces.append(packed(fresh))
    return tuple(pieces), [str(from_sql_text(key)) for key in sums]


def _renamed(line: Line, called: Sequence[Tuple[str, str]]) -> Line:
    reason = text = from_sql_text(line[REASON])
    for path, name in called if text else ():
        text = text.replace(path, name)
    if text == reason:
        return line
    values = [*line[:REASON], to_sql_text(text), *line[REASON + 1 : -1]]
    return (*values, checksum(values))
