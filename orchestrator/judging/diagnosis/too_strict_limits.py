"""Limits set by the user that are stricter than rounding, which right operators miss."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ...metrics.row import WORST_SLICE, Row
from ...tensors.type_precision import ROUNDING
from ..by_recomputation import RIGHT, RecomputationVerdict
from ..limits import Limits
from ..row_judge import only_default_limits_missed, subject_of
from .first_divergence import TooStrict
from .observed_ops import ObservedOp
from .op_input_states import Inputs
from .row_digest import COSINE, DISTANCE


def too_strict(
    first: Row,
    op: ObservedOp,
    limits: Limits,
    inputs: Inputs,
    verdicts: Mapping[Any, RecomputationVerdict],
) -> Optional[TooStrict]:
    """Tell whether a run's first failing row misses limits of the user's own by rounding alone;
    None where it does not.

    Parameters
    ----------
    op
        Of the row.
    limits
        Those in force.
    verdicts
        What computing again says of outputs, by place, op and number.
    """
    dtype = first.target_dtype or ""
    if (
        dtype not in ROUNDING
        or not first.decided_by
        or only_default_limits_missed(first.decided_by)
    ):
        return None
    missed = [limit for limit in limits.entries if str(limit) in first.decided_by.split("; ")]
    if not missed:
        # Those of statistics are others.
        return None
    verdict = (
        verdicts.get((op.place, op.name, first.tensor_index or 0))
        if first.kind == "output"
        else None
    )
    half_unit = ROUNDING[dtype].half_unit
    rounding = (
        verdict.own_error.explained
        if verdict is not None
        and verdict.own_error is not None
        and _all_right(op, inputs, verdicts)
        else None
    )
    if rounding is None and not all(_within(limit.metric, first, half_unit) for limit in missed):
        return None
    metrics = {limit.metric for limit in missed}
    usual = (limit for limit in Limits().for_subject(subject_of(first)) if limit.metric in metrics)
    defaults = tuple("%s%s%.9g" % (limit.metric, limit.comparison, limit.value) for limit in usual)
    return TooStrict(
        dtype,
        half_unit if rounding is None else rounding,
        rounding is not None,
        tuple(map(str, missed)),
        defaults,
    )


def _all_right(
    op: ObservedOp, inputs: Inputs, verdicts: Mapping[Any, RecomputationVerdict]
) -> bool:
    """Tell whether an operator and all before it make of the device's own inputs what they should,
    and the network was fed alike.
    """
    for observed_op in (op, *inputs.before(op)):
        for number, output in observed_op.outputs.items():
            verdict = verdicts.get((observed_op.place, observed_op.name, number))
            if not output.compared or (
                output.different and (verdict is None or verdict.state != RIGHT or verdict.assumed)
            ):
                return False
        for state in inputs.of_network(observed_op):
            if state.observation is not None and not state.observation.distance <= _half_unit(
                state.observation.dtype
            ):
                return False
    return True


def _half_unit(dtype: str) -> float:
    return ROUNDING[dtype].half_unit if dtype in ROUNDING else 0.0


def _within(metric: str, row: Row, most: float) -> bool:
    """Tell whether one rounding of each value makes as much of a difference, by a metric that tells
    of the whole tensor or of slices.
    """
    value = row.metrics.get(metric)
    if metric not in (DISTANCE, WORST_SLICE, COSINE) or not isinstance(value, float):
        return False
    return 1.0 - value <= most**2 / 2.0 if metric == COSINE else value <= most
