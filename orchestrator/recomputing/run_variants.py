"""What a device wrote in place of what an operator computes, whatever the operator: values of
another tensor, of the first sample, its own in another order or by a factor, or nothing from some
element on.
"""

from __future__ import annotations

import math
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..operators import Arithmetic, CannotCompute, Node, Value
from ..operators.registry import TENSORFLOW
from ..operators.variants import ACTIVATIONS, Function, Variant
from .factors_and_offsets import by_numbers
from .fewer_bits import (
    GRID_BITS,
    STEPS,
    from_table,
    in_eight_bits,
    in_fewer_bits,
    in_narrow_type,
    within_parts,
)
from .other_order import ANCHOR, further_on, rearranged, shifted
from .output_error import own_error
from .parts_not_written import (
    below_threshold,
    borders_not_written,
    first_index,
    indices_not_written,
    not_written,
    one_value,
)
from .variant_search import UNLIKELY_BITS, Instead
from .variant_trials import BITS_OF_A_DIGIT, CHANCE_BITS, agreeing, told_bits
from .written import (
    FAR_OFF,
    FEWEST_ELEMENTS,
    Written,
    agreement_with,
    explains,
    holds_the_same,
    is_told,
    some_elements,
)

_FUNCTIONS = (
    Function("Abs"),
    Function("Sqrt"),
    Function("Square", dialect=TENSORFLOW),
    Function("Reciprocal"),
    Function("Exp"),
    Function("Log"),
)
"""Other functions that may follow."""


def _of_another(written: Written) -> Iterator[Instead]:
    actual = written.output.actual
    for name, values in written.others():
        first = np.reshape(values, -1)[: actual.size]
        if holds_the_same(actual, first) and is_told(
            written, Value(np.reshape(first, actual.shape)), 4.0
        ):
            some = "the first of the %s elements that" % format(values.size, ",")
            yield Instead(
                "other-tensor",
                "its output holds %s %s computed, element by element"
                % ("what" if values.size == actual.size else some, name),
                "look at the memory that both use in the compiled model (offsets, reuse), whether "
                "the operator ran this time, and at the order of inputs and outputs around it",
            )
            return


def _with_activation(written: Written) -> Iterator[Instead]:
    output = written.output
    if output.computed.array.dtype.kind != "f" or not np.any(output.actual):
        return
    few = some_elements(output.actual, output.computed)
    for entry in (*ACTIVATIONS, *_FUNCTIONS):
        if not entry.kind:
            continue
        node = Node(entry.dialect, entry.kind, entry.attributes, "", 20)
        activation = Variant("", "", "", node)
        try:
            (value,) = activation.compute([few[1]], Arithmetic())
            if not written.judge(own_error(few[0], value, output.dtype)) <= FAR_OFF:
                continue
            (value,) = activation.compute([output.computed], Arithmetic())
        except CannotCompute:
            continue
        if explains(written, value, np.log2(len(ACTIVATIONS) + len(_FUNCTIONS))):
            agree = np.count_nonzero(agreeing(output, value))
            number = next(by_numbers(written), None) if agree < output.actual.size else None
            if number is not None and not number.several and number.agree > agree:
                # Times 1.05 is about what Selu does, whose factor is 1.0507.
                return
            yield Instead(
                "activation",
                "the device computed %s behind it, which the model does not have there (%s)"
                % (entry.text, agreement_with(written, value)),
                "compare what was fused into the operator in the model's json with the original "
                "model",
            )
            return


class Search(NamedTuple):
    """What is looked for.

    Attributes
    ----------
    words
        What it is.
    find
        Yields what was found.
    bits
        Returns how many bits an output has to tell at least, by its number of elements.
    """

    words: str
    find: Callable[[Written], Iterator[Instead]]
    bits: Callable[[int], float] = lambda size: 0.0


def _of_two_parts(size: int) -> float:
    return 0.0 if size >= 2 * FEWEST_ELEMENTS else math.inf


FIRST_INDEX = Search("the first index of an axis for all", first_index)
OF_ANOTHER: Sequence[Search] = (Search("the output of another operator", _of_another),)
PARTS: Sequence[Search] = (
    Search("indices that were not written", indices_not_written, _of_two_parts),
    Search("borders that were not written", borders_not_written, _of_two_parts),
    Search("a part that was not written", not_written, _of_two_parts),
)
WRITTEN_INSTEAD: Sequence[Search] = (
    Search("one value throughout", one_value),
    Search("whole numbers of fewer bits", in_fewer_bits, lambda size: 10.0),
    Search("indices within parts", within_parts, lambda size: 10.0),
    FIRST_INDEX,
    Search("an activation behind it", _with_activation, lambda size: 5.0),
    *OF_ANOTHER,
    # What is written in another order looks, in part, as if it were further on in memory or not
    # written.
    Search("its values in another order", rearranged, lambda size: 6.0),
    Search(
        "its values further on in memory",
        further_on,
        lambda size: math.log2(max(1, size)) if size >= 4 * ANCHOR else math.inf,
    ),
    Search("its values some places further on", shifted, lambda size: 4.0),
    *PARTS,
    Search("numbers of a narrower type", in_narrow_type, lambda size: UNLIKELY_BITS),
    Search(
        "values of 8 bits",
        in_eight_bits,
        lambda size: 0.0 if GRID_BITS * (size - 3) >= 2.0 * CHANCE_BITS else math.inf,
    ),
    Search("values of a table", from_table, lambda size: 0.0 if size >= 4 * STEPS else math.inf),
    Search("elements below a threshold", below_threshold, _of_two_parts),
    Search("factors and offsets", by_numbers, lambda size: BITS_OF_A_DIGIT * 4.0),
)
"""What is looked for, in words, and how."""


def written_instead(
    written: Written, searches: Sequence[Search] = WRITTEN_INSTEAD
) -> Tuple[Optional[Instead], List[str], List[str]]:
    """Return what was written instead, None where nothing is known; what was tried, and what the
    elements are too few to tell.
    """
    tried: List[str] = []
    too_few: List[str] = []
    output = written.output
    most = told_bits(output, Value(output.actual)) - CHANCE_BITS
    for search in searches:
        found = next(search.find(written), None)
        (tried if search.bits(output.actual.size) <= most else too_few).append(search.words)
        if found is not None:
            return found, tried, too_few
    return None, tried, too_few
