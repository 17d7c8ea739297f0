"""One model of a run, judged by itself: its first divergence, its suspects, and whether all devices
that ran it agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from ..dumps.place import name_order
from ..judging.deciding import decides
from ..judging.limits import Limits
from ..metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ..model.graphs import ModelGraphs
from ..text.wording import listed
from .explaining import TensorReader, explained
from .first_divergence import FirstDivergence, divergence_of
from .inputs import Inputs
from .observations import Observations, ObservedOp
from .own_error.computed import in_order_of_urgency, with_computed
from .own_error.estimated import Estimate
from .own_error.estimates import Estimator
from .own_error.second_look import looked_at
from .seen import SeenRow
from .strict_limits import too_strict
from .suspects import Suspect, find_suspects

ABSENT = "absent"
"""What stands for the verdict of a tensor that has no row on a device."""

_MOST_NAMED = 4
_WORST_FIRST = (FAIL, NOT_COMPARED, PASS, EXPECTED_ABSENT, ABSENT)


class Difference(NamedTuple):
    """The first tensor, in the order of steps and execution, whose verdict is not the same on all
    devices.

    Attributes
    ----------
    step
        Of the dump.
    tensor
        Its TensorIndex, or an op's name.
    verdicts
        (device, verdict or ``absent``) of every device.
    """

    step: Optional[str]
    tensor: str
    verdicts: Tuple[Tuple[str, str], ...]

    @property
    def sentence(self) -> str:
        """The difference as the end of a sentence."""
        where = "" if self.step is None else " in step %s" % self.step
        found: Dict[str, List[str]] = {}
        for device, verdict in self.verdicts:
            found.setdefault(verdict, []).append(device)
        said = ("%s on %s" % (verdict, _named(devices)) for verdict, devices in found.items())
        return "%s%s: %s" % (
            self.tensor,
            where,
            "; ".join(said) if len(self.verdicts) > len(found) else ", ".join(said),
        )


def _named(devices: Sequence[str]) -> str:
    """Return devices as words, of many the first ones."""
    return ("device " if len(devices) == 1 else "devices ") + listed(devices, _MOST_NAMED)


@dataclass(frozen=True)
class ModelSummary:
    """What a run found of one model.

    Attributes
    ----------
    name
        model_name as first seen; None for dumps below no model's folder.
    counts
        Rows by verdict.
    devices
        Those that have rows of it, in the order of numbers.
    first
        Its first divergence, or None.
    difference
        Where its devices disagree first; None where they agree, or there is but one.
    certain
        False where not all rows are known, so that no difference says nothing.
    """

    name: Optional[str]
    counts: Tuple[Tuple[str, int], ...]
    devices: Tuple[str, ...] = ()
    first: Optional[FirstDivergence] = None
    difference: Optional[Difference] = None
    certain: bool = True

    @property
    def agree(self) -> Optional[bool]:
        """Whether all its devices agree; None where there are not several, or it cannot be told."""
        return None if len(self.devices) < 2 or not self.certain else self.difference is None

    @property
    def sentence(self) -> str:
        """How many of its rows fail, and where the first does."""
        counts = dict(self.counts)
        rows, failed = sum(counts.values()), counts.get(FAIL, 0)
        said = "%s: %d rows, %d fail" % (
            "model %s" % self.name if self.name is not None else "no model's folder",
            rows,
            failed,
        )
        if self.first is None:
            return said
        place = self.first.place
        named = (("host", place.host), ("step", place.step), ("device", place.device))
        parts = " ".join("%s %s" % pair for pair in named if pair[1] is not None)
        return "%s, first %s%s" % (said, self.first.tensor, " (%s)" % parts if parts else "")

    def document(self) -> Dict[str, Any]:
        """Return an entry of result.json's ``models``; numbers that are not finite stay floats."""
        counts = dict(self.counts)
        difference = self.difference
        return {
            "model": self.name,
            "rows": sum(counts.values()),
            "passed": counts.get(PASS, 0),
            "failed": counts.get(FAIL, 0),
            "not_compared": counts.get(NOT_COMPARED, 0),
            "expected_absent": counts.get(EXPECTED_ABSENT, 0),
            "first_divergence": None if self.first is None else self.first.document(),
            "devices": list(self.devices),
            "devices_agree": self.agree,
            "first_difference": None
            if difference is None
            else {
                "step": difference.step,
                "tensor": difference.tensor,
                "verdicts": dict(difference.verdicts),
            },
        }


class JudgedModel:
    """The rows of one model: what is normal in it says nothing about another.

    Attributes
    ----------
    seen
        Its rows.
    first_row, first, own
        Its first failing row as the verdict sees it, what that stands for, and the estimate of that
        operator.
    suspects
        Its operators that are wrong by themselves, best first.
    """

    def __init__(self) -> None:
        self.seen = Observations()
        self.first_row: Optional[SeenRow] = None
        self._whole: Optional[Row] = None
        self.first: Optional[FirstDivergence] = None
        self.own: Optional[Estimate] = None
        self.suspects: List[Suspect] = []

    def failed(self, row: SeenRow, whole: Optional[Row]) -> None:
        """Take note of a failing row, and of all that there is of it where that is at hand."""
        if self.first_row is None or row.key < self.first_row.key:
            self.first_row, self._whole = row, whole

    @np.errstate(
        all="ignore"
    )  # errors and values of any magnitude: where squares leave the range, infinity is right
    def judge(
        self,
        limits: Limits,
        graphs: ModelGraphs,
        reader: TensorReader,
        whole: Callable[[SeenRow], Row],
    ) -> None:
        """Find the first divergence and the suspects, once all rows have come; ``whole`` returns
        all that there is of a row.
        """
        inputs = Inputs(self.seen, graphs)
        estimates = Estimator(self.seen, inputs, decides).run()
        judged = reader.recompute(inputs, *in_order_of_urgency(estimates, inputs))
        estimates = with_computed(estimates, judged, reader.golden_follows)
        estimates = looked_at(estimates, reader.pair)
        # What only a second look suspects is computed, too.
        accused = [
            entry.op
            for entry in estimates.suspects()
            if (entry.op.place, entry.op.name, entry.output.number) not in judged
        ]
        if accused:
            estimates = with_computed(
                estimates, reader.recompute(inputs, accused, []), reader.golden_follows
            )
        if self.first_row is not None:
            row = self._whole or whole(self.first_row)
            self.first = divergence_of(row, inputs, self.seen, limits)
            self.own = estimates.worst_of(self.first.op, self.first.place)
            if not (self.own is not None and self.own.suspect):
                op = self.seen.op(row.place, row.op, row.target_file or "")
                self.first = replace(
                    self.first, too_strict=too_strict(row, op, limits, inputs, judged)
                )
        self.suspects = explained(find_suspects(estimates, self.seen), self.seen, inputs, reader)

    def summary(self) -> ModelSummary:
        """Return what is to be said of it; it has at least one row."""
        places = self.seen.places
        devices = sorted(
            {place.device_name for place in places if place.device_name is not None}, key=name_order
        )
        return ModelSummary(
            places[0].model,
            tuple(self.seen.counts.items()),
            tuple(devices),
            self.first,
            _difference(self.seen, devices),
        )


def _difference(seen: Observations, devices: List[str]) -> Optional[Difference]:
    if len(devices) < 2:
        return None
    steps: Dict[Optional[str], List[ObservedOp]] = {}
    for op in seen.ordered():
        steps.setdefault(op.place.step, []).append(op)
    for step, ops in steps.items():
        found: Dict[str, Dict[str, str]] = {}
        for place, at_place in groupby(ops, attrgetter("place")):
            of_device = found.setdefault(place.device_name or "", {})
            for tensor, verdict in _verdicts(at_place):
                worst = of_device.setdefault(tensor, verdict)
                if worst != verdict:
                    of_device[tensor] = min(worst, verdict, key=_WORST_FIRST.index)
        of_each = [(name, found.get(name, {})) for name in devices]
        if all(of_device == of_each[0][1] for _, of_device in of_each):
            continue
        for tensor in dict.fromkeys(tensor for of_device in found.values() for tensor in of_device):
            each = tuple((name, of_device.get(tensor, ABSENT)) for name, of_device in of_each)
            if len({verdict for _, verdict in each}) > 1:
                return Difference(step, tensor, each)
    return None


def _verdicts(ops: Iterable[ObservedOp]) -> Iterator[Tuple[str, str]]:
    """Yield the verdicts of the outputs and inputs of ops; an op without a dump has one of its
    own.
    """
    for op in ops:
        for rows in (op.outputs, op.inputs):
            for row in rows.values():
                yield row.tensor, row.verdict
        if not op.outputs and not op.inputs:
            yield op.name, NOT_COMPARED
