"""What differs between two dumps of one model, of two builds or two runs: the first operator whose
inputs are equal and whose output is not, also within the limits; operators that only one of them
has.
"""

from __future__ import annotations

from typing import Iterable, List, Optional

from ..diagnosis.culprit_sentence import where_words
from ..diagnosis.row_digest import DISTANCE, execution_key
from ..metrics.row import DUMP_MISSING, FAIL, GOLDEN_MISSING, PASS, Row
from ..naming import printable
from ..store.store import RunStore
from ..text.wording import listed, percent, plural

_SHOWN = 6


def differences_of_builds(store: RunStore, named: Optional[str]) -> str:
    """Return it as sentences, for the end of the run's own.

    An operator of which no input was compared is the first as well: what runs before it is equal.

    Parameters
    ----------
    named
        The operator that is outside its limits first, of which all is said already.
    """
    first: Optional[Row] = None
    target_alone: List[str] = []
    golden_alone: List[str] = []
    for row in store.rows():
        if row.cause == GOLDEN_MISSING and row.kind != "input":
            target_alone.append(row.op)
        elif row.cause == DUMP_MISSING and not row.target_file:
            golden_alone.append(row.op)
        elif _differs(row) and (first is None or execution_key(row) < execution_key(first)):
            first = row
    sentences = [
        "%s in %s alone: %s." % (plural(len(names), "operator"), side, listed(names, _SHOWN))
        for side, names in (
            ("TARGET", list(dict.fromkeys(target_alone))),
            ("GOLDEN", list(dict.fromkeys(golden_alone))),
        )
        if names
    ]
    if first is None:
        sentences.insert(0, "All tensors that both dumps have are equal.")
    else:
        rows = store.rows(place=first.place, op=first.op)
        sentences.insert(0, _first_difference(first, rows, named))
    return " ".join(filter(None, sentences))


def _first_difference(first: Row, rows: Iterable[Row], named: Optional[str]) -> str:
    inputs = [row for row in rows if row.kind == "input" and row.verdict in (PASS, FAIL)]
    unequal = [row for row in inputs if _differs(row)]
    where = "%s (%s)%s" % (printable(first.op), first.op_type, where_words(first.place))
    if unequal:
        return (
            "The first tensor that differs is an input, %s (%s): the two runs had other inputs, or "
            "what makes it was not compared." % (printable(unequal[0].tensor), _amount(unequal[0]))
        )
    if first.op == named:
        return ""
    return "The first difference of the two dumps is in %s: %s, %s differs (%s)." % (
        where,
        "its inputs are equal" if inputs else "what was compared before it is equal",
        printable(first.tensor),
        _amount(first),
    )


def _differs(row: Row) -> bool:
    """Return whether a compared tensor differs at all; one without a distance (bool, NaN) does if
    it fails.
    """
    distance = row.metrics.get(DISTANCE)
    if row.verdict not in (PASS, FAIL):
        return False
    return row.verdict == FAIL if distance is None or distance != distance else distance > 0


def _amount(row: Row) -> str:
    distance = row.metrics.get(DISTANCE)
    if distance is None or distance != distance:
        return printable(row.reason) or "outside its limits"
    return percent(distance)
