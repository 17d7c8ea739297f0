"""Whether an om holds the parameters of another model than the original: another checkpoint's."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Set, Tuple

from ...dumps.place import Place
from ...recomputing.recomputed_output import OtherShape
from ...recomputing.variant_search import FOLDED, NUMBER, OTHERS, UNKNOWN, VariantSearch
from ...recomputing.variant_trials import OF_DUMP
from ..by_recomputation import RIGHT, WRONG, RecomputationVerdict
from .explanations import Explanation, other_weights
from .observed_ops import ObservedOp, ObservedOps
from .op_input_states import Inputs
from .own_error.estimate import Estimate
from .recompute_without_model import TensorReader

LINEAR = frozenset(
    "conv conv2d conv3d convolution depthwiseconv2d conv2dtranspose conv2dtransposed deconvolution "
    "matmul matmulv2 matmulv3 batchmatmul batchmatmulv2 batchmatmulv3 fullyconnection gemm "
    "innerproduct dense".split()
)
"""Types of operators whose output is wrong wherever an input is, unless their biases rule it."""
_RECURRENT = frozenset("dynamicrnn dynamicrnnv2 dynamicgru dynamicgruv2 lstm gru rnn".split())
_PROVING = (OTHERS, FOLDED)
"""What of an operator's constants shows that an om holds another model's."""
_FEWEST = 2
"""Operators that show it; one where golden data were made of a file of another name."""
_NEARLY_ALL, _HALF = 0.7, 0.5
"""Of the operators with weights, what differs at least in an om of other parameters (half of them
where golden data were made of a file of another name; of those that differ, half by other
parameters), and of the others what agrees. Of 30 oms of networks with 2 to 22 operators with
weights whose numbers are off by 3 to 100 % each shows all; of three projections of four in an
attention block that are others it is 3 of 4; of one to half of the operators wrong by themselves,
in 12 oms, at most 2 of 3.
"""


def of_another_model(
    estimates: Sequence[Estimate],
    searches: Dict[int, VariantSearch],
    observed: ObservedOps,
    inputs: Inputs,
    reader: TensorReader,
    verdicts: Mapping[Tuple[Place, str, int], RecomputationVerdict],
) -> Dict[int, Explanation]:
    """Return, by the number of its estimate, of each operator with other parameters than the
    model's that the om holds another model's; nothing where it does not.

    That is asked of the whole om: whether nearly all operators with weights differ, by other
    parameters, and nearly all others agree with what is computed of their inputs. One alone proves
    nothing: it may be wrong.

    Parameters
    ----------
    estimates
        Of the suspects.
    searches
        What the device may have computed instead, by number of the estimate; where the first ones
        show other parameters, those of all others are added.
    observed, inputs, reader, verdicts
        As of :func:`.explain_suspects.with_explanations`.
    """
    others = [number for number, search in searches.items() if search.constants in _PROVING]
    if not others:
        return {}
    place = estimates[others[0]].op.place
    files = reader.other_file(place)
    _search_all(estimates, searches, reader)
    found: Dict[str, List[str]] = {}
    for number, search in searches.items():
        found.setdefault(estimates[number].op.name, []).append(_whose_constants(search))
    proving = [name for name, kinds in found.items() if {*kinds} & {*_PROVING}]
    ops = {op.name: op for op in observed.at_place(place)}
    at_place = {name: one for (at, name, _), one in verdicts.items() if at == place and name in ops}
    # Of another shape than what the model computes, or the weights that it holds.
    shapes = {
        name: one.reason
        for name, one in at_place.items()
        if one.code == OtherShape.code and ops[name].type.lower() in LINEAR
    }
    of_shapes = [number for number, search in searches.items() if search.other_shape]
    shapes.update((estimates[number].op.name, searches[number].other_shape) for number in of_shapes)
    weighted = {op.name for op in ops.values() if _has_weights(op, inputs)} | {*proving, *shapes}
    by_parameters = {
        name
        for name, kinds in found.items()
        if all(kinds) and (name in weighted or NUMBER in kinds)
    } | {*shapes}
    right = _named(RIGHT, place, verdicts)
    wrong = _named(WRONG, place, verdicts) & {*ops}
    right = (right & {*ops}) - wrong
    differing = (wrong | by_parameters) & weighted
    of_weighted = len(right & weighted | differing)
    without = {
        name
        for name in (right | wrong) - weighted - by_parameters
        if not _reads_constants(ops[name], inputs)
    }
    least = _NEARLY_ALL if files is None else _HALF
    if (
        len({*proving, *shapes}) < (_FEWEST if files is None else 1)
        or len(differing) < least * of_weighted
        or len(differing & by_parameters) < _HALF * len(differing)
        # One of few may be wrong by itself.
        or len(without & wrong) > max(1.0, (1.0 - _NEARLY_ALL) * len(without))
    ):
        return {}
    by_folding = files is None and not shapes and all(OTHERS not in found[op] for op in proving)
    counted = len(differing), of_weighted, len(without & right), len(without)
    shown = [op for op in ops if op in proving]
    told = {}
    for number, search in searches.items():
        name = estimates[number].op.name
        if name in by_parameters:
            own = shapes.get(name) or _right_with(search)
            told[number] = other_weights(name, shown, own, shapes, counted, files, by_folding)
    return told


def _search_all(
    estimates: Sequence[Estimate], searches: Dict[int, VariantSearch], reader: TensorReader
) -> None:
    """Add what the device may have computed instead of each operator that was not searched."""
    for number, estimate in enumerate(estimates):
        if number not in searches and estimate.computed is not None and not estimate.decides:
            search = reader.variants(estimate.op, estimate.output, estimate.inputs)
            if search is not None:
                searches[number] = search


def _whose_constants(search: VariantSearch) -> str:
    """Return how other constants explain an operator; empty where something else does."""
    if search.other_shape:
        return OTHERS
    return "" if search.constants == UNKNOWN and search.instead is not None else search.constants


def _named(
    state: str, place: Place, verdicts: Mapping[Tuple[Place, str, int], RecomputationVerdict]
) -> Set[str]:
    """Return the operators of a place an output of which is right, or wrong."""
    return {name for (at, name, _), one in verdicts.items() if at == place and one.state == state}


def _has_weights(op: ObservedOp, inputs: Inputs) -> bool:
    """Tell whether an operator multiplies what comes in by constants: not by another tensor."""
    kind = op.type.lower()
    return kind in _RECURRENT or (kind in LINEAR and len(inputs.of(op)) == 1)


def _reads_constants(op: ObservedOp, inputs: Inputs) -> bool:
    """Tell whether an operator reads more than what others compute."""
    node = inputs.node(op)
    return node is not None and len(node.inputs) > len(inputs.of(op))


def _right_with(search: VariantSearch) -> str:
    """Return with which constants an operator is right; empty where that is not known."""
    if search.constants not in _PROVING:
        return search.explained[0].sentence if search.constants == NUMBER else ""
    if search.explained[0].device.startswith(OF_DUMP):
        return "with the weights of its own dump the operator is right"
    kind = "weights" if search.constants == OTHERS else "constants"
    return "with other %s the operator is right" % kind
