"""What a run is asked to do, checked before anything is opened."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from ..compare.pair import Settings
from ..compare.row import MEASURES, METRICS
from ..errors import UsageError
from ..model.graph import ModelGraph
from ..naming import nearest_names
from ..results.csvfile import Columns
from ..verdict.judging import RowJudge
from ..verdict.limits import Limits

_SELECT = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?\Z")


@dataclass(frozen=True)
class ComparisonOptions:
    """The inputs and options of one comparison.

    Attributes
    ----------
    target, golden, out
        Folders.
    model
        om json or GE text graph, or None.
    metrics
        The metrics' columns, in this order.
    limits
        What a tensor must keep.
    op_range
        ``--range a,b,step`` as (first, last, step); None without.
    select
        ``--select`` as (first, last) pairs; None without.
    overflow, mapping
        The OverFlow column; the mapping table.
    allow_missing
        Forgive absent golden and dump files.
    """

    target: str
    golden: str
    out: str
    model: Optional[str] = None
    metrics: Tuple[str, ...] = METRICS
    limits: Limits = Limits()
    op_range: Optional[Tuple[int, int, int]] = None
    select: Optional[Tuple[Tuple[int, int], ...]] = None
    overflow: bool = False
    mapping: bool = False
    allow_missing: bool = False

    def __post_init__(self) -> None:
        if (self.op_range or self.select) and self.model is None:
            raise UsageError("--range and --select count by the json's OpSequence: they need -f")
        if self.op_range and self.select:
            raise UsageError("--range and --select exclude each other")

    def settings(self) -> Settings:
        """Return what the workers compute: the metrics shown and those with limits."""
        wanted = tuple(name for name in MEASURES if name in self.metrics or name in self.limits.metrics)
        return Settings(wanted, self.overflow, RowJudge(self.limits))

    def columns(self, golden_address: bool) -> Columns:
        """Return the columns of the result table."""
        return Columns(bool(self.op_range or self.select), golden_address, self.overflow, self.metrics)

    def identity(self) -> Dict[str, Any]:
        """Return what results depend on, as JSON values: a store of other ones is not continued."""
        return {
            "target": os.path.abspath(self.target),
            "golden": os.path.abspath(self.golden),
            "model": None if self.model is None else os.path.abspath(self.model),
            "metrics": list(self.metrics),
            "limits": self.limits.document(),
            "range": None if self.op_range is None else list(self.op_range),
            "select": None if self.select is None else [list(pair) for pair in self.select],
            "overflow": self.overflow,
        }

    def selection(self, graph: Optional[ModelGraph]) -> Optional[FrozenSet[int]]:
        """Return the json's ids that were asked for; None when all are.

        Raises
        ------
        UsageError
            An id is beyond the json's.
        """
        if graph is None or not (self.op_range or self.select):
            return None
        ids = {op.id for op in graph.ops}
        last = max(ids, default=0)
        if self.op_range:
            start, stop, step = self.op_range
            _check_last(stop, last, "--range")
            wanted = {number for number in ids if start <= number <= stop and ((number - start) % step == 0 or number == stop)}
        else:
            wanted = set()
            for start, stop in self.select or ():
                _check_last(stop, last, "--select")
                wanted.update(number for number in ids if start <= number <= stop)
        if not wanted:
            first = min(ids, default=0)
            raise UsageError("the json has no op with the OpSequence asked for", hint="its ids run from %d to %d" % (first, last))
        return frozenset(wanted)


def _check_last(number: int, last: int, option: str) -> None:
    if number > last:
        raise UsageError("%s: OpSequence %d is beyond the json's last, %d" % (option, number, last))


def parse_metrics(text: Optional[str]) -> Tuple[str, ...]:
    """Return the metrics of ``--metrics A,B``, in that order, each once; all ten for None.

    Raises
    ------
    UsageError
        A name is unknown, or there is none.
    """
    if text is None:
        return METRICS
    by_lower = {name.lower(): name for name in MEASURES}
    found: List[str] = []
    for word in (word.strip() for word in text.split(",")):
        name = by_lower.get(word.lower())
        if name is None:
            near = nearest_names(word, MEASURES, 1, 0.4)
            hint = "did you mean %s?" % near[0] if near else "metrics: " + ", ".join(MEASURES)
            raise UsageError("--metrics: unknown metric %r" % word, hint=hint)
        if name not in found:
            found.append(name)
    return tuple(found)


def parse_range(text: Optional[str]) -> Optional[Tuple[int, int, int]]:
    """Return ``--range START,END[,STEP]`` as numbers (START and END inclusive).

    Raises
    ------
    UsageError
        Another form, a step of 0, or backwards.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (2, 3) or not all(re.match(r"[0-9]{1,9}\Z", part) for part in parts):
        raise UsageError("--range %s: expected START,END[,STEP] in whole numbers" % text, hint="for example --range 10,50,5")
    numbers = [int(part) for part in parts] + [1]
    start, stop, step = numbers[:3]
    if start > stop:
        raise UsageError("--range %s: runs backwards (%d is larger than %d)" % (text, start, stop))
    if step < 1:
        raise UsageError("--range %s: the step must be 1 or more" % text)
    return start, stop, step


def parse_select(texts: Sequence[str]) -> Optional[Tuple[Tuple[int, int], ...]]:
    """Return ``--select 3,7-9`` as (first, last) pairs; None when not given.

    Raises
    ------
    UsageError
        Another form, or a range that runs backwards.
    """
    if not texts:
        return None
    pairs = []
    for part in ",".join(texts).split(","):
        match = _SELECT.match(part)
        if match is None:
            raise UsageError("--select %s: expected whole numbers and ranges" % ",".join(texts), hint="for example --select 3,7-9")
        start = int(match.group(1))
        stop = int(match.group(2)) if match.group(2) else start
        if start > stop:
            raise UsageError("--select: %s runs backwards" % part.strip())
        pairs.append((start, stop))
    return tuple(pairs)
