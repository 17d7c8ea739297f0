"""Explanations of outputs that computing again found wrong: the device's values are compared with
what its own inputs come to, not with golden data.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, List, Optional, Tuple

import numpy as np

from ...metrics.patterns import MOST_ELEMENTS, AlignedPair, Walked, walk
from ...operators import Value
from ...operators.inputs_otherwise import ARITHMETIC, BEYOND_FLOAT16, NARROWED, SUMS
from ...operators.variants import AS_IT_IS, FACTOR_OF
from ...recomputing.other_constants import EIGHT_BITS
from ...recomputing.parts_not_written import right_alone
from ...recomputing.piece_variants import FROM_OTHER
from ...recomputing.recomputed_output import ComputedPair
from ...recomputing.run_variants import WRITTEN_INSTEAD, written_instead
from ...recomputing.variant_search import Explained, VariantSearch, agreement
from ...recomputing.variant_trials import OF_DUMP, Output
from ...recomputing.written import Written
from ...tensors.geometry import match_layouts
from ...tensors.tensor import Tensor
from ...tensors.type_precision import rounding_of
from ..by_recomputation import excess, only_overflows
from .explanations import Explanation, explanation
from .own_error.estimate import Estimate
from .pattern_explanations import (
    NOTHING_AROUND,
    Surroundings,
    background_of,
    patterns_of,
    without_pattern,
)

_OF_INPUTS = ("its ", "the ", FACTOR_OF)
"""How the names of what is no attribute begin."""
_FOLDED = ("BatchNormalization", "BatchNorm", "FusedBatchNorm", "FusedBatchNormV3")
"""What a converter folds into the weights before it."""
_NOT_HERE = ("wrong-golden", "scale", "bias", "shift", "layout")
"""Patterns that say nothing of an operator that is computed: golden data cannot be those of another
place, and what it did otherwise was tried.
"""
Array = Any

_NORMAL = 64.0
"""Times the least normal number of a type, what is flushed to 0 by a narrower one at most;
chosen, no trial."""
_SAME = 1e-3
"""An output is its input where it differs from it by no more than this, relatively: one rounding to
float16.
"""

_NOTHING = (
    "its output is its input %s: the operator did nothing, its output was not written, or it read "
    "an attribute or another input (its indices, say) so that it changes nothing"
)
_NEXT_NOTHING = (
    "look whether the operator ran at all (its task in the compiled model), compare its attributes "
    "and constants there with the original model's, and run the same input twice"
)
_BEYOND = (
    "%s of the model holds numbers beyond float16's range (65504), for which the device has %s"
)
_NEXT_BEYOND = (
    "keep what stands there within float16's range in the original model (a mask of -65504 or -1e4 "
    "excludes as well), or compute %s and what reads it in float32: goldwatch cure says which"
)
_NEXT_NOT_WRITTEN = (
    "look at the operator's tiling in the compiled model (what each core computes, and how much of "
    "the memory on the chip that takes), and run the same input twice: what was not written may "
    "hold other values then"
)
_MAYBE_OTHER_INPUT = (
    "nothing known explains it; it was computed of golden data's input, as the device's was not "
    "dumped: the device may have been fed with other data, or a constant of the operator be another"
)
_NEXT_OTHER_INPUT = (
    "compare the input file of the device with that of the golden run, preprocessing (AIPP, mean, "
    "channel order) included"
)


def explanations_by_computing(
    estimate: Estimate, recomputed: ComputedPair, search: Optional[VariantSearch] = None
) -> List[Explanation]:
    """Return what the error of an output looks like, the likeliest first.

    Parameters
    ----------
    estimate
        Of an output that was computed again and is wrong.
    recomputed
        The output, and what was computed.
    search
        What came of looking for what the device computed instead; None where that could not be.
    """
    assumed = estimate.computed is not None and estimate.computed.assumed
    # What the om's graph tells is known without trying anything.
    told = search is not None and search.instead is not None and not search.tried
    if search is not None and (search.explained or told):
        return by_variants(search, estimate.op.name, assumed)
    exact = _did_nothing(recomputed)
    if exact is not None:
        # An attribute may be why, of elements that are too few to tell.
        few = () if search is None else search.possible
        return [exact, *by_variants(VariantSearch(list(few), []), estimate.op.name)]
    searched = search
    if search is None:
        # What it computes is known from golden data alone.
        output = Output((0, 0), recomputed.actual, Value(recomputed.computed), recomputed.dtype)
        instead, tried, too_few = written_instead(Written(output, lambda: (), excess))
        search = VariantSearch([], tried, 0, instead, too_few)
    known = by_variants(search, estimate.op.name)
    own_error = estimate.computed.own_error if estimate.computed is not None else None
    if search.possible and (own_error is None or not only_overflows(own_error)):
        possible = by_variants(
            search._replace(explained=list(search.possible), instead=None), estimate.op.name
        )
        # Nothing at all is what many variants make.
        known = [*known, *possible] if not np.any(recomputed.actual) else [*possible, *known]
    if known:
        return known
    pair = AlignedPair(
        recomputed.actual,
        np.asarray(recomputed.computed),
        recomputed.dtype,
        _letters(recomputed.actual),
        int(recomputed.actual.size),
    )
    distance = own_error.distance if own_error is not None else estimate.distance
    # The pair is that of the operator's own error: nothing came in with the inputs.
    alone = replace(
        estimate,
        distance=distance,
        inherited=own_error.explained if own_error is not None else 0.0,
        evidence=None,
    )
    whole = _walked(pair, alone) if pair.total > MOST_ELEMENTS else None
    patterns = patterns_of(alone, pair, (), Surroundings(right_behind=True), whole)
    if assumed and not patterns:
        step = "dump the operator's inputs, too, and compare again; " + _NEXT_OTHER_INPUT
        return [Explanation("other-input", 0.0, _MAYBE_OTHER_INPUT, step)]
    explanations = [
        _no_overflow(entry, recomputed) or _of_computed(entry)
        for entry in patterns
        if entry.kind not in (_NOT_HERE if searched is not None else _NOT_HERE[:1])
        # Larger numbers become 0 by a threshold, which is a variant.
        and (searched is None or entry.kind != "flush-to-zero" or _all_tiny(recomputed))
        # Of so few numbers the next one is as near as rounding is wide.
        and (searched is None or entry.kind != "rounding" or "float8" not in recomputed.dtype)
    ]
    if explanations:
        return explanations
    output = Output(
        (0, 0), recomputed.actual, Value(np.asarray(recomputed.computed)), recomputed.dtype
    )
    right = right_alone(output)
    if searched is None and not right:
        explanations = [
            _of_computed(entry) for entry in without_pattern(alone, pair, NOTHING_AROUND)
        ]
    return explanations or [unexplained(search, right)]


def _no_overflow(entry: Explanation, recomputed: ComputedPair) -> Optional[Explanation]:
    """Return what is said of infinities that no overflow makes: what is computed there is within
    the type, and so is whatever may be summed, multiplied, squared or raised of the inputs on the
    way, and larger numbers are there beside them; None for others, and where that is not known.
    """
    if entry.kind != "overflow":
        return None
    computed = np.asarray(recomputed.computed)
    wrong = np.isinf(recomputed.actual) & np.isfinite(computed)
    largest = rounding_of(recomputed.dtype).largest
    kept = computed[np.isfinite(recomputed.actual) & np.isfinite(computed)]
    by_size = [
        (sign * computed[of_sign]).min() > (sign * kept).max(initial=0.0)
        for sign in (1.0, -1.0)
        for of_sign in [wrong & (recomputed.actual * sign > 0)]
        if of_sign.any()
    ]
    if all(by_size):
        return None
    size, product, count = 0.0, 1.0, 1
    for _, values in recomputed.inputs:
        values = np.asarray(values)
        if values.dtype.kind == "f":
            of_this = float(np.abs(values).max(initial=0.0))
            size, product = max(size, of_this), product * max(of_this, 1.0)
        if values.ndim:
            # Over a batch nothing is summed, but of a batch alone.
            count = max(count, values.size // max(len(values), 1), len(values))
    with np.errstate(over="ignore"):
        reached = count * max(product, size * size, float(np.exp(size)))
    at_most = float(np.abs(computed[wrong]).max())
    if not max(reached, at_most) < largest:
        return None
    sentence = (
        "%s: no overflow, what is computed there is %.3g at most, and no sum, product or power of "
        "its inputs is beyond %s%s"
        % (entry.sentence, at_most, recomputed.dtype, _where_alone(wrong))
    )
    return Explanation("unexplained", 0.0, sentence, _NEXT_NOT_WRITTEN)


def _where_alone(wrong: Any) -> str:
    """Return along which axes elements stand in a part alone, at its beginning or its end."""
    parts = []
    for axis, length in enumerate(wrong.shape):
        (at,) = np.nonzero(wrong.any(axis=tuple(set(range(wrong.ndim)) - {axis})))
        if (at[0] == 0) != (at[-1] == length - 1):
            parts.append("%d to %d of axis %d (of %d)" % (at[0], at[-1], axis, length))
    return "; they stand in indices %s alone" % ", ".join(parts) if parts else ""


def _all_tiny(recomputed: ComputedPair) -> bool:
    """Tell whether all that became 0 is next to the least number of the output's type."""
    gone = np.abs(recomputed.computed[recomputed.actual == 0])
    return not np.any(gone >= _NORMAL * rounding_of(recomputed.dtype).least_normal)


def unexplained(search: VariantSearch, known: str = "") -> Explanation:
    """Return that no known variant explains an error, what is known besides, and what was tried."""
    written = [one.words for one in WRITTEN_INSTEAD]
    tried = [words for words in search.tried if words not in written]
    counts = "%d that it may have read otherwise" % len(tried) if tried else ""
    if len(tried) < len(search.tried):
        counts += ", " * bool(tried)
        counts += "%d that may have been written instead" % (len(search.tried) - len(tried))
    if search.too_few:
        counts += "; too few elements to tell %d more" % len(search.too_few)
    known = "; " + known if known else ""
    sentence = "no known variant explains it%s (tried: %s; result.json has all)" % (known, counts)
    of_all = (*search.tried, *("%s (too few elements to tell)" % words for words in search.too_few))
    return replace(explanation("unexplained", 0.0, sentence + _left_out(search)), tried=of_all)


def _left_out(search: VariantSearch) -> str:
    return (
        "; %d variants were not tried for the time that they take" % search.left_out
        if search.left_out
        else ""
    )


def by_variants(search: VariantSearch, op: str, assumed: bool = False) -> List[Explanation]:
    """Return explanations where what the device computed instead is known.

    Parameters
    ----------
    op
        The device's operator.
    assumed
        Its input was not dumped, golden data's was taken for it.
    """
    instead = search.instead
    explanations = (
        [] if instead is None else [Explanation(instead.kind, 1.0, instead.sentence, instead.next)]
    )
    for entry in search.explained:
        if assumed and entry.name == "its input":
            return [Explanation("other-input", 1.0, entry.sentence, _NEXT_OTHER_INPUT)]
        beyond = _beyond_float16(entry)
        sentence, step = entry.sentence, _next_for(entry, op)
        if beyond:
            sentence, step = (
                _BEYOND % (re.sub("^its ", "", entry.name), beyond) + _counted(entry),
                (_NEXT_BEYOND % op),
            )
        if instead is not None and entry.device == "missing":
            # One thing, told from both ends.
            sentence, explanations = "%s; %s" % (sentence, instead.sentence), []
        explanations.append(Explanation(_kind_of(entry), 1.0, sentence, step))
    if explanations and search.left_out:
        first = explanations[0]
        explanations[0] = replace(first, sentence=first.sentence + _left_out(search))
    return explanations


def _kind_of(entry: Explained) -> str:
    """Return the kind of what reproduces an output: whether a finer type would mend it."""
    narrowed = entry.name == ARITHMETIC or entry.device in NARROWED
    if narrowed or (entry.device.startswith(OF_DUMP) and EIGHT_BITS in entry.device):
        return "rounding"
    return "overflow" if _beyond_float16(entry) else "attribute"


def _beyond_float16(entry: Explained) -> str:
    """Return in words what the device has for numbers of an input that float16 cannot hold; empty
    where it is not that.
    """
    words = dict(zip((words for words, _ in BEYOND_FLOAT16), ("Inf", "the largest one")))
    return next((of for one, of in words.items() if entry.device.endswith(one)), "")


def _counted(entry: Explained) -> str:
    counts = agreement(entry.agree, entry.model_agree, entry.elements)
    return " (%s%s)" % (OF_DUMP + "; " if entry.device.startswith(OF_DUMP) else "", counts)


def _next_for(entry: Explained, op: str) -> str:
    node = entry.node
    # Of inputs and constants nothing stands among an op's attributes.
    name = re.sub("^its ", "the ", entry.name)
    is_attribute = (
        not entry.name.startswith(_OF_INPUTS)
        and entry.model != AS_IT_IS
        and not entry.device.startswith(OF_DUMP)
    )
    where = (
        "compare %s of %s in the om's json (the attributes of its op)"
        if is_attribute
        else "compare %s of %s as the compiled model holds or reads them,"
    ) % (name or "the type and attributes", op)
    model = "" if entry.model == AS_IT_IS else ": " + entry.model
    hint = "" if is_attribute else " (quantising, folding of constants, order of inputs)"
    if is_attribute and node.type in _FOLDED and node.name != op:
        hint = " (the json has none where the converter folded it into weights)"
    if entry.device.startswith(FROM_OTHER):
        hint = " (memory that was written again before it was read, an edge drawn otherwise)"
    if entry.name == SUMS:
        hint = " (tiling: where each sum ends)"
    kind = node.type.rpartition("the ")[2]
    return "%s with the original model's %s %s%s%s" % (where, kind, node.name, model, hint)


def golden_is_otherwise(search: Optional[VariantSearch]) -> Explanation:
    """Return the explanation of an operator that is right while golden data do not follow from
    golden data: by what they were made, where a variant makes them.
    """
    sentence = (
        "computed of golden inputs its golden output comes out otherwise, and the device is "
        "right: the golden data are wrong"
    )
    step = (
        "make the golden data again; of a Caffe net without in-place layers (goldwatch golden "
        "caffe deinplace)"
    )
    if search is not None and search.explained:
        told = search.explained[0].sentence.replace("the device computed", "golden data were made "
                                                    "with", 1)  # fmt: skip
        sentence = "%s, as the device computes" % told
        step = "find out which of both is meant, and make golden data or the om accordingly"
    return Explanation("wrong-golden", 1.0, sentence, step)


def _walked(pair: AlignedPair, estimate: Estimate) -> Optional[Walked]:
    target, computed = (
        Tensor.from_array(pair.target),
        Tensor.from_array(np.asarray(pair.golden, np.float32)),
    )
    shape = tuple(int(size) for size in pair.golden.shape)
    return walk(
        target,
        computed,
        match_layouts(target, shape, None, shape, None),
        estimate.distance,
        background_of(estimate),
    )


def _did_nothing(recomputed: ComputedPair) -> Optional[Explanation]:
    for name, values in recomputed.inputs:
        if (
            values.size == recomputed.actual.size
            and values.dtype.kind == "f"
            and recomputed.actual.dtype.kind == "f"
        ):
            x, y = (
                np.asarray(side, np.float64).reshape(-1) for side in (recomputed.actual, values)
            )
            size = float(np.linalg.norm(y))
            if size and float(np.linalg.norm(x - y)) <= _SAME * size:
                return nothing_was_done(name)
    return None


def nothing_was_done(name: str) -> Explanation:
    """Return the explanation that an operator's output is one of its inputs, as it is named."""
    return Explanation("did-nothing", 1.0, _NOTHING % name, _NEXT_NOTHING)


def _letters(values: Array) -> Tuple[str, ...]:
    return (
        ("N", "C", "H", "W")
        if values.ndim == 4
        else tuple(str(axis) for axis in range(values.ndim))
    )


def _of_computed(entry: Explanation) -> Explanation:
    """Return an explanation whose sentence names what was computed in place of golden data."""
    # Sentences of patterns name the golden; nothing is decided by these words, they are exchanged.
    sentence = entry.sentence.replace("the golden ones", "what is computed").replace(
        "the golden's values", "the computed values"
    )
    sentence = sentence.replace("the golden", "what is computed")
    return replace(entry, sentence=sentence)
