"""What differs between two dumps of one model, of two builds or two runs: the first operator whose
inputs are equal and whose output is not, also within the limits; operators that only one of them
has, and outputs that the two call otherwise.
"""

from __future__ import annotations

import math
import os
from typing import Collection, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ..diagnosis.culprit_sentence import where_words
from ..diagnosis.row_digest import DISTANCE, execution_key
from ..dumps.dump_file import DumpFile, TensorInfo
from ..dumps.golden_set import GoldenEntry
from ..dumps.place import Place
from ..errors import GoldwatchError
from ..judging.metric_text import metric_number
from ..metrics.compare_pair import compare_pair
from ..metrics.pair_task import PairTask
from ..metrics.row import (
    DUMP_MISSING,
    EXPECTED_ABSENT,
    FAIL,
    GOLDEN_MISSING,
    NOT_COMPARED,
    PASS,
    Row,
)
from ..naming import printable
from ..store.store import RunStore
from ..text.wording import listed, percent, plural
from .engine import Engine

_SHOWN = 6
_MOST_TRIED = 8
"""With how many outputs of the other build one is compared where no name tells its counterpart."""
_NEARER = 0.1
"""How many times nearer than the tensor of its name another must be to be its counterpart."""
_BY_HEADER = "paired with %s of GOLDEN by the original names in the headers"
_BY_VALUES = "paired with %s of GOLDEN by its values: no other is as near"
_FUSED = "GOLDEN's build fused other operators, and has no such input"
_ACROSS = "SELECT 1 FROM row WHERE instr(reason, ' of GOLDEN by ') LIMIT 1"
_ELSEWHERE = "its output is compared with %s of TARGET: the builds fused other operators"


class _Unpaired(NamedTuple):
    """An output of GOLDEN that has no counterpart so far, and the row that says so."""

    row: Row
    rel: str
    dump: DumpFile
    info: TensorInfo

    @property
    def tensor(self) -> str:
        return _tensor(self.row, self.info.index)


def pair_across_names(engine: Engine) -> None:
    """Compare outputs of TARGET that have no counterpart of their name, or another tensor there,
    with outputs of GOLDEN that have none: a build that fuses operators calls the result by the name
    of one of them. Original names in the headers tell which belong together; without them, values.

    Must be called once all rows are stored, inside a transaction of the store.
    """
    rows = list(engine.store.rows(verdict=NOT_COMPARED))
    across: List[Row] = []
    if engine.store.query(_ACROSS):
        across = [row for row in engine.store.rows() if _other_name(row)]
    if not across and not any(row.cause in (DUMP_MISSING, GOLDEN_MISSING) for row in rows):
        return
    rows += engine.store.rows(verdict=FAIL)
    taken = {(row.place, _other_name(row)) for row in across}
    unpaired = _unpaired_outputs(engine, rows, taken)
    for row in rows if unpaired else ():
        if (
            row.kind != "output"
            or not row.target_file
            or _other_name(row)
            or (row.cause != GOLDEN_MISSING and row.verdict != FAIL)
        ):
            continue
        counterpart = _counterpart(engine, row, unpaired.get(row.place, []))
        if counterpart is not None:
            across.append(counterpart[0])
            unpaired[row.place].remove(counterpart[1])
    # What an earlier start found is stored, and planned anew what that left without a counterpart.
    by_tensor = {(row.place, _other_name(row)): row for row in across}
    by_golden_file = {(row.place, row.golden_file): row for row in across}
    files = {(row.place, row.target_file) for row in across}
    changed = list(across)
    for row in rows:
        there: Optional[Row] = None
        if row.cause == DUMP_MISSING and not row.target_file:
            there = by_golden_file.get((row.place, row.golden_file))
        elif row.kind == "output" and row.verdict == FAIL:
            there = by_tensor.get((row.place, _tensor(row, row.tensor_index or 0)))
        if there is not None and there.tensor != row.tensor:
            changed.append(row.but(
                verdict=EXPECTED_ABSENT, reason=_ELSEWHERE % there.tensor, cause="", decided_by="",
                metrics={},
            ))  # fmt: skip
        elif (
            row.cause == GOLDEN_MISSING
            and row.kind == "input"
            and ((row.place, row.target_file) in files)
        ):
            changed.append(row.but(verdict=EXPECTED_ABSENT, reason=_FUSED, cause=""))
    engine.put_rows(changed)


def _other_name(row: Row) -> str:
    """Return the tensor of GOLDEN that a row is paired with across names; empty where it is not."""
    for text in (_BY_HEADER, _BY_VALUES):
        before, _, after = text.partition("%s")
        name, found, _ = row.reason.rpartition(before)[2].partition(after)
        if before in row.reason and found:
            return name
    return ""


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
        differs = row.kind == "output" and row.verdict == FAIL and not _other_name(row)
        if not row.golden_file or not (alone or differs):
            continue
        try:
            dump = DumpFile.open(os.path.join(engine.options.golden, row.golden_file))
        except (GoldwatchError, OSError):
            continue
        numbers = range(len(dump.outputs)) if alone else [row.tensor_index or 0]
        outputs.setdefault(row.place, []).extend(
            _Unpaired(row, row.golden_file, dump, dump.outputs[number])
            for number in numbers
            if number < len(dump.outputs) and (row.place, _tensor(row, number)) not in taken
        )
    return outputs


def _counterpart(
    engine: Engine, row: Row, candidates: List[_Unpaired]
) -> Optional[Tuple[Row, _Unpaired]]:
    """Return the row of an output beside its counterpart among GOLDEN's unpaired outputs, and which
    that is; None where none of them is it.
    """
    try:
        dump = DumpFile.open(os.path.join(engine.options.target, row.target_file or ""))
        info = dump.outputs[row.tensor_index or 0]
        target = dump.tensor("output", info.index)
    except (GoldwatchError, OSError, IndexError):
        return None
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
    # Another original name is another tensor.
    nameless = [one for one in alike if not (info.original_name and one.info.original_name)]
    best: Optional[Tuple[Row, _Unpaired]] = None
    before = metric_number(row.metrics.get(DISTANCE))
    nearest = math.inf if math.isnan(before) else _NEARER * before
    for one in (named[:1] or nameless)[:_MOST_TRIED]:
        text = (_BY_HEADER if named else _BY_VALUES) % one.tensor
        entry = GoldenEntry(
            one.dump.path, one.rel, one.row.golden, one.info.index, one.row.timestamp_us, "npu"
        )
        planned = row.but(
            verdict=PASS, reason=text, cause="", decided_by="", golden=one.row.golden,
            golden_file=one.rel,
        )  # fmt: skip
        now = compare_pair(
            PairTask(planned, target, entry, as_stored=True), engine.options.settings()
        )
        distance = metric_number(now.metrics.get(DISTANCE))
        if named and now.verdict in (PASS, FAIL):
            return now, one
        if now.verdict == PASS and distance < nearest:
            best, nearest = (now, one), distance
    return best


def differences_of_builds(store: RunStore, named: Optional[str]) -> str:
    """Return it as sentences, for the end of the run's own.

    An operator of which no input was compared is the first as well: what runs before it is equal.

    Parameters
    ----------
    named
        The operator that is outside its limits first, of which all is said already.
    """
    first: Optional[Row] = None
    target_alone: List[str] = []
    golden_alone: List[str] = []
    for row in store.rows():
        if row.cause == GOLDEN_MISSING and row.kind != "input":
            target_alone.append(row.op)
        elif row.cause == DUMP_MISSING and not row.target_file:
            golden_alone.append(row.op)
        elif _differs(row) and (first is None or execution_key(row) < execution_key(first)):
            first = row
    sentences = [
        "%s in %s alone: %s." % (plural(len(names), "operator"), side, listed(names, _SHOWN))
        for side, names in (
            ("TARGET", list(dict.fromkeys(target_alone))),
            ("GOLDEN", list(dict.fromkeys(golden_alone))),
        )
        if names
    ]
    if first is None:
        sentences.insert(0, "All tensors that both dumps have are equal.")
    else:
        rows = store.rows(place=first.place, op=first.op)
        sentences.insert(0, _first_difference(first, rows, named))
    return " ".join(filter(None, sentences))


def _first_difference(first: Row, rows: Iterable[Row], named: Optional[str]) -> str:
    inputs = [row for row in rows if row.kind == "input" and row.verdict in (PASS, FAIL)]
    unequal = [row for row in inputs if _differs(row)]
    where = "%s (%s)%s" % (printable(first.op), first.op_type, where_words(first.place))
    if unequal:
        return (
            "The first tensor that differs is an input, %s (%s): the two runs had other inputs, or "
            "what makes it was not compared." % (printable(unequal[0].tensor), _amount(unequal[0]))
        )
    if first.op == named:
        return ""
    return "The first difference of the two dumps is in %s: %s, %s differs (%s)." % (
        where,
        "its inputs are equal" if inputs else "what was compared before it is equal",
        printable(first.tensor),
        _amount(first),
    )


def _differs(row: Row) -> bool:
    """Return whether a compared tensor differs at all; one without a distance (bool, NaN) does if
    it fails.
    """
    distance = row.metrics.get(DISTANCE)
    if row.verdict not in (PASS, FAIL):
        return False
    return row.verdict == FAIL if distance is None or distance != distance else distance > 0


def _amount(row: Row) -> str:
    distance = row.metrics.get(DISTANCE)
    if distance is None or distance != distance:
        return printable(row.reason) or "outside its limits"
    return percent(distance)
