"""Searches what a device computed in place of an operator that is wrong: an attribute read
otherwise, constants of another, a number.
"""

from __future__ import annotations

from itertools import chain
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from .. import operators
from ..base.wording import percent
from ..operators import Arithmetic, Node, Value
from ..operators.inputs_otherwise import BEYOND_FLOAT16, OF_SIBLING
from ..operators.variants import AS_IT_IS, FACTOR_OF, Variant, input_name
from ..tensors.type_precision import rounding_of
from . import piece_variants
from .folded_constants import folded_constants, is_folded, refitted
from .formulas_by_type import TIGHT
from .found_indices import found_indices
from .number_fitting import NumberFitting
from .other_constants import SOLVED, dumped_otherwise, says_which, solved
from .output_error import OwnError, own_error
from .piece import EXACT, Key, Piece
from .piece_variants import CHAIN, Siblings
from .variant_trials import MOST_COUNTED, OF_DUMP, Accepted, Output, VariantTrials, agreeing

Array = Any

OTHERS, FOLDED, NUMBER, UNKNOWN = "others", "folded", "number", "unknown"
"""How other constants explain an output (:class:`VariantSearch`)."""

Others = Callable[[int], Iterator[Tuple[str, Array]]]
"""Yields other tensors of so many elements by name."""

_BEYOND = frozenset(words for words, _ in BEYOND_FLOAT16)
_OF_MODEL = 1
"""How far-fetched an attribute or constant is that was read otherwise (:func:`_unlikeliness`)."""
_BY_ROUNDING = 1.0
"""Times what rounding explains, above which numbers are fitted although a variant agrees."""
_AS_GOOD = 1.5
"""Of the best variant's error, what that of another may be which explains as much. Chosen; tried
from 1.1 to 3: each of attribute_trial --quick --dtype float16 --form all is named all the same."""
_FEWER = 0.01
"""Of the elements, by how many fewer may agree with such another. Chosen; no trial."""
# Chosen for the length of a sentence.
_MOST_NAMED = 4
"""Values of one attribute that agree equally well, of which a message names each."""
_FEW_ELEMENTS = 64
_FEW_NUMBERS = 16
"""Elements and different numbers up to which they are called few. Chosen for the sentence."""
_READ_S = 1e-8
"""Roughly what reading one element of another tensor takes. Chosen, not measured."""
# Not measured from here on.
UNLIKELY_BITS = 10.0
"""By which what no attribute says (an input in another order) has to be less of a chance."""


class Explained(NamedTuple):
    """What reproduces an output.

    Attributes
    ----------
    sentence
        What the device computed, and what the model says.
    name
        What was read otherwise (an attribute); empty where it is no attribute.
    node
        The original node that has it.
    device, model
        What the device computed and what the model says, as text.
    agree, model_agree, elements
        How many elements agree with it, with the model, and how many there are.
    """

    sentence: str
    name: str
    node: Node
    device: str
    model: str
    agree: int
    model_agree: int
    elements: int


class VariantSearch(NamedTuple):
    """What came of a search.

    Attributes
    ----------
    explained
        What reproduces the output, the best first.
    tried
        What was tried, in words.
    left_out
        How many variants were not tried because they would have taken too long.
    instead
        What was written instead, where no variant explains it.
    too_few
        What the elements are too few to tell.
    possible
        What agrees, as so few elements may do by chance.
    constants
        Whether other constants explain it: ``others`` (most numbers of its weights are another
        model's), ``folded`` (its weights are the model's but for a factor of each filter, by what
        is folded into them), ``number`` (a scale, say); ``unknown`` where nothing does and the dump
        holds none; empty where something else does, or those of the dump do not.
    other_shape
        As of :class:`.other_constants.DumpedOtherwise`, where nothing explains it.
    """

    explained: List[Explained]
    tried: List[str]
    left_out: int = 0
    instead: Optional[Instead] = None
    too_few: Sequence[str] = ()
    possible: Sequence[Explained] = ()
    constants: str = ""
    other_shape: str = ""


class Instead(NamedTuple):
    """What was written instead of an operator's output.

    Attributes
    ----------
    kind
        ``other-tensor``, ``not-written``, ``activation``, ``layout``, ``scale``, ``bias``,
        ``rounding`` or ``overflow``.
    sentence, next
        What was found, and what to do next.
    several
        Whether it is several numbers, of which some constant may tell more.
    agree
        Of one factor or offset for all elements, how many agree with it.
    """

    kind: str
    sentence: str
    next: str
    several: bool = False
    agree: int = 0


def search_variants(
    piece: Piece,
    incoming: Mapping[Key, Array],
    output: Output,
    judge: Callable[[OwnError, bool], float],
    cost_s: float,
    siblings: Siblings,
    dumped: Sequence[Tuple[int, Array]] = (),
    others: Others = lambda size: iter(()),
) -> VariantSearch:
    """Compute everything that the nodes of a piece may have read otherwise: attributes and orders,
    constants of others, narrower arithmetic, then numbers that may be any.

    Parameters
    ----------
    incoming, output, judge, cost_s
        As of :class:`VariantTrials`.
    siblings
        As of :func:`goldwatch.recomputing.piece_variants.other_constants`.
    dumped
        Constants as the dump of the op holds them, by the number of its input.
    others
        As of :func:`goldwatch.recomputing.piece_variants.fed_from_others`.
    """
    trials = VariantTrials(piece, incoming, output, judge, cost_s)
    base = piece.values(incoming, EXACT)
    unit = rounding_of(output.dtype).half_unit if output.actual.dtype.kind == "f" else 0.0
    held = dumped_otherwise(piece, base, dumped, unit, siblings)
    trials.try_all(held.variants)
    if held.all_equal:
        trials.tried["the constants of its own dump (they are the model's)"] = None
    held_otherwise, trials.accepted = trials.accepted, []
    is_other = any(entry.variant is other for entry in held_otherwise for other in held.others)
    of_another = OTHERS if is_other else ""
    if not held_otherwise:
        for folded in folded_constants(piece, base, dumped):
            trials.try_variant(folded.number, folded.node, folded.variant)
            if trials.accepted:
                held_otherwise, trials.accepted = trials.accepted, []
                of_another = FOLDED if folded.by_filters else OTHERS
                break
    # Weights that are not the model's at all explain it alone, and so do numbers that are told.
    if of_another != OTHERS and not any(says_which(entry.variant) for entry in held_otherwise):
        _try_model(trials, base, siblings, others)
        if of_another == FOLDED and trials.accepted:
            # What is folded as the model says, but for an attribute.
            held_otherwise, of_another = [], ""
        if not trials.accepted and not held_otherwise and not piece.counts:
            of_another = _solve(trials, base, held.confirmed) or _refit(trials, base, dumped)
    trials.accepted = [*held_otherwise, *trials.accepted]
    if piece.counts and trials.accepted:
        # What makes the same list is told besides, whatever chance is left of it.
        trials.accepted += trials.possible
    found = trials.accepted or trials.possible
    best = min((entry.ratio for entry in found), default=0.0)
    most = max((entry.agree for entry in found), default=0)
    as_good = [
        entry
        for entry in found
        if entry.ratio <= _AS_GOOD * best + 0.05
        and entry.agree >= most - _FEWER * output.actual.size
    ]
    as_good = [entry for entry in as_good if entry.in_shape] or as_good
    model_agree = int(np.count_nonzero(agreeing(output, output.computed)))
    explained = _in_words(as_good, output, model_agree, not trials.accepted)
    constants = {
        input_name(node, place)
        for _, node, _, held_places in piece.held(base)
        for place, is_held in enumerate(held_places)
        if is_held
    }
    if trials.accepted and not of_another and explained[0].name in constants:
        of_another = NUMBER
    elif not trials.accepted and not dumped:
        of_another = UNKNOWN
    return VariantSearch(
        explained if trials.accepted else [],
        list(trials.tried),
        trials.left_out,
        possible=[] if trials.accepted else explained[:_MOST_NAMED],
        constants=of_another,
        other_shape="" if trials.accepted else held.other_shape,
    )


def _try_model(
    trials: VariantTrials,
    base: Mapping[Key, Value],
    siblings: Siblings,
    others: Others,
) -> None:
    """Try what the model's nodes may have read otherwise, but constants that are solved.

    Parameters
    ----------
    base
        All values of the piece.
    siblings
        As of :func:`goldwatch.recomputing.piece_variants.other_constants`.
    others
        As of :func:`goldwatch.recomputing.piece_variants.fed_from_others`.
    """
    piece, fitting = trials.piece, NumberFitting(trials)
    trials.try_all(piece_variants.variants(piece, base))
    # Without the gate of x * sigmoid(x) its product is x: no activation.
    if all(_is_missing(entry) for entry in trials.accepted):
        trials.try_all(piece_variants.chains(piece, base, trials.output.value))
    if not trials.accepted:
        trials.try_all(piece_variants.left_out(piece, base))
        trials.try_all(piece_variants.early_activations(piece, trials.output.value))
        trials.try_all(piece_variants.variants(piece, base, together=True))
    if not trials.accepted:
        trials.try_all(piece_variants.other_constants(piece, base, siblings))
    # What is farther off than rounding may only resemble what a number makes: of few elements
    # an unbiased variance does an epsilon. Of a list of boxes each threshold may be why.
    if (
        piece.counts
        or min((entry.ratio for entry in trials.accepted), default=np.inf) > _BY_ROUNDING
    ):
        for number, node, fit in piece_variants.fits(piece, base):
            if trials.has_time("%s of %s, fitted" % (fit.name, node.type)):
                fitting.fit(number, node, fit)
    # Twice a weight is what twice a factor is; half a threshold what any about as large is.
    if all(entry.fitted and not piece.counts for entry in trials.accepted):
        trials.try_all(piece_variants.other_inputs(piece, base), UNLIKELY_BITS)
    if not trials.accepted:
        fitting.fit_pairs(base)
    if not trials.accepted:
        trials.try_all(piece_variants.tails(piece, base))
    # What only moves one tensor holds another one, or its values.
    if not trials.accepted and (len(trials.incoming) > 1 or not piece.moves):
        _try_others(trials, others)


def _try_others(trials: VariantTrials, others: Others) -> None:
    """Try other tensors of the run in place of those that come in, each read only in time."""
    for number, node, variant in piece_variants.fed_from_others(
        trials.piece, trials.incoming, others
    ):
        trials.spent_s += _READ_S * trials.output.actual.size
        if not trials.has_time("another tensor as an input"):
            return
        trials.try_variant(number, node, variant, UNLIKELY_BITS)
        if trials.accepted:
            return


def _solve(
    trials: VariantTrials, base: Mapping[Key, Value], known_of_dump: FrozenSet[Tuple[int, int]]
) -> str:
    """Try constants that are solved from the output, each of which it has to tell; not those that
    the dump holds as the model does, by node and input. Return whose most of their numbers are
    (:class:`VariantSearch`); empty where that is not known.
    """
    output = trials.output

    def has_time(times: int) -> bool:
        trials.spent_s += times * trials.cost_s
        return trials.has_time("constants that may be any")

    found = ""
    for number, node, variant, bits, share in chain(
        solved(
            trials.piece,
            base,
            trials.before,
            output.value,
            output.actual,
            has_time,
            known_of_dump,
            lambda: bool(trials.accepted),
        ),
        found_indices(trials.piece, base, output, has_time, known_of_dump),
    ):
        before = len(trials.accepted)
        trials.try_variant(number, node, variant, bits, True)
        if len(trials.accepted) > before and 2 * share > 1:
            folded = is_folded(node) and len(trials.piece.computed) > 1
            found = FOLDED if folded else OTHERS
    return found


def _refit(
    trials: VariantTrials, base: Mapping[Key, Value], dumped: Sequence[Tuple[int, Array]]
) -> str:
    """Try a factor and an offset for each channel in place of what is folded into a product; return
    as :func:`_solve`.
    """
    output = trials.output
    if trials.accepted:
        return ""
    for folded, bits in refitted(trials.piece, base, dumped, output.value, output.actual):
        if trials.has_time("what is folded into its weights"):
            trials.try_variant(folded.number, folded.node, folded.variant, bits, True)
        if trials.accepted:
            return FOLDED if folded.by_filters else OTHERS
    return ""


def is_another_curve(piece: Piece, values: Mapping[Key, Value], output: Output) -> bool:
    """Tell whether an output is, but for one rounding, what another activation makes of the value
    that the model's is made of: no coarser arithmetic comes so near.

    Parameters
    ----------
    values
        All values of the piece.
    """
    curve = piece_variants.curve(piece, values, output.value)
    if curve is None:
        return False
    size = output.actual.size
    places = slice(None, None, size // MOST_COUNTED + 1)
    actual, model = (
        np.reshape(side, -1)[places] for side in (output.actual, output.computed.array)
    )
    source = Value(np.reshape(curve.source.array, -1)[places])
    arithmetic = TIGHT.get(output.dtype, Arithmetic())
    for _, node in curve.others():
        (value,) = operators.compute(node, [source], arithmetic)
        # What is nearer than one rounding to the model's tells nothing.
        if (
            own_error(model, value, output.dtype).doubtful
            and not own_error(actual, value, output.dtype).doubtful
        ):
            return True
    return False


def _in_words(
    accepted: Sequence[Accepted], output: Output, model_agree: int, by_chance: bool
) -> List[Explained]:
    """Return what was accepted, values of one attribute together."""
    by_name: Dict[Tuple[str, str, str], List[Accepted]] = {}
    for entry in accepted:
        by_name.setdefault((entry.node.name, entry.node.type, entry.variant.name), []).append(entry)
    explained: List[Tuple[int, Explained]] = []
    # What makes the same of these inputs is one thing: nothing tells which of them it was.
    alike: Dict[int, List[List[Accepted]]] = {}
    for name, entries in by_name.items():
        # What the dump holds is known; what comes to about the same is not told besides.
        held = [entry for entry in entries if entry.variant.device.startswith(OF_DUMP)]
        # What float16 cannot hold comes to the same doubled: Inf.
        beyond = [entry for entry in entries if entry.variant.device in _BEYOND]
        by_name[name] = entries = held or beyond or entries
        entries.sort(key=lambda entry: entry.ratio)
        alike.setdefault(entries[0].digest, []).append(entries)
    for groups in alike.values():
        groups.sort(
            key=lambda entries: (
                entries[0].variant.device not in _BEYOND,
                _unlikeliness(entries[0]),
            )
        )
        first = groups[0][0]
        if first.variant.device in _BEYOND:
            del groups[1:]
        own, unlikely = first.variant.model, _unlikeliness(first)
        # Beside an attribute's usual value what none says is not told, nor the same attributes.
        others = [
            _shown(entries)[0]
            for entries in groups[1:_MOST_NAMED]
            if unlikely > _OF_MODEL or first.fitted or not entries[0].unlikely
            if not _is_same_node(entries[0].variant, first.variant)
        ]
        what, device = _shown(groups[0])
        sentence = "the device %scomputed %s%s (%s%s)%s" % (
            "may have " if by_chance else "",
            what,
            _of_model(first.variant) if own == AS_IT_IS else "; the model says " + own,
            agreement(first.agree, model_agree, output.actual.size),
            _hedge(output, first.agree - model_agree) if by_chance else "",
            "; the same is " + ", or ".join(others) if others else "",
        )
        told = Explained(
            sentence,
            first.variant.name,
            first.node,
            device,
            first.variant.model,
            first.agree,
            model_agree,
            output.actual.size,
        )
        explained.append((unlikely, told))
    return [told for _, told in sorted(explained, key=lambda entry: (entry[0], -entry[1].agree))]


def _hedge(output: Output, more: int) -> str:
    """Return why agreement may be by chance as an insertion; ``more`` elements agree than with the
    model.
    """
    if output.actual.size <= _FEW_ELEMENTS:
        return ": so few may do so by chance"
    if np.unique(output.actual).size <= _FEW_NUMBERS:
        return ": so few different numbers may do so by chance"
    if more <= _FEW_ELEMENTS:
        return ": so few that are not the model's may do so by chance"
    return ": what is computed times one factor may do so, too"


def _of_model(variant: Variant) -> str:
    """Return what the model has in place of what is no value of an attribute; empty where that is
    told with what the device had.
    """
    if not variant.name or variant.device.startswith((OF_DUMP, SOLVED)):
        return ""
    if variant.name.startswith(FACTOR_OF):
        return "; the model takes %s unchanged" % variant.name.replace(FACTOR_OF, "")
    if OF_SIBLING in variant.device:
        return "; the model has its own"
    if variant.device == "missing":
        return "; the model has " + variant.name
    return "; the model takes %s unchanged" % variant.name


def _unlikeliness(entry: Accepted) -> int:
    """Return how far-fetched what agrees is, 0 the least: what the dump holds, what the model says
    of the operator read otherwise, its inputs, outputs or parts in another order or those of
    another, an input that is missing, another function, and what no attribute says.
    """
    variant = entry.variant
    if variant.device.startswith(OF_DUMP):
        return 0
    # That an input is missing is also what an output that is the other input looks like.
    if _is_missing(entry):
        return 3
    if entry.node.type.startswith(CHAIN):
        return 2
    if entry.unlikely:
        return 5
    if not variant.name or variant.name.startswith(FACTOR_OF):
        return 4
    in_order = variant.name.startswith("the order of ") or OF_SIBLING in variant.device
    return 2 if in_order else _OF_MODEL


def _is_missing(entry: Accepted) -> bool:
    return entry.variant.device == "missing"


def _is_same_node(one: Variant, other: Variant) -> bool:
    """Tell whether two variants are one node with the same attributes."""
    return one.node == other.node and all(
        change is None
        for variant in (one, other)
        for change in (variant.inputs, variant.outputs, variant.instead)
    )


def _shown(entries: Sequence[Accepted]) -> Tuple[str, str]:
    """Return what was computed, and what the device took, of values of one attribute."""
    first = entries[0]
    values = list(dict.fromkeys(entry.variant.device for entry in entries))
    device = " or ".join(values[:_MOST_NAMED])
    if len(values) > _MOST_NAMED:
        device += " (and %d more)" % (len(values) - _MOST_NAMED)
    if first.variant.name.startswith(FACTOR_OF):
        return "%s with %s" % (first.node.type, times(first.variant.name, device)), device
    if first.variant.name:
        return "%s with %s %s" % (first.node.type, first.variant.name, device), device
    return "%s for %s" % (device, first.node.type), device


def times(name: str, device: str) -> str:
    """Return factors of inputs in words: of each input what it is multiplied by."""
    names, factors = name.split(" and "), device.split(" and ")
    if len(names) != len(factors):
        return "%s %s" % (name, device)
    return " and ".join(
        "%s times %s" % (one.replace(FACTOR_OF, "", 1), by) for one, by in zip(names, factors)
    )


def agreement(agree: int, model_agree: int, elements: int) -> str:
    """Return how many elements agree with an explanation and with the model, in words."""
    share = percent(model_agree / max(1, elements))
    if share == "100 %" and model_agree < elements:
        share = "all but " + format(elements - model_agree, ",")
    return "%s of %s elements agree, with the model's %s" % (
        format(agree, ","),
        format(elements, ","),
        share,
    )
