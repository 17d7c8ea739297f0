"""What rounding alone may change: the judged distances are those of the target moved towards the
golden by that much.

Near zero a type's numbers are a fixed step apart, so that rounding moves an element by up to half a
step however small it is: 1e-7 in float16 by 30 %. Where each of n elements may be off by s, the
target may be off by s·√n; the point nearest to the golden y within that distance of the target x is
y + t·(x − y) with t = max(0, 1 − s·√n / ‖x − y‖).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Dict, NamedTuple

from ..tensors.type_precision import rounding_of
from .pair_sums import PairSums

_NEXT_TO_NOTHING = 1e-3
"""Slack that is a smaller part of the golden's norm changes no verdict that means anything;
chosen, no trial."""


class Slack(NamedTuple):
    """What rounding alone may change.

    Attributes
    ----------
    distance
        How far an element may be off, absolute; 0 for none.
    dtype
        The float type that whole numbers on the other side were rounded to; empty for none.
    """

    distance: float = 0.0
    dtype: str = ""


NO_ROUNDING = Slack()


@lru_cache(maxsize=256)
def rounding_slack(target: str, golden: str) -> Slack:
    """Return the slack of two element types, by their names as in the DataType column: half the
    larger step.
    """
    step = max(rounding_of(target).step, rounding_of(golden).step)
    return Slack(step / 2, target if rounding_of(target).step else golden)


def distances_without_slack(sums: PairSums, slack: float) -> Dict[str, float]:
    """Return cosine and relative distance of the target after it is moved towards the golden by the
    slack.

    Parameters
    ----------
    sums
        Of a whole tensor.
    slack
        :attr:`Slack.distance`.

    Returns
    -------
    dict
        Metric name to value; empty where that changes next to nothing, and for magnitudes whose
        squares leave float64.
    """
    if not slack or not sums.dd or sums.ex or sums.ey or sums.ed:
        return {}
    golden, distance, most = math.sqrt(sums.yy), math.sqrt(sums.dd), slack * math.sqrt(sums.n)
    if is_next_to_nothing(most, golden) or (not golden and most < distance):
        return {}
    t = max(0.0, 1.0 - most / distance)
    xy = (1.0 - t) * sums.yy + t * sums.xy
    xx = (1.0 - t) ** 2 * sums.yy + 2.0 * t * (1.0 - t) * sums.xy + t * t * sums.xx
    cosine = (
        1.0
        if t == 0.0
        else max(-1.0, min(1.0, xy / (math.sqrt(xx) * golden)))
        if xx > 0.0
        else math.nan
    )
    return {
        "CosineSimilarity": cosine,
        "RelativeEuclideanDistance": t * distance / golden if t else 0.0,
    }


def is_next_to_nothing(most: Any, golden: Any) -> Any:
    """Tell whether so much slack, as a norm, changes nothing beside a golden tensor of that norm;
    numbers or arrays.
    """
    return most < _NEXT_TO_NOTHING * golden


def slack_text(missed: str, slack: Slack, passes: bool) -> str:
    """Return how a type's rounding explains a missed limit, as a phrase."""
    steps = "%s rounds to steps of %.3g there" % (slack.dtype, 2 * slack.distance)
    return (
        "%s, but %s, which explains it" % (missed, steps)
        if passes
        else "%s, which is left out of what was judged" % steps
    )
