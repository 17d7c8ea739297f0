"""Checks whether a file is complete by the size that its kind prescribes."""

from __future__ import annotations

import os
from typing import Optional

from ..base.errors import TruncatedFile
from ..base.fast_dataclasses import dataclass
from ..base.safe_reading import open_regular
from .dump_header import COMPLETE, HEADERLESS, LONG, SHORT, load_header
from .npy import load_npy_header

NO_LAW = "no_law"
_WITHOUT_LAW = (".csv", ".txt", ".json", ".log", ".html", ".xml", ".info")


@dataclass(frozen=True)
class Completeness:
    """The result of :func:`probe`.

    Attributes
    ----------
    state
        ``complete``; ``short`` (still growing, or truncated); ``long`` (written twice, or corrupt);
        ``headerless`` (it does not begin like a file of its kind); ``no_law`` (files of this kind
        do not state their size).
    expected_bytes
        The prescribed size, or a known lower bound; None when unknown.
    actual_bytes
        The file's size.
    nulls_left_out
        With ``short``: exactly the tensors with a null address are missing, which a device never
        writes. The file may still grow; after its writer has ended, the other tensors are readable.
    """

    state: str
    expected_bytes: Optional[int]
    actual_bytes: int
    nulls_left_out: bool = False


def probe(path: str) -> Completeness:
    """Check whether the file at ``path`` is complete, reading only its header.

    A dump file is complete when its size is 8 + header length + the sum of all sizes that the
    header gives, an npy when it is header + count * itemsize. CSV, text and JSON files have no such
    law. A version 1 file that ends between two records looks complete.

    Raises
    ------
    MissingPath, InputError
        The file cannot be opened or read.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _WITHOUT_LAW:
        descriptor, size = open_regular(path)
        os.close(descriptor)
        return Completeness(NO_LAW, None, size)
    if suffix == ".npy":
        return _probe_npy(path)
    header = load_header(path)
    if header.nulls_left_out:
        return Completeness(SHORT, header.law_bytes, header.actual_bytes, True)
    return Completeness(header.state, header.expected_bytes, header.actual_bytes)


def _probe_npy(path: str) -> Completeness:
    header = load_npy_header(path)
    if header.error is not None and header.data_bytes is None:
        if isinstance(header.error, TruncatedFile):
            return Completeness(SHORT, header.error.expected_bytes, header.actual_bytes)
        return Completeness(HEADERLESS, None, header.actual_bytes)
    expected = header.data_offset + (header.data_bytes or 0)
    state = (
        COMPLETE
        if header.actual_bytes == expected
        else SHORT
        if header.actual_bytes < expected
        else LONG
    )
    return Completeness(state, expected, header.actual_bytes)
