"""Operators that decide (ArgMax, comparisons, casts to integers …): how many of their decisions the error of their inputs can change.

A decision near a tie changes with the rounding of its inputs, and few are near one: of values of N(0, 1) with a relative error d a
comparison changes 0.32·d of its decisions, ArgMax over 2 to 1000 values 0.3·d to 2.5·d, an index of TopK up to 0.3·k·d, a cast of values
of root mean square v 0.8·v·d (measured for d from 1e-4 to 1e-2). Eight times that is allowed. Where the tensors can be read again, the
decision is made once more from the device's own inputs (:mod:`goldwatch.comparing.decisions`), which needs no such number.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence

import numpy as np

from ...comparing.decisions import ARG, COMPARE, ORDER, SIGN, STEP, Redone
from ..seen import Observation
from .expected import RARE_SPREAD, SUSPECT_SCORE, rounding

_TIMES = 8.0
_SURE = 14.0
_MORE = 3.0


class Decision(NamedTuple):
    """What the decisions of one output say about its operator.

    Attributes
    ----------
    share, expected
        Of the decisions that differ from golden data, and that the inputs' error may change at most; NaN where it is not known.
    score
        As of any operator.
    redone
        None where the tensors could not be read again, or the golden decisions do not follow from golden inputs as they should.
    """

    share: float
    expected: float
    score: float
    redone: Optional[Redone] = None


def orders(op_type: str) -> bool:
    """Tell whether an operator orders values (TopK, Sort): the values that it gives are continuous, their indices are not."""
    return op_type.lower() in ORDER


def decided(op_type: str, output: Observation, inputs: Sequence[Observation], fed: float) -> Decision:
    """Judge an output by the share of its decisions that differ.

    Parameters
    ----------
    output, inputs
        The rows.
    fed
        The inputs' relative distance together.
    """
    rounded = max([rounding(row.dtype) for row in inputs], default=0.0)
    expected = _expected(op_type.lower(), output, math.hypot(fed, rounded))
    share = output.share
    if math.isnan(expected) or not output.different:
        return Decision(share, expected, 0.0)
    score = 0.0
    if share > _MORE * expected:
        # Chernoff's bound on so many independent decisions near a tie.
        count = float(np.prod(output.shape)) if output.shape else 1.0
        score = SUSPECT_SCORE / _SURE * count * (share * math.log(share / expected) - share + expected)
    if op_type.lower() in STEP | SIGN and output.rms > 0 and output.distance > 0:
        allowed = math.sqrt(fed * fed + min(1.0, expected) / output.rms**2)
        score = max(score, math.log(output.distance / allowed) / RARE_SPREAD) if allowed else score
    return Decision(share, expected, score)


def _expected(name: str, output: Observation, distance: float) -> float:
    """Return the largest share of decisions that inputs of this distance may change; NaN where one change may move all others (NMS)."""
    if name in COMPARE or name in SIGN:
        rate = 0.32
    elif name in ARG:
        rate = 2.5
    elif name in ORDER:
        rate = 2.5 + 0.3 * (output.shape[-1] if output.shape else 1)
    elif name in STEP:
        rate = 0.8 * max(1.0, output.rms) if output.rms == output.rms else math.nan
    else:
        return math.nan
    return min(1.0, _TIMES * rate * distance)
