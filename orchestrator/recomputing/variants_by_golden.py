"""What a device computed instead where the original model is not known: other ways than the one by
which golden outputs follow from golden inputs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, permutations
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..base.wording import percent
from ..metrics.patterns import AlignedPair
from ..operators import Arithmetic, CannotCompute, Value
from ..operators.registry import UNFIT
from ..operators.variants import AS_IT_IS, FACTOR_OF, text_of
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
    followed_by_device,
    follows_from,
    sides_of,
    with_formula_error,
)
from .onnx_of_json import as_onnx
from .original_nodes import Call, Nodes
from .other_constants import MOST_LISTED, SOLVED
from .output_error import OwnError
from .piece import Piece
from .run_variants import FIRST_INDEX, OF_ANOTHER, PARTS, written_instead
from .solved_quantiser import solved_quantiser
from .submodel.cut_definition import Cut
from .variant_search import Explained, Instead, VariantSearch, search_variants, times
from .variant_trials import OF_DUMP, Output
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
_ALL_OF_IT, _COUNTS = "its output is ", r" \([\d,]+ of "
"""How a sentence begins that tells of all elements, and what ends its words."""
_BIAS = "the bias"
_AS_FLOAT16 = 2.0**-10
"""How far a scale may be off another that is rounded to float16."""
_MUCH = 0.25
"""Of a constant, how much of it at least is 0 to be told. Chosen for the sentence, no trial."""
_TAKE_A_BIAS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


class _Chain(Nodes):
    """A node that reads all that comes in, and those behind it; numbered from ``first`` on."""

    def __init__(self, calls: Sequence[Call], first: int) -> None:
        self._calls, self._first = calls, first

    def call(self, number: int) -> Call:
        return self._calls[number - self._first]


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
                search = _searched(name, formula, off, targets, output, judge, dumped)
                if search is None and formula.node.type == "QuantizeLinear":
                    # By the scale that golden data show: the dump's may be rounded.
                    solved, held = solved_quantiser(goldens[0].array, golden), formula.constants[1]
                    if solved is not None and held is not None and held.size == 1:
                        scale = np.full_like(held, solved[0], np.float32)
                        formula = replace(formula, constants={**formula.constants, 1: scale})
                        return _searched(name, formula, off, targets, output, judge, ())
                return search
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
        # What follows from anything tells nothing; nor does what is fitted to golden data where the
        # dump has the constant.
        is_told = known is not None and not (is_fitted(op_type, len(inputs)) and facts.constants)
        if is_told or not is_spread(golden):
            return None
        of_json: List[Formula] = [
            followed_by_device(formula, facts, targets, output, judge) or formula
            for formula in by_attributes(op_type, facts)
        ]
        of_type: Iterable[Formula] = (
            ()
            if learns_constants(op_type, len(targets)) or not targets
            else formulas(op_type, targets, np.asarray(output.target), output.dtype)
        )
        # What tells by what golden data follow is said before that nothing does.
        vague = None
        for number, formula in enumerate(chain(of_json, of_type)):
            if device_follows(formula, targets, output, judge):
                found = _other_order(op_type, formula, goldens, golden, fed_with)
                found = found or _other_input(formula, goldens, golden, fed_with, others)
                if found is None and (number < len(of_json) or not of_json):
                    otherwise = _golden_otherwise(formula, goldens, golden, output.dtype, judge)
                    if otherwise is None:
                        vague = _of_json(op_type, facts, None)
                    else:
                        found = _of_json(op_type, facts, otherwise)
                if found is not None:
                    return VariantSearch([], [], instead=found)
    return None if vague is None else VariantSearch([], [], instead=vague)


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
) -> Optional[Tuple[str, str]]:
    """Return by what golden data follow in place of a formula, and what the json says in its place
    (empty: that is told by it), in words; None where no variant of it makes them.
    """
    if not isinstance(formula, NodeFormula):
        return None
    for number, value in enumerate(goldens):
        if np.array_equal(np.ravel(value.array), np.ravel(golden)):
            # Whatever changes nothing makes them: a factor of 1, a bound that none exceeds.
            return "are its input %d unchanged" % number, ""
    # Constants are the device's: rounded to its type at least as coarsely as float16.
    dtype = "float16" if dtype == "float32" else dtype
    as_golden = AlignedPair(golden, golden, dtype, (), golden.size)
    instead = None
    for tried in (formula, *_with_a_bias(formula, golden)):
        try:
            search = _searched(formula.node.name, tried, 0.0, goldens, as_golden, judge, ())
        except (CannotCompute, *UNFIT):
            continue
        if search is not None and search.explained:
            return _followed_with(search.explained[0], tried is not formula)
        instead = instead or (None if search is None else search.instead)
    if formula.node.type == "QuantizeLinear":
        return _quantised_with(formula, goldens, golden)
    made, found, by_what = (instead.sentence if instead else "").partition("what is computed")
    if not found or made != _ALL_OF_IT:
        return None
    return "are what that makes, " + re.split(_COUNTS, by_what.lstrip(", "), maxsplit=1)[0], ""


def _quantised_with(
    formula: NodeFormula, goldens: Sequence[Value], golden: Array
) -> Optional[Tuple[str, str]]:
    """Return with which scale and zero point golden data were quantised, and those of the json."""
    held = [formula.constants.get(number) for number in (1, 2)]
    solved = solved_quantiser(goldens[0].array, golden) if len(goldens) == 1 else None
    if solved is None or any(one is None or one.size > 1 for one in held):
        return None
    scale, zero = (one.reshape(-1)[0].item() for one in held if one is not None)
    told = [("the scale", solved[0], scale)] if abs(solved[0] / scale - 1.0) > _AS_FLOAT16 else []
    told += [("the zero point", solved[1], zero)] if solved[1] != zero else []
    made, own = (
        " and ".join("%s %.6g" % (name, sides[at]) for name, *sides in told) for at in (0, 1)
    )
    return ("follow with " + made, own) if told else None


def _followed_with(entry: Explained, is_added: bool) -> Tuple[str, str]:
    """Return in words what golden data follow with, and what the json says in its place;
    ``is_added`` of a bias that the om does not have.
    """
    if is_added and entry.name == _BIAS and entry.device.startswith(SOLVED):
        return "follow with a bias, of which the om has none", ""
    device = entry.device.replace(OF_DUMP, "of the om's dump")
    if device.startswith(SOLVED):
        return "follow with %s %s" % (entry.name, device.replace("the model's", "the om's", 1)), ""
    if entry.name.startswith(FACTOR_OF):
        return "follow with " + times(entry.name, device), ""
    model = "" if entry.model == AS_IT_IS else entry.model.replace(_AS_SMALL, "")
    if entry.name:
        return "follow with %s %s" % (entry.name, device), model and entry.name + " " + model
    return "follow with " + device, ""


def _with_a_bias(formula: NodeFormula, golden: Array) -> Iterator[NodeFormula]:
    """Yield a convolution or product without a bias with one of zeros."""
    weights, kind = formula.constants.get(1), formula.node.type
    if weights is None or 2 in formula.constants or kind not in _TAKE_A_BIAS:
        return
    if kind == "MatMul" and weights.ndim != 2:
        return
    axis = 1 if kind != "MatMul" and golden.ndim > 2 else -1
    node = replace(formula.node, type="Gemm") if kind == "MatMul" else formula.node
    bias = np.zeros(golden.shape[axis], np.float32)
    yield replace(formula, node=node, constants={**formula.constants, 2: bias})


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


def _of_json(
    op_type: str, facts: AttributesAndConstants, otherwise: Optional[Tuple[str, str]]
) -> Instead:
    """Return that the device computed what the json says, and what golden data follow with, as of
    :func:`_golden_otherwise`.
    """
    pairs = ["%s %s" % (key, text_of(value)) for key, value in sorted(facts.attributes.items())]
    listed = " (%s)" % ", ".join(pairs) if pairs else ""
    of_dump = ""
    if facts.constants:
        shown = [
            "input %d: %s" % (number, _constant_in_words(array, facts.names.get(number, "")))
            for number, array in sorted(facts.constants.items())
        ]
        of_dump = " with the constants of its dump (%s)" % ", ".join(shown)
    if otherwise is None:
        sentence = (
            "the device computed %s as the om's json says%s%s, and golden data do not follow from "
            "golden inputs by that: the original model says otherwise, or reads another tensor%s"
            % (op_type, listed, of_dump, _of_constants(op_type, facts))
        )
    else:
        with_what, model = otherwise
        sentence = (
            "the device computed %s as the om's json says%s; golden data %s: which of both the "
            "original model says is not known without it"
            % (op_type, " (%s)" % model if model else of_dump, with_what)
        )
    return Instead(
        "attribute",
        sentence,
        "compare the type, inputs and attributes of its op in the om's json%s with the original "
        "model's" % (listed if otherwise is not None else ""),
    )


def _of_constants(op_type: str, facts: AttributesAndConstants) -> str:
    others = ", or holds other constants" if facts.constants else ""
    formula = as_onnx(op_type, facts)
    has_none = formula is not None and any(_with_a_bias(formula, np.zeros((1, 1))))
    return others + (", or has a bias, of which the om has none" if has_none else "")


def _constant_in_words(array: Array, name: str) -> str:
    """Return a constant of a dump in words: the values of few whole numbers, else what it is called
    in the om, and how much of it is 0, where that is much.
    """
    if array.dtype.kind != "f" and array.size <= MOST_LISTED:
        return text_of(array)
    if array.size == 1 or not np.ptp(array):
        several = " throughout" if array.size > 1 else ""
        return "%s, %s%s" % (name, text_of(array.flat[0].item() or 0), several)
    for axis in range(array.ndim):
        if array.shape[axis] > 1 and not np.any(array - np.take(array, [0], axis)):
            return "%s, the same in all indices of axis %d" % (name, axis)
    zeros = 1.0 - np.count_nonzero(array) / array.size
    return name + (", %s of it 0" % percent(zeros) if zeros >= _MUCH else "")


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
    held = formula.arguments([(number, 0) for number in range(len(given))])
    arguments = [one.array if isinstance(one, Value) else one for one in held]
    calls = [Call(replace(formula.node, name=name), arguments)]
    for node in formula.then:
        before = len(given) + len(calls) - 1
        calls.append(Call(replace(node, name=name), [(before, 0)]))
    numbers = tuple(range(len(given), len(given) + len(calls)))
    key = (numbers[-1], 0 if formula.then else formula.output)
    piece = Piece(Cut(numbers, (), (), (), ()), _Chain(calls, len(given)), numbers, output.dtype)
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
