"""Two dumps of one model whose builds call operators otherwise or fuse other ones: the rows of what
is paired, of its inputs, and of what one build alone has.
"""

from __future__ import annotations

import math
import os
from typing import (
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

from ..base.errors import GoldwatchError
from ..base.naming import parse_dump_name, sanitise_golden
from ..base.wording import listed
from ..dumps.place import Place
from ..metrics.row import (
    DUMP_MISSING,
    EXPECTED_ABSENT,
    FAIL,
    GOLDEN_MISSING,
    NOT_COMPARED,
    OTHER_ALONE,
    PAIRED_ACROSS,
    PASS,
    TARGET_ALONE,
    Row,
)
from ..model.row_plan import INPUT, OUTPUT
from .engine import Engine
from .outputs_of_builds import (
    BY_VALUES,
    MOST_TRIED,
    NUMBERED,
    Across,
    build_of,
    compared_across,
    compared_as_same,
    is_unpaired,
    of_its_name,
    other_name,
    output_name,
    paired,
    unpaired_outputs,
)
from .same_operators import (
    Build,
    digest,
    open_either,
)

_CALLED = "TARGET calls it %s"
_AS_MADE = "as %s, which it holds"
_FUSED = "the other build fused other operators, and has no such input"
_ALONE_SOMEWHERE = (
    "SELECT 1 FROM row WHERE kind <> 'input' AND (target_file IS NULL) <> (golden_file IS NULL) "
    "LIMIT 1"
)
_ACROSS = "SELECT 1 FROM tensor WHERE instr(reason_codes, '%s=') LIMIT 1" % PAIRED_ACROSS
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
    unpaired = unpaired_outputs(engine, rows, taken)
    found: List[Across] = []
    heads: Dict[Tuple[Place, str], str] = {}
    for place, theirs_alone in unpaired.items():
        ours = [row for row in rows if row.place == place and is_unpaired(row)]
        if ours:
            at_place, begun = paired(engine, place, ours, theirs_alone)
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
        if row.verdict == FAIL
        and (row.place, output_name(row, row.tensor_index or 0)) not in by_tensor
    ]
    made = _outputs_by_bytes(engine, [*across, *of_their_names]) if files else {}
    for row in rows:
        there: Optional[Row] = None
        if row.cause == DUMP_MISSING and not row.target_file:
            there = by_golden_file.get((row.place, row.golden_file))
        elif row.kind == OUTPUT and row.verdict == FAIL:
            there = by_tensor.get((row.place, output_name(row, row.tensor_index or 0)))
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
                else compared_as_same(
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


def _of_other_ops(engine: Engine, rows: Iterable[Row], across: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of TransData and Cast that bear the compiler's numbers and are other ones in the
    other build: one that reads what the other reads, and makes something else, is the same and
    wrong.
    """
    paired = {(row.place, row.tensor) for row in across}
    for row in rows:
        if (
            not NUMBERED.match(row.op)
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
        if row.kind == OUTPUT and row.golden_file and not other_name(row) and of_its_name(row):
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
        ours = build_of(engine.options.target, [one for one, _ in files if one], ())
        theirs = build_of(engine.options.golden, [one for _, one in files if one], ())
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
        if row.kind == OUTPUT and row.target_file and not NUMBERED.match(row.op):
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
    for rel, there in sorted(theirs.items(), key=lambda one: one[0] != first)[:MOST_TRIED]:
        try:
            other = open_either(engine.options.golden, rel)
        except (GoldwatchError, OSError):
            continue
        for theirs_info in other.inputs:
            if (theirs_info.shape, theirs_info.dtype) != (info.shape, info.dtype):
                continue
            tensor = "%s:%s:%d" % (there.golden, INPUT, theirs_info.index)
            now = compared_across(engine, row, target, there, tensor, BY_VALUES)
            if now.verdict == PASS and now.distance < nearest:
                best, nearest = now.row, now.distance
    return best
