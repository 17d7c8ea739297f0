"""Which ops never leave a dump file, and why. What depends on the run is in :mod:`.absent_ops`.

Source: the vendor's documents on dump configuration (ops that are not dumped) and GE's handling of
ops without a task: its local and host engines launch nothing on the device, HCCL's ops are no
kernels.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Optional

from ..base.fast_dataclasses import dataclass
from .op_node import OpNode


@dataclass(frozen=True)
class DumpRequest:
    """What the device was asked to dump of one model.

    Attributes
    ----------
    positions
        Positions in the model file of the requested ops; None: all.
    reason
        Why the other ops have no dump.
    mode
        ``dump_mode``: ``input``, ``output`` or ``all``; None if unknown.
    """

    positions: Optional[FrozenSet[int]] = None
    reason: str = ""
    mode: Optional[str] = None

    def excludes(self, op: OpNode) -> bool:
        """Return whether an op was not requested."""
        return self.positions is not None and op.position not in self.positions


EVERYTHING = DumpRequest()
"""The request if the configuration is unknown: every op, with the tensors that its dump holds."""


_INPUT = "a model input is not computed on the device, so it has no dump"
_CONSTANT = "a constant is not computed on the device, so it has no dump"
_VARIABLE = "a variable is not computed on the device, so it has no dump"
_OUTPUT = "the model's output node computes nothing, so it has no dump"
_STREAM = "an op that only steers streams, events or labels has no dump"
_CONTROL = "a control-flow op runs on the host or as a subgraph, so it has no dump"
_NOTHING = "an op that computes nothing has no dump"
_CLEARS = "an op that only clears memory for others has no dump"
_NO_OUTPUT = "an op without any output has no dump"
_NO_TASK = "the compiler gave this op no task on the device, so it has no dump"
_HOST = "the op runs on the host, so it has no dump"
_COLLECTIVE = "a collective op is not run by a kernel of its own, so it has no dump"
_TRAINING_DATA = "an op that hands out training data may run on the host, so it may have no dump"
_HANDLE = "an op that only hands out a handle (a resource) has no dump"

# As graphs of several years have it: HcomAllReduce, HorovodAllreduce, HvdCallbackAllReduce,
# HvdWait.
_COLLECTIVE_STARTS = ("hcom", "horovod", "hvdcallback", "hvdwait")
_LIBRARIES = {
    "DNN_VM_GE_LOCAL_OP_STORE": _NO_TASK,
    "DNN_VM_HOST_CPU_OP_STORE": _HOST,
    "ops_kernel_info_hccl": _COLLECTIVE,
}
_RESOURCE = "DT_RESOURCE"

CONSTANT_TYPES = frozenset(["Const", "Constant", "ConstPlaceHolder", "FileConstant"])
"""Types of constants."""

AIPP = "Aipp"
"""The type that makes the network's input of an image: its output is what the network reads."""

INPUT_TYPES = frozenset(["Data", "AippData", "RefData", "AnnData"])
"""Types of the model's inputs."""

ITERATOR_TYPES = frozenset(["IteratorV2", "Iterator", "GetNext"])
"""Types of what hands out training data."""

VARIABLE_TYPES = frozenset(["Variable", "VariableV2", "VarHandleOp"])
FIXED_TYPES = CONSTANT_TYPES | VARIABLE_TYPES
"""Types of constants and variables."""

_REASONS: Dict[str, str] = {"NetOutput": _OUTPUT}
_REASONS.update(
    (name, _NOTHING)
    for name in ("NoOp", "ControlTrigger", "EndGraph", "PhonyConcat", "PhonySplit", "ConditionCalc")
)
_REASONS.update((name, _INPUT) for name in INPUT_TYPES)
_REASONS.update((name, _CONSTANT) for name in CONSTANT_TYPES)
_REASONS.update((name, _VARIABLE) for name in VARIABLE_TYPES)
_REASONS.update((name, _CLEARS) for name in ("AtomicAddrClean", "DynamicAtomicAddrClean", "MemSet"))
_REASONS.update(
    (name, _STREAM)
    for name in (
        "StreamActive", "StreamSwitch", "StreamSwitchN", "StreamMerge", "Send", "Recv", "SendMem",
        "RecvMem", "SendNotify", "RecvNotify",
        "LabelSet", "LabelGoto", "LabelGotoEx", "LabelSwitch", "LabelSwitchByIndex", "ModelExit",
    )
)  # fmt: skip
_REASONS.update(
    (name, _CONTROL)
    for name in (
        "If", "_If", "StatelessIf", "While", "_While", "StatelessWhile", "For", "Case",
        "StatelessCase",
        "PartitionedCall", "StatefulPartitionedCall",
    )
)  # fmt: skip


def never_dumps(op_type: str) -> Optional[str]:
    """Return why ops of this type never have a dump file, or None."""
    reason = _REASONS.get(op_type)
    if reason is None and op_type.lower().startswith(_COLLECTIVE_STARTS):
        return _COLLECTIVE
    return reason


def no_dump_reason(op: OpNode) -> Optional[str]:
    """Return why this op never has a dump file (its type, no task, no data), or None when it may
    have one.
    """
    reason = never_dumps(op.type)
    if reason is None and op.no_task:
        reason = _NO_TASK
    if reason is None:
        reason = _LIBRARIES.get(op.kernel_library)
    if reason is None and op.no_output:
        reason = _NO_OUTPUT
    if reason is None and _is_handle(op):
        reason = _HANDLE
    return reason


def may_lack_dump_reason(op: OpNode) -> Optional[str]:
    """Return why this op has no dump file where there is none, whatever ran; None when it should
    have one.
    """
    return _TRAINING_DATA if op.type in ITERATOR_TYPES else no_dump_reason(op)


def _is_handle(op: OpNode) -> bool:
    """Return whether an op has no inputs and all its outputs are resource handles."""
    outputs = [desc.dtype for desc in op.output_descs]
    return bool(outputs) and not op.inputs and all(dtype == _RESOURCE for dtype in outputs)
