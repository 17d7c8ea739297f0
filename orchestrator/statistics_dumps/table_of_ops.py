"""Tables of statistics of a whole folder, whose rows name their ops: each op has a path of its own.

The path is the file's, and below it the name that the dump would have, as if the file were a
folder.
"""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from ..errors import FormatError, GoldwatchError
from ..filesystem.safe_reading import open_input
from ..naming import MAPPING_FILE, parse_dump_name
from .statistics_csv import SUFFIX, TensorRow, names_ops, read_table

_HEAD_BYTES = 4096


def is_table_of_ops(path: str) -> bool:
    """Return whether a file is a table of statistics whose rows name their ops, by its first
    line."""
    if not path.endswith(SUFFIX) or os.path.basename(path) == MAPPING_FILE:
        return False
    try:
        with open_input(path) as stream:
            line = stream.read(_HEAD_BYTES).split(b"\n", 1)[0]
    except (OSError, GoldwatchError):
        return False
    return names_ops(line.decode("utf-8", "replace"))


def is_statistics_file(path: str) -> bool:
    """Return whether a file holds statistics: by its name, or as :func:`is_table_of_ops`."""
    dump = parse_dump_name(os.path.basename(path))
    return is_table_of_ops(path) if dump is None else dump.kind == "stats"


def table_paths(path: str) -> List[str]:
    """Return the path of each op of a table of ops in order of first occurrence; none if it cannot
    be read.
    """
    try:
        return [os.path.join(path, name) for name in read_table(path).rows]
    except (FormatError, OSError):
        return []


def table_of(path: str) -> Optional[str]:
    """Return the table of ops that a path points into; None for an ordinary file."""
    folder = os.path.dirname(path)
    return (
        folder
        if folder.endswith(SUFFIX) and path.endswith(SUFFIX) and os.path.isfile(folder)
        else None
    )


def rows_signature(path: str) -> Optional[Tuple[int, int, int]]:
    """Return (bytes, checksum, inode) of an op's rows in a table of ops, or None."""
    table = table_of(path)
    if table is None:
        return None
    try:
        mark = read_table(table).marks.get(os.path.basename(path))
        return None if mark is None else (*mark, os.stat(table).st_ino)
    except (FormatError, OSError):
        return None


def rows_of(path: str) -> Tuple[TensorRow, ...]:
    """Return the rows of a file of one dump, or of an op of a table of ops.

    Raises
    ------
    FormatError
        The file is not a table of statistics, or the op is not in it.
    MissingPath, OSError
        The file cannot be read.
    """
    table = table_of(path)
    table_read = read_table(table or path)
    name = "" if table is None else os.path.basename(path)
    if name not in table_read.rows:
        raise FormatError(table_read.problem or "no row of statistics", path)
    return table_read.rows[name]
