"""What is told of an output that is wrong: a variant of its operator, or what was written in its
place.
"""

from __future__ import annotations

from ..operators.variants import FACTOR_OF
from .other_constants import SOLVED
from .run_variants import OF_ANOTHER, WRITTEN_INSTEAD, written_instead
from .variant_search import VariantSearch
from .written import Written

_MORE = 0.01
"""Of the elements, by how many more factors of an axis' indices agree than solved constants do
where they explain it better: a channel times 0.98 is, but for 4 % of its elements, another bias,
too (attribute_trial: of constants that are others both agree at all elements)."""


def explained_or_written(search: VariantSearch, written: Written) -> VariantSearch:
    """Return what came of a search for variants, with what was written instead where that tells
    more.
    """
    # One factor or order for all tells more than constants that come to it.
    is_solved = bool(search.explained) and all(
        entry.device.startswith(SOLVED) for entry in search.explained
    )
    # A factor of the output needs no constant of the operator, one of its input does.
    is_loose = is_solved or (
        bool(search.explained)
        and all(entry.name.startswith(FACTOR_OF) for entry in search.explained)
    )
    if search.explained and search.explained[0].device != "missing" and not is_loose:
        return search
    instead, tried, too_few = written_instead(
        written, WRITTEN_INSTEAD if is_loose or not search.explained else OF_ANOTHER
    )
    agree = search.explained[0].agree if search.explained else 0
    size = written.output.actual.size
    if is_loose and (
        instead is None
        or (instead.several and instead.agree <= agree + _MORE * size)
        or (not is_solved and instead.agree < agree)
    ):
        return search
    return search._replace(
        explained=[] if is_loose else search.explained,
        instead=instead,
        tried=[*search.tried, *tried],
        too_few=too_few,
        # What was written explains it without constants that only chance may have made.
        possible=[
            entry
            for entry in search.possible
            if instead is None or not entry.device.startswith(SOLVED)
        ],
    )
