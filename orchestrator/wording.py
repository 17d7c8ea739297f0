"""Lists and counts as sentences have them."""

from __future__ import annotations

from typing import Sequence


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return names joined by commas, ``and 5 more`` for what is beyond ``most``."""
    shown = between.join(names[:most])
    return shown if len(names) <= most else "%s%sand %d more" % (shown, " " if between == ", " else between, len(names) - most)


def plural(count: int, noun: str) -> str:
    """Return ``1 row`` or ``2 rows``."""
    return "%d %s%s" % (count, noun, "" if count == 1 else "s")
