"""What a suspect's error looks like, with evidence and what to do next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from ..comparing.patterns import AlignedPair, Finding, find_patterns
from ..comparing.row import Row
from .estimates import SLICE, Estimate, whole
from .inputs import UNKNOWN
from .own_error import rounding
from .words import percent

KINDS = (
    "saturation", "overflow", "flush-to-zero", "rounding", "layout", "shift", "scale", "bias", "wrong-golden", "other-input", "random",
    "dequantisation", "stale-dump", "padding", "one-slice", "not-equal", "nan",
)  # fmt: skip
"""Stable ids, listed in docs/verdict.md."""

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
    "wrong-golden": "make the golden data again: in-place layers must be written out of place (goldwatch golden caffe deinplace)",
    "other-input": "compare the input file of the device with that of the golden run, preprocessing (AIPP, mean, channel order) included",
    "random": "run the same input twice on the device and compare the two dumps: an operator that reads foreign memory gives other values",
    "dequantisation": "look for the scale and offset of the operator in the quantisation's record: one side is not dequantised",
    "stale-dump": "run the program again with the present model and compare the new dumps",
    "padding": "compare with golden data in the original layout: the device's padding holds no values of the model",
    "one-slice": "compare that part of the weights (and tiling) in the compiled model with the original file's; convert the model again",
    "not-equal": "look at the elements at the positions in the row's reason, and at the order in which equal values are chosen",
    "nan": "look for 0/0, the root of a negative number, or memory that was not written, in this operator",
}
_FOLLOW_INPUT = frozenset(["TransData", "Cast", "Aipp", "AippData"])
_QUANTISED_FACTOR = 4.0
_UNRELATED = 0.3
_ENOUGH_ELEMENTS = 32
_ROUNDING_TIMES = 60.0


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

    def document(self) -> Dict[str, Any]:
        """Return an entry of result.json's ``explanations``."""
        return {"kind": self.kind, "share": round(self.share, 4), "sentence": self.sentence, "next": self.next}


def _explanation(kind: str, share: float, sentence: str) -> Explanation:
    return Explanation(kind, share, sentence, _NEXT[kind])


def explanations_of(
    estimate: Estimate,
    row: Row,
    pair: Optional[AlignedPair] = None,
    others: Iterable[Tuple[str, Any]] = (),
    stale: str = "",
) -> List[Explanation]:
    """Return what the error of a suspect looks like, the likeliest first.

    Parameters
    ----------
    estimate, row
        Of the output that shows it.
    pair
        Its two tensors (or a sample); None where they cannot be read again: then the row is all there is.
    others
        Golden tensors of the same shape, by op: one of them may be the right one.
    stale
        A sentence that the dump is older than the model; empty where it is not.
    """
    if whole(estimate.output.dtype):
        return _of_integers(row, pair)
    patterns = find_patterns(pair, _background(estimate), others) if pair is not None else []
    found = _merged([_of_pattern(pattern, pair, estimate) for pattern in patterns])
    if pair is None:
        found += _of_row(estimate, row)
    fallback = [] if found else _without_pattern(estimate, row, pair)
    if stale and not found:
        fallback.append(_explanation("stale-dump", 0.0, stale))
    return found + fallback


def _background(estimate: Estimate) -> float:
    """Return the relative distance that the inputs explain; never more than the distance itself."""
    expected = estimate.normal.expected(estimate.inputs_distance, 0.0) if not estimate.whole_type else 0.0
    return min(expected, estimate.distance) if math.isfinite(expected) and math.isfinite(estimate.distance) else 0.0


def _merged(found: Iterable[Explanation]) -> List[Explanation]:
    """Keep the first of each kind."""
    kept: Dict[str, Explanation] = {}
    for entry in found:
        kept.setdefault(entry.kind, entry)
    return list(kept.values())


def _of_pattern(pattern: Finding, pair: Optional[AlignedPair], estimate: Estimate) -> Explanation:
    kind, sentence = _OF_PATTERN[pattern.kind], pattern.sentence
    if pair is not None and pair.sampled:
        sentence += " (in a sample of %d of %d elements)" % (pair.target.size, pair.total)
    if pattern.kind == "scale":
        factor = abs(float(pattern.detail.get("factor", 1.0)))
        if factor >= _QUANTISED_FACTOR or 0 < factor <= 1 / _QUANTISED_FACTOR:
            kind = "dequantisation" if pair is not None and _integral(pair) else "scale"
    if pattern.kind == "shift" and pair is not None and {pair.letters[axis] for axis, by in enumerate(pattern.detail["by"]) if by} == {"C"}:
        kind = "layout"
    if pattern.kind == "region" and pattern.detail.get("padding"):
        kind = "padding"
    if kind == "wrong-golden" and _is_first(estimate):
        kind = "other-input"
    return _explanation(kind, pattern.share, sentence)


def _integral(pair: AlignedPair) -> bool:
    """Tell whether one side holds whole numbers: quantised values that were taken for real ones."""
    for side in (pair.target, pair.golden):
        values = np.asarray(side, np.float64).reshape(-1)
        values = values[np.isfinite(values) & (values != 0)]
        if values.size and (values == np.round(values)).mean() > 0.99:
            return True
    return False


def _is_first(estimate: Estimate) -> bool:
    """Tell whether an operator stands directly behind the network's input."""
    return estimate.op.type in _FOLLOW_INPUT and all(state.state == UNKNOWN for state in estimate.inputs)


def _of_integers(row: Row, pair: Optional[AlignedPair]) -> List[Explanation]:
    if pair is None:
        return [_explanation("not-equal", 1.0, row.reason or "elements differ")]
    differ = pair.target != pair.golden
    at = [[int(part) for part in place] for place in np.argwhere(differ)[:3]]
    sentence = "%d of %d elements differ, the first at %s" % (int(differ.sum()), differ.size, ", ".join(map(str, at)))
    return [_explanation("not-equal", 1.0, sentence)]


def _of_row(estimate: Estimate, row: Row) -> List[Explanation]:
    """Return what the row alone tells."""
    nan, inf = (row.nan or {}).get("target", 0), (row.inf or {}).get("target", 0)
    if estimate.output.spoiled:
        if inf:
            return [_explanation("overflow", 1.0, "%d elements of the target are Inf" % inf)]
        return [_explanation("nan", 1.0, "%d elements of the target are NaN" % nan)]
    worst = row.worst_slice
    if estimate.shown.measure == SLICE and worst is not None:
        sentence = "index %s of axis %s is the worst: %s" % (worst[1], worst[0], percent(estimate.shown.value))
        return [_explanation("one-slice", 0.0, sentence)]
    return []


def _without_pattern(estimate: Estimate, row: Row, pair: Optional[AlignedPair]) -> List[Explanation]:
    """Return what remains to be said where no pattern explains the error."""
    if estimate.output.spoiled:
        return []
    alike = _correlation(row, pair)
    if abs(alike) < _UNRELATED:
        sentence = "the values have nothing to do with the golden ones (correlation %.2g), and no pattern fits" % alike
        return [_explanation("other-input" if _is_first(estimate) else "random", 1.0 - alike * alike, sentence)]
    if _is_first(estimate):
        sentence = "the very first operator differs: what is fed to the device is not what the golden run got"
        return [_explanation("other-input", 1.0, sentence)]
    rounded = rounding(estimate.output.dtype)
    if rounded and estimate.distance <= _ROUNDING_TIMES * rounded and estimate.shown.measure != SLICE:
        sentence = "no pattern but noise of %.3g times the rounding of %s" % (estimate.distance / rounded, estimate.output.dtype)
        return [_explanation("rounding", 0.0, sentence)]
    return []


def _correlation(row: Row, pair: Optional[AlignedPair]) -> float:
    """Return how alike target and golden are, apart from their means; 1 where it cannot be told."""
    if pair is None:
        cosine = row.metrics.get("CosineSimilarity")
        return float(cosine) if isinstance(cosine, (int, float)) and not math.isnan(cosine) else 1.0
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (pair.target, pair.golden))
    keep = np.isfinite(x) & np.isfinite(y)
    if keep.sum() < _ENOUGH_ELEMENTS:
        return 1.0
    x, y = x[keep] - x[keep].mean(), y[keep] - y[keep].mean()
    lengths = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / lengths if lengths else 1.0
