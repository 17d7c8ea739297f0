"""What differs between two dumps of one model, of two builds or two runs: the first operator whose
inputs are equal and whose output is not, also within the limits, and operators that only one of
them has.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import partial
from typing import (
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ..base.errors import GoldwatchError
from ..base.naming import parse_dump_name, printable
from ..base.wording import listed, of_two_dumps, percent, plural
from ..dumps.place import Place
from ..judging.by_recomputation import RIGHT, UNKNOWN, RecomputationVerdict
from ..judging.diagnosis.culprit_sentence import where_words
from ..judging.diagnosis.first_divergence import FirstDivergence
from ..judging.diagnosis.row_digest import execution_key
from ..judging.diagnosis.summary import Summary
from ..judging.diagnosis.suspects import Suspect
from ..metrics.row import (
    BY_STATISTICS,
    DUMP_MISSING,
    EXPECTED_ABSENT,
    FAIL,
    GOLDEN_MISSING,
    OTHER_ALONE,
    OTHER_OPERATORS,
    PASS,
    TARGET_ALONE,
    Row,
)
from ..model.graphs_of_run import ModelGraphs
from ..model.never_dumped import FIXED_TYPES
from ..model.row_plan import INPUT, OUTPUT
from ..recomputing.piece import rounded
from ..recomputing.recomputed_output import ComputedPair
from ..store.store import RunStore
from ..tensors.layout_conversion import original_array
from ..tensors.type_precision import ROUNDING
from .comparison_options import ComparisonOptions
from .outputs_of_builds import distance_of, other_name
from .same_operators import EitherDump, digest, open_either

PairOf = Callable[[Place, str, int], Optional[ComputedPair]]

_SHOWN = 6
_NOTHING = (
    "No tensor of the two dumps was compared: no operator of one is known to be one of the other, "
    "by its name or by what it reads."
)
_UNREADABLE = "what makes it is not known, for not all of the dumps can be read"
_NOT_MADE = "no dumped operator makes it: the runs had other inputs"
_OR_CONSTANT = (
    ", or it is a constant (weights), of which the builds hold other ones (the json of TARGET's "
    "model tells which)"
)
_CONSTANT = "it is a constant of the model (weights), of which the builds hold other ones"
_EXCHANGED = "the operator reads the same tensors in both dumps, in another order"
_EXCHANGE = (
    "All operators of TARGET that were computed again are right: exchange the two, with the model "
    "of the other build, to judge the other's."
)


class BuildDifferences(NamedTuple):
    """What differs between two dumps.

    Attributes
    ----------
    sentence
        For the end of the run's own.
    culprit
        The operator of the first difference and its place; None where all is equal, or where the
        two were fed with other inputs.
    before
        The operators before the one that is outside its limits in which the error may arise as
        well: the other dump has no counterpart of them.
    """

    sentence: str
    culprit: Optional[Tuple[str, Place]]
    before: Tuple[str, ...] = ()

    def in_groups(self, suspects: Iterable[Suspect], first: FirstDivergence) -> Tuple[Suspect, ...]:
        """Return the suspects, that of the first divergence as one of the group in which its error
        may arise.
        """
        wrong = "; %s before it, of which the other dump has none, may be wrong in its place"
        told = wrong % listed([printable(op) for op in self.before], _SHOWN)
        return tuple(
            replace(suspect, group=(*self.before, suspect.op), evidence=suspect.evidence + told)
            if self.before and (suspect.op, suspect.place) == (first.op, first.place)
            else suspect
            for suspect in suspects
        )


def differences_of_builds(
    store: RunStore,
    options: ComparisonOptions,
    named: Optional[str],
    suspected: bool,
    recomputed: Mapping[Tuple[Place, str, int], RecomputationVerdict],
    pair: PairOf,
    graphs: ModelGraphs,
) -> BuildDifferences:
    """Return what differs between the two dumps of a run.

    An operator of which no input was compared is the first as well: what runs before it is equal.

    Parameters
    ----------
    named
        The operator that is outside its limits first, of which all is said already.
    suspected
        Whether an operator is suspect, so that it is said where most of the difference arises.
    recomputed
        TARGET's outputs that were computed again by the original model.
    pair
        Returns an output of TARGET beside what is computed.
    graphs
        The models of TARGET's build.
    """
    seen = _Seen(store, named)
    first, before = seen.first, seen.before
    names = [os.path.normpath(path) for path in (options.target, options.golden)]
    if names[0] == names[1]:
        names = [options.target, options.golden]
    alone = [
        sentence
        for name, by_place in zip(names, (seen.target_alone, seen.golden_alone))
        # Where each has operators alone, the two were held against each other.
        for sentence in _in_one_dump_alone(
            options,
            printable(name),
            by_place,
            seen.both.keys() | (seen.target_alone.keys() & seen.golden_alone.keys()),
        )
    ]
    said = _different_operators(store)
    if first is None:
        equal = _equal(sum(seen.both.values()), before is not None and _of_statistics(before))
        return BuildDifferences(" ".join([*said, equal, *alone]), None)
    group: Sequence[Row] = ()
    if seen.named is not None:
        said += _of_named(options, store, recomputed, seen.named, pair)
        group = _without_counterpart(options, store, recomputed, seen.named)
    if seen.named is not None and group:
        ops = listed(["%s (%s)" % (printable(one.op), one.op_type) for one in group], _SHOWN)
        said.append(
            "The error may also arise before %s, in %s, which %s has no counterpart of."
            % (printable(seen.named.op), ops, printable(names[1]))
        )
    rows = list(store.rows(place=first.place, op=first.op))
    inputs = [row for row in rows if row.kind == INPUT and row.verdict in (PASS, FAIL)]
    types = {row.tensor: _types_apart(options, row) for row in inputs if _differs(row)}
    unequal = [row for row in inputs if types.get(row.tensor) == ""]
    is_constant = bool(unequal) and _is_constant(graphs, unequal[0])
    culprit = (first.op, first.place) if is_constant or not unequal else None
    if unequal:
        why = _CONSTANT if is_constant else _unknown_maker(options, store, unequal[0])
        said.append(
            "The first tensor that differs is an input, %s (%s): %s."
            % (
                printable(unequal[0].tensor),
                _amount(unequal[0]),
                _EXCHANGED if _inputs_exchanged(options, unequal[0]) else why,
            )
        )
    elif first.op != named:
        how = _inputs_equal(first, before, rows, next(filter(None, types.values()), ""))
        said.append(
            "The first difference of the two dumps is in %s: %s, %s differs (%s)%s."
            % (
                _where(options, first),
                how,
                printable(first.tensor),
                _amount(first),
                _rounding_of_both(first, distance_of(first)),
            )
        )
        said += _right_alone(options, recomputed, first, pair)
    most = None if named or suspected else seen.most_grown(store)
    if most is not None and most.growth > distance_of(first):
        row, reads = most.row, most.inputs
        said.append(
            "Most arises in %s: its inputs differ by %s, %s by %s%s."
            % (
                _where(options, row),
                percent(reads),
                printable(row.tensor),
                percent(reads + most.growth),
                _rounding_of_both(row, most.growth),
            )
        )
        said += _right_alone(options, recomputed, row, pair)
        culprit = row.op, row.place
    before_named = tuple(one.op for one in group)
    return BuildDifferences(" ".join(said + alone), culprit, before_named)


def _inputs_equal(first: Row, before: Optional[Row], rows: Iterable[Row], apart: str) -> str:
    """Return what is known of the inputs of the first operator that differs, as a phrase.

    Parameters
    ----------
    before
        The first row that does not differ.
    rows
        Those of the operator.
    apart
        What of an input's types makes it differ, where that is all.
    """
    inputs = [row for row in rows if row.kind == INPUT]
    lacking = [row.tensor for row in inputs if row.verdict not in (PASS, FAIL)]
    if len(lacking) == len(inputs):
        earlier = before is not None and execution_key(before) < execution_key(first)
        return (
            "what was compared before it is equal"
            if earlier
            else "none of its inputs was compared, nor anything before it"
        )
    if lacking:
        return "those of its inputs that were compared are equal (%s was not)" % printable(
            lacking[0]
        )
    if _of_statistics(first):
        return "the statistics of its inputs are equal"
    return "its inputs are equal" + apart


class _Grown(NamedTuple):
    """An output that differs more than the inputs of its operator: by how much, and how far these
    do at most.
    """

    growth: float
    inputs: float
    row: Row


class _Seen:
    """What the rows of a run tell, read once.

    Attributes
    ----------
    first, before
        The first tensor that differs, and the first one that does not.
    named
        The first output of the operator that is named.
    target_alone, golden_alone
        By place the operators that one of the dumps has alone.
    both
        How many tensors were compared at each place.
    """

    def __init__(self, store: RunStore, named: Optional[str]) -> None:
        self.first: Optional[Row] = None
        self.before: Optional[Row] = None
        self.named: Optional[Row] = None
        self.target_alone: Dict[Place, Dict[str, Row]] = {}
        self.golden_alone: Dict[Place, Dict[str, Row]] = {}
        self.both: Dict[Place, int] = {}
        self._inputs: Dict[Tuple[Place, str], float] = {}
        self._outputs: Dict[Tuple[Place, str], float] = {}
        for row in store.rows():
            self._add(row, named)

    def _add(self, row: Row, named: Optional[str]) -> None:
        compared = row.verdict in (PASS, FAIL)
        if compared:
            self.both[row.place] = self.both.get(row.place, 0) + 1
        # Statistics tell of a distance how large it is at least.
        known = compared and not _of_statistics(row)
        self._add_distance(row, distance_of(row) if known else math.nan)
        if _is_target_alone(row):
            self.target_alone.setdefault(row.place, {}).setdefault(row.op, row)
        elif row.reason_codes == OTHER_ALONE or (row.cause == DUMP_MISSING and not row.target_file):
            self.golden_alone.setdefault(row.place, {}).setdefault(row.op, row)
        elif _differs(row):
            self.first = _earlier(row, self.first)
        elif compared:
            self.before = _earlier(row, self.before)
        if row.op == named and row.kind == OUTPUT and row.target_file:
            self.named = _earlier(row, self.named)

    def _add_distance(self, row: Row, distance: float) -> None:
        key = row.place, row.op
        if row.kind != INPUT:
            if distance < math.inf:
                self._outputs[key] = max(self._outputs.get(key, 0.0), distance)
            return
        known = self._inputs.get(key, 0.0)
        # NaN, of one that was not compared, stays.
        self._inputs[key] = known if known >= distance or math.isnan(known) else distance

    def most_grown(self, store: RunStore) -> Optional[_Grown]:
        """Return the output that differs most beyond the inputs of its operator, which were all
        compared; None where there is none.
        """
        growth = {
            key: distance - self._inputs[key]
            for key, distance in self._outputs.items()
            if self._inputs.get(key, math.nan) < math.inf
        }
        if not growth:
            return None
        key = max(growth, key=lambda one: growth[one])
        place, op = key
        rows = [one for one in store.rows(place=place, op=op) if one.kind == OUTPUT]
        row = next(one for one in rows if distance_of(one) == self._outputs[key])
        return _Grown(growth[key], self._inputs[key], row)


def _earlier(row: Row, other: Optional[Row]) -> Row:
    return row if other is None or execution_key(row) < execution_key(other) else other


def _of_statistics(row: Row) -> bool:
    return row.warning == BY_STATISTICS


def _where(options: ComparisonOptions, row: Row) -> str:
    return "%s (%s)%s" % (_with_original(options, row), row.op_type, where_words(row.place))


def _without_counterpart(
    options: ComparisonOptions,
    store: RunStore,
    recomputed: Mapping[Tuple[Place, str, int], RecomputationVerdict],
    row: Row,
) -> List[Row]:
    """Return the operators before one that is outside its limits in which the error may arise as
    well, in order of execution: those between it and what was compared, which the other dump has
    no counterpart of.
    """
    here = list(store.rows(place=row.place))
    compared = {(one.op, one.tensor) for one in here if one.verdict in (PASS, FAIL)}
    made: Dict[bytes, Row] = {}
    files: Dict[str, Tuple[Row, EitherDump]] = {}
    for one in here:
        # What was computed again is cleared, or named.
        key = one.place, one.op, one.tensor_index or 0
        judged = key in recomputed and recomputed[key].state != UNKNOWN
        if one.kind == OUTPUT and one.target_file and not judged:
            try:
                dump = open_either(options.target, one.target_file)
                if (one.op, one.tensor) not in compared:
                    info = dump.outputs[one.tensor_index or 0]
                    made.setdefault(digest(dump, OUTPUT, info), one)
            except (GoldwatchError, OSError, IndexError):
                continue
            files[one.target_file] = one, dump
    waiting, found = [row.target_file or ""], {}
    while waiting:
        rel = waiting.pop()
        if rel not in files:
            continue
        maker, dump = files.pop(rel)
        for info in dump.inputs:
            if (maker.op, "%s:%s:%d" % (maker.op, INPUT, info.index)) in compared:
                continue
            before = made.get(digest(dump, INPUT, info))
            if before is not None and before.target_file in files:
                found[before.op] = before
                waiting.append(before.target_file or "")
    return sorted(found.values(), key=execution_key)


def _equal(compared: int, of_statistics: bool) -> str:
    if compared and of_statistics:
        return "The statistics of all %s that both dumps have are equal." % plural(
            compared, "tensor"
        )
    if compared > 1:
        return "All %d tensors that both dumps have are equal." % compared
    return "The one tensor that both dumps have is equal." if compared else _NOTHING


def _types_apart(options: ComparisonOptions, row: Row) -> str:
    """Return, as a phrase, the types of a tensor in TARGET and in GOLDEN where one is the other,
    rounded; empty where they differ otherwise.

    Of dumps that were deleted the row alone tells: rounding changes a tensor by half a unit of the
    coarser type at most.
    """
    told = (row.target_dtype or "", row.golden_dtype or "")
    # Statistics tell of a distance how large it is at least.
    rounds = told[0] != told[1] and {*told} <= {*ROUNDING} and not _of_statistics(row)
    within = rounds and distance_of(row) <= max(ROUNDING[name].half_unit for name in told)
    try:
        dumps = (
            open_either(options.target, row.target_file),
            open_either(options.golden, row.golden_file),
        )
        number = row.tensor_index or 0
        theirs = other_name(row)
        numbers = number, int(theirs.rpartition(":")[2]) if theirs else number
        tensors = [dump.tensor(row.kind, at) for dump, at in zip(dumps, numbers)]
        names = [tensor.dtype.name for tensor in tensors]
        if names[0] == names[1] or not {*names} <= {*ROUNDING}:
            return ""
        ours, other = (np.asarray(original_array(one), np.float32).ravel() for one in tensors)
    except (GoldwatchError, OSError):
        text = " within rounding to the other's type (%s, in the other dump %s)"
        return text % told if within else ""
    wide, narrow, name = ours, other, names[1]
    if ROUNDING[names[0]].half_unit > ROUNDING[names[1]].half_unit:
        wide, narrow, name = other, ours, names[0]
    if wide.size != narrow.size or not np.array_equal(rounded(wide, name), narrow, equal_nan=True):
        return ""
    return " but for their type (%s, in the other dump %s)" % (names[0], names[1])


def _is_constant(graphs: ModelGraphs, row: Row) -> bool:
    """Tell whether an input is a constant of the model, such as weights."""
    graph = graphs.of(row.place.model)
    node = None if graph is None else graph.op(row.op)
    number = row.tensor_index or 0
    source = node.inputs[number] if node is not None and number < len(node.inputs) else None
    if graph is None or node is None or source is None:
        return False
    producer = graph.producer(node, source[0])
    return producer is not None and producer.type in FIXED_TYPES


def _unknown_maker(options: ComparisonOptions, store: RunStore, row: Row) -> str:
    """Return why an input may differ that no compared tensor explains."""
    try:
        dump = open_either(options.target, row.target_file)
        info = dump.inputs[row.tensor_index or 0]
        wanted = digest(dump, INPUT, info)
        for rel in {one.target_file: one.op for one in store.rows(place=row.place)}:
            other = dump if rel is None else open_either(options.target, rel)
            for made in other.outputs if rel != row.target_file else ():
                if made.size_bytes == info.size_bytes and digest(other, OUTPUT, made) == wanted:
                    name = parse_dump_name(os.path.basename(rel or ""))
                    maker = "an operator" if name is None else printable(name.op_name)
                    return "%s makes it, which was not compared" % maker
    except (GoldwatchError, OSError, IndexError):
        return _UNREADABLE
    # What reads nothing else reads no weights: of constants alone the compiler makes one.
    return _NOT_MADE + (_OR_CONSTANT if len(dump.inputs) > 1 else "")


def _in_one_dump_alone(
    options: ComparisonOptions,
    name: str,
    by_place: Mapping[Place, Mapping[str, Row]],
    both: Collection[Place],
) -> Iterator[str]:
    """Yield what one dump alone has: operators at the places that both have, and whole places."""
    rows: Dict[str, Row] = {}
    for place in by_place.keys() & both:
        rows.update(by_place[place])
    if rows:
        ordered = sorted(rows.values(), key=execution_key)
        shown = [_with_original(options, row) for row in ordered[:_SHOWN]]
        ops = listed(shown + [row.op for row in ordered[_SHOWN:]], _SHOWN)
        yield "%s in %s alone: %s." % (plural(len(rows), "operator"), name, ops)
    places = sorted(by_place.keys() - both, key=Place.order)
    if places:
        labels = listed([printable(place.label()) for place in places], 2, "; ")
        yield "In %s alone: all of %s." % (name, labels)


def _of_named(
    options: ComparisonOptions,
    store: RunStore,
    recomputed: Mapping[Tuple[Place, str, int], RecomputationVerdict],
    row: Row,
    pair: PairOf,
) -> Iterator[str]:
    """Yield what is to be said of the operator that is outside its limits first."""
    original = _original(options, row)
    if original:
        yield "%s is %s in the original model." % (printable(row.op), original)
    there = parse_dump_name(os.path.basename(row.golden_file or ""))
    if there is not None and there.op_type != row.op_type and not other_name(row):
        yield "In the other dump it is a %s." % printable(there.op_type)
    inputs = [one for one in store.rows(place=row.place, op=row.op) if one.kind == INPUT]
    # Of other inputs the other run's output may be right, too.
    compared = [one for one in inputs if one.verdict in (PASS, FAIL)]
    if len(compared) == len(inputs) and not any(map(_differs, compared)):
        yield from _right_alone(options, recomputed, row, pair)
    if {one.state for one in recomputed.values()} == {RIGHT}:
        yield _EXCHANGE


def _inputs_exchanged(options: ComparisonOptions, row: Row) -> bool:
    """Tell whether the operator of a row reads the same bytes in both dumps, in another order."""
    try:
        dumps = (
            open_either(options.target, row.target_file),
            open_either(options.golden, row.golden_file),
        )
        ours, theirs = ([digest(dump, INPUT, info) for info in dump.inputs] for dump in dumps)
    except (GoldwatchError, OSError):
        return False
    return ours != theirs and sorted(ours) == sorted(theirs)


def _right_alone(
    options: ComparisonOptions,
    recomputed: Mapping[Tuple[Place, str, int], RecomputationVerdict],
    row: Row,
    pair: PairOf,
) -> List[str]:
    """Return how far an output of TARGET and that of GOLDEN are from what is computed of TARGET's
    inputs, where all outputs of its operator are right.
    """
    states = {one.state for key, one in recomputed.items() if key[:2] == (row.place, row.op)}
    if states != {RIGHT}:
        return []
    op, index = printable(row.op), row.tensor_index or 0
    theirs = other_name(row)
    try:
        computed = pair(row.place, row.op, index)
        dump = open_either(options.golden, row.golden_file)
        number = int(theirs.rpartition(":")[2]) if theirs else index
        other = original_array(dump.tensor(OUTPUT, number))
    except (GoldwatchError, OSError):
        computed = None
    if computed is None or other.size != computed.computed.size:
        return ["TARGET's %s is right within rounding; exchange the two to judge the other's." % op]
    expected = np.asarray(computed.computed, np.float64).ravel()
    size = float(np.linalg.norm(expected))
    distances = [
        float(np.linalg.norm(np.asarray(values, np.float64).ravel() - expected)) / (size or 1.0)
        for values in (computed.actual, other)
    ]
    right = " right: it is" if distances[0] <= distances[1] else ""
    words = (op, right, *map(percent, distances))
    return [
        "Computed again from its own inputs, TARGET's %s is%s %s off what is computed, the other "
        "run %s." % words
    ]


def _different_operators(store: RunStore) -> List[str]:
    """Return a sentence where two files of dumps are of different operators."""
    for row in store.rows(verdict=EXPECTED_ABSENT):
        if row.reason_codes == OTHER_OPERATORS:
            return [printable(row.reason) + "."]
    return []


def _is_target_alone(row: Row) -> bool:
    return row.reason_codes == TARGET_ALONE or (row.cause == GOLDEN_MISSING and row.kind != INPUT)


def _original(options: ComparisonOptions, row: Row) -> str:
    """Return the original operator that the header of a row's dump names, where it has another
    name.
    """
    folder, rel = options.golden, row.golden_file
    if row.target_file:
        folder, rel = options.target, row.target_file
    try:
        outputs = open_either(folder, rel).outputs
    except (GoldwatchError, OSError):
        return ""
    names = [info.original_name for info in outputs if info.original_name]
    return printable(names[0]) if names and names[0] != row.op else ""


def _with_original(options: ComparisonOptions, row: Row) -> str:
    original = _original(options, row)
    return printable(row.op) + (", %s in the original model" % original if original else "")


def in_words_of_two_dumps(summary: Summary, store: RunStore) -> Summary:
    """Return a summary of two dumps, in which the other dump is not called golden data."""
    names = [op for (op,) in store.query("SELECT DISTINCT op FROM row WHERE instr(op, 'golden')")]
    said = partial(of_two_dumps, names=names)
    return replace(
        summary,
        sentence=said(summary.sentence),
        suspects=tuple(
            replace(
                suspect,
                evidence=said(suspect.evidence),
                brief=said(suspect.brief),
                explanations=tuple(
                    replace(entry, sentence=said(entry.sentence), next=said(entry.next))
                    for entry in suspect.explanations
                ),
            )
            for suspect in summary.suspects
        ),
    )


def _differs(row: Row) -> bool:
    """Return whether a compared tensor differs at all; one without a distance (bool, NaN) does if
    it fails.
    """
    distance = distance_of(row)
    if row.verdict not in (PASS, FAIL):
        return False
    return row.verdict == FAIL if math.isnan(distance) else distance > 0


def _rounding_of_both(row: Row, distance: float) -> str:
    """Return a remark where a distance is no more than rounding alone may come to: each of two
    builds rounds what it writes by half a unit of its type at most. Empty otherwise.
    """
    names = (row.target_dtype or "", row.golden_dtype or "")
    if _of_statistics(row) or not {*names} <= {*ROUNDING}:
        return ""
    half_units = [ROUNDING[name].half_unit for name in names]
    if not distance <= sum(half_units):
        return ""
    coarser = names[half_units.index(max(half_units))]
    return ", and rounding to %s alone may come to as much" % coarser


def _amount(row: Row) -> str:
    distance = distance_of(row)
    if math.isnan(distance):
        return printable(row.reason) or "outside its limits"
    return ("by %s at least" if _of_statistics(row) else "%s") % percent(distance)
