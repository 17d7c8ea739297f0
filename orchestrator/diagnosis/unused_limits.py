"""Limits for types and ops that no row of a run has: most likely a typing error."""

from __future__ import annotations

from typing import Collection, Dict, List, Mapping

from ..judging.limits import DEFAULTS, VENDOR, Limits, Subject
from ..naming import nearest_names
from ..tensors.dtypes import dtype_by_name

_WORDS = {
    "op": "no operator of this run is called so",
    "type": "no operator of this run is of that type",
    "dtype": "no tensor of this run is of that type",
}
_MOST_SAID = 5
_NEAREST = 3


def unused_limits(limits: Limits, names: Mapping[str, Collection[str]]) -> List[str]:
    """Return a sentence for each selector of the limits, but for those that goldwatch has by
    itself, that chose no row.

    Parameters
    ----------
    names
        What limits may be restricted to and rows have: each ``op``, ``type`` and ``dtype`` (empty
        where a row has none).
    """
    said: Dict[str, str] = {}
    for limit in limits.entries:
        if not limit.selector or limit in DEFAULTS or limit in VENDOR or limit.key in said:
            continue
        if limit.selector == "dtype" and dtype_by_name(limit.pattern) is not None:
            continue  # a type that there is, but not in this run
        known = names[limit.selector]
        if limit.pattern in known or any(
            limit.matches(Subject(**{_FIELDS[limit.selector]: name})) for name in known
        ):
            continue
        near = nearest_names(limit.pattern, sorted(filter(None, known)), _NEAREST, 0.5)
        text = "the limit for %s decided nothing: %s" % (limit.key, _WORDS[limit.selector])
        said[limit.key] = text + ("; the nearest are %s" % ", ".join(near) if near else "")
    found = list(said.values())
    more = (
        ["and %d more limits decided nothing" % (len(found) - _MOST_SAID)]
        if len(found) > _MOST_SAID
        else []
    )
    return found[:_MOST_SAID] + more


_FIELDS = {"op": "op", "type": "op_type", "dtype": "dtype"}
