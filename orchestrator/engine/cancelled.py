"""Outputs that were judged against their inputs' magnitude, and the inputs of the next ops, which hold the same tensor."""

from __future__ import annotations

import math
from typing import Dict, Optional, Tuple

from ..comparing.row import FAIL, PASS, Row
from ..comparing.same_dump import CANCELLED
from ..dumps.place import Place
from ..results.store import RunStore
from ..verdict.judging import metric_number

_MARK = CANCELLED.partition("%s")[2]
_SAME = ("RelativeEuclideanDistance", "CosineSimilarity")

Key = Tuple[Place, Optional[str]]


class CancelledOutputs:
    """Judges an input like the output that it is: the next op's dump file does not hold what that was computed from.

    Parameters
    ----------
    store
        Of the run: it may go on from another one.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._outputs: Dict[Key, Row] = {}
        self._read_store = False

    def judged(self, row: Row) -> Row:
        """Return a finished row, that of a failing input with the verdict of its producer's output where it was judged so."""
        if _was_cancelled(row):
            self._outputs[row.place, row.golden_file] = row
        if row.verdict != FAIL or row.kind != "input":
            return row
        if not self._read_store:
            self._read_store = True
            stored = {(found.place, found.golden_file): found for found in self._store.rows(verdict=PASS) if _was_cancelled(found)}
            self._outputs = {**stored, **self._outputs}
        output = self._outputs.get((row.place, row.golden_file))
        if output is None or not all(_alike(row, output, name) for name in _SAME):
            return row
        return row.but(verdict=PASS, reason=output.reason, decided_by=output.decided_by)

    def judge_stored(self) -> None:
        """Judge stored inputs, whatever order the rows came in."""
        with self._store.transaction():
            for row in self._store.rows("arrival", verdict=FAIL):
                judged = self.judged(row)
                if judged is not row:
                    self._store.put(judged)


def _was_cancelled(row: Row) -> bool:
    return row.verdict == PASS and row.kind == "output" and _MARK in row.reason


def _alike(row: Row, other: Row, name: str) -> bool:
    mine, theirs = metric_number(row.metrics.get(name)), metric_number(other.metrics.get(name))
    return mine == theirs or (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=1e-9)
