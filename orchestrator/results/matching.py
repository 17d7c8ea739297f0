"""Which place of one run stands for which of another: devices, models and steps by name, else in order."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from ..dumps.place import Place

Part = Optional[str]


def paired(first: Sequence[Part], second: Sequence[Part], in_order: bool = False) -> Dict[Part, Part]:
    """Return for names of the second run those of the first that they stand for.

    Names that both have stand for themselves, and then no others are paired. Where they share none, they are paired in their order if they
    are equally many; with ``in_order`` also if not, as far as they go.
    """
    common = [name for name in second if name in set(first)]
    if common:
        return {name: name for name in common}
    return dict(zip(second, first)) if in_order or len(first) == len(second) else {}


class PlaceMatch:
    """Finds for a place of the second run that of the first.

    The time and the number of a model (``model_id``) differ from run to run: they only tell several apart that one run has. Device, model
    and step are the same by name; where two runs share no name, and have equally many, they are paired in order.

    Parameters
    ----------
    first, second
        The places of both runs, in the order of their tables.

    Attributes
    ----------
    notes
        What is compared with what under another name.
    """

    def __init__(self, first: Sequence[Place], second: Sequence[Place]) -> None:
        self._times = paired(_values(first, "time"), _values(second, "time"), in_order=True)
        self._named = {part: paired(_values(first, part), _values(second, part)) for part in ("host", "device", "model", "step")}
        self._ids: Dict[Part, Dict[Part, Part]] = {}
        for model, other in self._named["model"].items():
            own = _values([place for place in second if place.model == model], "model_id")
            its = _values([place for place in first if place.model == other], "model_id")
            self._ids[model] = paired(its, own, in_order=True)
        self.notes = [
            "%s %s of the second run is compared with %s of the first" % (part, name, other)
            for part, names in self._named.items()
            for name, other in names.items()
            if name != other
        ]

    def of(self, place: Place) -> Optional[Place]:
        """Return the first run's place that one of the second run stands for; None where there is none."""
        names = {part: getattr(place, part) for part in self._named}
        if place.time not in self._times or any(name not in self._named[part] for part, name in names.items()):
            return None
        ids = self._ids[place.model]
        if place.model_id not in ids:
            return None
        found = {part: self._named[part][name] for part, name in names.items()}
        return Place(time=self._times[place.time], model_id=ids[place.model_id], **found)


def _values(places: Sequence[Place], part: str) -> List[Part]:
    return list(dict.fromkeys(getattr(place, part) for place in places))
