"""Rows of a replay judged as ``compare`` judges operators: by what the arithmetic of each explains,
where that can be computed.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

from ..diagnosis.own_error.recomputed_estimates import sentence_of
from ..judging.by_recomputation import RIGHT, WRONG, judge_recomputed
from ..metrics.row import FAIL, PASS, Row
from ..recomputing.recomputed_output import Recomputed
from ..recomputing.recomputer import Recomputer

_EXPLAINED = "no more than the operator's arithmetic explains"


def judged_rows(rows: Iterable[Row], recomputer: Recomputer) -> List[Row]:
    """Return the rows whose verdict is another than the limits': an operator is wrong beyond what
    its arithmetic explains.
    """
    compared = [row for row in rows if row.kind == "output" and row.verdict in (PASS, FAIL)]
    computed: Dict[Tuple[str, int], Recomputed] = {}
    for op in dict.fromkeys(row.op for row in compared):
        if recomputer.knows(op):
            computed.update(((op, one.number), one) for one in recomputer.recompute(op))
    verdicts = judge_recomputed(computed)
    changed = []
    for row in compared:
        one = verdicts.get((row.op, row.tensor_index or 0))
        if one is None or one.own_error is None:
            continue
        if one.state == RIGHT and row.verdict == FAIL:
            changed.append(
                row.but(verdict=PASS, reason="%s, but %s" % (row.reason, _EXPLAINED), decided_by="")
            )
        elif one.state == WRONG and row.verdict == PASS:
            changed.append(
                row.but(
                    verdict=FAIL,
                    reason="; ".join(filter(None, (sentence_of(one), row.reason))),
                    decided_by="",
                )
            )
    return changed
