"""What tells the places of a run apart, as short as it can be."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from ..dumps.place import Place
from ..naming import printable
from ..text.terminal_width import shorten

_SHORT_NAME = 11
_ORDER = ("host", "device", "step", "model", "model_id", "time")


def place_names(places: Sequence[Place]) -> Dict[Place, str]:
    """Return for each place host, device and step, and no more than need be; long names cut where
    that leaves them different.
    """
    labels: List[str] = []
    for most in (_SHORT_NAME, None):
        for count in range(3, len(_ORDER) + 1):
            names = [
                name
                for name in _ORDER[:count]
                if len({getattr(place, name) for place in places}) > 1
            ]
            labels = [_label(place, names, most) for place in places]
            if len(set(labels)) == len(labels):
                return dict(zip(places, labels))
    return dict(zip(places, labels))


def _label(place: Place, names: Sequence[str], most: Optional[int]) -> str:
    parts = ((name, getattr(place, name)) for name in names)
    known = ((name, printable(part)) for name, part in parts if part is not None)
    return (
        ", ".join(
            "%s %s" % (name, part if most is None else shorten(part, most)) for name, part in known
        )
        or "no folder of a step"
    )
