"""Rows that other rows judge: inputs are judged like the outputs that they are, and what is computed of them by what they are.

A dump file does not hold what its inputs were computed from. So an input passes where its producer's output does, which was judged against
its own inputs (:mod:`goldwatch.comparing.same_dump`, :mod:`goldwatch.comparing.near_ties`); and behind an input that was decided otherwise
than in golden data an output passes that is what its operator makes of the device's own inputs.
"""

from __future__ import annotations

import math
import re
from typing import Callable, Container, Dict, List, Optional, Sequence, Set, Tuple

from ..comparing.decisions import may_redo
from ..comparing.row import DECIDED_OTHERWISE, FAIL, PASS, Row
from ..comparing.same_dump import CANCELLED
from ..dumps.place import Place
from ..results.rowsql import row_key
from ..results.store import RunStore
from ..verdict.judging import by_defaults, left_to_inputs, metric_number

_CANCELLED = CANCELLED.partition("%s")[2]
BEHIND = "it is inherited: the operator makes it of the device's own inputs, of which one was decided otherwise near a tie"
"""Remark on such an output."""

_DIFFER = re.compile(r"\d+ of \d+ elements differ [^;]*")

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
        self._otherwise: Set[Key] = set()
        self._as_compared: Dict[str, Row] = {}
        self._read_store = False

    def judged(self, row: Row) -> Row:
        """Return a row that has just been compared, with another verdict where the rows that came before it say so."""
        if self._as_compared:
            self._as_compared.pop(row_key(row), None)
        known = self._outputs.get((row.place, row.golden_file))
        if known is not None and (known.tensor, known.target_file) == (row.tensor, row.target_file):
            del self._outputs[row.place, row.golden_file]
        if row.verdict != FAIL:
            self.note(row)
            return row
        if not self._read_store:
            self._note_stored()
        self.doubtful |= row.kind == "output" and left_to_inputs(row.decided_by) and may_redo(row.op_type)
        return self._judged(row)

    def note(self, row: Row) -> None:
        """Take note of a finished row that may judge others."""
        if row.verdict != PASS:
            return
        otherwise = row.warning == DECIDED_OTHERWISE
        if row.kind == "output" and (otherwise or _CANCELLED in row.reason):
            self._outputs[row.place, row.golden_file] = row
        elif row.kind == "input" and otherwise:
            self._otherwise.add((row.place, row.target_file))

    def judge_stored(self) -> None:
        """Judge stored rows until none of them changes another; those that others judged before are judged anew."""
        compared: Dict[str, Row] = {}
        stored: Dict[str, Row] = {}
        if self._as_compared:
            before, self._as_compared, self._outputs, self._otherwise = self._as_compared, {}, {}, set()
            # Those of a file that went since are no longer there, and ops that the model does not know were numbered.
            stored = self._note_stored(before)
            compared = {key: before[key].but(index=row.index) for key, row in stored.items()}
        elif not self._store.counted.all().get(FAIL):
            return
        elif not self._read_store:
            self._note_stored()
        if not self._outputs and not compared:
            return
        waiting: List[Row] = [*compared.values(), *self._store.rows("arrival", verdict=FAIL)]
        before_this = -1
        while len(waiting) != before_this and self._outputs:
            before_this, left = len(waiting), []
            for row in waiting:
                now = self._judged(row)
                if now is row:
                    left.append(row)
                elif not _judged_alike(now, stored.get(row_key(row))):
                    self._put([now])
            waiting = left
        self._put([row for row in waiting if row_key(row) in compared])

    def _note_stored(self, but: Container[str] = ()) -> Dict[str, Row]:
        """Take note of the stored rows that may judge others, but for some by their keys; return those."""
        self._read_store = True
        left_out: Dict[str, Row] = {}
        for row in self._store.rows(verdict=PASS):
            if but and row_key(row) in but:
                left_out[row_key(row)] = row
            else:
                self.note(row)
        return left_out

    def _judged(self, row: Row) -> Row:
        now = self._like_output(row) if row.kind == "input" else self._by_inputs(row)
        if now is not row:
            self._as_compared[row_key(row)] = row
            self.note(now)
        return now

    def _like_output(self, row: Row) -> Row:
        output = self._outputs.get((row.place, row.golden_file))
        if output is None or not _alike(row, output):
            return row
        return row.but(verdict=PASS, reason=output.reason, decided_by=output.decided_by, warning=output.warning)

    def _by_inputs(self, row: Row) -> Row:
        judged = row.kind == "output" and (row.place, row.target_file) in self._otherwise and by_defaults(row.decided_by)
        if not judged or not self.follows(row):
            return row
        return row.but(verdict=PASS, reason="%s; %s" % (row.reason, BEHIND), warning=DECIDED_OTHERWISE)


def _judged_alike(row: Row, other: Optional[Row]) -> bool:
    return other is not None and (row.verdict, row.reason, row.warning) == (other.verdict, other.reason, other.warning)


def judged_by_others(row: Row) -> bool:
    """Tell whether a row's verdict may hang on other rows: it holds only as long as those do."""
    return row.warning == DECIDED_OTHERWISE or (row.kind == "input" and _CANCELLED in row.reason)


def _alike(row: Row, other: Row) -> bool:
    """Tell whether two rows of one golden tensor are of equal target tensors, as far as rows tell: all they measured is equal."""
    if row.shape == other.shape and _differing(row) != _differing(other):
        return False
    names = [name for name in other.metrics if not isinstance(other.metrics[name], dict)]
    mine, theirs = ([metric_number(one.metrics.get(name)) for name in names] for one in (row, other))
    pairs = list(zip(mine, theirs))
    same = all(x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=1e-9) for x, y in pairs)
    return same and not all(math.isnan(x) for x in mine)


def _differing(row: Row) -> List[str]:
    """Return the phrases that tell which elements of whole numbers differ."""
    return _DIFFER.findall(row.reason)
