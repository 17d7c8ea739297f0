"""Rows of an operator's input that a mask excludes throughout: what a Softmax makes of them is
undefined, NaN by ONNX.
"""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from ...base.wording import listed, plural
from .observed_ops import ObservedOp
from .op_input_states import Inputs, InputState
from .own_error.estimate import Estimate
from .recompute_without_model import TensorReader

Array = Any

_SHOWN = 3


def masked_rows(estimate: Estimate, inputs: Inputs, reader: TensorReader) -> str:
    """Return which rows of the operator's input hold -Inf throughout, where golden data of its
    output are NaN there and nowhere else, and the tensor that is the mask; empty where that is not
    so.
    """
    made = reader.pair(estimate.op, estimate.output)
    if made is None or made.sampled:
        return ""
    undefined = np.isnan(np.asarray(made.golden, np.float64))
    for state in estimate.inputs:
        excluded = _excluded(state, reader)
        if excluded is None or excluded.shape != undefined.shape:
            continue
        for axis in reversed(range(excluded.ndim)):
            if excluded.shape[axis] == 1:
                continue
            throughout = excluded.all(axis, keepdims=True)
            if throughout.any() and np.array_equal(
                np.broadcast_to(throughout, undefined.shape), undefined
            ):
                rows = np.argwhere(throughout.squeeze(axis))
                places = [str([int(part) for part in place]) for place in rows]
                return "%s of %s along axis %d, %s, %s -Inf throughout%s" % (
                    plural(len(rows), "row"),
                    state.tensor,
                    axis,
                    listed(places, _SHOWN),
                    "is" if len(rows) == 1 else "are",
                    _mask(estimate.op, state, inputs, reader),
                )
    return ""


def _excluded(state: InputState, reader: TensorReader) -> Optional[Array]:
    if state.owner is None or state.observation is None:
        return None
    pair = reader.pair(state.owner, state.observation)
    return None if pair is None or pair.sampled else np.isneginf(pair.golden)


def _mask(op: ObservedOp, state: InputState, inputs: Inputs, reader: TensorReader) -> str:
    """Return which input of the operator before makes them so; empty where it is not one."""
    found: List[str] = []
    for before in inputs.before(op):
        for fed in inputs.of(before) if before.name == state.source else ():
            excluded = _excluded(fed, reader)
            if excluded is not None and excluded.any():
                found.append(fed.tensor)
    return " by the mask %s" % found[0] if len(found) == 1 else ""
