"""The result of pairing for one target tensor: its golden tensor, or the reason why it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Optional, Tuple

from ..base.fast_dataclasses import dataclass

if TYPE_CHECKING:
    from ..dumps.folder_listing import DumpEntry
    from ..dumps.slices import AnyDump

PAIR = "pair"
NOT_COMPARED = "not_compared"
EXPECTED_ABSENT = "expected_absent"
OMITTED = "omitted"

INPUT = "input"
OUTPUT = "output"
OP = "op"
OWN_INPUT = "own_input"
"""Golden side of a tensor that is compared with an input of its own dump file."""


ONLY_INPUTS = "only inputs were dumped"
"""Start of the reason for an output that its dump lacks because of ``dump_mode`` ``input``."""

MISSING_OUTPUT = "the dump lacks it: the model gives this op %d outputs, the dump holds %d"
"""The reason for an output that its dump lacks and should hold."""

DEQUANTISED = "dequantised by scale %.9g and offset %.9g of the model"
"""The note on a tensor that is dequantised before it is compared."""


@dataclass(frozen=True)
class DumpedOp:
    """One dump file as the pairing sees it.

    Attributes
    ----------
    op_name, op_type
        From the file's name (sanitised) or its header (raw).
    timestamp_us
        Microseconds since the epoch.
    n_inputs, n_outputs
        How many tensors the file's header lists.
    slice
        (context, thread) of a file that FFTS+ wrote; its rows have both in their TensorIndex.
    """

    op_name: str
    op_type: str
    timestamp_us: int
    n_inputs: int
    n_outputs: int
    slice: Optional[Tuple[int, int]] = None


@dataclass(frozen=True)
class Counterpart:
    """The golden tensor of one output of one op.

    Attributes
    ----------
    status
        ``pair``; ``not_compared`` and ``expected_absent`` (a row without metrics); ``omitted`` (no
        row, to be listed with its reason).
    reason
        Why there is no golden tensor, or a note on the pair; may be empty for a pair.
    golden_op, golden_index
        The original op (raw name) and its output; given even if its golden file is missing.
    origin_format, origin_shape
        Layout and shape of the tensor in the original model, as given by the model file.
    golden_kind
        ``output``, or ``input`` of a device dump on the golden side; ``own_input`` of the target's
        own dump file.
    quantisation
        (scale, offset) by which integers are dequantised before comparing, x = (q − offset) /
        scale; None for floats.
    reshaped
        Shape in the original model of an input that is read in another shape than its producer
        made, with as many elements: the compiler removes Reshape, Flatten and similar ops.
    """

    status: str
    reason: str = ""
    golden_op: Optional[str] = None
    golden_index: Optional[int] = None
    origin_format: Optional[str] = None
    origin_shape: Optional[Tuple[int, ...]] = None
    golden_kind: str = OUTPUT
    quantisation: Optional[Tuple[float, float]] = None
    reshaped: Optional[Tuple[int, ...]] = None

    def noted(self, note: str) -> Counterpart:
        """Return a copy with one more note."""
        return replace(self, reason="; ".join(filter(None, (self.reason, note))))


@dataclass(frozen=True)
class RowPlan(Counterpart):
    """A planned row: a target tensor and its counterpart, or the reason why it has none.

    Attributes
    ----------
    index
        The group's number in the json's order, from 0; ops that are not in the json follow in order
        of arrival.
    op_sequence, graph_index
        The op's id and its graph's number; ``op_sequence`` is None for an op that is not in the
        json, and without a json.
    op, op_type
        As in the json, else as in the dump.
    group
        The names of all ops of the group, in the json's order.
    golden
        The GroundTruth cell: the original names joined by ``,``, or ``*``.
    kind, tensor_index
        ``input`` or ``output`` and the number in the dump; ``op`` and None for a row about the
        whole op.
    tensor
        ``{op}:input:{i}``, ``{op}:output:{i}``, or the op's name.
    dumped, only_inputs
        False for an output that the model declares and the dump lacks; True where it lacks it
        because of ``dump_mode`` ``input``.
    """

    index: int = 0
    op: str = ""
    op_type: str = ""
    kind: str = OP
    tensor: str = ""
    tensor_index: Optional[int] = None
    op_sequence: Optional[int] = None
    graph_index: int = 0
    group: Tuple[str, ...] = ()
    golden: str = "*"
    dumped: bool = True
    only_inputs: bool = False


def dumped_op(entry: DumpEntry, dump: Optional[AnyDump]) -> DumpedOp:
    """Return a dump file as pairing needs it; one that cannot be opened has no tensors."""
    inputs, outputs = (len(dump.inputs), len(dump.outputs)) if dump is not None else (0, 0)
    return DumpedOp(
        entry.name.op_name,
        entry.name.op_type,
        entry.name.timestamp_us,
        inputs,
        outputs,
        entry.name.slice,
    )
