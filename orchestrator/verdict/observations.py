"""The rows of a run by operator, in execution order: one walk over the rows."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from ..comparing.row import Row
from ..dumps.place import Place
from .seen import LACKING, Observation, SeenRow, seen_row


class ObservedOp:
    """One execution of one operator: what its dump file's rows say.

    Attributes
    ----------
    place
        Where in the dump tree it was dumped.
    key
        Sorts operators by execution (:func:`goldwatch.verdict.seen.execution_key`).
    outputs, inputs
        By index.
    lacking
        One of its outputs should have been compared and was not.
    """

    __slots__ = ("file", "inputs", "key", "lacking", "name", "outputs", "place", "type")

    def __init__(self, row: SeenRow) -> None:
        self.name = row.op
        self.type = row.op_type
        self.place = row.place
        self.file = row.file
        self.key: Tuple[Any, ...] = row.key
        self.outputs: Dict[int, Observation] = {}
        self.inputs: Dict[int, Observation] = {}
        self.lacking = False

    def in_place(self, number: int) -> bool:
        """Tell whether an input lies where an output of the same op lies: its dumped bytes may be the output's."""
        seen = self.inputs.get(number)
        return seen is not None and bool(seen.address) and any(seen.address == other.address for other in self.outputs.values())


class Observations:
    """The rows of one run, by operator.

    Attributes
    ----------
    ops
        In the order in which their first rows came; :meth:`ordered` sorts them by execution.
    counts
        Rows by verdict.
    """

    def __init__(self, rows: Iterable[Union[Row, SeenRow]] = ()) -> None:
        self.ops: Dict[Tuple[Place, str, str], ObservedOp] = {}
        self.counts: Dict[str, int] = {}
        self._newest: Dict[Tuple[Place, str], ObservedOp] = {}
        self._ordered: Optional[List[ObservedOp]] = None
        self._last: Optional[ObservedOp] = None
        for row in rows:
            self.add(row)

    def add(self, row: Union[Row, SeenRow]) -> ObservedOp:
        """Take one row; return its operator."""
        if isinstance(row, Row):
            row = seen_row(row)
        verdict, place, name, _, file, _, marks, found = row
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        op = self._last
        # An op's rows mostly follow one another.
        if op is None or op.file != file or op.name != name or op.place != place:
            op = self._last = self.ops.get((place, name, file)) or self._new(row)
        if marks & LACKING:
            op.lacking = True
        if found.number >= 0:
            if found.kind == "output":
                op.outputs[found.number] = found
            elif found.kind == "input":
                op.inputs[found.number] = found
        return op

    def _new(self, row: SeenRow) -> ObservedOp:
        op = self.ops[row.place, row.op, row.file] = ObservedOp(row)
        other = self._newest.get((row.place, row.op))
        if other is None or other.key < op.key:
            self._newest[row.place, row.op] = op
        self._ordered = None
        return op

    def find(self, place: Place, name: str) -> Optional[ObservedOp]:
        """Return an operator's (last) execution at a place."""
        return self._newest.get((place, name))

    def ordered(self) -> List[ObservedOp]:
        """Return the operators in execution order."""
        if self._ordered is None:
            self._ordered = sorted(self.ops.values(), key=lambda op: op.key)
        return self._ordered
