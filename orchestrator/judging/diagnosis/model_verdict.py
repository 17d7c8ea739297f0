"""The verdict on one model of a run: its first divergence, its suspects, and whether all devices
that ran it agree.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import (
    Any,
    Callable,
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

from ...base.fast_dataclasses import dataclass
from ...base.wording import listed, plural
from ...dumps.place import Place, name_order
from ...metrics.row import EXPECTED_ABSENT, FAIL, NOT_COMPARED, PASS, Row
from ...model.graphs_of_run import ModelGraphs
from ...recomputing.recomputed_output import OtherShape
from ...tensors.type_precision import rounding_of
from ..by_recomputation import RIGHT, WRONG, RecomputationVerdict, only_overflows
from ..limits import Limits
from ..row_judge import decides
from .culprit_sentence import golden_is_undefined
from .device_specific_suspects import DevicesApart
from .first_divergence import FirstDivergence, divergence_of
from .observed_ops import ObservedOp, ObservedOps
from .op_input_states import BAD, Inputs, InputState
from .own_error.estimate import Estimate, Estimates
from .own_error.estimator import Estimator
from .own_error.recomputed_estimates import (
    ops_by_urgency,
    with_recomputed,
    wrong_without_golden,
)
from .own_error.tensor_checks import checked_by_tensors
from .recompute_without_model import TensorReader
from .row_digest import RowDigests
from .suspects import NONE, Suspect, find_suspects

ABSENT = "absent"
"""What stands for the verdict of a tensor that has no row on a device."""

_NOTHING_READ = "what it read is in no dump, and no model tells it"

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
        devices_by_verdict: Dict[str, List[str]] = {}
        for device, verdict in self.verdicts:
            devices_by_verdict.setdefault(verdict, []).append(device)
        phrases = (
            "%s on %s" % (verdict, _named(devices))
            for verdict, devices in devices_by_verdict.items()
        )
        return "%s%s: %s" % (
            self.tensor,
            where,
            "; ".join(phrases)
            if len(self.verdicts) > len(devices_by_verdict)
            else ", ".join(phrases),
        )


def _named(devices: Sequence[str]) -> str:
    """Return devices as words; of many only the first ones."""
    return ("device " if len(devices) == 1 else "devices ") + listed(devices, _MOST_NAMED)


@dataclass(frozen=True)
class ModelSummary:
    """The summary of one model of a run.

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
        text = "%s: %d rows, %d fail" % (
            "model %s" % self.name if self.name is not None else "no model's folder",
            rows,
            failed,
        )
        if self.first is None:
            return text
        place = self.first.place
        parts_of_place = (("host", place.host), ("step", place.step), ("device", place.device))
        parts = " ".join("%s %s" % pair for pair in parts_of_place if pair[1] is not None)
        return "%s, first %s%s" % (text, self.first.tensor, " (%s)" % parts if parts else "")

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


class ModelVerdict:
    """Judges the rows of one model by themselves.

    Attributes
    ----------
    observed
        Its operators.
    first_row, first, first_estimate
        The number of its first failing row, its first divergence, and that operator's estimate.
    suspects
        Its operators that are wrong by themselves, best first.
    """

    def __init__(self, digests: RowDigests) -> None:
        self.observed = ObservedOps(digests)
        failing = digests.shared_column([part.verdict == FAIL for part in digests.shared], bool)
        first = digests.by_execution(np.flatnonzero(failing))[:1].tolist()
        self.first_row: Optional[int] = first[0] if first else None
        self.first: Optional[FirstDivergence] = None
        self.first_estimate: Optional[Estimate] = None
        self.suspects: List[Suspect] = []

    @property
    def first_key(self) -> Tuple[Any, ...]:
        """The :func:`.execution_key` of the first failing row; empty where none fails."""
        if self.first_row is None:
            return ()
        return self.observed.digests.key(self.first_row)

    # Where squares of large values overflow, infinity is right.
    @np.errstate(all="ignore")
    def judge(
        self,
        limits: Limits,
        graphs: ModelGraphs,
        reader: TensorReader,
        whole: Callable[[int], Row],
    ) -> None:
        """Find the first divergence and the suspects; ``whole`` returns a row by its number among
        the model's.
        """
        inputs = Inputs(self.observed, graphs)
        estimates = Estimator(self.observed, inputs, decides).run()
        verdicts = reader.recompute(inputs, *ops_by_urgency(estimates, inputs, self.observed))
        verdicts = _without_fed_overflows(verdicts, inputs, self.observed, reader)
        estimates = with_recomputed(estimates, verdicts, reader.golden_follows)
        estimates = checked_by_tensors(estimates, reader.pair)
        # What became suspect by its tensors is computed again, too.
        accused = [
            entry.op
            for entry in estimates.suspects()
            if (entry.op.place, entry.op.name, entry.output.number) not in verdicts
        ]
        if accused:
            verdicts = reader.recompute(inputs, accused)
            estimates = with_recomputed(estimates, verdicts, reader.golden_follows)
        estimates = estimates.with_apart(wrong_without_golden(self.observed, inputs, verdicts))
        if self.first_row is not None:
            row = whole(self.first_row)
            self.first = divergence_of(row, inputs, self.observed, limits)
            self.first = _with_feed(self.first, row, inputs, self.observed, reader)
            self.first_estimate = estimates.worst_of(self.first.op, self.first.place)
            if self.first_estimate is not None:
                number = self.first_estimate.output.number
                verdict = verdicts.get((self.first.place, self.first.op, number))
                op = self.first_estimate.op
                unread = not op.inputs and graphs.of(op.place.model) is None
                self.first = replace(
                    self.first,
                    not_computed=verdict.reason
                    if verdict is not None
                    else _NOTHING_READ
                    if unread
                    else "",
                    in_training=self.first_estimate.in_training,
                    other_shape=verdict is not None and verdict.code == OtherShape.code,
                )
                if self.first_estimate.follows:
                    before = _wrong_before(self.first_estimate.op, inputs, estimates)
                    self.first = replace(self.first, **before)
                if self.first.inputs == BAD and self.first_estimate.follows:
                    output = self.first_estimate.output
                    golden = reader.golden_follows(self.first_estimate.op, output)
                    self.first_estimate = replace(
                        self.first_estimate,
                        inherits=golden is True,
                        golden_wrong=golden is False,
                    )
                if self.first_estimate.inherits and self.first_estimate.as_fed:
                    lost = underflow_up_to(self.first_estimate.op, inputs)
                    self.first = replace(self.first, underflow=lost)
                golden_alone = golden_is_undefined(self.first, self.first_estimate)
                if golden_alone or self.first_estimate.left_range:
                    rows = masked_rows(self.first_estimate, inputs, reader, golden_alone)
                    lost = (
                        ""
                        if rows or golden_alone
                        else lost_up_to(self.first_estimate, inputs, reader)
                    )
                    self.first = replace(self.first, masked=rows, lost=lost)
            if not (self.first_estimate is not None and self.first_estimate.suspect):
                op = self.observed.of_file(row.place, row.op, row.target_file or "")
                from .too_strict_limits import too_strict

                self.first = replace(
                    self.first, too_strict=too_strict(row, op, limits, inputs, verdicts)
                )
        suspects_found = find_suspects(estimates, self.observed)
        explained: Sequence[Suspect] = []
        if suspects_found:
            from .explain_suspects import with_explanations

            explained = with_explanations(suspects_found, self.observed, inputs, reader, verdicts)
        suspected = {
            (entry.op.place, entry.op.name, entry.output.number) for entry in estimates.suspects()
        }
        devices = DevicesApart(self.observed, suspected)
        self.suspects = [
            replace(
                suspect,
                explanations=devices.explained(estimate, suspect.explanations),
                confidence=NONE
                if any(one.clears_all for one in suspect.explanations[:1])
                else suspect.confidence,
            )
            for suspect, (_, estimate) in zip(explained, suspects_found)
        ]

    def summary(self) -> ModelSummary:
        """Return the summary of the model, which has at least one row."""
        places = self.observed.places
        devices = sorted(
            {place.device_name for place in places if place.device_name is not None}, key=name_order
        )
        return ModelSummary(
            places[0].model,
            tuple(self.observed.counts.items()),
            tuple(devices),
            self.first,
            _difference(self.observed, devices),
        )


def _without_fed_overflows(
    verdicts: Mapping[Tuple[Place, str, int], RecomputationVerdict],
    inputs: Inputs,
    observed: ObservedOps,
    reader: TensorReader,
) -> Mapping[Tuple[Place, str, int], RecomputationVerdict]:
    """Return the verdicts with outputs right that only overflow, where an input is outside its
    limits and golden data fit into the type: what came in was too large.
    """
    changed = dict(verdicts)
    for (place, name, number), one in verdicts.items():
        if one.own_error is None or one.state != WRONG or not only_overflows(one.own_error):
            continue
        op = observed.find(place, name)
        output = None if op is None else op.outputs.get(number)
        if op is None or output is None or all(fed.state != BAD for fed in inputs.of(op)):
            continue
        pair = reader.pair(op, output)
        if pair is not None and np.abs(pair.golden).max() <= rounding_of(output.dtype).largest:
            changed[place, name, number] = one._replace(state=RIGHT, times=1.0)
    return changed


_FED_OTHERWISE = (
    "%s is what %s wrote (%s), which is within its limits, and golden data of %s, which only "
    "reshapes it, are others: the om lacks an operator between them that the original model has, "
    "or an edge was drawn otherwise"
)


def _with_feed(
    first: FirstDivergence, row: Row, inputs: Inputs, observed: ObservedOps, reader: TensorReader
) -> FirstDivergence:
    """Return a divergence with what is said of a failing input that holds the values of an output
    within its limits, by way of operators that only move values.
    """
    op = observed.of_file(row.place, row.op, row.target_file or "")
    for state in inputs.of(op) if first.inputs == BAD else ():
        source = inputs.source(op, state.number)
        if state.state != BAD or state.observation is None or state.owner is not op:
            continue
        if source is None or source[0].name == state.source:
            continue
        maker = observed.find(op.place, source[0].name)
        made = None if maker is None else maker.outputs.get(source[1])
        if maker is None or made is None or made.verdict != PASS:
            continue
        pairs = [reader.pair(op, state.observation), reader.pair(maker, made)]
        read = [np.ravel(pair.target) for pair in pairs if pair is not None and not pair.sampled]
        if len(read) == len(pairs) and np.array_equal(read[0], read[1]):
            told = _FED_OTHERWISE % (state.tensor, maker.name, made.tensor, state.source)
            return replace(first, fed_otherwise=told)
    return first


def _wrong_before(op: ObservedOp, inputs: Inputs, estimates: Estimates) -> Dict[str, Any]:
    """Return which operator before one that is right is wrong, as fields of its divergence."""
    before = {one.name for one in inputs.before(op)}
    apart = [entry.op.name for entry in estimates.apart if entry.computed is not None]
    suspects = list(estimates.suspects())
    within = [one.op.name for one in suspects if one.computed is not None]
    shaped = (one.op.name for one in suspects if one.of_shape)
    wrong = next((name for name in apart + within if name in before), "")
    return {
        "wrong_before": wrong,
        "wrong_within_limits": bool(wrong) and wrong not in apart,
        "shaped_before": next((name for name in shaped if name in before), ""),
    }


def _difference(observed: ObservedOps, devices: List[str]) -> Optional[Difference]:
    if len(devices) < 2:
        return None
    for step, numbers in _differing_steps(observed):
        by_device: Dict[str, Dict[str, str]] = {}
        for place, at_place in groupby(map(observed.op, numbers.tolist()), attrgetter("place")):
            verdicts = by_device.setdefault(place.device_name or "", {})
            for tensor, verdict in _verdicts(at_place):
                worst = verdicts.setdefault(tensor, verdict)
                if worst != verdict:
                    verdicts[tensor] = min(worst, verdict, key=_WORST_FIRST.index)
        verdicts_by_device = [(name, by_device.get(name, {})) for name in devices]
        if all(verdicts == verdicts_by_device[0][1] for _, verdicts in verdicts_by_device):
            continue
        for tensor in dict.fromkeys(
            tensor for verdicts in by_device.values() for tensor in verdicts
        ):
            disagreeing = tuple(
                (name, verdicts.get(tensor, ABSENT)) for name, verdicts in verdicts_by_device
            )
            if len({verdict for _, verdict in disagreeing}) > 1:
                return Difference(step, tensor, disagreeing)
    return None


def _differing_steps(observed: ObservedOps) -> Iterator[Tuple[Optional[str], Array]]:
    """Yield the steps in which devices have other verdicts or other tensors, each with its
    operators (their numbers) in execution order.
    """
    digests, tensors = observed.digests, observed.tensors
    places = digests.places
    codes: Dict[Any, int] = {}
    step, device = (
        np.array([codes.setdefault((what, name), len(codes)) for name in names], np.int32)
        for what, names in (
            ("step", [place.step for place in places]),
            ("device", [place.device_name or "" for place in places]),
        )
    )
    names: Dict[str, int] = {}
    tensor = [names.setdefault(part.observed[3], len(names)) for part in digests.shared]
    rank = [_WORST_FIRST.index(part.observed[4]) for part in digests.shared]
    # An op without inputs and outputs has a verdict of its own.
    with_tensor = np.zeros(len(observed), bool)
    with_tensor[tensors.op] = True
    alone = np.flatnonzero(~with_tensor)
    own_names = np.array([names.setdefault(name, len(names)) for name in observed.names], np.int32)
    step_of, device_of = (column[observed.place_of] for column in (step, device))
    of_tensor, every = step_of[tensors.op], len(set(device_of.tolist()))
    shared = digests.numbers["shared"]
    tensor_of, rank_of = np.array(tensor), np.array(rank)
    in_order = np.argsort(observed.ranks).astype(np.int32)
    step_of_op = step_of[in_order]
    _, at = np.unique(step_of_op, return_index=True)
    for number in np.sort(at).tolist():
        code = step_of_op[number]
        some, without = np.flatnonzero(of_tensor == code), alone[step_of[alone] == code]
        codes_there = shared[tensors.row[some]]
        devices, tensor_codes, ranks = (
            np.concatenate(parts)
            for parts in (
                (device_of[tensors.op[some]], device_of[without]),
                (tensor_of[codes_there], own_names[observed.name_of[without]]),
                (rank_of[codes_there], np.full(len(without), _WORST_FIRST.index(NOT_COMPARED))),
            )
        )
        # Of several rows of a tensor the worst.
        order = np.lexsort((ranks, tensor_codes, devices))
        devices, tensor_codes, ranks = (column[order] for column in (devices, tensor_codes, ranks))
        first = np.ones(len(order), bool)
        first[1:] = (np.diff(devices) != 0) | (np.diff(tensor_codes) != 0)
        devices, told = devices[first], np.stack([tensor_codes, ranks])[:, first]
        parts = np.split(told, np.flatnonzero(np.diff(devices) != 0) + 1, axis=1)
        if len(parts) != every or not all(np.array_equal(parts[0], part) for part in parts):
            ops = in_order[step_of_op == code]
            yield observed.place(int(ops[0])).step, ops


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


Array = Any

_SHOWN = 3
_MOST_BEFORE = 16
"""Operators before one of which a number may be lost; chosen by time, no trial."""
_LOST = 0.1
"""How far off a tensor is at least whose values are lost below its type's least step. Chosen, no
trial."""
_UNDERFLOWS = (
    "%s underflows: its values (root mean square %.2g) are below the least step of %s, %.3g, and 0 "
    "on the device, or far from what they should be"
)


def underflow_up_to(op: ObservedOp, inputs: Inputs) -> str:
    """Return in words the first operator up to one whose values are lost below the least step of
    their type; empty where there is none.
    """
    for one in sorted([*inputs.before(op), op], key=attrgetter("key_at_place")):
        for output in one.outputs.values():
            step = rounding_of(output.dtype).step
            if output.distance > _LOST and output.rms < step:
                return _UNDERFLOWS % (one.name, output.rms, output.dtype, step)
    return ""


_LOST_AT = "%s of %s %s"
_THEREBY = ", and NaN or Inf come of that"
_PERHAPS = ", which may be why (its dump is not there)"


def lost_up_to(estimate: Estimate, inputs: Inputs, reader: TensorReader) -> str:
    """Return in words the number that an operator, or the nearest before it, does not have on the
    device as the model has it, where that makes the operator's NaN or Inf; empty where there is
    none.
    """
    own = reader.lost_number(estimate.op, estimate.output)
    if own is not None and own.shown is not None:
        return _LOST_AT % (own.number, estimate.op.name, own.fate) + _THEREBY
    made = reader.pair(estimate.op, estimate.output)
    if made is None or made.sampled:
        return ""
    spoiled = ~np.isfinite(np.asarray(made.target, np.float64))
    for before in inputs.before(estimate.op)[:_MOST_BEFORE]:
        for output in before.outputs.values():
            lost = reader.lost_number(before, output)
            if lost is not None and (lost.shown is None or _is_of(lost.shown, spoiled)):
                words = _LOST_AT % (lost.number, before.name, lost.fate)
                return words + (_PERHAPS if lost.shown is None else _THEREBY)
    return ""


def _is_of(shown: Array, spoiled: Array) -> bool:
    """Tell whether elements of an operator before are those that are NaN or Inf in a later one."""
    try:
        return np.array_equal(np.broadcast_to(shown, spoiled.shape), spoiled)
    except ValueError:
        return False


def masked_rows(
    estimate: Estimate, inputs: Inputs, reader: TensorReader, golden_alone: bool
) -> str:
    """Return which rows of the operator's input hold -Inf throughout, where its output is NaN
    there and nowhere else, and the tensor that is the mask; empty where that is not so.

    Parameters
    ----------
    golden_alone
        Whether golden data are NaN there, and the device is not; else the device alone is.
    """
    made = reader.pair(estimate.op, estimate.output)
    if made is None or made.sampled:
        return ""
    undefined = np.isnan(np.asarray(made.golden if golden_alone else made.target, np.float64))
    for state in estimate.inputs:
        excluded = _excluded(state, reader, golden_alone)
        if excluded is None or excluded.shape != undefined.shape:
            continue
        for axis in reversed(range(excluded.ndim)):
            if excluded.shape[axis] == 1:
                continue
            throughout = excluded.all(axis, keepdims=True)
            if throughout.any() and np.array_equal(
                np.broadcast_to(throughout, undefined.shape), undefined
            ):
                rows = np.argwhere(throughout.squeeze(axis))
                places = [str([int(part) for part in place]) for place in rows]
                return "%s of %s along axis %d, %s, %s -Inf throughout%s" % (
                    plural(len(rows), "row"),
                    state.tensor,
                    axis,
                    listed(places, _SHOWN),
                    "is" if len(rows) == 1 else "are",
                    _mask(estimate.op, state, inputs, reader, golden_alone),
                )
    return ""


def _excluded(state: InputState, reader: TensorReader, golden: bool) -> Optional[Array]:
    if state.owner is None or state.observation is None:
        return None
    pair = reader.pair(state.owner, state.observation)
    if pair is None or pair.sampled:
        return None
    return np.isneginf(pair.golden if golden else pair.target)


def _mask(
    op: ObservedOp, state: InputState, inputs: Inputs, reader: TensorReader, golden: bool
) -> str:
    """Return which input of the operator before makes them so; empty where it is not one."""
    found: List[str] = []
    for before in inputs.before(op):
        for fed in inputs.of(before) if before.name == state.source else ():
            excluded = _excluded(fed, reader, golden)
            if excluded is not None and excluded.any():
                found.append(fed.tensor)
    return " by the mask %s" % found[0] if len(found) == 1 else ""
