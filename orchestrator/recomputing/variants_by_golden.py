"""What a device computed instead where the original model is not known: other ways than the one by
which golden outputs follow from golden inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

import numpy as np

from ..metrics.patterns import AlignedPair
from ..operators import Arithmetic, Value
from ..operators.registry import UNFIT
from ..operators.variants import AS_IT_IS
from .explained_or_written import explained_or_written
from .formulas_by_type import LOOSE, TIGHT, NodeFormula, is_fitted
from .formulas_fitted_to_golden import (
    by_attributes,
    confirmed_formula,
    confirmed_node,
    shaped,
    sides_of,
    with_formula_error,
)
from .original_nodes import Call, Nodes
from .output_error import OwnError, own_error
from .piece import Piece
from .submodel.cut_definition import Cut
from .variant_search import Explained, Instead, VariantSearch, search_variants
from .variant_trials import Output
from .written import Written

if TYPE_CHECKING:
    from .attributes_and_constants import AttributesAndConstants

Array = Any
Judge = Callable[[OwnError, bool], float]

_ELEMENT_S = 2e-8
"""Roughly what computing one element takes; measured of vector operators as the budget of variants
counts it."""

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
    judge
        Returns by how many times an error exceeds what is allowed, of values that are only moved
        (True) or not.
    """
    sides = sides_of(inputs, output)
    if sides is None or is_fitted(op_type, len(inputs)):
        return None
    goldens, targets = sides
    try:
        with np.errstate(all="ignore"):
            formula, off = confirmed_node(op_type, goldens, np.asarray(output.golden), output.dtype)
            if formula is not None:
                return _searched(name, formula, off, targets, output, judge)
    except UNFIT:
        pass
    return None


def as_json_says(
    op_type: str,
    inputs: Sequence[AlignedPair],
    output: AlignedPair,
    facts: Optional[AttributesAndConstants],
    judge: Judge,
) -> Optional[VariantSearch]:
    """Return that a device computes what the json's attributes say, where golden data do not follow
    by these; else None. Parameters as of :func:`variants_by_golden`.

    Parameters
    ----------
    facts
        What the model's json and the dump tell of the operator.
    """
    sides = sides_of(inputs, output)
    if sides is None or facts is None or not facts.attributes:
        return None
    goldens, targets = sides
    try:
        with np.errstate(all="ignore"):
            known, _ = confirmed_formula(
                op_type, goldens, np.asarray(output.golden), facts, output.dtype
            )
            for formula in by_attributes(op_type, facts) if known is None else ():
                for arithmetic in (TIGHT.get(output.dtype, Arithmetic()), LOOSE.get(output.dtype)):
                    if arithmetic is not None:
                        computed = shaped(formula(targets, arithmetic), output.target.shape)
                        error = own_error(output.target, computed, output.dtype)
                        if judge(error, False) <= 1.0:
                            return VariantSearch([], [], instead=_of_json(facts))
    except UNFIT:
        pass
    return None


def _of_json(facts: AttributesAndConstants) -> Instead:
    told = ", ".join("%s %s" % pair for pair in sorted(facts.attributes.items()))
    return Instead(
        "attribute",
        "the device computed what the om's json says (%s), and golden data do not follow from "
        "golden inputs by that: the original model says otherwise, or holds other constants" % told,
        "compare the attributes of its op in the om's json with the original model's",
    )


def _searched(
    name: str,
    formula: NodeFormula,
    off: float,
    targets: Sequence[Value],
    output: AlignedPair,
    judge: Judge,
) -> Optional[VariantSearch]:
    given = formula.read(targets)
    node = replace(formula.node, name=name)
    key = (len(given), 0)
    held = [one.array if isinstance(one, Value) else one for one in formula.extra]
    call = Call(node, [*((number, 0) for number in range(len(given))), *held])
    piece = Piece(Cut((key[0],), (), (), (), ()), _OneNode(call), key[:1], output.dtype)
    incoming = {(number, 0): value.array for number, value in enumerate(given)}
    made = piece.values(incoming, TIGHT.get(output.dtype, Arithmetic()))[key]
    computed = with_formula_error(made, off, output.dtype)
    actual = np.asarray(output.target).reshape(computed.array.shape)
    searched = Output(key, actual, computed, output.dtype)
    elements = actual.size + sum(value.array.size for value in given)
    search = search_variants(
        piece, incoming, searched, judge, _ELEMENT_S * elements, lambda node, place: iter(())
    )
    if not search.explained and not search.possible:
        return None
    search = search._replace(
        explained=[_of_golden(entry) for entry in search.explained],
        possible=[_of_golden(entry) for entry in search.possible],
    )
    written = Written(searched, lambda: (), lambda error: judge(error, False))
    return explained_or_written(search, written)


def _of_golden(entry: Explained) -> Explained:
    """Return an explanation that says where what the model says is known from."""
    if entry.model == AS_IT_IS:
        return entry._replace(
            sentence=entry.sentence.replace(
                "the model has it as it is", "golden data follow from it as it is", 1
            )
        )
    # A scale that is learnt takes up what an epsilon next to nothing does.
    model = entry.model + (_AS_SMALL if entry.name == "epsilon" else "")
    told = "golden data follow with " + model
    return entry._replace(
        sentence=entry.sentence.replace("the model says " + entry.model, told, 1), model=model
    )
