"""Why an operator's output is off: a lack of precision, which float32 mends, or something else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Dict, Mapping, Optional, Tuple

import numpy as np

from ...base.fast_dataclasses import dataclass
from ...judging.by_recomputation import RIGHT, WRONG, RecomputationVerdict, excess
from ...judging.diagnosis.explain_suspects import with_explanations
from ...judging.diagnosis.observed_ops import ObservedOp, ObservedOps
from ...judging.diagnosis.op_input_states import Inputs
from ...judging.diagnosis.own_error.estimate import ALL as ALL_ELEMENTS
from ...judging.diagnosis.own_error.estimate import HIGHEST_SCORE, Estimate, ShownBy
from ...judging.diagnosis.own_error.normal_error import Normal
from ...judging.diagnosis.suspects import HIGH, Suspect
from ...model.op_node import OpNode
from ...recomputing.beside_golden import MASK
from ...recomputing.recomputed_output import PRODUCT, OutputBesideGolden, Recomputed
from ...run.tensor_reader import RunReader
from ...tensors.type_precision import ROUNDING
from .choosing_ops import UNBOUNDED, ErrorNetwork
from .own_errors import NARROW, OutputErrors

ROUNDED, CANCELLING, OVERFLOW, COARSE_SUMS, APPROXIMATE, UNDERFLOW, SHORTENED = (
    "rounding", "cancelling", "overflow", "coarse sums", "approximation", "underflow",
    "shortened factors",
)  # fmt: skip
"""Why an operator's output is off that float32 would mend."""

_BY_PRECISION = {"rounding": ROUNDED, "overflow": OVERFLOW, "flush-to-zero": UNDERFLOW}
"""Kinds of explanations (docs/reference/verdict.md) that float32 mends."""
_APPROXIMATED = (
    "exp", "log", "tanh", "sigmoid", "gelu", "erf", "sqrt", "pow", "softmax", "norm", "swish",
    "silu", "mish", "elu", "softplus", "div",
    "reciprocal", "sin", "cos", "atan", "lstm", "gru", "rnn",
)  # fmt: skip
"""Words in the types of operators whose kernels approximate a function."""
_APPROXIMATE_MOST = 0.2
"""Up to this distance an error that no explanation fits may be an approximation's."""
_NEARLY_ONE = 2.0**-8
"""A common factor nearer to 1 than this is rounding toward zero, no wrong scale."""
_AMPLIFIED = 8.0
"""An error that comes out so many times as large was part of a difference that cancels."""
_INSIDE = "a constant or a value inside of it comes to %.3g, beyond the largest number of %s"
_BEYOND = "values beyond the largest number of %s became Inf or were cut off"


@dataclass(frozen=True)
class OpPrecision:
    """What is known of the precision of one operator.

    Attributes
    ----------
    name, type, originals
        The device's op, its Ascend IR type, and the original nodes that it was made from (empty:
        the compiler put it in).
    dtype
        The coarsest element type of its outputs.
    own
        Its own error: relative distance of its output from what float32 makes of its inputs.
    cause
        Why float32 would mend it, one of the causes above; empty where it would not.
    sentence
        What was found.
    wrong
        Whether it is wrong beyond the rounding of its type.
    estimated
        It could not be computed: its error is what its inputs' do not explain.
    product
        It adds products.
    explained
        Whether what makes it wrong is known; else float32 may mend it, or not.
    """

    name: str
    type: str
    originals: Tuple[str, ...]
    dtype: str
    own: float
    cause: str
    sentence: str = ""
    wrong: bool = False
    estimated: bool = False
    product: bool = False
    explained: bool = True


class Causes:
    """Tells what the errors of operators come from.

    Parameters
    ----------
    seen, inputs
        The operators of one place.
    reader
        Reads their tensors again.
    """

    def __init__(self, seen: ObservedOps, inputs: Inputs, reader: RunReader) -> None:
        self._seen, self._inputs, self._reader = seen, inputs, reader

    def of(
        self,
        node: OpNode,
        op: ObservedOp,
        dtype: str,
        errors: Mapping[int, OutputErrors],
        states: Mapping[int, Optional[RecomputationVerdict]],
        computed: Mapping[int, Optional[Recomputed]],
    ) -> OpPrecision:
        """Return what is known of an operator.

        Parameters
        ----------
        dtype
            The coarsest element type of its outputs.
        errors, states, computed
            By number of an output: its errors, what computing again says of it, and what it was
            compared with.
        """
        originals = tuple(node.originals) if node.original_names != () else ()
        own = max((one.own for one in errors.values()), default=0.0)
        product = any(one is not None and one.kind == PRODUCT for one in computed.values())
        plain = OpPrecision(node.name, node.type, originals, dtype, own, ROUNDED, product=product)
        known = [one for one in states.values() if one is not None and one.own_error is not None]
        wrong = [number for number, one in states.items() if one is not None and one.state == WRONG]
        if wrong:
            first = wrong[0]
            beside = errors[first].beside if first in errors else None
            shown = _arithmetic(plain, beside, computed[first])
            return shown or self._by_pattern(plain, op, first, states[first], beside)
        if known and all(one.state == RIGHT for one in known):
            return plain
        return _not_computed(plain, errors, states)

    def _by_pattern(
        self,
        plain: OpPrecision,
        op: ObservedOp,
        number: int,
        state: Optional[RecomputationVerdict],
        beside: Optional[OutputBesideGolden],
    ) -> OpPrecision:
        """Return what the pattern of a wrong output's error tells."""
        row = op.outputs[number]
        estimate = Estimate(
            op,
            row,
            self._inputs.of(op),
            True,
            row.distance,
            0.0,
            0.0,
            0.0,
            HIGHEST_SCORE,
            ShownBy(ALL_ELEMENTS, row.distance, 0.0, 0.0),
            False,
            Normal(1.0, 0.0, 1.0, 0, True),
            computed=state,
        )
        suspect = Suspect(op.name, op.type, row.tensor, op.place, HIGHEST_SCORE, HIGH, "")
        explained = with_explanations([(suspect, estimate)], self._seen, self._inputs, self._reader)
        entries = explained[0].explanations
        for entry in entries:
            cause = _BY_PRECISION.get(entry.kind)
            if cause is None and entry.kind == "scale" and _is_truncation(beside):
                cause = ROUNDED
            if cause is None and entry.kind == "saturation" and _is_cut_at_the_largest(beside):
                cause = OVERFLOW
            if cause is not None:
                return replace(plain, cause=cause, sentence=entry.sentence, wrong=True)
            if entry.share > 0:
                sentence = "%s: %s" % (entry.kind, entry.sentence)
                return replace(plain, cause="", sentence=sentence, wrong=True)
        approximates = any(
            word in name.lower()
            for name in (plain.type, *plain.originals)
            for word in _APPROXIMATED
        )
        if approximates and plain.own <= _APPROXIMATE_MOST:
            sentence = "off by %.2g, which nothing but a coarse approximation explains" % plain.own
            return replace(plain, cause=APPROXIMATE, sentence=sentence, wrong=True)
        sentence = entries[0].sentence if entries else "what its error looks like is not known"
        return replace(plain, cause="", sentence=sentence, wrong=True, explained=False)


def with_refined_causes(
    ops: Mapping[str, OpPrecision], network: ErrorNetwork
) -> Dict[str, OpPrecision]:
    """Return the same operators; the cause of those that only round is an overflow or
    cancelling where their values or the operators behind them make that of it.
    """
    beyond_type = {one.op for one in network.tensors if one.rounding >= UNBOUNDED}
    told = dict(ops)
    for name, one in ops.items():
        if one.cause == ROUNDED and name in beyond_type:
            told[name] = replace(one, cause=OVERFLOW)
        elif one.cause == ROUNDED and network.amplification(name) > _AMPLIFIED:
            told[name] = replace(one, cause=CANCELLING)
    return told


def _not_computed(
    plain: OpPrecision,
    errors: Mapping[int, OutputErrors],
    states: Mapping[int, Optional[RecomputationVerdict]],
) -> OpPrecision:
    """Return what the errors alone tell of an operator that could not be computed again."""
    every = errors.values()
    if any(one.rounding >= UNBOUNDED and one.own >= UNBOUNDED for one in every):
        sentence = _BEYOND % plain.dtype
        return replace(plain, cause=OVERFLOW, sentence=sentence, wrong=True, estimated=True)
    roundings = max((one.rounding for one in every), default=0.0)
    if any(one.spoiled for one in every) or plain.own <= 4.0 * roundings:
        return replace(plain, estimated=True)
    reasons = (one.reason for one in states.values() if one is not None and one.reason)
    reason = next(reasons, "it could not be computed again")
    return replace(plain, cause="", sentence=reason, estimated=True)


def _arithmetic(
    plain: OpPrecision, beside: Optional[OutputBesideGolden], computed: Optional[Recomputed]
) -> Optional[OpPrecision]:
    """Return what is known of an operator whose values, or whose sums, its type is too coarse for;
    None where that is not why it is wrong.
    """
    if beside is not None and _is_overflow(beside):
        return replace(plain, cause=OVERFLOW, sentence=_BEYOND % beside.dtype, wrong=True)
    if (
        beside is not None
        and beside.dtype in NARROW
        and ROUNDING[beside.dtype].largest < beside.inner < MASK
    ):
        sentence = _INSIDE % (beside.inner, beside.dtype)
        return replace(plain, cause=OVERFLOW, sentence=sentence, wrong=True)
    if computed is not None and computed.loose is not None and excess(computed.loose) <= 1.0:
        cause = SHORTENED if beside is not None and beside.dtype not in NARROW else COARSE_SUMS
        sentence = (
            "it is what its arithmetic makes where it rounds inside of the operator too, "
            "which others of its kind do not"
        )
        return replace(plain, cause=cause, sentence=sentence, wrong=True)
    return None


def _is_overflow(beside: OutputBesideGolden) -> bool:
    """Tell whether all that is wrong are values beyond the type's largest number."""
    largest = _largest(beside)
    with np.errstate(all="ignore"):
        x, y = (np.asarray(side, np.float64) for side in (beside.actual, beside.exact))
        beyond_largest = np.abs(y) > largest
        odd = ~np.isfinite(x) & np.isfinite(y)
        cut = beyond_largest & np.isfinite(x) & (np.abs(x) >= 0.98 * largest)
        if not (odd & beyond_largest).any() and not cut.any():
            return False
        rest = ~beyond_largest & np.isfinite(x) & np.isfinite(y)
        off = float(np.linalg.norm((x - y)[rest]))
    return not (odd & ~beyond_largest).any() and off <= 0.1 * max(
        float(np.linalg.norm(y[rest])), largest
    )


def _is_cut_at_the_largest(beside: Optional[OutputBesideGolden]) -> bool:
    return beside is not None and bool(
        np.abs(beside.actual).max(initial=0.0) >= 0.98 * _largest(beside)
    )


def _largest(beside: OutputBesideGolden) -> float:
    return ROUNDING[beside.dtype].largest if beside.dtype in NARROW else math.inf


def _is_truncation(beside: Optional[OutputBesideGolden]) -> bool:
    """Tell whether an output is off by a factor as near to 1 as rounding toward zero makes it."""
    if beside is None:
        return False
    x, y = (np.asarray(side, np.float64).reshape(-1) for side in (beside.actual, beside.exact))
    size = float(y @ y)
    return size > 0 and abs(float(x @ y) / size - 1.0) <= _NEARLY_ONE * (
        8.0 if beside.dtype == "bfloat16" else 1.0
    )
