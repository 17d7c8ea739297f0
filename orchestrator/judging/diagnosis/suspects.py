"""Operators that are wrong by themselves, best first, whether or not a limit is broken: one entry
for all their places.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...base.fast_dataclasses import dataclass
from ...base.wording import listed, percent, plural
from ...dumps.place import Place, name_order
from ...metrics.row import FAIL
from ...metrics.worst_slice import median
from .explanations import Explanation
from .observed_ops import ObservedOps
from .op_input_states import BAD, UNKNOWN
from .own_error.distance_table import DistanceTable
from .own_error.estimate import ALL, FACTOR, HIGHEST_SCORE, SLICE, Estimate, Estimates
from .own_error.normal_error import HOPELESS, SUSPECT_SCORE, rounding
from .row_digest import place_key

Array = Any

# So many operators make a type whose common factor is told, beyond so many standard errors and
# roundings, if this share of them has it; at most so many are looked at, by their time. All
# chosen, no trial of each alone (docs/design/verdict.md has that of the suspects).
ENOUGH = 6
_DEVIATIONS = 6.0
_ROUNDINGS = 3.0
_MOST_PAIRED = 200
_ALIKE = 0.7
_UNTOUCHED = 1.0 / 3.0
"""Of the common factor, what an input may have for its operator to show the factor as its own."""
_ADDING = 3
"""So many operators must add the factor to what came in: one does where it alone is wrong."""
_FORGETTING = frozenset(
    "layernorm layernormv3 rmsnorm instancenorm instancenormv2 groupnorm l2normalize".split()
)
"""Types that hand on no factor: they divide by the size of what came in."""


class TypeFactor(NamedTuple):
    """A factor that all operators of a type share.

    Attributes
    ----------
    factor
        Of the output, besides what the input's factor explains.
    ops
        How many operators it was measured on.
    sureness
        By how much it is beyond what scatter and rounding explain; above 1.
    """

    factor: float
    ops: int
    sureness: float


def type_factors(estimates: Estimates) -> Dict[str, TypeFactor]:
    """Return the types that are wrong everywhere by the same factor.

    The common factor a of an output (target x ≈ a·golden y) follows from that of its input:
    ln a_out = c + k·ln a_in. A type is wrong where c is not 0: not by its scatter over the type,
    nor by what rounding makes of a factor, and where most operators show it. One wrong operator
    gives a factor to the inputs of all that follow, which they hand on, as it came (k = 1) or
    faded: then k cannot be told from c. So c must also be seen where nothing of it came in, and
    several operators must add it to what came in (all of it, k = 1).
    """
    table, usable = estimates.table, np.flatnonzero(_usable(estimates)).astype(np.int32)
    types = [kind.op_type for kind in table.kinds]
    codes = {op_type: code for code, op_type in enumerate(dict.fromkeys(types))}
    of_output = np.array([codes[op_type] for op_type in types], np.int32)[table.kind[usable]]
    _, firsts = np.unique(of_output, return_index=True)
    factors = {}
    for first in np.sort(firsts).tolist():
        numbers = usable[of_output == of_output[first]]
        op_type = types[table.kind[numbers[0]]]
        ops = len({table.kinds[kind].op for kind in np.unique(table.kind[numbers]).tolist()})
        if ops >= ENOUGH:
            factor = _factor(table, numbers, ops)
            if factor.sureness > 1.0:
                factors[op_type] = factor
    return factors


def _usable(estimates: Estimates) -> Array:
    """Tell which outputs have one input, and both a factor; [n]."""
    table = estimates.table
    with np.errstate(invalid="ignore"):
        usable = (
            table.inputs_known
            & (table.distance(0) < HOPELESS)
            & (table.by_kind(lambda kind: kind.whole) == 0)
        )
        sources = table.single_inputs()
        usable &= (sources >= 0) & (table.measured("factor") > 0)
        usable &= table.measured("factor", sources) > 0
        usable &= table.measured("distance", sources) < HOPELESS
    usable &= ~estimates.marked(lambda entry: entry.follows)
    return usable


def _factor(distance_table: DistanceTable, numbers: Array, ops: int) -> TypeFactor:
    step = -(-len(numbers) // _MOST_PAIRED)
    some = numbers[::step]
    sources = distance_table.single_inputs()
    input_logs, output_logs = (
        np.array(list(map(math.log, distance_table.measured("factor", rows[some]).tolist())))
        for rows in (sources, distance_table.row)
    )
    # The smaller the values, the more rounding makes of them.
    codes: Dict[str, int] = {}
    of_kind = [codes.setdefault(kind.dtype, len(codes)) for kind in distance_table.kinds]
    sizes = distance_table.measured("rms", distance_table.row[numbers])
    of_output = np.array(of_kind, np.int32)[distance_table.kind[numbers]]
    smallest = {
        dtype: float(sizes[(of_output == code) & (sizes > 0)].min(initial=math.inf))
        for dtype, code in codes.items()
        if (of_output == code).any()
    }
    rounded = max(
        rounding(dtype, math.nan if math.isinf(least) else least)
        for dtype, least in smallest.items()
    )
    op_type = distance_table.kinds[distance_table.kind[numbers[0]]].op_type
    most = 0.0 if op_type.lower() in _FORGETTING else 1.0
    slope = min(_slope(input_logs, output_logs, rounded), most)
    rest = output_logs - slope * input_logs
    middle = median(rest)
    scatter = 1.4826 * median(np.abs(rest - middle))
    allowed = max(_DEVIATIONS * scatter / math.sqrt(len(rest)), _ROUNDINGS * rounded)
    untouched = np.abs(input_logs) <= _UNTOUCHED * abs(middle)
    adding = {
        distance_table.kinds[distance_table.kind[number]].op
        for number, adds in zip(some, _near(output_logs - most * input_logs, middle))
        if adds
    }
    shown = all(
        near.size and near.mean() >= _ALIKE
        for near in (_near(rest, middle), _near(rest[untouched], middle))
    )
    shown = shown and len(adding) >= _ADDING
    return TypeFactor(math.exp(middle), ops, abs(middle) / allowed if allowed and shown else 0.0)


def _near(values: np.ndarray, middle: float) -> np.ndarray:
    """Tell which values are between half of a number and twice as much."""
    return np.abs(values - 1.25 * middle) <= 0.75 * abs(middle)


def _slope(input_logs: np.ndarray, output_logs: np.ndarray, rounded: float) -> float:
    """Return the median of the slopes between all pairs whose inputs differ by more than rounding;
    between 0 and 1, as factors fade.
    """
    left, right = np.triu_indices(len(input_logs), 1)
    apart = input_logs[right] - input_logs[left]
    far = np.abs(apart) > rounded
    if far.sum() < len(input_logs):
        return 1.0
    return float(
        np.clip(median((output_logs[right] - output_logs[left])[far] / apart[far]), 0.0, 1.0)
    )


HIGH, MEDIUM, LOW, NONE = "high", "medium", "low", "none"

_SAYS = {
    ALL: "its output differs by %s",
    SLICE: "the worst slice of its output differs by %s",
    FACTOR: "its output is off by a common factor, about %s",
}
_NOT_COMPUTED = "told by statistics alone: operators are computed again when the run ends"
# A type is wrong as a whole from so many of its operators and this share of them on
# (docs/design/verdict.md: 3; the share is chosen, no trial).
_CLUSTER = 3
_CLUSTER_SHARE = 0.8
# What an execution has of the highest score where it shows the error as plainly; chosen, no trial.
_AS_PLAIN = 0.8


@dataclass(frozen=True)
class Suspect:
    """An operator that is wrong by itself.

    Attributes
    ----------
    op, op_type
        The operator; of a cluster (all operators of a type) the first one.
    tensor
        The output that shows it.
    place
        Of the first execution that shows it as plainly as the best one.
    score
        How far the error is beyond what is normal, see :mod:`.own_error`; above 4.5, at most 99.
    confidence
        ``high``, ``medium`` or ``low``; ``none``: what it reads or its weights are other ones, no
        operator need be wrong, and it is here for its explanation.
    evidence
        One sentence with the numbers.
    brief
        The same in a few words (not in result.json).
    explanations
        What the error looks like, the likeliest first; empty where the tensors were not read again
        or nothing fits.
    order
        Step, place in the model and device, to sort by (not in result.json).
    group
        The operators in one of which the error arose, the suspect last, where nothing tells which:
        of two builds, of which the other fuses them. Else empty.
    """

    op: str
    op_type: str
    tensor: str
    place: Place
    score: float
    confidence: str
    evidence: str
    brief: str = ""
    explanations: Tuple[Explanation, ...] = ()
    order: Tuple[Any, ...] = field(default=(), compare=False)
    group: Tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """Its name and type, or the operators of its group."""
        if self.group:
            return "one of " + ", ".join(self.group)
        return "%s (%s)" % (self.op, self.op_type) if self.op_type else self.op

    @property
    def rank(self) -> Tuple[Any, ...]:
        """Sorts suspects: the highest score first, as result.json has it; of equal scores by step,
        then by the operator's place in the model, then by device.
        """
        return (-round(self.score, 2), *self.order)

    @property
    def accuses(self) -> bool:
        """Whether its operator may be wrong."""
        return self.confidence != NONE

    @classmethod
    def of_document(cls, document: Mapping[str, Any], host: Optional[str] = None) -> Suspect:
        """Return the suspect of an entry of a host's result.json."""
        return cls(
            **{
                **document,
                "place": Place(**document["place"])._replace(host=host),
                "explanations": tuple(map(Explanation.of_document, document["explanations"])),
                "group": tuple(document.get("group", ())),
            }
        )

    def document(self) -> Dict[str, Any]:
        """Return an entry of result.json's ``suspects``."""
        return {
            "op": self.op,
            "op_type": self.op_type,
            "tensor": self.tensor,
            "place": self.place.document(),
            "score": round(self.score, 2),
            "confidence": self.confidence,
            "evidence": self.evidence,
            "explanations": [entry.document() for entry in self.explanations],
            **({"group": list(self.group)} if self.group else {}),
        }


def find_suspects(estimates: Estimates, observed: ObservedOps) -> List[Tuple[Suspect, Estimate]]:
    """Return the suspects, best first, each with the estimate that shows it best.

    Parameters
    ----------
    estimates
        Of every compared output of the run, in execution order.
    observed
        The run's rows.
    """
    by_op: Dict[str, List[Estimate]] = {}
    factors = type_factors(estimates)
    for entry in estimates.suspects():
        if not (entry.op.type in factors and entry.score < HIGHEST_SCORE):
            by_op.setdefault(entry.op.name, []).append(entry)
    clusters = _clusters(by_op, estimates)
    suspects = [_suspect_type(op_type, factor, estimates) for op_type, factor in factors.items()]
    for name, entries in by_op.items():
        op_type = entries[0].op.type
        if op_type in clusters and clusters[op_type][0] != name:
            continue
        score = max(entry.score for entry in entries)
        plain = (entry.op for entry in entries if entry.score >= _AS_PLAIN * score)
        first = min(plain, key=lambda op: op.key)
        best = max((entry for entry in entries if entry.op is first), key=lambda entry: entry.score)
        parts = [_finding(best)]
        if op_type in clusters:
            parts.append(_cluster_text(len(clusters[op_type]), estimates.count(op_type), op_type))
        parts += [
            _places_text([entry.op.place for entry in entries], estimates),
            _failing_behind(best, observed),
        ]
        suspects.append((_suspect(best, score, "; ".join(filter(None, parts)), _brief(best)), best))
    return sorted(suspects, key=lambda pair: pair[0].rank)


def _suspect(best: Estimate, score: float, evidence: str, brief: str) -> Suspect:
    return Suspect(
        op=best.op.name,
        op_type=best.op.type,
        tensor=best.output.tensor,
        place=best.op.place,
        score=score,
        confidence=_confidence(best, score),
        evidence=evidence,
        brief=brief,
        order=(
            name_order(best.op.place.step),
            best.op.key_at_place[0],
            place_key(best.op.place),
        ),
    )


def _suspect_type(
    op_type: str, factor: TypeFactor, estimates: Estimates
) -> Tuple[Suspect, Estimate]:
    """Return one suspect for all operators of a type: the first of them."""
    best = next(estimates.of_type(op_type))
    change = percent(abs(factor.factor - 1.0))
    count = estimates.count(op_type)
    text = "all %d %s operators%s make their outputs %s %s than their inputs explain (x %.5g)" % (
        count, op_type, "" if factor.ops == count else " (of %d it can be told)" % factor.ops,
        change,
        "larger" if factor.factor > 1 else "smaller", factor.factor,
    )  # fmt: skip
    score = min(SUSPECT_SCORE * (1.0 + factor.sureness), HIGHEST_SCORE)
    # Of the first one's own numbers nothing need stand out.
    return _suspect(best, score, text, text), replace(best, score=score, whole_type=True)


def _cluster_text(suspected: int, count: int, op_type: str) -> str:
    return (
        "so do all %d %s operators" % (count, op_type)
        if suspected == count
        else "so do %d of the %d %s operators" % (suspected, count, op_type)
    )


def _clusters(by_op: Dict[str, List[Estimate]], estimates: Estimates) -> Dict[str, List[str]]:
    """Return the types of which nearly all operators are suspects, with their operators in
    execution order.
    """
    by_type: Dict[str, List[str]] = {}
    for name, entries in by_op.items():
        if entries[0].score < HIGHEST_SCORE:
            by_type.setdefault(entries[0].op.type, []).append(name)
    return {
        op_type: names
        for op_type, names in by_type.items()
        if len(names) >= _CLUSTER and len(names) >= _CLUSTER_SHARE * estimates.count(op_type)
    }


# One phrase for each kind of evidence, the most certain kind first.
def _finding(entry: Estimate) -> str:
    """Return the evidence of an estimate as a phrase with its numbers."""
    if entry.fed_otherwise and entry.output.golden_alone:
        throughout = (
            "are NaN or Inf throughout" if entry.output.golden_spoiled else "hold NaN or Inf"
        )
        return "the golden data of the network's input %s %s" % (entry.output.tensor, throughout)
    if entry.fed_otherwise:
        return "the network's input %s differs from golden data already" % entry.output.tensor
    if entry.evidence:
        return entry.evidence.sentence
    if entry.decides:
        share = entry.output.share
        return "%s of its values differ, though its inputs are equal to golden data" % percent(
            share if share == share else 1.0
        )
    if entry.output.spoiled:
        inputs = (
            "; its inputs hold such on both sides"
            if entry.hands_on_infinities
            else ", and none of its inputs has"
            if entry.known
            else "; not all of its inputs were compared"
        )
        if entry.output.golden_alone:
            return (
                "its golden data have NaN or Inf where its output has numbers%s"
                % inputs.replace("has", "have", 1)
            )
        return "its output has NaN or Inf where golden data has numbers (or the reverse)" + inputs
    if entry.output.whole:
        return (
            "its output is not equal to golden data, though the inputs that feed it are as they "
            "should be"
        )
    output_text = _SAYS[entry.shown.measure] % percent(entry.shown.value)
    inputs_text = percent(entry.shown.inputs)
    explained_text = "inputs and rounding explain %s in this network" % percent(
        entry.shown.expected
    )
    if not entry.known:
        names = [state.tensor for state in entry.inputs if state.state == UNKNOWN]
        if not names:
            return "%s, while %s; what feeds it is not known" % (output_text, explained_text)
        return "%s, while %s; %s %s not compared" % (
            output_text,
            explained_text,
            listed(names, 3),
            "was" if len(names) == 1 else "were",
        )
    if any(state.state == BAD for state in entry.inputs):
        return (
            "its inputs are outside their limits (%s), but %s, while %s: an error of its own "
            "comes on top" % (inputs_text, output_text, explained_text)
        )
    return "%s, its inputs by %s; %s" % (output_text, inputs_text, explained_text)


def _brief(entry: Estimate) -> str:
    if not entry.known or entry.fed_otherwise or entry.evidence or entry.decides:
        return _finding(entry)
    if entry.output.spoiled:
        return (
            "its golden data alone hold NaN or Inf"
            if entry.output.golden_alone
            else "NaN or Inf come out of it, not into it"
        )
    if entry.output.whole:
        return "its inputs are right, its output is not"
    return "%s, its inputs by %s" % (
        _SAYS[entry.shown.measure] % percent(entry.shown.value),
        percent(entry.shown.inputs),
    )


def _confidence(entry: Estimate, score: float) -> str:
    # What was computed again needs no golden data of its inputs.
    if not entry.known and (entry.computed is None or entry.computed.assumed):
        return LOW
    return HIGH if score >= 2 * SUSPECT_SCORE and not entry.whole_type else MEDIUM


def _places_text(places: Sequence[Place], estimates: Estimates) -> str:
    """Return on which devices and in which steps, where there are others."""
    everywhere = estimates.places()
    parts = []
    devices, all_devices = (
        {place.device_name for place in group} for group in (places, everywhere)
    )
    if len(all_devices) > 1 and devices < all_devices:
        word = "device" if len(devices) == 1 else "devices"
        parts.append("on %s %s only" % (word, listed(_sorted(devices), 5)))
    elif len(all_devices) > 1:
        parts.append("on all %d devices" % len(all_devices))
    steps, all_steps = (_sorted({place.step for place in group}) for group in (places, everywhere))
    if len(all_steps) > 1 and len(steps) < len(all_steps):
        if len(steps) == 1 and steps[0] != all_steps[-1]:
            parts.append("in step %s only" % steps[0])
        elif steps == all_steps[-len(steps) :]:
            parts.append("from step %s on" % steps[0])
        else:
            parts.append("in %d of %d steps" % (len(steps), len(all_steps)))
    return " ".join(parts)


def _sorted(names: Any) -> List[str]:
    return [name or "?" for name in sorted(names, key=name_order)]


def _failing_behind(best: Estimate, observed: ObservedOps) -> str:
    """Return how many of the failing operators of the place run behind the suspect, where that is
    nearly all.
    """
    failing = {op.name: op for op in observed.at_place(best.op.place, FAIL)}
    failing.pop(best.op.name, None)
    later = [op for op in failing.values() if op.key > best.op.key]
    if len(later) < 2:
        return ""
    return "%s of the %d other operators outside their limits run behind it" % (
        "all" if len(later) == len(failing) else str(len(later)), len(failing),
    )  # fmt: skip


def provisional_suspects(suspects: Sequence[Suspect]) -> Tuple[Suspect, ...]:
    """Return the suspects of a run that goes on: with low confidence, as computing again at the end
    may clear them.
    """
    return tuple(
        replace(
            suspect,
            confidence=LOW if suspect.accuses else NONE,
            evidence="%s; %s" % (suspect.evidence, _NOT_COMPUTED),
        )
        for suspect in suspects
    )


def suspects_counted(suspects: Sequence[Suspect]) -> Optional[str]:
    """Return ``1 suspect`` or ``3 suspects``; None without any that is accused."""
    accused = sum(suspect.accuses for suspect in suspects)
    return plural(accused, "suspect") if accused else None
