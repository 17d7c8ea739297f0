"""Operators that are computed in a wider type in the later of two runs: whether that mended the
network, and what it costs.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from ..base.element_types import element_count
from ..base.naming import printable
from ..base.wording import listed, plural, size_text
from ..metrics.row import FAIL, Row
from ..model.graphs_of_run import ModelGraphs
from ..model.op_groups import FOLLOWING_TYPES
from ..store.json_numbers import plain_tree

_WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_WIDE = 4
_SHOWN = 5

HELD, HELPED, NO_HELP, WORSENED, HELD_BEFORE = "held", "helped", "no help", "worse", "right before"
_SAID = {
    HELD: "the cure held: %s within limits now (%d outside before)",
    HELPED: "the cure did not hold, but helped: %s still outside limits (%d before)",
    NO_HELP: "the cure did not hold: %s outside limits, as before (%d)",
    WORSENED: "the cure made it worse: %s outside limits (%d before)",
    HELD_BEFORE: "%s within limits, as before the cure",
}


class RunOutputs:
    """The element types of a run's outputs, and the rows of what the network gives out.

    Parameters
    ----------
    graphs
        The run's models; without one every output counts as the network's.
    """

    def __init__(self, graphs: ModelGraphs) -> None:
        self._graphs = graphs
        self._last: Dict[Optional[str], Optional[Set[str]]] = {}
        self.types: Dict[str, str] = {}
        self.sizes: Dict[str, int] = {}
        self.casts: Set[str] = set()
        self.outputs: List[Tuple[str, float]] = []

    def take(self, row: Row) -> None:
        """Take a row."""
        if row.kind != "output" or row.target_dtype is None:
            return
        if row.op_type in FOLLOWING_TYPES:
            self.casts.update([row.op] if row.op_type == "Cast" else [])
        elif row.target_dtype in _WIDTHS:
            known = self.types.get(row.op)
            if known is None or _WIDTHS[row.target_dtype] < _WIDTHS[known]:
                self.types[row.op] = row.target_dtype
            self.sizes[row.op] = self.sizes.get(row.op, 0) + _WIDTHS[
                row.target_dtype
            ] * element_count(row.shape or ())
        if self._is_last(row):
            distance = row.metrics.get("RelativeEuclideanDistance")
            self.outputs.append(
                (row.verdict, float(distance) if isinstance(distance, (int, float)) else math.inf)
            )

    def _is_last(self, row: Row) -> bool:
        model = row.place.model
        if model not in self._last:
            graph = self._graphs.of(model) if self._graphs else None
            ends = [op for op in graph.ops if op.type == "NetOutput"] if graph is not None else []
            names = {source[0] for op in ends for source in op.inputs if source is not None}
            if graph is not None and not names:
                names = {op.name for op in graph.ops if not graph.consumers(op)}
            self._last[model] = names if graph is not None else None
        last = self._last[model]
        return last is None or row.op in last

    @property
    def failing(self) -> int:
        """How many of the network's outputs are outside their limits."""
        return sum(verdict == FAIL for verdict, _ in self.outputs)

    @property
    def worst(self) -> float:
        """The largest distance of one of them."""
        return max(
            (math.inf if distance != distance else distance for _, distance in self.outputs),
            default=0.0,
        )


class Raised(NamedTuple):
    """What raising operators did.

    Attributes
    ----------
    ops
        Those that the later run computes in a wider type.
    wide
        How many it computes in float32 or wider, of ``all`` with floating-point outputs.
    outcome
        ``held``, ``helped``, ``no help``, ``worse`` or ``right before``.
    failing_before, failing_after, outputs
        The network's outputs outside their limits, and how many the later run has.
    casts
        How many more Casts the later run has.
    more_bytes
        By how much the outputs of its operators are larger.
    """

    ops: Tuple[str, ...]
    wide: int
    all: int
    outcome: str
    failing_before: int
    failing_after: int
    outputs: int
    worst_before: float
    worst_after: float
    casts: int
    more_bytes: int

    @property
    def sentence(self) -> str:
        """What it comes to, and at which price as far as the results tell."""
        count = self.outputs if self.outcome in (HELD, HELD_BEFORE) else self.failing_after
        what = (
            "the network's output is"
            if self.outputs == 1
            else "%d of the network's %d outputs are" % (count, self.outputs)
        )
        text = _SAID[self.outcome] % (
            (what,) if self.outcome == HELD_BEFORE else (what, self.failing_before)
        )
        if self.outcome in (HELPED, NO_HELP):
            text += ", the worst off by %.3g (%.3g before)" % (self.worst_after, self.worst_before)
        price = [
            "%s more in float32 (%s)"
            % (
                plural(len(self.ops), "operator"),
                listed([printable(op) for op in self.ops], _SHOWN),
            )
        ]
        price.append("%d of %d are" % (self.wide, self.all))
        price += ["%s more" % plural(self.casts, "Cast")] if self.casts > 0 else []
        price += (
            ["outputs larger by %s" % size_text(self.more_bytes)] if self.more_bytes > 0 else []
        )
        return "%s; price: %s; the device's time is not in the results" % (text, ", ".join(price))

    def document(self) -> Dict[str, Any]:
        """Return it as JSON values."""
        return {
            "outcome": self.outcome,
            "sentence": self.sentence,
            "raised": list(self.ops),
            "wide": self.wide,
            "ops": self.all,
            "outputs": self.outputs,
            "failing_before": self.failing_before,
            "failing_after": self.failing_after,
            "worst_before": plain_tree(self.worst_before),
            "worst_after": plain_tree(self.worst_after),
            "more_casts": self.casts,
            "more_bytes": self.more_bytes,
        }


def raised_between(before: RunOutputs, after: RunOutputs) -> Optional[Raised]:
    """Return what raising operators did from one run to another; None where none was raised."""
    ops = tuple(
        op
        for op, dtype in after.types.items()
        if _WIDTHS[dtype] > _WIDTHS.get(before.types.get(op, ""), 8)
    )
    if not ops:
        return None
    wide = sum(_WIDTHS[dtype] >= _WIDE for dtype in after.types.values())
    both = before.sizes.keys() & after.sizes.keys()
    more = sum(after.sizes[op] - before.sizes[op] for op in both)
    return Raised(
        ops, wide, len(after.types), _outcome(before, after), before.failing, after.failing,
        len(after.outputs), before.worst, after.worst,
        len(after.casts) - len(before.casts), more,
    )  # fmt: skip


def _outcome(before: RunOutputs, after: RunOutputs) -> str:
    if not after.failing:
        return HELD if before.failing else HELD_BEFORE
    if after.failing > before.failing:
        return WORSENED
    if after.failing < before.failing or after.worst < 0.5 * before.worst:
        return HELPED
    return WORSENED if after.worst > 2.0 * before.worst else NO_HELP
