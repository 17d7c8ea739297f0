"""What a suspect's error looks like, with evidence and what to do next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..comparing.patterns import AlignedPair, Finding, find_patterns
from ..comparing.row import FAIL
from ..elements import element_count
from ..tensors.rounding import rounding_of
from .own_error.estimated import SLICE, Estimate
from .own_error.expected import rounding, sum_noise
from .seen import Observation
from .words import percent

KINDS = (
    "saturation", "overflow", "flush-to-zero", "rounding", "layout", "shift", "scale", "bias", "wrong-golden", "other-input", "random",
    "dequantisation", "stale-dump", "padding", "one-slice", "not-equal", "nan", "did-nothing", "activation",
)  # fmt: skip
"""Stable ids, listed in docs/verdict.md."""

_BLAMELESS = frozenset(["wrong-golden", "other-input"])

_OF_PATTERN = {
    "nan": "nan", "inf": "overflow", "healthy": "rounding", "other-tensor": "wrong-golden", "axis-swap": "layout", "axis-flip": "layout",
    "channel-permutation": "layout", "shift": "shift", "sign-flip": "scale", "saturation": "saturation", "flush-to-zero": "flush-to-zero",
    "region": "one-slice", "scale": "scale", "offset": "bias", "coarser-type": "rounding",
}  # fmt: skip
_NEXT = {
    "saturation": "look at the range of the operator's inputs and scales; keep the operator in float32, or scale what feeds it",
    "overflow": "find where values leave the type's range: keep the operator in float32, or scale what feeds it",
    "flush-to-zero": "keep the operator in float32, or scale its inputs up: its values are too small for the device's type",
    "rounding": "compare the operator in a higher precision (float32) before looking for a fault",
    "layout": "compare the operator's formats in the model's json with the golden data's layout, then convert the model again",
    "shift": "look at the operator's padding, stride and crop attributes in the model's json",
    "scale": "compare the operator's scale, epsilon, alpha and quantisation factors with those of the original model",
    "bias": "look whether the operator's bias (or beta, or zero point) reached the compiled model",
    "wrong-golden": "make the golden data again; in-place layers of Caffe must be written out of place (goldwatch golden caffe deinplace)",
    "other-input": "compare the input file of the device with that of the golden run, preprocessing (AIPP, mean, channel order) included",
    "random": "run the same input twice on the device and compare the two dumps: an operator that reads foreign memory gives other values",
    "dequantisation": "look for the scale and offset of the operator in the quantisation's record: one side is not dequantised",
    "stale-dump": "run the program again with the present model and compare the new dumps",
    "padding": "compare with golden data in the original layout: the device's padding holds no values of the model",
    "one-slice": "compare that part of the weights (and tiling) in the compiled model with the original file's; convert the model again",
    "not-equal": "look at the elements at the positions in the row's reason, and at the order in which equal values are chosen",
    "nan": "look for 0/0, the root of a negative number, or memory that was not written, in this operator",
}
_CONTRADICTED = "its golden data do not fit those of the operator that reads them, and the device's output does: the golden data are wrong"
_OTHER_FILE = "its golden data are right, and so is what the operators behind it make of its output: its dump is not what they read"
_WHAT_DIFFERS = "or what differs does not count there"
_BEHIND = {
    "given": "what reads it is right: either its golden data are wrong, %s" % _WHAT_DIFFERS,
    "reader": "what reads it is right: either its golden data are wrong, or its dump file is of another run, %s" % _WHAT_DIFFERS,
}
_PERHAPS = "what reads it is right: its dump file may be of another run, %s" % _WHAT_DIFFERS
_NEXT_FOR_EITHER = "look at the times of its dump file and of its golden file beside those of other operators, and make again what is older"
_QUANTISED_FACTOR = 4.0
_UNRELATED = 0.3
_ENOUGH_ELEMENTS = 32
_ENOUGH_TO_CORRELATE = 8
_FAR = 0.5
_ROUNDING_TIMES = 4.0


@dataclass(frozen=True)
class Explanation:
    """One explanation of an operator's error.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    share
        Of the operator's own squared error (what its inputs explain is left out), how much it explains, 0 to 1.
    sentence
        What was found, in numbers.
    next
        What to do next.
    """

    kind: str
    share: float
    sentence: str
    next: str

    @property
    def blameless(self) -> bool:
        """Whether it clears the operator: something else is wrong."""
        return self.kind in _BLAMELESS or (self.kind == "stale-dump" and self.share > 0)

    def document(self) -> Dict[str, Any]:
        """Return an entry of result.json's ``explanations``."""
        return {"kind": self.kind, "share": round(self.share, 4), "sentence": self.sentence, "next": self.next}


def _explanation(kind: str, share: float, sentence: str) -> Explanation:
    return Explanation(kind, share, sentence, _NEXT[kind])


def older_dump(age: str) -> Explanation:
    """Return the explanation that a dump file is older than the model file, as a sentence tells."""
    return _explanation("stale-dump", 0.0, age)


def other_dump() -> Explanation:
    """Return the explanation that a dump file is not what the operators behind it read."""
    return _explanation("stale-dump", 1.0, _OTHER_FILE)


def perhaps_other_dump() -> Explanation:
    """Return the explanation that a dump file may not be what the operators behind it read."""
    return _explanation("stale-dump", 0.0, _PERHAPS)


class Other(NamedTuple):
    """Another golden tensor of the same shape.

    Attributes
    ----------
    op
        Its operator.
    golden
        The elements.
    source
        The operator feeds the suspect.
    exchanged
        That operator's own output fits the suspect's golden tensor.
    """

    op: str
    golden: Any
    source: bool = False
    exchanged: bool = False


class Surroundings(NamedTuple):
    """What surrounds a suspect.

    Attributes
    ----------
    first
        Nothing but the network's inputs feeds it.
    right_behind
        All operators that it feeds are right; None where it feeds none that was compared.
    contradicted
        How an operator behind it contradicts its golden data: ``GOLDEN`` where its golden output fits the device's tensor and not the
        golden one, ``READER`` where it is right though the two differ, ``GIVEN`` where that was moreover what it was given; else empty.
    golden_right
        Its golden data are right beyond doubt.
    unread
        What an operator behind it was given is not what was dumped of it.
    stale
        A sentence that the dump is older than the model; empty where it is not.
    """

    first: bool = False
    right_behind: Optional[bool] = None
    contradicted: str = ""
    golden_right: bool = False
    unread: bool = False
    stale: str = ""


GOLDEN, READER, GIVEN = "golden", "reader", "given"
"""How golden data are contradicted, see :class:`Surroundings`."""

NOTHING_AROUND = Surroundings()


def explanations_of(
    estimate: Estimate, pair: Optional[AlignedPair] = None, others: Iterable[Other] = (), around: Surroundings = NOTHING_AROUND
) -> List[Explanation]:
    """Return what the error of a suspect looks like, the likeliest first.

    Parameters
    ----------
    estimate
        Of the output that shows it.
    pair
        Its two tensors (or a sample); None where they cannot be read again: then the row is all there is.
    others
        Golden tensors of the same shape: one of them may be the right one.
    around
        What surrounds it.
    """
    stale = [older_dump(around.stale)] if around.stale else []
    if estimate.fed_otherwise:
        return [_other_input(estimate, around)] + (patterns_of(estimate, pair, (), around) if pair is not None else []) + stale
    if estimate.output.whole:
        return _of_integers(estimate, pair) + stale
    found = _golden_spoiled(estimate, around)
    found += patterns_of(estimate, pair, others, around) if pair is not None else _of_row(estimate)
    if around.golden_right and around.right_behind and around.unread:
        found.insert(0, other_dump())
    elif around.golden_right:
        found += [perhaps_other_dump()] if around.contradicted == READER else []
    elif around.contradicted and not any(entry.blameless or entry.kind == "padding" for entry in found):
        sentence = _BEHIND.get(around.contradicted)
        certain = _explanation("wrong-golden", 1.0, _CONTRADICTED)
        found.insert(0, certain if sentence is None else Explanation("wrong-golden", 1.0, sentence, _NEXT_FOR_EITHER))
    told = estimate.told
    if told is not None:
        found.sort(key=lambda entry: entry.kind != told.kind)
    return (found or without_pattern(estimate, pair, around)) + stale


def patterns_of(estimate: Estimate, pair: AlignedPair, others: Iterable[Other], around: Surroundings) -> List[Explanation]:
    """Return the patterns that the difference of a pair shows, the likeliest first; parameters as :func:`explanations_of`."""
    constant = _constant(pair)
    if constant is not None:
        return [constant]
    named = {}

    def golden() -> Iterator[Tuple[str, Any]]:
        for other in others:
            named[other.op] = other
            yield other.op, other.golden

    patterns = find_patterns(pair, _background(estimate), golden())
    made = [_of_pattern(pattern, pair, named.get(str(pattern.detail.get("tensor"))), around) for pattern in patterns]
    return _merged([entry for entry in made if entry is not None])


def _constant(pair: AlignedPair) -> Optional[Explanation]:
    """Return an explanation where every element of the target is the same, though the golden ones are not."""
    x, y = np.asarray(pair.target, np.float64), np.asarray(pair.golden, np.float64)
    if x.size < _ENOUGH_ELEMENTS or not np.isfinite(x).all() or not np.isfinite(y).all() or np.ptp(x) or not np.ptp(y):
        return None
    value = float(x.flat[0])
    if not value and np.abs(y).max() < rounding_of(pair.dtype).least_normal:
        sentence = "all values became 0: the golden ones, up to %.3g, are below the normal numbers of %s" % (np.abs(y).max(), pair.dtype)
        return _explanation("flush-to-zero", 1.0, sentence)
    return _explanation("random", 1.0, "every element of the target is %.6g: the output was not computed, or not written" % (value or 0.0))


def _other_input(estimate: Estimate, around: Surroundings) -> Explanation:
    if estimate.output.golden_spoiled:
        return _golden_nan("the golden data of the network's input are")
    if around.right_behind:
        sentence = "the golden data of the network's input do not fit, but what is computed from it is right: they are of another input"
        return _explanation("wrong-golden", 1.0, sentence)
    differs = "" if math.isnan(estimate.distance) else " by %s" % percent(estimate.distance)
    return _explanation("other-input", 1.0, "the network's input differs%s: device and golden run were fed with other data" % differs)


def _golden_nan(whose: str) -> Explanation:
    sentence = "%s NaN or Inf throughout, none of the device's is: the golden data are wrong, not the operator" % whose
    step = "make the golden data again, and look for NaN in the original model's input and weights"
    return Explanation("wrong-golden", 1.0, sentence, step)


def _golden_spoiled(estimate: Estimate, around: Surroundings) -> List[Explanation]:
    """Return an explanation where golden data alone hold NaN or Inf, and nothing speaks for the device's being wrong."""
    row = estimate.output
    bad = row.nan[1] + row.inf[1]
    if row.golden_spoiled:
        return [_golden_nan("its golden data are")]
    if not row.spoiled or row.nan[0] or row.inf[0] or not bad or not around.right_behind:
        return []
    sentence = "%d elements of its golden data are NaN or Inf, none of the device's is, and the operators behind it are right: the golden"
    return [_explanation("wrong-golden", 1.0, (sentence + " data are wrong, not the operator") % bad)]


def _background(estimate: Estimate) -> float:
    """Return the relative distance that the inputs explain; never more than the distance itself."""
    expected = estimate.inherited if not estimate.whole_type else 0.0
    return min(expected, estimate.distance) if math.isfinite(expected) and math.isfinite(estimate.distance) else 0.0


def _merged(found: Iterable[Explanation]) -> List[Explanation]:
    """Keep the first of each kind."""
    kept: Dict[str, Explanation] = {}
    for entry in found:
        kept.setdefault(entry.kind, entry)
    return list(kept.values())


def _of_pattern(pattern: Finding, pair: AlignedPair, other: Optional[Other], around: Surroundings) -> Optional[Explanation]:
    kind, sentence = _OF_PATTERN[pattern.kind], pattern.sentence
    if pair.sampled:
        sentence += " (in a sample of %d of %d elements)" % (pair.target.size, pair.total)
    if pattern.kind == "scale":
        factor = abs(float(pattern.detail.get("factor", 1.0)))
        if factor >= _QUANTISED_FACTOR or 0 < factor <= 1 / _QUANTISED_FACTOR:
            kind = "dequantisation" if _integral(pair) else "scale"
    if pattern.kind == "region" and pattern.detail.get("padding"):
        kind = "padding"
    if kind == "wrong-golden":
        # A device that computes nothing, or another tensor, gives such values too: what stands behind it then is wrong as well.
        if around.right_behind:
            sentence += ", and the operators behind it are right: its golden data are wrong, not the operator"
        elif other is not None and other.exchanged:
            sentence += ", and its golden tensor fits %s: the two are exchanged" % other.op
        else:
            return None
    return _explanation(kind, pattern.share, sentence)


def _integral(pair: AlignedPair) -> bool:
    """Tell whether one side holds whole numbers: quantised values that were taken for real ones."""
    for side in (pair.target, pair.golden):
        values = np.asarray(side, np.float64).reshape(-1)
        values = values[np.isfinite(values) & (values != 0)]
        if values.size and (values == np.round(values)).mean() > 0.99:
            return True
    return False


def _of_integers(estimate: Estimate, pair: Optional[AlignedPair]) -> List[Explanation]:
    redone = estimate.decision.redone if estimate.decision is not None else None
    wrong = "" if redone is None else "; %d of them do not follow from the device's own inputs, the first at %s" % (
        redone.wrong, list(redone.first),
    )  # fmt: skip
    if pair is None:
        share = estimate.output.share
        return [_explanation("not-equal", 1.0, ("elements differ" if math.isnan(share) else "%s of the elements differ" % percent(share)))]
    differ = pair.target != pair.golden
    at = [[int(part) for part in place] for place in np.argwhere(differ)[:3]]
    sentence = "%d of %d elements differ, the first at %s" % (int(differ.sum()), differ.size, ", ".join(map(str, at)))
    return [_explanation("not-equal", 1.0, sentence + wrong)]


def _of_row(estimate: Estimate) -> List[Explanation]:
    """Return what the row alone tells."""
    row = estimate.output
    if row.spoiled:
        if row.inf[0]:
            return [_explanation("overflow", 1.0, "%d elements of the target are Inf" % row.inf[0])]
        return [_explanation("nan", 1.0, "%d elements of the target and %d of the golden are NaN" % row.nan)]
    if estimate.shown.measure == SLICE and row.worst_slice is not None:
        sentence = "index %s of axis %s is the worst: %s" % (row.worst_slice[1], row.worst_slice[0], percent(estimate.shown.value))
        return [_explanation("one-slice", 0.0, sentence)]
    return []


def without_pattern(estimate: Estimate, pair: Optional[AlignedPair], around: Surroundings) -> List[Explanation]:
    """Return what remains to be said where no pattern explains the error."""
    if estimate.output.spoiled:
        return []
    if around.first and estimate.output.verdict == FAIL:
        sentence = "the very first operator differs, and its input was not compared: the device may have been fed with other data"
        return [_explanation("other-input", 0.0, sentence)]
    alike = _correlation(estimate.output, pair)
    if abs(alike) < _unrelated(estimate.output):
        few = "" if abs(alike) < _UNRELATED else ", as %d unrelated values may have" % element_count(estimate.output.shape)
        sentence = "the values have nothing to do with the golden ones (correlation %.2g%s), and no pattern fits" % (alike, few)
        return [_explanation("random", 0.0 if few else 1.0 - alike * alike, sentence)]
    rounded = rounding(estimate.output.dtype, estimate.output.rms)
    own = math.sqrt(max(estimate.distance**2 - estimate.inherited**2, 0.0)) if estimate.distance < math.inf else math.inf
    if rounded and own <= max(_ROUNDING_TIMES * rounded, sum_noise(estimate.output.dtype)) and estimate.shown.measure != SLICE:
        sentence = "no pattern but noise of %.3g times the rounding of %s" % (own / rounded, estimate.output.dtype)
        return [_explanation("rounding", 0.0, sentence)]
    return []


def _unrelated(row: Observation) -> float:
    """Return the correlation below which values are unrelated: of few elements 9 of 10 random ones correlate less than 1.65/√n."""
    count = element_count(row.shape)
    return max(_UNRELATED, 1.65 / math.sqrt(count)) if count >= _ENOUGH_TO_CORRELATE and row.distance > _FAR else _UNRELATED


def _correlation(row: Observation, pair: Optional[AlignedPair]) -> float:
    """Return how alike target and golden are, apart from their means; 1 where it cannot be told."""
    if pair is None:
        return 1.0 if math.isnan(row.cosine) else row.cosine
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (pair.target, pair.golden))
    keep = np.isfinite(x) & np.isfinite(y)
    if keep.sum() < _ENOUGH_TO_CORRELATE:
        return 1.0
    x, y = (_centred(side[keep]) for side in (x, y))
    lengths = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / lengths if lengths else 1.0


def _centred(values: np.ndarray) -> np.ndarray:
    """Return values without their mean, in units of the largest, so that squares stay numbers."""
    largest = float(np.abs(values).max())
    values = values / (largest or 1.0)
    return np.asarray(values - values.mean())
