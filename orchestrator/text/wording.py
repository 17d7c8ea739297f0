"""Lists, counts, sizes and shares as sentences have them."""

from __future__ import annotations

import math
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


def percent(value: float) -> str:
    """Return a relative distance in per cent with two digits: ``0.026 %``, ``1.0 %``, ``140 %``."""
    if math.isnan(value):
        return "an unknown amount"
    scaled = 100.0 * value
    if math.isinf(scaled) or scaled >= 1e6:
        return "more than a million %"
    if scaled < 1e-6:
        return "0 %" if scaled == 0 else "less than 0.000001 %"
    places = max(0, 1 - int(math.floor(math.log10(scaled))))
    return "%.*f %%" % (places, scaled)
