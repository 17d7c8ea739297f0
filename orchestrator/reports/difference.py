"""Two results compared: what got better, worse, appeared and vanished."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..base.notes import Note, note
from ..dumps.place import Place
from ..judging.diagnosis.row_digest import execution_key, place_key
from ..judging.diagnosis.summary import INCOMPLETE
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..model.row_plan import OP, OUTPUT
from ..store.host_facts import JUDGED_BY
from ..store.json_numbers import plain_tree
from ..store.merged_rows_not_stored import RowsNotStored
from ..store.store import RunStore
from ..store.stored_networks import GRAPHS, SUMMARY, stored_networks
from .difference_raised_ops import Raised, RunOutputs, raised_between
from .matching_places import PlaceMatch
from .row_distances import distances, most_grown

BETTER, WORSE, APPEARED, VANISHED = "better", "worse", "appeared", "vanished"
KINDS = (WORSE, BETTER, APPEARED, VANISHED)
DEFAULT_TOLERANCE = 0.5

_RANKS = {FAIL: 0, NOT_COMPARED: 1, PASS: 2}
_SAME_MODEL = 0.5
_PROGRESS_EVERY = 256

Key = Tuple[Optional[Place], str, str, int]


class Side(NamedTuple):
    """One run's row about a tensor."""

    place: Place
    op: str
    op_type: str
    tensor: str
    verdict: str
    reason: str
    dtype: Optional[str]
    distances: Mapping[str, float]

    def document(self) -> Dict[str, Any]:
        """Return it as JSON values."""
        return dict(
            self.place.document(),
            verdict=self.verdict,
            reason=self.reason,
            distances=plain_tree(dict(self.distances)),
        )


class Change(NamedTuple):
    """What became of one tensor.

    Attributes
    ----------
    metric, factor
        The distance that changed most, and its later value by its earlier one; None for a change of
        the verdict, or of a row that one run lacks.
    first, second
        Its rows; None where a run has none.
    """

    first: Optional[Side]
    second: Optional[Side]
    metric: Optional[str] = None
    factor: Optional[float] = None

    @property
    def side(self) -> Side:
        """The later row, or the only one."""
        side = self.second or self.first
        assert side is not None
        return side

    def document(self) -> Dict[str, Any]:
        """Return it as JSON values."""
        side = self.side
        return {
            **({} if side.place.host is None else {"host": side.place.host}),
            "device": side.place.device,
            "model": side.place.model,
            "step": side.place.step,
            "op": side.op,
            "op_type": side.op_type,
            "tensor": side.tensor,
            "metric": self.metric,
            "factor": plain_tree(self.factor),
            "a": None if self.first is None else self.first.document(),
            "b": None if self.second is None else self.second.document(),
        }


class ComparedRun(NamedTuple):
    """What there is to say of one of the two runs.

    Attributes
    ----------
    out
        Its folder, absolute.
    verdict
        Its own: ``pass``, ``fail`` or ``incomplete``. Of a run that is not finished ``fail`` where
        a row fails, else ``incomplete``.
    first_divergence
        As its summary has it; of a run that is not finished the first of its failing rows in the
        order of the table.
    """

    out: str
    finished: bool
    rows: int
    verdict: str
    first_divergence: Optional[Mapping[str, Any]]

    def document(self) -> Dict[str, Any]:
        """Return it as JSON values."""
        return dict(self._asdict(), first_divergence=plain_tree(self.first_divergence))


class Difference(NamedTuple):
    """What became of all tensors.

    Attributes
    ----------
    changes
        By :data:`KINDS`, changes of the verdict first, then those of the largest factor.
    joined
        How many rows both runs have.
    same_model
        Whether at least half of the tensors of the run that has fewer are in the other one, by
        name.
    apart
        Why no row of one run could be joined with any of the other though both have some; empty
        where one could.
    notes
        What the user must know.
    along
        The rows of one device × step of both runs, to be drawn along the network: that of the
        first op that became worse or better, else of the second run's first divergence, else the
        first of its places that both have.
    raised
        What computing operators in a wider type did; None where none is.
    opens_at
        The tensor of the first op that became worse or better, of those drawn; None where none did.
    """

    first: ComparedRun
    second: ComparedRun
    tolerance: float
    changes: Mapping[str, List[Change]]
    joined: int
    same_model: bool
    apart: str
    notes: List[Note]
    along: Tuple[List[Row], List[Row]]
    raised: Optional[Raised] = None
    opens_at: Optional[str] = None

    @property
    def comparable(self) -> bool:
        """Whether it says anything that one run has no more than the other."""
        return self.same_model and not self.apart

    @property
    def unfinished(self) -> List[ComparedRun]:
        """The runs that go on or were stopped before their end: what they lack is not decided."""
        return [run for run in (self.first, self.second) if not run.finished]

    def document(self) -> Dict[str, Any]:
        """Return the document of schemas/diff.schema.json."""
        runs = {"a": self.first.document(), "b": self.second.document()}
        counts = {kind: len(self.changes[kind]) for kind in KINDS}
        facts = {"tolerance": self.tolerance, "joined": self.joined, "same_model": self.same_model}
        more: Dict[str, Any] = {
            "apart": self.apart,
            "counts": counts,
            "notes": [one.document() for one in self.notes],
        }
        more["cure"] = None if self.raised is None else self.raised.document()
        return dict(
            runs,
            **facts,
            **more,
            **{kind: [change.document() for change in self.changes[kind]] for kind in KINDS},
        )


def difference_of(
    first: str,
    second: str,
    tolerance: float = DEFAULT_TOLERANCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Difference:
    """Compare the results in two output folders; the first one is before, the second after.

    Rows are joined by place (:class:`goldwatch.reports.matching_places.PlaceMatch`) and tensor
    name; where one run is that of a host of the other, a merge, rows of other hosts are left out. A
    row that is absent as expected counts as none. An op that has no row of a tensor, but
    one about the whole op (its dump is missing), is joined with that.

    Parameters
    ----------
    tolerance
        The growth of a distance that is passed over: 0.5 is 50 %.
    progress
        Called with the number of rows that were read, and of all.

    Raises
    ------
    MissingPath
        There is no store.
    FormatError, EnvironmentProblem
        It is damaged, foreign or cannot be read.
    """
    with RunStore.open(first) as before, RunStore.open(
        second
    ) as after, before.frozen(), after.frozen():
        host, results = _hosts(first, before, second, after)
        earlier, later = _RunRows(first, before, host), _RunRows(second, after, host)
        match = PlaceMatch(earlier.places(), later.places(), host, results)
        notes = _notes(before, after, match, host)
        done, total = [0, 0], len(earlier) + len(later)

        def told(number: int, rows: int) -> None:
            done[number] = rows
            progress(sum(done), total)

        join = _Join(
            earlier.keyed(lambda place: place, partial(told, 0)),
            tolerance,
            (earlier.unstored, later.unstored),
            {match.of(place): place for place in later.unstored.places},
        )
        for key, row in later.keyed(match.of, partial(told, 1)):
            join.take(key, row)
        join.read_to_end()
        runs = _compared(first, before, earlier.count), _compared(second, after, later.count)
        changed = join.changed()
        along = _along(before, after, match, runs[1].first_divergence, changed)
        join.finish()
    notes += [*earlier.notes(join.unknown[0]), *later.notes(join.unknown[1])]
    notes += [note("unfinished-run", run.out) for run in runs if not run.finished]
    # Tell by the names of two runs' tensors whether they are of one model.
    fewest = min(len(earlier.tensors), len(later.tensors))
    same = bool(fewest) and len(earlier.tensors & later.tensors) >= _SAME_MODEL * fewest
    apart = match.apart
    if not apart and earlier.total and later.total and not join.joined and not any(join.unknown):
        apart = "the two runs have their tensors at other places"
    return Difference(
        *runs,
        tolerance,
        join.sorted(),
        join.joined,
        same,
        apart if runs[0].rows and runs[1].rows else "",
        notes,
        along,
        raised_between(earlier.types, later.types) if same and not apart else None,
        _opens_at(along[1], changed),
    )


class _RunRows:
    """The rows of one run.

    Parameters
    ----------
    host
        Of a merge the only host whose rows are read; None: all.

    Attributes
    ----------
    unstored
        What the run did not store.
    types
        The types of its operators, complete once all rows were read.
    tensors
        The names of its tensors, complete once all rows were read.
    total
        How many rows were read that are not absent as expected.
    """

    def __init__(self, out: str, store: RunStore, host: Optional[str]) -> None:
        self.unstored = RowsNotStored(store)
        self.types = RunOutputs(stored_networks(store.get(GRAPHS) or ()))
        self.tensors: Set[str] = set(self.unstored.tensors())
        self.total = 0
        self._out, self._host = out, host
        self._store = store
        self._rows = store.rows()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def count(self) -> int:
        """How many rows the run has, those included that it did not store."""
        return self.unstored.rows or self.total

    def notes(self, unknown: int) -> List[Note]:
        """Return what the user must know of rows that the run did not store.

        Parameters
        ----------
        unknown
            Of how many rows it is not known what the run has.
        """
        return self.unstored.notes(self._out, unknown)

    def places(self) -> List[Place]:
        """Return all places of the run."""
        return list(dict.fromkeys([*self._store.places(), *self.unstored.places]))

    def keyed(
        self,
        place_of_row: Callable[[Place], Optional[Place]],
        progress: Callable[[int], None],
    ) -> Iterator[Tuple[Key, Row]]:
        """Yield the rows that are not absent as expected, each with what it is about; of several
        that are about the same a number tells them apart. Those of a place follow one another.
        """
        known = Counter(map(place_of_row, self._store.places()))
        occurrences: Dict[Optional[Place], Counter[Tuple[str, str]]] = {}
        last: Optional[Place] = None
        for done, row in enumerate(self._rows):
            if done % _PROGRESS_EVERY == 0:
                progress(done)
            if self._host is not None and row.host not in (None, self._host):
                continue
            self.types.take(row)
            if row.verdict == EXPECTED_ABSENT:
                continue
            self.total += 1
            self.tensors.add(row.tensor)
            place = place_of_row(row.place)
            if place != last:
                # Of a million rows only those of one place are counted at a time.
                if last is not None and known[last] == 1:
                    del occurrences[last]
                last = place
            counts = occurrences.setdefault(place, Counter())
            number = counts[row.tensor, row.kind]
            counts[row.tensor, row.kind] += 1
            yield (place, row.tensor, row.kind, number), row


def _notes(before: RunStore, after: RunStore, match: PlaceMatch, host: Optional[str]) -> List[Note]:
    """Return what the user must know of two runs before any row is read."""
    notes = [*before.notes, *after.notes, *match.notes]
    if host is not None:
        notes.append(note("one-host", host))
    if _limits(before) != _limits(after):
        notes.append(note("other-limits"))
    return notes


def _compared(out: str, store: RunStore, rows: int) -> ComparedRun:
    summary = store.get(SUMMARY)
    if summary is not None:
        return ComparedRun(
            os.path.abspath(out),
            True,
            rows,
            str(summary["verdict"]),
            summary.get("first_divergence"),
        )
    first = next(iter(store.rows("index", verdict=FAIL)), None)
    if first is None:
        return ComparedRun(os.path.abspath(out), False, rows, INCOMPLETE, None)
    divergence = {
        "op": first.op,
        "tensor": first.tensor,
        "metric": None,
        "value": None,
        "limit": None,
    }
    return ComparedRun(
        os.path.abspath(out), False, rows, FAIL, {**divergence, **first.place.document()}
    )


def place_of(first: Mapping[str, Any]) -> Place:
    """Return where a first divergence is."""
    return Place(*(first.get(name) for name in Place._fields))


def _opens_at(rows: Sequence[Row], changed: Set[Tuple[Place, str]]) -> Optional[str]:
    """Return the first tensor that changed, in the order of execution: an output, if one did."""
    there = [row for row in rows if (row.place, row.tensor) in changed]
    first = min(there, key=lambda row: (row.kind != OUTPUT, execution_key(row)), default=None)
    return None if first is None else first.tensor


def _along(
    before: RunStore,
    after: RunStore,
    match: PlaceMatch,
    first: Optional[Mapping[str, Any]],
    changed: Set[Tuple[Place, str]],
) -> Tuple[List[Row], List[Row]]:
    """Return the rows of the place to draw, of both runs."""
    places = [place for place in after.places() if match.of(place) is not None]
    of_changes = {place for place, _ in changed}.intersection(places)
    if of_changes:
        places = [min(of_changes, key=place_key)]
    elif first is not None and place_of(first) in places:
        places = [place_of(first)]
    if not places:
        return [], []
    earlier = match.of(places[0])
    assert earlier is not None
    return list(before.rows("index", earlier)), list(after.rows("index", places[0]))


def _hosts(
    first: str, before: RunStore, second: str, after: RunStore
) -> Tuple[Optional[str], Mapping[str, str]]:
    """Return the host of a merge that the other run is, None where it is none of them, and the
    folders of the merge's hosts; of two merges, and of none, nothing.
    """
    merged = [_host_folders(store) for store in (before, after)]
    folders = merged[0] or merged[1]
    if all(merged) or not folders:
        return None, {}
    other = os.path.realpath(second if merged[0] else first)
    return next((host for host, path in folders.items() if path == other), None), folders


def _host_folders(store: RunStore) -> Mapping[str, str]:
    """Return the folder of each host's run; none where the store is no merge's."""
    inputs = store.get("inputs")
    hosts = inputs.get("hosts") if isinstance(inputs, dict) else None
    return hosts if isinstance(hosts, dict) else {}


def _limits(store: RunStore) -> Any:
    inputs = store.get(JUDGED_BY) or store.get("inputs")
    return inputs.get("limits") if isinstance(inputs, dict) else None


def _side(row: Row) -> Side:
    return Side(
        row.place,
        row.op,
        row.op_type,
        row.tensor,
        row.verdict,
        row.reason,
        row.target_dtype,
        distances(row.metrics),
    )


def _passed(side: Side, place: Place) -> Side:
    """Return the row of the same tensor that passed at a place, of which no more is known."""
    return side._replace(place=place, verdict=PASS, reason="", distances={})


class _Join:
    """Rows of the second run, one after the other, joined with those of the first, which are read
    as far as they are needed: two runs of the same places never wait with more than one of them.

    Parameters
    ----------
    first
        The rows of the first run, place by place.
    unstored
        What the first and the second run did not store. A row that one lacks there passed, or is
        not known.
    place_in_second
        For places of the first run those of the second, where that did not store all rows.

    Attributes
    ----------
    unknown
        Of how many rows it is not known what the first, and the second run has.
    """

    def __init__(
        self,
        first: Iterator[Tuple[Key, Row]],
        tolerance: float,
        unstored: Tuple[RowsNotStored, RowsNotStored],
        place_in_second: Mapping[Optional[Place], Place],
    ) -> None:
        self.joined = 0
        self.unknown = (0, 0)
        self._unstored = unstored
        self._place_in_second = place_in_second
        self._first: Iterator[Tuple[Key, Row]] = first
        self._read: Set[Optional[Place]] = set()
        self._reading: Optional[Place] = None
        self._waiting: Dict[Key, Side] = {}
        self._tolerance = tolerance
        self._alone: Dict[Key, Side] = {}
        self._changes: Dict[str, List[Change]] = {kind: [] for kind in KINDS}

    def take(self, key: Key, row: Row) -> None:
        """Take one more row of the second run."""
        side = _side(row)
        if key[0] is not None and key[0] not in self._read:
            self._read_place(key[0])
        before = self._waiting.pop(key, None) if key[0] is not None else None
        if before is None:
            self._alone[key] = side
        else:
            self._compare(before, side)

    def read_to_end(self) -> None:
        """Read what is left of the first run."""
        self._read_place(None)

    def _read_place(self, place: Optional[Place]) -> None:
        """Read the first run until no more row of a place comes."""
        for key, row in self._first:
            if key[0] != self._reading:
                self._read.add(self._reading)
                self._reading = key[0]
            self._waiting[key] = _side(row)
            if place is not None and place in self._read:
                return

    def finish(self) -> None:
        """Join what is left with rows about whole ops; what is left then appeared or vanished."""
        for sides, others, swapped in (
            (self._waiting, self._alone, False),
            (self._alone, self._waiting, True),
        ):
            whole: Dict[Tuple[Optional[Place], str], Key] = {
                (key[0], side.op): key
                for key, side in others.items()
                if key[2] == OP and key[0] is not None
            }
            used = set()
            for key, side in list(sides.items()):
                partner = whole.get((key[0], side.op)) if key[2] != OP else None
                if partner is not None:
                    used.add(partner)
                    del sides[key]
                    other = others[partner]._replace(tensor=side.tensor)
                    pair = (other, side) if swapped else (side, other)
                    self._compare(*pair)
            for partner in used:
                del others[partner]
        before, after = self._unstored
        unknown = [0, 0]
        for key, side in self._waiting.items():
            place = self._place_in_second.get(key[0])
            if place is None:
                self._changes[VANISHED].append(Change(side, None))
            elif side.verdict != PASS and after.passed(place, side.op, side.tensor):
                self._compare(side, _passed(side, place))
            else:
                unknown[1] += 1
        for key, side in self._alone.items():
            if key[0] is None or key[0] not in before.places:
                self._changes[APPEARED].append(Change(None, side))
            elif side.verdict != PASS and before.passed(key[0], side.op, side.tensor):
                self._compare(_passed(side, key[0]), side)
            else:
                unknown[0] += 1
        self.unknown = (unknown[0], unknown[1])

    def _compare(self, before: Side, after: Side) -> None:
        self.joined += 1
        if before.verdict != after.verdict:
            kind = WORSE if _RANKS[after.verdict] < _RANKS[before.verdict] else BETTER
            self._changes[kind].append(Change(before, after))
            return
        growth = most_grown(before.distances, after.distances, after.dtype, self._tolerance)
        if growth is not None:
            self._changes[WORSE].append(Change(before, after, *growth))
            return
        growth = most_grown(after.distances, before.distances, before.dtype, self._tolerance)
        if growth is not None:
            self._changes[BETTER].append(Change(before, after, growth[0], 1.0 / growth[1]))

    def changed(self) -> Set[Tuple[Place, str]]:
        """Return place and tensor of what became worse or better, as the second run has them."""
        sides = (
            change.second for kind in (WORSE, BETTER) for change in self._changes.get(kind, ())
        )
        return {(side.place, side.tensor) for side in sides if side is not None}

    def sorted(self) -> Dict[str, List[Change]]:
        """Return the changes by kind: of the verdict first, then by how much."""

        def rank(change: Change) -> Tuple[bool, float]:
            factor = change.factor
            return factor is not None, 0.0 if factor is None else -factor if factor > 1 else factor

        return {kind: sorted(changes, key=rank) for kind, changes in self._changes.items()}
