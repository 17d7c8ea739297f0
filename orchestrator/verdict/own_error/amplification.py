"""How much larger than its inputs' an operator's relative error may be by what it computes: values cancel, or lie about a large mean."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Sequence

from ..seen import Observation

_ADDING = frozenset("add addv2 addn accumulatenv2 sub biasadd bias".split())
"""An absolute error of one input is one of the output, neither larger nor smaller."""
_NO_GAIN = frozenset(
    """
    Eltwise ReduceMean ReduceMeanD ReduceMax ReduceMaxD ReduceMin ReduceMinD
    AvgPool AvgPoolV2 AvgPoolD MaxPool MaxPoolV2 MaxPoolV3 Pooling GlobalAveragePool AdaptiveAvgPool2d Relu Relu6 ReluV2 LeakyRelu PRelu
    Maximum Minimum ClipByValue Concat ConcatD ConcatV2 ConcatV2D Split SplitD SplitV SplitVD Slice SliceD StridedSlice StridedSliceD
    Gather GatherV2 GatherV2D GatherNd TopK TopKV2 TopKD Select SelectV2 Gelu FastGelu Elu Swish HardSwish
    """.lower().split()
)
"""An absolute error of one input becomes no larger absolute error of the output."""
_SUMS = frozenset("reducesum reducesumd cumsum cumsumd".split())
_CENTRING = frozenset("layernorm layernormv3 instancenorm instancenormv2 groupnorm batchnorm batchnormv3 bninference bninferenced".split())
_EXPONENTIAL = frozenset("softmax softmaxv2 exp".split())
_MASKED = 30.0
_USUAL = 2.0


def amplification(op_type: str, source: Observation, output: Observation) -> float:
    """Return by how much an input's relative error may grow beyond what operators usually do; 1 where nothing is known.

    Below 1 only for sums: a small term's error is a small part of the sum's.

    With the same absolute error the relative one grows by ``rms(input) / rms(output)``: where values cancel (x − mean(x), a mean of centred
    values) there is no limit to it. A normalisation takes the mean off first; exp turns an absolute error into a relative one.

    Parameters
    ----------
    op_type
        In any case.
    source, output
        One input's row and the output's.
    """
    name = _known(op_type)
    if not name:
        return 1.0
    # Indices that are equal bring no error with them, however large they are.
    if source.whole or not source.rms > 0 or not output.rms > 0:
        return 1.0
    if name in _ADDING:
        # What a mask makes of the root mean square says nothing of the scores beside it.
        return 1.0 if output.masked else source.rms / output.rms
    if name in _NO_GAIN:
        grown = source.rms / output.rms
    elif name in _SUMS:
        grown = source.rms / output.rms * max(1.0, _count(source.shape) / max(1.0, _count(output.shape)))
    elif name in _CENTRING:
        grown = source.rms / source.deviation if source.deviation > 0 else math.inf
    elif name in _EXPONENTIAL:
        # Scores behind a mask of -1e4 have no root mean square that says anything.
        grown = source.rms if source.rms < _MASKED else 1.0
    elif name == "log":
        grown = 1.0 / output.rms
    else:
        return 1.0
    return max(1.0, grown / _USUAL)


def may_amplify(op_type: str) -> bool:
    """Tell whether :func:`amplification` may be other than 1 for operators of a type."""
    return _known(op_type) != ""


@lru_cache(maxsize=1024)
def _known(op_type: str) -> str:
    """Return a type in lower case where something is known of it."""
    name = op_type.lower()
    known = _ADDING | _NO_GAIN | _SUMS | _CENTRING | _EXPONENTIAL | {"log"}
    return name if name in known else ""


def _count(shape: Sequence[int]) -> float:
    made = 1.0
    for size in shape:
        made *= size
    return made
