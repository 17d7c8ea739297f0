"""Outputs computed again from what golden data tell of their operators, where the original model
does not tell it.
"""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Tuple

from ..judging.computed import beyond
from ..metrics.patterns import AlignedPair
from ..recomputing.arithmetic import LOOSE
from ..recomputing.by_golden import Told, computed, known, recomputed
from ..recomputing.decisions import may_redo, redo
from ..recomputing.recomputed import DECISION, ComputedPair, Recomputed
from .inputs import InputState
from .observations import ObservedOp
from .seen import Observation

Whole = Callable[
    [ObservedOp, Observation, Sequence[InputState]], Tuple[List[AlignedPair], Optional[AlignedPair]]
]
"""Reads the tensors of all inputs and of one output; None in place of the output where one cannot
be read.
"""

_NOT_KNOWN = "what it computes is not known without the original model"
_NOT_SHOWN = "golden data do not show what it computes"
_TOO_LARGE = "its tensors are too large to learn from golden data what it computes"
_NOT_READ = "its tensors cannot be read, or not all of its inputs were compared"


def computed_by_golden(
    op: ObservedOp, inputs: Sequence[InputState], whole: Whole, told: Optional[Told]
) -> List[Recomputed]:
    """Compute the outputs of an operator by what golden data tell.

    Parameters
    ----------
    inputs
        The operator's.
    told
        What the model's json and the dump tell of the op besides.
    """
    found = []
    for number, output in op.outputs.items():
        if not output.compared or (output.whole and not may_redo(op.type)):
            continue
        if known(op.type) or may_redo(op.type) or told is not None:
            found.append(_computed(op, output, inputs, whole, told))
        else:
            found.append(Recomputed(op.name, op.type, number, reason=_NOT_KNOWN))
    return found


def _computed(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    whole: Whole,
    told: Optional[Told],
) -> Recomputed:
    if not inputs or any(state.seen is None for state in inputs):
        return Recomputed(op.name, op.type, output.number, reason=_NOT_READ)
    read, made = whole(op, output, inputs)
    if made is None:
        return Recomputed(op.name, op.type, output.number, reason=_NOT_READ)
    if any(pair.sampled for pair in (*read, made)):
        return Recomputed(op.name, op.type, output.number, reason=_TOO_LARGE)
    # Equal inputs leave no choice: a tie that was decided otherwise is the operator's own.
    fed = any(
        state.seen is not None and (state.seen.different or state.seen.distance > 0)
        for state in inputs
    )
    decided = redo(op.type, read, made) if fed and may_redo(op.type) else None
    if decided is not None:
        return Recomputed(op.name, op.type, output.number, DECISION, output.dtype, decided)
    own = None if output.whole else recomputed(op.type, read, made, LOOSE.get(output.dtype), told)
    if own is None:
        return Recomputed(op.name, op.type, output.number, reason=_NOT_SHOWN)
    return Recomputed(op.name, op.type, output.number, own.kind, output.dtype, own.tight, own.loose)


def beside_by_golden(
    op: ObservedOp,
    output: Observation,
    inputs: Sequence[InputState],
    whole: Whole,
    told: Optional[Told] = None,
) -> Optional[ComputedPair]:
    """Return an output beside what golden data tell of its operator makes of the device's own
    inputs; None where they do not tell it.
    """
    if not inputs or any(state.seen is None for state in inputs):
        return None
    read, made = whole(op, output, inputs)
    found = None if made is None else computed(op.type, read, made, told)
    if made is None or found is None:
        return None
    names = [state.source or state.tensor for state in inputs]
    return ComputedPair(
        made.target, found, output.dtype, [(name, pair.target) for name, pair in zip(names, read)]
    )


def made_of_inputs(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> bool:
    """Tell whether an output is what its operator makes of the device's own inputs, however far
    these are from golden data.
    """
    if may_redo(op_type):
        redone = redo(op_type, inputs, output, exactly=True)
        if redone is not None:
            return not redone.unequal
    return follows(op_type, inputs, output) is True


def follows(op_type: str, inputs: Sequence[AlignedPair], output: AlignedPair) -> Optional[bool]:
    """Tell whether an output is what its operator makes of the device's own inputs, but for
    rounding; None: golden data show nothing.
    """
    own = recomputed(op_type, inputs, output, LOOSE.get(output.dtype), None)
    if own is None:
        return None
    return any(error is not None and beyond(error) <= 1.0 for error in (own.tight, own.loose))
