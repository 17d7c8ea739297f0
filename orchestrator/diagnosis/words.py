"""Numbers as the verdict's sentences have them."""

from __future__ import annotations

import math


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
