"""Whether an input was overwritten by an output of its op, and whether an output cancels the op's
inputs: told by the other tensors of the same dump file.

An op that works in place leaves its output where its input was: an input that equals an output byte
for byte is what the op wrote.

An op that adds or averages may cancel what it is given: the mean of centred values, x − mean(x).
The result then holds nothing but the rounding of its inputs, however exact the device is, and is
judged against the inputs' magnitude: each element may be off by one unit in the last place of the
inputs' root mean square.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Optional, Sequence, Tuple

import numpy as np

from ..base.errors import FormatError, GoldwatchError, NotComparable
from ..base.naming import RESHAPING_TYPES
from ..tensors.tensor import PIECE_BYTES, ByteSource, HeldBytes, Tensor
from ..tensors.type_precision import rounding_of
from .pair_sums import PairSums

if TYPE_CHECKING:
    from ..dumps.dump_file import TensorInfo
    from ..dumps.slices import AnyDump

OVERWRITTEN = (
    "it equals an output of the op byte for byte, so the dump holds what the op wrote there"
)
CANCELLED = "%s cancels its inputs: judged against the rounding of their magnitude"

CANCELS = 16.0
"""Outputs that are smaller than the inputs by this factor hold rounding of them that counts;
chosen, no trial.
"""

_KEEPING = frozenset(
    [
        *map(str.lower, RESHAPING_TYPES),
        *"identity identityn reformat bitcast stopgradient dropout snapshot cast transdata".split(),
    ]
)
_SUMMING = frozenset(
    """
    sub add addv2 addn biasadd bias eltwise accumulatenv2
    mean reducemean reducemeand reducemeanwithcount avgpool avgpoolv2 avgpoolexp
    """.split()
)
_TOTALS = frozenset("sum reducesum reducesumd reducesumv2".split())


_FIRST_BYTES = 4096
"""Tensors that differ differ here, nearly always."""


def keeps_values(op_type: str) -> bool:
    """Tell whether an op of this type gives out what it is given: equal bytes then say nothing."""
    return op_type.lower() in _KEEPING


def may_cancel(op_type: str) -> bool:
    """Tell whether an op of this type adds or averages, in the units of its inputs."""
    return op_type.lower() in _SUMMING or op_type.lower() in _TOTALS


def same_bytes(mine: ByteSource, theirs: ByteSource) -> bool:
    """Tell whether two sources hold the same bytes; False where they cannot be read."""
    if isinstance(mine, HeldBytes) and isinstance(theirs, HeldBytes):
        return mine.data == theirs.data
    if mine.nbytes != theirs.nbytes:
        return False
    try:
        start, size = 0, _FIRST_BYTES
        while start < mine.nbytes:
            size = min(size, mine.nbytes - start)
            if not np.array_equal(mine.read(start, size), theirs.read(start, size)):
                return False
            start, size = start + size, PIECE_BYTES
    except (OSError, FormatError):
        return False
    return True


def cancelling_slack(
    op_type: str, target: Tensor, sums: PairSums, inputs: Sequence[Tensor]
) -> Optional[float]:
    """Return how far the rounding of the inputs may move each element of an output.

    Parameters
    ----------
    op_type, target
        Of the output.
    sums
        Of the output and its golden tensor.
    inputs
        The inputs in the same dump file.

    Returns
    -------
    float
        None where the inputs do not cancel, or are not known.
    """
    if not sums.n or sums.ey:
        return None
    golden = math.sqrt(sums.yy / sums.n)
    largest, count = max(
        ((_root_mean_square(tensor), tensor.count) for tensor in inputs), default=(0.0, 0)
    )
    gain = math.sqrt(max(1.0, count / sums.n)) if op_type.lower() in _TOTALS else 1.0
    if not golden * CANCELS < gain * largest < math.inf:
        return None
    bits = min(rounding_of(tensor.dtype.name).fraction_bits for tensor in (target, *inputs))
    return math.ldexp(gain * largest, -bits)


@np.errstate(over="ignore", invalid="ignore")
def _root_mean_square(tensor: Tensor) -> float:
    """Return that of a tensor's elements, padding included; 0 where it cannot be read or is not
    finite throughout.
    """
    if not tensor.dtype.decodable or tensor.dtype.kind not in ("f", "i", "u") or not tensor.count:
        return 0.0
    step = max(1, PIECE_BYTES * 8 // max(1, tensor.dtype.bits))
    squares = 0.0
    try:
        for start in range(0, tensor.count, step):
            values = tensor.elements(start, min(start + step, tensor.count)).astype(np.float64)
            squares += float(np.add.reduce(values * values))
    except (GoldwatchError, OSError):
        return 0.0
    return math.sqrt(squares / tensor.count) if math.isfinite(squares) else 0.0


def beside_of(dump: AnyDump, info: TensorInfo, op_type: str) -> Tuple[Tensor, ...]:
    """Return :attr:`goldwatch.metrics.pair_task.PairTask.beside` of a tensor."""
    if info.kind == "input" and not keeps_values(op_type):
        others = [other for other in dump.outputs if other.size_bytes == info.size_bytes]
    else:
        others = list(dump.inputs) if info.kind == "output" and may_cancel(op_type) else []
    tensors = []
    for other in others:
        with contextlib.suppress(NotComparable):
            tensors.append(dump.tensor(other.kind, other.index))
    return tuple(tensors)
