"""Lists, counts, sizes and shares as sentences have them."""

from __future__ import annotations

import math
import re
from typing import Iterable, Sequence

# Longer ones first.
_OF_TWO_DUMPS = {
    "are equal to golden data": "are equal in both dumps",
    "so the error is its own": "so what differs is its own",
    "so the error arises here": "so what differs arises here",
    "edge that the original model has otherwise": "edge that the other build has otherwise",
    "make the golden data again; of a Caffe net without in-place layers (goldwatch golden caffe "
    "deinplace)": "look at what the other build has there",
    "make the golden data again": "look at what the other build has there",
    "golden inputs": "the other dump's inputs",
    "make golden data of all inputs and outputs of this operator": "dump all inputs and outputs of "
    "this operator",
    "the golden data are wrong": "the other dump is wrong there",
    "its golden data are": "the other dump's values are",
    "its golden data do": "the other dump's values do",
    "the golden data of": "the other dump's values of",
    "its golden data": "the other dump's values",
    "the golden data": "the other dump",
    "golden data are": "the other dump's values are",
    "golden data have": "the other dump has",
    "golden data hold": "the other dump holds",
    "golden data do": "the other dump's values do",
    "golden data": "the other dump",
    "the golden run": "the other run",
    "golden run": "the other run",
    "its golden one": "the other dump's",
    "the golden ones": "the other dump's",
    "golden ones": "the other dump's",
    "its golden tensor": "the other dump's tensor",
    "the golden tensor": "the other dump's tensor",
    "the golden's": "the other dump's",
    "the golden one": "the other dump's",
    "the golden": "the other dump's values",
    "its golden output": "the other dump's output",
    "golden": "the other dump's values",
}


def of_two_dumps(text: str, names: Iterable[str]) -> str:
    """Return a sentence about a tensor and golden data as one about two dumps, of two builds or two
    runs, of which neither is golden.

    Parameters
    ----------
    names
        Of ops that the sentence may name: they stay as they are, as commands do.
    """
    kept = sorted(filter(None, names), key=len, reverse=True)
    # No part of a longer name, which has other signs around it.
    pattern = r"(?<![\w/.:-])(?:%s)(?![\w/.:-]*[\w/-])"
    alternatives = [*map(re.escape, [*kept, *_OF_TWO_DUMPS])]
    words = re.compile(pattern % "|".join([r"goldwatch(?: [a-z-]+)+", *alternatives]))
    said = {name: text for name, text in _OF_TWO_DUMPS.items() if name not in kept}
    return words.sub(lambda found: said.get(found.group(), found.group()), text)


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
