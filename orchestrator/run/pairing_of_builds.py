"""Which outputs of two dumps of one model are one tensor, where the builds call them otherwise: by
original names, by what reads them, by values.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from typing import (
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ..base.errors import GoldwatchError
from ..base.naming import parse_dump_name, sanitise_golden
from ..base.wording import listed
from ..dumps.dump_file import TensorInfo
from ..dumps.golden_set import GoldenEntry
from ..dumps.place import Place
from ..dumps.tensor_statistics import LEAST
from ..judging.diagnosis.row_digest import DISTANCE
from ..judging.limits import Limits
from ..judging.metric_text import metric_number
from ..judging.row_judge import RowJudge
from ..metrics.compare_pair import compare_pair
from ..metrics.pair_task import PairTask
from ..metrics.row import (
    DUMP_MISSING,
    EXPECTED_ABSENT,
    FAIL,
    GOLDEN_MISSING,
    MEASURES,
    NOT_COMPARED,
    OTHER_ALONE,
    PAIRED_ACROSS,
    PASS,
    TARGET_ALONE,
    Row,
)
from ..model.graph import ModelGraph
from ..model.op_groups import groups_of
from ..model.op_node import OpNode
from ..model.row_plan import INPUT, OUTPUT
from ..tensors.tensor import Tensor
from .engine import Engine
from .same_operators import (
    Build,
    EitherDump,
    by_order,
    digest,
    family,
    open_either,
    same_operators,
    same_readers,
)

_MOST_TRIED = 8
"""With how many outputs of the other build one is compared where no name tells its counterpart."""
_NEARER = 0.1
"""How many times nearer than the tensor of its name another must be to be its counterpart, where
nothing else tells that it is."""
_BY_HEADER = "paired with %s of the other dump by the original names in the headers"
_BY_MODEL = (
    "paired with %s of the other dump: by the model's json the operator is fused of that one and "
    "those before it"
)
_BY_VALUES = "paired with %s of the other dump by its values: no other is as near"
_BY_READING = (
    "paired with %s of the other dump: the builds fused other operators, and the tensor of that "
    "name is farther from it"
)
_BY_READERS = "paired with %s of the other dump: the same operator reads it"
_BY_INPUTS = "paired with %s of the other dump: the same operator, by its type and what feeds it"
_BY_ORDER = (
    "paired with %s of the other dump: both ran operators of the same types and shapes in the same "
    "order"
)
_CALLED = "TARGET calls it %s"
_AS_MADE = "as %s, which it holds"
_FUSED = "the other build fused other operators, and has no such input"
_ALONE_SOMEWHERE = (
    "SELECT 1 FROM row WHERE kind <> 'input' AND (target_file IS NULL) <> (golden_file IS NULL) "
    "LIMIT 1"
)
_ACROSS = "SELECT 1 FROM tensor WHERE instr(reason_codes, '%s=') LIMIT 1" % PAIRED_ACROSS
_NUMBERED = re.compile(r"trans_(?:TransData|Cast)_[0-9]+$")
_INSERTED = (
    "the compiler numbers the TransData and Cast that it puts in: in the other build, whose "
    "operators are others, the name may be that of another one"
)
_ALONE = "%s build alone has the operator; what runs behind it is compared"
_ELSEWHERE = "its output is compared with %s of TARGET: the builds fused other operators"
_OTHER_TENSOR = (
    "the tensor of that name is another one in the other build: what reads it (%s, there %s) is an "
    "operator of another name or form, and makes the same: the builds fused other operators"
)


class _Unpaired(NamedTuple):
    """An output of GOLDEN that has no counterpart so far, and the row that says so."""

    row: Row
    rel: str
    dump: EitherDump
    info: TensorInfo

    @property
    def tensor(self) -> str:
        return _tensor(self.row, self.info.index)


def pair_across_names(engine: Engine) -> None:
    """Compare outputs of TARGET that have no counterpart of their name, or another tensor there,
    with outputs of GOLDEN that have none: another build, or another export, calls operators
    otherwise, and a build that fuses operators calls the result by the name of one of them.
    Original names in the headers and the model's json tell which belong together; then what
    operators of one type read; then values.

    An operator that one build alone has, and that reads the tensor of a name, may have been fused
    into the operator of that name: its output is the counterpart where it is nearer than the tensor
    of that name, also outside the limits, as all is behind a wrong operator.

    Must be called once all rows are stored, inside a transaction of the store.
    """
    _pair_outputs(engine)
    if not engine.options.exact:
        engine.put_rows(_of_other_tensors(engine))


def _pair_outputs(engine: Engine) -> None:
    rows = list(engine.store.rows(verdict=NOT_COMPARED))
    across: List[Row] = []
    if engine.store.query(_ACROSS):
        stored = [row for row in engine.store.rows() if other_name(row)]
        _keep(engine, stored)
        across = [row for row in stored if row.kind == OUTPUT]
    if not across and not engine.store.query(_ALONE_SOMEWHERE):
        return
    rows += engine.store.rows(verdict=FAIL)
    taken = {(row.place, other_name(row)) for row in across}
    unpaired = _unpaired_outputs(engine, rows, taken)
    found: List[_Across] = []
    heads: Dict[Tuple[Place, str], str] = {}
    for place, theirs_alone in unpaired.items():
        ours = [row for row in rows if row.place == place and _is_unpaired(row)]
        if ours:
            at_place, begun = _paired(engine, place, ours, theirs_alone)
            found += at_place
            heads.update({(place, rel): other for rel, other in begun.items()})
    same = {
        (one.row.place, one.row.target_file): one.row.golden_file for one in found if one.is_same
    }
    across += [one.row for one in found]
    # What an earlier start found is stored, and planned anew what that left without a counterpart.
    by_tensor = {(row.place, other_name(row)): row for row in across}
    by_golden_file = {(row.place, row.golden_file): row for row in across}
    files = {(row.place, row.target_file) for row in across}
    changed = [*across, *_of_other_ops(engine, rows, across)]
    theirs: Dict[Place, Dict[str, Row]] = {}
    for row in (*across, *rows):
        if row.golden_file and (row.cause == DUMP_MISSING or other_name(row)):
            theirs.setdefault(row.place, {})[row.golden_file] = row
    of_their_names = [
        row
        for row in rows
        if row.verdict == FAIL and (row.place, _tensor(row, row.tensor_index or 0)) not in by_tensor
    ]
    made = _outputs_by_bytes(engine, [*across, *of_their_names]) if files else {}
    for row in rows:
        there: Optional[Row] = None
        if row.cause == DUMP_MISSING and not row.target_file:
            there = by_golden_file.get((row.place, row.golden_file))
        elif row.kind == OUTPUT and row.verdict == FAIL:
            there = by_tensor.get((row.place, _tensor(row, row.tensor_index or 0)))
        if there is not None and there.tensor != row.tensor:
            is_same = (there.place, there.target_file) in same
            changed.append(row.but(
                verdict=EXPECTED_ABSENT, reason_codes="", cause="", decided_by="", metrics={},
                reason=_CALLED % there.op if is_same else _ELSEWHERE % there.tensor,
            ))  # fmt: skip
        elif (
            row.cause == GOLDEN_MISSING
            and row.kind == INPUT
            and ((row.place, row.target_file) in files)
        ):
            there = theirs.get(row.place, {}).get(same.get((row.place, row.target_file)) or "")
            given = (
                _as_made(engine, row, made)
                if there is None
                else _compared_as_same(
                    engine, row, there, "%s:%s:%d" % (there.golden, INPUT, row.tensor_index or 0)
                )
            ) or _input_counterpart(
                engine,
                row,
                theirs.get(row.place, {}),
                heads.get((row.place, row.target_file or "")),
            )
            changed.append(
                given or row.but(verdict=EXPECTED_ABSENT, reason=_FUSED, reason_codes="", cause="")
            )
    engine.put_rows(changed)
    _keep(engine, (row for row in changed if other_name(row)))
    # Of two runs that are to be equal bit for bit, what one lacks is missing.
    if across or not engine.options.exact:
        engine.put_rows(_of_one_build(engine))


def _keep(engine: Engine, rows: Iterable[Row]) -> None:
    """Let rows beside tensors of other names be read again."""
    engine.across.update({(row.target_file or "", row.tensor): row for row in rows})


class _Builds(NamedTuple):
    """The two dumps at a place.

    Attributes
    ----------
    known
        TARGET's files of operators that are paired, each with GOLDEN's.
    """

    ours: Build
    theirs: Build
    known: Dict[str, str]


def _is_unpaired(row: Row) -> bool:
    """Tell whether a row is of an output of TARGET that has no counterpart so far, or may have
    another one than the tensor of its name.
    """
    return (
        row.kind == OUTPUT
        and bool(row.target_file)
        and not other_name(row)
        and (row.cause == GOLDEN_MISSING or (row.verdict == FAIL and _of_its_name(row)))
    )


def _of_its_name(row: Row) -> bool:
    """Tell whether a row is beside a dump of its op's name, not of another op to which originals or
    a TransData led.
    """
    name = parse_dump_name(os.path.basename(row.golden_file or ""))
    return name is None or name.op_name == sanitise_golden(row.op)


def _paired(
    engine: Engine, place: Place, ours: List[Row], theirs: List[_Unpaired]
) -> Tuple[List[_Across], Dict[str, str]]:
    """Return outputs of TARGET at a place beside outputs of GOLDEN that have no counterpart there,
    and files of operators that begin alike (:func:`same_readers`).

    What is paired tells more of what reads it, and what that makes.
    """
    builds = _builds(engine, place, ours, theirs)
    chosen: List[_Across] = []
    while True:
        found = [] if chosen else _last_originals(engine, place, builds, ours, theirs)
        found += _same_operators(engine, builds, ours, theirs)
        files = {one.row.target_file for one in found}
        of_same = {one.row.golden_file for one in found}
        others = [one for one in theirs if one.rel not in of_same]
        reading = _Reading(builds, ours, others)
        for row in ours:
            if row.target_file not in files:
                found += _counterparts(engine, row, others, reading, by_values=not chosen)
        taken: Set[Tuple[str, str]] = set()
        new: List[_Across] = []
        for one in sorted(
            found, key=lambda each: (each.distance >= 0 and not each.read_alike, each.distance)
        ):
            ends = {("ours", one.row.tensor), ("theirs", other_name(one.row))}
            if not taken & ends:
                taken |= ends
                new.append(one)
        chosen += new
        ours = [row for row in ours if ("ours", row.tensor) not in taken]
        theirs = [one for one in theirs if ("theirs", one.tensor) not in taken]
        if not (new and ours and theirs):
            return chosen, reading.heads
        builds.known.update((one.row.target_file or "", one.row.golden_file or "") for one in new)
        builds.ours.alone.difference_update(one.row.target_file or "" for one in new)
        builds.theirs.alone.difference_update(one.row.golden_file or "" for one in new)


def _builds(
    engine: Engine, place: Place, ours: Iterable[Row], theirs: Iterable[_Unpaired]
) -> _Builds:
    stored = list(engine.store.rows(place=place))
    left, right = (
        _build(root, [rel for rel in files if rel], alone)
        for root, files, alone in (
            (
                engine.options.target,
                [row.target_file for row in stored],
                [row.target_file or "" for row in ours if row.cause == GOLDEN_MISSING],
            ),
            (
                engine.options.golden,
                [row.golden_file for row in stored],
                [one.rel for one in theirs if not one.row.target_file],
            ),
        )
    )
    known = {
        row.target_file: row.golden_file
        for row in stored
        if row.kind == OUTPUT
        and row.target_file
        and row.golden_file
        and not other_name(row)
        # The compiler's numbers are others in another build.
        and not (row.verdict == FAIL and _NUMBERED.match(row.op))
    }
    return _Builds(left, right, known)


def _last_originals(
    engine: Engine,
    place: Place,
    builds: _Builds,
    ours: Iterable[Row],
    theirs: Iterable[_Unpaired],
) -> List[_Across]:
    """Return outputs of operators that TARGET's model fused of several beside GOLDEN's output of
    the one that ran last of them there.

    Ops that share their originals, or have several outputs, are left to what reads them: which
    output is whose is not known. So are those of which GOLDEN lacks an original, or the
    first one of what reads it: what GOLDEN holds may be fused otherwise.
    """
    graph = engine.graphs.of(place.model)
    if graph is None:
        return []
    ran: Dict[str, int] = {}
    for rel in builds.theirs.dumps:
        name = parse_dump_name(os.path.basename(rel))
        if name is not None:
            ran[name.op_name] = name.timestamp_us
    alone = {one.tensor: one for one in theirs}
    found: List[_Across] = []
    for row in ours:
        ops = graph.ops_named(row.op)
        originals = [sanitise_golden(name) for name in ops[0].originals] if len(ops) == 1 else []
        if (
            len(originals) < 2
            or len(ops[0].output_descs) != 1
            or not groups_of(graph).stands_alone(ops[0])
            or not all(name in ran for name in [*originals, *_read_next(graph, ops[0])])
        ):
            continue
        last = alone.get("%s:output:0" % max(originals, key=lambda name: ran[name]))
        if last is None or last.row.tensor == row.tensor:
            continue
        now = _compared_as_same(engine, row, last.row, last.tensor, _BY_MODEL)
        found += [] if now is None else [_Across(-1.0, now)]
    return found


def _read_next(graph: ModelGraph, op: OpNode) -> Set[str]:
    """Return the first originals of the operators that read an op, past those put in."""
    found: Set[str] = set()
    seen, waiting = {op.position}, [op]
    while waiting:
        for reader in graph.consumers(waiting.pop()):
            if reader.position not in seen:
                seen.add(reader.position)
                if reader.originals:
                    found.add(sanitise_golden(reader.originals[0]))
                else:
                    waiting.append(reader)
    return found


def _same_operators(
    engine: Engine, builds: _Builds, ours: Iterable[Row], theirs: Iterable[_Unpaired]
) -> List[_Across]:
    """Return outputs of operators that TARGET alone has beside those of the same ones in GOLDEN."""
    by_file: Dict[str, List[Row]] = {}
    for row in ours:
        if row.target_file in builds.ours.alone:
            by_file.setdefault(row.target_file or "", []).append(row)
    outputs: Dict[str, List[_Unpaired]] = {}
    for one in theirs:
        if one.rel in builds.theirs.alone:
            outputs.setdefault(one.rel, []).append(one)
    names = [
        {
            info.original_name
            for rel in build.alone
            if rel in build.dumps
            for info in build.dumps[rel].outputs
        }
        for build in (builds.ours, builds.theirs)
    ]
    # Where original names tell, they do it alone.
    told = (names[0] & names[1]) - {None, ""}
    left, right = (
        build._replace(alone={
            rel
            for rel in build.alone & {*build.dumps}
            if not any(info.original_name in told for info in build.dumps[rel].outputs)
        })
        for build in (builds.ours, builds.theirs)
    )  # fmt: skip
    pairs, text = same_operators(left, right, builds.known), _BY_INPUTS
    if not pairs:
        pairs, text = by_order(left, right), _BY_ORDER
    found: List[_Across] = []
    for rel, other in pairs.items():
        for row in by_file[rel]:
            for one in outputs[other]:
                if one.info.index == row.tensor_index:
                    now = _compared_as_same(engine, row, one.row, one.tensor, text)
                    found += [] if now is None else [_Across(-1.0, now, True)]
    return found


def _build(root: str, files: Iterable[str], alone: Iterable[str]) -> Build:
    dumps: Dict[str, EitherDump] = {}
    types: Dict[str, str] = {}
    for rel in dict.fromkeys([*alone, *files]):
        name = parse_dump_name(os.path.basename(rel))
        try:
            dumps[rel] = open_either(root, rel)
        except (GoldwatchError, OSError):
            continue
        types[rel] = "" if name is None else family(name.op_type)
    return Build(dumps, types, {rel for rel in alone if rel in dumps}, {})


def _compared_as_same(
    engine: Engine, row: Row, there: Row, tensor: str, text: str = _BY_INPUTS
) -> Optional[Row]:
    """Return a row of an operator of TARGET beside a tensor of the same operator in GOLDEN, of
    which ``there`` is a row; None where it cannot be compared.
    """
    try:
        dump = open_either(engine.options.target, row.target_file)
        target = dump.tensor(row.kind, row.tensor_index or 0)
    except (GoldwatchError, OSError):
        return None
    now = _compared_across(engine, row, target, there, tensor, text).row
    return now if now.verdict in (PASS, FAIL) else None


def _compared_across(
    engine: Engine, row: Row, target: Tensor, there: Row, tensor: str, text: str
) -> _Beside:
    """Return a row of TARGET beside a tensor of another name in the file of a row of GOLDEN, with
    the reason in ``text``.
    """
    planned = row.but(
        verdict=PASS, reason=text % tensor, reason_codes="%s=%s" % (PAIRED_ACROSS, tensor),
        cause="", decided_by="", golden=there.golden, golden_file=there.golden_file,
    )  # fmt: skip
    task = task_across(engine, planned, target)
    settings = engine.options.settings()
    if not engine.options.exact:
        row = compare_pair(task, settings)
        return _Beside(row, row.verdict, distance_of(row))
    limits = Limits()
    metrics = tuple(name for name in MEASURES if name == DISTANCE or name in limits.metrics)
    by_values = replace(settings, metrics=metrics, judge=RowJudge(limits), exact=False)
    near = compare_pair(task, by_values)
    row = compare_pair(task, settings)
    return _Beside(row, near.verdict, distance_of(near))


def _distance(engine: Engine, row: Row) -> float:
    """Return how far the tensors of a failing row are apart; infinite where that is not known."""
    if engine.options.exact and row.target_file and row.golden_file:
        try:
            dump = open_either(engine.options.target, row.target_file)
            target = dump.tensor(row.kind, row.tensor_index or 0)
        except (GoldwatchError, OSError):
            return math.inf
        tensor = _tensor(row, row.tensor_index or 0)
        distance = _compared_across(engine, row, target, row, tensor, "%s").distance
    else:
        distance = distance_of(row)
    return math.inf if math.isnan(distance) else distance


def _of_other_ops(engine: Engine, rows: Iterable[Row], across: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of TransData and Cast that bear the compiler's numbers and are other ones in the
    other build: one that reads what the other reads, and makes something else, is the same and
    wrong.
    """
    paired = {(row.place, row.tensor) for row in across}
    for row in rows:
        if (
            not _NUMBERED.match(row.op)
            or not (row.target_file and row.golden_file)
            or (row.place, row.tensor) in paired
        ):
            continue
        op = engine.store.rows(place=row.place, op=row.op)
        if not any(other.kind == INPUT and other.verdict == PASS for other in op):
            yield row.but(
                verdict=EXPECTED_ABSENT, reason=_INSERTED, reason_codes="", cause="",
                decided_by="", metrics={},
            )  # fmt: skip


def _of_one_build(engine: Engine) -> List[Row]:
    """Return the rows of operators that one build alone has, which the compiler put in or fused:
    absent as expected where something that runs behind them is compared. Nothing is known of what
    is behind the last tensor compared: a run that ended early has no other operators.
    """
    last: Dict[Place, List[int]] = {}
    alone: List[Row] = []
    dumped, compared = set(), set()
    for row in engine.store.rows():
        if row.target_file:
            dumped.add((row.place, row.op))
        if row.kind == OUTPUT and row.verdict in (PASS, FAIL):
            compared.add((row.place, row.op))
            ends = last.setdefault(row.place, [0, 0])
            name = parse_dump_name(os.path.basename(row.golden_file or ""))
            ends[0] = max(ends[0], row.timestamp_us or 0)
            ends[1] = max(ends[1], name.timestamp_us if name is not None else 0)
        elif row.verdict == NOT_COMPARED and row.cause in (GOLDEN_MISSING, DUMP_MISSING):
            alone.append(row)
    there = {
        place: set(engine.goldens.of(place).op_names()) for place in {row.place for row in alone}
    }
    changed: List[Row] = []
    for row in alone:
        golden_alone = row.cause == DUMP_MISSING
        graph = engine.graphs.of(row.place.model)
        if golden_alone and (
            row.target_file
            or (row.place, row.op) in dumped
            # The build has it, and its dump is lost.
            or (graph is not None and graph.ops_named(row.op))
        ):
            continue
        if not golden_alone and sanitise_golden(row.op) in there[row.place]:
            continue
        if row.kind == INPUT and (row.place, row.op) in compared and not golden_alone:
            changed.append(row.but(verdict=EXPECTED_ABSENT, reason=_FUSED, cause=""))
        elif (row.timestamp_us or 0) < last.get(row.place, [0, 0])[golden_alone]:
            changed.append(row.but(
                verdict=EXPECTED_ABSENT, cause="",
                reason=_ALONE % ("the other" if golden_alone else "this"),
                reason_codes=OTHER_ALONE if golden_alone else TARGET_ALONE,
            ))  # fmt: skip
    return changed


def _of_other_tensors(engine: Engine) -> List[Row]:
    """Return the rows of outputs that are no tensor of the other build, though that has one of the
    name: one build fused into the operator what the other fused into its reader. Nothing but such
    readers read it, in both dumps; they differ in name, type or number of inputs, and their outputs
    agree all the same.
    """
    failing: Dict[Place, List[Row]] = {}
    for row in engine.store.rows(verdict=FAIL):
        if row.kind == OUTPUT and row.golden_file and not other_name(row) and _of_its_name(row):
            failing.setdefault(row.place, []).append(row)
    changed: List[Row] = []
    for place, outputs in failing.items():
        stored = list(engine.store.rows(place=place))
        made = [row for row in stored if row.kind == OUTPUT and row.target_file]
        wrong = {row.target_file for row in made if row.verdict != PASS}
        pairs = {
            row.target_file or "": row.golden_file or ""
            for row in made
            if row.golden_file and row.target_file not in wrong
        }
        files = [(row.target_file, row.golden_file) for row in stored]
        ours = _build(engine.options.target, [one for one, _ in files if one], ())
        theirs = _build(engine.options.golden, [one for _, one in files if one], ())
        apart = {
            rel: other
            for rel, other in pairs.items()
            if rel in ours.dumps and other in theirs.dumps
            and (_op_name(rel), ours.types[rel], len(ours.dumps[rel].inputs))
            != (_op_name(other), theirs.types[other], len(theirs.dumps[other].inputs))
        }  # fmt: skip
        for row in outputs if apart else ():
            number = row.tensor_index or 0
            readers = _readers_of(ours, row.target_file or "", number)
            there = _readers_of(theirs, row.golden_file or "", number)
            if not readers or {apart.get(rel) for rel, _ in readers} != {rel for rel, _ in there}:
                continue
            reason = _OTHER_TENSOR % tuple(
                listed(sorted(_op_name(rel) for rel, _ in files), 2) for files in (readers, there)
            )
            changed += [
                one.but(
                    verdict=EXPECTED_ABSENT, reason=reason, reason_codes="", cause="",
                    decided_by="", metrics={},
                )
                for one in stored
                if one.tensor == row.tensor
                or (one.verdict == FAIL and one.kind == INPUT
                    and (one.target_file, one.tensor_index) in readers)
            ]  # fmt: skip
    return changed


def _readers_of(build: Build, rel: str, number: int) -> Set[Tuple[str, int]]:
    """Return the files of a dump, and which of their inputs, that hold an output of another one."""
    if rel not in build.dumps or number >= len(build.dumps[rel].outputs):
        return set()
    made = build.dumps[rel].outputs[number]
    return {
        (other, info.index)
        for other, dump in build.dumps.items()
        for info in dump.inputs
        if other != rel
        and info.size_bytes == made.size_bytes
        and build.digest(other, INPUT, info) == build.digest(rel, OUTPUT, made)
    }


def _op_name(rel: str) -> str:
    name = parse_dump_name(os.path.basename(rel))
    return "" if name is None else name.op_name


def _outputs_by_bytes(engine: Engine, rows: Iterable[Row]) -> Dict[Tuple[Place, bytes], Row]:
    """Return the rows of outputs by what TARGET's dumps hold."""
    found: Dict[Tuple[Place, bytes], Row] = {}
    for row in rows:
        if row.kind == OUTPUT and row.target_file and not _NUMBERED.match(row.op):
            try:
                dump = open_either(engine.options.target, row.target_file)
                info = dump.outputs[row.tensor_index or 0]
            except (GoldwatchError, OSError, IndexError):
                continue
            found.setdefault((row.place, digest(dump, OUTPUT, info)), row)
    return found


def _as_made(engine: Engine, row: Row, made: Mapping[Tuple[Place, bytes], Row]) -> Optional[Row]:
    """Return the row of an input as that of the output whose bytes it holds; None for others."""
    try:
        dump = open_either(engine.options.target, row.target_file)
        output = made.get((row.place, digest(dump, INPUT, dump.inputs[row.tensor_index or 0])))
    except (GoldwatchError, OSError, IndexError):
        return None
    return output and row.but(
        verdict=output.verdict, metrics=output.metrics, decided_by=output.decided_by, cause="",
        golden=output.golden, golden_file=output.golden_file,
        reason=_AS_MADE % output.tensor,
        reason_codes=output.reason_codes,
    )  # fmt: skip


def _input_counterpart(
    engine: Engine, row: Row, theirs: Mapping[str, Row], first: Optional[str]
) -> Optional[Row]:
    """Return the row of an input beside the input of an operator that GOLDEN's build fuses
    otherwise, as near as no other; None where none passes. ``first``: the file that is tried first.
    """
    best: Optional[Row] = None
    nearest = math.inf
    try:
        dump = open_either(engine.options.target, row.target_file)
        info = dump.inputs[row.tensor_index or 0]
        target = dump.tensor(INPUT, info.index)
    except (GoldwatchError, OSError, IndexError):
        return None
    for rel, there in sorted(theirs.items(), key=lambda one: one[0] != first)[:_MOST_TRIED]:
        try:
            other = open_either(engine.options.golden, rel)
        except (GoldwatchError, OSError):
            continue
        for theirs_info in other.inputs:
            if (theirs_info.shape, theirs_info.dtype) != (info.shape, info.dtype):
                continue
            tensor = "%s:%s:%d" % (there.golden, INPUT, theirs_info.index)
            now = _compared_across(engine, row, target, there, tensor, _BY_VALUES)
            if now.verdict == PASS and now.distance < nearest:
                best, nearest = now.row, now.distance
    return best


def distance_of(row: Row) -> float:
    """Return how far two tensors are apart, of statistics at least; NaN where that is not known."""
    distance = metric_number(row.metrics.get(DISTANCE))
    return metric_number(row.metrics.get(LEAST)) if math.isnan(distance) else distance


def other_name(row: Row) -> str:
    """Return the tensor of GOLDEN that a row is paired with across names; empty where it is not."""
    return row.code_value(PAIRED_ACROSS) or ""


def _tensor(row: Row, index: int) -> str:
    return "%s:output:%d" % (row.golden, index)


def _unpaired_outputs(
    engine: Engine, rows: Iterable[Row], taken: Collection[Tuple[Place, str]]
) -> Dict[Place, List[_Unpaired]]:
    """Return GOLDEN's outputs without a counterpart, and those that differ from the tensor of their
    name, by place.
    """
    outputs: Dict[Place, List[_Unpaired]] = {}
    for row in rows:
        alone = row.cause == DUMP_MISSING and not row.target_file
        differs = (
            row.kind == OUTPUT and row.verdict == FAIL and not other_name(row) and _of_its_name(row)
        )
        if not row.golden_file or not (alone or differs):
            continue
        try:
            dump = open_either(engine.options.golden, row.golden_file)
        except (GoldwatchError, OSError):
            continue
        numbers = range(len(dump.outputs)) if alone else [row.tensor_index or 0]
        outputs.setdefault(row.place, []).extend(
            _Unpaired(row, row.golden_file, dump, dump.outputs[number])
            for number in numbers
            if number < len(dump.outputs) and (row.place, _tensor(row, number)) not in taken
        )
    return outputs


def task_across(engine: Engine, row: Row, target: Tensor) -> PairTask:
    """Return a tensor of TARGET and that of another name which its row is paired with."""
    rel, (_, kind, number) = row.golden_file or "", other_name(row).rsplit(":", 2)
    path = os.path.join(engine.options.golden, rel)
    entry = GoldenEntry(path, rel, row.golden, int(number), row.timestamp_us, "npu", kind)
    return PairTask(row, target, entry, as_stored=True)


class _Beside(NamedTuple):
    """A row beside a tensor of another name, and by values its verdict and how far apart they are,
    also where bytes are compared.
    """

    row: Row
    verdict: str
    distance: float


class _Across(NamedTuple):
    """The row of an output beside an output of another name, and how far apart they are; below 0
    where original names, or what operators read, tell that they are one tensor. ``is_same``: of one
    operator. ``read_alike``: the same input of the same operator reads both, by which an output
    behind a wrong operator is known where others are nearer.
    """

    distance: float
    row: Row
    is_same: bool = False
    read_alike: bool = False


def _counterparts(
    engine: Engine, row: Row, candidates: List[_Unpaired], reading: _Reading, by_values: bool
) -> List[_Across]:
    """Return an output beside those of GOLDEN's unpaired outputs that may be its counterpart."""
    try:
        dump = open_either(engine.options.target, row.target_file)
        info = dump.outputs[row.tensor_index or 0]
        target = dump.tensor(OUTPUT, info.index)
    except (GoldwatchError, OSError, IndexError):
        return []
    alike = [
        one
        for one in candidates
        if one.row.tensor != row.tensor
        and (one.info.shape, one.info.dtype) == (info.shape, info.dtype)
    ]
    origin = (info.original_name, info.original_index)
    named = [
        one
        for one in alike
        if info.original_name and (one.info.original_name, one.info.original_index) == origin
    ]
    # A name that the other dump has, too, is that of another tensor there.
    nameless = [one for one in alike if not reading.names & {origin[0], one.info.original_name}]
    read_alike = [one for one in nameless if reading.same_operator_reads(row, one)]
    tried = [(True, one) for one in named[:1]] or sorted(
        [(one in read_alike or reading.tells(row, one), one) for one in nameless],
        key=lambda each: (each[1] not in read_alike, not each[0]),
    )
    # One of its own type is not fused into it: it is wrong, whatever is nearer.
    reads_the_same = row.verdict == FAIL and _reads_the_same(engine, row)
    found = []
    for fused, one in tried[:_MOST_TRIED]:
        if not (fused or by_values):
            continue
        text = _BY_HEADER if named else _BY_VALUES
        if fused and not named:
            alone = row.cause == GOLDEN_MISSING and one.row.cause == DUMP_MISSING
            text = _BY_READERS if alone else _BY_READING
        now = _compared_across(engine, row, target, one.row, one.tensor, text)
        if named:
            if now.verdict in (PASS, FAIL):
                found.append(_Across(-1.0, now.row))
            continue
        # Of the tensors of either name, the one that is there.
        nearest = _distance(engine, row if row.verdict == FAIL else one.row)
        passes = now.verdict == PASS and (row.verdict != FAIL or now.distance < _NEARER * nearest)
        is_nearer = fused and now.verdict in (PASS, FAIL) and now.distance < nearest
        if passes or (
            is_nearer and not (reads_the_same and family(one.row.op_type) == family(row.op_type))
        ):
            is_same = fused and reading.heads.get(row.target_file or "") == one.rel
            found.append(_Across(now.distance, now.row, is_same, one in read_alike))
    return [one for one in found if one.read_alike] or found


def _reads_the_same(engine: Engine, row: Row) -> bool:
    """Tell whether the op of a row has the type of that of its name in the other dump, and all of
    its inputs to the bit.
    """
    name = parse_dump_name(os.path.basename(row.golden_file or ""))
    if name is None or family(name.op_type) != family(row.op_type):
        return False
    inputs = [one for one in engine.store.rows(place=row.place, op=row.op) if one.kind == INPUT]
    return bool(inputs) and all(
        one.verdict == PASS
        and not other_name(one)
        and (engine.options.exact or distance_of(one) == 0.0)
        for one in inputs
    )


class _Reading:
    """Which outputs of the two dumps are one tensor by what reads them: the same input of the same
    operator; or an operator that one build alone has, which reads the tensor of the other's name,
    directly or through others of that build alone. An output and what reads it share their bytes.

    Attributes
    ----------
    heads
        Files of TARGET whose operators begin as those of the file of GOLDEN, and read the same.
    names
        Original names that headers of both dumps tell.
    """

    def __init__(self, builds: _Builds, ours: Iterable[Row], theirs: Iterable[_Unpaired]) -> None:
        self.heads = same_readers(builds.ours, builds.theirs, builds.known)
        names = [
            {info.original_name for dump in build.dumps.values() for info in dump.outputs}
            for build in (builds.ours, builds.theirs)
        ]
        self.names = (names[0] & names[1]) - {None, ""}
        pairs = {**self.heads, **builds.known}
        alone = {row.target_file or "": row.cause == GOLDEN_MISSING for row in ours}
        self._of_target = _Readers(builds.ours, alone, pairs)
        alone = {one.rel: not one.row.target_file for one in theirs}
        self._of_golden = _Readers(builds.theirs, alone, {rel: rel for rel in builds.theirs.dumps})

    def same_operator_reads(self, row: Row, one: _Unpaired) -> bool:
        """Return whether the same input of the same operator reads both outputs."""
        mine = self._of_target.readers.get(row.target_file or "", set())
        return bool(mine & self._of_golden.readers.get(one.rel, set()))

    def tells(self, row: Row, one: _Unpaired) -> bool:
        """Return whether an output of TARGET may be an output of GOLDEN of another name, as an
        operator that one build alone has reads the tensor of the other's name.
        """
        ours, theirs = self._of_target, self._of_golden
        mine = row.target_file or ""
        if row.cause == GOLDEN_MISSING:
            return (one.row.target_file or "") in ours.read.get(mine, ())
        return (row.golden_file or "") in theirs.read.get(one.rel, ())


class _Readers:
    """Who reads outputs of one dump.

    Attributes
    ----------
    read
        Of each file of an operator that its build alone has, the files whose outputs it reads.
    readers
        Of each file, the operators and inputs that read its outputs, as GOLDEN calls them.
    """

    def __init__(self, build: Build, outputs: Mapping[str, bool], pairs: Mapping[str, str]) -> None:
        dumps = build.dumps
        makers: Dict[bytes, List[str]] = {}
        sizes = set()
        for rel in outputs:
            for info in dumps[rel].outputs if rel in dumps else ():
                sizes.add(info.size_bytes)
                makers.setdefault(build.digest(rel, OUTPUT, info), []).append(rel)
        self.read: Dict[str, Dict[str, None]] = {rel: {} for rel, alone in outputs.items() if alone}
        self.readers: Dict[str, Set[Tuple[str, int]]] = {}
        for rel, dump in dumps.items():
            name = parse_dump_name(os.path.basename(pairs.get(rel, rel)))
            for info in dump.inputs:
                found = (
                    makers.get(build.digest(rel, INPUT, info)) if info.size_bytes in sizes else None
                )
                for maker in found or ():
                    if maker == rel:
                        continue
                    self.read.get(rel, {})[maker] = None
                    if name is not None and (rel in pairs or not _NUMBERED.match(name.op_name)):
                        self.readers.setdefault(maker, set()).add((name.op_name, info.index))
        for makers_of in self.read.values():
            waiting = list(makers_of)
            while waiting:
                for more in self.read.get(waiting.pop(), ()):
                    if more not in makers_of:
                        makers_of[more] = None
                        waiting.append(more)
