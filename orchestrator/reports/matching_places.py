"""Which place of one run stands for which of another: devices, models and steps by name, else in
order.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..base.notes import note
from ..base.wording import listed
from ..dumps.place import Place

Part = Optional[str]

_MOST_NAMES = 6


def paired(
    first: Sequence[Part], second: Sequence[Part], in_order: bool = False
) -> Dict[Part, Part]:
    """Return for names of the second run those of the first that they stand for.

    Names that both have stand for themselves, and then no others are paired. Where they share none,
    they are paired in their order if they are equally many; with ``in_order`` also if not, as far
    as they go.
    """
    common = [name for name in second if name in set(first)]
    if common:
        return {name: name for name in common}
    return dict(zip(second, first)) if in_order or len(first) == len(second) else {}


class PlaceMatch:
    """Finds for a place of the second run that of the first.

    The time and the number of a model (``model_id``) differ from run to run: they only tell several
    apart that one device of a run has. Host, device, model and step are the same by name; where two
    runs share no name, and have equally many, they are paired in order. A run without a host is
    joined with any of a merge's hosts, wherever only one of them has the device, model and step.

    Parameters
    ----------
    first, second
        The places of both runs, in the order of their tables.
    host
        Of a merge the host that the other run is, where that is known.
    results
        Of a merge the folder of each host's results, by its name.

    Attributes
    ----------
    notes
        What is compared with what under another name, and what cannot be.
    apart
        Why no place of one run stands for any of the other: the names that they do not share; empty
        where one does.
    """

    def __init__(
        self,
        first: Sequence[Place],
        second: Sequence[Place],
        host: Part = None,
        results: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._named = {
            part: paired(_values(first, part), _values(second, part))
            for part in ("device", "model", "step")
        }
        of_first, of_second = _by_host(first), _by_host(second)
        hosts = paired(list(of_first), list(of_second))
        pairs = list(hosts.items())
        if not pairs and (None in of_first or None in of_second):
            # A run without a host, and a merge of several.
            pairs = [
                pair
                for pair in itertools.product(of_second, of_first)
                if host is None or host in pair
            ]
        matches = [
            pair
            for other, before in pairs
            for pair in self._pairs(of_first[before], of_second[other])
        ]
        claims = Counter(place for pair in matches for place in enumerate(pair))
        self._matches = {
            place: before for place, before in matches if claims[0, place] == claims[1, before] == 1
        }
        self.notes = [
            note("compared-places", part, name, other)
            for part, names in (("host", hosts), *self._named.items())
            for name, other in names.items()
            if name != other and (part != "host" or None not in (name, other))
        ]
        doubtful = list(
            dict.fromkeys(
                before if before.host is None else place
                for place, before in matches
                if claims[0, place] + claims[1, before] > 2
            )
        )
        if doubtful:
            many = (
                "%d places" % len(doubtful)
                if len(doubtful) > 1
                else doubtful[0].label() or "the only place"
            )
            folders = ["%s (host %s)" % (path, name) for name, path in (results or {}).items()]
            more = ": " + listed(folders, _MOST_NAMES) if folders else ""
            self.notes.append(note("doubtful-places", many, more))
        self.apart = "" if self._matches or not (first and second) else _apart(first, second)
        if self.apart and doubtful:
            self.apart += "; compare the results of one host alone"

    def _pairs(
        self, first: Sequence[Place], second: Sequence[Place]
    ) -> Iterator[Tuple[Place, Place]]:
        """Yield the places of a host of the second run with those of one of the first that they
        stand for.
        """
        of_first = set(first)
        times = paired(_values(first, "time"), _values(second, "time"), in_order=True)
        numbers = self._numbers(first, second)
        host = first[0].host
        for place in second:
            names = {part: getattr(place, part) for part in self._named}
            known = numbers.get((place.device, place.model), {})
            if (
                place.time in times
                and place.model_id in known
                and all(name in self._named[part] for part, name in names.items())
            ):
                parts = {part: self._named[part][name] for part, name in names.items()}
                stands = Place(
                    time=times[place.time], model_id=known[place.model_id], host=host, **parts
                )
                if stands in of_first:
                    yield place, stands

    def _numbers(
        self, first: Sequence[Place], second: Sequence[Place]
    ) -> Dict[Tuple[Part, Part], Dict[Part, Part]]:
        """Return by device and model of the second run which number stands for which of the first:
        each device numbers its own.
        """
        of_first, of_second = _by_model(first), _by_model(second)
        devices, models = self._named["device"], self._named["model"]
        return {
            (device, model): paired(
                of_first.get((devices.get(device), models.get(model)), []), ids, in_order=True
            )
            for (device, model), ids in of_second.items()
        }

    def of(self, place: Place) -> Optional[Place]:
        """Return the first run's place that one of the second run stands for; None where there is
        none.
        """
        return self._matches.get(place)


def _by_host(places: Sequence[Place]) -> Dict[Part, List[Place]]:
    by_host: Dict[Part, List[Place]] = {}
    for place in places:
        by_host.setdefault(place.host, []).append(place)
    return by_host


def _by_model(places: Sequence[Place]) -> Dict[Tuple[Part, Part], List[Part]]:
    by_model: Dict[Tuple[Part, Part], Dict[Part, None]] = {}
    for place in places:
        by_model.setdefault((place.device, place.model), {})[place.model_id] = None
    return {key: list(ids) for key, ids in by_model.items()}


def _values(places: Sequence[Place], part: str) -> List[Part]:
    return list(dict.fromkeys(getattr(place, part) for place in places))


def _apart(first: Sequence[Place], second: Sequence[Place]) -> str:
    """Return the names of both sides, of the parts that differ."""
    parts = [
        part
        for part in ("host", "device", "model", "step")
        if set(_values(first, part)) != set(_values(second, part))
    ]
    return "the first run has %s, the second one %s" % tuple(
        ", ".join(_named(part, _values(places, part)) for part in parts) or "the same"
        for places in (first, second)
    )


def _named(part: str, names: List[Part]) -> str:
    known = [name for name in names if name is not None]
    shown = (
        known
        if len(known) <= _MOST_NAMES
        else [*known[:_MOST_NAMES], "%d more" % (len(known) - _MOST_NAMES)]
    )
    return (
        "no %s" % part
        if not known
        else "%s %s" % (part if len(known) == 1 else part + "s", ", ".join(shown))
    )
