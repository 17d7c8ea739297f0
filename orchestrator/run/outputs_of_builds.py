"""Which output of one dump is which of another one of the same model, where the builds call them
otherwise: by original names, by what reads them, by values.
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
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ..base.errors import GoldwatchError
from ..base.naming import parse_dump_name, sanitise_golden
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
    FAIL,
    GOLDEN_MISSING,
    MEASURES,
    PAIRED_ACROSS,
    PASS,
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
    family,
    open_either,
    same_operators,
    same_readers,
)

MOST_TRIED = 8
"""With how many outputs of the other build one is compared where no name tells its counterpart."""
_NEARER = 0.1
"""How many times nearer than the tensor of its name another must be to be its counterpart, where
nothing else tells that it is."""
_BY_HEADER = "paired with %s of the other dump by the original names in the headers"
_BY_MODEL = (
    "paired with %s of the other dump: by the model's json the operator is fused of that one and "
    "those before it"
)
BY_VALUES = "paired with %s of the other dump by its values: no other is as near"
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
NUMBERED = re.compile(r"trans_(?:TransData|Cast)_[0-9]+$")
"""Operators that a compiler puts in and numbers by itself."""


class _Unpaired(NamedTuple):
    """An output of GOLDEN that has no counterpart so far, and the row that says so."""

    row: Row
    rel: str
    dump: EitherDump
    info: TensorInfo

    @property
    def tensor(self) -> str:
        return output_name(self.row, self.info.index)


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


def is_unpaired(row: Row) -> bool:
    """Tell whether a row is of an output of TARGET that has no counterpart so far, or may have
    another one than the tensor of its name.
    """
    return (
        row.kind == OUTPUT
        and bool(row.target_file)
        and not other_name(row)
        and (row.cause == GOLDEN_MISSING or (row.verdict == FAIL and of_its_name(row)))
    )


def of_its_name(row: Row) -> bool:
    """Tell whether a row is beside a dump of its op's name, not of another op to which originals or
    a TransData led.
    """
    name = parse_dump_name(os.path.basename(row.golden_file or ""))
    return name is None or name.op_name == sanitise_golden(row.op)


def paired(
    engine: Engine, place: Place, ours: List[Row], theirs: List[_Unpaired]
) -> Tuple[List[Across], Dict[str, str]]:
    """Return outputs of TARGET at a place beside outputs of GOLDEN that have no counterpart there,
    and files of operators that begin alike (:func:`same_readers`).

    What is paired tells more of what reads it, and what that makes.
    """
    builds = _builds(engine, place, ours, theirs)
    chosen: List[Across] = []
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
        new: List[Across] = []
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
        build_of(root, [rel for rel in files if rel], alone)
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
        and not (row.verdict == FAIL and NUMBERED.match(row.op))
    }
    return _Builds(left, right, known)


def _last_originals(
    engine: Engine,
    place: Place,
    builds: _Builds,
    ours: Iterable[Row],
    theirs: Iterable[_Unpaired],
) -> List[Across]:
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
    found: List[Across] = []
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
        now = compared_as_same(engine, row, last.row, last.tensor, _BY_MODEL)
        found += [] if now is None else [Across(-1.0, now)]
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
) -> List[Across]:
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
    found: List[Across] = []
    for rel, other in pairs.items():
        for row in by_file[rel]:
            for one in outputs[other]:
                if one.info.index == row.tensor_index:
                    now = compared_as_same(engine, row, one.row, one.tensor, text)
                    found += [] if now is None else [Across(-1.0, now, True)]
    return found


def build_of(root: str, files: Iterable[str], alone: Iterable[str]) -> Build:
    """Return the dump of a build below ``root``: its files as far as they can be read, and which of
    them it has alone.
    """
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


def compared_as_same(
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
    now = compared_across(engine, row, target, there, tensor, text).row
    return now if now.verdict in (PASS, FAIL) else None


def compared_across(
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
        tensor = output_name(row, row.tensor_index or 0)
        distance = compared_across(engine, row, target, row, tensor, "%s").distance
    else:
        distance = distance_of(row)
    return math.inf if math.isnan(distance) else distance


def distance_of(row: Row) -> float:
    """Return how far two tensors are apart, of statistics at least; NaN where that is not known."""
    distance = metric_number(row.metrics.get(DISTANCE))
    return metric_number(row.metrics.get(LEAST)) if math.isnan(distance) else distance


def other_name(row: Row) -> str:
    """Return the tensor of GOLDEN that a row is paired with across names; empty where it is not."""
    return row.code_value(PAIRED_ACROSS) or ""


def output_name(row: Row, index: int) -> str:
    """Return an output of the op of a row as the other build calls it."""
    return "%s:output:%d" % (row.golden, index)


def unpaired_outputs(
    engine: Engine, rows: Iterable[Row], taken: Collection[Tuple[Place, str]]
) -> Dict[Place, List[_Unpaired]]:
    """Return GOLDEN's outputs without a counterpart, and those that differ from the tensor of their
    name, by place.
    """
    outputs: Dict[Place, List[_Unpaired]] = {}
    for row in rows:
        alone = row.cause == DUMP_MISSING and not row.target_file
        differs = (
            row.kind == OUTPUT and row.verdict == FAIL and not other_name(row) and of_its_name(row)
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
            if number < len(dump.outputs) and (row.place, output_name(row, number)) not in taken
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


class Across(NamedTuple):
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
) -> List[Across]:
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
    for fused, one in tried[:MOST_TRIED]:
        if not (fused or by_values):
            continue
        text = _BY_HEADER if named else BY_VALUES
        if fused and not named:
            alone = row.cause == GOLDEN_MISSING and one.row.cause == DUMP_MISSING
            text = _BY_READERS if alone else _BY_READING
        now = compared_across(engine, row, target, one.row, one.tensor, text)
        if named:
            if now.verdict in (PASS, FAIL):
                found.append(Across(-1.0, now.row))
            continue
        # Of the tensors of either name, the one that is there.
        nearest = _distance(engine, row if row.verdict == FAIL else one.row)
        passes = now.verdict == PASS and (row.verdict != FAIL or now.distance < _NEARER * nearest)
        is_nearer = fused and now.verdict in (PASS, FAIL) and now.distance < nearest
        if passes or (
            is_nearer and not (reads_the_same and family(one.row.op_type) == family(row.op_type))
        ):
            is_same = fused and reading.heads.get(row.target_file or "") == one.rel
            found.append(Across(now.distance, now.row, is_same, one in read_alike))
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
                    if name is not None and (rel in pairs or not NUMBERED.match(name.op_name)):
                        self.readers.setdefault(maker, set()).add((name.op_name, info.index))
        for makers_of in self.read.values():
            waiting = list(makers_of)
            while waiting:
                for more in self.read.get(waiting.pop(), ()):
                    if more not in makers_of:
                        makers_of[more] = None
                        waiting.append(more)
