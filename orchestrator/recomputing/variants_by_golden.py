"""What a device computed instead where the original model is not known: other ways than the one by
which golden outputs follow from golden inputs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, permutations
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from ..metrics.patterns import AlignedPair
from ..operators import Arithmetic, CannotCompute, Value
from ..operators.registry import UNFIT
from ..operators.variants import AS_IT_IS, text_of
from .explained_or_written import explained_or_written
from .formulas_by_type import (
    TIGHT,
    Formula,
    NodeFormula,
    formulas,
    is_fitted,
    learns_constants,
)
from .formulas_fitted_to_golden import (
    by_attributes,
    confirmed_formula,
    confirmed_node,
    device_follows,
    follows_from,
    sides_of,
    with_formula_error,
)
from .original_nodes import Call, Nodes
from .other_constants import MOST_LISTED, OF_DUMP
from .output_error import OwnError
from .piece import Piece
from .run_variants import FIRST_INDEX, OF_ANOTHER, PARTS, written_instead
from .submodel.cut_definition import Cut
from .variant_search import Explained, Instead, VariantSearch, search_variants
from .variant_trials import Output
from .written import Written, is_spread

if TYPE_CHECKING:
    from .attributes_and_constants import AttributesAndConstants

Array = Any
Judge = Callable[[OwnError, bool], float]
Others = Callable[[int], Iterable[Tuple[str, Array]]]

_ELEMENT_S = 2e-8
"""Roughly what computing one element takes; measured of vector operators as the budget of variants
counts it."""

_DIGITS = (1, 2, 3, 4, 5)
_NEARLY, _EQUAL = 1.5, 1e-7
"""What golden data may be off by a shorter number: so many times what they are by the fitted one,
or one rounding of float32. Chosen, no trial."""
_MOST_ORDERED = 4
"""Inputs of which each other order is tried."""
_NEXT_OF_EDGES = (
    "compare the inputs of its op in the om's json with those of its node in the original model"
)
_AS_SMALL = " or one as small"


class _OneNode(Nodes):
    """One node, which reads all that comes in."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def call(self, number: int) -> Call:
        return self._call


def variants_by_golden(
    name: str,
    op_type: str,
    inputs: Sequence[AlignedPair],
    output: AlignedPair,
    facts: Optional[AttributesAndConstants],
    judge: Judge,
) -> Optional[VariantSearch]:
    """Return what an operator may have computed in place of that by which golden data follow; None
    where these do not show what it computes, and where no variant explains it.

    Parameters
    ----------
    name, op_type
        The operator.
    inputs, output
        Whole tensors, not samples.
    facts
        What the model's json and the dump tell of the operator.
    judge
        Returns by how many times an error exceeds what is allowed, of values that are only moved
        (True) or not.
    """
    sides = sides_of(inputs, output)
    dumped = [] if facts is None else sorted(facts.constants.items())
    # A constant that golden data alone show takes up whatever is otherwise.
    if sides is None or (is_fitted(op_type, len(inputs)) and not dumped):
        return None
    goldens, targets = sides
    golden = np.asarray(output.golden)
    try:
        with np.errstate(all="ignore"):
            formula, off = confirmed_node(op_type, goldens, golden, facts, output.dtype)
            if formula is not None:
                if is_fitted(op_type, len(inputs)):
                    formula = _with_short_numbers(formula, off, goldens, golden)
                return _searched(name, formula, off, targets, output, judge, dumped)
    except (CannotCompute, *UNFIT):
        pass
    return None


def fed_otherwise(
    op_type: str,
    inputs: Sequence[AlignedPair],
    output: AlignedPair,
    facts: Optional[AttributesAndConstants],
    judge: Judge,
    fed_with: Sequence[Tuple[int, str]],
    others: Others,
) -> Optional[VariantSearch]:
    """Return that a device computes what the json says of what the json feeds it with, where golden
    data do not follow by that, and by what they follow; else None. Other parameters as of
    :func:`variants_by_golden`.

    Parameters
    ----------
    fed_with
        What feeds each input, which the op counts by these numbers.
    others
        Yields other golden tensors of so many elements, by name.
    """
    sides = sides_of(inputs, output)
    if sides is None or facts is None:
        return None
    goldens, targets = sides
    golden = np.asarray(output.golden)
    with np.errstate(all="ignore"):
        try:
            known, _ = confirmed_formula(op_type, goldens, golden, facts, output.dtype)
        except UNFIT:
            return None
        # What follows from anything tells nothing.
        if known is not None or not is_spread(golden):
            return None
        of_json: List[Formula] = list(by_attributes(op_type, facts))
        of_type: Iterable[Formula] = (
            ()
            if learns_constants(op_type, len(targets)) or not targets
            else formulas(op_type, targets, np.asarray(output.target), output.dtype)
        )
        for number, formula in enumerate(chain(of_json, of_type)):
            if device_follows(formula, targets, output, judge):
                found = _other_order(op_type, formula, goldens, golden, fed_with)
                found = found or _other_input(formula, goldens, golden, fed_with, others)
                if found is None and (number < len(of_json) or not of_json):
                    with_what = _golden_otherwise(formula, goldens, golden, output.dtype, judge)
                    found = _of_json(op_type, facts, with_what)
                if found is not None:
                    return VariantSearch([], [], instead=found)
    return None


def written_beside_golden(
    output: AlignedPair, explained: float, others: Others, judge: Judge
) -> Optional[Instead]:
    """Return what an output holds in place of golden data where nothing of its operator is known:
    what another one computed, or the first index of an axis throughout; else None.

    Parameters
    ----------
    explained
        Relative distance from golden data that inputs and rounding explain.
    others
        Yields other outputs of so many elements, by their names.
    judge
        As of :func:`by_json_alone`.
    """
    golden = np.asarray(output.golden, np.float32)
    actual = np.asarray(output.target, np.float32)
    if not (np.isfinite(golden).all() and np.isfinite(actual).all()):
        return None
    error = explained * np.sqrt(np.square(golden, dtype=np.float64).mean())
    computed = Value(golden, np.full(golden.shape, error, np.float32))
    written = Written(
        Output((0, 0), actual, computed, output.dtype),
        lambda: others(actual.size),
        lambda own: judge(own, False),
    )
    instead, _, _ = written_instead(written, (FIRST_INDEX, *OF_ANOTHER, *PARTS))
    return None if instead is None else instead._replace(sentence=_said_of_golden(instead.sentence))


def _golden_otherwise(
    formula: Formula, goldens: Sequence[Value], golden: Array, dtype: str, judge: Judge
) -> str:
    """Return in words by what golden data follow in place of a formula, where a variant of it makes
    them; else empty.
    """
    if not isinstance(formula, NodeFormula):
        return ""
    # Constants are the device's: rounded to its type at least as coarsely as float16.
    dtype = "float16" if dtype == "float32" else dtype
    as_golden = AlignedPair(golden, golden, dtype, (), golden.size)
    try:
        search = _searched(formula.node.name, formula, 0.0, goldens, as_golden, judge, ())
    except (CannotCompute, *UNFIT):
        return ""
    if search is None or not search.explained:
        return ""
    words = search.explained[0].sentence.replace("the device computed ", "", 1)
    words = re.split(r"; golden data follow with | \([\d,]+ of ", words, maxsplit=1)[0]
    words = words.replace("golden data's", "the om's").replace(OF_DUMP, "of the om's dump")
    return re.sub(" for %s$" % re.escape(formula.node.type), "", words)


def _other_order(
    op_type: str,
    formula: Formula,
    goldens: Sequence[Value],
    golden: Array,
    fed_with: Sequence[Tuple[int, str]],
) -> Optional[Instead]:
    places = range(len(goldens))
    for order in permutations(places) if len(goldens) <= _MOST_ORDERED else ():
        if order != tuple(places) and follows_from(formula, [goldens[at] for at in order], golden):
            return Instead(
                "attribute",
                "the device computed %s of its inputs as the om feeds it with them (%s); golden "
                "data follow from them in the order %s: an edge was drawn otherwise than in the "
                "original model" % (op_type, ", ".join(name for _, name in fed_with), list(order)),
                _NEXT_OF_EDGES,
            )
    return None


def _other_input(
    formula: Formula,
    goldens: Sequence[Value],
    golden: Array,
    fed_with: Sequence[Tuple[int, str]],
    others: Others,
) -> Optional[Instead]:
    for number, value in enumerate(goldens):
        for name, other in others(value.array.size):
            shaped_as = other.reshape(value.array.shape).astype(value.array.dtype)
            given = [*goldens[:number], Value(shaped_as)]
            if follows_from(formula, [*given, *goldens[number + 1 :]], golden):
                return Instead(
                    "other-tensor",
                    "the om feeds it with %s as its input %d, of which its output is right; golden "
                    "data follow from %s there: an edge was drawn otherwise than in the original "
                    "model, or an operator between was left out or added"
                    % (fed_with[number][1], fed_with[number][0], name),
                    _NEXT_OF_EDGES,
                )
    return None


def _of_json(op_type: str, facts: AttributesAndConstants, with_what: str) -> Instead:
    """Return that the device computed what the json says, and by what golden data follow, in words;
    empty: not known.
    """
    pairs = ["%s %s" % pair for pair in sorted(facts.attributes.items())]
    told = ["%s as the om's json says" % op_type + (" (%s)" % ", ".join(pairs) if pairs else "")]
    if facts.constants:
        shown = [
            "input %d: %s" % (number, text_of(array))
            for number, array in sorted(facts.constants.items())
            if array.dtype.kind != "f" and array.size <= MOST_LISTED
        ]
        listed = " (%s)" % ", ".join(shown) if shown else ""
        told.append("the constants of its dump" + listed)
    return Instead(
        "attribute",
        "the device computed %s, and golden data do not follow from golden inputs by that: %s"
        % (
            " with ".join(told),
            "they follow with %s; which of both the original model says is not known without it"
            % with_what
            if with_what
            else "the original model says otherwise, reads another tensor or another shape, or "
            "holds other constants",
        ),
        "compare the type, inputs and attributes of its op in the om's json with the original "
        "model's",
    )


def _with_short_numbers(
    formula: NodeFormula, off: float, goldens: Sequence[Value], golden: Array
) -> NodeFormula:
    """Return a formula with its number as short as golden data allow: it was fitted to them."""
    (fitted,) = formula.extra[-1:]
    number = fitted.array if isinstance(fitted, Value) else np.asarray(fitted)
    if len(formula.extra) > 1 or number.size > 1:
        return formula
    for digits in _DIGITS:
        short = float("%.*g" % (digits, number.item()))
        error = None if not isinstance(fitted, Value) else fitted.error
        shortened = replace(formula, extra=(Value(np.full(number.shape, short), error),))
        if follows_from(shortened, goldens, golden, max(_NEARLY * off, _EQUAL)):
            return shortened
    return formula


def _searched(
    name: str,
    formula: NodeFormula,
    off: float,
    targets: Sequence[Value],
    output: AlignedPair,
    judge: Judge,
    dumped: Sequence[Tuple[int, Array]],
) -> Optional[VariantSearch]:
    given = formula.read(targets)
    node = replace(formula.node, name=name)
    key = (len(given), 0)
    held = formula.arguments([(number, 0) for number in range(len(given))])
    call = Call(node, [one.array if isinstance(one, Value) else one for one in held])
    piece = Piece(Cut((key[0],), (), (), (), ()), _OneNode(call), key[:1], output.dtype)
    incoming = {(number, 0): value.array for number, value in enumerate(given)}
    made = piece.values(incoming, TIGHT.get(output.dtype, Arithmetic()))[key]
    computed = with_formula_error(made, off, output.dtype)
    actual = np.asarray(output.target).reshape(computed.array.shape)
    searched = Output(key, actual, computed, output.dtype)
    elements = actual.size + sum(value.array.size for value in given)
    cost_s = _ELEMENT_S * elements
    search = search_variants(
        piece, incoming, searched, judge, cost_s, lambda node, place: iter(()), dumped
    )
    search = search._replace(
        explained=[_of_golden(entry) for entry in search.explained],
        possible=[_of_golden(entry) for entry in search.possible],
    )
    written = Written(
        searched, lambda: (), lambda error: judge(error, False), [value.array for value in given]
    )
    found = explained_or_written(search, written)
    if found.instead is not None:
        told = found.instead._replace(sentence=_said_of_golden(found.instead.sentence))
        found = found._replace(instead=told)
    return found if found.explained or found.possible or found.instead is not None else None


def _of_golden(entry: Explained) -> Explained:
    """Return an explanation that says where what the model says is known from."""
    if entry.model == AS_IT_IS:
        return entry._replace(sentence=_said_of_golden(entry.sentence))
    # A scale that is learnt takes up what an epsilon next to nothing does.
    model = entry.model + (_AS_SMALL if entry.name == "epsilon" else "")
    told = "golden data follow with " + model
    sentence = entry.sentence.replace("the model says " + entry.model, told, 1)
    return entry._replace(sentence=_said_of_golden(sentence), model=model)


def _said_of_golden(sentence: str) -> str:
    """Return a sentence about the model as one about golden data, which alone are known."""
    for of_model, of_golden in (
        ("; the model has ", "; golden data follow with "),
        ("; the model takes ", "; golden data follow with "),
        ("which the model does not have there", "by which golden data do not follow"),
        ("the model's", "golden data's"),
        ("hold what is computed of the first one", "hold golden data of the first one"),
    ):
        sentence = sentence.replace(of_model, of_golden)
    return sentence
