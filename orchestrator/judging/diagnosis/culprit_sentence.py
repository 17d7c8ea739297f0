"""The sentence that names the culprit of a comparison, and says whether its error is its own or
inherited, or that this is not known.
"""

from __future__ import annotations

import math
from typing import Mapping, Optional, Sequence, Tuple

from ...base.naming import printable
from ...base.wording import percent
from ...dumps.place import Place
from ...dumps.tensor_statistics import LEAST, MEASURES, NOT_FINITE
from ..by_recomputation import RecomputationVerdict
from ..metric_text import beside_limit
from .explanations import Explanation
from .first_divergence import FirstDivergence
from .op_input_states import BAD, GOOD
from .own_error.estimate import Estimate
from .suspects import Suspect

_LEFT_RANGE = (
    "; computed again from the device's own inputs it is right, and those that were compared are "
    "within their limits: NaN or Inf come of a number that the device's type does not hold (a "
    "weight, a constant or an epsilon, of it or before it), or of values at its end: look at "
    "these; goldwatch cure says whether float32 mends it."
)
_LOST = (
    "; computed again from the device's own inputs it is right: %s. "
    "Export the model with numbers that the type holds; goldwatch cure "
    "says whether float32 mends it."
)
_MASKED_BEYOND = (
    "; computed again from the device's own inputs it is right: %s on the device, where golden "
    "data hold numbers that the device's type does not, and NaN comes of such a row. Keep the "
    "operator that makes it and this one in float32, both (goldwatch cure), or export the model "
    "with a mask that the type holds (-10000, say)."
)
_UNDERFLOW = (
    "; computed again from the device's own inputs it is right, so the error is inherited: %s. "
    "Keep that one and what follows in float32 (goldwatch cure), or scale up what it reads."
)
_IN_TRAINING = (
    "; the original model has it in training mode (the statistics of the batch, a random mask), "
    "and an om computes with the stored statistics and without a mask: its golden data say nothing "
    "of the device, and no operator need be wrong. Export the model with model.eval(), and make "
    "golden data again."
)
# Errors of the inputs explain an error up to so many times what is expected of them; those of
# which what came in is less than half are its own. Both are chosen, no trial: they word the
# sentence, the verdict does not use them.
_EXPLAINED = 1.5
_CARRIED = 0.5

_NOT_KNOWN = (
    "whose error it is is not known; make golden data of all inputs and outputs of this operator, "
    "and compare again"
)


_OF_NO_OP = (
    "No operator is outside its limits, but the original model's output %s is made by %s, and no "
    "op of the om is: the om ends earlier, or has lost it."
)


def culprit_sentence(
    first: Optional[FirstDivergence],
    compared: bool = True,
    suspects: Sequence[Suspect] = (),
    estimate: Optional[Estimate] = None,
    several_models: bool = False,
    of_no_op: Sequence[Mapping[str, str]] = (),
) -> str:
    """Return one sentence (two where the first suspect is not the first divergence) that names the
    broken operator.

    Parameters
    ----------
    compared
        Whether any tensor was compared at all.
    suspects
        Best first.
    estimate
        Of the first divergence's operator.
    several_models
        Whether the run has several, of which the sentence names the operator's.
    of_no_op
        The original model's outputs (``output``) that are made by what no op of the om is made from
        (``node``).
    """
    if not compared:
        return "No tensor was compared, so nothing is known about any operator."
    if first is None:
        if not suspects and of_no_op:
            return _OF_NO_OP % (of_no_op[0]["output"], of_no_op[0]["node"])
        if not suspects:
            return "No operator is outside its limits."
        return "No operator is outside its limits, but %s." % _stands_out(
            suspects[0], several_models
        )
    named = "%s (%s)" % (first.op, first.op_type) if first.op_type else first.op
    head = "%s is the first operator outside its limits%s: %s" % (
        named,
        where_words(first.place, several_models),
        _finding(first),
    )
    if first.too_strict is not None:
        text = head + first.too_strict.sentence(bool(suspects))
    else:
        text = head + (_blamed_instead(first, suspects) or _named(first, suspects, estimate))
    besides = next(
        (
            suspect
            for suspect in suspects[:1]
            if suspect.op != first.op and not _is_blameless(suspect)
        ),
        None,
    )
    culprit_found = culprit(first, suspects, estimate)
    if culprit_found is not None and culprit_found[0] != first.op:
        besides = next(suspect for suspect in suspects if suspect.op == culprit_found[0])
    return (
        text if besides is None else text + " Besides, %s." % _stands_out(besides, several_models)
    )


def culprit(
    first: Optional[FirstDivergence],
    suspects: Sequence[Suspect] = (),
    estimate: Optional[Estimate] = None,
) -> Optional[Tuple[str, Place]]:
    """Return the operator and place that :func:`culprit_sentence` names as the one to look at, or
    None.

    That is the first divergence where its error is its own, else the first suspect, else the first
    divergence, but where it is outside limits by rounding alone.
    """
    others = [(suspect.op, suspect.place) for suspect in suspects[:1]]
    if first is None or first.too_strict is not None or _is_in_training(first, estimate):
        return others[0] if others else None
    first_op = (first.op, first.place)
    if _blamed_instead(first, suspects):
        blamed = [
            (suspect.op, suspect.place)
            for suspect in suspects
            if suspect.op != first.op and not _is_blameless(suspect)
        ]
        return (blamed or [first_op])[0]
    accused = any(suspect.op == first.op for suspect in suspects) or isinstance(
        _origin(first, estimate), _Own
    )
    return first_op if accused or not others else others[0]


def golden_is_undefined(first: Optional[FirstDivergence], estimate: Optional[Estimate]) -> bool:
    """Tell whether golden data alone hold NaN or Inf at the first divergence, and computed again
    from the device's own inputs the device is right.
    """
    return (
        first is not None
        and first.inputs != BAD
        and estimate is not None
        and estimate.follows
        and estimate.computed is None
        and not estimate.golden_wrong
        and estimate.output.golden_alone
    )


def lacks_computing(
    first: Optional[FirstDivergence], suspects: Sequence[Suspect], estimate: Optional[Estimate]
) -> bool:
    """Tell whether it is not known whose the error of the first divergence is, because its operator
    could not be computed again.
    """
    return (
        first is not None
        and bool(first.not_computed)
        and first.too_strict is None
        and not _blamed_instead(first, suspects)
        and not isinstance(_origin(first, estimate), _Own)
    )


def _is_in_training(first: FirstDivergence, estimate: Optional[Estimate]) -> bool:
    return estimate is not None and estimate.in_training and first.inputs != BAD


class _Own(str):
    """The end of a sentence that says that the error is the operator's own."""


def _blamed_instead(first: FirstDivergence, suspects: Sequence[Suspect]) -> str:
    """Return what is wrong instead of the first divergence (its golden data, its input); empty
    where nothing is known to be.
    """
    explanation = _explanation_of(first.op, first.place, suspects)
    if explanation is None or not explanation.blameless:
        return ""
    alone = explanation.clears_all and not any(
        one.accuses and one.place == first.place for one in suspects
    )
    end = ", so no operator need be wrong." if alone else "."
    return "; %s%s" % (explanation.sentence, end)


def _explanation_of(op: str, place: Place, suspects: Sequence[Suspect]) -> Optional[Explanation]:
    """Return the likeliest explanation of a suspect; None where it is none, or has none."""
    found = (one for one in suspects if one.op == op and one.place == place)
    return next((one.explanations[0] for one in found if one.explanations), None)


def _named(
    first: FirstDivergence, suspects: Sequence[Suspect], estimate: Optional[Estimate]
) -> str:
    """Return whose error it is, with what was computed instead."""
    origin = _origin(first, estimate)
    if not first.wrong_before and (estimate is None or estimate.computed is None):
        return origin
    explanation = _explanation_of(first.wrong_before or first.op, first.place, suspects)
    told = "" if explanation is None else explanation.brief
    return "%s: %s." % (origin[:-1], told) if told else origin


def _is_blameless(suspect: Suspect) -> bool:
    return bool(suspect.explanations) and suspect.explanations[0].blameless


def _stands_out(suspect: Suspect, several_models: bool) -> str:
    named = "%s (%s)" % (suspect.op, suspect.op_type) if suspect.op_type else suspect.op
    told = suspect.explanations[0].brief if suspect.explanations else ""
    return "%s is suspect%s: %s%s" % (
        named, where_words(suspect.place, several_models), suspect.brief, "; " * bool(told) + told,
    )  # fmt: skip


def where_words(place: Place, several_models: bool = False) -> str:
    """Return step, device, host, and the model of several, as the end of a phrase; empty outside a
    tree.
    """
    step = "" if place.step is None else " in step %s" % place.step
    host = "" if place.host is None else " of host %s" % place.host
    device = "" if place.device is None else " on device %s" % place.device
    return step + device + host + (of_model(place) if several_models else "")


def of_model(place: Place) -> str:
    """Return the model of a place as the end of a phrase; empty outside a tree."""
    return "" if place.model is None else " of model %s" % printable(place.model)


def _by_statistics(first: FirstDivergence) -> str:
    """Return the end of the sentence for a row that was compared by statistics, which never show
    whose error it is.
    """
    sure = (
        "that is beyond its limit for certain"
        if first.metric in (LEAST, NOT_FINITE)
        else "that is likely, not certain"
    )
    inputs = {
        GOOD: "the statistics of its inputs agree, which does not prove them right",
        BAD: "%s differed already" % (first.bad_input or "an input"),
    }.get(first.inputs, "of its inputs not all statistics are known")
    return " (%s); %s: dump the tensors around it to see whose error it is." % (sure, inputs)


def _origin(first: FirstDivergence, estimate: Optional[Estimate]) -> str:
    if first.handed_on:
        return _Own("; the error is that of the om, of what feeds this operator.")
    if first.metric in MEASURES:
        return _by_statistics(first)
    if _is_in_training(first, estimate):
        return _IN_TRAINING
    if estimate is not None and estimate.computed is not None:
        return _wrong_by_computing(estimate.computed)
    if first.shaped_before:
        return (
            "; it is right on what it read, which is in another shape than the original model says "
            "since %s: the error is that of the om, not of this operator." % first.shaped_before
        )
    if first.wrong_before:
        return (
            "; computed again from the device's own inputs it is right, and %s before it is wrong, "
            "%s: %s."
            % (
                first.wrong_before,
                "though within its limits"
                if first.wrong_within_limits
                else "which nothing is compared with",
                "the error is inherited"
                if estimate is not None and estimate.inherits
                else "look at that one first, whether the error is its is not known",
            )
        )
    if golden_is_undefined(first, estimate):
        return (
            "; golden data alone hold NaN or Inf there, and computed again from the device's own "
            "inputs the device is right: these elements of golden data are undefined%s, and no "
            "operator need be wrong." % (first.masked and " (%s)" % first.masked)
        )
    if (
        estimate is not None
        and estimate.follows
        and not estimate.golden_wrong
        and first.inputs != BAD
    ):
        return _follows_from_inputs(first, estimate)
    if first.inputs == GOOD:
        return _out_of_good(first, estimate)
    if first.inputs == BAD:
        return _out_of_bad(first, estimate)
    if first.unknown_input is not None:
        return "; %s was not compared; %s." % (first.unknown_input, _unknown(first))
    return "; no row shows whether its inputs were good; %s." % _unknown(first)


def _wrong_by_computing(computed: RecomputationVerdict) -> str:
    """Return the end of the sentence about an operator that is wrong by computing it again."""
    if computed.assumed:
        return (
            "; computed again from golden data's value of its input (the device's was not dumped) "
            "it comes out otherwise, so the error may be its own, or that of other data given to "
            "the device."
        )
    if computed.by_model:
        return _Own(
            "; it is right on what it read, and that is not what the original model says it reads: "
            "the error is that of the om, of what feeds this operator."
        )
    if computed.by_json:
        return _Own(
            "; it is what the om's json says of the device's own inputs, and golden data are not "
            "what that makes of golden inputs, so the error arises here: in the om, or in how "
            "golden data were made."
        )
    return _Own(
        "; computed again from the device's own inputs it comes out otherwise, so the error is its "
        "own."
    )


def _follows_from_inputs(first: FirstDivergence, estimate: Estimate) -> str:
    """Return the end of the sentence about an operator that is right on the device's own inputs."""
    if first.inputs != GOOD and not estimate.known:
        return (
            "; computed again from the device's own inputs it is right, and not all of these "
            "were compared: whose error it is is not known, nor whether device and golden run "
            "were fed with the same input (compare it, preprocessing and AIPP included)."
        )
    if estimate.decides and first.inputs == GOOD and not estimate.inputs_distance:
        return (
            "; its inputs are equal to golden data, and what it decided follows from them as "
            "well: equal values were taken in another order (select_last_index, sorted)."
        )
    if estimate.decides:
        return (
            "; it decides between values, and what it decided follows from the device's own "
            "inputs, as golden data follow from theirs: the error is inherited."
            if estimate.inherits
            else "; it decides between values, and what it decided follows from the device's "
            "own inputs: %s." % _NOT_KNOWN
        )
    if first.inputs == GOOD and estimate.left_range:
        if first.lost:
            return _LOST % first.lost
        return _MASKED_BEYOND % first.masked if first.masked else _LEFT_RANGE
    if first.inputs == GOOD and not estimate.inputs_distance:
        equal = "; its inputs are equal to golden data, and computed again from them it is right: "
        return equal + (
            "the difference is rounding of its own."
            if estimate.inherits or estimate.rounds
            else "golden data are not what it makes of them. The om may lack an operator before it "
            "that the model has (an activation), or one of the two is of another model."
        )
    if first.underflow:
        return _UNDERFLOW % first.underflow
    if estimate.inherits and estimate.as_fed:
        return (
            "; computed again from the device's own inputs it is right, so the error is inherited: "
            "its inputs are as far off (%s), though within their limits (the rows say why)."
            % percent(estimate.inputs_distance)
        )
    if estimate.rounds:
        return (
            "; computed again from the device's own inputs it is right within the rounding of its "
            "type, and that makes most of the difference (%s of %s): keep it in float32 if the "
            "limit matters (goldwatch cure)."
            % (percent(estimate.rounds), percent(estimate.distance))
        )
    return (
        "; computed again from the device's own inputs it is right, so the error is "
        "inherited, and grew on the way."
        if estimate.inherits
        else "; computed again from the device's own inputs it is right, but whether its golden "
        "tensor follows from golden inputs is not known (it could not be computed, or elements "
        "differ that rounding decides): %s." % _NOT_KNOWN
    )


def _unknown(first: FirstDivergence) -> str:
    """Return that it is not known whose an error is, of an operator that was not computed again,
    and what would tell.
    """
    return "whose error it is is not known, as the operator was not computed again (%s)" % (
        first.not_computed
        or "that was not asked for, is done when the run ends, or takes the original model"
    )


def _its_own(first: FirstDivergence) -> str:
    """Return the end of the sentence about an operator whose inputs do not explain its error."""
    if not first.not_computed:
        return ", so the error is its own."
    # Inputs that are right in a shape, or in an order, that nothing was held against.
    return (
        ", so the error arises here: in the operator, or in how the om feeds it (a shape or an "
        "edge that the original model has otherwise)."
    )


def _out_of_good(first: FirstDivergence, estimate: Optional[Estimate]) -> str:
    """Return the end of the sentence about an operator that was not computed again, or not by its
    own inputs alone, and whose inputs are within their limits.
    """
    within = "; its inputs are within their limits"
    if first.other_shape:
        return _Own(
            "%s, and the shape of its output is not what they make, so it is wrong." % within
        )
    if estimate is not None and not estimate.output.different and not estimate.output.spoiled:
        return (
            "; it is equal to golden data: the limit is one that equal tensors do not meet, and "
            "no operator need be wrong."
        )
    if estimate is None:
        return "%s; %s." % (within, _unknown(first))
    if estimate.output.spoiled:
        alone = (
            ", NaN or Inf stand in them on both sides, and in what it makes of them on one alone"
            if estimate.hands_on_infinities
            else ", and NaN or Inf come out of it alone"
        )
        return _Own(within + alone + _its_own(first))
    differs = percent(estimate.inputs_distance)
    if estimate.inputs_distance == 0 and not any(
        state.observation is not None and state.observation.different for state in estimate.inputs
    ):
        equal = "; its inputs are equal to golden data"
        if estimate.output.near_ties and not estimate.decides:
            return equal + (
                ", and %s of its whole numbers are off by 1, as rounding may decide: no operator "
                "need be wrong by that." % percent(estimate.output.share)
            )
        return _Own(equal + _its_own(first))
    within = "%s (they differ by %s)" % (within, differs)
    if estimate.suspect:
        return _Own(
            "%s, and what they explain in this network is far less%s" % (within, _its_own(first))
        )
    if estimate.decides:
        return "; it decides between values, and its inputs differ by %s; %s." % (
            differs,
            _unknown(first),
        )
    if not 0 < estimate.distance < math.inf:
        return "%s; %s." % (within, _unknown(first))
    carried = math.sqrt(max(estimate.expected**2 - estimate.normal.noise**2, 0.0))
    others = "other operators" if estimate.normal.rare else "others of its type"
    if estimate.distance > _EXPLAINED * estimate.expected:
        usual = "%s come to about %s with such inputs" % (others, percent(estimate.expected))
    elif carried < _CARRIED * estimate.distance:
        usual = "%s add as much" % others
    else:
        usual = "%s come to as much with such inputs" % others
    return "%s, and %s; %s." % (within, usual, _unknown(first))


def _out_of_bad(first: FirstDivergence, estimate: Optional[Estimate]) -> str:
    """Return the end of the sentence about an operator of which an input is outside its limits:
    that its error is inherited only where it was computed again.
    """
    if first.fed_otherwise:
        return _Own("; %s." % first.fed_otherwise)
    if first.written is not None:
        which = "this input" if first.bad_input in (None, first.tensor) else first.bad_input
        text = (
            "; %s, which %s was written as, is within its limits: what was written is not "
            "what was read " % (first.written, which)
        )
        return text + "(memory overwritten in between, inputs exchanged, or a dump of another run)."
    from_where = ""
    if first.skipped is not None:
        from_where = "; it comes from %s, which was not compared%s: %s" % (
            first.skipped.op,
            " and whose inputs are within their limits" if first.skipped.inputs == GOOD else "",
            # An output of another shape, say.
            "result.json says why not" if first.skipped.readable else "dump and compare it, too",
        )
    if first.bad_input in (None, first.tensor):
        return (
            "; the error came in through this input, so it is inherited from what feeds the "
            "operator%s." % from_where
        )
    already = "; %s was already outside its limits" % first.bad_input
    if first.otherwise is not None:
        already = "; %s was decided otherwise than in golden data, near a tie" % first.otherwise
    if estimate is not None and estimate.follows:
        right = (
            "%s, and computed again from the device's own inputs the operator is right" % already
        )
        if estimate.inherits:
            return "%s, so its error is inherited%s." % (right, from_where)
        if estimate.golden_wrong:
            return (
                "%s%s; but its golden tensor does not follow from golden inputs: make golden data "
                "again." % (right, from_where)
            )
        return (
            "%s%s; whether its golden tensor follows from golden inputs is not known, so that "
            "input need not be all: look at what makes it first." % (right, from_where)
        )
    if estimate is not None and estimate.suspect:
        text = "%s, but explains %s only in this network: the operator adds an error of its own."
        return _Own(text % (already, percent(estimate.expected)))
    if first.otherwise is not None:
        return (
            already + ", and these do not fit what is computed from it: whether the operator is "
            "right cannot be told."
        )
    return "%s%s; %s." % (already, from_where, _unknown(first))


def _finding(first: FirstDivergence) -> str:
    if first.metric is None or first.value is None or first.limit is None:
        return "%s failed (%s)" % (first.tensor, first.reason)
    if math.isnan(first.value):
        return "%s has no usable %s (%s)" % (first.tensor, first.metric, first.reason or "NaN")
    value, limit = beside_limit(first.value, first.limit), first.limit
    return "%s has %s %s, limit %s %.9g" % (
        first.tensor,
        first.metric,
        value,
        limit.comparison,
        limit.value,
    )
