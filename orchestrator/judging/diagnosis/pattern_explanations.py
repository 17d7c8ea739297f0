"""What the error of a suspect looks like: explanations by patterns of its two tensors, by its row
and by the operators around it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ...base.element_types import element_count
from ...base.wording import percent
from ...metrics.patterns import AlignedPair, Finding, Walked, find_patterns
from ...metrics.row import FAIL
from ...model.never_dumped import AIPP
from ...tensors.type_precision import rounding_of
from .explanations import (
    READER,
    Explanation,
    dump_of_another_run,
    dump_of_another_run_maybe,
    explanation,
    golden_contradicted,
    golden_without_numbers,
    older_dump,
)
from .other_preprocessing import changed_image
from .own_error.estimate import SLICE, Estimate
from .own_error.normal_error import HOPELESS, rounding, sum_noise
from .row_digest import Observation

_OF_PATTERN = {
    "nan": "nan", "inf": "overflow", "healthy": "rounding", "other-tensor": "wrong-golden",
    "axis-swap": "layout", "axis-flip": "layout",
    "channel-permutation": "layout", "shift": "shift", "sign-flip": "scale",
    "saturation": "saturation", "flush-to-zero": "flush-to-zero",
    "region": "one-slice", "scale": "scale", "offset": "bias", "coarser-type": "rounding",
}  # fmt: skip
_NEXT_FOR_BOUNDS = (
    "compare the operator's bounds (Clip, Relu6) and its quantisation scale with those of the "
    "original model: the type itself holds larger values, and float32 does not mend it"
)
_BY_RELU = {
    "golden": "the golden is the target's positive part: golden data are of after a ReLU, and the "
    "device's output is not: the ReLU was lost, or golden data are of another tensor",
    "target": "the target is the golden's positive part: the device's output is of after a ReLU, "
    "and golden data are not: the device computed a ReLU that the model does not have there, or "
    "golden data are of another tensor",
}
# Of an error, what the positive part explains at least where nothing else shows that golden data
# are of another tensor; chosen, no trial.
_RECTIFIED = 0.99
_NEXT_FOR_CHANNELS = "look at the order of its channels and weights, and at concat, split and group"
# A factor at least this far from 1 is a scale of quantisation forgotten or used twice; chosen, no
# trial.
_QUANTISED_FACTOR = 4.0
# Of the squares of whole numbers about their mean, what rounding leaves: 1/12 of nine, where they
# deviate by three steps.
_ROUNDED_TO_WHOLE = 0.01
# Correlation below which values are unrelated, but for more than chance makes of n values, 3 / √n;
# of few values 1.65 / √n, which chance exceeds in 10 % of cases.
_UNRELATED = 0.3
_CHANCE = 3.0
# Of at least so many values that correlate more than that in a slice along an axis chance makes
# none; chosen, no trial.
_OF_A_SLICE, _ALIKE_IN_A_SLICE = 16, 0.9
# Sorted values are the same where their relative distance times √n is less: of pairs of unrelated
# tensors (normal, uniform, cut off at 0, lognormal, smoothed; 2,000 for each size from 32 to 2,048
# values, 100 of 16,384, 8 of 262,144) it is 0.22 at least.
_SAME_SORTED = 0.1
# Fewer elements may well be one value, and fewer than 8 may correlate whatever they are; chosen,
# no trial.
_ENOUGH_ELEMENTS = 32
_ENOUGH_TO_CORRELATE = 8
# Only outputs that are further off than this are compared with what few values reach by chance;
# chosen, no trial.
_FAR = 0.5
# Noise of up to so many roundings is the type's own; chosen, no trial.
_ROUNDING_TIMES = 4.0


class OtherGolden(NamedTuple):
    """Another golden tensor of the suspect's shape.

    Attributes
    ----------
    op
        Its operator.
    golden
        The elements.
    source
        The operator feeds the suspect.
    exchanged
        That operator's own output fits the suspect's golden tensor, much better than the suspect's.
    copied
        The operator feeds the suspect, whose output is that operator's, byte for byte.
    """

    op: str
    golden: Any
    source: bool = False
    exchanged: bool = False
    copied: bool = False


class Surroundings(NamedTuple):
    """What the operators around a suspect show.

    Attributes
    ----------
    first
        Nothing but the network's inputs feeds it.
    right_behind
        All operators that it feeds are right; None where it feeds none that was compared, or none
        of them can tell.
    contradicted
        How an operator behind it contradicts its golden data: ``GOLDEN`` where its golden output
        fits the device's tensor and not the golden one, ``READER`` where it is right though the two
        differ, ``GIVEN`` where that was moreover what it was given; else empty.
    golden_right
        Its golden data are right beyond doubt.
    unread
        What an operator behind it was given is not what was dumped of it.
    stale
        A sentence that the dump is older than the model; empty where it is not.
    of_constants
        It reads constants of the model alone.
    """

    first: bool = False
    right_behind: Optional[bool] = None
    contradicted: str = ""
    golden_right: bool = False
    unread: bool = False
    stale: str = ""
    of_constants: bool = False


NOTHING_AROUND = Surroundings()


def explanations_of(
    estimate: Estimate,
    pair: Optional[AlignedPair] = None,
    others: Iterable[OtherGolden] = (),
    around: Surroundings = NOTHING_AROUND,
    whole: Optional[Walked] = None,
) -> List[Explanation]:
    """Return what the error of a suspect looks like, the likeliest first.

    Parameters
    ----------
    estimate
        Of the output that shows it.
    pair
        Its two tensors (or a sample); None where they cannot be read again: then the row is all
        there is.
    others
        Golden tensors of the same shape: one of them may be the right one.
    around
        What surrounds it.
    whole
        Where the pair is a sample: what was found in all elements; None where these were not looked
        at.
    """
    stale = [older_dump(around.stale)] if around.stale else []
    if estimate.fed_otherwise:
        # How the two differ is no fault of an operator's.
        return [_other_input(estimate, pair, around), *stale]
    if estimate.output.whole:
        return _of_integers(estimate, pair) + stale
    explanations = _golden_spoiled(estimate, pair, around)
    if pair is not None:
        explanations += patterns_of(estimate, pair, others, around, whole)
    elif not explanations:
        explanations = _of_row(estimate)
    if around.golden_right and around.right_behind and around.unread:
        explanations.insert(0, dump_of_another_run())
    elif around.golden_right:
        explanations += [dump_of_another_run_maybe()] if around.contradicted == READER else []
    elif around.contradicted and not any(
        entry.blameless or entry.kind == "padding" for entry in explanations
    ):
        explanations.insert(0, golden_contradicted(around.contradicted))
    evidence = estimate.evidence
    if evidence is not None:
        explanations.sort(key=lambda entry: entry.kind != evidence.kind)
    return (explanations or without_pattern(estimate, pair, around)) + stale


def patterns_of(
    estimate: Estimate,
    pair: AlignedPair,
    others: Iterable[OtherGolden],
    around: Surroundings,
    whole: Optional[Walked] = None,
) -> List[Explanation]:
    """Return the patterns that the difference of a pair shows, the likeliest first; parameters as
    :func:`explanations_of`.
    """
    constant = _constant(pair, whole) if whole is None or whole.constant else None
    if constant is not None:
        return [constant]
    others_by_op = {}

    def golden() -> Iterator[Tuple[str, Any]]:
        for other in others:
            others_by_op[other.op] = other
            yield other.op, other.golden

    patterns = (
        find_patterns(pair, background_of(estimate), golden()) if whole is None else whole.findings
    )
    if pair.sampled and whole is None:
        # That a sample is right says nothing of the others.
        patterns = [pattern for pattern in patterns if pattern.kind != "healthy"]
    if _golden_alone(estimate, pair) and not estimate.output.golden_spoiled:
        # What golden data alone hold is nothing that the device made.
        patterns = [pattern for pattern in patterns if pattern.kind not in ("nan", "inf")]
    explanations = [
        _handed_on(pattern.sentence)
        if pattern.kind in ("nan", "inf") and estimate.hands_on_infinities
        else _of_pattern(
            pattern, pair, others_by_op.get(str(pattern.detail.get("tensor"))), around, whole
        )
        for pattern in patterns
    ]
    return _merged([entry for entry in explanations if entry is not None])


def _constant(pair: AlignedPair, whole: Optional[Walked]) -> Optional[Explanation]:
    """Return an explanation where every element of the target is the same, though the golden ones
    are not.
    """
    x, y = np.asarray(pair.target, np.float64), np.asarray(pair.golden, np.float64)
    if (
        x.size < _ENOUGH_ELEMENTS
        or not np.isfinite(x).all()
        or not np.isfinite(y).all()
        or np.ptp(x)
        # Of complex numbers each part may be one number of its own.
        or not any(np.ptp(part) for part in (np.moveaxis(y, -1, 0) if pair.is_complex else [y]))
    ):
        return None
    value = float(x.flat[0])
    if not value and np.abs(y).max() < rounding_of(pair.dtype).least_normal:
        sentence = (
            "all values became 0: the golden ones, up to %.3g, are below the normal numbers of %s"
            % (np.abs(y).max(), pair.dtype)
        )
        return explanation("flush-to-zero", 1.0, sentence)
    sentence = (
        "every element of the target is %.6g: the output was not computed, or not written"
        % (value or 0.0)
    )
    return explanation("not-written", 1.0, sentence + (_sample_note(pair) if whole is None else ""))


def _sample_note(pair: AlignedPair) -> str:
    return (
        " (in a sample of %d of %d elements)" % (pair.target.size, pair.total)
        if pair.sampled
        else ""
    )


_NEXT_INPUT_DUMP = "dump inputs, too (dump_mode all), and compare again: it tells which; or "


def _other_input(
    estimate: Estimate, pair: Optional[AlignedPair], around: Surroundings
) -> Explanation:
    if estimate.output.golden_spoiled:
        return golden_without_numbers("the golden data of the network's input are")
    if _golden_alone(estimate, pair) and (pair is None or _fit_where_finite(pair)):
        return _golden_holds(estimate, "the golden data of the network's input")
    if around.right_behind:
        sentence = (
            "the golden data of the network's input do not fit, but what is computed from it is "
            "right: they are of another input"
        )
        return explanation("wrong-golden", 1.0, sentence)
    differs = " by %s" % percent(estimate.distance) if estimate.distance > 0 else ""
    changed = changed_image(pair) if pair is not None else None
    sentence = "the network's input differs%s: device and golden run were fed with other data"
    by_op = any(row is estimate.output for row in estimate.op.outputs.values())
    if changed is None and by_op and estimate.op.type != AIPP:
        # A Cast of the input, which was not dumped itself.
        sentence += ", or %s (%s), whose output stands for it here, writes it otherwise"
        words = differs, estimate.op.name, estimate.op.type
        told = explanation("other-input", 1.0, sentence % words)
        return replace(told, next=_NEXT_INPUT_DUMP + told.next)
    if changed is None:
        return explanation("other-input", 1.0, sentence % differs)
    image, settings = changed
    sentence += " (the device's is the golden one%s)"
    step = (
        "compare how the device's input was preprocessed with how golden data's was; where an AIPP "
        "does it, %s of its settings"
    )
    return Explanation("other-input", 1.0, sentence % (differs, ", " + image), step % settings)


def _golden_alone(estimate: Estimate, pair: Optional[AlignedPair]) -> bool:
    """Tell whether wherever NaN or Inf stand on one side only it is golden data's."""
    row = estimate.output
    if row.golden_alone or not row.spoiled or pair is None or pair.sampled:
        return row.golden_alone
    x, y = (np.asarray(side, np.float64) for side in (pair.target, pair.golden))
    return not (
        ~np.isfinite(x) & (np.isfinite(y) | (np.isnan(x) != np.isnan(y)) | (np.isinf(x) & (x != y)))
    ).any()


def _golden_holds(estimate: Estimate, whose: str) -> Explanation:
    row = estimate.output
    counts = [(row.nan[1], "NaN"), (row.inf[1], "Inf")]
    counts_text = " and ".join("%d %s" % (count, word) for count, word in counts if count)
    counts_text += (
        " (%d stand in the device's output too)" % sum(row.nan[:1] + row.inf[:1])
        if not row.golden_alone
        else ""
    )
    fed = ", and what feeds it fits" if estimate.known and not estimate.fed_otherwise else ""
    sentence = "%s hold %s where the device has numbers%s: the golden run %s"
    made = (
        "overflowed here; the golden data are wrong, not the operator"
        if row.inf[1]
        else "made them here, and these elements tell nothing of the operator"
    )
    step = (
        "look for 0/0 and for rows that a mask excludes throughout, or make the golden data again "
        "in a wider type (float32): nothing behind this operator can be held against these"
    )
    return Explanation("wrong-golden", 1.0, sentence % (whose, counts_text, fed, made), step)


def _golden_spoiled(
    estimate: Estimate, pair: Optional[AlignedPair], around: Surroundings
) -> List[Explanation]:
    """Return an explanation where golden data alone hold NaN or Inf, and nothing speaks for the
    device's being wrong.
    """
    row = estimate.output
    if row.golden_spoiled:
        return [golden_without_numbers("its golden data are")]
    if not _golden_alone(estimate, pair) or not (
        around.right_behind or pair is None or _fit_where_finite(pair)
    ):
        return []
    return [_golden_holds(estimate, "its golden data")]


def _fit_where_finite(pair: AlignedPair) -> bool:
    """Tell whether a target fits its golden data where these are finite, and where they are
    infinite is as large as it can be.
    """
    x, y = np.asarray(pair.target, np.float64), np.asarray(pair.golden, np.float64)
    finite, infinite = np.isfinite(y) & np.isfinite(x), np.isinf(y)
    largest = float(np.abs(y[finite]).max(initial=0.0))
    with np.errstate(over="ignore"):
        fits = np.linalg.norm(x[finite] - y[finite]) <= HOPELESS * np.linalg.norm(y[finite])
    return bool(fits and (x[infinite] * np.sign(y[infinite]) >= (1.0 - HOPELESS) * largest).all())


def background_of(estimate: Estimate) -> float:
    """Return the relative distance that the inputs explain; never more than the distance itself."""
    expected = estimate.inherited if not estimate.whole_type else 0.0
    return (
        min(expected, estimate.distance)
        if math.isfinite(expected) and math.isfinite(estimate.distance)
        else 0.0
    )


def _merged(explanations: Iterable[Explanation]) -> List[Explanation]:
    """Keep the first explanation of each kind; of places along several axes all are listed. Where
    values that are too large make as much of the error, places hold it because their values are.
    """
    by_kind: Dict[str, Explanation] = {}
    for entry in explanations:
        first = by_kind.setdefault(entry.kind, entry)
        if first is not entry and entry.kind == "one-slice":
            by_kind[entry.kind] = replace(
                first, sentence="%s; %s" % (first.sentence, entry.sentence)
            )
    place = by_kind.get("one-slice")
    if place is not None and any(
        kind in by_kind and by_kind[kind].share >= place.share
        for kind in ("saturation", "overflow")
    ):
        del by_kind["one-slice"]
    return list(by_kind.values())


def _handed_on(sentence: str) -> Explanation:
    """Return what is said of NaN or Inf on one side in an output whose inputs hold such."""
    return Explanation(
        "unexplained",
        1.0,
        "its inputs hold NaN or Inf on both sides, and others of them come out: " + sentence,
        "compare its condition or mask, its constants and the order of its inputs in the compiled "
        "model with the original's; only what is too large for its type is a matter of precision",
    )


def _of_pattern(
    pattern: Finding,
    pair: AlignedPair,
    other: Optional[OtherGolden],
    around: Surroundings,
    whole: Optional[Walked],
) -> Optional[Explanation]:
    kind, sentence = _OF_PATTERN[pattern.kind], pattern.sentence
    sentence += _sample_note(pair) if whole is None else ""
    if pattern.kind == "scale":
        factor = abs(float(pattern.detail.get("factor", 1.0)))
        if factor >= _QUANTISED_FACTOR or 0 < factor <= 1 / _QUANTISED_FACTOR:
            kind = "dequantisation" if _integral(pair) and _is_line(pair, pattern) else "scale"
    if pattern.kind == "region" and pattern.detail.get("padding"):
        kind = "padding"
    if pattern.kind == "region" and pattern.detail.get("unwritten"):
        kind = "not-written"
    if kind == "wrong-golden":
        # A device that computes nothing, or another tensor, gives such values too: what stands
        # behind it then is wrong as well.
        if around.right_behind:
            sentence += (
                ", and the operators behind it are right: its golden data are wrong, not the "
                "operator"
            )
        elif other is not None and other.exchanged:
            sentence += ", and its golden tensor fits %s: the two are exchanged" % other.op
        elif pattern.detail.get("rectified") and pattern.share >= _RECTIFIED:
            sentence = _BY_RELU[pattern.detail["rectified"]]
            sentence += _sample_note(pair) if whole is None else ""
            return explanation("activation", pattern.share, sentence)
        else:
            return None
    if kind == "saturation" and not pattern.detail.get("of_type"):
        return Explanation(kind, pattern.share, sentence, _NEXT_FOR_BOUNDS)
    if kind == "shift" and _moves_channels(pattern, pair):
        return Explanation(kind, pattern.share, sentence, _NEXT_FOR_CHANNELS)
    return explanation(kind, pattern.share, sentence)


def _moves_channels(pattern: Finding, pair: AlignedPair) -> bool:
    """Tell whether a shift is along the channels alone, which no padding, stride or crop moves."""
    steps = pattern.detail.get("by", ())
    return len(steps) == len(pair.letters) and [
        letter for letter, step in zip(pair.letters, steps) if step
    ] == ["C"]


def _integral(pair: AlignedPair) -> bool:
    """Tell whether one side holds whole numbers: quantised values that were taken for real ones."""
    for side in (pair.target, pair.golden):
        values = np.asarray(side, np.float64).reshape(-1)
        values = values[np.isfinite(values) & (values != 0)]
        if values.size and (values == np.round(values)).mean() > 0.99:
            return True
    return False


def _is_line(pair: AlignedPair, pattern: Finding) -> bool:
    """Tell whether a factor and an offset explain all of the target but rounding."""
    x, y = (np.asarray(side, np.float64) for side in (pair.target, pair.golden))
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    rest = x - pattern.detail["factor"] * y - pattern.detail.get("offset", 0.0)
    return bool(np.square(rest).sum() <= _ROUNDED_TO_WHOLE * np.square(x - x.mean()).sum())


def _of_integers(estimate: Estimate, pair: Optional[AlignedPair]) -> List[Explanation]:
    own_error = estimate.computed.own_error if estimate.computed is not None else None
    wrong = ""
    placed = own_error is not None and own_error.unequal and not any(own_error.counts)
    if own_error is not None and placed and pair is not None:
        at = [int(part) for part in np.unravel_index(own_error.worst_at, np.shape(pair.target))]
        wrong = "; %d of them do not follow from the device's own inputs, the first at %s" % (
            own_error.unequal,
            at,
        )
    if pair is None or pair.sampled:
        share = estimate.output.share
        return [
            explanation(
                "not-equal",
                1.0,
                (
                    "elements differ"
                    if math.isnan(share)
                    else "%s of the elements differ" % percent(share)
                ),
            )
        ]
    differ = pair.target != pair.golden
    places = [[int(part) for part in place] for place in np.argwhere(differ)[:3]]
    sentence = "%d of %d elements differ, the first at %s" % (
        int(differ.sum()),
        differ.size,
        ", ".join(map(str, places)),
    )
    return [explanation("not-equal", 1.0, sentence + wrong)]


def _of_row(estimate: Estimate) -> List[Explanation]:
    """Return the explanations that follow from the row alone."""
    row = estimate.output
    if row.spoiled:
        if row.inf[0]:
            sentence = "%d elements of the target are Inf" % row.inf[0]
            if estimate.hands_on_infinities:
                return [_handed_on(sentence)]
            return [explanation("overflow", 1.0, sentence)]
        return [
            explanation(
                "nan", 1.0, "%d elements of the target and %d of the golden are NaN" % row.nan
            )
        ]
    if estimate.shown.measure == SLICE and row.worst_slice is not None:
        sentence = "index %s of axis %s is the worst: %s" % (
            row.worst_slice[1],
            row.worst_slice[0],
            percent(estimate.shown.value),
        )
        return [explanation("one-slice", 0.0, sentence)]
    return []


def without_pattern(
    estimate: Estimate, pair: Optional[AlignedPair], around: Surroundings
) -> List[Explanation]:
    """Return what remains to be said where no pattern explains the error."""
    if estimate.output.spoiled:
        return []
    if around.of_constants:
        sentence = (
            "it computes of constants alone: these are others than golden data were computed with, "
            "or it computes otherwise"
        )
        return [explanation("unexplained", 0.0, sentence)]
    if around.first and estimate.output.verdict == FAIL:
        sentence = (
            "nothing that feeds it was compared: what runs before it may be wrong, or the device "
            "may have been fed with other data"
        )
        return [explanation("other-input", 0.0, sentence)]
    correlation = _correlation(estimate.output, pair)
    if pair is not None and abs(correlation) < _UNRELATED and _in_another_order(pair):
        sentence = (
            "the target holds the golden's values in another order, which no move that is known "
            "explains (axes, channels, shifts)"
        )
        return [explanation("unexplained", 1.0, sentence)]
    if abs(correlation) < _unrelated(estimate.output) and not (
        pair is not None and _alike_in_a_slice(pair)
    ):
        count = element_count(estimate.output.shape)
        # Of few values chance hides what they have to do with each other.
        few = _UNRELATED * math.sqrt(count) < _CHANCE
        told = (
            "the values are as like the golden ones as %d unrelated ones may be" % count
            if few
            else "the values have nothing to do with the golden ones"
        )
        sentence = "%s (correlation %.2g), and no pattern fits: not known what was computed" % (
            told,
            correlation,
        )
        sentence += "" if pair is None else _sample_note(pair)
        share = 0.0 if few else 1.0 - correlation * correlation
        return [explanation("unexplained", share, sentence)]
    rounded = rounding(estimate.output.dtype, estimate.output.rms)
    own_distance = (
        math.sqrt(max(estimate.distance**2 - estimate.inherited**2, 0.0))
        if estimate.distance < math.inf
        else math.inf
    )
    if (
        rounded
        and own_distance <= max(_ROUNDING_TIMES * rounded, sum_noise(estimate.output.dtype))
        and estimate.shown.measure != SLICE
    ):
        sentence = "no pattern but noise of %.3g times the rounding of %s" % (
            own_distance / rounded,
            estimate.output.dtype,
        )
        return [explanation("rounding", 0.0, sentence)]
    return []


def _unrelated(row: Observation) -> float:
    """Return the correlation below which values are unrelated: of few elements 9 of 10 random ones
    correlate less than 1.65/√n.
    """
    count = element_count(row.shape)
    if count < _ENOUGH_TO_CORRELATE:
        return _UNRELATED
    of_chance = min(_UNRELATED, _CHANCE / math.sqrt(count))
    return max(of_chance, 1.65 / math.sqrt(count)) if row.distance > _FAR else of_chance


def _in_another_order(pair: AlignedPair) -> bool:
    """Tell whether a target holds the golden values, but for rounding, wherever they stand."""
    x, y = (np.asarray(side) for side in (pair.target, pair.golden))
    if pair.sampled or pair.is_complex or x.size < _ENOUGH_ELEMENTS or x.dtype.kind not in "fiu":
        return False
    x, y = (np.sort(side.astype(np.float64), axis=None) for side in (x, y))
    most = max(rounding_of(pair.dtype).half_unit, _SAME_SORTED / math.sqrt(x.size))
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.linalg.norm(x - y) <= most * np.linalg.norm(y))


def _alike_in_a_slice(pair: AlignedPair) -> bool:
    """Tell whether in some index of an axis the values go up and down as the golden ones do."""
    x, y = (np.asarray(side, np.float64) for side in (pair.target, pair.golden))
    if pair.sampled or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return False
    for axis, size in enumerate(x.shape):
        if size < 2 or x.size < _OF_A_SLICE * size:
            continue
        slices = [np.moveaxis(side, axis, 0).reshape(size, -1) for side in (x, y)]
        slices = [side - side.mean(axis=1, keepdims=True) for side in slices]
        with np.errstate(all="ignore"):
            one, other = (side / np.linalg.norm(side, axis=1)[:, None] for side in slices)
            if (np.abs((one * other).sum(axis=1)) > _ALIKE_IN_A_SLICE).any():
                return True
    return False


def _correlation(row: Observation, pair: Optional[AlignedPair]) -> float:
    """Return how alike target and golden are, apart from their means; 1 where it cannot be told."""
    if pair is None:
        return 1.0 if math.isnan(row.cosine) else row.cosine
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (pair.target, pair.golden))
    finite = np.isfinite(x) & np.isfinite(y)
    if finite.sum() < _ENOUGH_TO_CORRELATE:
        return 1.0
    x, y = (_centred(side[finite]) for side in (x, y))
    lengths = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / lengths if lengths else 1.0


def _centred(values: np.ndarray) -> np.ndarray:
    """Return values without their mean, in units of the largest, so that squares stay numbers."""
    largest = float(np.abs(values).max())
    values = values / (largest or 1.0)
    return np.asarray(values - values.mean())
