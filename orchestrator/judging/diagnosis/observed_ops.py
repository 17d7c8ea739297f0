"""The operators that a run has rows of, each with the digests of its inputs and outputs."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

from ...dumps.place import Place
from ...metrics.row import Row
from .row_digest import OUTPUT_MISSING, Observation, RowDigest, key_at_place, place_key, row_digest


class ObservedOp:
    """One execution of one operator: the digests of its dump file's rows.

    Attributes
    ----------
    place
        Where in the dump tree it was dumped.
    outputs, inputs
        By index.
    misses_output
        One of its outputs should have been compared and was not.
    """

    __slots__ = (
        "_order",
        "_row",
        "file",
        "inputs",
        "misses_output",
        "name",
        "outputs",
        "place",
        "type",
    )

    def __init__(self, row: RowDigest) -> None:
        _, self.place, self.name, self.type, self.file, self._order, _, observation = row
        self._row = (observation.kind, observation.number)
        self.outputs: Dict[int, Observation] = {}
        self.inputs: Dict[int, Observation] = {}
        self.misses_output = False

    @property
    def key(self) -> Tuple[Any, ...]:
        """Sorts operators by execution
        (:func:`goldwatch.judging.diagnosis.row_digest.execution_key`).
        """
        return (*place_key(self.place), *self.key_at_place)

    @property
    def key_at_place(self) -> Tuple[Any, ...]:
        """Sorts operators of one place by execution."""
        return key_at_place(self._order, self.file, *self._row)

    def in_place(self, number: int) -> bool:
        """Tell whether an input lies where an output of the same op lies: its dumped bytes may be
        the output's.
        """
        row = self.inputs.get(number)
        return (
            row is not None
            and bool(row.address)
            and any(row.address == other.address for other in self.outputs.values())
        )


class _AtPlace:
    """The operators of one place: by name and file in the order in which their first rows came, and
    the last execution of each name.
    """

    __slots__ = ("newest", "ops")

    def __init__(self) -> None:
        self.ops: Dict[Tuple[str, str], ObservedOp] = {}
        self.newest: Dict[str, ObservedOp] = {}


class ObservedOps:
    """The digests of one run's rows, by operator.

    Attributes
    ----------
    counts
        Rows by verdict.
    """

    def __init__(self, rows: Iterable[Union[Row, RowDigest]] = ()) -> None:
        self.counts: Dict[str, int] = {}
        self._places: Dict[Place, _AtPlace] = {}
        self._ordered: Optional[List[ObservedOp]] = None
        self._last: Optional[ObservedOp] = None
        for row in rows:
            self.add(row_digest(row) if isinstance(row, Row) else row)

    def add(self, row: RowDigest) -> ObservedOp:
        """Add one row; return its operator."""
        verdict, place, name, _, file, _, marks, observation = row
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        op = self._last
        # An op's rows mostly follow one another.
        if op is None or op.file != file or op.name != name or op.place != place:
            op = self._last = self._op_of(row)
        if marks & OUTPUT_MISSING:
            op.misses_output = True
        if observation.number >= 0:
            if observation.kind == "output":
                op.outputs[observation.number] = observation
            elif observation.kind == "input":
                op.inputs[observation.number] = observation
        return op

    def _op_of(self, row: RowDigest) -> ObservedOp:
        at = self._places.get(row.place)
        if at is None:
            at = self._places[row.place] = _AtPlace()
        op = at.ops.get((row.op, row.file))
        if op is None:
            op = at.ops[row.op, row.file] = ObservedOp(row)
            newest = at.newest.get(row.op)
            if newest is None or newest.key_at_place < op.key_at_place:
                at.newest[row.op] = op
            self._ordered = None
        return op

    @property
    def places(self) -> List[Place]:
        """The places that have rows, in the order in which these came."""
        return list(self._places)

    @property
    def ops(self) -> Iterator[ObservedOp]:
        """The operators, place by place in the order in which their first rows came;
        :meth:`ordered` sorts them by execution.
        """
        return chain.from_iterable(at.ops.values() for at in self._places.values())

    def count_at(self, place: Place) -> int:
        """Return how many operators a place has."""
        return len(self._places[place].ops)

    def op(self, place: Place, name: str, file: str) -> ObservedOp:
        """Return the operator that rows are about."""
        return self._places[place].ops[name, file]

    def find(self, place: Place, name: str) -> Optional[ObservedOp]:
        """Return an operator's (last) execution at a place."""
        at = self._places.get(place)
        return at.newest.get(name) if at is not None else None

    def ordered(self) -> List[ObservedOp]:
        """Return the operators in execution order."""
        if self._ordered is None:
            by_key: Dict[Tuple[Any, ...], List[ObservedOp]] = {}
            for place, at in self._places.items():
                by_key.setdefault(place_key(place), []).extend(at.ops.values())
            # Nearly sorted: sorting each place by itself takes a fraction of the comparisons.
            self._ordered = [
                op
                for _, ops in sorted(by_key.items())
                for op in sorted(ops, key=attrgetter("key_at_place"))
            ]
        return self._ordered


def executed_repeatedly(ops: Iterable[ObservedOp]) -> Set[Tuple[Place, str]]:
    """Return the place and name of each operator that has several executions among some."""
    files: Dict[Tuple[Place, str], str] = {}
    return {
        (op.place, op.name)
        for op in ops
        if files.setdefault((op.place, op.name), op.file) != op.file
    }
