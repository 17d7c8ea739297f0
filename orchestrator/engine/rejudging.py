"""Rows that other rows judge: inputs are judged like the outputs that they are, and what is computed of them by what they are.

A dump file does not hold what its inputs were computed from. So an input passes where its producer's output does, which was judged against
its own inputs (:mod:`goldwatch.comparing.same_dump`, :mod:`goldwatch.comparing.near_ties`); and behind an input that was decided otherwise
than in golden data an output passes that is what its operator makes of the device's own inputs.
"""

from __future__ import annotations

import math
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..comparing.decisions import may_redo
from ..comparing.row import DECIDED_OTHERWISE, FAIL, PASS, Row
from ..comparing.same_dump import CANCELLED
from ..dumps.place import Place
from ..results.store import RunStore
from ..verdict.judging import left_to_inputs, metric_number

_CANCELLED = CANCELLED.partition("%s")[2]
BEHIND = "it is inherited: the operator makes it of the device's own inputs, of which one was decided otherwise near a tie"
"""Remark on such an output."""
_SAME = ("RelativeEuclideanDistance", "CosineSimilarity", "DifferentElements")

Key = Tuple[Place, Optional[str]]


class Rejudging:
    """Judges rows of a run by others, whatever order they come in.

    Parameters
    ----------
    store
        Of the run: it may go on from another one.
    put
        Stores rows.

    Attributes
    ----------
    follows
        Set by the run: tells of a row whether it is what its operator makes of the device's own inputs.
    doubtful
        Outputs failed, or may have before this start, that may follow from inputs of which the dump holds none (:mod:`.by_producers`).
    """

    def __init__(self, store: RunStore, put: Callable[[Sequence[Row]], None]) -> None:
        self._store = store
        self._put = put
        self.follows: Callable[[Row], bool] = lambda row: False
        self.doubtful = store.continued
        self._outputs: Dict[Key, Row] = {}
        self._otherwise: Set[Tuple[Place, Optional[str]]] = set()
        self._read_store = not store.continued

    def judged(self, row: Row) -> Row:
        """Return a finished row, with another verdict where the rows that came before it say so."""
        if row.verdict == FAIL:
            self._recall()
            row = self._like_output(row) if row.kind == "input" else self._by_inputs(row)
        self.note(row)
        return row

    def judge_stored(self) -> None:
        """Judge all stored rows until none of them changes another."""
        self._recall()
        changed: Optional[List[Row]] = None
        while changed != [] and self._outputs:
            changed = []
            for row in self._store.rows("arrival", verdict=FAIL):
                judged = self.judged(row)
                if judged is not row:
                    changed.append(judged)
            if changed:
                self._put(changed)

    def note(self, row: Row) -> None:
        """Take note of a finished row that may judge others."""
        if row.verdict != PASS:
            self.doubtful |= row.verdict == FAIL and row.kind == "output" and left_to_inputs(row.decided_by) and may_redo(row.op_type)
            return
        otherwise = row.warning == DECIDED_OTHERWISE
        if row.kind == "output" and (otherwise or _CANCELLED in row.reason):
            self._outputs[row.place, row.golden_file] = row
        elif row.kind == "input" and otherwise:
            self._otherwise.add((row.place, row.target_file))

    def _recall(self) -> None:
        """Take note of what an earlier start of the run stored."""
        if not self._read_store:
            self._read_store = True
            for row in self._store.rows(verdict=PASS):
                self.note(row)

    def _like_output(self, row: Row) -> Row:
        output = self._outputs.get((row.place, row.golden_file))
        if output is None or not _alike(row, output):
            return row
        return row.but(verdict=PASS, reason=output.reason, decided_by=output.decided_by, warning=output.warning)

    def _by_inputs(self, row: Row) -> Row:
        if row.kind != "output" or (row.place, row.target_file) not in self._otherwise or not self.follows(row):
            return row
        return row.but(verdict=PASS, reason="%s; %s" % (row.reason, BEHIND), warning=DECIDED_OTHERWISE)


def _alike(row: Row, other: Row) -> bool:
    mine, theirs = ([metric_number(one.metrics.get(name)) for name in _SAME] for one in (row, other))
    pairs = list(zip(mine, theirs))
    same = all(x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=1e-9) for x, y in pairs)
    return same and not all(math.isnan(x) for x in mine)
