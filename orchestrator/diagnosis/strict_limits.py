"""Limits of the user's own that are stricter than rounding: right operators miss them."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Tuple

from ..judging.by_limits import by_defaults, subject_of
from ..judging.computed import RIGHT, Judged
from ..judging.limits import Limits
from ..metrics.row import WORST_SLICE, Row
from ..tensors.rounding import ROUNDING
from .inputs import Inputs
from .observations import ObservedOp
from .seen import COSINE, DISTANCE
from .words import percent


class TooStrict(NamedTuple):
    """That a row misses limits by rounding alone.

    Attributes
    ----------
    dtype
        The target's element type.
    rounding
        The relative distance that rounding explains: in the operator, where it was computed again,
        else at most.
    computed
        Whether every operator up to the row was computed again.
    missed
        The limits, as ``--limit`` takes them.
    defaults
        The default limits of the same metrics.
    """

    dtype: str
    rounding: float
    computed: bool
    missed: Tuple[str, ...]
    defaults: Tuple[str, ...]

    def sentence(self, suspects: bool) -> str:
        """Return the end of the sentence about the row, and what to do.

        Parameters
        ----------
        suspects
            Whether other operators are.
        """
        if self.computed:
            why = (
                "every operator up to it was computed again from the device's own inputs and is "
                "right; rounding in this one explains %s"
            )
        else:
            why = "rounding to " + self.dtype + " alone may make %s"
        found = "; %s: the limit is stricter than the rounding of %s%s." % (
            why % percent(self.rounding), self.dtype,
            "" if suspects else ", and no operator need be wrong"
        )  # fmt: skip
        if not self.defaults:
            return found + " Healthy networks keep to the default limits."
        return found + " Healthy networks of %s keep to the default, %s." % (
            self.dtype,
            " and ".join(self.defaults),
        )


def too_strict(
    first: Row, op: ObservedOp, limits: Limits, inputs: Inputs, judged: Mapping[Any, Judged]
) -> Optional[TooStrict]:
    """Tell whether a run's first failing row misses limits of the user's own by rounding alone;
    None where it does not.

    Parameters
    ----------
    op
        Of the row.
    limits
        Those in force.
    judged
        What computing again says of outputs, by place, op and number.
    """
    dtype = first.target_dtype or ""
    if dtype not in ROUNDING or not first.decided_by or by_defaults(first.decided_by):
        return None
    missed = [limit for limit in limits.entries if str(limit) in first.decided_by.split("; ")]
    if not missed:
        # Those of statistics are others.
        return None
    own = (
        judged.get((op.place, op.name, first.tensor_index or 0)) if first.kind == "output" else None
    )
    most = ROUNDING[dtype].half_unit
    rounding = (
        own.own.explained
        if own is not None and own.own is not None and _all_right(op, inputs, judged)
        else None
    )
    if rounding is None and not all(_within(limit.metric, first, most) for limit in missed):
        return None
    metrics = {limit.metric for limit in missed}
    usual = (limit for limit in Limits().for_subject(subject_of(first)) if limit.metric in metrics)
    defaults = tuple("%s%s%.9g" % (limit.metric, limit.comparison, limit.value) for limit in usual)
    return TooStrict(
        dtype,
        most if rounding is None else rounding,
        rounding is not None,
        tuple(map(str, missed)),
        defaults,
    )


def _all_right(op: ObservedOp, inputs: Inputs, judged: Mapping[Any, Judged]) -> bool:
    """Tell whether an operator and all before it make of the device's own inputs what they should,
    and the network was fed alike.
    """
    for one in (op, *inputs.before(op)):
        for number, output in one.outputs.items():
            found = judged.get((one.place, one.name, number))
            if not output.compared or (
                output.different and (found is None or found.state != RIGHT or found.assumed)
            ):
                return False
        for state in inputs.of_network(one):
            if state.seen is not None and not state.seen.distance <= _half_unit(state.seen.dtype):
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
