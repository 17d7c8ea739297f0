"""Failing rows that rows still to come may change: they are provisional until that is known, or the
watch has ended.

Rows are judged by others at the end (:mod:`goldwatch.run.rejudging`), and a device writes its
files in any order.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..diagnosis.observed_ops import ObservedOps
from ..diagnosis.op_input_states import Inputs
from ..dumps.place import Place, name_order
from ..judging.by_limits import only_default_limits_missed
from ..judging.by_other_rows import lets_inputs_pass
from ..metrics.row import FAIL, Row
from ..model.graph import ModelGraph
from ..model.never_dumped import FIXED_TYPES, INPUT_TYPES, no_dump_reason
from ..model.op_node import OpNode
from ..naming import sanitise_device
from ..recomputing.formulas_by_type import is_known_type
from ..recomputing.repeated_decisions import can_repeat
from ..store.row_schema import from_sql_text, to_sql_text
from ..store.row_sql import row_key
from .engine import Engine
from .recomputation import NONE
from .rejudging import Judge
from .target_file import HELD, WAITING, TargetFile
from .tensor_reader import RunReader

_EVERY_S = 0.2
_SHARE = 20.0
"""Looking takes one part in so many of the time at most."""

_COLUMNS = "key, target_file, kind, tensor_index, verdict, warning, reason"


class _Waiting(NamedTuple):
    """What is kept of a provisional row."""

    place: Place
    op: str
    op_type: str
    kind: str
    number: int
    file: str


class _StoredRow(NamedTuple):
    """What a row in the store says."""

    key: str
    file: str
    kind: str
    number: int
    verdict: str
    warning: str
    reason: str

    @property
    def judges(self) -> bool:
        """Whether others may pass because it does."""
        return lets_inputs_pass(self.verdict, self.warning, self.reason)


class _Fed(NamedTuple):
    """What feeds an operator, or one input of it.

    Attributes
    ----------
    known
        The rows that are there.
    waits
        Whether rows may still come.
    lacks
        Whether a tensor that feeds it has no row and gets none.
    """

    known: Sequence[_StoredRow]
    waits: bool = False
    lacks: bool = False


class Provisional:
    """Tells which failing rows of a watch are final.

    An input may pass as the output that it is; an output of an operator that can be computed again
    may pass behind an input that was decided otherwise near a tie, and by its producers where the
    dump holds no inputs. So a failing row is final once the rows of what feeds it are known and
    final themselves, or cannot come any more; at once where a limit of the user's own is missed, or
    nothing can compute the operator. A row that may be outside its limits by rounding alone
    (:mod:`goldwatch.run.passing_by_rounding`) is judged once its place is over.

    A place is over when all of its model's ops have come, or a later step of the same model on the
    same device has begun.

    Parameters
    ----------
    engine
        The watch's.
    quiet
        Tells whether all files that are known to have come were looked at.
    """

    def __init__(self, engine: Engine, quiet: Callable[[], bool] = lambda: True) -> None:
        self._engine = engine
        self._quiet = quiet
        self._over: Set[Place] = set()
        self._waiting: Dict[str, _Waiting] = {}
        self._files: Tuple[int, Dict[Tuple[Place, str], TargetFile]] = (-1, {})
        self._changed = False
        self._looked_at = -1e9
        self._took_s = 0.0
        self._failures = 0
        self._last_counts = (0, 0)
        self._by_rounding: Dict[str, bool] = {}
        self._passing: Dict[Place, Set[str]] = {}
        self._by_ties: Dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, row: Row) -> bool:
        return bool(self._waiting) and row_key(row) in self._waiting

    def holds(self, file: TargetFile) -> bool:
        """Tell whether rows of a file are provisional."""
        return any(waiting.file == file.rel for waiting in self._waiting.values())

    def see(self, row: Row) -> bool:
        """Consider a row that was stored; tell whether it is final already."""
        self._changed = True
        self._passing.pop(row.place, None)
        self._failures += row.verdict == FAIL
        if self._by_ties or self._by_rounding:
            for known_before in (self._by_ties, self._by_rounding):
                known_before.pop(row_key(row), None)
        if row.verdict != FAIL or not (_may_change(row) or self._may_be_rounding(row)):
            if self._waiting:
                self._waiting.pop(row_key(row), None)
            return True
        self._waiting[row_key(row)] = _Waiting(
            row.place, row.op, row.op_type, row.kind, row.tensor_index or 0, row.target_file or ""
        )
        return False

    def news(self) -> Optional[List[str]]:
        """Return the keys of the rows that are provisional, where these or the failing rows are
        others than at the last call.
        """
        before, self._last_counts = self._last_counts, (len(self._waiting), self._failures)
        return list(self._waiting) if before != self._last_counts else None

    def settled(self, at_once: bool = False) -> bool:
        """Find out which rows have become final; tell whether there are any. Not more often than it
        is worth, but for ``at_once``.
        """
        now = time.monotonic()
        due = at_once or now - self._looked_at >= max(_EVERY_S, _SHARE * self._took_s)
        if not self._waiting or not self._changed or not due:
            return False
        # What is not looked at so far may be what a row waits for.
        self._changed = not self._quiet()
        self._over = self._places_over()
        before, size = len(self._waiting), -1
        while size != len(self._waiting):
            size = len(self._waiting)
            for key in [
                key for key, waiting in self._waiting.items() if self._is_final(key, waiting)
            ]:
                if not self._rounding_alone(key, self._waiting[key]):
                    del self._waiting[key]
        self._looked_at = time.monotonic()
        self._took_s = self._looked_at - now
        return len(self._waiting) < before

    def close(self) -> None:
        """The watch has ended: all rows are final."""
        self._waiting.clear()

    def _may_be_rounding(self, row: Row) -> bool:
        """Tell whether computing again may show that rounding alone brings a row outside its
        limits.
        """
        options = self._engine.options
        return (
            only_default_limits_missed(row.decided_by)
            and options.recompute != NONE
            and self._engine.graphs.of(row.place.model) is not None
        )

    def _rounding_alone(self, key: str, row: _Waiting) -> bool:
        """Tell whether a row passes in the end, as far as is known by now: every operator up to it
        is right.

        It is computed for the first rows only: behind the first operator that is not right the
        network diverges.
        """
        if False in self._by_rounding.values():
            return False
        if key not in self._by_rounding:
            from .passing_by_rounding import is_right_so_far

            self._by_rounding[key] = is_right_so_far(
                self._engine, row.place, row.op, row.kind, row.number
            )
        if self._by_rounding[key] and row.place in self._over:
            if row.place not in self._passing:
                from .passing_by_rounding import passing_by_rounding

                self._passing[row.place] = passing_by_rounding(self._engine, row.place)
            return key in self._passing[row.place]
        return self._by_rounding[key]

    def _places_over(self) -> Set[Place]:
        """Return the places of provisional rows where nothing that counts comes any more."""
        if not self._quiet():
            return set()
        come = self._engine.come
        last: Dict[Place, Tuple[int, int, str]] = {}
        for place, names in come.items():
            if names:
                run = place._replace(step=None)
                last[run] = max(last.get(run, (-1, 0, "")), name_order(place.step))
        over = set()
        for place in {waiting.place for waiting in self._waiting.values()}:
            done, expected = self._engine.places.planner(place).dump_counts(come.get(place, ()))
            later = last.get(place._replace(step=None), (-1, 0, "")) > name_order(place.step)
            if later or (expected and done == expected):
                over.add(place)
        return over

    def _is_final(self, key: str, row: _Waiting) -> bool:
        file = self._engine.catalogue.of_row(row.file)
        rows = self._rows_of(row.file)
        if not any(other.key == key and other.verdict == FAIL for other in rows):
            # It went, or passes.
            return True
        if file is not None and file.pending:
            return False
        if row.kind == "input":
            fed = self._feeding(row, row.number)
            return self._is_input_decided(row) if fed is None else self._is_decided(fed)
        inputs = [found for found in rows if found.kind == "input"]
        fed = _Fed(inputs) if inputs else self._feeding(row, None)
        if fed is None or any(self._fails(found) for found in fed.known):
            return True
        if fed.waits:
            return False
        # What was made of tensors that no row compares is not judged by them.
        return fed.lacks or (
            self._is_decided(fed)
            and not (can_repeat(row.op_type) and self._near_a_tie(key, row, fed.known))
        )

    def _near_a_tie(self, key: str, row: _Waiting, fed: Sequence[_StoredRow]) -> bool:
        """Tell whether the decisions of an output follow from its inputs, all of which are known:
        then it passes in the end.
        """
        if key not in self._by_ties:
            files = {row.file, *(found.file for found in fed)}
            rows = [
                one for one in self._engine.store.rows(place=row.place) if one.target_file in files
            ]
            observed_ops = ObservedOps(rows)
            judge = Judge(
                observed_ops, Inputs(observed_ops, self._engine.graphs), {}, RunReader(self._engine)
            )
            itself = next(one for one in rows if row_key(one) == key)
            self._by_ties[key] = judge.judged(itself) is not itself
        return self._by_ties[key]

    def _fails(self, stored_row: _StoredRow) -> bool:
        return stored_row.verdict == FAIL and stored_row.key not in self._waiting

    def _is_decided(self, fed: _Fed) -> bool:
        """Tell whether all outputs that feed a row are known, and none of them makes it pass."""
        return not fed.waits and not any(
            found.judges or found.key in self._waiting for found in fed.known
        )

    def _is_input_decided(self, row: _Waiting) -> bool:
        """Tell whether nothing at a row's place may make an input pass of which no model tells what
        feeds it.
        """
        if row.place not in self._over:
            return False
        outputs = [one for one in self._engine.store.rows(place=row.place) if one.kind == "output"]
        return not any(
            lets_inputs_pass(one.verdict, one.warning, one.reason) or one in self for one in outputs
        )

    def _feeding(self, row: _Waiting, number: Optional[int]) -> Optional[_Fed]:
        """Return the outputs that feed an operator, or one input of it; None without a model."""
        graph = self._engine.graphs.of(row.place.model)
        named = graph.ops_named(row.op) if graph is not None else []
        node = next(
            (node for node in named if node.type == row.op_type), named[0] if named else None
        )
        if graph is None or node is None:
            return None
        known, waits, lacks = [], False, False
        for feed in _feeds(graph, node, number):
            found = self._output(row.place, feed.op, feed.number)
            if found is not None:
                known.append(found)
            waits = waits or (found is None and self._may_come(row.place, feed.op))
            lacks = lacks or found is None or feed.indirect
        return _Fed(known, waits, lacks)

    def _may_come(self, place: Place, op: str) -> bool:
        """Tell whether rows of an op may still come to a place."""
        file = self._file_of(place, op)
        if file is None:
            return place not in self._over
        return file.state in WAITING or file.state == HELD or bool(file.pending or file.missing)

    def _output(self, place: Place, op: str, number: int) -> Optional[_StoredRow]:
        file = self._file_of(place, op)
        rows = self._rows_of(file.rel) if file is not None else []
        return next(
            (
                candidate
                for candidate in rows
                if candidate.kind == "output" and candidate.number == number
            ),
            None,
        )

    def _file_of(self, place: Place, op: str) -> Optional[TargetFile]:
        catalogue = self._engine.catalogue
        revision = catalogue.files.revision
        if self._files[0] != revision:
            there = {
                (at, file.op_name): file
                for at, files in catalogue.by_place().items()
                for file in files
                if file.there
            }
            self._files = revision, there
        return self._files[1].get((place, sanitise_device(op)))

    def _rows_of(self, file: str) -> List[_StoredRow]:
        sql = "SELECT %s FROM row WHERE target_file = ?" % _COLUMNS
        return [_stored_row(line) for line in self._engine.store.query(sql, (to_sql_text(file),))]


def _stored_row(line: Tuple[Any, ...]) -> _StoredRow:
    key, file, kind, number, verdict, warning, reason = line
    return _StoredRow(
        from_sql_text(key),
        from_sql_text(file),
        kind,
        number or 0,
        verdict,
        warning or "",
        from_sql_text(reason) or "",
    )


def _may_change(row: Row) -> bool:
    """Tell whether any row that comes may make a failing row pass."""
    if row.kind == "input":
        return True
    return (
        row.kind == "output"
        and only_default_limits_missed(row.decided_by)
        and (can_repeat(row.op_type) or is_known_type(row.op_type))
    )


class _Feed(NamedTuple):
    """An output that feeds an op; ``indirect``: by way of ops that never have a dump."""

    op: str
    number: int
    indirect: bool


def _feeds(graph: ModelGraph, node: OpNode, number: Optional[int]) -> Iterator[_Feed]:
    """Yield what feeds an op, or its input ``number``; not what nothing computes."""
    waiting = [
        (node, source, False) for at, source in enumerate(node.inputs) if number in (None, at)
    ]
    walked = {node.position}
    while waiting:
        reader, source, indirect = waiting.pop()
        if source is None:
            continue
        producer = graph.producer(reader, source[0])
        if producer is None or no_dump_reason(producer) is None:
            yield _Feed(producer.name if producer is not None else source[0], source[1], indirect)
        elif producer.type in FIXED_TYPES or producer.type in INPUT_TYPES:
            continue
        elif producer.position not in walked:
            walked.add(producer.position)
            waiting += [(producer, one, True) for one in producer.inputs]
