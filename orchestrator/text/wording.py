"""Lists, counts and sizes as sentences have them."""

from __future__ import annotations

from typing import Sequence


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return names joined by commas, ``and 5 more`` for what is beyond ``most``."""
    shown = between.join(names[:most])
    return (
        shown
        if len(names) <= most
        else "%s%sand %d more" % (shown, " " if between == ", " else between, len(names) - most)
    )


def plural(count: int, noun: str) -> str:
    """Return ``1 row`` or ``2 rows``."""
    return "%d %s%s" % (count, noun, "" if count == 1 else "s")


def size_text(size_bytes: int) -> str:
    """Return a size for people, in powers of 1024: ``812 bytes``, ``1.5 GiB``."""
    power = min((size_bytes.bit_length() - 1) // 10, 6)
    return (
        "%.1f %siB" % (size_bytes / 1024**power, " KMGTPE"[power])
        if power > 0
        else "%d bytes" % size_bytes
    )
